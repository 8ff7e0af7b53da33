/**
 * A sentence beside a heading that follows the picture: each is one function of the rows.
 */
import { cordon, podCounts } from "../panels/node.js";
import { labelCount } from "../panels/records.js";
import * as rollouts from "../panels/rollouts.js";
import * as waiting from "../panels/waiting.js";
import * as workloads from "../panels/workloads.js";
import { write } from "./patch.js";

/** @typedef {import("../types.js").Tables} Tables */
/** @typedef {import("../words.js").Text} Text */

/** @type {Record<string, (tables: Tables) => Text>} */
const TOLD = {
  people: ({ pods }) => podCounts(Object.values(pods))[0],
  own: ({ pods }) => podCounts(Object.values(pods))[1],
  labels: ({ labels }) => labelCount(Object.values(labels)[0] ?? { labels: [], annotations: [] }),
  cordon: ({ nodes, labels }) => cordon(Object.values(nodes)[0], Object.values(labels)[0]),
  workloads: (tables) => workloads.counts(tables.workloads, workloads.choice(new URLSearchParams(location.search))),
  rollouts: (tables) => rollouts.counts(tables.rollouts, rollouts.choice(new URLSearchParams(location.search))),
  moving: (tables) => String(rollouts.moving(tables.rollouts)),
  waiting: ({ pods }) => waiting.counts(pods),
};

/** @type {import("../page.js").Behaviour} */
export function told(root, { words, now }) {
  const make = TOLD[root.dataset["liveTold"] ?? ""];
  return {
    update(tables) {
      if (make) write(root, make(tables), words, now());
    },
  };
}

/** Shown while a table has no rows. @type {import("../page.js").Behaviour} */
export function calm(root, _context) {
  const table = root.parentElement?.querySelector("[data-live-rows]");
  return {
    update() {
      const some = table?.querySelector("tbody tr") !== null;
      root.toggleAttribute("hidden", some);
      table?.parentElement?.toggleAttribute("hidden", !some);
    },
  };
}
