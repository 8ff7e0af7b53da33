/**
 * The colour theme: the radios work without script; this remembers the choice and shows it again.
 */
const KEY = "vigie-theme";

/** @param {HTMLElement} root */
export function theme(root) {
  const html = document.documentElement;
  const radios = /** @type {HTMLInputElement[]} */ ([...root.querySelectorAll("input")]);
  const show = () => {
    for (const radio of radios) radio.checked = radio.value === (html.dataset["theme"] ?? "");
  };
  show();
  document.addEventListener(KEY, show); // it was chosen in another place of this page
  for (const radio of radios) {
    radio.addEventListener("change", () => {
      if (radio.value) html.dataset["theme"] = radio.value;
      else delete html.dataset["theme"];
      remember(radio.value);
      document.dispatchEvent(new Event(KEY));
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
