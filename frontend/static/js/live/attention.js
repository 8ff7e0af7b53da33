/**
 * The attention list. It never moves under the pointer or the focus: what is new waits behind a button until the person looks away
 * or asks for it.
 */
import { entries } from "../panels/attention.js";
import { say } from "../words.js";
import { arrange, fresh, glyph, mark, part, write } from "./patch.js";

/** @typedef {import("../panels/attention.js").Entry} Entry */
/** @typedef {import("../page.js").Context} Context */

const SAME_STREAM_S = 5;

/** @type {import("../page.js").Behaviour} */
export function attention(root, context) {
  const { words, now } = context;
  const list = part(root, ".att-list"), heading = part(root, "h2"), button = part(root, ".bar button");
  const hint = part(root, ".bar .more > span");
  /** @type {Entry[]} */
  let wanted = [];
  /** @type {Map<string, number>} */
  const streams = new Map();
  /** @type {Record<string, import("../types.js").AttentionRow> | null} */
  let rows = null;
  let hovered = false;

  const busy = () => hovered || list.contains(document.activeElement) || button === document.activeElement;
  root.addEventListener("pointerenter", (event) => {
    hovered = event.pointerType === "mouse"; // a finger leaves no pointer behind
  });
  root.addEventListener("pointerleave", () => {
    hovered = false;
    settle();
  });
  root.addEventListener("focusout", (event) => {
    if (!root.contains(/** @type {Node | null} */ (event.relatedTarget))) setTimeout(settle, 0);
  });
  button.addEventListener("click", () => {
    heading.focus();
    settle({ asked: true });
  });

  return {
    update(tables, before) {
      if (tables.attention === before.attention && rows !== null) return;
      const known = rows;
      rows = tables.attention;
      show();
      if (known !== null) announce(known);
    },
    pulse(trouble) {
      const changed = remember(trouble);
      if (changed && rows !== null) show();
    },
    freshness(state) {
      for (const text of heading.querySelectorAll("[data-when]")) {
        text.toggleAttribute("hidden", (text.getAttribute("data-when") === "lost") !== (state === "lost"));
      }
    },
  };

  /**
   * Since when each stream is broken; the server tells it in seconds up to now, which wobbles.
   * @param {import("../types.js").Trouble[]} trouble
   */
  function remember(trouble) {
    const before = JSON.stringify([...streams]);
    const kinds = new Set(trouble.map(([kind, reason]) => `${kind}\n${reason}`));
    for (const key of streams.keys()) if (!kinds.has(key)) streams.delete(key);
    for (const [kind, reason, seconds] of trouble) {
      const key = `${kind}\n${reason}`, since = Math.round(now() - seconds);
      if (Math.abs((streams.get(key) ?? 0) - since) > SAME_STREAM_S) streams.set(key, since);
    }
    return before !== JSON.stringify([...streams]);
  }

  function show() {
    const broken = [...streams].map(([key, since]) => {
      const [kind = "", reason = ""] = key.split("\n");
      return /** @type {[string, string, number]} */ ([kind, reason, since]);
    });
    wanted = entries(rows ?? {}, broken);
    const shown = items();
    for (const entry of wanted) {
      const item = shown.get(entry.key);
      if (item) fill(item, entry);
    }
    settle();
  }

  /** Bring the list up to date, unless somebody is at it and has not asked for it: then say what waits. */
  function settle({ asked = false } = {}) {
    const keys = wanted.map((entry) => entry.key), there = [...items().keys()];
    const come = keys.filter((key) => !there.includes(key)).length;
    const gone = there.filter((key) => !keys.includes(key)).length;
    const waits = busy() && !asked && keys.join("\n") !== there.join("\n");
    if (waits) {
      const news = come ? say("news.new", { n: come }) : gone ? say("news.gone", { n: gone }) : say("news.moved");
      write(button, say("news.show", { news }), words, now());
    } else settleNow();
    button.toggleAttribute("hidden", !waits);
    hint.toggleAttribute("hidden", waits);
  }

  function settleNow() {
    const shown = items();
    arrange(list, wanted.map((entry) => {
      const item = shown.get(entry.key) ?? fresh(root, "template");
      if (!shown.has(entry.key)) fill(item, entry);
      return item;
    }));
    write(part(heading, "small"), wanted.length, words, now());
    part(root, ".calm").toggleAttribute("hidden", wanted.length > 0);
  }

  function items() {
    return new Map([...list.children].map((item) => [
      item.getAttribute("data-key") ?? "", /** @type {HTMLElement} */ (item),
    ]));
  }

  /** @param {Entry} entry */
  function where({ node, rollout, training, page }) {
    if (node) return context.nodeUrl(node);
    if (training) return context.trainingUrl(training);
    return rollout ? context.rolloutUrl(rollout) : context.page.page_urls[page] ?? "";
  }

  /**
   * @param {HTMLElement} item
   * @param {Entry} entry
   */
  function fill(item, entry) {
    const at = now(), link = part(item, ".btn");
    item.dataset["key"] = entry.key;
    mark(item, "data-level", entry.level);
    glyph(part(item, ".ico"), entry.glyph);
    write(part(item, "h3"), entry.title, words, at);
    write(part(item, ".since"), entry.since === null ? "" : { age: entry.since }, words, at, { flash: false });
    write(part(item, "p"), entry.evidence, words, at);
    const does = context.page.do_urls[entry.does];
    write(link, does ? say(`attention.do.${entry.does}`, { node: entry.node }) : entry.action, words, at, { flash: false });
    mark(link, "href", does ? does.replace(context.page.placeholder, encodeURIComponent(entry.node)) : where(entry));
    link.toggleAttribute("hidden", !entry.action);
  }

  /**
   * Say new failures aloud, once.
   * @param {Record<string, unknown>} known
   */
  function announce(known) {
    const fallen = wanted.filter((entry) => entry.level === "bad" && !entry.key.startsWith("stream:") && !Object.hasOwn(known, entry.key));
    if (fallen.length === 0) return;
    const titles = fallen.map((entry) => words.plain(say("news.alert", { title: entry.title }), now()));
    part(root, "[role=alert]").textContent = titles.join(" ");
  }
}
