"""What was found of a workload's saves in one directory: whole ones, one that goes on, what is broken, who says otherwise.

Owns how these are read off a shelf, and what a commit moment is worth by our own clock. Must not judge how fresh they are.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from fleet.domain.checkpoint_shelves import Shelf, order
from fleet.domain.checkpoints import Checkpoint, Components, Format, State

CLOCKS_S: Final = 2.0  # so far apart may two clocks be


class Found(Struct, frozen=True):
    """One whole checkpoint. `at`: its commit, by the clock of whoever dates it; `ahead_s`: by how much that is later than when we
    first saw it, which is later than it can be. `uri`: where it is, as the workload's own with the rest of the path. `state_at`:
    what it holds may be as old as that, by the same clock as `at`; see `state_at`."""

    at: float
    step: int | None
    size_bytes: int
    components: Components
    uri: str
    format: Format | None = None
    state: State = State.COMPLETE
    state_at: float | None = None
    ahead_s: float = 0.0

    @property
    def seen_at(self) -> float:
        """Its commit by our clock: at the latest, where the other one is ahead."""
        return self.at - self.ahead_s

    @property
    def misdated(self) -> bool:
        """Whether its commit lies after we saw it: how old it is, nobody knows, also once our clock has passed that moment."""
        return self.ahead_s > CLOCKS_S

    @property
    def lost_since_at(self) -> float:
        """From when on work is lost that goes on from here, by our clock: at the latest, where the other one is ahead."""
        return (self.at if self.state_at is None else self.state_at) - self.ahead_s


class InFlight(Struct, frozen=True):
    """A save that goes on."""

    path: str
    step: int | None
    size_bytes: int  # so far
    started_at: float  # at the latest
    last_byte_at: float


class Left(Struct, frozen=True):
    """Saves that were given up: they cost disk."""

    count: int = 0
    size_bytes: int = 0


class Broken(Struct, frozen=True):
    """What ought to be the newest checkpoint, and cannot be used. `why`: a `Sign`, `file`: of which file."""

    path: str
    step: int | None
    state: State
    why: str = ""
    file: str = ""
    seen_at: float = 0.0  # its last byte


class Disagreement(Struct, frozen=True):
    """A tracker names another checkpoint than the newest complete one: a rollback, or a save that failed."""

    tracker: str
    says: str
    step: int | None
    newest_step: int | None
    found: State | None  # of what it names; None: there is none


class Seen(Struct, frozen=True):
    """How a shelf came to be seen: from which path on, now, and since when each of its checkpoints is known (path, commit)."""

    now: float
    root: str = ""
    first: Mapping[tuple[str, float], float] = {}

    def first_at(self, checkpoint: Checkpoint) -> float:
        """When it was seen first, by our clock: it was complete by then."""
        return min(self.now, self.first.get((checkpoint.path, checkpoint.committed_at or 0.0), self.now))


def found(checkpoint: Checkpoint | None, uri: str, shelf: Shelf, save_cost_s: float | None, seen: Seen) -> Found | None:
    """`uri`: of the workload. None: there is none that is whole."""
    if checkpoint is None or checkpoint.committed_at is None:
        return None
    at = checkpoint.committed_at
    return Found(
        at=at,
        step=checkpoint.step,
        size_bytes=checkpoint.size_bytes,
        components=checkpoint.components,
        uri=f"{uri.rstrip('/')}/{_below(checkpoint.path, seen.root)}".rstrip("/"),
        format=checkpoint.format,
        state=checkpoint.state,
        state_at=state_at(checkpoint, shelf.checkpoints, save_cost_s),
        ahead_s=max(0.0, at - seen.first_at(checkpoint)),
    )


def _below(path: str, root: str) -> str:
    """The rest of a path; nothing where the root is a file, which is the checkpoint itself."""
    return path[len(root) :].strip("/") if root in {"", path} or path.startswith(f"{root}/") else ""


def state_at(checkpoint: Checkpoint, others: Iterable[Checkpoint], save_cost_s: float | None) -> float | None:
    """The earliest moment of which the state in a whole checkpoint can be: that of the beginning of its save, which trainers
    that save asynchronously leave long before it is committed. The first of: its first byte, its commit less what a save usually
    takes; but not before an older one was committed, since the saves of a run come one after another."""
    at = checkpoint.committed_at
    if at is None:
        return None
    first = at if checkpoint.first_byte_at is None else checkpoint.first_byte_at
    begun = min(at, first, at - (save_cost_s or 0.0))
    earlier = [each.committed_at for each in others if each.whole and each.committed_at is not None]
    return max([begun, *(moment for moment in earlier if moment < at)])


def in_flight(found: Iterable[Checkpoint]) -> InFlight | None:
    """The one that was written to last."""
    last = max(found, key=lambda each: each.last_byte_at, default=None)
    if last is None:
        return None
    started_at = last.last_byte_at if last.first_byte_at is None else last.first_byte_at
    return InFlight(last.path, last.step, last.size_bytes, started_at, last.last_byte_at)


def broken(shelf: Shelf, newest: Checkpoint | None) -> Broken | None:
    """Of what comes after the newest complete one."""
    wrong = [
        each
        for each in shelf.checkpoints
        if each.state in {State.CORRUPT, State.INCONSISTENT}
        and not each.aside
        and (not newest or order(each) > order(newest))
    ]
    if not wrong:
        return None
    last = max(wrong, key=order)
    note = last.notes[0] if last.notes else None
    return Broken(
        last.path, last.step, last.state, note.sign.value if note else "", note.path if note else "", last.last_byte_at
    )


def counting(shelf: Shelf) -> tuple[Checkpoint | None, Checkpoint | None, Checkpoint | None]:
    """The newest, the newest that is known to be resumable, and what a tracker names in place of the newest."""
    return shelf.newest, shelf.newest_resumable, tracked(shelf)


def tracked(shelf: Shelf) -> Checkpoint | None:
    """The oldest complete one of those that a tracker names although there is a newer one."""
    named = {conflict.path for conflict in shelf.conflicts if conflict.path}
    return next((each for each in shelf.checkpoints if each.state is State.COMPLETE and each.path in named), None)


def disagreement(shelf: Shelf) -> Disagreement | None:
    found = next(iter(shelf.conflicts), None)
    if found is None:
        return None
    return Disagreement(found.tracker.path, found.tracker.says, found.tracker.step, found.newest_step, found.found)
