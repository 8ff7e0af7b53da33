/**
 * What the Node page says about its GPUs: the mirror of dashboard/panels/gpus.py.
 */
import { say } from "../words.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").GpuRow} GpuRow */
/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").Measure} Measure */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {import("./tables.js").Row} Row */

const GIB = 1024;
const FIFTH_PCT = 20;
const SHORT_UUID = 12;

/**
 * @param {Record<string, GpuRow>} rows
 * @param {NodeRow} node
 * @returns {Row[]}
 */
export function gpus(rows, node) {
  return ordered(rows).map((row) => gpu(row, node));
}

/** @param {Record<string, GpuRow>} rows */
function ordered(rows) {
  return Object.values(rows).sort((a, b) => a.index - b.index || natural(key(a), key(b)));
}

/** @param {GpuRow} row */
export function key(row) {
  return row.uuid || `${row.node}/${row.pci}`;
}

/**
 * @param {GpuRow} row
 * @param {NodeRow} node
 * @returns {Row}
 */
function gpu(row, node) {
  const now = current(row);
  const cells = {
    gpu: say("gpu.index", { index: row.index }),
    "gpu-state": state(row, node),
    trend: "",
    now: percent(now.utilization_pct),
    memory: memory(now),
    temperature: unit("gpu.c", now.temperature_c),
    power: power(now),
    ecc: pair(now.ecc_corrected, now.ecc_uncorrected),
    clocks: clocks(now),
    "used-by": users(row),
  };
  const small = { gpu: short(row), "gpu-state": [why(row), since(row)], ecc: remap(now), "used-by": also(row) };
  const something = {
    ecc: now.ecc_corrected || now.ecc_uncorrected || remap(now).length, clocks: now.clock_reasons.length,
  };
  const nil = Object.entries(something).flatMap(([column, told]) => (told ? [] : [column]));
  const trend = { at: row.read_at, value: number(row.utilization_pct) ? row.utilization_pct : null };
  return { key: key(row), level: row.level, cells, small, links: { gpu: key(row) }, nil, gpu: cell(row, node), trend };
}

/**
 * The row without measurements that are not of now: a GPU that does not answer keeps its last good ones, with their age.
 * @param {GpuRow} row
 * @returns {GpuRow}
 */
function current(row) {
  if (row.state !== "lost" && row.state !== "unknown") return row;
  return {
    ...row, clock_reasons: [], remap: [null, null, null, null], utilization_pct: null, memory_used_mib: null, temperature_c: null,
    power_w: null, sm_clock_mhz: null, ecc_corrected: null, ecc_uncorrected: null,
  };
}

/**
 * Its cell on the map: state and fifths of utilisation.
 * @param {GpuRow} row
 * @param {NodeRow} node
 * @returns {[string, string]}
 */
export function cell(row, node) {
  if (row.state === "unknown") return ["unknown", ""];
  if (row.state !== "ok" && row.state !== "app-fault") {
    const soft = row.state === "degraded" || (row.state === "reset-required" && row.soft);
    return [soft ? "degraded" : "failed", ""];
  }
  if (!held(row)) return [node.usable ? "free" : "cordoned", ""];
  return row.idle_since_at === null ? ["busy", fifths(row.utilization_pct)] : ["idle", ""];
}

/** @param {GpuRow} row */
function held(row) {
  return row.pods === null ? Boolean(row.users) : row.pods.length > 0;
}

/**
 * @param {Measure} value
 * @returns {value is number}
 */
function number(value) {
  return typeof value === "number";
}

/** @param {Measure} utilization */
function fifths(utilization) {
  return number(utilization) ? String(Math.floor(Math.min(Math.max(utilization, 0), 100) / FIFTH_PCT + 0.5)) : "";
}

/**
 * @param {GpuRow} row
 * @param {NodeRow} node
 */
export function state(row, node) {
  if (row.state !== "ok") return say(`device.${row.state}`);
  const [found] = cell(row, node);
  return say(found === "cordoned" && !node.unschedulable ? "state.tainted" : `state.${found}`);
}

/**
 * @param {GpuRow} row
 * @returns {Text}
 */
function why(row) {
  return row.reason ? [rule(row.reason), row.soft ? say("gpu.when-convenient") : ""] : "";
}

/** @param {string} token */
export function rule(token) {
  const [, kind, code = ""] = /^(s?xid)(?:-(.*))?$/.exec(token) ?? [];
  if (!kind) return say(`rule.${token}`);
  return /^\d+$/.test(code) ? say(`rule.${kind}`, { code }) : say(`rule.${kind}-unnumbered`);
}

/** @param {GpuRow} row */
function since(row) {
  return row.state === "ok" || row.since_at === null ? "" : say("gpu.for", { age: { age: row.since_at } });
}

/** @param {GpuRow} row */
export function short(row) {
  return row.uuid.slice(0, SHORT_UUID) || row.pci;
}

/**
 * A whole number, or the word for why there is none.
 * @param {Measure} value
 * @returns {Value}
 */
export function measured(value) {
  if (value === "n/a") return say("gpu.na");
  return number(value) ? Math.floor(value + 0.5) : null;
}

/**
 * @param {string} pattern
 * @param {Measure} value
 */
export function unit(pattern, value) {
  return number(value) ? say(pattern, { n: Math.floor(value + 0.5) }) : measured(value);
}

/** @param {Measure} value */
export function percent(value) {
  return unit("kpi.percent", value);
}

