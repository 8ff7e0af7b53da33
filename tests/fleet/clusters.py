"""A cluster for tests of the read path: the port, in memory, as slow, dead or silent as a test wants."""

import queue
import threading
import time
from collections.abc import Callable, Iterator

from fleet.domain.kube import (
    Bookmark,
    Changed,
    Deleted,
    Event,
    Kind,
    Listed,
    Lost,
    Node,
    NodeMetadata,
    NodeSpec,
    NodeStatus,
    Object,
)
from fleet.ports import PortError, Stopping


def node(name: str, *, unschedulable: bool = False, gpus: int = 8) -> Node:
    amounts = {"nvidia.com/gpu": str(gpus)}
    return Node(
        metadata=NodeMetadata(name=name, uid=f"uid-{name}"),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


class FakeCluster:
    """`fleet.ports.Cluster`. `followed` holds every stream that was begun, as (kind, since)."""

    def __init__(self, name: str = "lab", nodes: int = 3) -> None:
        self.name = name
        self.version_number = 100
        self.objects: dict[Kind, tuple[Object, ...]] = dict.fromkeys(Kind, ())
        self.objects[Kind.NODE] = tuple(node(f"node-{i}") for i in range(nodes))
        self.held_back: set[Kind] = set()  # kinds that are not listed until released
        self.released = threading.Event()
        self.refused: set[Kind] = set()  # kinds that are never listed; only what `say` is told comes
        self.dead = False
        self.followed: list[tuple[Kind, str | None]] = []
        self.closed = 0
        self._events: dict[Kind, queue.Queue[Event]] = {kind: queue.Queue() for kind in Kind}

    def version(self) -> str:
        if self.dead:
            raise PortError("nobody is there", retryable=True, reason="refused")
        return "v1.36.2"

    def follow(self, kind: Kind, since: str | None, stopping: Stopping) -> Iterator[Event]:
        self.followed.append((kind, since))
        if kind in self.held_back:
            while not (self.released.is_set() or stopping.is_set()):
                self.released.wait(0.01)
        if stopping.is_set():
            return
        if kind not in self.refused:
            yield from self._begin(kind, since)
        while not stopping.is_set():
            try:
                yield self._events[kind].get(timeout=0.01)
            except queue.Empty:
                continue

    def _begin(self, kind: Kind, since: str | None) -> Iterator[Event]:
        if since is None:
            yield Listed(kind, self.objects[kind], str(self.version_number))
        yield Bookmark(kind, since or str(self.version_number))

    def close(self) -> None:
        self.closed += 1

    def change(self, found: Object, kind: Kind = Kind.NODE) -> str:
        self.version_number += 1
        self._events[kind].put(Changed(kind, found, str(self.version_number)))
        return str(self.version_number)

    def delete(self, found: Object, kind: Kind = Kind.NODE) -> None:
        self.version_number += 1
        meta = found.metadata
        self._events[kind].put(Deleted(kind, meta.namespace, meta.name, meta.uid, str(self.version_number)))

    def say(self, event: Event) -> None:
        self._events[event.kind].put(event)

    def lose(self, kind: Kind, reason: str = "cut off") -> None:
        self.say(Lost(kind, reason, 0.2))


def wait_for(condition: Callable[[], object], within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
