/**
 * The socket's protocol: versions, gaps, silence and new tries, with a world in which the test moves the clock.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Connection } from "../static/js/connection.js";
import { verdict } from "../static/js/feed.js";

const HELLO = { cluster: "paris", view: { screen: "fleet" } };

class Socket {
  constructor() {
    this.readyState = 0;
    this.sent = [];
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  say(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }
}

/** A connection, its sockets so far, and a clock that runs timers as it is moved. */
function setting() {
  const sockets = [], heard = [], timers = new Set();
  let now = 1000;
  const world = {
    open: () => sockets[sockets.push(new Socket()) - 1],
    now: () => now,
    random: () => 1,
    later: (run, seconds) => {
      const timer = { run, at: now + seconds };
      timers.add(timer);
      return timer;
    },
    cancel: (timer) => timers.delete(timer),
  };
  const connection = new Connection(HELLO, {
    tables: (after, before, feed) => heard.push(["tables", after, before, feed.cluster]),
    pulse: () => heard.push(["pulse"]),
    bye: (reason) => heard.push(["bye", reason]),
  }, world);
  const wait = (seconds) => {
    const end = now + seconds;
    for (;;) {
      const [next] = [...timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      now = next.at;
      timers.delete(next);
      next.run();
    }
    now = end;
  };
  connection.start();
  sockets[0].open();
  return { connection, sockets, heard, wait, last: () => sockets.at(-1) };
}

const snapshot = (n, epoch = 1, free = n) => ({
  t: "snapshot", v: [epoch, n], at: 5000 + n, now: 5000 + n, tables: { nodes: { a: { free, name: "a" } } },
});
const delta = (prev, n, free, epoch = 1) => ({
  t: "delta", prev: [epoch, prev], v: [epoch, n], at: 5000 + n, tables: { nodes: { groups: [{ ids: ["a"], set: { free: [free] } }], gone: [] } },
});
const pulse = (n, at, epoch = 1) => ({ t: "pulse", v: [epoch, n], at, now: at, trouble: [], lost: false, reason: "" });

test("the first frame says what we look at", () => {
  const { last } = setting();
  assert.deepEqual(last().sent, [HELLO]);
});

test("what to do with a delta", () => {
  for (const [mine, prev, next, expected] of [
    [null, [1, 0], [1, 1], "refetch"],
    [[1, 1], [1, 1], [1, 2], "apply"],
    [[1, 3], [1, 1], [1, 5], "apply"],
    [[1, 5], [1, 1], [1, 5], "ignore"],
    [[1, 6], [1, 1], [1, 5], "ignore"],
    [[1, 1], [1, 2], [1, 3], "refetch"],
    [[1, 1], [2, 1], [2, 2], "refetch"],
    [[3, 9], [2, 1], [2, 2], "refetch"],
  ]) assert.equal(verdict(mine, prev, next), expected, JSON.stringify([mine, prev, next]));
});

test("a snapshot, then a change", () => {
  const { connection, heard, last } = setting();
  last().say(snapshot(1));
  last().say(delta(1, 2, 7));
  assert.deepEqual(connection.only.tables.nodes.a, { free: 7, name: "a" });
  assert.deepEqual(connection.only.version, [1, 2]);
  assert.equal(heard.length, 2);
  assert.deepEqual(heard[1][2].nodes.a, { free: 1, name: "a" });
});

test("a gap asks for everything, once, until the answer comes", () => {
  const { connection, last } = setting();
  last().say(snapshot(1));
  last().say(delta(3, 4, 9));
  last().say(delta(4, 5, 9));
  assert.deepEqual(last().sent.slice(1), [{ t: "refetch" }]);
  assert.equal(connection.only.tables.nodes.a.free, 1);
  last().say(snapshot(5));
  last().say(delta(7, 8, 9));
  assert.equal(last().sent.length, 3);
});

test("a pulse that is ahead of us is a gap too", () => {
  const { last } = setting();
  last().say(snapshot(1));
  last().say(pulse(1, 5002));
  assert.equal(last().sent.length, 1);
  last().say(pulse(2, 5003));
  assert.deepEqual(last().sent[1], { t: "refetch" });
});

test("an older snapshot of the same writer is not believed; one of another writer is", () => {
  const { connection, last } = setting();
  last().say(snapshot(5));
  last().say(snapshot(4));
  assert.deepEqual(connection.only.version, [1, 5]);
  last().say(snapshot(1, 2));
  assert.deepEqual(connection.only.version, [2, 1]);
});

test("the age is counted by the server's clock", () => {
  const { connection, last, wait } = setting();
  last().say(snapshot(0));
  wait(3);
  assert.equal(connection.now() - connection.only.at, 3);
  last().say(pulse(0, 5003));
  assert.equal(connection.now() - connection.only.at, 0);
  last().say({ ...pulse(0, 5001), now: 5003 });
  assert.equal(connection.only.at, 5003, "what was known to be true stays known");
});

test("a lost socket is opened again, later each time, and at once when asked", () => {
  const { connection, sockets, wait } = setting();
  const pauses = [];
  for (let i = 0; i < 8; i += 1) {
    sockets.at(-1).onclose();
    assert.equal(connection.connected, false);
    pauses.push(connection.retryAt - connection.world.now());
    wait(pauses.at(-1));
    assert.equal(sockets.length, i + 2);
  }
  assert.deepEqual(pauses, [0.5, 1, 2, 4, 8, 15, 15, 15]);
  sockets.at(-1).onclose();
  connection.start();
  assert.equal(sockets.length, 10);
  assert.equal(connection.retryAt, null);
});

test("a frame resets the pause", () => {
  const { connection, sockets, wait, last } = setting();
  last().onclose();
  wait(0.5);
  last().open();
  last().say(snapshot(1));
  last().onclose();
  assert.equal(connection.retryAt - connection.world.now(), 0.5);
  assert.equal(sockets.length, 2);
});

test("a socket that says nothing is given up", () => {
  const { connection, sockets, last, wait } = setting();
  last().say(snapshot(1));
  wait(7.9);
  assert.equal(sockets.length, 1);
  wait(0.2);
  assert.equal(connection.socket, null);
  wait(0.5);
  assert.equal(sockets.length, 2);
  assert.equal(connection.only.tables.nodes.a.free, 1, "what we know stays shown");
});

test("after a goodbye nobody calls again", () => {
  const { heard, sockets, last, wait, connection } = setting();
  last().say({ t: "bye", reason: "signed-out" });
  last().onclose();
  wait(60);
  connection.start();
  assert.deepEqual(heard, [["bye", "signed-out"]]);
  assert.equal(sockets.length, 1);
});

test("a known loss is told whatever the age, and ends with the next good pulse", () => {
  const { connection, last } = setting();
  last().say(snapshot(1));
  assert.equal(connection.loss(connection.only), "");
  last().say({ ...pulse(1, 5002), lost: true, reason: "server" });
  assert.equal(connection.loss(connection.only), "server");
  last().say(pulse(1, 5003));
  assert.equal(connection.loss(connection.only), "");
});

test("silence is a loss after two missed pulses", () => {
  const { connection, last, wait } = setting();
  last().say(snapshot(1));
  wait(4);
  assert.equal(connection.loss(connection.only), "");
  wait(0.1);
  assert.equal(connection.loss(connection.only), "socket");
});

test("several clusters share a socket, each with a version of its own", () => {
  const { connection, last, heard } = setting();
  last().say({ ...snapshot(1), cluster: "paris" });
  last().say({ ...snapshot(7, 3), cluster: "oslo" });
  last().say({ ...delta(7, 8, 5, 3), cluster: "oslo" });
  assert.equal(connection.feed("oslo").tables.nodes.a.free, 5);
  assert.deepEqual(connection.feed("paris").version, [1, 1]);
  last().say({ ...delta(4, 5, 5), cluster: "paris" });
  assert.deepEqual(last().sent.at(-1), { t: "refetch", cluster: "paris" });
  assert.deepEqual(heard.map((call) => call[3]), ["paris", "oslo", "oslo"]);
});

test("a pulse before there is a picture asks for nothing", () => {
  const { connection, last } = setting();
  last().say({ ...pulse(0, 0, 0), lost: true, reason: "no-picture" });
  assert.equal(last().sent.length, 1);
  assert.equal(connection.loss(connection.only), "no-picture");
  assert.equal(connection.only.at, null);
});
