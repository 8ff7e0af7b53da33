"""The read path: follow a cluster, take in the readings of its GPU nodes, and publish what changed as often as a person can see.

Owns its two halves. `Writer` writes one cluster's picture: streams in, versions out, and how true the picture is. `Ingest` takes
readings in: transitions go to the ledger, verdicts to the GPU store, where the writer finds them within a tick. Must not know how
a cluster is reached or where anything is kept, and decides nothing about what objects and readings mean.
"""

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import structlog
from msgspec.structs import replace

from fleet.books import Books
from fleet.domain import xid
from fleet.domain.changes import Version, diff
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Bookmark, Event, Kind, Listed, Lost
from fleet.domain.picture import Snapshot
from fleet.domain.truth import Truth
from fleet.live import (
    BEGINNING,
    Cursor,
    GpuStore,
    Hold,
    Lease,
    MemoryGpus,
    MemorySaves,
    Picture,
    PictureError,
    Pulse,
    Received,
    SaveStore,
    Settled,
    Work,
    Worker,
)
from fleet.live.gpus import WORKER_SILENT_S
from fleet.live.saves import SCAN_SILENT_S
from fleet.memory import NodeMemory
from fleet.ports import Cluster, Stopping
from fleet.streams import Clock, Pace, Probe, Streams, Timer, following

log = structlog.get_logger(__name__)

RECEIVED = msgspec.msgpack.Decoder(Received)


class LeaseLostError(Exception):
    """Somebody else writes this cluster's picture now."""


class Writer:
    """What this process knows of one cluster, kept from slice to slice, so that only a new process lists again."""

    def __init__(
        self,
        cluster: Cluster,
        picture: Picture,
        pace: Pace | None = None,
        now: Clock = time.time,
        gpus: GpuStore | None = None,
        saves: SaveStore | None = None,
    ) -> None:
        self.cluster, self.picture, self.pace, self.now = cluster, picture, pace or Pace(), now
        self.gpus, self.saves = gpus or MemoryGpus(), saves or MemorySaves()
        self.scan, self.scan_at = "", now()  # the scan of checkpoints that was heard of last
        self.heard: Cursor = BEGINNING  # how far we know what the GPU store holds
        self.began_at = now()
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
            self._join_gpus(due)
            self._join_saves(due)
            self._publish()
        except PictureError as error:
            if not due.away:
                log.warning("the picture is away", cluster=self.cluster.name, reason=str(error))
            # Whether the last call took effect is unknown, so the next one sends everything.
            self.shown, due.away = None, True
            due.retry.restart()
        else:
            due.away = False

    def _join_gpus(self, due: "_Due") -> None:
        """Verdicts in, what Kubernetes says of their nodes out. When nobody assesses readings, no verdict holds any longer."""
        name, gpus = self.cluster.name, self.inventory.gpus
        self.heard, told = self.gpus.changed(name, self.heard)
        for node, found in told.items():
            self.inventory.measure(node, found.standing if found else None, found.rows if found else {})
        if due.description.passed():
            worker = self.gpus.worker(name)
            said_at = worker.said_at if worker else self.began_at
            self.inventory.trust_verdicts(self.now() - said_at <= WORKER_SILENT_S)
            self.gpus.describe(name, gpus.contexts)  # all of them, as the store may have forgotten
            due.description.restart()
        elif news := gpus.undescribed:
            self.gpus.describe(name, news)
        gpus.undescribed = {}

    def _join_saves(self, due: "_Due") -> None:
        """What the last scan has found. When nobody scans, no good standing holds any longer."""
        if not due.scan.passed():
            return
        due.scan.restart()
        if (found := self.saves.newer(self.cluster.name, self.scan)) is not None:
            self.scan, self.scan_at = found.name, found.at
            self.inventory.saves.put(found.rows)
        self.inventory.saves.trust(self.now() - self.scan_at <= SCAN_SILENT_S)

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


@dataclass(frozen=True)
class IngestPace:
    """How often and how much at once. Times in seconds."""

    slice_s: float = 300.0  # then the slice hands over to the next one
    every_s: float = 0.25
    most: int = 500  # readings at once
    turn_s: float = 1.5  # the longest that readings are taken in without anything else
    tell_s: float = 1.0  # between two times that mere measurements are told to the writer
    save_s: float = 15.0  # between two times that the memory of a node is saved while nothing happens to it
    sweep_s: float = 1.0
    renew_s: float = 2.0
    hold_s: float = 10.0


class NotOursError(Exception):
    """Somebody else takes this cluster's readings in now."""


