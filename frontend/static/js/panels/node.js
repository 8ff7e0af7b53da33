/**
 * What the Node page says about the picture's rows: the mirror of dashboard/panels/node.py.
 */
import { say } from "../words.js";
import { cellState, cellWord, glyph, levelGlyph, mainReason, place, reason } from "./fleet.js";
import { natural } from "./order.js";
import { cell } from "./save-ages.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").PodRow} PodRow */
/** @typedef {Record<string, import("../types.js").CheckpointRow>} Saves  by the key of the workload that trains */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {{id: string, level: string, glyph: string, words: Text}} Tag */
/** @typedef {import("./tables.js").Row} Row */

const GOOD_WHEN_TRUE = ["Ready"];
const GIB = 1024;
const CLOSING = ["node-unreachable", "node-not-ready", "node-tainted", "cordoned"];
const NOTES = ["gpu-idle-held", "kernel-log-lost"];
const WEAK = [
  "gpu-unknown", "readings-silent", "gpu-work-stuck", "gpu-count-mismatch", "gpu-degraded", "gpu-unheld-use", "clock-skew",
  "kernel-log-unread",
];
const ALLOCATED = ["busy", "idle"];

/**
 * @param {NodeRow} node
 * @returns {Tag[]}
 */
export function tags(node) {
  const found = [state(node)];
  for (const token of node.reasons.filter((one) => one !== mainReason(node))) {
    const level = levelOf(token);
    found.push({ id: token, level, glyph: levelGlyph(level) || "s-info", words: reason(node, token) });
  }
  if (node.cells && !node.measured) {
    found.push({ id: "measured", level: "off", glyph: "s-unknown", words: say("node.not-measured") });
  }
  return found;
}

/** @param {string} token one of a node's reasons */
function levelOf(token) {
  if (CLOSING.includes(token)) return "off";
  return NOTES.includes(token) ? "run" : WEAK.includes(token) ? "warn" : "bad";
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
    const closed = node.usable ? 0 : free;
    const note = [
      closed ? say("node.closed", { n: closed }) : "",
      overcommit ? say("node.over", { n: overcommit }) : "",
      capacity > allocatable ? say("node.withdrawn", { n: capacity - allocatable }) : "",
      r.failed ? say("count.failed", { n: r.failed }) : "",
      r.unknown ? say("count.unknown", { n: r.unknown }) : "",
      r.shared ? say("node.shared") : "",
      r.mig ? say("node.mig") : "",
    ];
    const level = overcommit || capacity > allocatable ? "warn" : "";
    const cells = { resource: name, capacity, allocatable, allocated, free: closed ? "–" : free, note };
    return { key: name, level, cells, small: {} };
  });
}

/**
 * Runs of slots alike, in slot order: the allocated ones by pod, the largest first.
 * @param {NodeRow} node
 * @param {Record<string, PodRow>} held
 * @returns {Row[]}
 */
export function slots(node, held) {
  const known = Object.entries(held).sort(podOrder);
  let at = 0;
  return slotCounts(node).flatMap(([name, count]) => {
    const holders = known.flatMap(([, pod]) => pod.resources.flatMap(([asked, n]) => (asked === name ? Array(n).fill(pod) : [])));
    const start = at, found = runs(node.cells.slice(at, at + count), holders);
    at += count;
    return found.map((run) => slot(run, start, node.resources.length > 1 ? name : "", cellWord(node, cellState(run.letter))));
  });
}

/**
 * @param {NodeRow} node
 * @returns {[string, number][]}
 */
function slotCounts({ resources: found, cells }) {
  if (found.length) return found.map((r) => [r.name, Math.max(r.capacity, r.allocatable)]);
  return cells ? [["", cells.length]] : [];
}

/** @typedef {{first: number, last: number, letter: string, holder: PodRow | null}} Run */

/**
 * @param {string} letters
 * @param {PodRow[]} holders
 * @returns {Run[]}
 */
