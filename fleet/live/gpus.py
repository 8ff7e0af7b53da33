"""The words of the GPU store: readings on their way in, what is remembered of each node, and what the writer is told.

Owns the store's contract. Must not know where anything is kept, judge a reading, or know who may hand one in.

Everything in it is bounded and may be lost: the readings worker keeps what it needs in its own memory, sees that the store has
forgotten (`Hold.ANEW`), and puts it back.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct

from fleet.domain.gpus import Measure, Reading
from fleet.domain.picture import GpuRow
from fleet.domain.verdicts import NodeContext, NodeHealth, NodeStanding, Transition

MOST_READINGS = 20_000  # that wait: 100 s of a thousand nodes. Then the door says so, and agents keep their faults
MOST_OWED = 20_000  # transitions that the ledger has not taken yet
MOST_AGENTS = 16  # of one node, whose last sequence is known
AGENT_KNOWN_S = 86_400
SERIES_POINTS = 360  # an hour of a point every ten seconds
WORKER_SILENT_S = 60.0  # then nobody assesses readings, and every verdict is unknown

Cursor = tuple[str, int]
BEGINNING: Cursor = ("", 0)

MEASURES = ("utilization_pct", "temperature_c", "power_w", "memory_used_mib")
Series = dict[str, list[tuple[float, Measure]]]  # by measure


class Offered(StrEnum):
    """What became of a reading at the door."""

    ACCEPTED = "accepted"
    FULL = "full"
    REPLAYED = "replayed"  # not after the last one of its agent


class Hold(Enum):
    """Whether we are the one who takes a cluster's readings in."""

    NOT_OURS = 0
    OURS = 1
    ANEW = 2  # ours, and the store did not know so: it may have forgotten everything else


class Received(Struct, frozen=True, array_like=True):
    """A reading, and when it came: seconds since 1970 of Vigie's clock."""

    at: float
    reading: Reading

    def packed(self) -> bytes:
        """Raises OverflowError for a number of more than 64 bits."""
        return msgspec.msgpack.encode(self)


class Told(Struct, frozen=True, array_like=True):
    """What the writer joins with a node: its standing, and its GPUs' rows by key."""

    standing: NodeStanding
    rows: dict[str, GpuRow]


class Point(Struct, frozen=True, array_like=True):
    """One point of the last hour: of each GPU, by key, its values in the order of `MEASURES`."""

    at: float
    values: dict[str, tuple[Measure, Measure, Measure, Measure]]


class Worker(Struct, frozen=True):
    """What the readings worker says about itself. Counters grow as long as its process lives."""

    said_at: float
    readings: int = 0
    older: int = 0  # readings that were not after the last one of their agent
    unreadable: int = 0
    lag_s: float = 0.0  # of the last batch: since its oldest reading came
    spent_s: float = 0.0  # on assessing, in all
    owed: int = 0  # transitions that wait for the ledger
    scrapes: Mapping[str, int] = {}  # answers of GPU exporters, and looking for them, by outcome


class Settled(Struct, frozen=True):
    """What a batch of readings has led to, kept in one step with forgetting the readings."""

    taken: Sequence[str] = ()  # ids of the readings
    healths: Mapping[str, NodeHealth] = {}
    transitions: Sequence[Transition] = ()
    points: Mapping[str, Point] = {}


class GpuStore(Protocol):
    """One store of what is known of GPUs. Every method may raise `PictureError`."""

    # The door

    def offer(self, cluster: str, received: Received) -> Offered:
        """Put a reading into the buffer. Raises OverflowError, see `Received.packed`."""

    def waiting(self, cluster: str) -> int:
        """How many readings wait."""

    # The readings worker: only whoever holds a cluster may call these

    def hold(self, cluster: str, holder: str, ttl_s: float) -> Hold:
        """Become, or stay, the only one who takes readings in."""

    def release(self, cluster: str, holder: str) -> None:
        """Let another one take over at once; nothing when it is not ours."""

    def take(self, cluster: str, most: int) -> list[tuple[str, bytes]]:
        """The oldest readings with their ids; they stay until they are settled."""

    def settle(self, cluster: str, settled: Settled) -> None:
        """All of it or nothing."""

    def remembered(self, cluster: str) -> dict[str, NodeHealth]:
        """Every node's health as it was settled last; what cannot be read any more (of another version of us) is left out."""

    def owed(self, cluster: str) -> list[Transition]:
        """Transitions that were settled and not paid, oldest first."""

    def paid(self, cluster: str, count: int) -> None:
        """The ledger has the oldest `count` of what is owed."""

    def forget(self, cluster: str, nodes: Sequence[str]) -> None:
        """The cluster has these nodes no longer."""

    def publish(self, cluster: str, told: Mapping[str, Told]) -> None:
        """Tell the writer about these nodes."""

    def say(self, cluster: str, worker: Worker) -> None:
        """The worker lives."""

    def described(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, NodeContext | None]]:
        """What the writer has described since then; None: the node is gone."""

    # The writer

    def changed(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, Told | None]]:
        """What was published since then; everything from `BEGINNING` on, and after the store forgot. None: forgotten."""

    def describe(self, cluster: str, contexts: Mapping[str, NodeContext | None]) -> None:
        """Say what Kubernetes knows of these nodes; None: the node is gone."""

    # Screens

    def worker(self, cluster: str) -> Worker | None:
        """What the readings worker said last; None when there never was one."""

    def series(self, cluster: str, node: str) -> dict[str, Series]:
        """The last hour of the GPUs of a node, by key and measure, oldest first."""


def series(points: Sequence[Point]) -> dict[str, Series]:
    """Points, oldest first, as one line per GPU and measure."""
    found: dict[str, Series] = {}
    for point in points:
        for key, values in point.values.items():
            lines = found.setdefault(key, {name: [] for name in MEASURES})
            for name, value in zip(MEASURES, values, strict=True):
                lines[name].append((point.at, value))
    return found
