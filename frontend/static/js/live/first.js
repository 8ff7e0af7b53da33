/**
 * The page that waits for the first list: as soon as there is a picture, load the real page.
 */

/** @type {import("../page.js").Behaviour} */
export function first() {
  return { update: () => location.reload() };
}
