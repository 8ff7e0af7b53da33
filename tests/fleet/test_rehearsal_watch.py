"""The read path on the rehearsal cluster, over TLS: the picture is what the store holds, also of a cluster that was replaced."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience
from fleet.domain.kube import Kind
from fleet.live import MemoryPicture
from fleet.observe import Pace, Writer
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.fleet.clusters import wait_for

QUICK = Patience(first_pause_s=0.05, longest_pause_s=0.2)


@contextmanager
def watching(kubeconfig: Path, picture: MemoryPicture, pace: Pace | None = None) -> Iterator[Writer]:
    """Slice after slice."""
    writer = Writer(KubernetesCluster("rehearsal", str(kubeconfig), QUICK), picture, pace)
    stopping = threading.Event()

    def slices() -> None:
        while writer.run(stopping) and not stopping.is_set():
            pass

    thread = threading.Thread(target=slices, daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        began = time.monotonic()
        stopping.set()
        thread.join(5)
    assert not thread.is_alive()
    assert time.monotonic() - began < 4.0, "a second on an idle machine"


@pytest.fixture
def picture() -> MemoryPicture:
    return MemoryPicture(lambda _: None)


def cordon(cluster: Serving, name: str, wanted: bool | None) -> None:
    def change(node: dict) -> dict:
        node["spec"]["unschedulable"] = wanted
        return node

    cluster.call(lambda: cluster.rehearsal.store.mutate("nodes", "", name, change, manager="test"))


def unschedulable(picture: MemoryPicture) -> set[str]:
    found = picture.read("rehearsal")
    return {name for name, row in found.snapshot.nodes.items() if row.unschedulable} if found else set()


def test_what_is_shown_is_what_the_store_holds(picture, tmp_path):
    with serving(Rehearsal(pace=0), tmp_path) as cluster, watching(cluster.kubeconfig, picture):
        wait_for(lambda: picture.read("rehearsal"), 10)
        names = cluster.call(lambda: {node["metadata"]["name"] for node in cluster.rehearsal.store.list("nodes")})
        assert set(picture.read("rehearsal").snapshot.nodes) == names
        assert len(names) == 24
        before = unschedulable(picture)
        name = min(names - before)
        began = time.monotonic()
        cordon(cluster, name, wanted=True)
        wait_for(lambda: unschedulable(picture) == before | {name})
        assert time.monotonic() - began < 3.0
        cordon(cluster, name, wanted=None)
        wait_for(lambda: unschedulable(picture) == before)


def test_slices_go_on_without_a_gap(picture, tmp_path):
    with (
        serving(Rehearsal(pace=0), tmp_path) as cluster,
        watching(cluster.kubeconfig, picture, Pace(slice_s=0.4)) as writer,
    ):
        wait_for(lambda: picture.read("rehearsal"), 10)
        epoch = writer.version.epoch
        name = next(name for name in picture.read("rehearsal").snapshot.nodes if name not in unschedulable(picture))
        for wanted in (True, None) * 4:
            cordon(cluster, name, wanted=wanted)
            wait_for(lambda wanted=wanted: (name in unschedulable(picture)) is bool(wanted))
            time.sleep(0.1)
        assert picture.read("rehearsal").version.epoch == epoch


def test_a_cluster_that_was_replaced_is_listed_anew(picture, tmp_path):
    """The same address and file, another cluster: with other credentials, other objects and other versions."""
    with ExitStack() as first:
        old = first.enter_context(serving(Rehearsal(pace=0, nodes=24), tmp_path))
        with watching(old.kubeconfig, picture):
            wait_for(lambda: picture.read("rehearsal"), 10)
            at = picture.read("rehearsal").pulse.at
            first.close()
            wait_for(lambda: len(picture.read("rehearsal").pulse.trouble) == len(Kind) + 1, 10)
            with serving(Rehearsal(pace=0, nodes=48, seed=2), tmp_path):
                wait_for(lambda: len(picture.read("rehearsal").snapshot.nodes) == 48, 15)
                wait_for(lambda: not picture.read("rehearsal").pulse.trouble, 15)
                assert picture.read("rehearsal").pulse.at > at
