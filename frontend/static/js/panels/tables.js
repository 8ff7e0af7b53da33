/**
 * What a row of a table is: the mirror of dashboard/panels/tables.py.
 *
 * @typedef {import("../words.js").Text} Text
 * @typedef {import("../words.js").Value} Value
 * @typedef {{key: string, level: string, cells: Record<string, Value>, small: Record<string, Text>, links?: Record<string, string>,
 *   marks?: Record<string, string>, nil?: string[], gpu?: [string, string],
 *   trend?: {at: number | null, value: import("../types.js").Measure}}} Row  nil: columns with nothing to report
 */
export {};
