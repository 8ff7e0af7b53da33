/**
 * A table: rows that change, appear and disappear. While somebody points at it, is in it or has scrolled into it, no row moves: new
 * ones come last, and the order is put right afterwards.
 */
import { gpus } from "../panels/gpus.js";
import { conditions, pods, resources, slots } from "../panels/node.js";
import { events, texts } from "../panels/records.js";
import * as rollouts from "../panels/rollouts.js";
import * as waiting from "../panels/waiting.js";
import * as workloads from "../panels/workloads.js";
import { arrange, fresh, glyph, mark, part, write } from "./patch.js";
import { trend } from "./trends.js";

/** @typedef {import("../panels/tables.js").Row} Row */
/** @typedef {import("../types.js").Tables} Tables */

/** @type {Record<string, (tables: Tables, name: string) => Row[] | null>} */
const ROWS = {
  resources: ({ nodes }, name) => (nodes[name] ? resources(nodes[name]) : null),
  slots: ({ nodes, pods: held }, name) => (nodes[name] ? slots(nodes[name], held) : null),
  gpus: ({ nodes, gpus: found }, name) => (nodes[name] ? gpus(found, nodes[name]) : null),
  pods: (tables) => pods(tables.pods, tables.checkpoints),
  conditions: ({ nodes }, name) => (nodes[name] ? conditions(nodes[name]) : null),
  events: (tables) => events(tables.events),
  annotations: ({ labels }, name) => (labels[name] ? texts(labels[name].annotations) : null),
  labels: ({ labels }, name) => (labels[name] ? texts(labels[name].labels) : null),
  workloads: (tables) => workloads.rows(tables.workloads, tables.checkpoints, workloads.choice(new URLSearchParams(location.search))),
  rollouts: (tables) => rollouts.rows(tables.rollouts, rollouts.choice(new URLSearchParams(location.search))),
  waiting: (tables) => waiting.rows(tables.pods, tables.nodes),
};

/** @type {import("../page.js").Behaviour} */
export function rows(root, { words, now, page, nodeUrl, gpuUrl, rolloutUrl, trainingUrl }) {
  const body = part(root, "tbody"), home = /** @type {HTMLElement} */ (root.parentElement);
  const make = ROWS[root.dataset["liveRows"] ?? ""];
  /** @type {string[]} */
  let order = [];
  /** What each row was last told, so that a table of a thousand rows costs what has changed. @type {Map<string, {row: Row, text: string}>} */
  const said = new Map();
  let hovered = false, reading = false;

  body.addEventListener("pointerenter", (event) => {
    hovered = event.pointerType === "mouse"; // a finger leaves no pointer behind
  });
  body.addEventListener("pointerleave", () => {
    hovered = false;
    settle();
  });
  body.addEventListener("focusout", () => setTimeout(settle, 0));
  // Whether the upper edge of the screen cuts the rows: who reads there, a finger included, would lose the place. An observer, since
  // measuring after a change would lay out a table of a thousand rows again.
  new IntersectionObserver((found) => {
    reading = found.at(-1)?.isIntersecting ?? false;
    settle();
  }, { rootMargin: "0px 0px -100% 0px" }).observe(body);

  return {
    update(tables) {
      const wanted = make?.(tables, page.view?.node ?? "");
      if (!wanted) return;
      order = wanted.map((row) => row.key);
      const shown = elements(), keys = new Set(order);
      for (const [key, element] of shown) if (!keys.has(key)) drop(key, element);
      for (const row of wanted) {
        if (!news(row)) continue;
        const element = shown.get(row.key) ?? body.appendChild(fresh(home, "template"));
        patch(element, row, shown.has(row.key));
      }
      settle();
    },
  };

  /**
   * Whether a row says anything that it has not said last.
   * @param {Row} row
   */
  function news(row) {
    const last = said.get(row.key);
    if (last?.row === row) return false;
    const text = JSON.stringify(row);
    said.set(row.key, { row, text });
    return last?.text !== text;
  }

  /**
   * @param {string} key
   * @param {Element} element
   */
  function drop(key, element) {
    said.delete(key);
    element.remove();
  }

  function elements() {
    return new Map([...body.children].map((row) => [row.getAttribute("data-key") ?? "", row]));
  }

  function settle() {
    if (order.length === 0 || hovered || reading || body.contains(document.activeElement)) return; // 0: nothing was told yet
    const shown = elements();
    arrange(body, order.flatMap((key) => shown.get(key) ?? []));
  }

  /**
   * @param {Element} element
   * @param {Row} row
   * @param {boolean} known a row that is new does not flash cell by cell
   */
  function patch(element, row, known) {
    mark(element, "data-key", row.key);
    mark(element, "data-level", row.level);
    for (const cell of element.children) {
      if (cell.hasAttribute("data-kept")) continue;
      const column = cell.getAttribute("data-c") ?? "", small = cell.querySelector("small");
      const line = cell.querySelector("svg.spark");
      if (line !== null) {
        trend(/** @type {SVGElement} */ (line), row.trend ?? null, row.level);
        continue;
      }
      const text = part(cell, "span, a"), icon = cell.querySelector(".ico"), gpu = cell.querySelector("i.gpu");
      write(text, row.cells[column] ?? null, words, now(), { flash: known && !cell.hasAttribute("data-quiet") });
      cell.classList.toggle("nil", row.nil?.includes(column) ?? false);
      if (small) write(small, row.small[column] ?? "", words, now(), { flash: known });
      if (icon) glyph(icon, row.marks?.[column] ?? "");
      if (gpu) paint(gpu, row.gpu ?? ["", ""]);
      const leads = row.links?.[column] ?? "";
      const url = column === "checkpoint" ? trainingUrl : gpu ? gpuUrl : root.dataset["liveRows"] === "rollouts" ? rolloutUrl : nodeUrl;
      if (text instanceof HTMLAnchorElement) mark(text, "href", leads && url(leads));
    }
  }
}

/**
 * @param {Element} gpu
 * @param {[string, string]} cell state and fifths
 */
function paint(gpu, [state, fifths]) {
  mark(gpu, "data-s", state);
  mark(gpu, "data-u", fifths);
}
