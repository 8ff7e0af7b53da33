/**
 * What the Fleet page says about the picture's rows: the mirror of dashboard/panels/fleet.py.
 *
 * Pure: rows in, texts out. `tests/data/panels` holds both sides to the same words.
 */
import { say } from "../words.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").FleetRow} FleetRow */
/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").ProductRow} ProductRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {{id: string, value: Value, unit: Text, note: Text, level: string, node: string}} KeyNumber */

/** @type {Record<string, string>} */
const CELL_STATES = {
  b: "busy", f: "free", i: "idle", d: "degraded", x: "failed", m: "draining", c: "cordoned", u: "unknown",
  0: "busy", 1: "busy", 2: "busy", 3: "busy", 4: "busy", 5: "busy",
};
export const STATES = ["busy", "free", "idle", "degraded", "failed", "draining", "cordoned", "unknown"];
const ALWAYS = ["busy", "free", "cordoned", "unknown"];
/** @type {Record<string, string>} */
const GLYPHS = { warn: "s-warn", bad: "s-bad", drain: "s-drain", off: "s-off" };

/** The states that a group names beside its sentence, most urgent first, with level and glyph. */
const MARKS = /** @type {[string, string, string][]} */ ([
  ["failed", "bad", "s-bad"], ["degraded", "warn", "s-warn"], ["draining", "drain", "s-drain"], ["unknown", "off", "s-unknown"],
  ["cordoned", "off", "s-off"],
]);

const SILENT = ["node-unreachable", "readings-silent", "gpu-unknown"];

/** @param {string} letter one of NodeRow.cells */
export function cellState(letter) {
  return CELL_STATES[letter] ?? "";
}

/** @param {string} level */
export function levelGlyph(level) {
  return GLYPHS[level] ?? "";
}

/**
 * @param {string} id
 * @param {Value} value
 * @param {Partial<KeyNumber>} [more]
 * @returns {KeyNumber}
 */
function keyNumber(id, value, more = {}) {
  return { id, value, unit: "", note: "", level: "", node: "", ...more };
}

/**
 * @param {import("../types.js").Tables} tables
 * @returns {KeyNumber[]}
 */
export function keyNumbers(tables) {
  const fleet = tables.fleet["fleet"];
  if (fleet === undefined) return [];
  return [
    available(fleet), free(fleet, tables.products), largest(fleet), room(fleet), fragmentation(fleet, tables.products), waiting(fleet),
    notReady(fleet), withdrawn(fleet), behind(fleet),
  ];
}

/** @param {FleetRow} fleet */
function available(fleet) {
  const taken = /** @type {[string, number][]} */ ([
    ["count.failed", fleet.failed], ["count.unknown", fleet.unknown], ["kpi.cordoned", fleet.cordoned], ["kpi.silent", fleet.silent],
    ["kpi.withdrawn", fleet.withdrawn], ["kpi.tainted", fleet.tainted],
  ]);
  const parts = taken.filter(([, n]) => n).map(([key, n]) => say(key, { n }));
  const note = !fleet.gpus ? say("kpi.no-gpus") : parts.length ? parts : say("kpi.all-available");
  return keyNumber("available", fleet.available, { unit: say("kpi.of", { total: fleet.gpus }), note });
}

/**
 * @param {FleetRow} fleet
 * @param {Record<string, ProductRow>} products
 */
function free(fleet, products) {
  const parts = byName(products)
    .filter((row) => row.free && row.product)
    .map((row) => say("kpi.product", { count: row.free, product: row.product }));
  return keyNumber("free", fleet.free, { note: parts.length ? parts : fleet.free ? "" : say("kpi.none-free") });
}

/** @param {FleetRow} fleet */
function largest(fleet) {
  if (!fleet.largest_hole) return keyNumber("largest", 0, { note: say("kpi.none-free") });
  const { largest_hole_product: product, largest_hole_node: node } = fleet;
  const note = product ? say("kpi.hole", { product, node }) : node;
  return keyNumber("largest", fleet.largest_hole, { unit: say("kpi.one-node"), note, node });
}

