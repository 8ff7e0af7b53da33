/**
 * The key numbers; while data is lost, each says as of when it is.
 */
import { levelGlyph, keyNumbers } from "../panels/fleet.js";
import { say } from "../words.js";
import { glyph, mark, part, write } from "./patch.js";

/** @type {import("../page.js").Behaviour} */
export function numbers(root, context) {
  const { words, now } = context;
  const cells = new Map([...root.querySelectorAll("[data-number]")].map((cell) => [cell.getAttribute("data-number"), cell]));
  return {
    update(tables) {
      for (const number of keyNumbers(tables)) {
        const cell = cells.get(number.id);
        if (cell === undefined) continue;
        mark(cell, "data-level", number.level);
        glyph(part(cell, ".v .ico"), levelGlyph(number.level));
        write(part(cell, ".v > span"), number.value, words, now());
        write(part(cell, ".v > small"), number.unit, words, now(), { flash: false });
        write(part(cell, ".s"), number.note, words, now(), { flash: false });
        const link = cell.querySelector("a[data-link]");
        if (link) mark(link, "href", number.node ? context.nodeUrl(number.node) : "");
      }
    },
    freshness(state, at) {
      for (const cell of cells.values()) {
        const note = cell.querySelector(".asof");
        if (state !== "lost") note?.remove();
        else write(note ?? newNote(cell), say("fresh.as-of", { time: { clock: at } }), words, now(), { flash: false });
      }
    },
  };
}

/** @param {Element} cell */
function newNote(cell) {
  const note = document.createElement("dd");
  note.className = "asof";
  cell.append(note);
  return note;
}
