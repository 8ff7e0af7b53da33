/**
 * What the Rollouts page says about the picture's rows: the mirror of dashboard/panels/rollouts.py.
 */
import { say } from "../words.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").RolloutRow} RolloutRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {import("./tables.js").Row} Row */
/** @typedef {{q: string, kind: string, namespace: string, of: string}} Choice */
/** @typedef {keyof typeof SIGNS} Standing */

export const FIELDS = /** @type {const} */ (["q", "kind", "namespace", "of"]);
/** Left out on a narrow screen when there is nothing to say. */
const FOLDED = /** @type {const} */ (["old-pods", "version", "gpus-held", "end"]);
/** Level and glyph of each, the most urgent first. */
const SIGNS = /** @type {const} */ ({
  held: ["bad", "s-hold"],
  waits: ["warn", "s-wait"],
  rolling: ["run", "s-run"],
  "not-observed": ["run", "s-todo"],
  manual: ["", "s-wait"],
  paused: ["", "s-off"],
  left: ["", "s-drain"],
  done: ["", "s-ok"],
});
const ORDER = /** @type {Standing[]} */ (Object.keys(SIGNS));
/** @type {ReadonlySet<Standing>} */
const MOVING = new Set(ORDER.filter((one) => one !== "left" && one !== "done"));
/** @type {ReadonlySet<Standing>} */
const TROUBLED = new Set(/** @type {Standing[]} */ (["held", "waits"]));

/**
 * What the address asks for.
 * @param {URLSearchParams} query
 * @returns {Choice}
 */
export function choice(query) {
  return /** @type {Choice} */ (Object.fromEntries(FIELDS.map((field) => [field, (query.get(field) ?? "").trim()])));
}

/**
 * How a rollout stands for whoever looks.
 * @param {RolloutRow} row
 * @returns {Standing}
 */
export function standing(row) {
  const levels = row.holdups.map((one) => one.level);
  if (levels.includes("bad") || row.verdict === "failed") return "held";
  if (levels.includes("warn")) return "waits";
  if (row.verdict === "done") return row.remarks.length ? "left" : "done";
  if (row.verdict === "manual") return row.old ? "manual" : "done";
  return row.verdict === "paused" || row.verdict === "not-observed" ? row.verdict : "rolling";
}

/**
 * Since when the oldest of its serious reasons has held.
 * @param {RolloutRow} row
 * @returns {number | null}
 */
function heldSince(row) {
  const found = row.holdups.flatMap((one) => (one.level !== "note" && one.since_at !== null ? [one.since_at] : []));
  return found.length ? Math.min(...found) : null;
}

/**
 * How many are in progress, for the navigation.
 * @param {Record<string, RolloutRow>} found
 */
export function moving(found) {
  return Object.values(found).filter((row) => MOVING.has(standing(row))).length;
}

/**
 * @param {Choice} wanted
 * @param {string} key
 * @param {RolloutRow} row
 */
function shows(wanted, key, row) {
  const [kind = "", namespace = ""] = key.split("/");
  return key.toLowerCase().includes(wanted.q.toLowerCase())
    && ["", kind].includes(wanted.kind)
    && ["", namespace].includes(wanted.namespace)
    && (wanted.of !== "moving" || MOVING.has(standing(row)))
    && (wanted.of !== "held" || TROUBLED.has(standing(row)));
}

/**
 * @param {Record<string, RolloutRow>} found
 * @param {Choice} wanted
 * @returns {Row[]}
 */
export function rows(found, wanted) {
  return Object.entries(found).filter(([key, row]) => shows(wanted, key, row))
    .map(([key, row]) => ({ key, row, place: ORDER.indexOf(standing(row)), since: heldSince(row) ?? Number.MAX_VALUE }))
    .sort((a, b) => a.place - b.place || a.since - b.since || natural(nameOf(a.key), nameOf(b.key)) || natural(a.key, b.key))
    .map(({ key, row }) => remembered(key, row));
}

/** What was made of each row of the picture: a row that stands is the very same object, and most of a large fleet stands. */
const made = /** @type {WeakMap<RolloutRow, Row>} */ (new WeakMap());

/**
 * @param {string} key
 * @param {RolloutRow} row
 */
function remembered(key, row) {
  const known = made.get(row) ?? rollout(key, row);
  made.set(row, known);
  return known;
}

/** @param {string} key */
function nameOf(key) {
  return key.slice(key.lastIndexOf("/") + 1);
}

/**
 * @param {string} key
 * @param {RolloutRow} row
 * @returns {Row}
 */
function rollout(key, row) {
  const [kind = "", namespace = ""] = key.split("/"), stands = standing(row), [level, glyph] = SIGNS[stands];
  const stopping = [...row.new_stages, ...row.old_stages].reduce((n, [stage, pods]) => n + (stage === "stopping" ? pods : 0), 0);
  const cells = {
    workload: nameOf(key),
    state: state(row, stands),
    "new-pods": say("node.ready-of", { ready: row.new, total: row.desired }),
    "old-pods": row.old,
    version: row.was && row.revision && row.was !== row.revision ? say("rollouts.versions", { was: row.was, now: row.revision }) : row.revision || "–",
    "gpus-held": row.old_gpus + row.new_gpus + row.terminating_gpus,
    end: end(row, stands),
  };
  /** @type {Record<string, Text>} */
  const small = {
    workload: [namespace, kind],
    state: [...row.holdups.map((one) => say(`rollouts.cause.${one.cause}`)), row.verdict === "failed" ? say("rollouts.late") : ""],
    "new-pods": row.new_stages.filter(([stage]) => !["ready", "stopping"].includes(stage)).map(([stage, n]) => say(`rollouts.stage.${stage}`, { n })),
    "old-pods": stopping ? say("rollouts.stage.stopping", { n: stopping }) : "",
    "gpus-held": row.terminating_gpus ? say("rollouts.stopping-gpus", { n: row.terminating_gpus }) : "",
    end: row.deadline_at === null ? "" : say("rollouts.deadline", { time: { clock: row.deadline_at } }),
  };
  const nil = FOLDED.filter((name) => (cells[name] === 0 || cells[name] === "–") && (small[name] ?? "") === "");
  return { key, level, cells, small, links: { workload: key }, marks: { state: glyph }, nil };
}

/**
 * @param {RolloutRow} row
 * @param {Standing} stands
 * @returns {Text}
 */
function state(row, stands) {
  const since = heldSince(row);
  return TROUBLED.has(stands) && since !== null ? say(`rollouts.state.${stands}-for`, { age: { age: since } }) : say(`rollouts.state.${stands}`);
}

/**
 * Unknown is said only of what is on its way.
 * @param {RolloutRow} row
 * @param {Standing} stands
 * @returns {Value}
 */
function end(row, stands) {
  if (row.eta_at !== null) return say("rollouts.eta", { time: { clock: row.eta_at } });
  return ["rolling", "waits"].includes(stands) ? null : "–";
}

/**
 * @param {Record<string, RolloutRow>} found
 * @param {Choice} wanted
 * @returns {Text}
 */
export function counts(found, wanted) {
  const shown = Object.entries(found).filter(([key, row]) => shows(wanted, key, row)).map(([, row]) => standing(row));
  const held = shown.filter((one) => TROUBLED.has(one)).length;
  return [
    say("rollouts.count", { n: shown.length }),
    say("rollouts.moving", { n: shown.filter((one) => MOVING.has(one)).length }),
    held ? say("rollouts.held", { n: held }) : "",
  ];
}
