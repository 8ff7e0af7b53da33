/**
 * The sentences of the attention list: the mirror of dashboard/panels/attention.py.
 */
import { say } from "../words.js";
import { levelGlyph } from "./fleet.js";
import { rule } from "./gpus.js";
import { natural } from "./order.js";

/** @typedef {import("../types.js").AttentionRow} AttentionRow */
/** @typedef {import("../words.js").Text} Text */
/** @typedef {import("../words.js").Value} Value */
/** @typedef {Record<string, string | number | null>} Facts */
/** @typedef {{key: string, level: string, glyph: string, title: Text, evidence: Text, since: number | null, node: string,
 *   action: Text, page: string, rollout: string, training: string, does: string}} Entry  rollout, training: the workload whose
 *   rollout or checkpoints it leads to; page: where the action leads when none is named; does: the kind of action
 *   that comes next, for whoever may */

/** @type {Record<string, string>} */
const DOES = { "drain-and-reset": "drain", "contact-support": "drain", "reset-bus": "maintain", "reboot-node": "maintain" };
/** @type {Record<string, string>} */
const PAGES = {
  "pods-waiting": "waiting", "workload-short": "workloads", "workload-starting": "workloads",
};
const OF_CHECKPOINTS = new Set([
  "checkpoint-none", "checkpoint-critical", "checkpoint-corrupt", "checkpoint-stale", "checkpoint-unreadable", "checkpoint-skew",
  "checkpoint-not-granted",
]);
const HELD_UP = new Set(["rollout-held", "pods-held-up"]), OF_ROLLOUTS = new Set([...HELD_UP, "workload-short", "workload-starting"]);
const ROLLED = new Set(["Deployment", "StatefulSet", "DaemonSet"]);
const TROUBLES = new Set(["denied", "gone", "changed", "outside", "too-many", "silent", "failed"]);

const KINDS = 11; // that are watched: fleet/domain/kube.py

/**
 * Most urgent first; streams that are broken come before what they may hide.
 * @param {Record<string, AttentionRow>} rows
 * @param {[string, string, number][]} [trouble] kind, reason, since when
 * @returns {Entry[]}
 */
export function entries(rows, trouble = []) {
  const sorted = Object.entries(rows).sort(([, a], [, b]) => urgency(a, b));
  return [...streams(trouble), ...sorted.map(([key, row]) => entry(key, row))];
}

/**
 * @param {AttentionRow} a
 * @param {AttentionRow} b
 */
function urgency(a, b) {
  const since = (/** @type {AttentionRow} */ row) => row.since_at ?? Number.MAX_VALUE;
  return a.rank - b.rank || since(a) - since(b) || natural(a.subject, b.subject);
}

/**
 * @param {string} key
 * @param {AttentionRow} row
 * @returns {Entry}
 */
export function entry(key, row) {
  /** @type {Facts} */
  const facts = Object.fromEntries(row.facts), page = PAGES[row.kind] ?? "";
  const rollout = OF_ROLLOUTS.has(row.kind) && ROLLED.has(row.subject.split("/")[0] ?? "") ? row.subject : "";
  const training = OF_CHECKPOINTS.has(row.kind) ? row.subject : "", workload = rollout || training;
  const leads = row.node || workload.slice(workload.lastIndexOf("/") + 1);
  return {
    key,
    level: row.level,
    glyph: levelGlyph(row.level) || "s-info",
    title: title(row, facts),
    evidence: evidence(row, facts),
    since: row.since_at,
    node: row.node,
    action: leads ? say("attention.open", { node: leads }) : page && say(`attention.open-${page}`),
    page,
    rollout,
    training,
    does: (row.node && DOES[String(facts["action"] ?? "")]) || "",
  };
}

/**
 * @param {AttentionRow} row
 * @param {Facts} facts
 */
function title({ kind, node, subject }, facts) {
  const name = subject.slice(subject.lastIndexOf("/") + 1);
  if (kind === "pods-waiting" && subject.split("/").length === 2) return say("attention.pod-waiting", { name });
  if (kind === "rack-event" && subject.startsWith("zone/")) return say("attention.zone-event", { n: count(facts, "count"), name });
  const lacking = count(facts, "desired") - count(facts, "available");
  /** @type {Record<string, number>} */
  const counts = {
    "gpus-withdrawn": count(facts, "withdrawn"),
    "over-committed": count(facts, "overcommit"),
    "workload-short": lacking,
    "workload-starting": lacking,
    "pods-waiting": count(facts, "pods"),
  };
  return say(`attention.${kind}`, { n: counts[kind] ?? count(facts, "count"), node, name });
}

