import assert from "node:assert/strict";
import { test } from "node:test";

import { rising } from "../static/js/live/patch.js";

test("what stands in order stays: one row that goes to the end is one move", () => {
  assert.deepEqual([...rising([1, 2, 3, 4, 0])].sort(), [0, 1, 2, 3]);
  assert.deepEqual([...rising([4, 0, 1, 2, 3])].sort(), [1, 2, 3, 4]);
});

test("new rows never stay, and nothing is lost", () => {
  assert.deepEqual([...rising([-1, 0, -1, 1])].sort(), [1, 3]);
  assert.deepEqual([...rising([])], []);
  assert.equal(rising([2, 1, 0]).size, 1);
});

test("what stays rises, and no longer part does", () => {
  for (const places of orders([0, 1, 2, 3, 4, 5])) {
    const still = [...rising(places)].sort((a, b) => a - b).map((i) => places[i] ?? -1);
    assert.ok(still.every((place, i) => i === 0 || place > (still[i - 1] ?? -1)), `${places} keeps ${still}`);
    assert.equal(still.length, longest(places), `${places} keeps ${still}`);
  }
});

/**
 * @param {number[]} items
 * @returns {number[][]} every order of them
 */
function orders(items) {
  if (items.length < 2) return [items];
  return items.flatMap((item, i) => orders(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}

/**
 * Of the longest rising part, by trying every choice.
 * @param {number[]} places
 * @param {number} above
 * @returns {number}
 */
function longest(places, above = -1) {
  return Math.max(0, ...places.map((place, i) => (place > above ? 1 + longest(places.slice(i + 1), place) : 0)));
}
