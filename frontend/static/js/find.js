/**
 * The search field: `/` goes to it from anywhere, Escape leaves it; arrows move between the results under it.
 */

/** @param {HTMLElement} root */
export function find(root) {
  const field = root.querySelector("input");
  if (field === null) return;
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
    if (field.offsetParent === null) return; // hidden on narrow screens
    event.preventDefault();
    field.focus();
    field.select();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.blur();
    const first = /** @type {HTMLElement | null} */ (document.querySelector("[data-results] a"));
    if (event.key !== "ArrowDown" || first === null) return;
    event.preventDefault();
    first.focus();
  });
  for (const list of document.querySelectorAll("[data-results]")) {
    list.addEventListener("keydown", (event) => move(list, /** @type {KeyboardEvent} */ (event)));
  }
}

/** @param {EventTarget | null} target */
function writing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=radio]), select, textarea"));
}

/**
 * @param {Element} list
 * @param {KeyboardEvent} event
 */
function move(list, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const links = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("a")]);
  const at = links.indexOf(/** @type {HTMLElement} */ (event.target));
  const next = step === undefined || at < 0 ? undefined : links[at + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}
