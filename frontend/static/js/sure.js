/**
 * The form that confirms a plan: its button stays off until every check that can be lifted is lifted with a reason, and the name is
 * typed. The server looks again at all of it.
 */

/** @param {HTMLFormElement} form */
export function sure(form) {
  const button = form.querySelector("button[type=submit]"), typed = form.querySelector("[data-name]");
  if (button === null || button.hasAttribute("data-off")) return;
  document.addEventListener("input", look);
  look();

  function look() {
    const ready = named() && lifted();
    if (ready) button?.removeAttribute("aria-disabled");
    else button?.setAttribute("aria-disabled", "true");
  }

  function named() {
    return !(typed instanceof HTMLInputElement) || typed.value.trim() === typed.dataset["name"];
  }

  function lifted() {
    return [...document.querySelectorAll(".waive")].every((box) => {
      const tick = box.querySelector("input[type=checkbox]"), why = box.querySelector("input[type=text]");
      return tick instanceof HTMLInputElement && tick.checked && why instanceof HTMLInputElement && why.value.trim() !== "";
    });
  }
}
