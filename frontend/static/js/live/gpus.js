/**
 * GPUs on the Node page and on their own: what ticks with every reading is patched, and what changes with a verdict is read again.
 */
import { measures as measuresOf, placed, readAt } from "../panels/gpus.js";
import { part, write } from "./patch.js";
import { trend } from "./trends.js";

/** @typedef {import("../page.js").Behaviour} Behaviour */
/** @typedef {import("../types.js").GpuRow} GpuRow */
/** @typedef {import("../types.js").Measure} Measure */
/** @typedef {import("../types.js").Tables} Tables */

const QUIET = { flash: false };
const MARK = "data-reread";

/** The key of the GPU that the page is about. */
function own() {
  return part(document, "main").dataset["gpu"] ?? "";
}

/** How old the newest reading of the node is. @type {Behaviour} */
export function nodeRead(root, { words, now }) {
  return { update: ({ gpus }) => void write(root, readAt(Object.values(gpus)), words, now(), QUIET) };
}

/** The table of GPUs, there while any is known. @type {Behaviour} */
export function measured(root) {
  return { update: ({ gpus }) => void root.toggleAttribute("hidden", Object.keys(gpus).length === 0) };
}

/** Slots say nothing more where each GPU's pods are known. @type {Behaviour} */
export function slotted(root, { page }) {
  return {
    update({ nodes, gpus }) {
      const node = nodes[page.view?.node ?? ""];
      if (node) root.toggleAttribute("hidden", !node.cells || placed(Object.values(gpus), node));
    },
  };
}

/** @type {Behaviour} */
export function gpuRead(root, { words, now }) {
  return {
    update({ gpus }) {
      const row = gpus[own()];
      if (row) write(root, readAt([row]), words, now(), QUIET);
    },
  };
}

/** @type {Behaviour} */
export function measures(root, { words, now }) {
  return {
    update({ gpus }) {
      const row = gpus[own()];
      if (row === undefined) return;
      const values = measuresOf(row);
      for (const fact of root.children) {
        write(part(fact, "dd"), values[fact.getAttribute("data-key") ?? ""] ?? null, words, now(), QUIET);
      }
    },
  };
}

/** A line over the last hour. @type {Behaviour} */
export function trace(root) {
  const name = /** @type {keyof GpuRow} */ (root.dataset["liveTrace"]);
  return {
    update({ gpus }) {
      const row = gpus[own()];
      if (row) trend(/** @type {SVGElement} */ (/** @type {unknown} */ (root)), { at: row.read_at, value: /** @type {Measure} */ (row[name]) }, "");
    },
  };
}

/** Said while nothing reports the GPU any more. @type {Behaviour} */
export function goneGpu(root) {
  return {
    update({ gpus }) {
      const missing = gpus[own()] === undefined;
      root.toggleAttribute("hidden", !missing);
      part(document, "main").toggleAttribute("data-gone", missing);
    },
  };
}

/**
 * Verdict, evidence and history are sentences of the server: when what they are made of changes, its page is read again, and the
 * parts that differ are replaced. A part that somebody is in waits until they leave it.
 * @type {Behaviour}
 */
export function reread(root) {
  /** @type {string | null} */
  let known = null;
  let busy = false, again = false;

  root.addEventListener("focusout", () => setTimeout(() => again && void read(), 0));
  return {
    update({ gpus }) {
      const row = gpus[own()], found = row ? judged(row) : "";
      if (known !== null && known !== found) void read();
      known = found;
    },
  };

  async function read() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) again = replaced(new DOMParser().parseFromString(await answer.text(), "text/html")) || again;
    } finally {
      busy = false;
    }
  }

  /**
   * @param {Document} page
   * @returns {boolean} whether a part waits
   */
  function replaced(page) {
    let waits = false;
    for (const old of root.querySelectorAll(`[${MARK}]`)) {
      const fresh = page.querySelector(`[${MARK}="${old.getAttribute(MARK)}"]`);
      if (fresh === null || fresh.outerHTML === old.outerHTML) continue;
      if (old.contains(document.activeElement)) waits = true;
      else old.replaceWith(document.importNode(fresh, true));
    }
    return waits;
  }
}

/**
 * What a verdict's sentences are made of.
 * @param {GpuRow} row
 */
function judged({ state, reason, action, soft, since_at, findings, pods, users, strangers, instances }) {
  return JSON.stringify([state, reason, action, soft, since_at, findings.map((found) => [found.rule, found.evidence, found.instance]),
    pods, users, strangers, instances.map((one) => [one.uuid, one.state, one.pods])]);
}
