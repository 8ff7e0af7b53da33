/**
 * The browser says the same as the server: the files that Python made are reproduced from the same rows, word for word.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import * as attention from "../static/js/panels/attention.js";
import * as fleet from "../static/js/panels/fleet.js";
import * as charts from "../static/js/panels/charts.js";
import * as gpus from "../static/js/panels/gpus.js";
import * as node from "../static/js/panels/node.js";
import * as records from "../static/js/panels/records.js";
import * as rollouts from "../static/js/panels/rollouts.js";
import * as waiting from "../static/js/panels/waiting.js";
import * as workloads from "../static/js/panels/workloads.js";
import * as zoom from "../static/js/panels/zoom.js";
import { Words } from "../static/js/words.js";

const FOLDER = new URL("../../tests/data/panels/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
const cases = readdirSync(FOLDER).filter((name) => !name.startsWith("words-"));

const NONE = { state: "", product: "", pool: "", only: "" };
const FILTERS = { "state and product": { state: "busy", product: "L4" }, pool: { pool: "train" }, trouble: { only: "trouble" } };
const CHOICES = {
  "": "", "all by name": "of=all&sort=name", "ml/ by GPUs": "q=ML/&kind=Deployment&namespace=ml&team=Search&sort=gpus",
  newest: "of=all&sort=age",
};
const ROLLOUTS = { "": "", "moving in ml/": "q=ML/&of=moving", "held Deployments": "kind=Deployment&namespace=ml&of=held" };

for (const name of cases) {
  const found = read(name);
  for (const [lang, said] of Object.entries(found.said)) {
    test(`${name} in ${lang}`, () => {
      const words = new Words(read(`words-${lang}.json`), lang, found.zone);
      const told = (value) => words.plain(value, found.now);
      const mine = { ...fleetSaid(found, told), ...listsSaid(found, told), ...(found.node ? nodeSaid(found, told) : {}) };
      for (const part of Object.keys(said)) assert.deepEqual(mine[part], said[part], part);
      assert.deepEqual(Object.keys(mine).sort(), Object.keys(said).sort());
    });
  }
}

test("there are cases", () => assert.ok(cases.length >= 3));

function fleetSaid({ tables, trouble, outages }, told) {
  const nodes = Object.values(tables.nodes), row = tables.fleet.fleet;
  return {
    numbers: fleet.keyNumbers(tables).map((n) => [n.id, n.level, told(n.value), told(n.unit), told(n.note), n.node]),
    legend: fleet.legend(row).map((entry) => [entry.state, entry.count, entry.shown]),
    size: told(fleet.mapSize(row)),
    claims: told(fleet.claims(row)),
    measured: fleet.measured(nodes),
    groups: fleet.groups(nodes).map((g) => [g.id, told(g.title), told(g.sentence), g.nodes.map((n) => n.name), g.marks.map((m) => [m.id, m.level, m.glyph, told(m.words)])]),
    cards: Object.fromEntries(nodes.map((n) => [n.name, cardSaid(fleet.card(n), told)])),
    trouble: Object.fromEntries(nodes.filter((n) => n.level).map((n) => [n.name, troubleSaid(n, told)])),
    filtered: Object.fromEntries(Object.entries(FILTERS).map(([name, filter]) => [
      name, nodes.filter((n) => zoom.hides({ ...NONE, ...filter }, n)).map((n) => n.name).sort(),
    ])),
    attention: attention.entries(tables.attention, trouble).map((e) => [
      e.key, e.level, e.glyph, told(e.title), told(e.evidence), e.since, e.node, told(e.action), e.page, e.rollout,
      e.training,
    ]),
    outages: Object.fromEntries(Object.entries(outages).map(([name, lost]) => [
      name, attention.entries({}, lost).map((e) => [e.key, told(e.title), told(e.evidence), e.since]),
    ])),
  };
}

function troubleSaid(row, told) {
  const slots = node.slots(row, {}).map((r) => told(r.cells["slot-state"]));
  return [node.tags(row).map((t) => [t.id, t.level, t.glyph, told(t.words)]), rowsSaid(node.resources(row), told), slots, told(fleet.counts(row))];
}

function cardSaid(card, told) {
  const cells = card.cells.map((cell) => [cell.state, cell.fifths]);
  return [card.product, card.level, card.glyph, told(card.words), told(card.free), told(card.label), cells];
}

function rowsSaid(rows, told) {
  const all = (values) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, told(value)]));
  return rows.map((r) => [r.key, r.level, all(r.cells), all(r.small), r.links ?? {}, r.marks ?? {}, r.nil ?? []]);
}

function listsSaid({ tables }, told) {
  const waits = Object.fromEntries(Object.entries(tables.pods)
    .filter(([, pod]) => !pod.node && pod.gpus > 0 && pod.terminating_at === null));
  return {
    workloads: Object.fromEntries(Object.entries(CHOICES).map(([name, query]) => {
      const wanted = workloads.choice(new URLSearchParams(query));
      return [name, [told(workloads.counts(tables.workloads, wanted)), ...rowsSaid(workloads.rows(tables.workloads, tables.checkpoints, wanted), told)]];
    })),
    rollouts: Object.fromEntries(Object.entries(ROLLOUTS).map(([name, query]) => {
      const wanted = rollouts.choice(new URLSearchParams(query));
      return [name, [told(rollouts.counts(tables.rollouts, wanted)), ...rowsSaid(rollouts.rows(tables.rollouts, wanted), told)]];
    })),
    moving: rollouts.moving(tables.rollouts),
    waiting: [told(waiting.counts(waits)), ...rowsSaid(waiting.rows(waits, tables.nodes), told)],
  };
}

function nodeSaid({ tables, node: name }, told) {
  const row = tables.nodes[name];
  const here = Object.fromEntries(Object.entries(tables.pods).filter(([, pod]) => pod.node === name));
  const own = Object.fromEntries(Object.entries(tables.attention).filter(([, entry]) => entry.node === name || entry.nodes.includes(name)));
  const labels = tables.labels[name] ?? { labels: [], annotations: [] };
  const happened = Object.fromEntries(Object.entries(tables.events).filter(([, event]) => event.node === name));
  const all = (values) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, told(value)]));
  return {
    tags: node.tags(row).map((tag) => [tag.id, tag.level, tag.glyph, told(tag.words)]),
    summary: told(attention.summary(own)),
    hardware: told(node.hardware(row)),
    counts: told(fleet.counts(row)),
    pod_counts: node.podCounts(Object.values(here)).map(told),
    cordon: told(node.cordon(row, labels)),
    tables: Object.fromEntries(Object.entries({
      resources: node.resources(row), slots: node.slots(row, here), pods: node.pods(here, tables.checkpoints), conditions: node.conditions(row),
    }).map(([name, found]) => [name, rowsSaid(found, told)])),
    records: {
      events: rowsSaid(records.events(happened), told),
      annotations: rowsSaid(records.texts(labels.annotations), told),
      labels: rowsSaid(records.texts(labels.labels), told),
    },
    label_count: told(records.labelCount(labels)),
    gpus: gpusSaid(tables, row, told),
    facts: all(node.facts(row)),
  };
}

const LINES = [[[1, 2, 100, 101], 100], [[null, 5, null, 6, 7], 7], [[null], 1], [[0, 0, 1], 3], [[50, null], 700]];

function gpusSaid(tables, row, told) {
  const mine = Object.fromEntries(Object.entries(tables.gpus).filter(([, gpu]) => gpu.node === row.name)), found = Object.values(mine);
  const all = (values) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, told(value)]));
  const shown = gpus.gpus(mine, row);
  return {
    rows: rowsSaid(shown, told).map((said, i) => [...said, shown[i].gpu]),
    measures: Object.fromEntries(found.map((gpu) => [gpu.index, all(gpus.measures(gpu))])),
    read: told(gpus.readAt(found)),
    placed: gpus.placed(found, row),
    lines: LINES.map(([values, top]) => [charts.line(values, top), charts.area(values, top)]),
  };
}

test("a line goes on with each measurement, and leaves gaps where there was none", () => {
  const start = { first: 10, values: [1, 2, 3] };
  assert.deepEqual(charts.measured(start, 12 * 60 + 5, 7.5), { first: 10, values: [1, 2, 8] });
  assert.deepEqual(charts.measured(start, 13 * 60, 4), { first: 11, values: [2, 3, 4] });
  assert.deepEqual(charts.measured(start, 14 * 60, 4), { first: 12, values: [3, null, 4] });
  assert.deepEqual(charts.measured(start, 99 * 60, 4), { first: 97, values: [null, null, 4] });
  assert.deepEqual(charts.measured(start, 14 * 60, null), { first: 12, values: [3, null, null] });
  assert.deepEqual(charts.measured(start, 5 * 60, 4), { first: 10, values: [1, 2, 3] });
});
