"""From the door's buffer to the picture: the readings worker and the writer side by side, each with its own death."""

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from fleet.books import Books
from fleet.domain import health
from fleet.domain.kube import Condition, Kind
from fleet.domain.verdicts import NodeContext, NodeStanding
from fleet.live import MemoryGpus, MemoryPicture, Received, Told, Worker
from fleet.live.gpus import WORKER_SILENT_S
from fleet.observe import Ingest, Writer
from tests.fleet import readings
from tests.fleet.clusters import FakeCluster, node, wait_for
from tests.fleet.test_observe import QUICK, running, shown


@pytest.fixture
def picture() -> MemoryPicture:
    return MemoryPicture(lambda _: None)


class NoLedger(Books):
    """Takes note and never writes."""

    def write(self, products):
        return 0

    def open_findings(self, node, now):
        return []


def ready(name: str, gpus: int = 8, version: str = "1"):
    found = node(name, gpus=gpus)
    conditions = (Condition(type="Ready", status="True"),)
    return replace(
        found,
        metadata=replace(found.metadata, resource_version=version),
        status=replace(found.status, conditions=conditions),
    )


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    found.objects[Kind.NODE] = tuple(ready(f"node-{i}") for i in range(3))
    return found


@contextmanager
def ingesting(store) -> Iterator[Ingest]:
    """The readings worker in a thread; its ledger takes nothing."""
    ingest, stopping = Ingest("lab", store, books=NoLedger("lab")), threading.Event()
    thread = threading.Thread(target=lambda: ingest.run(stopping), daemon=True)
    thread.start()
    try:
        yield ingest
    finally:
        stopping.set()
        thread.join(5)
    assert not thread.is_alive()


def post(store, sequence=1, **changes) -> None:
    now = time.time()
    store.offer("lab", Received(now, readings.reading("node-0", sequence, now, **changes)))


def test_a_reading_is_in_the_picture_and_a_fault_is_at_once(cluster, picture):
    store = MemoryGpus()
    with running(Writer(cluster, picture, QUICK, gpus=store)), ingesting(store):
        wait_for(lambda: picture.read("lab"))
        assert shown(picture).nodes["node-0"].measured is False
        post(store)
        wait_for(lambda: shown(picture).nodes["node-0"].measured)
        assert shown(picture).nodes["node-1"].measured is False, "a node without a source stays as it is"
        assert len(shown(picture).gpus) == 8
        post(store, 2, faults=(readings.xid(79, "node-0", 3, time.time()),))
        wait_for(lambda: shown(picture).nodes["node-0"].cells.count("x") == 1)
        assert shown(picture).nodes["node-0"].level == "bad"


def test_the_worker_hears_what_kubernetes_says_of_its_nodes(cluster, picture):
    store = MemoryGpus()
    with running(Writer(cluster, picture, QUICK, gpus=store)), ingesting(store) as ingest:
        wait_for(lambda: "node-0" in ingest.memory.contexts)
        assert ingest.memory.contexts["node-0"].capacity == 8
        cluster.change(ready("node-0", gpus=7, version="7"))
        wait_for(lambda: ingest.memory.contexts["node-0"].capacity == 7)
        cluster.delete(node("node-0"))
        wait_for(lambda: "node-0" not in ingest.memory.contexts)


def test_when_the_readings_worker_is_dead_for_a_minute_nothing_holds(cluster, picture):
    store, late = MemoryGpus(), [0.0]
    pace = dataclasses.replace(QUICK, describe_s=0.01)
    store.publish("lab", {"node-0": Told(NodeStanding(measured=True, read_at=time.time()), rows())})
    store.say("lab", Worker(time.time()))
    with running(Writer(cluster, picture, pace, gpus=store, now=lambda: time.time() + late[0])):
        wait_for(lambda: picture.read("lab") and len(shown(picture).gpus) == 8)
        assert {row.state for row in shown(picture).gpus.values()} == {"ok"}
        late[0] = WORKER_SILENT_S + 1
        wait_for(lambda: {row.state for row in shown(picture).gpus.values()} == {"unknown"})
        assert "readings-silent:node-0" in shown(picture).attention
        store.say("lab", Worker(time.time() + late[0]))
        wait_for(lambda: {row.state for row in shown(picture).gpus.values()} == {"ok"})


def rows():
    found = readings.reading("node-0", 1, time.time())
    return health.assess(None, found, NodeContext(node="node-0"), time.time()).rows
