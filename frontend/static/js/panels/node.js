/**
 * What the Node page says about the picture's rows: the mirror of dashboard/panels/node.py.
 */
import { say } from "../words.js";
import { glyph, place, reason } from "./fleet.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").PodRow} PodRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {{id: string, level: string, glyph: string, words: Text}} Tag */
/** @typedef {{key: string, level: string, cells: Record<string, Value>, small: Record<string, Text>}} Row */

const GOOD_WHEN_TRUE = ["Ready"];
const GIB = 1024;

/**
 * @param {NodeRow} node
 * @returns {Tag[]}
 */
export function tags(node) {
  const found = [state(node)];
  if (node.level && node.unschedulable && node.reasons[0] !== "cordoned") {
    found.push({ id: "cordon", level: "off", glyph: "s-off", words: say("card.cordoned-short") });
  }
  if (node.cells && !node.measured) {
    found.push({ id: "measured", level: "off", glyph: "s-unknown", words: say("node.not-measured") });
  }
  return found;
}

/**
 * @param {NodeRow} node
 * @returns {Tag}
 */
function state(node) {
  if (node.level) return { id: "state", level: node.level, glyph: glyph(node), words: reason(node) };
  const [level, mark] = node.measured ? ["ok", "s-ok"] : ["run", "s-info"];
  return { id: "state", level: level ?? "", glyph: mark ?? "", words: say("node.ready") };
}

/**
 * @param {NodeRow} node
 * @returns {Text}
 */
export function hardware(node) {
  if (node.physical === null) return node.product_name || (node.cells ? say("node.gpus-unknown") : say("card.none"));
  return say("node.hardware", { count: node.physical, product: node.product_name || node.product || say("node.gpu") });
}

/**
 * @param {NodeRow} node
 * @returns {Row[]}
 */
export function resources(node) {
  return [...node.resources].sort((a, b) => (a.name < b.name ? -1 : 1)).map((r) => {
    const { name, capacity, allocatable, allocated, free, overcommit } = r;
    const note = [
      overcommit ? say("node.over", { n: overcommit }) : "",
      capacity > allocatable ? say("node.withdrawn", { n: capacity - allocatable }) : "",
      r.shared ? say("node.shared") : "",
      r.mig ? say("node.mig") : "",
    ];
    const level = overcommit || capacity > allocatable ? "warn" : "";
    return { key: name, level, cells: { resource: name, capacity, allocatable, allocated, free, note }, small: {} };
  });
}

/**
 * @param {Record<string, PodRow>} rows
 * @returns {Row[]}
 */
export function pods(rows) {
  const own = (/** @type {PodRow} */ row) => Number(row.daemon || row.mirror);
  return Object.entries(rows)
    .sort(([a, one], [b, two]) => own(one) - own(two) || two.gpus - one.gpus || natural(a, b))
    .map(([key, row]) => pod(key, row));
}

/**
 * @param {string} key
 * @param {PodRow} row
 * @returns {Row}
 */
function pod(key, row) {
  const cells = {
    pod: row.name,
    gpus: row.gpus || "–",
    status: row.status,
    ready: say("node.ready-of", { ready: row.ready, total: row.containers }),
    restarts: row.restarts,
    grace: row.grace_s === null ? null : say("age.s", { n: row.grace_s }),
    budget: row.budgets.join(", ") || say("none"),
    "empty-dir": row.empty_dir ? say("yes") : say("no"),
    age: row.created_at === null ? null : { age: row.created_at },
  };
  const team = row.team ? say("node.team", { team: row.team }) : "";
  const claims = row.claims ? say("node.claims", { n: row.claims }) : "";
  return { key, level: row.level, cells, small: { pod: [row.namespace, row.owner_kind, team], gpus: claims } };
}

/**
 * @param {PodRow[]} rows
 * @returns {[Text, Text]}
 */
export function podCounts(rows) {
  const own = rows.filter((row) => row.daemon || row.mirror).length;
  return [say("pods", { n: rows.length - own }), own ? say("node.own-pods", { n: own }) : ""];
}

/**
 * @param {NodeRow} node
 * @returns {Row[]}
 */
export function conditions(node) {
  const last = (/** @type {{type: string}} */ c) => Number(c.type !== "Ready");
  return [...node.conditions].sort((a, b) => last(a) - last(b) || (a.type < b.type ? -1 : 1)).map((c) => {
    const good = GOOD_WHEN_TRUE.includes(c.type);
    const healthy = c.status === (good ? "True" : "False");
    const level = healthy ? "" : c.status === "Unknown" || !good ? "warn" : "bad";
    const since = c.since_at === null ? null : { age: c.since_at };
    const cells = { type: c.type, status: c.status, reason: c.reason || "–", since };
    return { key: c.type, level, cells, small: { reason: c.message } };
  });
}

/**
 * @param {NodeRow} node
 * @returns {Record<string, Value>}
 */
export function facts(node) {
  const memory = node.memory_mib === null ? null : say("node.gib", { n: Math.floor(node.memory_mib / GIB + 0.5) });
  const none = say("not-applicable");
  return {
    place: place(node),
    memory: node.cells ? memory : none,
    machine: node.machine || null,
    address: node.address || null,
    driver: node.cells ? node.driver || null : none,
    cuda: node.cells ? node.cuda || null : none,
    kubelet: node.kubelet || null,
    runtime: node.runtime || null,
    kernel: node.kernel || null,
    os: node.os_image || null,
    created: node.created_at === null ? null : { clock: node.created_at },
    taints: node.taints.join(", ") || say("none"),
  };
}
