/**
 * One node's card: level, glyph, words, free count and cells.
 */
import { card } from "../panels/fleet.js";
import { patchCells } from "./cells.js";
import { glyph, mark, part, write } from "./patch.js";

/** @typedef {import("../page.js").Context} Context */

/**
 * @param {HTMLElement} item the list item of the card
 * @param {import("../types.js").NodeRow} node
 * @param {Context} context
 */
export function patchCard(item, node, { words, now }) {
  const view = card(node), at = now();
  mark(part(item, ".node"), "data-level", view.level);
  write(part(item, ".prod"), view.product, words, at, { flash: false });
  patchCells(part(item, ".gpus"), view.cells);
  const line = part(item, ".say"), [text, free] = line.querySelectorAll(":scope > span");
  glyph(part(line, ".ico"), view.glyph);
  if (text) write(text, view.words, words, at);
  if (free) write(free, view.free, words, at);
  write(part(item, ".vh"), view.label, words, at, { flash: false });
}

/**
 * @param {HTMLElement} item a copy of the page's template
 * @param {import("../types.js").NodeRow} node
 * @param {Context} context
 */
export function fillCard(item, node, context) {
  item.dataset["node"] = node.name;
  part(item, ".name").textContent = node.name;
  part(item, ".node").setAttribute("href", context.nodeUrl(node.name));
  patchCard(item, node, context);
}
