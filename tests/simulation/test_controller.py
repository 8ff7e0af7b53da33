"""Queues, caches and the frame of every controller: order, latency, retries, restarts, falling behind."""

import asyncio
import logging
import random
from collections.abc import Iterable
from typing import Any

import pytest

from fleet.simulation.clock import ManualClock
from fleet.simulation.controller import Controller, Keys, Process, WorkQueue
from fleet.simulation.history import Change
from fleet.simulation.informer import Informer, key_of
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_a_queue_hands_out_each_key_once_and_in_time() -> None:
    clock = ManualClock(0.0)
    queue = WorkQueue(clock)
    queue.add("late", 5.0)
    queue.add("early", 1.0)
    queue.add("late", 9.0)
    queue.add("early", 0.5)
    assert queue.pop() is None
    await clock.advance(0.5)
    assert (queue.pop(), queue.pop()) == ("early", None)
    await clock.advance(4.5)
    assert (queue.pop(), queue.pop(), len(queue)) == ("late", None, 0)


async def test_a_queue_wakes_for_a_key_that_comes_earlier_than_expected() -> None:
    clock = ManualClock(0.0)
    queue = WorkQueue(clock)
    queue.add("late", 100.0)
    waiting = asyncio.create_task(queue.wait())
    await clock.advance(1.0)
    assert not waiting.done()
    queue.add("now")
    await clock.settle()
    assert waiting.done()
    queue.close()


class Copier(Controller):
    """Keeps a copy of every ConfigMap; fails as often as it is told to."""

    name = "copier"
    primary = "configmaps"
    failing: int = 0
    broken: bool = False

    def watches(self) -> dict[str, Keys]:
        return {"configmaps": self._changed}

    @staticmethod
    def _changed(change: Change) -> Iterable[str]:
        return () if change.object["metadata"]["name"].startswith("copy-") else (key_of(change.object),)

    def start_keys(self) -> Iterable[str]:
        return [k for k in super().start_keys() if "/copy-" not in k]

    def sync(self, key: str) -> float | None:
        if self.failing:
            self.failing -= 1
            raise ZeroDivisionError if self.broken else ApiError(409, "Conflict", "not now")
        original = self.informers["configmaps"].get(key)
        name = f"copy-{key.rpartition('/')[2]}"
        if original is not None and self.informers["configmaps"].get(f"default/{name}") is None:
            self.store.create("configmaps", configmap(name, **original["data"]), manager=self.manager)
        return None


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, seed=1)
        self.copier = Copier(Process(self.store, self.clock, random.Random(1)))

    def start(self) -> list["asyncio.Task[None]"]:
        self.copier.informers["configmaps"].catch_up()
        watching = asyncio.create_task(self.copier.informers["configmaps"].run())
        return [watching, asyncio.create_task(self.copier.run())]

    def copies(self) -> list[str]:
        names = [o["metadata"]["name"] for o in self.store.list("configmaps")]
        return [n for n in names if n.startswith("copy-")]


async def stop(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_controller_works_on_what_is_there_and_on_what_comes() -> None:
    bench = Bench()
    bench.store.create("configmaps", configmap("a"), manager="test")
    tasks = bench.start()
    await bench.clock.advance(0.1)
    assert bench.copies() == ["copy-a"]
    bench.store.create("configmaps", configmap("b"), manager="test")
    await bench.clock.advance(0.003)
    assert bench.copies() == ["copy-a"], "no controller is that fast"
    await bench.clock.advance(0.1)
    assert bench.copies() == ["copy-a", "copy-b"]
    await stop(tasks)


@pytest.mark.parametrize("broken", [False, True])
async def test_a_controller_that_fails_tries_again_ever_more_slowly_and_says_so(
    broken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    bench = Bench()
    bench.copier.failing, bench.copier.broken = 6, broken
    bench.store.create("configmaps", configmap("a"), manager="test")
    tasks = bench.start()
    await bench.clock.advance(1.0)
    assert not bench.copies()
    assert bench.copier.failing == 1, "0.05 + 0.1 + 0.2 + 0.4 s, and the next after 0.8 s"
    await bench.clock.advance(3.0)
    assert bench.copies() == ["copy-a"]
    assert any("copier tries default/a again" in r.getMessage() for r in caplog.records)
    assert any(r.exc_info for r in caplog.records) is broken
    await stop(tasks)


async def test_a_restarted_controller_does_what_was_left_undone() -> None:
    bench = Bench()
    tasks = bench.start()
    await bench.clock.advance(1.0)
    await stop(tasks)
    bench.store.create("configmaps", configmap("missed"), manager="test")
    await bench.clock.advance(1.0)
    assert not bench.copies()
    tasks = bench.start()
    await bench.clock.advance(1.0)
    assert bench.copies() == ["copy-missed"]
    await stop(tasks)


def test_a_cache_that_falls_behind_lists_again() -> None:
    store = Store(ManualClock(), seed=1, window=5)
    informer = Informer(store, "configmaps")
    assert informer.all() == []
    for index in range(40):
        store.create("configmaps", configmap(f"c{index}"), manager="test")
    store.delete("configmaps", "default", "c3")
    assert len(informer.all()) == 39
    assert informer.get("default/c3") is None


def test_an_index_follows_every_change() -> None:
    store = Store(ManualClock(), seed=1)
    informer = Informer(store, "pods")
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    store.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, manager="test")
    assert informer.indexed("node", "n1") == []
    store.bind("default", "p", "n1")
    assert [key_of(p) for p in informer.indexed("node", "n1")] == ["default/p"]
    store.delete("pods", "default", "p", grace_s=0)
    assert informer.indexed("node", "n1") == []


def test_handlers_hear_changes_in_order_even_when_one_of_them_reads(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(ManualClock(), seed=1)
    informer = Informer(store, "configmaps")
    informer.catch_up()
    heard: list[str] = []

    def reader(change: Change) -> None:
        if change.object["metadata"]["name"] == "a":
            store.create("configmaps", configmap("made"), manager="test")
            informer.all()
            raise KeyError("a handler's own trouble")

    informer.on_change(reader)
    informer.on_change(lambda change: heard.append(change.object["metadata"]["name"]))
    for name in ("a", "b"):
        store.create("configmaps", configmap(name), manager="test")
    informer.catch_up()
    assert heard == ["a", "b", "made"]
    assert "a handler of configmaps failed on default/a" in caplog.text
