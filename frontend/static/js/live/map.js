/**
 * The fleet map: cards that change, appear and disappear, the sentences of their groups, and what its header says.
 */
import { claims, filteredOut, groups, mapSize, measured } from "../panels/fleet.js";
import { touched } from "../picture.js";
import { say } from "../words.js";
import { fillCard, patchCard } from "./card.js";
import { startFilters } from "./filters.js";
import { arrange, fresh, part, write } from "./patch.js";

/** @typedef {import("../page.js").Context} Context */
/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").Tables} Tables */

/** @type {import("../page.js").Behaviour} */
export function map(root, context) {
  /** @type {Map<string, HTMLElement>} */
  const cards = new Map();
  for (const item of root.querySelectorAll("[data-node]")) {
    const element = /** @type {HTMLElement} */ (item);
    cards.set(element.dataset["node"] ?? "", element);
  }
  /** @type {NodeRow[]} */
  let rows = [];
  const filter = startFilters(root, () => show());

  function show() {
    if (rows.length === 0) return;
    let shown = 0;
    for (const row of rows) {
      const hidden = filteredOut(row, filter.state, filter.product);
      cards.get(row.name)?.toggleAttribute("hidden", hidden);
      shown += Number(!hidden);
    }
    for (const group of root.querySelectorAll(".group[id]")) {
      group.toggleAttribute("hidden", group.querySelector("[data-node]:not([hidden])") === null);
    }
    const count = part(root, "[data-map=shown]");
    write(count, say("map.shown", { nodes: say("nodes", { n: shown }) }), context.words, context.now(), { flash: false });
    count.toggleAttribute("hidden", !filter.state && !filter.product);
    part(root, "[data-map=no-match]").toggleAttribute("hidden", shown > 0);
  }

  return {
    update(tables, before) {
      const changed = touched(before.nodes, tables.nodes);
      rows = Object.values(tables.nodes);
      if (changed.size) {
        for (const name of changed) patchNode(name, tables.nodes[name]);
        patchGroups(rows, changed);
        show();
      }
      header(root, tables, rows, context);
      filter.learn(rows);
    },
  };

  /**
   * @param {string} name
   * @param {NodeRow | undefined} row
   */
  function patchNode(name, row) {
    const item = cards.get(name);
    if (row === undefined) {
      keepFocus(item);
      item?.remove();
      cards.delete(name);
    } else if (item === undefined) {
      const made = fresh(root, "template[data-new=card]");
      fillCard(made, row, context);
      cards.set(name, made);
    } else {
      patchCard(item, row, context);
    }
  }

  /**
   * Groups in their order, each with its cards; those whose nodes did not change are left alone.
   * @param {NodeRow[]} nodes
   * @param {Set<string>} changed
   */
  function patchGroups(nodes, changed) {
    const wanted = groups(nodes);
    const sections = wanted.map((group) => {
      const section = document.getElementById(group.id) ?? newGroup(group.id);
      const there = section.querySelectorAll("[data-node]").length;
      if (there !== group.nodes.length || group.nodes.some((node) => changed.has(node.name))) {
        write(part(section, "h3"), group.title, context.words, context.now(), { flash: false });
        write(part(section, "header p"), group.sentence, context.words, context.now());
        arrange(part(section, ".nodes"), group.nodes.flatMap((node) => cards.get(node.name) ?? []));
      }
      return section;
    });
    arrange(part(root, "[data-groups]"), sections);
    part(root, "[data-map=no-nodes]").toggleAttribute("hidden", nodes.length > 0);
  }

  /** @param {string} id */
  function newGroup(id) {
    const section = fresh(root, "template[data-new=group]");
    section.id = id;
    section.setAttribute("aria-labelledby", `${id}-h`);
    part(section, "h3").id = `${id}-h`;
    return section;
  }

  /** @param {HTMLElement | undefined} item */
  function keepFocus(item) {
    if (item?.contains(document.activeElement)) part(root, "h2").focus();
  }
}

/**
 * @param {HTMLElement} root
 * @param {Tables} tables
 * @param {NodeRow[]} rows
 * @param {Context} context
 */
function header(root, tables, rows, { words, now }) {
  const fleet = tables.fleet["fleet"];
  if (fleet === undefined) return;
  const dra = part(root, "[data-map=claims]");
  write(part(root, "[data-map=size]"), mapSize(fleet), words, now());
  write(part(dra, "span"), claims(fleet), words, now());
  dra.toggleAttribute("hidden", !fleet.claims);
  part(root, "[data-map=unmeasured]").toggleAttribute("hidden", measured(rows));
}

