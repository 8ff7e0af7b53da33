/**
 * A table of the Node page: rows that change, appear and disappear.
 */
import { conditions, pods, resources } from "../panels/node.js";
import { arrange, fresh, mark, part, write } from "./patch.js";

/** @typedef {import("../panels/node.js").Row} Row */
/** @typedef {import("../types.js").Tables} Tables */

/** @type {Record<string, (tables: Tables, name: string) => Row[] | null>} */
const ROWS = {
  resources: ({ nodes }, name) => (nodes[name] ? resources(nodes[name]) : null),
  pods: (tables) => pods(tables.pods),
  conditions: ({ nodes }, name) => (nodes[name] ? conditions(nodes[name]) : null),
};

/** @type {import("../page.js").Behaviour} */
export function rows(root, { words, now, page }) {
  const body = part(root, "tbody"), home = /** @type {HTMLElement} */ (root.parentElement);
  const make = ROWS[root.dataset["liveRows"] ?? ""];
  return {
    update(tables) {
      const wanted = make?.(tables, page.view?.node ?? "");
      if (!wanted) return;
      const shown = new Map([...body.children].map((row) => [row.getAttribute("data-key"), row]));
      const order = wanted.map((row) => {
        const element = shown.get(row.key) ?? fresh(home, "template");
        patch(element, row, shown.has(row.key));
        return element;
      });
      arrange(body, order);
    },
  };

  /**
   * @param {Element} element
   * @param {Row} row
   * @param {boolean} known a row that is new does not flash cell by cell
   */
  function patch(element, row, known) {
    mark(element, "data-key", row.key);
    mark(element, "data-level", row.level);
    for (const cell of element.children) {
      const column = cell.getAttribute("data-c") ?? "", small = cell.querySelector("small");
      write(part(cell, "span"), row.cells[column] ?? null, words, now(), { flash: known });
      if (small) write(small, row.small[column] ?? "", words, now(), { flash: known });
    }
  }
}
