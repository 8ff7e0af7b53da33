/**
 * A button that copies what another element says. Shown only where the browser can.
 */

const SAID_MS = 2_000;

/** @param {HTMLButtonElement} button */
export function copy(button) {
  const source = document.getElementById(button.dataset["copies"] ?? "");
  const [before, after] = button.querySelectorAll("span");
  if (source === null || before === undefined || after === undefined || !navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText((source.textContent ?? "").trim() + "\n");
    say(true);
    setTimeout(say, SAID_MS, false);
  });

  /** @param {boolean} done */
  function say(done) {
    before?.toggleAttribute("hidden", done);
    after?.toggleAttribute("hidden", !done);
  }
}
