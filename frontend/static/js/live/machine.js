/**
 * The parts of the Node page that are not tables: headline, cells, hardware, facts, pod counts, and the node's disappearance.
 */
import { summary } from "../panels/attention.js";
import { cells, counts } from "../panels/fleet.js";
import { facts as factsOf, hardware as hardwareOf, tags } from "../panels/node.js";
import { patchCells } from "./cells.js";
import { fresh, part, write } from "./patch.js";
import { patchTags } from "./tags.js";

/** @typedef {import("../page.js").Behaviour} Behaviour */
/** @typedef {import("../page.js").Context} Context */
/** @typedef {import("../types.js").Tables} Tables */

/**
 * @param {Tables} tables
 * @param {Context} context
 */
function own(tables, { page }) {
  return tables.nodes[page.view?.node ?? ""];
}

/** @type {Behaviour} */
export function headline(root, context) {
  const title = part(root, "h1");
  return {
    update(tables) {
      const node = own(tables, context);
      if (node === undefined) return;
      patchTags(part(title, ".tags"), tags(node), () => fresh(root, "template"), context);
      write(part(root, ".sub"), summary(tables.attention), context.words, context.now());
    },
  };
}

/** @type {Behaviour} */
export function nodeCells(root, context) {
  const { words, now } = context;
  return {
    update(tables) {
      const node = own(tables, context);
      if (node === undefined) return;
      root.toggleAttribute("hidden", !node.cells);
      patchCells(part(root, ".gpus"), cells(node));
      write(part(root, "p"), counts(node), words, now());
    },
  };
}

/** @type {Behaviour} */
export function hardware(root, context) {
  return {
    update(tables) {
      const node = own(tables, context);
      if (node) write(root, hardwareOf(node), context.words, context.now());
    },
  };
}

/** @type {Behaviour} */
export function facts(root, context) {
  return {
    update(tables) {
      const node = own(tables, context);
      if (node === undefined) return;
      const values = factsOf(node);
      for (const fact of root.children) {
        write(part(fact, "dd"), values[fact.getAttribute("data-key") ?? ""] ?? null, context.words, context.now());
      }
    },
  };
}

/** @type {Behaviour} */
export function gone(root, context) {
  return {
    update(tables) {
      const missing = own(tables, context) === undefined;
      root.toggleAttribute("hidden", !missing);
      part(document, "main").toggleAttribute("data-gone", missing);
    },
  };
}