function runs(letters, holders) {
  /** @type {Run[]} */
  const found = [];
  let next = 0;
  [...letters].forEach((letter, i) => {
    const holder = ALLOCATED.includes(cellState(letter)) ? holders[next++] ?? null : null, last = found.at(-1);
    if (last && last.letter === letter && last.holder === holder) last.last = i;
    else found.push({ first: i, last: i, letter, holder });
  });
  return found;
}

/**
 * @param {Run} run
 * @param {number} start
 * @param {string} resource
 * @param {string} state in a word
 * @returns {Row}
 */
function slot({ first, last, holder }, start, resource, state) {
  const from = start + first;
  /** @type {Record<string, Text>} */
  const small = { slot: resource };
  if (holder) small["held-by"] = [holder.namespace, holder.owner_kind, holder.team ? say("node.team", { team: holder.team }) : ""];
  const cells = {
    slot: first === last ? `${from}` : `${from}–${start + last}`,
    "slot-state": say(`state.${state}`),
    "held-by": holder ? holder.name : "–",
  };
  return { key: String(from), level: state === "failed" ? "bad" : "", cells, small, nil: holder ? [] : ["held-by"] };
}

/**
 * @param {[string, PodRow]} a
 * @param {[string, PodRow]} b
 */
function podOrder([a, one], [b, two]) {
  const own = (/** @type {PodRow} */ row) => Number(row.daemon || row.mirror);
  return own(one) - own(two) || two.gpus - one.gpus || natural(a, b);
}

/**
 * @param {Record<string, PodRow>} rows
 * @param {Saves} saves
 * @returns {Row[]}
 */
export function pods(rows, saves) {
  return Object.entries(rows).sort(podOrder).map(([key, row]) => pod(key, row, saves));
}

/**
 * @param {string} key
 * @param {PodRow} row
 * @param {Saves} saves
 * @returns {Row}
 */
function pod(key, row, saves) {
  const trains = row.workload || `Pod/${key}`, [saved, age, standing] = cell(saves[trains]);
  const cells = {
    pod: row.name,
    gpus: row.gpus || "–",
    status: row.status,
    ready: say("node.ready-of", { ready: row.ready, total: row.containers }),
    checkpoint: age,
    restarts: row.restarts,
    grace: row.grace_s === null ? null : say("age.s", { n: row.grace_s }),
    budget: row.budgets.join(", ") || say("none"),
    "empty-dir": row.empty_dir ? say("yes") : say("no"),
    age: row.created_at === null ? null : { age: row.created_at },
  };
  const team = row.team ? say("node.team", { team: row.team }) : "";
  const claims = row.claims ? say("node.claims", { n: row.claims }) : "";
  const something = {
    gpus: row.gpus || row.claims, checkpoint: saves[trains], restarts: row.restarts, budget: row.budgets.length, "empty-dir": row.empty_dir,
  };
  const nil = Object.entries(something).flatMap(([column, told]) => (told ? [] : [column]));
  const small = { pod: [row.namespace, row.owner_kind, team], gpus: claims, checkpoint: standing };
  /** @type {Record<string, string>} */
  const links = saves[trains] ? { checkpoint: trains } : {};
  return { key, level: row.level, cells, small, links, marks: { checkpoint: saved }, nil };
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
 * Who has closed the node, why and when, as far as the cluster tells; "" for one that is open.
 * @param {NodeRow | undefined} node
 * @param {import("../types.js").LabelsRow | undefined} labels
 * @returns {Text}
 */
export function cordon(node, labels) {
  if (node === undefined || !node.unschedulable) return "";
  const notes = Object.fromEntries(labels?.annotations ?? []);
  const at = node.cordoned_at === null ? say("node.cordon.unknown-time") : { clock: node.cordoned_at };
  const action = notes["vigie.dev/cordoned-by"];
  if (action && ["", "vigie"].includes(node.cordoned_by)) return say("node.cordon.ours", { action, at, reason: notes["vigie.dev/cordon-reason"] || null });
  return say("node.cordon.foreign", { by: node.cordoned_by || null, at });
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