/** @param {number} mib */
export function gib(mib) {
  const tenths = Math.floor((mib * 10) / GIB + 0.5);
  return say("gpu.decimal", { whole: Math.floor(tenths / 10), tenth: tenths % 10 });
}

/** @param {GpuRow} row */
export function memory({ memory_used_mib: used, memory_total_mib: total }) {
  if (!number(used)) return measured(used);
  return number(total) ? say("gpu.of-memory", { used: gib(used), total: gib(total) }) : say("gpu.memory", { used: gib(used) });
}

/** @param {GpuRow} row */
export function power({ power_w, power_limit_w }) {
  const used = measured(power_w), limit = measured(power_limit_w);
  if (typeof used !== "number") return used;
  return typeof limit === "number" ? say("gpu.of-power", { used, limit }) : say("gpu.power", { used });
}

/**
 * @param {Measure} a
 * @param {Measure} b
 */
export function pair(a, b) {
  return a === b && !number(a) ? measured(a) : say("gpu.pair", { a: measured(a), b: measured(b) });
}

/**
 * @param {GpuRow} row
 * @returns {Text[]}
 */
export function remap(row) {
  const [corrected, uncorrected, pending, failure] = row.remap;
  if (row.remap.includes(null) && row.read_at !== null) return [say("gpu.remap-unknown")];
  const rows = [corrected, uncorrected].reduce((/** @type {number} */ sum, n) => sum + (number(n ?? null) ? Number(n) : 0), 0);
  const yes = (/** @type {Measure | undefined} */ value) => typeof value === "number" && value > 0;
  return [
    ...(yes(failure) ? [say("gpu.remap-failed")] : []),
    ...(yes(pending) ? [say("gpu.remap-pending")] : []),
    ...(rows ? [say("gpu.remapped", { n: rows })] : []),
  ];
}

/**
 * @param {GpuRow} row
 * @returns {Value}
 */
export function clocks({ clock_reasons, sm_clock_mhz }) {
  if (!clock_reasons.length) return number(sm_clock_mhz) ? say("none") : measured(sm_clock_mhz);
  return clock_reasons.map((reason) => {
    const [, bit] = /^bit-(.*)$/.exec(reason) ?? [];
    return bit === undefined ? say(`clock.${reason}`) : say("clock.bit", { bit });
  });
}

/**
 * @param {GpuRow} row
 * @returns {Value}
 */
function users(row) {
  if (row.pods === null) return null;
  return row.pods.map((pod) => pod.slice(pod.lastIndexOf("/") + 1)).join(", ") || "–";
}

/**
 * @param {GpuRow} row
 * @returns {Text}
 */
function also(row) {
  const idle = row.idle_since_at !== null && held(row);
  return [
    row.strangers ? say("gpu.strangers", { n: row.strangers }) : "",
    idle ? say("gpu.not-used", { age: { age: row.idle_since_at ?? 0 } }) : "",
  ];
}

/**
 * How old the newest reading of these GPUs is; "" when there are none.
 * @param {GpuRow[]} rows
 * @returns {Text}
 */
export function readAt(rows) {
  const times = rows.flatMap((row) => (row.read_at === null ? [] : [row.read_at]));
  if (!times.length) return rows.length ? say("gpu.never-read") : "";
  return say("gpu.read", { age: { age: Math.max(...times) } });
}

/**
 * Whether it is known which pod holds which GPU: then a table of slots says nothing more.
 * @param {GpuRow[]} rows
 * @param {NodeRow} node
 */
export function placed(rows, node) {
  const whole = !node.resources.some((resource) => resource.shared || resource.mig);
  return rows.length > 0 && whole && rows.every((row) => row.pods !== null);
}

/**
 * What ticks on the page of one GPU: the mirror of `measures` in dashboard/panels/gpu.py.
 * @param {GpuRow} row
 * @returns {Record<string, Value>}
 */
export function measures(row) {
  return {
    utilization: percent(row.utilization_pct),
    "gpu-memory": memory(row),
    reserved: reserved(row.memory_reserved_mib),
    temperature: unit("gpu.c", row.temperature_c),
    "memory-temperature": unit("gpu.c", row.memory_temperature_c),
    power: power(row),
    "sm-clock": unit("gpu.mhz", row.sm_clock_mhz),
    clocks: clocks(row),
    ecc: pair(row.ecc_corrected, row.ecc_uncorrected),
    remaps: remaps(row),
    nvlinks: of("gpu.of", row.nvlinks),
    pcie: of("gpu.pcie", row.pcie),
  };
}

/** @param {Measure} value */
function reserved(value) {
  if (number(value)) return say("gpu.memory", { used: gib(value) });
  return value === null ? null : say("gpu.with-reserved");
}

/**
 * @param {GpuRow} row
 * @returns {Value}
 */
function remaps({ remap: found }) {
  const [corrected = null, uncorrected = null, pending = null, failure = null] = found;
  if (new Set(found).size === 1 && !number(corrected)) return measured(corrected);
  return [
    say("gpu.remap-counts", { corrected: measured(corrected), uncorrected: measured(uncorrected) }),
    say("gpu.remap-flags", { pending: flag(pending), failed: flag(failure) }),
  ];
}

/** @param {Measure} value */
function flag(value) {
  return number(value) ? say(value ? "yes" : "no") : measured(value);
}

/**
 * @param {string} pattern
 * @param {Measure[]} values
 */
function of(pattern, [a = null, b = null]) {
  return a === b && !number(a) ? measured(a) : say(pattern, { a: measured(a), b: measured(b) });
}
