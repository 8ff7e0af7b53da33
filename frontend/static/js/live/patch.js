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
export function write(element, value, words, now, { flash: flashing = true } = {}) {
  const pieces = merged(words.pieces(value));
  if (shown(element) === signature(pieces)) return false;
  element.replaceChildren(...pieces.map((piece) => words.node(piece, now)));
  if (flashing) flash(element);
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

/**
 * Mark a real change for a moment.
 * @param {Element} element
 */
export function flash(element) {
  if (element.hasAttribute("data-changed")) {
    element.removeAttribute("data-changed");
    void element.getBoundingClientRect(); // so that a change during the flash starts it again
  }
  element.setAttribute("data-changed", "");
  setTimeout(() => element.removeAttribute("data-changed"), 1600);
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
  /** @type {Element | null} */
  let next = parent.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = child.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}
