/**
 * The lens of the dense map: the node under the pointer or the focus, as a card.
 */
import { fillCard } from "./card.js";
import { fresh, part } from "./patch.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */

/**
 * @param {HTMLElement} map
 * @param {import("../page.js").Context} context
 * @param {(name: string) => NodeRow | undefined} row
 */
export function startLens(map, context, row) {
  const root = document.querySelector("[data-lens]");
  const place = root && part(root, ".lens > div");
  let shown = "";

  /** @param {Event} event */
  function look(event) {
    const name = /** @type {Element} */ (event.target).closest("[data-node]")?.getAttribute("data-node");
    if (name && name !== shown && map.dataset["zoom"] !== "cards") show(name);
  }

  /** @param {string} name */
  function show(name) {
    const node = row(name);
    if (place === null || node === undefined) return;
    shown = name;
    const item = fresh(map, "template[data-new=card]");
    fillCard(item, node, context);
    const card = part(item, ".node");
    card.setAttribute("tabindex", "-1"); // the tile itself is the keyboard's way there
    place.replaceChildren(card);
  }

  function settle() {
    root?.toggleAttribute("hidden", map.dataset["zoom"] === "cards");
  }

  map.addEventListener("pointerover", look);
  map.addEventListener("focusin", look);
  settle();
  return {
    settle,
    /** @param {Set<string>} changed */
    update(changed) {
      if (changed.has(shown)) show(shown);
    },
  };
}
