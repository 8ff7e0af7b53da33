/**
 * The rows that a page shows, and how a delta changes them: the mirror of fleet/domain/changes.py, proved by the same fixtures.
 */

/** @typedef {import("./types.js").Delta} Delta */
/** @typedef {Record<string, Record<string, object>>} AnyTables */

/**
 * A table of our own: no name that a cluster may give ("constructor", "__proto__") means anything but a row.
 * @template T
 * @param {Record<string, T>} [rows]
 * @returns {Record<string, T>}
 */
export function bare(rows = {}) {
  return Object.assign(Object.create(null), rows);
}

/**
 * The tables after a delta. Rows and tables that do not change stay the same objects; the arguments stay as they are.
 * @param {AnyTables} tables
 * @param {Delta} delta
 * @returns {AnyTables}
 */
export function apply(tables, delta) {
  const next = { ...tables };
  for (const [name, change] of Object.entries(delta)) {
    const table = bare(next[name]);
    for (const id of change.gone) delete table[id];
    for (const { ids, set } of change.groups) {
      ids.forEach((id, i) => {
        const fields = Object.entries(set).map(([field, values]) => [field, values[i]]);
        table[id] = { ...table[id], ...Object.fromEntries(fields) };
      });
    }
    next[name] = table;
  }
  return next;
}

/**
 * Ids of a table whose rows differ between two states of it: what a screen has to look at again.
 * @param {Record<string, object> | undefined} before
 * @param {Record<string, object> | undefined} after
 * @returns {Set<string>}
 */
export function touched(before = {}, after = {}) {
  const found = new Set(Object.keys(after).filter((id) => !Object.hasOwn(before, id) || after[id] !== before[id]));
  for (const id of Object.keys(before)) if (!Object.hasOwn(after, id)) found.add(id);
  return found;
}
