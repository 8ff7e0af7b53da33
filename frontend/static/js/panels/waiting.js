/**
 * What the Waiting page says about pods that want GPUs and have no node: the mirror of dashboard/panels/waiting.py.
 */
import { say } from "../words.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").PodRow} PodRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("./tables.js").Row} Row */
/** @typedef {{resource: string, product: string, slots: number}} Want */

const NAMED = 3;

/**
 * @param {Record<string, PodRow>} pods
 * @param {Record<string, NodeRow>} nodes
 * @returns {Row[]}
 */
export function rows(pods, nodes) {
  const machines = Object.values(nodes).sort((a, b) => natural(a.name, b.name));
  const since = (/** @type {PodRow} */ row) => row.created_at ?? Number.MAX_VALUE;
  /** @type {Map<string, [number, Text, Text]>} */
  const places = new Map();
  return Object.entries(pods).sort(([a, one], [b, two]) => since(one) - since(two) || natural(a, b)).map(([key, pod]) => {
    const want = wanted(pod), id = JSON.stringify(want);
    const found = places.get(id) ?? place(machines, want);
    places.set(id, found);
    return row(key, pod, short(machines, pod.product), found);
  });
}

/**
 * @param {PodRow} pod
 * @returns {Want}
 */
function wanted(pod) {
  const [resource, slots] = pod.resources[0] ?? ["", pod.gpus];
  return { resource, product: pod.product, slots };
}

/**
 * @param {string} key
 * @param {PodRow} pod
 * @param {string} product
 * @param {[number, Text, Text]} place
 * @returns {Row}
 */
function row(key, pod, product, [hole, fits, more]) {
  const { resource, slots: n } = wanted(pod);
  const cells = {
    pod: pod.name,
    needs: product ? say("gpus.of", { n, product }) : say("gpus", { n }),
    since: pod.created_at === null ? null : { age: pod.created_at },
    hole,
    fits,
    scheduler: pod.waiting_reason || say("waiting.no-word"),
  };
  const team = pod.team ? say("node.team", { team: pod.team }) : "";
  const small = { pod: [pod.namespace, pod.owner_kind, team], needs: resource, fits: more, scheduler: pod.waiting_message };
  return { key, level: "warn", cells, small };
}

/**
 * @param {NodeRow[]} nodes
 * @param {string} product
 */
function short(nodes, product) {
  return nodes.find((node) => product !== "" && node.product_name === product)?.product ?? product;
}

/**
 * The largest hole now; where the pod would fit; and how else it could.
 * @param {NodeRow[]} nodes
 * @param {Want} want
 * @returns {[number, Text, Text]}
 */
function place(nodes, { resource, product, slots }) {
  const offers = nodes.filter((node) => product === "" || node.product_name === product)
    .flatMap((node) => node.resources.filter((held) => held.name === resource).map((held) => ({ node, held })));
  const able = offers.filter(({ node, held }) => node.ready === "True" && held.allocatable >= slots);
  const open = able.filter(({ node }) => node.usable);
  const hole = Math.max(0, ...offers.filter(({ node }) => node.usable).map(({ held }) => held.free));
  const now = open.filter(({ held }) => held.free >= slots).map(({ node }) => node.name);
  const closed = able.filter(({ node, held }) => node.unschedulable && held.free >= slots).map(({ node }) => node.name);
  const emptied = open.filter(({ held }) => held.free < slots)
    .sort((a, b) => a.held.allocated - b.held.allocated || natural(a.node.name, b.node.name));
  const lowest = emptied.slice(0, NAMED)
    .map(({ node, held }) => say("waiting.to-move", { node: node.name, gpus: say("gpus", { n: held.allocated }) }));
  if (able.length === 0) return [hole, say("waiting.nowhere"), ""];
  const ways = [
    closed.length ? say("waiting.uncordoned", { nodes: listed(closed, closed.length) }) : "",
    lowest.length ? say("waiting.emptied", { nodes: listed(lowest, emptied.length) }) : "",
  ];
  return [hole, now.length ? say("waiting.now", { nodes: listed(now, now.length) }) : say("waiting.not-now"), ways];
}

/**
 * A few by name, the others counted.
 * @param {Text[]} names
 * @param {number} total
 * @returns {Text}
 */
function listed(names, total) {
  const [first = "", ...others] = names.slice(0, NAMED);
  const few = others.reduce((list, next) => say("list.and-next", { list, next }), first);
  return total > NAMED ? say("list.more", { list: few, n: total - NAMED }) : few;
}

/**
 * @param {Record<string, PodRow>} pods
 * @returns {Text}
 */
export function counts(pods) {
  const rows = Object.values(pods);
  if (rows.length === 0) return "";
  return [say("pods", { n: rows.length }), say("gpus", { n: rows.reduce((total, pod) => total + pod.gpus, 0) })];
}
