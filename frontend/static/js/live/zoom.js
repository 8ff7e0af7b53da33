/**
 * The zoom of the map: cards and dense tiles are the same markup, so they switch in place. The choice is remembered in the cookie that
 * the server reads.
 */

const COOKIE = "vigie-zoom", YEAR_S = 31_536_000;

/**
 * @param {HTMLElement} root
 * @param {() => void} changed
 */
export function startZoom(root, changed) {
  const buttons = /** @type {HTMLButtonElement[]} */ ([...root.querySelectorAll("button[name=zoom]")]);
  for (const button of buttons) {
    button.addEventListener("click", (event) => {
      if ([button.value, root.dataset["zoom"]].includes("groups")) return; // another page: the form goes there
      event.preventDefault();
      const secure = location.protocol === "https:" ? "; secure" : "";
      document.cookie = `${COOKIE}=${button.value}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
      root.dataset["zoom"] = button.value;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      changed();
    });
  }
}
