/**
 * Ages that tick and clock times in the reader's zone. Silent: a ticking age is no change.
 */

/** @type {import("../page.js").Behaviour} */
export function times(root, { words, now }) {
  return {
    tick() {
      for (const element of root.querySelectorAll("time[data-live-age]")) {
        tell(element, words.age(now() - Number(element.getAttribute("data-live-age"))));
      }
      for (const element of root.querySelectorAll("time[data-live-clock]")) {
        tell(element, words.clock(Number(element.getAttribute("data-live-clock")), now()));
      }
    },
  };
}

/**
 * @param {Element} element
 * @param {string} text
 */
function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
