/**
 * The fleet map: cards that change, appear and disappear, the sentences of their groups, and what its header says.
 *
 * The same markup shows cards or dense tiles (`data-zoom`). In the zoom of groups the page holds the nodes of one open group only.
 */
import { claims, group, groupId, groups, mapSize, measured } from "../panels/fleet.js";
import { hides, narrows } from "../panels/zoom.js";
import { bare, touched } from "../picture.js";
import { say } from "../words.js";
import { fillCard, patchCard } from "./card.js";
import { startFilters } from "./filters.js";
import { startLens } from "./lens.js";
import { arrange, fresh, part, write } from "./patch.js";
import { startRoving } from "./roving.js";
import { patchTags } from "./tags.js";
import { startZoom } from "./zoom.js";

/** @typedef {import("../page.js").Context} Context */
/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").Tables} Tables */
/** @typedef {import("../panels/fleet.js").Group} Group */

/** @type {import("../page.js").Behaviour} */
export function map(root, context) {
  /** @type {Map<string, HTMLElement>} */
  const cards = new Map();
  for (const item of root.querySelectorAll("[data-node]")) {
    const element = /** @type {HTMLElement} */ (item);
    cards.set(element.dataset["node"] ?? "", element);
  }
  const open = root.dataset["zoom"] === "groups" ? root.dataset["open"] ?? "" : null;
  /** @type {Record<string, NodeRow>} */
  let nodes = bare();
  /** @type {Group[]} */
  let shownGroups = [];
  const filter = startFilters(root, () => show());
  const roving = startRoving(root);
  const lens = startLens(root, context, (name) => nodes[name]);
  startZoom(root, () => {
    roving.settle();
    lens.settle();
  });

  /** @param {NodeRow} row */
  const hasCard = (row) => open === null || groupId(row) === open;

  function show() {
    if (shownGroups.length === 0) return;
    let shown = 0;
    for (const { id, nodes: members } of shownGroups) {
      let some = 0;
      for (const row of members) {
        const hidden = hides(filter, row);
        cards.get(row.name)?.toggleAttribute("hidden", hidden);
        some += Number(!hidden);
      }
      document.getElementById(id)?.toggleAttribute("hidden", some === 0);
      shown += some;
    }
    const count = part(root, "[data-map=shown]");
    write(count, say("map.shown", { nodes: say("nodes", { n: shown }) }), context.words, context.now(), { flash: false });
    count.toggleAttribute("hidden", !narrows(filter));
    part(root, "[data-map=no-match]").toggleAttribute("hidden", shown > 0);
    roving.settle();
  }

  return {
    update(tables, before) {
      nodes = tables.nodes;
      const changed = touched(before.nodes, nodes), rows = Object.values(nodes);
      if (changed.size) {
        for (const name of changed) patchNode(name, nodes[name]);
        patchGroups(rows, changed, before.nodes);
        show();
        lens.update(changed);
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
    if (row === undefined || !hasCard(row)) {
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
   * @param {NodeRow[]} rows
   * @param {Set<string>} changed
   * @param {Record<string, NodeRow>} earlier
   */
  function patchGroups(rows, changed, earlier) {
    const moved = [...changed].some((name) => {
      const one = earlier[name], two = nodes[name];
      return one === undefined || two === undefined || groupId(one) !== groupId(two);
    });
    if (moved) {
      shownGroups = groups(rows);
      arrange(part(root, "[data-groups]"), shownGroups.map(({ id }) => document.getElementById(id) ?? newGroup(id)));
      part(root, "[data-map=no-nodes]").toggleAttribute("hidden", rows.length > 0);
      for (const found of shownGroups) patchGroup(found, true);
    } else {
      shownGroups = shownGroups.map((found) => {
        if (!found.nodes.some((node) => changed.has(node.name))) return found;
        const next = group(found.nodes.map((node) => nodes[node.name] ?? node));
        patchGroup(next, false);
        return next;
      });
    }
  }

  /**
   * @param {Group} found
   * @param {boolean} moved whether its nodes may be others than before
   */
  function patchGroup(found, moved) {
    const section = part(root, `#${CSS.escape(found.id)}`);
    write(part(section, "h3"), found.title, context.words, context.now(), { flash: false });
    write(part(section, "header p"), found.sentence, context.words, context.now());
    patchTags(part(section, "[data-marks]"), found.marks, () => fresh(root, "template[data-new=mark]"), context);
    if (moved) arrange(part(section, ".nodes"), found.nodes.flatMap((node) => cards.get(node.name) ?? []));
  }

  /** @param {string} id */
  function newGroup(id) {
    const section = fresh(root, "template[data-new=group]");
    section.id = id;
    section.setAttribute("aria-labelledby", `${id}-h`);
    part(section, ".nodes").setAttribute("aria-labelledby", `${id}-h`);
    part(section, "h3").id = `${id}-h`;
    part(root, "[data-groups]").append(section);
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
