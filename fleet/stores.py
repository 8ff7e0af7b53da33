"""The checkpoints of workloads, read from the stores that policy grants and no others.

Owns one survey per store and path, remembered so that the next look reads only what changed, and how long anybody waits for one.
Must not judge what it finds (`freshness` does), choose adapters (`wiring` does), or try a place that no grant covers.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from fleet.domain import found_saves, freshness, grants
from fleet.domain.checkpoint_shelves import Shelf
from fleet.domain.checkpoints import Checkpoint
from fleet.domain.freshness import Freshness, Report
from fleet.domain.grants import Grant, Granted
from fleet.domain.save_history import Usual
from fleet.domain.training import Training
from fleet.ports import CheckpointStore, PortError
from fleet.saves import Progress, Survey

FRESH_WITHIN_S: Final = 2.0  # what a decision waits for one store
SCAN_WITHIN_S: Final = 10.0  # what the scan does
SILENT: Final = "silent"

Open = Callable[[Grant], CheckpointStore]


class Past(Protocol):
    """What is remembered of a workload, by its key."""

    def usual(self, workload: str) -> Usual: ...

    def report(self, workload: str) -> Report | None: ...

    def first_seen(self, workload: str, wanted: Collection[tuple[str, float]]) -> Mapping[tuple[str, float], float]:
        """When each of these checkpoints, by path and commit, was seen for the first time, of those that ever were."""


class NoPast:
    def usual(self, _workload: str) -> Usual:
        return Usual()

    def report(self, _workload: str) -> Report | None:
        return None

    def first_seen(self, _workload: str, _wanted: Collection[tuple[str, float]]) -> Mapping[tuple[str, float], float]:
        return {}


class Stores:
    """What policy grants of one cluster. `open_store` may raise PortError. May be used from several threads."""

    def __init__(self, granted: Sequence[Grant], open_store: Open, past: Past | None = None) -> None:
        self._grants, self._open, self._past = tuple(granted), open_store, past or NoPast()
        self._lock = threading.Lock()
        self._doors: dict[Grant, _Door] = {}

    def look(self, training: Training, now: float, *, fresh: bool, within_s: float | None = None) -> Freshness:
        """What its checkpoints are like. Raises nothing: what cannot be read in time says so.

        `fresh`: for a decision. The look begins after the call, also where another one goes on, and is given up after 2 s. A scan
        waits longer, and not at all for a store that keeps somebody waiting already.
        """
        usual, report = self._past.usual(training.workload), self._past.report(training.workload)
        found = self._granted(training)
        if isinstance(found, str):
            return freshness.unread(training, now, usual, report, found)
        limit_s = within_s if within_s is not None else FRESH_WITHIN_S if fresh else SCAN_WITHIN_S
        try:
            root, shelves = self._door(found.grant).shelves(found.path, usual.cost_s or 0.0, now, limit_s, fresh=fresh)
        except PortError as error:
            if error.reason != "gone" or not found.path or usual.saves:
                return freshness.unread(training, now, usual, report, error.reason or "failed", str(error))
            root, shelves = found.path, ()  # it has not saved yet, and makes its directory when it does
        shelf = freshness.chosen(shelves, root)
        counting = [each for each in found_saves.counting(shelf) if each] if shelf else []
        first = self._past.first_seen(training.workload, {(each.path, each.committed_at or 0.0) for each in counting})
        return freshness.freshness(training, shelf, now, usual, report, root=root, first=first)

    def deep(self, training: Training, path: str) -> Iterator[Progress | Checkpoint]:
        """Compare one checkpoint, by its path in the store, with its own checksums; reads all of it. Raises PortError."""
        found = self._granted(training)
        if isinstance(found, str):
            raise PortError(f"{training.workload}: {found}", retryable=False, reason=found)
        return self._door(found.grant).deep(found.path, path)

    def _granted(self, training: Training) -> Granted | str:
        """Where to look, or why not."""
        if not training.uri:
            return "no-place"
        if training.uri.startswith(("pod://", "host://")):
            return "local"
        return grants.granted(self._grants, training.namespace, training.uri) or "not-granted"

    def _door(self, grant: Grant) -> "_Door":
        with self._lock:
            if grant not in self._doors:
                self._doors[grant] = _Door(lambda: self._open(grant))
            return self._doors[grant]


class _Door:
    """One store. Each call runs on a thread of its own, since a mount that hangs hangs whoever touches it."""

    def __init__(self, open_store: Callable[[], CheckpointStore]) -> None:
        self._open = open_store
        self._store: CheckpointStore | None = None
        self._lock = threading.Lock()
        self._rooms: dict[str, _Room] = {}
        self._overdue: set[_Room] = set()  # where a call goes on that somebody has given up

    def shelves(
        self, path: str, usual_save_s: float, now: float | None, within_s: float, *, fresh: bool
    ) -> tuple[str, tuple[Shelf, ...]]:
        """With where the path leads within the store. Raises PortError, also when it takes too long."""
        with self._lock:
            room = self._rooms.setdefault(path, _Room())
            silent = bool(self._overdue) and not fresh
        until = time.monotonic() + within_s
        if silent or not room.free.acquire(timeout=within_s):
            raise _silence()
        call = _Call()
        threading.Thread(
            target=self._run, args=(call, room, path, usual_save_s, now), name="store", daemon=True
        ).start()
        if not call.done.wait(max(0.0, until - time.monotonic())):
            with self._lock:
                if not call.done.is_set():
                    self._overdue.add(room)
            raise _silence()
        if call.error is not None:
            raise call.error
        return call.root, call.shelves

    def deep(self, root: str, path: str) -> Iterator[Progress | Checkpoint]:
        """On the caller's thread, with a survey of its own so that nobody waits for it, once the store has answered."""
        self.shelves(root, 0.0, None, SCAN_WITHIN_S, fresh=True)
        survey = Survey(self._opened(), root)
        found = next((each for shelf in survey.shelves() for each in shelf.checkpoints if each.path == path), None)
        if found is None:
            raise PortError(f"{path}: no such checkpoint", retryable=False, reason="gone")
        yield from survey.deep(found)

    def _run(self, call: "_Call", room: "_Room", path: str, usual_save_s: float, now: float | None) -> None:
        try:
            if room.survey is None:
                room.survey = Survey(self._opened(), path)
            call.shelves = room.survey.shelves(usual_save_s, now)
            call.root = room.survey.root
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            call.error = error
        finally:
            with self._lock:
                call.done.set()
                self._overdue.discard(room)
            room.free.release()

    def _opened(self) -> CheckpointStore:
        if self._store is None:
            self._store = self._open()
        return self._store


class _Room:
    """One path of a store, where one call at a time goes on."""

    def __init__(self) -> None:
        self.free = threading.Lock()
        self.survey: Survey | None = None


class _Call:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.root = ""
        self.shelves: tuple[Shelf, ...] = ()
        self.error: Exception | None = None


def _silence() -> PortError:
    return PortError("the store does not answer in time", retryable=True, reason=SILENT)