/** @param {FleetRow} fleet */
function room(fleet) {
  const [most, ...smaller] = [...fleet.slots].sort(([a], [b]) => b - a);
  if (most === undefined) return keyNumber("room", 0, { note: say("kpi.none-free") });
  const note = smaller.map(([size, count]) => say("kpi.room", { count, size }));
  return keyNumber("room", most[1], { unit: say("kpi.of-size", { size: most[0] }), note });
}

/**
 * @param {FleetRow} fleet
 * @param {Record<string, ProductRow>} products
 */
function fragmentation(fleet, products) {
  if (fleet.fragmentation.length) return fragmentationOfOne(fleet);
  const known = byName(products).flatMap(({ product, fragmentation: shares }) => {
    const [size, share] = [...shares].sort(([a], [b]) => b - a)[0] ?? [0, null];
    return share === null ? [] : [{ product, size, share }];
  });
  const [first, ...others] = known;
  if (first === undefined) return keyNumber("fragmentation", "–", { note: say("kpi.not-applicable") });
  const note = known.map(({ product, share }) => say("kpi.fragmented-product", { product, percent: percent(share) }));
  const worst = others.reduce((most, other) => (other.share > most.share ? other : most), first);
  return keyNumber("fragmentation", percent(worst.share), { unit: say("kpi.for-size", { size: worst.size }), note });
}

/** @param {FleetRow} fleet */
function fragmentationOfOne(fleet) {
  const known = [...fleet.fragmentation].sort(([a], [b]) => b - a)
    .flatMap(([size, share]) => (share === null ? [] : [{ size, share }]));
  const [most, ...smaller] = known;
  if (most === undefined) return keyNumber("fragmentation", "–", { note: say("kpi.not-applicable") });
  const note = smaller.filter(({ size }) => size > 1)
    .map(({ size, share }) => say("kpi.fragmented", { percent: percent(share), size }));
  return keyNumber("fragmentation", percent(most.share), { unit: say("kpi.for-size", { size: most.size }), note });
}

/** @param {Record<string, ProductRow>} products */
function byName(products) {
  return Object.entries(products).sort(([a], [b]) => natural(a, b)).map(([, row]) => row);
}

/** @param {number} share */
function percent(share) {
  return say("kpi.percent", { n: Math.floor(share * 100 + 0.5) });
}

/** @param {FleetRow} fleet */
function waiting(fleet) {
  if (!fleet.waiting_pods) return keyNumber("waiting", 0, { note: say("kpi.no-wait") });
  const gpus = say("gpus", { n: fleet.waiting_gpus });
  const since = fleet.waiting_since_at;
  const note = since === null ? say("kpi.oldest-unknown", { gpus }) : say("kpi.oldest", { age: { age: since }, gpus });
  return keyNumber("waiting", fleet.waiting_pods, { note, level: "warn" });
}

/** @param {FleetRow} fleet */
function notReady(fleet) {
  const n = fleet.nodes - fleet.nodes_ready;
  const note = n ? say("kpi.silent-gpus", { n: fleet.silent }) : say("kpi.all-ready");
  return keyNumber("not-ready", n, { unit: say("kpi.of-nodes", { n: fleet.nodes }), note, level: n ? "bad" : "" });
}

/**
 * Workloads that train and have not saved when they meant to. Where nobody knows of any, it is no 0.
 * @param {FleetRow} fleet
 */
export function behind(fleet) {
  const unknown = fleet.trainings > 0 && fleet.unseen === fleet.trainings;
  const level = fleet.unsaved ? "bad" : fleet.behind ? "warn" : "", note = fleet.behind || unknown ? "" : say("kpi.none-behind");
  return keyNumber("behind", unknown ? null : fleet.behind, { unit: say("kpi.of-trainings", { n: fleet.trainings }), note, level });
}

