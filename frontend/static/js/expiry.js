/**
 * How long a plan is still valid. It ticks here; the server decides.
 */
import { own } from "./follow.js";
import { say } from "./words.js";

/**
 * @param {HTMLElement} root
 * @param {{words: import("./words.js").Words, now: () => number}} clock
 */
export function expiry(root, { words, now }) {
  const until = Number(root.dataset["until"]), left = root.querySelector("b span"), bar = root.querySelector("progress");
  const timer = setInterval(tick, 1_000);
  tick();

  function tick() {
    const seconds = Math.max(0, Math.floor(until - now()));
    if (left !== null) left.textContent = words.plain(say("age.min-s", { n: Math.floor(seconds / 60), s: seconds % 60 }), 0);
    if (bar !== null) bar.value = seconds;
    if (seconds > 0) return;
    clearInterval(timer);
    location.assign(own()); // the page as it is now: the plan has expired
  }
}
