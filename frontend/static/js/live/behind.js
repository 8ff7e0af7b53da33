/**
 * How many workloads that train have not saved when they meant to, beside the navigation's entry; hidden while none is known.
 */
import { behind as found } from "../panels/fleet.js";
import { mark, part, write } from "./patch.js";

/** @type {import("../page.js").Behaviour} */
export function behind(root, { words, now }) {
  return {
    update({ fleet }) {
      const row = fleet["fleet"];
      if (row === undefined) return;
      const { value, level } = found(row);
      root.toggleAttribute("hidden", !value);
      mark(root, "data-level", level);
      write(part(root, "span"), value || "", words, now());
    },
  };
}