class Ingest:
    """What this process remembers of one cluster's GPU nodes, kept from slice to slice. Nobody else needs it, and a new process
    finds it in the store; what the store has lost comes from the ledger, or with the next readings."""

    def __init__(
        self,
        cluster: str,
        gpus: GpuStore,
        catalogue: xid.Catalogue = xid.NVIDIA,
        pace: IngestPace | None = None,
        now: Clock = time.time,
        books: Books | None = None,
    ) -> None:
        self.cluster, self.gpus, self.catalogue, self.now = cluster, gpus, catalogue, now
        self.pace = pace or IngestPace()
        self.books = books or Books(cluster)
        self.holder = uuid.uuid4().hex
        self.worker = Worker(now())
        self.scrapes: Mapping[str, int] = {}  # of whoever scrapes for this process, to be told with the rest
        self._begin()

    def run(self, stopping: Stopping) -> bool:
        """One slice. True when it ended in order and the next one may follow; False when somebody else takes readings in, or the
        store cannot be reached."""
        due = _IngestDue(self.pace)
        try:
            self._hold()
            while not stopping.is_set() and not due.end.passed():
                began = time.monotonic()
                if not self._turn(due):
                    stopping.wait(max(0.0, self.pace.every_s - (time.monotonic() - began)))
            self.gpus.release(self.cluster, self.holder)
        except NotOursError:
            self._begin()  # whoever it is goes on from what the store holds, and so shall we
            return False
        except PictureError as error:
            log.warning("the GPU store is away", cluster=self.cluster, reason=str(error))
            self.unsure = True
            return False
        return True

    def _begin(self) -> None:
        self.memory = NodeMemory()
        self.books.forget()
        self.described: Cursor = BEGINNING
        self.unsure = True  # whether the store has what we remember

    def _turn(self, due: "_IngestDue") -> bool:
        """What waits, once; whether more does."""
        if due.renewal.passed():
            self._hold()
            due.renewal.restart()
        self._hear_of_nodes()
        batch = self.gpus.take(self.cluster, self.pace.most)
        taken, late = [], Timer(self.pace.turn_s)
        for name, packed in batch:
            self._take_in(packed)
            taken.append(name)
            if late.passed():  # a busy machine: what we know is told before we go on, and the hold renewed
                break
        more = len(taken) < len(batch) or len(batch) == self.pace.most
        if due.sweep.passed() and not more:  # nobody is silent whose reading still waits
            self._sweep()
            due.sweep.restart()
        self._settle(taken)
        self._tell(due)
        if paid := self.books.write(self.memory.products()):
            self.gpus.paid(self.cluster, paid)
        return more

    def _hold(self) -> None:
        held = self.gpus.hold(self.cluster, self.holder, self.pace.hold_s)
        if held is Hold.NOT_OURS:
            raise NotOursError
        if held is Hold.ANEW or self.unsure:
            self._remember()

    def _remember(self) -> None:
        """Of the store's memory and our own the younger counts; then both have it all, and so has the writer."""
        self.memory.merge(self.gpus.remembered(self.cluster))
        owed = self.gpus.owed(self.cluster)
        self.books.owe(owed)
        self.gpus.paid(self.cluster, len(owed))
        self.books.news()  # are among what is owed
        self.gpus.settle(self.cluster, Settled(healths=self.memory.healths, transitions=list(self.books.owed)))
        self.memory.tell_all()
        self.described, self.unsure = BEGINNING, False

    def _hear_of_nodes(self) -> None:
        self.described, contexts = self.gpus.described(self.cluster, self.described)
        if gone := self.memory.describe(contexts):
            self.gpus.forget(self.cluster, gone)

    def _take_in(self, packed: bytes) -> None:
        """One reading: assess it against what is remembered of its node. One that cannot be assessed must not stop the others."""
        began = time.perf_counter()
        try:
            received = RECEIVED.decode(packed)
            node = received.reading.node
            if not self.memory.knows(node):
                self.memory.restore(node, self.books.open_findings(node, received.at))
            assessed = self.memory.assess(received, self.catalogue)
        except Exception:
            log.exception("a reading cannot be assessed", cluster=self.cluster, bytes=len(packed))
            self.worker = replace(self.worker, unreadable=self.worker.unreadable + 1)
            return
        self.books.note(assessed, received.at)
        self.worker = replace(
            self.worker,
            readings=self.worker.readings + 1,
            spent_s=self.worker.spent_s + time.perf_counter() - began,
            lag_s=max(self.worker.lag_s, self.now() - received.at),
        )

    def _sweep(self) -> None:
        """Nodes that have fallen silent."""
        now = self.now()
        for assessed in self.memory.sweep(now):
            self.books.note(assessed, now)
        self.books.end_minutes(now)

    def _settle(self, taken: list[str]) -> None:
        """In one step: what is remembered now, what the ledger is owed, and that these readings are done with."""
        healths, transitions = self.memory.unsaved(self.now(), self.pace.save_s), self.books.news()
        points = self.memory.points()
        if taken or transitions or healths or points:
            self.gpus.settle(self.cluster, Settled(taken, healths, transitions, points))

    def _tell(self, due: "_IngestDue") -> None:
        """A verdict that changed is told at once, measurements once a second."""
        if self.memory.urgent or due.telling.passed():
            self.gpus.publish(self.cluster, self.memory.untold())
            due.telling.restart()
        if due.saying.passed():
            owed, scrapes = len(self.books.owed), dict(self.scrapes)
            self.worker = replace(self.worker, said_at=self.now(), owed=owed, scrapes=scrapes)
            self.gpus.say(self.cluster, self.worker)
            self.worker = replace(self.worker, lag_s=0.0)
            due.saying.restart()


class _IngestDue:
    """What the readings worker has to do, and when."""

    def __init__(self, pace: IngestPace) -> None:
        self.end = Timer(pace.slice_s)
        self.renewal = Timer(pace.renew_s)
        self.sweep = Timer(pace.sweep_s, passed=True)
        self.telling = Timer(pace.tell_s, passed=True)
        self.saying = Timer(pace.tell_s, passed=True)


class _Due:
    """What the writer has to do, and when."""

    def __init__(self, pace: Pace) -> None:
        self.end = Timer(pace.slice_s)
        self.renewal = Timer(pace.renew_s)
        self.pulse = Timer(pace.pulse_s, passed=True)
        self.retry = Timer(pace.away_s, passed=True)
        self.description = Timer(pace.describe_s, passed=True)
        self.scan = Timer(pace.scan_s, passed=True)
        self.away = False  # the picture could not be reached, and the log knows
