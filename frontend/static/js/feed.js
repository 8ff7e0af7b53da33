/**
 * What one cluster's frames have told so far: its rows, their version and their age.
 *
 * Owns the rule of versions. Touches neither socket nor page.
 */
import { apply, bare } from "./picture.js";

/** @typedef {import("./types.js").Version} Version */
/** @typedef {import("./picture.js").AnyTables} AnyTables */

/**
 * What to do with a delta, given what we have: the rule of the wire contract.
 * @param {Version | null} mine
 * @param {Version} prev
 * @param {Version} next
 * @returns {"apply" | "ignore" | "refetch"}
 */
export function verdict(mine, prev, next) {
  if (mine === null || mine[0] !== next[0] || mine[0] !== prev[0]) return "refetch";
  if (next[1] <= mine[1]) return "ignore";
  return prev[1] <= mine[1] ? "apply" : "refetch";
}

export class Feed {
  /** @param {string} cluster "" where the page looks at one only */
  constructor(cluster) {
    this.cluster = cluster;
    /** @type {AnyTables} */
    this.tables = {};
    /** @type {Version | null} */
    this.version = null;
    /** Seconds since 1970 of the server: when what we show was last known to be true. */
    this.at = /** @type {number | null} */ (null);
    /** @type {import("./types.js").Trouble[]} */
    this.trouble = [];
    /** Why what we show is known not to be kept true, whatever its age; "" as far as anybody knows. */
    this.loss = "";
    this.asked = false;
  }

  /**
   * @param {Exclude<import("./types.js").Frame, import("./types.js").ByeFrame>} frame
   * @returns {"tables" | "pulse" | "refetch" | "nothing"} what has changed, or that everything must be asked for
   */
  take(frame) {
    if (frame.t === "snapshot") return this.replace(frame);
    return frame.t === "delta" ? this.change(frame) : this.beat(frame);
  }

  /** @param {import("./types.js").SnapshotFrame} frame */
  replace(frame) {
    this.asked = false;
    const older = this.version !== null && this.version[0] === frame.v[0] && frame.v[1] < this.version[1];
    return older ? "nothing" : this.advance(frame.v, frame.at, bareTables(frame.tables));
  }

  /** @param {import("./types.js").DeltaFrame} frame */
  change(frame) {
    const found = verdict(this.version, frame.prev, frame.v);
    if (found === "apply") return this.advance(frame.v, frame.at, apply(this.tables, frame.tables));
    return found === "refetch" ? found : "nothing";
  }

  /** @param {import("./types.js").PulseFrame} frame */
  beat(frame) {
    const [epoch] = frame.v, none = epoch === 0; // there is no picture yet
    if (!none && verdict(this.version, frame.v, frame.v) === "refetch") return "refetch";
    if (!none) this.at = Math.max(this.at ?? 0, frame.at);
    this.trouble = frame.trouble;
    this.loss = frame.lost ? frame.reason : "";
    return "pulse";
  }

  /**
   * @param {Version} version
   * @param {number} at
   * @param {AnyTables} tables
   * @returns {"tables"}
   */
  advance(version, at, tables) {
    this.version = version;
    this.at = Math.max(this.at ?? 0, at);
    this.tables = tables;
    return "tables";
  }
}

/**
 * @param {AnyTables} tables
 * @returns {AnyTables}
 */
function bareTables(tables) {
  return Object.fromEntries(Object.entries(tables).map(([name, rows]) => [name, bare(rows)]));
}
