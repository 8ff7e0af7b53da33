/**
 * Turns patterns and values into text, by the same rules as dashboard/panels/words.py.
 *
 * Owns plurals, numbers, ages and clock times. Knows no rows; touches the document only to make text nodes and <time> elements.
 */

/**
 * @typedef {{age: number}} Age      how long ago (seconds since 1970): ticks in the page
 * @typedef {{clock: number}} Clock  the time of an event
 * @typedef {{say: string, values: Record<string, Value>}} Say
 * @typedef {string | Say | Text[]} Text  texts of a list stand side by side; empty ones vanish
 * @typedef {Text | number | Age | Clock | null} Value  null: unknown
 * @typedef {string | Age | Clock} Piece
 */

const SEPARATOR = " · ";

/**
 * @param {string} key
 * @param {Record<string, Value>} [values]
 * @returns {Say}
 */
export function say(key, values = {}) {
  return { say: key, values };
}

export class Words {
  /**
   * @param {Record<string, string | string[]>} catalogue patterns in the page's language
   * @param {string} lang
   * @param {string} [zone] time zone; the browser's when absent
   */
  constructor(catalogue, lang, zone) {
    this.catalogue = catalogue;
    this.plural = new Intl.PluralRules(lang);
    this.clockFace = new Intl.DateTimeFormat("en-GB", {
      year: "numeric", month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hourCycle: "h23", ...(zone ? { timeZone: zone } : {}),
    });
  }

  /**
   * @param {Value} value
   * @param {number} now seconds since 1970
   * @returns {string}
   */
  plain(value, now) {
    return this.pieces(value).map((piece) => (typeof piece === "string" ? piece : this.spoken(piece, now))).join("");
  }

  /**
   * The text as runs of characters and times, in order.
   * @param {Value} value
   * @returns {Piece[]}
   */
  pieces(value) {
    if (value === null) return [this.mark("unknown")];
    if (typeof value === "string") return [value];
    if (typeof value === "number") return [this.number(value)];
    if (Array.isArray(value)) {
      const parts = value.filter((part) => part !== "" && !(Array.isArray(part) && part.length === 0));
      return parts.flatMap((part, i) => (i ? [SEPARATOR, ...this.pieces(part)] : this.pieces(part)));
    }
    return "say" in value ? this.filled(value) : [value];
  }

  /**
   * @param {Say} message
   * @returns {Piece[]}
   */
  filled(message) {
    return this.pattern(message).split(/\{(\w+)\}/).flatMap((part, i) => {
      if (i % 2) return this.pieces(/** @type {Value} */ (message.values[part]));
      return part ? [part] : [];
    });
  }

  /** @param {Say} message */
  pattern(message) {
    const found = this.catalogue[message.say];
    if (found === undefined) throw new Error(`no words for ${message.say}`);
    if (typeof found === "string") return found;
    const n = message.values["n"];
    return /** @type {string} */ (found[typeof n === "number" && this.plural.select(n) === "one" ? 0 : 1]);
  }

  /** @param {string} key */
  mark(key) {
    return /** @type {string} */ (this.catalogue[key]);
  }

  /** @param {number} value */
  number(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, this.mark("thousand"));
  }

  /**
   * @param {Age | Clock} piece
   * @param {number} now
   * @returns {string}
   */
  spoken(piece, now) {
    return "age" in piece ? this.age(now - piece.age) : this.clock(piece.clock, now);
  }

  /**
   * One unit, two for hours. Never negative: clocks of different machines differ.
   * @param {number} seconds
   * @returns {string}
   */
  age(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return this.plain(say("age.s", { n: whole }), 0);
    if (whole < 3600) return this.plain(say("age.min", { n: Math.floor(whole / 60) }), 0);
    if (whole < 86_400) {
      const min = String(Math.floor((whole % 3600) / 60)).padStart(2, "0");
      return this.plain(say("age.h", { n: Math.floor(whole / 3600), min }), 0);
    }
    return this.plain(say("age.d", { n: Math.floor(whole / 86_400) }), 0);
  }

  /**
   * Today: 03:09:14. This year: 25 Feb 03:09. Before: 25 Feb 2025.
   * @param {number} at
   * @param {number} now
   * @returns {string}
   */
  clock(at, now) {
    const then = this.face(at), today = this.face(now);
    if (["year", "month", "day"].every((unit) => then[unit] === today[unit])) {
      return `${then["hour"]}:${then["minute"]}:${then["second"]}`;
    }
    const month = this.mark("months").split(" ")[Number(then["month"]) - 1] ?? "";
    const date = { day: String(Number(then["day"])), month };
    if (then["year"] !== today["year"]) return this.plain(say("clock.year", { ...date, year: then["year"] ?? "" }), 0);
    return this.plain(say("clock.day", { ...date, time: `${then["hour"]}:${then["minute"]}` }), 0);
  }

  /**
   * @param {number} at
   * @returns {Record<string, string>}
   */
  face(at) {
    return Object.fromEntries(this.clockFace.formatToParts(at * 1000).map((part) => [part.type, part.value]));
  }

  /**
   * @param {Piece} piece
   * @param {number} now
   * @returns {Node}
   */
  node(piece, now) {
    if (typeof piece === "string") return document.createTextNode(piece);
    const element = document.createElement("time");
    const at = "age" in piece ? piece.age : piece.clock;
    element.dateTime = new Date(at * 1000).toISOString().replace(/\.\d+Z$/, "Z");
    element.dataset["age" in piece ? "liveAge" : "liveClock"] = String(at);
    element.textContent = this.spoken(piece, now);
    return element;
  }
}
