/**
 * A line over the last hour that goes on with each reading. Silent: a line that grows is no change.
 */
import { area, line, measured } from "../panels/charts.js";
import { mark, part } from "./patch.js";

/**
 * @param {SVGElement} svg
 * @param {{at: number | null, value: import("../types.js").Measure} | null} last the newest measurement
 * @param {string} level
 */
export function trend(svg, last, level) {
  mark(svg, "data-level", level);
  if (last === null || last.at === null) return;
  const value = typeof last.value === "number" ? last.value : null, known = held(svg);
  const { first, values } = measured(known, last.at, value);
  mark(svg, "data-first", String(first));
  if (!mark(svg, "data-values", values.map((one) => one ?? "").join(","))) return;
  const top = Number(svg.dataset["top"]);
  mark(part(svg, ".l"), "d", line(values, top));
  mark(part(svg, ".a"), "d", area(values, top));
}

/** @param {SVGElement} svg */
function held(svg) {
  const { first = "", values = "" } = svg.dataset;
  return { first: Number(first), values: values.split(",").map((text) => (text === "" ? null : Number(text))) };
}
