/**
 * Starts what the page asks for: each `data-live-…` attribute names one behaviour, each behaviour is one function.
 *
 * Owns the wiring between the connection and the behaviours, and the one-second tick.
 */
import { browser, Connection, followPage } from "./connection.js";
import { attention } from "./live/attention.js";
import { behind } from "./live/behind.js";
import { cluster } from "./live/cluster.js";
import { first } from "./live/first.js";
import { freshness } from "./live/freshness.js";
import { legend } from "./live/legend.js";
import { goneGpu, gpuRead, measured, measures, nodeRead, reread, slotted, trace } from "./live/gpus.js";
import { facts, gone, hardware, headline, nodeCells } from "./live/machine.js";
import { map } from "./live/map.js";
import { numbers } from "./live/numbers.js";
import { rollout } from "./live/rollout.js";
import { rows } from "./live/rows.js";
import { doing } from "./live/doing.js";
import { times } from "./live/times.js";
import { calm, told } from "./live/told.js";
import { choose } from "./choose.js";
import { copy } from "./copy.js";
import { find } from "./find.js";
import { expiry } from "./expiry.js";
import { follow } from "./follow.js";
import { guard } from "./guard.js";
import { wallAlarm, wallBar, wallClock, wallList, wallMap } from "./live/wall.js";
import { menu } from "./menus.js";
import { sure } from "./sure.js";
import { bare } from "./picture.js";
import { theme } from "./theme.js";
import { Words } from "./words.js";

/** @typedef {import("./types.js").Tables} Tables */
/** @typedef {import("./live/freshness.js").Freshness} Freshness */

/**
 * What behaviours work with.
 * @typedef {{
 *   page: import("./types.js").Page,
 *   words: Words,
 *   connection: Connection,
 *   now: () => number,
 *   nodeUrl: (name: string) => string,
 *   gpuUrl: (key: string) => string,
 *   rolloutUrl: (key: string) => string,
 *   trainingUrl: (key: string) => string,
 *   broadcast: (state: Freshness, at: number) => void,
 * }} Context
 *
 * What a behaviour wants to hear of.
 * @typedef {{
 *   update?: (tables: Tables, before: Tables) => void,
 *   pulse?: (trouble: import("./types.js").Trouble[]) => void,
 *   freshness?: (state: Freshness, at: number) => void,
 *   cluster?: (feed: import("./feed.js").Feed) => void,
 *   tick?: () => void,
 * }} Ears
 *
 * @typedef {(root: HTMLElement, context: Context) => Ears} Behaviour
 */

const TABLES = [
  "fleet", "products", "nodes", "pods", "workloads", "attention", "labels", "events", "gpus", "rollouts", "checkpoints",
];

/** @type {Record<string, Behaviour>} */
const BEHAVIOURS = {
  "data-live-map": map,
  "data-live-legend": legend,
  "data-live-numbers": numbers,
  "data-live-attention": attention,
  "data-live-behind": behind,
  "data-live-headline": headline,
  "data-live-cells": nodeCells,
  "data-live-doing": doing,
  "data-live-slotted": slotted,
  "data-live-hardware": hardware,
  "data-live-rows": rows,
  "data-live-rollout": rollout,
  "data-live-measured": measured,
  "data-live-read": nodeRead,
  "data-live-gpu-read": gpuRead,
  "data-live-measures": measures,
  "data-live-gone-gpu": goneGpu,
  "data-live-trace": trace,
  "data-live-reread": reread,
  "data-live-facts": facts,
  "data-live-told": told,
  "data-live-calm": calm,
  "data-live-gone": gone,
  "data-live-wall-alarm": wallAlarm,
  "data-live-wall-bar": wallBar,
  "data-live-wall-clock": wallClock,
  "data-live-wall-list": wallList,
  "data-live-wall-map": wallMap,
  "data-live-cluster": cluster,
  "data-live-first": first,
  "data-live-freshness": freshness,
};

