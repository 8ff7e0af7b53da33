"""The scan of a cluster's checkpoints: who trains, what their stores hold, what is new, and how fresh that makes them.

Owns the round: it reads from top to bottom. Must not know how a store is reached, how a checkpoint proves itself, or what a
standing means to anybody.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog
from msgspec.structs import replace

from fleet import save_records
from fleet.discovery import Discovery
from fleet.domain import last_saves, save_rows
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.freshness import Freshness
from fleet.domain.picture import Snapshot
from fleet.domain.training import Training
from fleet.live import DeepCheck, PictureError, SaveStore, Scan
from fleet.ports import PortError, Stopping
from fleet.save_records import Remembered
from fleet.saves import Progress
from fleet.stores import Stores

log = structlog.get_logger(__name__)

# What the ledger is told of: what stays so. A save that goes on is in the picture alone.
LASTING: Final = frozenset(State) - {State.IN_PROGRESS, State.UNKNOWN}
TELL_S: Final = 1.0

Finding = tuple[str, int | None, str, float | None]


class Scanner:
    """The checkpoints of one cluster, kept from round to round. One round at a time."""

    def __init__(
        self,
        cluster: str,
        discovery: Discovery,
        stores: Stores,
        past: Remembered,
        live: SaveStore,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.free = threading.Lock()  # whoever wants a round takes it
        self._cluster, self._discovery, self._stores, self._past, self._live = cluster, discovery, stores, past, live
        self._now = now
        self._written: dict[str, set[Finding]] = {}
        self._begun: dict[
            tuple[str, str], float
        ] = {}  # saves that go on, by workload and path: since when at the latest

    def round(self, snapshot: Snapshot, stopping: Stopping) -> None:
        """Look at every workload that trains, and say what was found. A round that has to stop says nothing."""
        began = time.monotonic()
        trainings = self._discovery.trainings(snapshot, save_records.notes(self._cluster), self._now())
        self._past.keep(trainings)
        found: dict[str, Freshness] = {}
        for workload, training in trainings.items():
            if stopping.is_set():
                return
            found[workload] = last_saves.shared(self._look(training), trainings.values())
        self._note(found)
        self._publish(found, time.monotonic() - began)

    def _look(self, training: Training) -> Freshness:
        return self._stores.look(training, self._now(), fresh=False)

    def _note(self, found: Mapping[str, Freshness]) -> None:
        """What lasts goes to the ledger, once."""
        begun: dict[tuple[str, str], float] = {}
        for workload, seen in found.items():
            begun |= self._going_on(workload, seen.checkpoints)
            lasting = {_finding(each): each for each in seen.checkpoints if each.state in LASTING and not each.aside}
            news = [each for finding, each in lasting.items() if finding not in self._written.get(workload, ())]
            if news:
                timed = [(each, self._duration_s(workload, each)) for each in news]
                save_records.see(self._cluster, workload, seen.training.uri, timed, self._now())
                self._past.forget(workload)
            if seen.read:
                self._written[workload] = {*lasting}
        self._begun = begun
        self._written = {workload: known for workload, known in self._written.items() if workload in found}

    def _going_on(self, workload: str, checkpoints: Iterable[Checkpoint]) -> dict[tuple[str, str], float]:
        """Since when saves go on, at the latest: their files' times move on with every byte."""
        return {
            (workload, each.path): min(each.first_byte_at, self._begun.get((workload, each.path), each.first_byte_at))
            for each in checkpoints
            if each.state is State.IN_PROGRESS and each.first_byte_at is not None
        }

    def _duration_s(self, workload: str, found: Checkpoint) -> float | None:
        """From the first file's time, or from when the save was first seen to go on, to the commit. It took at least that."""
        if found.committed_at is None or found.first_byte_at is None:
            return None
        begun = min(found.first_byte_at, self._begun.get((workload, found.path), found.first_byte_at))
        took_s = found.committed_at - begun
        return round(took_s, 3) if took_s > 0 else None

    def _publish(self, found: Mapping[str, Freshness], took_s: float) -> None:
        rows = {workload: save_rows.row(seen) for workload, seen in found.items()}
        scan = Scan(uuid.uuid4().hex, self._now(), round(took_s, 3), rows)
        try:
            self._live.publish(self._cluster, scan, found)
        except PictureError as error:
            log.warning("the store of scans is away", cluster=self._cluster, reason=str(error))


def _finding(found: Checkpoint) -> Finding:
    return found.path, found.step, found.state.value, found.committed_at


class DeepChecks:
    """Checks of all bytes of single checkpoints of one cluster."""

    def __init__(self, cluster: str, stores: Stores, live: SaveStore, now: Callable[[], float] = time.time) -> None:
        self._cluster, self._stores, self._live, self._now = cluster, stores, live, now

    def run(self, workload: str, path: str, asked_by: str, stopping: Stopping) -> DeepCheck:
        """Check one, telling how far it is; what became of it."""
        began = self._now()
        told = DeepCheck(workload, path, "running", began, began, asked_by)
        self._live.tell(self._cluster, told)
        try:
            told = self._checked(told, stopping)
        except PortError as error:
            told = replace(told, state="failed", error=error.reason or str(error), said_at=self._now())
        self._live.tell(self._cluster, told)
        return told

    def _checked(self, told: DeepCheck, stopping: Stopping) -> DeepCheck:
        seen = self._live.found(self._cluster, told.workload)
        if seen is None:
            raise PortError(f"{told.workload} is not known to train", retryable=False, reason="gone")
        for step in self._stores.deep(seen.training, told.path):
            now = self._now()
            if isinstance(step, Checkpoint):
                return replace(told, state="done", result=step, said_at=now, done_bytes=told.total_bytes)
            told = self._told(told, step, now)
            if stopping.is_set():
                break
        return replace(told, state="failed", error="stopped", said_at=self._now())

    def _told(self, told: DeepCheck, step: Progress, now: float) -> DeepCheck:
        """Once a second is enough for people."""
        told = replace(told, done_bytes=step.done_bytes, total_bytes=step.total_bytes)
        if now - told.said_at < TELL_S:
            return told
        told = replace(told, said_at=now)
        self._live.tell(self._cluster, told)
        return told
