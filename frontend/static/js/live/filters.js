/**
 * The map's filters. Without script they are a form; with it, the same controls work in place and the address keeps the choice.
 */
import { FIELDS } from "../panels/zoom.js";
import { mark } from "./patch.js";

/** @typedef {import("../panels/zoom.js").Filter} Filter */
/** @typedef {typeof FIELDS[number]} Field */

/**
 * @param {HTMLElement} root
 * @param {() => void} changed
 */
export function startFilters(root, changed) {
  const buttons = /** @type {HTMLButtonElement[]} */ ([...root.querySelectorAll("button[form=filter]")])
    .filter((button) => FIELDS.includes(/** @type {Field} */ (button.name)));
  const selects = /** @type {HTMLSelectElement[]} */ ([...root.querySelectorAll("select[form=filter]")]);
  const filter = {
    ...chosen(),
    /**
     * What no node has any more cannot stay chosen.
     * @param {import("../types.js").NodeRow[]} rows
     */
    learn(rows) {
      if (rows.length === 0) return;
      if (filter.product && !rows.some((row) => row.product === filter.product)) choose("product", "");
      if (filter.pool && !rows.some((row) => row.pool === filter.pool)) choose("pool", "");
    },
  };

  /**
   * @param {Field} name
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
      const pressed = state === undefined ? filter[/** @type {Field} */ (button.name)] === button.value : filter.state === state;
      button.setAttribute("aria-pressed", String(pressed));
      if (state !== undefined) mark(button, "value", pressed ? "" : state);
    }
    for (const select of selects) select.value = filter[/** @type {Field} */ (select.name)];
    for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("#filter input"))) {
      field.value = filter[/** @type {Field} */ (field.name)];
    }
  }

  for (const button of buttons) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      const state = button.dataset["state"];
      choose(/** @type {Field} */ (button.name), state === undefined ? button.value : filter.state === state ? "" : state);
    });
  }
  for (const select of selects) select.addEventListener("change", () => choose(/** @type {Field} */ (select.name), select.value));
  addEventListener("popstate", () => {
    Object.assign(filter, chosen());
    show();
    changed();
  });
  return filter;
}

/** @returns {Filter} */
function chosen() {
  const query = new URLSearchParams(location.search);
  return /** @type {Filter} */ (Object.fromEntries(FIELDS.map((field) => [field, query.get(field) ?? ""])));
}
