/**
 * How old the page is: the word in the top bar, and what the page looks like when it has heard nothing for too long.
 *
 * Under 10 s Live, up to 60 s Late, then lost: grey, hatched, with the time of the last data, and buttons that change the cluster off.
 * A loss that is known (the socket, the API server, the writer) turns the page lost at once.
 */
import { say } from "../words.js";
import { mark, part, write } from "./patch.js";

/** @typedef {import("../page.js").Context} Context */
/** @typedef {"live" | "late" | "lost"} Freshness */

export const LATE_AFTER_S = 10;
export const LOST_AFTER_S = 60;
const SPEAK_EVERY_S = 10;

/**
 * @param {number} age seconds
 * @returns {Freshness}
 */
export function judge(age) {
  return age < LATE_AFTER_S ? "live" : age <= LOST_AFTER_S ? "late" : "lost";
}

/** @type {import("../page.js").Behaviour} */
export function freshness(root, context) {
  const { words, now, connection } = context;
  const main = part(document, "main"), banner = part(document, "[data-live-lost]");
  const word = part(root, "b"), age = part(root, "span:not(.dot):not(.vh)"), aloud = part(root, "[role=status]");
  const since = part(banner, "b"), retry = part(banner, ":scope > span");
  let state = /** @type {Freshness} */ (root.dataset["live"] || "live"), spokenAt = now(), spoken = /** @type {Freshness} */ ("live");
  const again = banner.querySelector("button"); // the wall has no controls
  again?.addEventListener("click", () => connection.start());

  return {
    tick() {
      const at = connection.only.at ?? now(), next = loss() ? "lost" : judge(now() - at);
      write(age, say("fresh.age", { age: words.age(now() - at) }), words, now(), { flash: false });
      if (next !== state) turn(next, at);
      if (state === "lost") lost(at);
      speak();
    },
  };

  function loss() {
    return connection.loss(connection.only);
  }

  /**
   * @param {Freshness} next
   * @param {number} at
   */
  function turn(next, at) {
    state = next;
    mark(root, "data-live", next);
    write(word, say(wordOf(next)), words, now(), { flash: false });
    main.toggleAttribute("data-stale", next === "lost");
    banner.toggleAttribute("hidden", next !== "lost");
    for (const button of main.querySelectorAll("[data-changes]")) {
      mark(button, "aria-disabled", next === "lost" ? "true" : "");
      mark(button, "aria-describedby", next === "lost" ? "off-why" : "");
    }
    context.broadcast(next, at);
  }

  /** @param {number} at */
  function lost(at) {
    const ago = words.age(now() - at);
    write(since, say("fresh.since", { time: { clock: at }, age: ago }), words, now(), { flash: false });
    const pause = connection.retryAt === null ? null : Math.max(0, connection.retryAt - Date.now() / 1000);
    const next = connection.connected && loss() !== "socket" ? say(`loss.${loss() || "age"}`) : pause === null ? say("fresh.trying") : say("fresh.retry", { age: words.age(pause) });
    write(retry, next, words, now(), { flash: false });
    again?.toggleAttribute("hidden", connection.connected);
    write(word, say(wordOf("lost")), words, now(), { flash: false });
    context.broadcast("lost", at);
  }

  /**
   * A page that is connected to a Vigie that hears nothing itself is not "not connected".
   * @param {Freshness} found
   */
  function wordOf(found) {
    return found === "lost" && loss() !== "socket" ? "fresh.stale" : `fresh.${found}`;
  }

  /** The state word aloud, at most every 10 s. */
  function speak() {
    if (state === spoken || now() - spokenAt < SPEAK_EVERY_S) return;
    [spoken, spokenAt] = [state, now()];
    aloud.textContent = words.plain(say(wordOf(state)), now());
  }
}
