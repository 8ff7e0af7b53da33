/**
 * Lines over time: the mirror of dashboard/panels/charts.py. A slot without a measurement is a gap, never a zero.
 */

export const MINUTE_S = 60;
/** @typedef {(number | null)[]} Values */
/** @typedef {{first: number, values: Values}} Slots  first: the number of the first slot since 1970 */

/**
 * The path of a line through a box that is `values.length - 1` wide and 100 high.
 * @param {Values} values
 * @param {number} top
 */
export function line(values, top) {
  return runs(values, top).map((run) => path(run) + (run.length > 1 ? "" : "h.4")).join("");
}

/**
 * @param {Values} values
 * @param {number} top
 */
export function area(values, top) {
  return runs(values, top).filter((run) => run.length > 1).map((run) => `${path(run)}V100H${run[0]?.[0]}Z`).join("");
}

/**
 * The slots after a further measurement: it replaces what its slot had, and old slots leave on the left.
 * @param {Slots} slots
 * @param {number} at seconds since 1970
 * @param {number | null} value
 * @returns {Slots}
 */
export function measured({ first, values }, at, value) {
  const slot = Math.floor(at / MINUTE_S), ahead = Math.max(0, slot - (first + values.length - 1));
  const next = [...values.slice(ahead), .../** @type {Values} */ (Array(Math.min(ahead, values.length)).fill(null))];
  const i = slot - (first + ahead);
  if (i >= 0 && value !== null) next[i] = Math.floor(value + 0.5);
  return { first: first + ahead, values: next };
}

/** @param {[number, number][]} points */
function path(points) {
  return `M${points.map(([x, y]) => `${x} ${y}`).join("L")}`;
}

/**
 * @param {Values} values
 * @param {number} top
 * @returns {[number, number][][]}
 */
function runs(values, top) {
  /** @type {[number, number][][]} */
  const found = [];
  values.forEach((value, x) => {
    if (value === null) return;
    if ((values[x - 1] ?? null) === null) found.push([]);
    found.at(-1)?.push([x, 100 - Math.min(100, Math.floor((100 * value) / top + 0.5))]);
  });
  return found;
}
