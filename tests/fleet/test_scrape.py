"""Rounds over exporters: everybody is asked, nobody waits for a broken one, and every failure has a name."""

import threading
from collections.abc import Iterable

import msgspec
import pytest

from fleet.domain.gpus import Gpu, Reading
from fleet.domain.health import assess
from fleet.domain.verdicts import NodeContext
from fleet.live import BEGINNING, MemoryGpus, PictureError, Received
from fleet.ports import Exporter, PortError
from fleet.scrape import AT_ONCE, FIND_EVERY_S, Scrape
from tests.domain.gpu_readings import eight

NOW = 1_700_000_000.0


class Lab:
    """`fleet.ports.Exporters`, as good or bad as a test wants; and the clock."""

    def __init__(self, nodes: Iterable[str] = ("node-0", "node-1", "node-2")) -> None:
        self.nodes = list(nodes)
        self.now = NOW
        self.sequence = 0
        self.finds = 0
        self.broken: dict[str, Exception] = {}  # by node; "": finding
        self.asked: list[str] = []
        self.boot_ids: set[str] = set()
        self.gpus: tuple[Gpu, ...] = eight()
        self.store = MemoryGpus()
        self.scrape = Scrape("lab", self, self.store, lambda: self.now)
        self.describe(*self.nodes)

    def describe(self, *nodes: str) -> None:
        self.store.describe("lab", {node: NodeContext(node=node, boot_id=f"boot of {node}") for node in nodes})

    def find(self) -> tuple[Exporter, ...]:
        self.finds += 1
        if "" in self.broken:
            raise self.broken[""]
        return tuple(Exporter(node, "ns", f"pod-{node}", "start", "", 9400) for node in self.nodes)

    def read(self, exporter: Exporter, boot_id: str) -> Reading:
        self.asked.append(exporter.node)
        self.boot_ids.add(boot_id)
        if exporter.node in self.broken:
            raise self.broken[exporter.node]
        self.sequence += 1
        return Reading(
            node=exporter.node,
            boot_id=boot_id,
            agent="exporter",
            sequence=self.sequence,
            sent_at=self.now,
            source="dcgm",
            gpus=self.gpus,
        )

    def round(self, after_s: float = 15.0, stopping: threading.Event | None = None) -> list[Reading]:
        """What has come into the buffer with it."""
        self.now += after_s
        self.asked.clear()
        before = {name for name, _ in self.store.take("lab", 10_000)}
        self.scrape.round(stopping or threading.Event())
        taken = self.store.take("lab", 10_000)
        decode = msgspec.msgpack.Decoder(Received).decode
        return [decode(packed).reading for name, packed in taken if name not in before]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def refused(reason: str = "ServiceUnavailable") -> PortError:
    return PortError("no", retryable=True, status=503, reason=reason)


def test_everybody_s_reading_goes_where_posted_ones_go(lab: Lab) -> None:
    found = lab.round()
    assert {(r.node, r.boot_id, r.source) for r in found} == {(n, f"boot of {n}", "dcgm") for n in lab.nodes}
    assessed = assess(None, found[0], NodeContext(node=found[0].node), lab.now)
    assert {row.state for row in assessed.rows.values()} == {"ok"}


def test_a_node_that_nobody_has_described_is_not_asked(lab: Lab) -> None:
    """Without its boot id a reading would look like one after a reboot."""
    lab.nodes.append("node-9")
    assert {r.node for r in lab.round()} == {"node-0", "node-1", "node-2"}
    lab.describe("node-9")
    assert "node-9" in {r.node for r in lab.round()}
    lab.store.describe("lab", {"node-9": None})
    assert "node-9" not in {r.node for r in lab.round()}


def test_a_broken_exporter_costs_nobody_else_anything(lab: Lab) -> None:
    lab.broken["node-1"] = refused()
    assert {r.node for r in lab.round()} == {"node-0", "node-2"}
    assert lab.scrape.outcomes == {"done": 3, "ServiceUnavailable": 1}


def test_one_that_goes_on_failing_is_asked_less_often_and_last(lab: Lab) -> None:
    lab.broken["node-0"] = refused()
    rounds = [lab.round() and "node-0" in lab.asked for _ in range(40)]
    assert rounds[:3] == [True, True, True]
    assert sum(rounds[-16:]) == 4
    del lab.broken["node-0"]
    assert any("node-0" in {r.node for r in lab.round()} for _ in range(4))
    assert all("node-0" in {r.node for r in lab.round()} for _ in range(3))


def test_many_that_hang_do_not_keep_the_others_waiting() -> None:
    lab = Lab(f"node-{i:03}" for i in range(3 * AT_ONCE))
    for i in range(2 * AT_ONCE):
        lab.broken[f"node-{i:03}"] = refused("silent")
    lab.round()
    lab.round()
    assert lab.asked[:AT_ONCE] == [f"node-{i:03}" for i in range(2 * AT_ONCE, 3 * AT_ONCE)]


def test_exporters_are_looked_for_every_minute_and_when_one_is_not_there(lab: Lab) -> None:
    lab.round()
    lab.round()
    assert lab.finds == 1
    lab.round(after_s=FIND_EVERY_S)
    assert lab.finds == 2
    lab.broken["node-2"] = PortError("gone", retryable=False, status=404, reason="NotFound")
    lab.round()
    lab.round()
    assert lab.finds == 3


def test_those_that_are_known_are_asked_while_none_can_be_looked_for(lab: Lab) -> None:
    lab.round()
    lab.broken[""] = PortError("no", retryable=False, status=403, reason="Forbidden")
    assert len(lab.round(after_s=FIND_EVERY_S)) == 3
    assert lab.scrape.outcomes["Forbidden"] == 1


def test_nothing_is_known_of_a_cluster_that_forbids_it(lab: Lab) -> None:
    lab.broken[""] = PortError("no", retryable=False, status=403, reason="Forbidden")
    assert lab.round() == []
    assert lab.scrape.outcomes == {"Forbidden": 1}


def test_a_full_buffer_and_a_store_that_is_away_are_failures_like_others(lab: Lab) -> None:
    lab.scrape = Scrape("lab", lab, MemoryGpus(most=0), lambda: lab.now)
    lab.scrape._store.describe("lab", {"node-0": NodeContext(node="node-0")})
    lab.round()
    assert lab.scrape.outcomes == {"done": 1, "full": 1}

    class Away(MemoryGpus):
        def described(self, cluster: str, since: object) -> object:  # type: ignore[override]
            raise PictureError("away")

    lab.scrape = Scrape("lab", lab, Away(), lambda: lab.now)
    lab.round()
    assert lab.scrape.outcomes == {"store": 1}


def test_a_round_ends_when_it_is_asked_to(lab: Lab) -> None:
    stopping = threading.Event()
    stopping.set()
    assert lab.round(stopping=stopping) == []
    assert lab.asked == []
    assert lab.scrape.outcomes["late"] == 3


def test_each_trouble_is_said_once(
    lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lab.broken["node-1"] = refused()
    for _ in range(6):
        lab.round()
    del lab.broken["node-1"]
    for _ in range(6):
        lab.round()
    said = [line for line in (*capfd.readouterr(), caplog.text) for line in line.splitlines() if "node-1" in line]
    assert len(said) == 2, said


def test_the_cursor_is_that_of_the_store(lab: Lab) -> None:
    lab.round()
    assert lab.scrape._cursor != BEGINNING
