/**
 * The sentences of the attention list: the mirror of dashboard/panels/attention.py.
 */
import { say } from "../words.js";
import { levelGlyph, natural } from "./fleet.js";

/** @typedef {import("../types.js").AttentionRow} AttentionRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {{key: string, level: string, glyph: string, title: Text, evidence: Text, since: number | null, node: string,
 *   action: Text}} Entry */

/**
 * Most urgent first; streams that are broken come before what they may hide.
 * @param {Record<string, AttentionRow>} rows
 * @param {[string, string, number][]} [trouble] kind, reason, since when
 * @returns {Entry[]}
 */
export function entries(rows, trouble = []) {
  const lost = trouble.map(([kind, reason, since]) => stream(kind, reason, since));
  const sorted = Object.entries(rows).sort(([, a], [, b]) => urgency(a, b));
  return [...lost, ...sorted.map(([key, row]) => entry(key, row))];
}

/**
 * @param {AttentionRow} a
 * @param {AttentionRow} b
 */
function urgency(a, b) {
  const since = (/** @type {AttentionRow} */ row) => row.since_at ?? Number.MAX_VALUE;
  return a.rank - b.rank || since(a) - since(b) || natural(a.subject, b.subject);
}

/**
 * @param {string} key
 * @param {AttentionRow} row
 * @returns {Entry}
 */
export function entry(key, row) {
  const values = { subject: row.subject, node: row.node, ...Object.fromEntries(row.facts.map(fact)) };
  return {
    key,
    level: row.level,
    glyph: levelGlyph(row.level) || "s-info",
    title: say(`attention.${row.kind}`, values),
    evidence: say(`evidence.${row.kind}`, values),
    since: row.since_at,
    node: row.node,
    action: row.node ? say("attention.open", { node: row.node }) : "",
  };
}

/**
 * @param {[string, string | number | null]} fact
 * @returns {[string, Value]}
 */
function fact([name, value]) {
  if (typeof value !== "number") return [name, value];
  return [name, name.endsWith("_at") ? { clock: value } : Math.trunc(value)];
}

/**
 * @param {string} kind
 * @param {string} reason
 * @param {number} since
 * @returns {Entry}
 */
function stream(kind, reason, since) {
  const title = say("attention.stream", { kind }), evidence = say("evidence.stream", { reason });
  return { key: `stream:${kind}`, level: "warn", glyph: "s-warn", title, evidence, since, node: "", action: "" };
}

/**
 * The most urgent evidence about one node, or that there is none.
 * @param {Record<string, AttentionRow>} rows
 * @returns {Text}
 */
export function summary(rows) {
  return entries(rows)[0]?.evidence ?? say("node.fine");
}
