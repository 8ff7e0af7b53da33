/**
 * The smallest change of the document that shows a new value: compares before it writes, so nothing moves or flashes for nothing.
 */

/** @typedef {import("../words.js").Value} Value */
/** @typedef {import("../words.js").Piece} Piece */
/** @typedef {import("../words.js").Words} Words */

/**
 * Write a text, if it is another one, and flash it. Ages that tick are no change.
 * @param {Element} element
 * @param {Value} value
 * @param {Words} words
 * @param {number} now
 * @param {{flash?: boolean}} [options]
 * @returns {boolean} whether it changed
 */
export function write(element, value, words, now, { flash: flashes = true } = {}) {
  const pieces = merged(words.pieces(value));
  if (shown(element) === signature(pieces)) return false;
  element.replaceChildren(...pieces.map((piece) => words.node(piece, now)));
  if (flashes) flash(element);
  return true;
}

/** @param {Piece[]} pieces */
function merged(pieces) {
  /** @type {Piece[]} */
  const found = [];
  for (const piece of pieces) {
    const last = found.at(-1);
    if (typeof piece === "string" && typeof last === "string") found[found.length - 1] = last + piece;
    else found.push(piece);
  }
  return found;
}

/** @param {Piece[]} pieces */
function signature(pieces) {
  return pieces.map((piece) => (typeof piece === "string" ? piece : stamp("age" in piece ? piece.age : piece.clock))).join("");
}

/** @param {Element} element */
function shown(element) {
  return [...element.childNodes].map((node) => {
    if (!(node instanceof HTMLTimeElement)) return node.textContent ?? "";
    return stamp(Number(node.dataset["liveAge"] ?? node.dataset["liveClock"]));
  }).join("");
}

/** @param {number} at */
function stamp(at) {
  return `\u0000${at}\u0000`;
}

const FLASH_MS = 1600;
/** More of them at once show nobody where to look, and cost more than all the rest of a change. */
const MOST_FLASHES = 60;
/** @type {Map<Element, ReturnType<typeof setTimeout>>} */
const flashing = new Map();

/**
 * Mark a real change for a moment. A change during a flash starts it again: by the other one of two animations that look alike, since
 * taking the mark off and on would need a layout of the whole page in between.
 * @param {Element} element
 */
export function flash(element) {
  if (!flashing.has(element) && flashing.size >= MOST_FLASHES) return;
  clearTimeout(flashing.get(element));
  element.setAttribute("data-changed", element.getAttribute("data-changed") === "1" ? "2" : "1");
  flashing.set(element, setTimeout(() => {
    flashing.delete(element);
    element.removeAttribute("data-changed");
  }, FLASH_MS));
}

/**
 * Set an attribute, or take it away when the value is empty.
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 * @returns {boolean} whether it changed
 */
export function mark(element, name, value) {
  if ((element.getAttribute(name) ?? "") === value) return false;
  if (value) element.setAttribute(name, value);
  else element.removeAttribute(name);
  return true;
}

/**
 * Show another glyph of symbols.svg, or none.
 * @param {Element} icon
 * @param {string} name
 */
export function glyph(icon, name) {
  mark(part(icon, "use"), "href", `#${name}`);
  icon.toggleAttribute("hidden", !name);
}

/**
 * The one element inside that the page's own markup promises.
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function part(root, selector) {
  const found = root.querySelector(selector);
  if (found === null) throw new Error(`the page lacks ${selector}`);
  return /** @type {HTMLElement} */ (found);
}

/**
 * A new element from a <template> of the page.
 * @param {ParentNode} root
 * @param {string} selector of the template
 * @returns {HTMLElement}
 */
export function fresh(root, selector) {
  const template = /** @type {HTMLTemplateElement} */ (part(root, selector));
  const copy = document.importNode(template.content, true);
  return /** @type {HTMLElement} */ (copy.firstElementChild);
}

/**
 * Put children into this order with as few moves as possible; what stands right already is not touched, so focus stays.
 * @param {Element} parent
 * @param {Element[]} wanted
 */
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  const places = new Map([...parent.children].map((child, place) => [child, place]));
  const still = rising(wanted.map((child) => places.get(child) ?? -1));
  /** @type {Element | null} */
  let next = null;
  for (let i = wanted.length - 1; i >= 0; i -= 1) {
    const child = /** @type {Element} */ (wanted[i]);
    if (!still.has(i)) parent.insertBefore(child, next);
    next = child;
  }
}

/**
 * The indices of a longest rising part of `places` (patience sorting); those of -1 never belong to it.
 * @param {number[]} places
 * @returns {Set<number>}
 */
export function rising(places) {
  /** @type {number[]} */
  const ends = []; // ends[n]: index of the smallest place that ends a rising part of n + 1
  /** @type {number[]} */
  const before = [];
  places.forEach((place, i) => {
    if (place < 0) return;
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (/** @type {number} */ (places[/** @type {number} */ (ends[middle])]) < place) low = middle + 1;
      else high = middle;
    }
    before[i] = low > 0 ? /** @type {number} */ (ends[low - 1]) : -1;
    ends[low] = i;
  });
  const found = new Set();
  for (let i = ends.at(-1) ?? -1; i >= 0; i = before[i] ?? -1) found.add(i);
  return found;
}
