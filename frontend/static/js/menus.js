/**
 * Menus of the top bar: close on Escape, on a press elsewhere, and when the focus leaves.
 */

/** @param {HTMLDetailsElement} menu */
export function menu(menu) {
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
  menu.addEventListener("focusout", (event) => {
    const next = /** @type {Node | null} */ (event.relatedTarget);
    if (next !== null && !menu.contains(next)) menu.open = false;
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.contains(/** @type {Node} */ (event.target))) menu.open = false;
  });
}
