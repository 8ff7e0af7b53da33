"""A cluster's events on their way to the writer: one thread per kind, one bounded queue, and the probe beside them.

Owns threads and waiting, and how long anything takes. Must not know what an event means.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from fleet.domain.kube import Event, Kind
from fleet.ports import Cluster, PortError

log = structlog.get_logger(__name__)

Clock = Callable[[], float]  # seconds since 1970


@dataclass(frozen=True)
class Pace:
    """How often and how long, in seconds."""

    slice_s: float = 300.0  # then the slice hands over to the next one
    tick_s: float = 0.1  # the longest time without looking around
    gather_s: float = 0.1  # changes this close to one another are published together …
    gather_most_s: float = 0.25  # … or this close, when publishing is much work
    probe_s: float = 1.9
    probe_within_s: float = 2.2  # the adapter's own deadline is 2 s
    pulse_s: float = 1.95  # between two pulses at most
    renew_s: float = 2.0
    lease_s: float = 8.0
    describe_s: float = 10.0  # between two times that all nodes are described to the readings worker
    scan_s: float = 0.5  # between two looks for a scan of checkpoints
    away_s: float = 0.5  # between two tries on a picture store that cannot be reached
    end_s: float = 0.8  # a stream that has not ended by then is left to its own deadline
    waiting: int = 5000  # events that may wait; then the streams wait, and the API server with them


class Probe(threading.Thread):
    """Asks the API server for its version again and again, in a thread of its own: a dead server takes 2 s to say nothing."""

    def __init__(self, cluster: Cluster, pace: Pace, stop: threading.Event, now: Clock) -> None:
        super().__init__(name=f"probe {cluster.name}", daemon=True)
        self._cluster, self._pace, self._over, self._now = cluster, pace, stop, now
        self._asking_since: float | None = None
        self._failure: tuple[str, float] | None = None
        self.answered_at = 0.0  # when the last question was asked that was answered

    def failure(self, now: float) -> tuple[str, float] | None:
        """Why there is no answer, and since when. A question that hangs where no deadline reaches (the resolver) counts too."""
        asking_since, failure = self._asking_since, self._failure
        if failure is None and asking_since is not None and now - asking_since > self._pace.probe_within_s:
            return "silent", asking_since
        return failure

    def run(self) -> None:
        while not self._over.is_set():
            self._asking_since = asked_at = self._now()
            try:
                self._cluster.version()
                self.answered_at, self._failure = asked_at, None
            except PortError as error:
                self._failure = (error.reason or str(error), self._failure[1] if self._failure else asked_at)
            self._asking_since = None
            self._over.wait(max(0.0, asked_at + self._pace.probe_s - self._now()))


class Streams:
    """The events of all kinds, from one thread per kind into one bounded queue; and the probe beside them."""

    def __init__(self, cluster: Cluster, pace: Pace, now: Clock = time.time) -> None:
        self.stop = threading.Event()
        self.probe = Probe(cluster, pace, self.stop, now)
        self._cluster, self._most = cluster, pace.waiting
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._first_at = 0.0
        self._error: BaseException | None = None

    def take(self, wait_s: float, gather_s: float) -> list[Event]:
        """Everything that came: waits `wait_s` for the first event, and then until others had `gather_s` to join it.

        Raises what a follower raised, which is a bug: followers report trouble as `Lost`.
        """
        with self._changed:
            if not self._events and not self._error:
                self._changed.wait(wait_s)
            while self._events and len(self._events) < self._most:
                left_s = self._first_at + gather_s - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            if self._error:
                raise self._error
            events = list(self._events)
            self._events.clear()
            self._changed.notify_all()
            return events

    @property
    def waiting(self) -> int:
        return len(self._events)

    def follow(self, kind: Kind, since: str | None) -> None:
        """Body of a kind's thread."""
        try:
            for event in self._cluster.follow(kind, since, self.stop):
                if not self._put(event):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the writer's thread
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _put(self, event: Event) -> bool:
        """Wait for room. Only the first event and a full queue wake the writer, not every one of thousands."""
        with self._changed:
            while len(self._events) >= self._most and not self.stop.is_set():
                self._changed.wait(0.1)
            if self.stop.is_set():
                return False
            if not self._events:
                self._first_at = time.monotonic()
            self._events.append(event)
            if len(self._events) in {1, self._most}:
                self._changed.notify_all()
            return True


@contextlib.contextmanager
def following(cluster: Cluster, resume: dict[Kind, str], pace: Pace, now: Clock) -> Iterator[Streams]:
    """The streams of every kind, running; ended on the way out."""
    streams = Streams(cluster, pace, now)
    threads: list[threading.Thread] = [streams.probe]
    for kind in Kind:
        arguments = (kind, resume.get(kind))
        threads.append(
            threading.Thread(target=streams.follow, args=arguments, name=f"{kind} {cluster.name}", daemon=True)
        )
    try:
        for thread in threads:
            thread.start()
        yield streams
    finally:
        streams.stop.set()
        _end(threads, cluster, pace.end_s)


def _end(threads: list[threading.Thread], cluster: Cluster, within_s: float) -> None:
    """Close again and again: a thread may have been between two requests when we closed first."""
    deadline = Timer(within_s)
    waiting = threads
    while waiting and not deadline.passed():
        cluster.close()
        waiting[0].join(0.02)
        waiting = [thread for thread in waiting if thread.is_alive()]
    if waiting:
        log.warning("streams did not end in time", cluster=cluster.name, threads=[thread.name for thread in waiting])


class Timer:
    def __init__(self, every_s: float, *, passed: bool = False) -> None:
        self._every_s, self._at = every_s, 0.0
        if not passed:
            self.restart()

    def passed(self) -> bool:
        return time.monotonic() >= self._at

    def restart(self) -> None:
        self._at = time.monotonic() + self._every_s
