"""The read path: follow a cluster, keep its inventory, and publish what changed as often as a person can see.

Owns the writer of one cluster's picture: streams in, versions out, and how true the picture is. Must not know how a cluster is
reached or where the picture is kept, and decides nothing about what the objects mean.
"""

import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from fleet.domain.changes import Version, diff
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Bookmark, Event, Kind, Listed, Lost
from fleet.domain.picture import Snapshot
from fleet.domain.truth import Truth
from fleet.live import Lease, Picture, PictureError, Pulse, Work
from fleet.ports import Cluster, PortError, Stopping

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
    away_s: float = 0.5  # between two tries on a picture store that cannot be reached
    end_s: float = 0.8  # a stream that has not ended by then is left to its own deadline
    waiting: int = 5000  # events that may wait; then the streams wait, and the API server with them


class LeaseLostError(Exception):
    """Somebody else writes this cluster's picture now."""


class Writer:
    """What this process knows of one cluster, kept from slice to slice, so that only a new process lists again."""

    def __init__(self, cluster: Cluster, picture: Picture, pace: Pace | None = None, now: Clock = time.time) -> None:
        self.cluster, self.picture, self.pace, self.now = cluster, picture, pace or Pace(), now
        self.holder = uuid.uuid4().hex
        self.inventory = Inventory()
        self.resume: dict[Kind, str] = {}  # the resourceVersion up to which the inventory is right
        self.truth = Truth()
        self.told: frozenset[tuple[str, str]] = frozenset()  # what the last pulse said is broken
        self.work = Work()
        self.version = Version(0, 0)
        self.shown: Snapshot | None = None  # what the picture holds at `version`; None: we cannot know

    def run(self, stopping: Stopping) -> bool:
        """One slice. True when it ended in order and the next one may follow; False when somebody else writes the picture, or
        it cannot be reached."""
        try:
            lease = self.picture.acquire(self.cluster.name, self.holder, self.pace.lease_s)
            if lease is None:
                return False
            self._take_over(lease)
            with following(self.cluster, self.resume, self.pace, self.now) as streams:
                self._write(lease, streams, stopping)
            self.picture.release(lease)
        except LeaseLostError:
            log.warning("another writer has the lease", cluster=self.cluster.name, epoch=self.version.epoch)
            return False
        except PictureError as error:
            log.warning("the picture is away", cluster=self.cluster.name, reason=str(error))
            return False
        return True

    def _take_over(self, lease: Lease) -> None:
        """The epoch of a holder that comes back goes on counting; a new one begins with a whole picture."""
        if lease.epoch != self.version.epoch:
            self.version, self.shown = Version(lease.epoch, 0), None
        self.truth.begin(self.now())

    def _write(self, lease: Lease, streams: "Streams", stopping: Stopping) -> None:
        due, gather_s = _Due(self.pace), self.pace.gather_s
        while not stopping.is_set() and not due.end.passed():
            events = streams.take(self.pace.tick_s, gather_s)
            began = time.monotonic()
            self._apply(events)
            self.work = replace(self.work, waiting=streams.waiting)
            self._tell(lease, streams.probe, due)
            # Publishing may take a quarter of the time, then changes wait longer for one another.
            gather_s = min(max(self.pace.gather_s, 3 * (time.monotonic() - began)), self.pace.gather_most_s)

    def _apply(self, events: Iterable[Event]) -> None:
        heard, lost = 0, 0
        for event in events:
            heard += 1
            self.truth.hear(event, self.now())
            if isinstance(event, Lost):
                lost += 1
                continue
            if not isinstance(event, Bookmark):
                self.inventory.apply(event)
            self.resume[event.kind] = event.resource_version
        self.work = replace(self.work, events=self.work.events + heard, restarts=self.work.restarts + lost)
        for kind in self.truth.hide(self.now()):
            log.warning(
                "a kind may not be read; the picture goes without it", cluster=self.cluster.name, kind=kind.value
            )
            self.inventory.apply(Listed(kind, (), ""))
            self.resume.pop(kind, None)

    def _tell(self, lease: Lease, probe: "Probe", due: "_Due") -> None:
        """Keep the lease, say how true the picture is, publish what changed. While the picture is away, watching goes on."""
        if not due.retry.passed():
            return
        try:
            if due.renewal.passed():
                self._renew(lease)
                due.renewal.restart()
            truer = self.truth.learn(probe.answered_at, probe.failure(self.now()))
            if truer or due.pulse.passed() or self.truth.causes != self.told:
                self._pulse()
                due.pulse.restart()
            self._publish()
        except PictureError as error:
            if not due.away:
                log.warning("the picture is away", cluster=self.cluster.name, reason=str(error))
            # Whether the last call took effect is unknown, so the next one sends everything.
            self.shown, due.away = None, True
            due.retry.restart()
        else:
            due.away = False

    def _renew(self, lease: Lease) -> None:
        if not self.picture.renew(lease):
            raise LeaseLostError

    def _pulse(self) -> None:
        now, causes = self.now(), self.truth.causes
        pulse = Pulse(self.truth.at, self.truth.trouble(now), now, self.work)
        if not self.picture.pulse(self.cluster.name, self.version, pulse):
            raise LeaseLostError
        self.told = causes

    def _publish(self) -> None:
        """Only a complete inventory is shown: half a cluster would look like one that lost half of its nodes."""
        if not self.inventory.complete:
            return
        snapshot = self.inventory.snapshot()
        if snapshot is self.shown:
            return
        delta = diff(self.shown, snapshot) if self.shown is not None else None
        if delta is not None or self.shown is None:
            self.version, began = Version(self.version.epoch, self.version.n + 1), time.monotonic()
            if not self.picture.publish(self.cluster.name, self.version, delta, snapshot):
                raise LeaseLostError
            spent_s = self.work.publish_s + time.monotonic() - began
            self.work = replace(self.work, publishes=self.work.publishes + 1, publish_s=round(spent_s, 6))
        self.shown = snapshot


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
    deadline = _Timer(within_s)
    waiting = threads
    while waiting and not deadline.passed():
        cluster.close()
        waiting[0].join(0.02)
        waiting = [thread for thread in waiting if thread.is_alive()]
    if waiting:
        log.warning("streams did not end in time", cluster=cluster.name, threads=[thread.name for thread in waiting])


class _Timer:
    def __init__(self, every_s: float, *, passed: bool = False) -> None:
        self._every_s, self._at = every_s, 0.0
        if not passed:
            self.restart()

    def passed(self) -> bool:
        return time.monotonic() >= self._at

    def restart(self) -> None:
        self._at = time.monotonic() + self._every_s


class _Due:
    """What the writer has to do, and when."""

    def __init__(self, pace: Pace) -> None:
        self.end = _Timer(pace.slice_s)
        self.renewal = _Timer(pace.renew_s)
        self.pulse = _Timer(pace.pulse_s, passed=True)
        self.retry = _Timer(pace.away_s, passed=True)
        self.away = False  # the picture could not be reached, and the log knows