/** @type {Record<string, (facts: Facts, subject: string) => Record<string, Value>>} */
const EVIDENCE = {
  "node-unreachable": (facts) => ({ held: held(facts) }),
  "node-not-ready": (facts) => {
    const message = text(facts, "message") || text(facts, "reason");
    return { message: message.replace(/\.+$/, "") || null, held: held(facts) };
  },
  "gpus-missing": (facts) => ({ gpus: say("gpus", { n: count(facts, "physical") }) }),
  "gpus-withdrawn": (facts) => ({
    n: count(facts, "withdrawn"), capacity: count(facts, "capacity"), resource: text(facts, "resource"),
  }),
  "over-committed": (facts) => {
    const room = count(facts, "allocatable");
    return { asked: room + count(facts, "overcommit"), room, resource: text(facts, "resource") };
  },
  "workload-short": short,
  "workload-starting": short,
  "rollout-held": heldUp,
  "pods-held-up": heldUp,
  "node-tainted": (facts) => ({ taint: text(facts, "taint"), held: held(facts) }),
  cordoned: (facts) => {
    const by = text(facts, "by"), closed = say("evidence.closed", { n: count(facts, "free") });
    return { who: by ? say("evidence.by", { by }) : say("evidence.by-unknown"), closed, held: held(facts) };
  },
  claims: (facts) => ({ n: count(facts, "pods") }),
  "rack-event": rack,
  "gpu-unheld-use": used,
  "gpu-idle-held": used,
  "checkpoint-none": (facts) => {
    const n = count(facts, "abandoned");
    return { place: text(facts, "place"), abandoned: n ? say("evidence.checkpoint-abandoned", { n }) : "" };
  },
  "checkpoint-critical": late,
  "checkpoint-stale": late,
  "checkpoint-corrupt": broken,
  "checkpoint-unreadable": unread,
  "checkpoint-not-granted": unread,
  "checkpoint-skew": (facts) => ({ which: step(facts), skew: text(facts, "skew") }),
};
/** Which of the node's GPUs, why, and the one right next action. */
const OF_GPUS = new Set([
  "gpu-lost", "gpu-reboot-required", "gpu-hardware-service", "gpu-reset-required", "gpu-unlisted", "gpu-degraded", "gpu-unknown",
]);
const OF_DRIVERS = new Set([
  "driver-hung", "driver-mismatch", "driver-missing", "readings-silent", "gpu-work-stuck", "gpu-count-mismatch", "clock-skew",
  "kernel-log-lost", "kernel-log-unread",
]);

/** @param {Facts} facts */
function late(facts) {
  return { which: step(facts), age: since(facts["at"]), target: text(facts, "target") || null };
}

/**
 * What is wrong with it, and from where a restart could go on.
 * @param {Facts} facts
 */
function broken(facts) {
  const age = since(facts["older"]), of = facts["older-step"];
  const known = typeof of === "number" ? say("evidence.checkpoint-older", { step: of, age }) : say("evidence.checkpoint-older-no-step", { age });
  return {
    which: step(facts), what: say(`checkpoint-state.${text(facts, "state")}`), file: text(facts, "file"),
    older: age ? known : say("evidence.checkpoint-nothing-older"),
  };
}

/** @param {Facts} facts */
function unread(facts) {
  const trouble = text(facts, "trouble");
  return { place: text(facts, "place"), reason: say(`checkpoint-trouble.${TROUBLES.has(trouble) ? trouble : "failed"}`) };
}

/** @param {Facts} facts */
function step(facts) {
  const found = facts["step"];
  return typeof found === "number" ? say("evidence.checkpoint-step", { step: found }) : say("evidence.checkpoint-no-step");
}

/** @param {string | number | null | undefined} at */
function since(at) {
  return typeof at === "number" ? { age: at } : null;
}

/**
 * Which nodes, as far as they fit into a sentence, and what they have in common.
 * @param {Facts} facts
 */
function rack(facts) {
  const names = text(facts, "names"), n = count(facts, "more");
  return {
    reason: rule(text(facts, "rule")), gpus: say("gpus", { n: count(facts, "strained") }),
    names: n ? say("evidence.rack-more", { names, n }) : names, held: held(facts),
  };
}

/** @param {Facts} facts */
function used(facts) {
  return { indices: text(facts, "indices"), held: held(facts) };
}

/**
 * @param {string} kind
 * @param {Facts} facts
 */
function ofGpus(kind, facts) {
  const token = text(facts, "rule");
  if (OF_GPUS.has(kind)) {
    const reason = token ? rule(token) : say(`device.${text(facts, "state")}`);
    return say(`evidence.${kind}`, { ...used(facts), reason, action: say(`action.${text(facts, "action")}`) });
  }
  const found = text(facts, "evidence").replace(/\.+$/, ""), reason = rule(token);
  const seen = found ? say("evidence.seen", { reason, evidence: found }) : reason;
  return say(`evidence.${kind}`, { seen, held: held(facts) });
}

/**
 * @param {AttentionRow} row
 * @param {Facts} facts
 * @returns {Text}
 */
function evidence({ kind, subject }, facts) {
  if (kind === "pods-waiting") return waiting(facts);
  if (OF_GPUS.has(kind) || OF_DRIVERS.has(kind)) return ofGpus(kind, facts);
  return say(`evidence.${kind}`, EVIDENCE[kind]?.(facts, subject) ?? {});
}

/**
 * @param {Facts} facts
 * @param {string} owner
 */
