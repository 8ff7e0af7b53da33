"""The GPU store in this process's memory: the embedded default.

Owns the state of one process. Must not outlive it: what only the ledger knows is restored from there.
"""

import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from fleet.domain.verdicts import NodeContext, NodeHealth, Transition
from fleet.live.gpus import (
    BEGINNING,
    MOST_AGENTS,
    MOST_OWED,
    MOST_READINGS,
    SERIES_POINTS,
    Cursor,
    Hold,
    Offered,
    Point,
    Received,
    Series,
    Settled,
    Told,
    Worker,
    series,
)

T = TypeVar("T")

MOST_GONE = 5_000  # nodes that are gone, of which a reader may not have heard yet


class Feed(Generic[T]):
    """The last value of each node, in the order in which they changed."""

    def __init__(self) -> None:
        self._n = 0
        self._values: OrderedDict[str, tuple[int, T | None]] = OrderedDict()
        self._gone: deque[str] = deque()

    def put(self, values: Mapping[str, T | None]) -> None:
        for name, value in values.items():
            self._n += 1
            self._values[name] = (self._n, value)
            self._values.move_to_end(name)
            if value is None:
                self._gone.append(name)
        while len(self._gone) > MOST_GONE:
            name = self._gone.popleft()
            if self._values.get(name, (0, True))[1] is None:
                del self._values[name]

    def since(self, cursor: Cursor) -> tuple[Cursor, dict[str, T | None]]:
        found: dict[str, T | None] = {}
        for name in reversed(self._values):
            n, value = self._values[name]
            if n <= cursor[1]:
                break
            found[name] = value
        return (BEGINNING[0], self._n), found


@dataclass
class _Kept:
    """What is kept of one cluster."""

    readings: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    offered: int = 0
    sequences: defaultdict[str, OrderedDict[tuple[str, str], int]] = field(
        default_factory=lambda: defaultdict(OrderedDict)
    )
    holder: str = ""
    held_until: float = 0.0  # of the monotonic clock
    healths: dict[str, NodeHealth] = field(default_factory=dict)
    owed: deque[Transition] = field(default_factory=lambda: deque(maxlen=MOST_OWED))
    points: defaultdict[str, deque[Point]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SERIES_POINTS))
    )
    worker: Worker | None = None
    told: Feed[Told] = field(default_factory=Feed)
    contexts: Feed[NodeContext] = field(default_factory=Feed)


class MemoryGpus:
    """`fleet.live.GpuStore` for threads of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_READINGS) -> None:
        self._clock, self._most = clock, most
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = defaultdict(_Kept)

    def offer(self, cluster: str, received: Received) -> Offered:
        packed, reading = received.packed(), received.reading
        with self._lock:
            kept = self._kept[cluster]
            if len(kept.readings) >= self._most:
                return Offered.FULL
            agents = kept.sequences[reading.node]
            agent = (reading.boot_id, reading.agent)
            if reading.sequence <= agents.get(agent, -1):
                return Offered.REPLAYED
            agents[agent] = reading.sequence
            agents.move_to_end(agent)
            if len(agents) > MOST_AGENTS:
                agents.popitem(last=False)
            kept.offered += 1
            kept.readings[str(kept.offered)] = packed
            return Offered.ACCEPTED

    def waiting(self, cluster: str) -> int:
        with self._lock:
            return len(self._kept[cluster].readings)

    def hold(self, cluster: str, holder: str, ttl_s: float) -> Hold:
        with self._lock:
            kept, now = self._kept[cluster], self._clock()
            held = kept.holder if now < kept.held_until else ""
            if held not in {"", holder}:
                return Hold.NOT_OURS
            kept.holder, kept.held_until = holder, now + ttl_s
            return Hold.OURS if held else Hold.ANEW

    def release(self, cluster: str, holder: str) -> None:
        with self._lock:
            if self._kept[cluster].holder == holder:
                self._kept[cluster].holder = ""

    def take(self, cluster: str, most: int) -> list[tuple[str, bytes]]:
        with self._lock:
            return list(islice(self._kept[cluster].readings.items(), most))

    def settle(self, cluster: str, settled: Settled) -> None:
        with self._lock:
            kept = self._kept[cluster]
            for name in settled.taken:
                kept.readings.pop(name, None)
            kept.healths |= settled.healths
            kept.owed.extend(settled.transitions)
            for node, point in settled.points.items():
                kept.points[node].append(point)

    def remembered(self, cluster: str) -> dict[str, NodeHealth]:
        with self._lock:
            return dict(self._kept[cluster].healths)

    def owed(self, cluster: str) -> list[Transition]:
        with self._lock:
            return list(self._kept[cluster].owed)

    def paid(self, cluster: str, count: int) -> None:
        with self._lock:
            owed = self._kept[cluster].owed
            for _ in range(min(count, len(owed))):
                owed.popleft()

    def forget(self, cluster: str, nodes: Sequence[str]) -> None:
        with self._lock:
            kept = self._kept[cluster]
            for node in nodes:
                for table in (kept.healths, kept.points, kept.sequences):
                    table.pop(node, None)
            kept.told.put(dict.fromkeys(nodes))

    def publish(self, cluster: str, told: Mapping[str, Told]) -> None:
        with self._lock:
            self._kept[cluster].told.put(told)

    def say(self, cluster: str, worker: Worker) -> None:
        with self._lock:
            self._kept[cluster].worker = worker

    def described(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, NodeContext | None]]:
        with self._lock:
            return self._kept[cluster].contexts.since(since)

    def changed(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, Told | None]]:
        with self._lock:
            return self._kept[cluster].told.since(since)

    def describe(self, cluster: str, contexts: Mapping[str, NodeContext | None]) -> None:
        with self._lock:
            self._kept[cluster].contexts.put(contexts)

    def worker(self, cluster: str) -> Worker | None:
        with self._lock:
            return self._kept[cluster].worker

    def series(self, cluster: str, node: str) -> dict[str, Series]:
        with self._lock:
            points = list(self._kept[cluster].points.get(node, ()))
        return series(points)
