"""Everyday life: it goes on, it stays within what is allowed, and it leaves alone what is not its own."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from fleet.simulation.catalogue import WORKLOADS
from fleet.simulation.clock import ManualClock
from fleet.simulation.heartbeats import Heartbeats
from fleet.simulation.life import next_tag
from fleet.simulation.node_lifecycle import NodeLifecycle
from fleet.simulation.rehearsal import Rehearsal
from tests.simulation.cluster import Watch
from tests.simulation.test_seed import free_gpus

Object = dict[str, Any]

QUIET = (Heartbeats, NodeLifecycle)  # nothing here depends on heartbeats, and nobody misses them
TRAINING = ("llama-sft-70b", "moe-8x7b-pretrain", "vision-pretrain-3b", "protein-fold-ft", "graph-rank")


class Day:
    """A rehearsal under a manual clock; what happens is noted."""

    def __init__(self, seed: int = 1, pace: float = 1.0, batch_s: float = 1.0) -> None:
        """`batch_s`: how many times longer batch pods run than usual."""
        self.clock = ManualClock()
        workloads = tuple(replace(w, run_s=w.run_s * batch_s) if w.run_s else w for w in WORKLOADS)
        self.rehearsal = Rehearsal(seed, self.clock, pace=pace, without=QUIET, workloads=workloads)
        self.store = self.rehearsal.store
        self.done: list[str] = []
        act = self.rehearsal.life.step

        def noted() -> str:
            done = act()
            if done:
                self.done.append(done)
            return done

        self.rehearsal.life.step = noted  # type: ignore[method-assign]

    async def live(self, hours: float, every_s: float = 600.0) -> None:
        await self.rehearsal.start()
        for _ in range(int(hours * 3600 / every_s)):
            await self.clock.advance(every_s)
            self.rehearsal.check()
            self.inspect()
        await self.rehearsal.stop()

    def inspect(self) -> None:
        free = free_gpus(self.store)
        assert min(free.values()) >= 0, free
        assert free["node-16"] == 8, "nothing goes to a cordoned node"
        assert len(self.store.list("nodes")) == 24
        for scaler in self.store.list("horizontalpodautoscalers"):
            replicas = self.store.get("deployments", "inference", scaler["metadata"]["name"])["spec"]["replicas"]
            assert scaler["spec"]["minReplicas"] <= replicas <= scaler["spec"]["maxReplicas"]
        for budget in self.store.list("poddisruptionbudgets"):
            assert budget["status"]["currentHealthy"] > 0
        assert len(self.store.list("pods")) < 400
        assert len(self.store.list("events")) < 4000


def training_pods(day: Day) -> dict[str, str]:
    pods = day.store.list("pods", "training")
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods if p["spec"].get("nodeName")}


def test_half_a_day_keeps_every_invariant_and_loses_no_training() -> None:
    async def day() -> Day:
        made = Day(pace=0.1, batch_s=8)
        before = training_pods(made)
        nodes = Watch(made.store, "nodes")
        await made.live(10)
        assert training_pods(made) == before
        assert len(before) == 12
        assert not nodes.take(), "life never touches nodes"
        return made

    kinds = Counter(done.split()[0] for done in asyncio.run(day()).done)
    assert kinds["scaled"] > 40
    assert kinds["released"] > 1
    assert kinds["submitted"] > 1
    assert kinds["started"] > 0
    assert kinds["stopped"] > 0


def test_something_happens_every_minute_and_a_rollout_within_half_an_hour() -> None:
    async def half_an_hour() -> Day:
        made = Day()
        quiet_s = 0.0
        pods = Watch(made.store, "pods")
        await made.rehearsal.start()
        for _ in range(30):
            seen = len(pods.changes)
            await made.clock.advance(60.0)
            quiet_s = 0.0 if len(pods.take()) > seen else quiet_s + 60.0
            assert quiet_s < 180.0
        await made.rehearsal.stop()
        return made

    done = asyncio.run(half_an_hour()).done
    assert any(d.startswith("released") for d in done)
    assert 30 < len(done) < 150


def test_the_same_seed_lives_the_same_day() -> None:
    async def quarter(seed: int) -> list[str]:
        made = Day(seed)
        await made.live(0.25)
        return made.done

    first, again, other = (asyncio.run(quarter(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_life_goes_on_when_people_take_its_things_away() -> None:
    async def hour() -> None:
        made = Day()
        await made.rehearsal.start()
        made.store.delete("deployments", "inference", "ocr-api")
        made.store.delete("statefulsets", "notebooks", "notebook-amina")
        made.store.delete("jobs", "batch", "asr-batch")
        await made.clock.advance(1800.0)
        made.rehearsal.check()
        await made.rehearsal.stop()
        assert any(d.startswith("submitted asr-batch-") for d in made.done)
        assert any(d.startswith("scaled") for d in made.done)

    asyncio.run(hour())


def test_tags_count_up() -> None:
    assert next_tag("par-prod/llm-server:v41") == "par-prod/llm-server:v42"
    assert next_tag("par-prod/embedding-server:5.2.9") == "par-prod/embedding-server:5.2.10"