/** @param {FleetRow} fleet */
function withdrawn(fleet) {
  const none = fleet.withdrawn ? say("kpi.unhealthy") : say("kpi.none-withdrawn");
  const note = fleet.overcommit ? say("kpi.over", { n: fleet.overcommit }) : none;
  return keyNumber("withdrawn", fleet.withdrawn, { note, level: fleet.withdrawn || fleet.overcommit ? "warn" : "" });
}

/** @param {FleetRow} fleet */
export function legend(fleet) {
  const counts = new Map(fleet.cells);
  return STATES.map((state) => {
    const count = counts.get(state) ?? 0;
    return { state, count, shown: ALWAYS.includes(state) || count > 0 };
  });
}

/** @param {FleetRow} fleet */
export function mapSize(fleet) {
  return say("map.size", { nodes: say("nodes", { n: fleet.nodes }), gpus: say("gpus", { n: fleet.gpus }) });
}

/**
 * @param {FleetRow} fleet
 * @returns {Text}
 */
export function claims(fleet) {
  return fleet.claims ? say("map.claims", { n: fleet.claims }) : "";
}

/** @param {NodeRow[]} nodes */
export function measured(nodes) {
  return nodes.every((node) => node.measured || !node.cells);
}

/** @typedef {{id: string, level: string, glyph: string, words: Text}} Mark */
/** @typedef {{id: string, title: Text, sentence: Text, nodes: NodeRow[], marks: Mark[]}} Group */

/**
 * By pool, then zone, then node name.
 * @param {NodeRow[]} nodes
 * @returns {Group[]}
 */
export function groups(nodes) {
  /** @type {Map<string, NodeRow[]>} */
  const found = new Map();
  for (const node of nodes) {
    const id = groupId(node), members = found.get(id);
    if (members) members.push(node);
    else found.set(id, [node]);
  }
  const order = (/** @type {NodeRow} */ a, /** @type {NodeRow} */ b) => natural(a.pool, b.pool) || natural(a.zone, b.zone);
  return [...found.values()]
    .map((members) => members.sort((a, b) => natural(a.name, b.name)))
    .sort(([a], [b]) => order(/** @type {NodeRow} */ (a), /** @type {NodeRow} */ (b)))
    .map(group);
}

/**
 * What a group says of its nodes, which are at least one and in order.
 * @param {NodeRow[]} nodes
 * @returns {Group}
 */
export function group(nodes) {
  const first = /** @type {NodeRow} */ (nodes[0]);
  return { id: groupId(first), title: place(first), sentence: groupSentence(nodes), nodes, marks: marks(nodes) };
}

/**
 * @param {NodeRow[]} nodes
 * @returns {Mark[]}
 */
function marks(nodes) {
  /** @type {Map<string | undefined, number>} */
  const counts = new Map();
  for (const { cells: letters } of nodes) {
    for (const letter of letters) counts.set(CELL_STATES[letter], (counts.get(CELL_STATES[letter]) ?? 0) + 1);
  }
  return MARKS.flatMap(([id, level, glyph]) => {
    const n = counts.get(id);
    const words = id === "cordoned" ? "closed" : id; // by a cordon or by a taint
    return n ? [{ id, level, glyph, words: say(`count.${words}`, { n }) }] : [];
  });
}

/** @param {NodeRow} node */
export function groupId({ pool, zone }) {
  return `g-${pool}/${zone}`.replace(/\s/g, "_");
}

/**
 * @param {NodeRow} node
 * @returns {Text}
 */
export function place({ pool, zone }) {
  if (pool && zone) return say("group.path", { pool, zone });
  return pool || zone || say("group.none");
}

/**
 * @param {NodeRow[]} nodes
 * @returns {Text}
 */
