/**
 * How old a workload's newest complete checkpoint is, in one cell: the mirror of dashboard/panels/save_ages.py.
 */
import { say } from "../words.js";

/** @typedef {import("../types.js").CheckpointRow} CheckpointRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */

/** @type {Record<string, string>} */
const GLYPHS = { ok: "s-ok", warn: "s-warn", bad: "s-bad", off: "s-unknown" };

/**
 * Glyph, words and second line.
 * @param {CheckpointRow | undefined} row undefined: it does not train
 * @returns {[string, Value, Text]}
 */
export function cell(row) {
  if (row === undefined) return ["", "–", ""];
  const glyph = GLYPHS[row.level] ?? "", at = row.newest_at ?? row.reported_at, aimless = row.standing === "unknown" && !row.target_s;
  const standing = say(`standing.${at !== null && aimless && !row.skew_s ? "no-target" : row.standing}`);
  return at === null || row.skew_s ? [glyph, standing, ""] : [glyph, { age: at }, standing];
}
