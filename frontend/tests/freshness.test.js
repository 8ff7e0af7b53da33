/**
 * When data counts as old.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { judge } from "../static/js/live/freshness.js";

test("under 10 s live, up to 60 s late, then lost", () => {
  for (const [age, expected] of [
    [-3, "live"], [0, "live"], [9.9, "live"], [10, "late"], [60, "late"], [60.1, "lost"], [1e6, "lost"],
  ]) assert.equal(judge(age), expected, String(age));
});
