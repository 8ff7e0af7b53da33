/**
 * What stands between a press and a change: a button that is off does nothing, and a link that names a dialog opens it instead of
 * the page that asks the same.
 */

/** @param {HTMLElement} body */
export function guard(body) {
  body.addEventListener("click", (event) => {
    const at = event.target instanceof Element ? event.target.closest("[aria-disabled=true], [data-dialog], [data-close]") : null;
    if (!(at instanceof HTMLElement)) return;
    if (at.ariaDisabled === "true") {
      event.preventDefault();
      return;
    }
    if (at.hasAttribute("data-close")) at.closest("dialog")?.close();
    const dialog = document.getElementById(at.dataset["dialog"] ?? "");
    if (!(dialog instanceof HTMLDialogElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    dialog.showModal();
  });
}
