/**
 * The map's filters: legend and GPU model. Without script they are a form; with it, the same buttons work in place and the address
 * keeps the choice.
 */
import { mark } from "./patch.js";

/**
 * @param {HTMLElement} root
 * @param {() => void} changed
 */
export function startFilters(root, changed) {
  const buttons = /** @type {HTMLButtonElement[]} */ ([...root.querySelectorAll("button[form=filter]")]);
  const filter = {
    ...chosen(),
    /**
     * A legend entry follows what the map has; nothing else can be chosen.
     * @param {import("../types.js").NodeRow[]} rows
     */
    learn(rows) {
      if (filter.product && rows.length && !rows.some((row) => row.product === filter.product)) choose("product", "");
    },
  };

  /**
   * @param {"state" | "product"} name
   * @param {string} value
   */
  function choose(name, value) {
    filter[name] = value;
    const address = new URL(location.href);
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
    history.replaceState(null, "", address);
    show();
    changed();
  }

  function show() {
    for (const button of buttons) {
      const state = button.dataset["state"];
      const pressed = button.name === "state" ? filter.state === state : filter.product === button.value;
      button.setAttribute("aria-pressed", String(pressed));
      if (state !== undefined) mark(button, "value", pressed ? "" : state);
    }
    for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("#filter input"))) {
      field.value = field.name === "state" ? filter.state : filter.product;
    }
  }

  for (const button of buttons) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      const name = button.name === "state" ? "state" : "product";
      const state = button.dataset["state"];
      choose(name, state === undefined ? button.value : filter.state === state ? "" : state);
    });
  }
  addEventListener("popstate", () => {
    Object.assign(filter, chosen());
    show();
    changed();
  });
  return filter;
}

function chosen() {
  const query = new URLSearchParams(location.search);
  return { state: query.get("state") ?? "", product: query.get("product") ?? "" };
}
