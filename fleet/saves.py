"""What a store of checkpoints holds: list it, judge what changed since the last time, set each directory's checkpoints in order.

Owns one survey after another of the same store, and the deep check of one checkpoint. Must not know what a store is or how a
format proves itself, and writes nothing anywhere.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, structs

from fleet.domain import checkpoint_checksums, checkpoint_shelves
from fleet.domain.checkpoint_files import DEEP, QUICK, File, Limits, Listing, Look, Unreadable, Why
from fleet.domain.checkpoint_shelves import Shelf
from fleet.domain.checkpoint_units import Folder, Unit, units
from fleet.domain.checkpoint_verdicts import judge
from fleet.domain.checkpoints import Checkpoint, Note, Sign, state
from fleet.ports import CheckpointStore, PortError

MOST_FILES: Final = 60_000  # below one path


class Progress(Struct, frozen=True):
    """How far a deep check has come."""

    done_bytes: int
    total_bytes: int


class _Reads:
    """The store as judges see it."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

    def read(self, file: File, offset: int, length: int) -> bytes:
        try:
            return self._store.read(file, offset, length)
        except PortError as error:
            why = Why(error.reason) if error.reason in set(Why) else Why.FAILED
            raise Unreadable(file.path, why, str(error)) from None


class Survey:
    """One path of one store. Every call lists it again, and reads only what is not as it was."""

    def __init__(
        self,
        store: CheckpointStore,
        path: str = "",
        *,
        limits: Limits = QUICK,
        now: Callable[[], float] = time.time,
        name: str = "",
    ) -> None:
        self.read_bytes = 0  # of the last call
        self.judged = 0  # checkpoints of the last call that had to be read
        self.root = path  # where the path of the last call led
        self._store, self._path, self._limits, self._now = store, path, limits, now
        self._name = name or path.rpartition("/")[2]
        self._known: dict[str, tuple[int, Checkpoint]] = {}
        self._units: dict[str, Unit] = {}

    def shelves(self, usual_save_s: float = 0.0, now: float | None = None) -> tuple[Shelf, ...]:
        """The checkpoints by directory, as old as they are `now`. Raises PortError when the path cannot be listed, or holds far
        too many files."""
        root, listing = self._list()
        self.root = root
        self.read_bytes = self.judged = 0
        self._units = {unit.path: unit for unit in self._find(root, listing)}
        self._known = {path: self._judge(unit, listing.uploads) for path, unit in self._units.items()}
        together: dict[str, list[Checkpoint]] = {}
        for path, (_, found) in self._known.items():
            together.setdefault(self._units[path].shelf, []).append(found)
        now = self._now() if now is None else now
        return tuple(self._shelf(path, found, listing, now, usual_save_s) for path, found in sorted(together.items()))

    def deep(self, checkpoint: Checkpoint) -> Iterator[Progress | Checkpoint]:
        """Compare a checkpoint of the last call with its own checksums: yields the progress, and at the end what it is then."""
        unit = self._units[checkpoint.path]
        look = Look(_Reads(self._store), DEEP)
        notes: list[Note] = [*checkpoint.notes]
        done = 0
        for found in checkpoint_checksums.check(unit, look):
            if isinstance(found, int):
                done += found
                yield Progress(done, checkpoint.size_bytes)
            else:
                notes.append(found)
        judged = state(notes, checkpoint.components)
        yield structs.replace(checkpoint, state=judged, notes=tuple(dict.fromkeys(notes)), read_bytes=look.read_bytes)

    def _list(self) -> tuple[str, Listing]:
        """What is at the path, and where that is: a link within the store is followed, one that leads out of it is refused."""
        listing = self._store.list(self._path, MOST_FILES)
        link = listing.omitted[0] if not listing.files and len(listing.omitted) == 1 else None
        if link is None or link.path != self._path:
            return self._path, listing
        if link.why is Why.LINK:
            return link.leads_to, self._store.list(link.leads_to, MOST_FILES)
        raise PortError(f"{link.path} leads elsewhere", retryable=False, reason=link.why.value)

    def _find(self, root: str, listing: Listing) -> Iterator[Unit]:
        single = listing.files[0].path == root if len(listing.files) == 1 else False
        path = root.rpartition("/")[0] if single else root
        return units(Folder.of(listing, path), "" if single else self._name)

    def _judge(self, unit: Unit, uploads: bool) -> tuple[int, Checkpoint]:
        known = self._known.get(unit.path)
        if known and known[0] == unit.version and not _passing(known[1]):
            return known
        look = Look(_Reads(self._store), self._limits)
        found = judge(unit, look, uploads=uploads)
        self.read_bytes += look.read_bytes
        self.judged += 1
        return unit.version, found

    def _shelf(self, path: str, found: list[Checkpoint], listing: Listing, now: float, usual_save_s: float) -> Shelf:
        look = Look(_Reads(self._store), self._limits)
        hints = checkpoint_shelves.trackers(path, listing, look)
        self.read_bytes += look.read_bytes
        return checkpoint_shelves.shelf(path, found, hints, now, usual_save_s)


def _passing(checkpoint: Checkpoint) -> bool:
    """Whether the same files may give another answer next time."""
    return any(note.sign in {Sign.CHANGED, Sign.UNREADABLE} for note in checkpoint.notes)
