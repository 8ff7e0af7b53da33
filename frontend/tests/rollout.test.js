/**
 * When the page of one rollout asks the server again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { differs, paced } from "../static/js/live/rollout.js";

test("only rows of this rollout are a reason", () => {
  const tables = { fleet: {}, rollouts: {}, pods: {}, workloads: {}, attention: {} };
  assert.equal(differs(tables, { ...tables, fleet: { fleet: { free: 1 } } }), false);
  for (const name of ["rollouts", "pods", "workloads"]) assert.equal(differs(tables, { ...tables, [name]: { x: {} } }), true, name);
});

test("of several rollouts, a row of one of them is", () => {
  const blue = { ready: 2 }, tables = /** @type {any} */ ({ rollouts: { blue, green: blue, other: blue }, pods: {}, workloads: {} });
  const changed = (/** @type {string} */ name) => ({ ...tables, pods: {}, rollouts: { ...tables.rollouts, [name]: { ready: 1 } } });
  assert.equal(differs(tables, changed("other"), ["blue", "green"]), false);
  assert.equal(differs(tables, changed("green"), ["blue", "green"]), true);
});

test("many changes are one question at a time, with a rest between, and the last one is never lost", async () => {
  /** @type {(() => void)[]} */
  const answers = [], rests = [];
  let asked = 0;
  const ask = paced(() => new Promise((resolve) => { asked += 1; answers.push(resolve); }), (then) => rests.push(then));
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  ask();
  for (let i = 0; i < 50; i += 1) ask();
  assert.equal(asked, 1);
  answers.shift()?.();
  await settle();
  assert.equal(asked, 1, "it rests first");
  rests.shift()?.();
  assert.equal(asked, 2, "the changes meanwhile are asked about once");
  answers.shift()?.();
  await settle();
  rests.shift()?.();
  assert.equal(asked, 2, "nothing has changed since");
  ask();
  assert.equal(asked, 3);
});
