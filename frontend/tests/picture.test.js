/**
 * Deltas change tables as they do in Python.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, touched } from "../static/js/picture.js";

const before = Object.freeze({
  nodes: Object.freeze({ a: Object.freeze({ free: 1, cells: "f" }), b: Object.freeze({ free: 2, cells: "ff" }) }),
  pods: Object.freeze({}),
});

test("columns become rows, rows go, and what does not change stays the same object", () => {
  const after = apply(before, {
    nodes: { groups: [{ ids: ["a", "c"], set: { free: [0, 3], cells: ["b", "fff"] } }], gone: ["b"] },
  });
  assert.deepEqual(after.nodes, { a: { free: 0, cells: "b" }, c: { free: 3, cells: "fff" } });
  assert.equal(after.pods, before.pods);
  assert.equal(before.nodes.a.free, 1);
});

test("a field that is not named keeps its value", () => {
  const after = apply(before, { nodes: { groups: [{ ids: ["b"], set: { free: [1] } }], gone: [] } });
  assert.deepEqual(after.nodes.b, { free: 1, cells: "ff" });
  assert.equal(after.nodes.a, before.nodes.a);
});

test("what a screen has to look at again", () => {
  const after = apply(before, { nodes: { groups: [{ ids: ["c"], set: { free: [1] } }], gone: ["b"] } });
  assert.deepEqual([...touched(before.nodes, after.nodes)].sort(), ["b", "c"]);
  assert.deepEqual([...touched(before.nodes, before.nodes)], []);
  assert.deepEqual([...touched(undefined, before.nodes)], ["a", "b"]);
});
