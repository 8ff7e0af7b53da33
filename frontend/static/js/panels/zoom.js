/**
 * What the map is narrowed to: the mirror of dashboard/panels/zoom.py.
 */
import { cellState } from "./fleet.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {{state: string, product: string, pool: string, only: string}} Filter */

export const FIELDS = /** @type {const} */ (["state", "product", "pool", "only"]);
const TROUBLE = "trouble";

/**
 * @param {Filter} filter
 * @param {NodeRow} node
 */
export function hides({ state, product, pool, only }, node) {
  return (state !== "" && ![...node.cells].some((letter) => cellState(letter) === state))
    || (product !== "" && product !== node.product)
    || (pool !== "" && pool !== node.pool)
    || (only === TROUBLE && node.level === "");
}

/** @param {Filter} filter */
export function narrows(filter) {
  return FIELDS.some((field) => filter[field] !== "");
}
