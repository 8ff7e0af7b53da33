/**
 * The counts of the legend.
 */
import { legend as counts } from "../panels/fleet.js";
import { part, write } from "./patch.js";

/** @type {import("../page.js").Behaviour} */
export function legend(root, { words, now }) {
  const entries = new Map([...root.querySelectorAll("[data-state]")].map((entry) => [entry.getAttribute("data-state"), entry]));
  return {
    update({ fleet }) {
      if (fleet["fleet"] === undefined) return;
      for (const { state, count, shown } of counts(fleet["fleet"])) {
        const entry = entries.get(state);
        if (entry === undefined) continue;
        write(part(entry, "b"), count, words, now());
        entry.toggleAttribute("hidden", !shown && entry.getAttribute("aria-pressed") !== "true");
      }
    },
  };
}
