/**
 * Deltas change tables as they do in Python: the same files are replayed there.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Feed } from "../static/js/feed.js";
import { apply, touched } from "../static/js/picture.js";

const FOLDER = new URL("../../tests/data/changes/", import.meta.url);
const files = readdirSync(FOLDER);

for (const name of files) {
  const { about, old, delta, new: next } = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
  test(`${name}: ${about}`, () => {
    const before = structuredClone(old);
    assert.deepEqual(structuredClone(apply(old, delta.tables)), next);
    assert.deepEqual(old, before, "the tables before stay as they were");
    for (const [table, change] of Object.entries(delta.tables)) {
      const ids = [...change.gone, ...change.groups.flatMap((group) => group.ids)];
      assert.deepEqual(touched(old[table], apply(old, delta.tables)[table]), new Set(ids));
    }
  });
}

test("there are files", () => assert.ok(files.length >= 5));

test("what does not change stays the same object", () => {
  const before = { nodes: { a: { free: 1 }, b: { free: 2 } }, pods: {} };
  const after = apply(before, { nodes: { groups: [{ ids: ["b"], set: { free: [1] } }], gone: [] } });
  assert.equal(after.nodes.a, before.nodes.a);
  assert.equal(after.pods, before.pods);
  assert.deepEqual([...touched(before.nodes, before.nodes)], []);
  assert.deepEqual([...touched(undefined, before.nodes)], ["a", "b"]);
});

for (const name of ["constructor", "__proto__", "toString"]) {
  test(`${name} is a name like any other`, () => {
    const row = { free: 1 }, feed = new Feed("");
    const frame = JSON.parse(`{"t": "snapshot", "v": [1, 1], "at": 1, "now": 1, "tables": {"nodes": {"a": {}, "${name}": {"free": 1}}}}`);
    feed.take(frame);
    const before = feed.tables;
    assert.deepEqual(before.nodes[name], row);
    feed.take({ t: "delta", prev: [1, 1], v: [1, 2], at: 2, tables: { nodes: { groups: [], gone: [name] } } });
    const after = feed.tables;
    assert.equal(after.nodes[name], undefined);
    assert.deepEqual([...touched(before.nodes, after.nodes)], [name]);
    const again = apply(after, { nodes: { groups: [{ ids: [name], set: { free: [1] } }], gone: [] } });
    assert.deepEqual(Object.keys(again.nodes), ["a", name]);
    assert.deepEqual([again.nodes[name], after.nodes[name]], [row, undefined]);
    assert.deepEqual([...touched({ a: again.nodes.a }, again.nodes)], [name]);
  });
}
