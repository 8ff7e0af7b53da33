/**
 * The socket that keeps the page fresh: opens it, follows versions, asks for everything again after a gap, and tries again when it
 * breaks.
 *
 * Owns the protocol and its state (version, tables, clock offset, age of the data). Touches no page.
 */
import { apply } from "./picture.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").Version} Version */
/** @typedef {import("./picture.js").AnyTables} AnyTables */

const FIRST_PAUSE_S = 0.5;
const LONGEST_PAUSE_S = 15;
const SILENT_AFTER_S = 8; // a pulse comes every 2 s
const ANSWER_WITHIN_S = 10;

/**
 * What the connection tells the page.
 * @typedef {{
 *   tables: (tables: AnyTables, before: AnyTables) => void,
 *   pulse: () => void,
 *   bye: (reason: string) => void,
 * }} Listener
 *
 * What the connection needs from the world; tests give their own.
 * @typedef {{
 *   open: () => WebSocket,
 *   now: () => number,
 *   random: () => number,
 *   later: (run: () => void, seconds: number) => unknown,
 *   cancel: (timer: any) => void,
 * }} World
 */

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

export class Connection {
  /**
   * @param {object} hello the first frame: which cluster and view
   * @param {Listener} listener
   * @param {World} world
   */
  constructor(hello, listener, world) {
    this.hello = hello;
    this.listener = listener;
    this.world = world;
    /** @type {AnyTables} */
    this.tables = {};
    /** @type {Version | null} */
    this.version = null;
    /** Seconds since 1970 of the server: when what we show was last known to be true. */
    this.at = /** @type {number | null} */ (null);
    /** The server's clock minus ours, in seconds. */
    this.offset = 0;
    /** @type {import("./types.js").Trouble[]} */
    this.trouble = [];
    /** When the next try begins, in seconds since 1970 of our clock; null while connected or trying. */
    this.retryAt = /** @type {number | null} */ (null);
    this.tries = 0;
    this.asked = false;
    this.ended = false;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.watchdog = /** @type {unknown} */ (null);
    this.retry = /** @type {unknown} */ (null);
  }

  get connected() {
    return this.socket !== null && this.socket.readyState === 1;
  }

  /** Seconds since 1970 by the server's clock, as far as we know. */
  now() {
    return this.world.now() + this.offset;
  }

  /** Connect now, whatever the pause; nothing happens while connected or after a goodbye. */
  start() {
    if (this.socket !== null || this.ended) return;
    this.world.cancel(this.retry);
    this.retryAt = null;
    const socket = this.world.open();
    this.socket = socket;
    this.guard(ANSWER_WITHIN_S);
    socket.onopen = () => socket.send(JSON.stringify(this.hello));
    socket.onmessage = (event) => this.receive(/** @type {Frame} */ (JSON.parse(event.data)));
    socket.onclose = () => this.lost(socket);
  }

  /** Close without coming back until `start`. */
  stop() {
    const socket = this.socket;
    this.world.cancel(this.retry);
    if (socket !== null) this.drop(socket);
  }

  /** @param {Frame} frame */
  receive(frame) {
    this.guard(SILENT_AFTER_S);
    if (frame.t === "bye") {
      this.ended = true;
      this.listener.bye(frame.reason);
      return;
    }
    this.tries = 0;
    if ("now" in frame) this.offset = frame.now - this.world.now();
    if (frame.t === "snapshot") this.replace(frame);
    else if (frame.t === "delta") this.change(frame);
    else this.beat(frame);
  }

  /** @param {import("./types.js").SnapshotFrame} frame */
  replace(frame) {
    this.asked = false;
    const older = this.version !== null && this.version[0] === frame.v[0] && frame.v[1] < this.version[1];
    if (older) return;
    this.advance(frame.v, frame.at, frame.tables);
  }

  /** @param {import("./types.js").DeltaFrame} frame */
  change(frame) {
    const found = verdict(this.version, frame.prev, frame.v);
    if (found === "refetch") this.refetch();
    else if (found === "apply") this.advance(frame.v, frame.at, apply(this.tables, frame.tables));
  }

  /** @param {import("./types.js").PulseFrame} frame */
  beat(frame) {
    if (verdict(this.version, frame.v, frame.v) === "refetch") {
      this.refetch();
      return;
    }
    this.at = Math.max(this.at ?? 0, frame.at);
    this.trouble = frame.trouble;
    this.listener.pulse();
  }

  /**
   * @param {Version} version
   * @param {number} at
   * @param {AnyTables} tables
   */
  advance(version, at, tables) {
    const before = this.tables;
    this.version = version;
    this.at = Math.max(this.at ?? 0, at);
    this.tables = tables;
    this.listener.tables(tables, before);
  }

  /** Something is missing: ask for everything, once. */
  refetch() {
    if (this.asked || this.socket === null) return;
    this.asked = true;
    this.socket.send(JSON.stringify({ t: "refetch" }));
  }

  /**
   * A socket that says nothing for too long is as good as closed.
   * @param {number} seconds
   */
  guard(seconds) {
    this.world.cancel(this.watchdog);
    const socket = this.socket;
    this.watchdog = this.world.later(() => {
      if (socket !== null) this.lost(socket);
    }, seconds);
  }

  /** @param {WebSocket} socket */
  lost(socket) {
    if (socket !== this.socket) return;
    this.drop(socket);
    if (this.ended) return;
    const pause = Math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** this.tries) * (0.5 + this.world.random() / 2);
    this.tries += 1;
    this.retryAt = this.world.now() + pause;
    this.retry = this.world.later(() => this.start(), pause);
  }

  /** @param {WebSocket} socket */
  drop(socket) {
    this.world.cancel(this.watchdog);
    this.socket = null;
    this.asked = false;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}

/**
 * The browser as the world of a connection.
 * @param {string} address
 * @returns {World}
 */
export function browser(address) {
  return {
    open: () => new WebSocket(address),
    now: () => Date.now() / 1000,
    random: Math.random,
    later: (run, seconds) => setTimeout(run, seconds * 1000),
    cancel: (timer) => clearTimeout(timer),
  };
}

/**
 * Try again at once when the person comes back or the network does; leave no socket behind in the back/forward cache.
 * @param {Connection} connection
 */
export function followPage(connection) {
  const wake = () => {
    if (document.visibilityState === "visible") connection.start();
  };
  document.addEventListener("visibilitychange", wake);
  addEventListener("online", wake);
  addEventListener("pageshow", wake);
  addEventListener("pagehide", () => connection.stop());
}