/** @param {import("./types.js").Page} page */
function live(page) {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${page.socket}`;
  /** @type {Ears[]} */
  const ears = [];
  const empty = /** @type {Tables} */ (Object.fromEntries(TABLES.map((name) => [name, bare()])));
  const connection = new Connection({ cluster: page.cluster, view: page.view }, {
    tables: (tables, before, feed) => {
      for (const { cluster } of ears) cluster?.(feed);
      const [after, earlier] = [{ ...empty, ...tables }, { ...empty, ...before }];
      for (const { update } of ears) update?.(/** @type {Tables} */ (after), /** @type {Tables} */ (earlier));
    },
    pulse: (feed) => {
      for (const { pulse, cluster } of ears) {
        pulse?.(feed.trouble);
        cluster?.(feed);
      }
    },
    bye: (reason) => leave(reason, page),
  }, browser(address));
  connection.offset = page.now - Date.now() / 1000;
  connection.only.at = page.at;
  connection.only.loss = page.loss;

  /** @type {Context} */
  const context = {
    page,
    words: new Words(page.words, page.lang),
    connection,
    now: () => connection.now(),
    nodeUrl: (name) => page.node_url.replace(page.placeholder, encodeURIComponent(name)),
    gpuUrl: (key) => page.gpu_url.replace(page.placeholder, encodeURIComponent(key)),
    rolloutUrl: (key) => page.rollout_url.replace(page.placeholder, key.split("/").map(encodeURIComponent).join("/")),
    trainingUrl: (key) => page.training_url.replace(page.placeholder, key.split("/").map(encodeURIComponent).join("/")),
    broadcast: (state, at) => ears.forEach((ear) => ear.freshness?.(state, at)),
  };
  for (const [hook, behaviour] of Object.entries(BEHAVIOURS)) {
    for (const root of document.querySelectorAll(`[${hook}]`)) ears.push(behaviour(/** @type {HTMLElement} */ (root), context));
  }
  ears.push(times(document.body, context));
  const tick = () => ears.forEach((ear) => ear.tick?.());
  tick();
  setInterval(tick, 1000);
  followPage(connection);
  connection.start();
}

/**
 * The server has ended our socket: the page that it would give us now says why. Not twice in a row, though.
 * @param {string} reason
 * @param {import("./types.js").Page} page
 */
function leave(reason, page) {
  if (reason === "signed-out") {
    location.assign(`${page.sign_in_url}?next=${encodeURIComponent(location.pathname + location.search)}`);
  } else if (performance.now() > 10_000) {
    location.reload();
  }
}

for (const element of document.querySelectorAll("[data-behaviour=theme]")) theme(/** @type {HTMLElement} */ (element));
for (const element of document.querySelectorAll("[data-behaviour=menu]")) menu(/** @type {HTMLDetailsElement} */ (element));
for (const element of document.querySelectorAll("[data-behaviour=find]")) find(/** @type {HTMLElement} */ (element));
for (const element of document.querySelectorAll("[data-behaviour=choose]")) choose(/** @type {HTMLFormElement} */ (element));
for (const element of document.querySelectorAll("[data-behaviour=copy]")) copy(/** @type {HTMLButtonElement} */ (element));
for (const element of document.querySelectorAll("[data-behaviour=sure]")) sure(/** @type {HTMLFormElement} */ (element));
guard(document.body);
const config = document.getElementById("page");
if (config !== null) {
  const page = /** @type {import("./types.js").Page} */ (JSON.parse(config.textContent ?? ""));
  if (page.view !== null) live(page);
  const words = new Words(page.words, page.lang), ahead = page.now - Date.now() / 1000;
  const clock = { words, now: () => Date.now() / 1000 + ahead };
  for (const element of document.querySelectorAll("[data-behaviour=follow]")) follow(/** @type {HTMLElement} */ (element), clock);
  for (const element of document.querySelectorAll("[data-behaviour=expiry]")) expiry(/** @type {HTMLElement} */ (element), clock);
}
