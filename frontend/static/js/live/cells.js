/**
 * The cells of one node: one attribute per change.
 */
import { flash, mark } from "./patch.js";

/**
 * @param {HTMLElement} gpus
 * @param {{state: string, fifths: string}[]} cells
 */
export function patchCells(gpus, cells) {
  while (gpus.children.length > cells.length) gpus.lastElementChild?.remove();
  cells.forEach(({ state, fifths }, i) => {
    const cell = gpus.children[i] ?? gpus.appendChild(newCell());
    const known = cell.hasAttribute("data-s");
    const changed = mark(cell, "data-s", state);
    mark(cell, "data-u", fifths);
    if (changed && known) flash(cell);
  });
}

function newCell() {
  const cell = document.createElement("i");
  cell.className = "gpu";
  return cell;
}
