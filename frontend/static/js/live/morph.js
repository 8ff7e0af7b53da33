/**
 * Makes a part of the page look like the server's newer markup of it, changing as little as possible: what is focused, open or
 * scrolled stays so, and what has changed (`data-watch`) flashes.
 */
import { flash } from "./patch.js";

/**
 * @param {Element} old
 * @param {Element} next
 */
export function morph(old, next) {
  const before = old.hasAttribute("data-watch") ? old.textContent : null;
  attributes(old, next);
  children(old, next);
  if (before !== null && before !== old.textContent) flash(old);
}

/**
 * @param {Element} old
 * @param {Element} next
 */
function attributes(old, next) {
  const rises = old.hasAttribute("data-rises"); // a bar that never runs backwards
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) === value || (rises && name === "value" && Number(value) < Number(old.getAttribute(name)))) continue;
    old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open" && name !== "data-changed") old.removeAttribute(name);
  }
}

/**
 * Keyed children keep their element; the others are matched by place.
 * @param {Element} old
 * @param {Element} next
 */
function children(old, next) {
  if (wording(old) && wording(next)) {
    if (said(old) !== said(next)) old.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
    return;
  }
  if (old.hasAttribute("data-rises") && Number(next.textContent?.replace(/\D/g, "")) < Number(old.textContent?.replace(/\D/g, ""))) return;
  const keyed = new Map([...old.children].flatMap((child) => (key(child) ? [[key(child), child]] : [])));
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const known = wanted instanceof Element && key(wanted) ? keyed.get(key(wanted)) : undefined;
    if (known !== undefined && known !== at) old.insertBefore(known, at);
    const here = known ?? at;
    if (here !== null && alike(here, wanted)) {
      at = here.nextSibling;
      if (here instanceof Element && wanted instanceof Element) morph(here, wanted);
      else if (here.nodeValue !== wanted.nodeValue) here.parentNode?.replaceChild(document.importNode(wanted, true), here);
    } else {
      old.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at !== null) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

/**
 * Whether it holds nothing but words and times. Those are replaced together: what is new cannot have moved, while a word whose
 * neighbour grows moves along the line.
 * @param {Element} element
 */
function wording(element) {
  return !element.hasAttribute("data-rises") && [...element.childNodes].every((node) => node.nodeType === Node.TEXT_NODE || node.nodeName === "TIME");
}

/**
 * What an element says; of a time, the moment, whatever a clock here has made of it.
 * @param {Element} element
 */
function said(element) {
  return [...element.childNodes].map((node) => (node instanceof HTMLTimeElement ? `<${node.dateTime}>` : node.nodeValue)).join("");
}

/**
 * @param {Node} one
 * @param {Node} other
 */
function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (!(one instanceof Element) || !(other instanceof Element) || key(one) === key(other));
}

/** @param {Element} element */
function key(element) {
  return element.getAttribute("data-key") ?? "";
}
