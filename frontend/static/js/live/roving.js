/**
 * The keyboard on the dense map: one tab stop per group; arrows, Home and End move between its nodes.
 */

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/**
 * Hears the arrow keys of every list of nodes under `root` while its zoom is dense.
 * @param {HTMLElement} root
 */
export function startRoving(root) {
  const roving = () => root.dataset["zoom"] !== "cards";

  /** After nodes came, went or were hidden: one tab stop in each group, the same as before if it is still there. */
  function settle() {
    for (const list of root.querySelectorAll(".nodes")) {
      const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll(".node")]);
      const seen = links(list);
      const stop = roving() ? seen.find((link) => link.tabIndex === 0 && link.hasAttribute("tabindex")) ?? seen[0] : undefined;
      for (const link of all) {
        if (!roving()) link.removeAttribute("tabindex");
        else if (link.tabIndex !== (link === stop ? 0 : -1) || !link.hasAttribute("tabindex")) link.tabIndex = link === stop ? 0 : -1;
      }
    }
  }

  root.addEventListener("keydown", (event) => {
    const link = /** @type {HTMLElement} */ (event.target);
    const list = link.closest(".nodes");
    if (!roving() || list === null || !link.matches(".node") || !ARROWS.includes(event.key)) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    next(links(list), link, event.key)?.focus();
  });
  root.addEventListener("focusin", (event) => {
    const link = /** @type {HTMLElement} */ (event.target);
    const list = link.closest(".nodes");
    if (!roving() || list === null || !link.matches(".node")) return;
    for (const other of list.querySelectorAll(".node[tabindex='0']")) /** @type {HTMLElement} */ (other).tabIndex = -1;
    link.tabIndex = 0;
  });
  settle();
  return { settle };
}

/** @param {Element} list */
function links(list) {
  return /** @type {HTMLElement[]} */ ([...list.querySelectorAll("li:not([hidden]) > .node")]);
}

/**
 * @param {HTMLElement[]} all
 * @param {HTMLElement} from
 * @param {string} key
 * @returns {HTMLElement | undefined}
 */
function next(all, from, key) {
  const at = all.indexOf(from);
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (key === "ArrowLeft") return all[at - 1];
  if (key === "ArrowRight") return all[at + 1];
  return inNextRow(key === "ArrowUp" ? all.slice(0, at).reverse() : all.slice(at + 1), from);
}

/**
 * The node of the next row that stands nearest below or above; rows wrap as wide as the window is.
 * @param {HTMLElement[]} others in the direction of the arrow, nearest first
 * @param {HTMLElement} from
 */
function inNextRow(others, from) {
  const { top, left } = from.getBoundingClientRect();
  /** @type {number | null} */
  let row = null;
  /** @type {HTMLElement | undefined} */
  let best;
  let distance = Infinity;
  for (const other of others) {
    const box = other.getBoundingClientRect();
    if (Math.abs(box.top - top) < 1) continue;
    row ??= box.top;
    if (Math.abs(box.top - row) >= 1) break;
    if (Math.abs(box.left - left) < distance) [best, distance] = [other, Math.abs(box.left - left)];
  }
  return best;
}
