/**
 * What the Node page says of a node's labels, annotations and events: the mirror of dashboard/panels/records.py.
 */
import { say } from "../words.js";

/** @typedef {import("../types.js").EventRow} EventRow */
/** @typedef {import("../types.js").LabelsRow} LabelsRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("./tables.js").Row} Row */

/**
 * The newest first; those without a time last.
 * @param {Record<string, EventRow>} happened
 * @returns {Row[]}
 */
export function events(happened) {
  return Object.entries(happened)
    .sort(([a, one], [b, two]) => (two.last_at ?? 0) - (one.last_at ?? 0) || (a < b ? 1 : -1))
    .map(([key, row]) => {
      const cells = {
        event: row.reason, message: row.message || "–", times: row.count, last: row.last_at === null ? null : { age: row.last_at },
      };
      /** @type {Text} */
      const about = [row.kind, row.namespace ? `${row.namespace}/${row.name}` : row.name];
      const small = { event: about, message: row.source };
      return { key, level: row.type === "Warning" ? "warn" : "", cells, small, nil: row.count === 1 ? ["times"] : [] };
    });
}

/**
 * Labels or annotations, in their order.
 * @param {[string, string][]} found
 * @returns {Row[]}
 */
export function texts(found) {
  return found.map(([name, value]) => ({ key: name, level: "", cells: { label: name, value: value || say("labels.empty") }, small: {} }));
}

/**
 * @param {LabelsRow} row
 * @returns {Text}
 */
export function labelCount(row) {
  return say("labels.labels", { n: row.labels.length });
}