function short(facts, owner) {
  const each = say("evidence.each", { gpus: say("gpus", { n: count(facts, "gpus") }) });
  return { available: count(facts, "available"), desired: count(facts, "desired"), ready: count(facts, "ready"), owner, each };
}

/**
 * All its serious reasons, the most serious first.
 * @param {Facts} facts
 * @returns {Text}
 */
function why(facts) {
  const causes = text(facts, "causes").split(",").filter(Boolean).map((cause) => say(`rollouts.cause.${cause}`));
  return [...causes, count(facts, "late") ? say("rollouts.late") : ""];
}

/**
 * Why, what was seen of the first reason, what still serves, and one way out.
 * @param {Facts} facts
 * @returns {Record<string, Value>}
 */
function heldUp(facts) {
  const counts = { available: count(facts, "available"), desired: count(facts, "desired") }, deadline = facts["deadline"];
  const until = typeof deadline === "number" && say("evidence.serving-until", { ...counts, time: { clock: deadline } });
  const remedy = text(facts, "remedy");
  return {
    why: why(facts), seen: seen(facts), serving: until || say("evidence.serving", counts),
    way: remedy && say(`evidence.way.${remedy}`, { place: text(facts, "place") }),
  };
}

/**
 * @param {Facts} facts
 * @returns {Text}
 */
function seen(facts) {
  const words = text(facts, "said").replace(/\.+$/, ""), code = facts["code"], reason = text(facts, "reason");
  if ("hole" in facts) return say("evidence.no-hole", { n: count(facts, "count"), need: need(facts), hole: count(facts, "hole") });
  if (typeof code === "number") {
    const told = reason ? `${code} (${reason})` : String(code);
    return say("evidence.ended", { n: count(facts, "restarts"), container: text(facts, "container"), code: told });
  }
  return words && say("evidence.says", { words });
}

/** @param {Facts} facts */
function need(facts) {
  const n = count(facts, "gpus"), product = text(facts, "product");
  return product ? say("gpus.of", { n, product }) : say("gpus", { n });
}

/**
 * A hole that is too small explains itself; otherwise the scheduler's words do.
 * @param {Facts} facts
 */
function waiting(facts) {
  const hole = count(facts, "hole"), n = count(facts, "pods");
  if (hole < count(facts, "gpus")) return say("evidence.pods-waiting", { n, need: need(facts), hole });
  const reason = text(facts, "message") || text(facts, "reason") || null;
  return say("evidence.pods-waiting-other", { n, need: need(facts), reason });
}

/**
 * Nothing where the pods are somebody else's news.
 * @param {Facts} facts
 */
function held(facts) {
  if (!("pods" in facts)) return "";
  const n = count(facts, "pods"), gpus = count(facts, "gpus");
  if (!n) return say("evidence.held-nobody");
  return gpus ? say("evidence.held", { n, gpus: say("gpus", { n: gpus }) }) : say("evidence.held-none", { n });
}

/**
 * @param {Facts} facts
 * @param {string} name
 */
function count(facts, name) {
  const value = facts[name];
  return typeof value === "number" ? Math.trunc(value) : 0;
}

/**
 * @param {Facts} facts
 * @param {string} name
 */
function text(facts, name) {
  return String(facts[name] ?? "");
}

/**
 * One entry when the API server or every stream is silent: the kinds then say nothing of their own. Else one per kind.
 * @param {[string, string, number][]} trouble kind, reason, since when
 * @returns {Entry[]}
 */
function streams(trouble) {
  const server = trouble.find(([kind]) => kind === "server");
  if (!server && trouble.length !== KINDS) return trouble.map(([kind, reason, since]) => stream(kind, reason, since));
  const [, reason, since] = server ?? trouble.reduce((last, lost) => (lost[2] > last[2] ? lost : last));
  return [lost("server", say("attention.server"), say("evidence.server", { reason }), since)];
}

/**
 * @param {string} kind
 * @param {string} reason
 * @param {number} since
 */
function stream(kind, reason, since) {
  if (reason === "Forbidden") return lost(kind, say("attention.forbidden", { kind }), say("evidence.forbidden"), since);
  return lost(kind, say("attention.stream", { kind }), say("evidence.stream", { reason }), since);
}

/**
 * @param {string} what
 * @param {Text} title
 * @param {Text} evidence
 * @param {number} since
 * @returns {Entry}
 */
function lost(what, title, evidence, since) {
  return { key: `stream:${what}`, level: "warn", glyph: "s-warn", title, evidence, since, node: "", action: "", page: "", rollout: "", training: "", does: "" };
}

/**
 * The evidence of all that is wrong with one node, the most urgent first, or that nothing is. What runs there is said once.
 * @param {Record<string, AttentionRow>} rows
 * @returns {Text}
 */
export function summary(rows) {
  const found = Object.values(rows).sort(urgency), first = found.find((row) => row.node);
  if (!found.length) return say("node.fine");
  const alone = found.map((row) => evidence(row, Object.fromEntries(row.facts.filter(([name]) => name !== "pods"))));
  return first ? [...alone, held(Object.fromEntries(first.facts))] : alone;
}
