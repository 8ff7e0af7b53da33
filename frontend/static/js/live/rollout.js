/**
 * One rollout that somebody looks at, or several (`data-of`). Ways out and strategies are the server's to find, so when rows of them
 * change, the page is asked for the same markup again, and only what differs is patched in place.
 *
 * What depends on other rows (a hole that opens elsewhere) and on the time (until the deadline) is asked for every ten seconds, or
 * as often as `data-every` says where the picture does not hold what is shown.
 */
import { morph } from "./morph.js";
import { times } from "./times.js";

/** @typedef {import("../types.js").Tables} Tables */

const EVERY_S = 10, REST_MS = 300, WITHIN_MS = 10_000;

/**
 * Whether a rollout's own rows differ: tables and rows without a change stay the same objects.
 * @param {Tables} before
 * @param {Tables} after
 * @param {string[]} [keys] of several rollouts; none: the tables hold one alone
 */
export function differs(before, after, keys = []) {
  if (keys.length > 0) return keys.some((key) => after.rollouts[key] !== before.rollouts[key]);
  return after.rollouts !== before.rollouts || after.pods !== before.pods || after.workloads !== before.workloads;
}

/**
 * Calls `work` again when asked meanwhile, never twice at once, and with a rest between: a rollout of hundreds of pods changes many
 * times a second.
 * @param {() => Promise<void>} work
 * @param {(then: () => void) => void} rest
 */
export function paced(work, rest) {
  let busy = false, again = false;
  return function ask() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    void work().finally(() => rest(() => {
      busy = false;
      if (again) ask();
    }));
  };
}

/** @type {import("../page.js").Behaviour} */
export function rollout(root, context) {
  const ask = paced(look, (then) => setTimeout(then, REST_MS)), ticking = times(root, context);
  /** @type {Tables | null} */
  let known = null;
  const keys = (root.dataset["of"] ?? "").split(" ").filter((key) => key !== "");
  setInterval(() => document.hidden || ask(), 1_000 * Number(root.dataset["every"] ?? EVERY_S));
  return {
    update(tables) {
      if (known === null || differs(known, tables, keys)) ask();
      known = tables;
    },
  };

  async function look() {
    const address = new URL(location.href);
    address.searchParams.set("part", "live");
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(WITHIN_MS), redirect: "manual" });
      if (answer.type === "opaqueredirect" || answer.status === 404) location.reload(); // signed out, or deleted: the page says so
      if (answer.ok) show(await answer.text());
    } catch {
      // Not connected: the word in the top bar says since when; the next change or tick asks again.
    }
  }

  /** @param {string} html */
  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").querySelector("[data-live-rollout]");
    if (next === null) return;
    morph(root, next);
    ticking.tick?.();
  }
}
