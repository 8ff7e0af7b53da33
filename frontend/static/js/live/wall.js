/**
 * The screen on a wall: alarm, list, map and clock. Nobody touches it: when nodes come or go it loads itself again.
 */
import { entries } from "../panels/attention.js";
import { card } from "../panels/fleet.js";
import { groups, told } from "../panels/wall.js";
import { say } from "../words.js";
import { patchCells } from "./cells.js";
import { arrange, fresh, glyph, mark, part, write } from "./patch.js";
import { patchTags } from "./tags.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../panels/attention.js").Entry} Entry */

/** @type {import("../page.js").Behaviour} */
export function wallAlarm(root, { words, now }) {
  return {
    update({ attention }) {
      const { alarm, more } = told(entries(attention)), at = now();
      root.toggleAttribute("hidden", alarm === null);
      mark(root, "data-alarm", alarm ? "on" : "");
      if (alarm === null) return;
      write(part(root, "h2 span"), alarm.title, words, at, { flash: false });
      write(part(root, "h2 small"), more, words, at, { flash: false });
      write(part(root, "p"), alarm.evidence, words, at, { flash: false });
      const since = alarm.since;
      write(part(root, ".when > span"), since === null ? "" : { age: since }, words, at, { flash: false });
      write(part(root, ".when > small"), since === null ? "" : say("wall.since", { time: { clock: since } }), words, at, { flash: false });
    },
  };
}

/** @type {import("../page.js").Behaviour} */
export function wallList(root, { words, now }) {
  const list = part(root, ".wall-list");
  return {
    update({ attention }) {
      const shown = new Map([...list.children].map((item) => [item.getAttribute("data-key"), /** @type {HTMLElement} */ (item)]));
      const { others, rest } = told(entries(attention));
      write(part(root, ".rest"), rest, words, now(), { flash: false });
      arrange(list, others.map((entry) => fill(shown.get(entry.key) ?? fresh(root, "template"), entry)));
      part(root, ".calm").toggleAttribute("hidden", others.length > 0);
    },
  };

  /**
   * @param {HTMLElement} item
   * @param {Entry} entry
   */
  function fill(item, entry) {
    mark(item, "data-key", entry.key);
    mark(item, "data-level", entry.level);
    glyph(part(item, ".ico"), entry.glyph);
    write(part(item, "h3 b"), entry.title, words, now(), { flash: false });
    write(part(item, "h3 span"), entry.since === null ? "" : { age: entry.since }, words, now(), { flash: false });
    write(part(item, "p"), entry.evidence, words, now(), { flash: false });
    return item;
  }
}

/** @type {import("../page.js").Behaviour} */
export function wallMap(root, context) {
  const { words, now } = context;
  const drawn = root.querySelector("[data-node]") !== null;
  return {
    update(tables) {
      const found = groups(Object.values(tables.nodes));
      if (moved(found)) {
        location.reload();
        return;
      }
      for (const { id, open, available, total, marks, nodes } of found) {
        const section = part(root, `#${CSS.escape(id)}`), bar = section.querySelector("progress");
        write(part(section, "[data-open]"), open, words, now(), { flash: false });
        if (bar) [bar.max, bar.value] = [Math.max(1, total), available];
        const line = section.querySelector("[data-marks]");
        if (line) patchTags(/** @type {HTMLElement} */ (line), marks, () => fresh(root, "template"), context);
        for (const node of nodes) patch(node);
      }
    },
  };

  /** @param {ReturnType<typeof groups>} found */
  function moved(found) {
    const ids = [...root.querySelectorAll("[data-group]")].map((section) => section.id).join(" ");
    const names = [...root.querySelectorAll("[data-node]")].map((item) => item.getAttribute("data-node")).join(" ");
    const wanted = found.flatMap(({ nodes }) => nodes.map((node) => node.name)).join(" ");
    return ids !== found.map(({ id }) => id).join(" ") || (drawn && names !== wanted);
  }

  /** @param {NodeRow} node */
  function patch(node) {
    const item = root.querySelector(`[data-node="${CSS.escape(node.name)}"]`), view = card(node);
    if (item === null) return;
    mark(item, "data-level", view.level);
    glyph(part(item, ".ico"), view.glyph);
    patchCells(part(item, ".gpus"), view.cells);
    write(part(item, ".vh"), view.label, words, now(), { flash: false });
  }
}

/** The share of all GPUs that is available. @type {import("../page.js").Behaviour} */
export function wallBar(root, _context) {
  const bar = /** @type {HTMLProgressElement} */ (root);
  return {
    update({ fleet }) {
      const row = fleet["fleet"];
      if (row) [bar.max, bar.value] = [Math.max(1, row.gpus), row.available];
    },
  };
}

/** The time of day, and a new page when the day is another. @type {import("../page.js").Behaviour} */
export function wallClock(root, { words, now }) {
  const day = words.face(now())["day"];
  return {
    tick() {
      const face = words.face(now()), text = `${face["hour"]}:${face["minute"]}`;
      if (root.textContent !== text) root.textContent = text;
      if (face["day"] !== day) location.reload();
    },
  };
}
