/**
 * The colour theme: the radios work without script; this remembers the choice and shows it again.
 */
const KEY = "vigie-theme";

/** @param {HTMLElement} root */
export function theme(root) {
  const html = document.documentElement;
  const radios = /** @type {HTMLInputElement[]} */ ([...root.querySelectorAll("input")]);
  for (const radio of radios) {
    radio.checked = radio.value === (html.dataset["theme"] ?? "");
    radio.addEventListener("change", () => {
      if (radio.value) html.dataset["theme"] = radio.value;
      else delete html.dataset["theme"];
      remember(radio.value);
    });
  }
}

/** @param {string} value */
function remember(value) {
  try {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  } catch {
    // Storage may be forbidden: the choice then lasts as long as the page.
  }
}
