/**
 * What the Workloads page says about the picture's rows: the mirror of dashboard/panels/workloads.py.
 */
import { say } from "../words.js";
import { natural } from "./order.js";
import { cell } from "./save-ages.js";

/** @typedef {import("../types.js").CheckpointRow} CheckpointRow */
/** @typedef {import("../types.js").WorkloadRow} WorkloadRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("./tables.js").Row} Row */
/** @typedef {{q: string, kind: string, namespace: string, team: string, of: string, sort: string}} Choice */

export const FIELDS = /** @type {const} */ (["q", "kind", "namespace", "team", "of", "sort"]);
const EVERYTHING = "all";

/**
 * What the address asks for.
 * @param {URLSearchParams} query
 * @returns {Choice}
 */
export function choice(query) {
  return /** @type {Choice} */ (Object.fromEntries(FIELDS.map((field) => [field, (query.get(field) ?? "").trim()])));
}

/**
 * @param {Choice} wanted
 * @param {string} key
 * @param {WorkloadRow} row
 */
export function shows(wanted, key, row) {
  return (wanted.of === EVERYTHING || row.gpus > 0 || row.gpus_per_pod > 0)
    && key.toLowerCase().includes(wanted.q.toLowerCase())
    && ["", row.kind].includes(wanted.kind)
    && ["", row.namespace].includes(wanted.namespace)
    && ["", row.team].includes(wanted.team);
}

/**
 * @param {Record<string, WorkloadRow>} found
 * @param {Record<string, CheckpointRow>} saves of those that train
 * @param {Choice} wanted
 * @returns {Row[]}
 */
export function rows(found, saves, wanted) {
  return Object.entries(found).filter(([key, row]) => shows(wanted, key, row))
    .sort(([a, one], [b, two]) => order(wanted.sort, one, two) || natural(one.name, two.name) || natural(a, b))
    .map(([key, row]) => workload(key, row, saves[key]));
}

/**
 * @param {string} sort
 * @param {WorkloadRow} a
 * @param {WorkloadRow} b
 */
function order(sort, a, b) {
  if (sort === "name") return 0;
  if (sort === "gpus") return b.gpus - a.gpus;
  if (sort === "age") return (b.created_at ?? 0) - (a.created_at ?? 0);
  return Number(lacks(a) === 0) - Number(lacks(b) === 0) || b.gpus - a.gpus;
}

/** @param {WorkloadRow} row */
function lacks(row) {
  return Math.max(0, (row.desired ?? 0) - (row.available ?? row.ready));
}

/**
 * @param {string} key
 * @param {WorkloadRow} row
 * @param {CheckpointRow | undefined} saves
 * @returns {Row}
 */
function workload(key, row, saves) {
  const [level, glyph, words, since] = state(row), [saved, age, standing] = cell(saves);
  const cells = {
    workload: row.name,
    "gpus-held": row.gpus,
    state: words,
    ready: of(row.ready, row.desired),
    updated: row.updated === null ? "–" : of(row.updated, row.desired),
    checkpoint: age,
    team: row.team || "–",
    budget: row.budgets.join(", ") || say("none"),
    age: row.created_at === null ? null : { age: row.created_at },
  };
  const each = row.gpus_per_pod ? say("workloads.each", { n: row.gpus_per_pod }) : "";
  const small = { workload: [row.namespace, row.kind], "gpus-held": each, state: since, checkpoint: standing };
  const links = saves ? { checkpoint: key } : {}, nil = saves ? [] : ["checkpoint"];
  return { key, level, cells, small, links, marks: { state: glyph, checkpoint: saved }, nil };
}

/**
 * @param {number} ready
 * @param {number | null} total
 */
function of(ready, total) {
  return say("node.ready-of", { ready, total });
}

/**
 * Level, glyph, words and since when.
 * @param {WorkloadRow} row
 * @returns {[string, string, Text, Text]}
 */
function state(row) {
  if (row.desired === null) return ["", "s-unknown", say("workloads.unknown"), ""];
  const n = lacks(row), since = row.short_since_at;
  if (n) return ["warn", "s-warn", say("workloads.short", { n }), since === null ? "" : say("workloads.since", { age: { age: since } })];
  if (row.paused) return ["", "s-off", say("workloads.paused"), ""];
  if (row.desired === 0) return ["", "s-off", say("workloads.none-wanted"), ""];
  return ["", "s-info", say("workloads.complete"), ""];
}

/**
 * @param {Record<string, WorkloadRow>} found
 * @param {Choice} wanted
 * @returns {Text}
 */
export function counts(found, wanted) {
  const shown = Object.entries(found).filter(([key, row]) => shows(wanted, key, row)).map(([, row]) => row);
  const gpus = say("gpus", { n: shown.reduce((total, row) => total + row.gpus, 0) });
  return [say("workloads.count", { n: shown.length }), say("workloads.held", { gpus })];
}
