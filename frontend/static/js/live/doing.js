/**
 * The buttons of a node: an open one can be cordoned, a closed one uncordoned. Whether they are off is the server's word, and that of
 * the age of the data (`data-changes`).
 */

/** @type {import("../page.js").Behaviour} */
export function doing(root, { page }) {
  return {
    update({ nodes }) {
      const node = nodes[page.view?.node ?? ""];
      if (node === undefined) return;
      const now = node.unschedulable ? "closed" : "open";
      for (const button of root.querySelectorAll("[data-when]")) button.toggleAttribute("hidden", button.getAttribute("data-when") !== now);
    },
  };
}
