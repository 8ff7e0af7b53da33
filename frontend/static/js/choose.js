/**
 * A form of choices: whoever changes one of its lists need not press its button.
 */

/** @param {HTMLFormElement} form */
export function choose(form) {
  form.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement) form.requestSubmit();
  });
}
