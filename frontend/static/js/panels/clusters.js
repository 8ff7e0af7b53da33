/**
 * What the page of all clusters says of one: the mirror of dashboard/panels/clusters.py.
 */
import { say } from "../words.js";
import { entries } from "./attention.js";
import { keyNumbers, mapSize } from "./fleet.js";

/** @typedef {import("../types.js").Tables} Tables */
/** @typedef {import("../words.js").Text} Text */

const NUMBERS = ["available", "free", "largest", "waiting", "not-ready"];

/** @param {Pick<Tables, "fleet" | "attention">} tables */
export function card({ fleet, attention }) {
  const all = keyNumbers(/** @type {Tables} */ ({ fleet, products: {} }));
  const found = entries(attention), first = found[0], row = fleet["fleet"];
  /** @type {Text} */
  const words = first ? [say("clusters.attention", { n: found.length }), first.title] : say("clusters.calm");
  return {
    numbers: all.filter((number) => NUMBERS.includes(number.id)),
    size: row ? mapSize(row) : "",
    level: first?.level ?? "",
    glyph: first?.glyph ?? "s-info",
    words,
  };
}
