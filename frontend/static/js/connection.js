/**
 * The socket that keeps the page fresh: opens it, gives its frames to the feeds, asks for everything again after a gap, and tries
 * again when it breaks.
 *
 * Owns the socket's life and the clock offset. Touches no page.
 */
import { Feed } from "./feed.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./picture.js").AnyTables} AnyTables */

const FIRST_PAUSE_S = 0.5;
const LONGEST_PAUSE_S = 15;
const SILENT_AFTER_S = 8; // a pulse comes every 2 s
const LOST_AFTER_S = 4; // two pulses missed: what is shown is known not to be kept true
const ANSWER_WITHIN_S = 10;

/**
 * What the connection tells the page.
 * @typedef {{
 *   tables: (tables: AnyTables, before: AnyTables, feed: Feed) => void,
 *   pulse: (feed: Feed) => void,
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
    /** What is known, by cluster; "" where the page looks at one only. */
    this.feeds = new Map([["", new Feed("")]]);
    /** The server's clock minus ours, in seconds. */
    this.offset = 0;
    /** When we last heard anything, by our clock. */
    this.heardAt = world.now();
    /** When the next try begins, in seconds since 1970 of our clock; null while connected or trying. */
    this.retryAt = /** @type {number | null} */ (null);
    this.tries = 0;
    this.ended = false;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.watchdog = /** @type {unknown} */ (null);
    this.retry = /** @type {unknown} */ (null);
  }

  /** The feed of a page that looks at one cluster. */
  get only() {
    return this.feed("");
  }

  /** @param {string} cluster */
  feed(cluster) {
    const found = this.feeds.get(cluster) ?? new Feed(cluster);
    this.feeds.set(cluster, found);
    return found;
  }

  /**
   * Why what a feed shows is known not to be kept true: "socket" when we hear nothing, else what the server says; "" for no reason.
   * @param {Feed} feed
   */
  loss(feed) {
    return this.world.now() - this.heardAt > LOST_AFTER_S ? "socket" : feed.loss;
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
    this.heardAt = this.world.now();
    if ("now" in frame) this.offset = frame.now - this.world.now();
    const feed = this.feed(frame.cluster ?? ""), before = feed.tables, news = feed.take(frame);
    if (news === "refetch") this.refetch(feed);
    else if (news === "tables") this.listener.tables(feed.tables, before, feed);
    else if (news === "pulse") this.listener.pulse(feed);
  }

  /**
   * Something is missing: ask for everything, once.
   * @param {Feed} feed
   */
  refetch(feed) {
    if (feed.asked || this.socket === null) return;
    feed.asked = true;
    this.socket.send(JSON.stringify({ t: "refetch", ...(feed.cluster ? { cluster: feed.cluster } : {}) }));
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
    for (const feed of this.feeds.values()) feed.asked = false;
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
