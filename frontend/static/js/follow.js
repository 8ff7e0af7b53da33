/**
 * An action that somebody looks at: asks every two seconds how the ledger has it and patches what has changed, in place.
 *
 * When the page is another one by now (a plan was confirmed, an action has ended), it is loaded. Progress never runs backwards.
 * Whoever reloads sees the same: all of it is the server's markup.
 */
import { morph } from "./live/morph.js";
import { times } from "./live/times.js";
import { say } from "./words.js";

const EVERY_MS = 2_000, WITHIN_MS = 10_000;
const LATE_AFTER_S = 10;

/**
 * @param {HTMLElement} main
 * @param {{words: import("./words.js").Words, now: () => number}} clock
 */
export function follow(main, clock) {
  const ticking = times(main, /** @type {import("./page.js").Context} */ (clock));
  const bar = document.querySelector("[data-follows]");
  let heardAt = clock.now();
  setInterval(() => {
    ticking.tick?.();
    tell();
  }, 1_000);
  tell();
  document.addEventListener("visibilitychange", () => document.hidden || look());
  setInterval(() => document.hidden || look(), EVERY_MS);

  async function look() {
    const address = new URL(location.href);
    address.pathname = own();
    address.searchParams.set("part", "live");
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(WITHIN_MS), redirect: "manual" });
      if (answer.type === "opaqueredirect") location.assign(own()); // signed out: the page says so
      if (!answer.ok) return;
      show(await answer.text());
      heardAt = clock.now();
    } catch {
      // Not connected: the word in the top bar says since when; the next look may be luckier.
    }
  }

  /** @param {string} html */
  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").querySelector("[data-follow]");
    const now = main.querySelector("[data-follow]");
    if (!(next instanceof HTMLElement) || !(now instanceof HTMLElement)) return;
    if (next.dataset["follow"] !== now.dataset["follow"]) {
      location.assign(own());
      return;
    }
    morph(now, next);
    ticking.tick?.();
  }

  /** How old what is shown is, in the top bar. */
  function tell() {
    const age = Math.max(0, clock.now() - heardAt), [word, said] = [bar?.querySelector("b"), bar?.querySelector("span:not(.dot):not(.vh)")];
    const state = age < LATE_AFTER_S ? "live" : "lost";
    if (bar === null || word === null || word === undefined || said === null || said === undefined) return;
    const aloud = bar.querySelector("[role=status]");
    if (aloud !== null && bar.getAttribute("data-live") !== state) aloud.textContent = clock.words.plain(say(`fresh.${state}`), 0);
    bar.setAttribute("data-live", state);
    main.toggleAttribute("data-unheard", state === "lost");
    set(word, clock.words.plain(say(`fresh.${state}`), 0));
    set(said, clock.words.plain(say("fresh.age", { age: clock.words.age(age) }), 0));
  }
}

/** The page's own address: a refused form has left us at that of its answer. */
export function own() {
  return location.pathname.replace(/(confirm|approve|stop)\/$/, "");
}

/**
 * @param {Element} element
 * @param {string} text
 */
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
