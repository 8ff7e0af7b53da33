"""The whole way of a scraped reading on the rehearsal cluster: exporter pod, API server's proxy, buffer, verdict, picture."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience
from fleet.adapters.exporters_kubernetes import KubernetesExporters
from fleet.books import Books
from fleet.domain.picture import GpuRow
from fleet.domain.verdicts import Transition
from fleet.live import MemoryGpus, MemoryPicture
from fleet.observe import Ingest, IngestPace, Writer
from fleet.scrape import Scrape
from fleet.simulation.gpu_troubles import ONE
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.fleet.clusters import wait_for

WITHIN_S = 60.0


class NoLedger(Books):
    """Everything stays owed."""

    def open_findings(self, node: str, now: float) -> list[Transition]:
        return []

    def write(self, products: Mapping[str, str]) -> int:
        return 0


class Site:
    """Vigie's writer, its readings worker and its scraper of one cluster, in memory. The ledger is away."""

    def __init__(self, cluster: Serving) -> None:
        self.cluster = cluster
        self.picture, self.store = MemoryPicture(lambda _: None), MemoryGpus()
        kubeconfig = str(cluster.kubeconfig)
        watched = KubernetesCluster("rehearsal", kubeconfig, Patience(first_pause_s=0.05, longest_pause_s=0.2))
        self.writer = Writer(watched, self.picture, gpus=self.store)
        books = NoLedger("rehearsal")
        self.ingest = Ingest("rehearsal", self.store, pace=IngestPace(every_s=0.05, tell_s=0.05), books=books)
        self.scrape = Scrape("rehearsal", KubernetesExporters("rehearsal", kubeconfig), self.store)
        self.ingest.scrapes = self.scrape.outcomes

    @contextmanager
    def running(self) -> Iterator[None]:
        stopping = threading.Event()

        def scrape() -> None:
            while not stopping.wait(0.2):
                self.scrape.round(stopping)

        bodies: tuple[Callable[[], object], ...] = (
            lambda: self.writer.run(stopping),
            lambda: self.ingest.run(stopping),
            scrape,
        )
        threads = [threading.Thread(target=body, daemon=True) for body in bodies]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopping.set()
            for thread in threads:
                thread.join(20)

    def rows(self, node: str) -> list[GpuRow]:
        found = self.picture.read("rehearsal")
        rows = [row for row in found.snapshot.gpus.values() if row.node == node] if found else []
        return sorted(rows, key=lambda row: row.index)

    def note(self, node: str, **notes: str) -> None:
        def change(draft: dict) -> None:
            draft["metadata"]["annotations"].update(notes)

        store = self.cluster.rehearsal.store
        self.cluster.call(lambda: store.mutate("nodes", "", node, change, manager="test"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(Rehearsal(nodes=3, pace=0), tmp_path) as cluster:
        found = Site(cluster)
        with found.running():
            yield found


def test_what_an_exporter_measures_and_reports_gets_into_the_picture(site: Site) -> None:
    node = site.cluster.call(lambda: next(iter(site.cluster.rehearsal.machines)))
    wait_for(lambda: len(site.rows(node)) == 8, WITHIN_S)
    true = site.cluster.call(lambda: site.cluster.rehearsal.machines.gpus(node))
    assert [row.uuid for row in site.rows(node)] == [gpu.uuid for gpu in true]
    assert {row.state for row in site.rows(node)} == {"ok"}
    assert all(isinstance(row.temperature_c, int) for row in site.rows(node))

    site.note(node, **{f"{ONE}3": "uncorrectable"})
    wait_for(lambda: site.rows(node)[3].state == "reset-required", WITHIN_S)
    row = site.rows(node)[3]
    assert {"xid-48", "remap-pending"} <= {finding.rule for finding in row.findings}
    assert {finding.source for finding in row.findings} == {"dcgm"}
    assert {r.state for r in site.rows(node) if r.index != 3} == {"ok"}

    def said() -> int:
        worker = site.store.worker("rehearsal")
        return worker.scrapes.get("done", 0) if worker else 0

    wait_for(lambda: said() > 3, WITHIN_S)
