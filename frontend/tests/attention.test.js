/** The maintenance that an entry asks for: as in tests/dashboard/test_panels_checks.py. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { entry } from "../static/js/panels/attention.js";

/** @type {[string, string, string][]} */
const CASES = [
  ["reboot-node", "node-07", "maintain"],
  ["reset-bus", "node-07", "maintain"],
  ["drain-and-reset", "node-07", "drain"],
  ["contact-support", "node-07", "drain"],
  ["monitor", "node-07", ""],
  ["reboot-node", "", ""],
];

test("attention asks for the maintenance that comes next", () => {
  for (const [action, node, expected] of CASES) {
    const facts = [["pods", 1], ["gpus", 8], ["count", 1], ["indices", "3"], ["rule", "xid-79"], ["action", action],
      ["state", "lost"], ["evidence", "off the bus"]];
    const row = { kind: "gpu-lost", level: "bad", rank: 1, subject: node, node, since_at: null, facts };
    assert.equal(entry("k", /** @type {any} */ (row)).does, expected, action);
  }
});