export function groupSentence(nodes) {
  const kinds = new Set(nodes.map((node) => `${node.cells.length} ${node.product}`));
  const total = sum(nodes.map((node) => node.cells.length));
  const first = nodes[0], n = nodes.length;
  const even = kinds.size === 1 && first !== undefined && first.cells.length && first.product;
  /** @type {Text} */
  const size = even
    ? say("group.even", { n, slots: first.cells.length, product: first.product })
    : [say("nodes", { n }), total ? say("gpus", { n: total }) : say("card.none")];
  if (!total) return size;
  const unused = sum(usable(nodes).map((r) => r.free));
  return [size, say("group.available", { available: availableOf(nodes), total }), say("group.free", { n: unused })];
}

/** @param {NodeRow[]} nodes */
function usable(nodes) {
  return nodes.filter((node) => node.usable).flatMap((node) => node.resources);
}

/**
 * Slots that are allocatable on usable nodes, without those whose GPU failed or is unknown.
 * @param {NodeRow[]} nodes
 */
export function availableOf(nodes) {
  return sum(usable(nodes).map((r) => r.allocatable - r.failed - r.unknown));
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, n) => total + n, 0);
}

/** @param {NodeRow} node */
export function card(node) {
  return {
    name: node.name,
    product: node.product,
    level: node.level,
    glyph: glyph(node),
    cells: cells(node),
    words: node.level ? reason(node) : node.gpu_workloads.join(", "),
    free: freeWords(node),
    label: label(node),
  };
}

/** @param {NodeRow} node */
export function glyph(node) {
  if (node.level === "off" && SILENT.includes(node.reasons[0] ?? "")) return "s-unknown";
  return levelGlyph(node.level);
}

/** @param {NodeRow} node */
export function cells(node) {
  return [...node.cells].map((letter) => ({ state: CELL_STATES[letter] ?? "unknown", fifths: /\d/.test(letter) ? letter : "" }));
}

/**
 * @param {NodeRow} node
 * @returns {Text}
 */
function freeWords(node) {
  const n = sum(node.resources.map((r) => r.free));
  return n && node.usable && !node.level ? say("card.free", { n }) : "";
}

/** @param {NodeRow} node */
function label(node) {
  if (!node.cells) return say("card.alt-none");
  return say("card.alt", { gpus: say("gpus", { n: node.cells.length }), counts: counts(node) });
}

/**
 * @param {NodeRow} node
 * @returns {Text}
 */
export function counts(node) {
  const states = cells(node).map((cell) => cell.state);
  return STATES.filter((state) => states.includes(state))
    .map((state) => say(`count.${cellWord(node, state)}`, { n: states.filter((other) => other === state).length }));
}

/**
 * Closed slots are drawn alike; the word says what closes them.
 * @param {NodeRow} node
 * @param {string} state
 */
export function cellWord(node, state) {
  return state === "cordoned" && !node.unschedulable ? "tainted" : state;
}

/**
 * What its level is about: announced work, or its most urgent reason; "" when it has none.
 * @param {NodeRow} node
 */
export function mainReason({ level, planned, reasons }) {
  return (level === "drain" && planned) || (level && reasons[0]) || "";
}

/**
 * @param {NodeRow} node
 * @param {string} [token] one of its reasons; its most urgent one when absent
 * @returns {Text}
 */
export function reason(node, token = mainReason(node)) {
  const since = node.conditions.find((condition) => condition.type === "Ready")?.since_at ?? null;
  if ((token === "node-unreachable" || token === "node-not-ready") && since !== null) {
    return say(`card.${token}`, { age: { age: since } });
  }
  if (token === "cordoned" && node.cordoned_at !== null) return say("card.cordoned", { age: { age: node.cordoned_at } });
  if (token === "node-tainted" && node.closed_by) return say("card.node-tainted", { taint: node.closed_by });
  if (token === "gpus-withdrawn") return say("card.gpus-withdrawn", { n: sum(node.resources.map((r) => r.capacity - r.allocatable)) });
  if (token === "over-committed") return say("card.over-committed", { n: sum(node.resources.map((r) => r.overcommit)) });
  return say(`card.${token}-short`);
}
