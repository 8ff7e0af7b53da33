/**
 * One cluster's card on the page of all clusters, with an age and a loss of its own: one that is lost greys no other.
 */
import { levelGlyph } from "../panels/fleet.js";
import { card } from "../panels/clusters.js";
import { say } from "../words.js";
import { judge } from "./freshness.js";
import { glyph, mark, part, write } from "./patch.js";

/** @typedef {import("../types.js").Tables} Tables */

/** @type {import("../page.js").Behaviour} */
export function cluster(root, { words, now, connection }) {
  const name = root.dataset["liveCluster"] ?? "", live = part(root, ".live");
  const feed = connection.feed(name);
  feed.at = Number(root.dataset["at"]) || null;
  feed.loss = root.dataset["loss"] ?? "";
  return {
    cluster(news) {
      if (news !== feed || feed.version === null) return;
      const view = card(/** @type {Tables} */ ({ fleet: {}, attention: {}, ...feed.tables }));
      for (const number of view.numbers) {
        const cell = part(root, `[data-number="${number.id}"]`);
        mark(cell, "data-level", number.level);
        glyph(part(cell, ".ico"), levelGlyph(number.level));
        write(part(cell, ".v > span"), number.value, words, now());
        write(part(cell, ".v > small"), number.unit, words, now(), { flash: false });
      }
      const line = part(root, ".needs");
      mark(line, "data-level", view.level);
      glyph(part(line, ".ico"), view.glyph);
      write(part(line, "span"), view.words, words, now());
      write(part(root, "[data-size]"), view.size, words, now(), { flash: false });
      part(root, ".numbers").toggleAttribute("hidden", false);
    },
    tick() {
      const known = feed.at !== null, age = known ? now() - (feed.at ?? 0) : 0, loss = connection.loss(feed);
      const state = loss || !known ? "lost" : judge(age);
      mark(live, "data-live", state);
      root.toggleAttribute("data-stale", state === "lost");
      const word = state === "lost" && loss !== "socket" ? "fresh.stale" : `fresh.${state}`;
      write(part(live, "b"), say(word), words, now(), { flash: false });
      const text = known ? say("fresh.age", { age: words.age(age) }) : say("loss.no-picture");
      write(part(live, "span:not(.dot)"), text, words, now(), { flash: false });
    },
  };
}
