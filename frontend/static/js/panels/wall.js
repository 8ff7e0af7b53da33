/**
 * What the screen on a wall says: the mirror of dashboard/panels/wall.py, as far as it changes in place.
 */
import { say } from "../words.js";
import { availableOf, groups as groupsOf } from "./fleet.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("./attention.js").Entry} Entry */

const MOST_ENTRIES = 3, MOST_GROUPS = 8;

/**
 * The most urgent failure, how many more there are, what else is listed, and how much is not.
 * @param {Entry[]} found
 * @returns {{alarm: Entry | null, more: Text, others: Entry[], rest: Text}}
 */
export function told(found) {
  const bad = found.filter((entry) => entry.level === "bad"), alarm = bad[0] ?? null;
  const others = found.filter((entry) => entry !== alarm), n = others.length - MOST_ENTRIES;
  const more = bad.length > 1 ? say("wall.more", { n: bad.length - 1 }) : "";
  return { alarm, more, others: others.slice(0, MOST_ENTRIES), rest: n > 0 ? say("wall.rest", { n }) : "" };
}

/** @param {NodeRow[]} nodes */
export function groups(nodes) {
  return groupsOf(nodes).slice(0, MOST_GROUPS).map(({ id, marks, nodes: members }) => {
    const total = members.reduce((sum, node) => sum + node.cells.length, 0);
    const available = availableOf(members);
    return { id, marks, available, total, open: say("wall.of", { available, total }), nodes: members };
  });
}
