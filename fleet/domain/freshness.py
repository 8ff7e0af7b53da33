"""How fresh a workload's checkpoints are: the newest one against how often it means to save.

Owns the rule: with the interval τ and the time C that a save takes, checkpoints are stale after τ + C and some slack, critical
after 2τ + C. Nothing is due from a job that is finished or suspended, nor in its first τ + C. Must not read a store, nor say what
to do about it.

Source: the project's notes on checkpoints, "Freshness".
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from fleet.domain.checkpoint_shelves import Shelf, age, order
from fleet.domain.checkpoints import Checkpoint, Components, Format, State
from fleet.domain.save_history import Usual
from fleet.domain.training import Life, Training

LEAST_SLACK_S: Final = 60.0
SLACK_SHARE: Final = 0.1  # of the interval
MOST_SLACK_SHARE: Final = 0.5
NONE_AFTER_S: Final = 3600.0  # without a checkpoint, where nobody says how often it means to save
CLOCKS_S: Final = 2.0  # so far apart may two clocks be
SHOWN: Final = 12  # checkpoints of a workload that are kept for screens
MOST_NOTES: Final = 5  # about each of them


class Standing(StrEnum):
    FRESH = "fresh"
    LATE = "late"  # the next one is due, and within its slack
    STALE = "stale"
    CRITICAL = "critical"
    NONE = "none"  # nothing complete at all
    NOT_GRANTED = "not-granted"  # policy does not let us read where it saves
    UNREADABLE = "unreadable"  # policy does, and it cannot be read
    REPORTED = "reported"  # the trainer says that it saves; nobody has looked
    UNKNOWN = "unknown"  # nobody says where it saves, or how often
    RESTING = "resting"  # finished or suspended
    STARTING = "starting"  # nothing is due yet


# Why no store was asked: policy grants none, nobody says where it saves, or only its own pod or node can tell.
UNREAD: Final = {
    "not-granted": Standing.NOT_GRANTED,
    "no-place": Standing.UNKNOWN,
    "local": Standing.UNKNOWN,
}


class Found(Struct, frozen=True):
    """One whole checkpoint. `uri`: where it is, as the workload's own with the rest of the path. `state_at`: what it holds may be
    as old as that; see `state_at`."""

    at: float
    step: int | None
    size_bytes: int
    components: Components
    uri: str
    format: Format | None = None
    state: State = State.COMPLETE
    state_at: float | None = None

    @property
    def lost_since_at(self) -> float:
        """From when on work is lost that goes on from here."""
        return self.at if self.state_at is None else self.state_at


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


class Report(Struct, frozen=True):
    """What the trainer itself says of its last save. `received_at`: by our clock."""

    at: float
    step: int | None = None
    size_bytes: int = 0
    duration_s: float | None = None
    uri: str = ""
    received_at: float = 0.0

    @property
    def lost_since_at(self) -> float:
        """From when on work is lost that goes on from here: what was saved is the state at the beginning of its save."""
        return self.at - (self.duration_s or 0.0)


class Freshness(Struct, frozen=True):
    """Of one workload at `scanned_at`. Times are seconds since 1970. `read`: whether a store was read for it; everything about
    checkpoints is empty without. `trouble`: why it was not: a token of `ports.CheckpointStore`, or one of `UNREAD`."""

    training: Training
    standing: Standing
    scanned_at: float
    read: bool = False
    trouble: str = ""
    detail: str = ""
    newest: Found | None = None  # complete
    resumable: Found | None = None  # newest complete with weights, optimizer and position
    tracked: Found | None = None  # complete, and what a tracker names instead of the newest
    skew_s: float = 0.0  # how far in the future the newest one was committed
    in_flight: InFlight | None = None
    abandoned: Left = Left()
    weights_only: int = 0  # checkpoints that nobody can resume from
    broken: Broken | None = None
    conflict: Disagreement | None = None
    report: Report | None = None
    target_s: float | None = None  # τ: as declared, else as observed
    observed: bool = False  # nobody declares it: the target is what it usually does
    save_cost_s: float | None = None  # C
    usual: Usual = Usual()
    shelf: str = ""  # the directory that counts, relative to the store
    below: bool = False  # that is not the one that was declared, but the last written of those below it
    checkpoints: tuple[Checkpoint, ...] = ()  # the latest by step, of that directory

    @property
    def ranks(self) -> int:
        """Pods that train together and go on from the same checkpoint."""
        return self.training.pods

    @property
    def age_s(self) -> float | None:
        """Of the newest complete checkpoint, never negative; None: there is none."""
        return None if self.newest is None else max(0.0, self.scanned_at - self.newest.at)

    @property
    def due_at(self) -> float | None:
        """From when on it is stale; None: nothing complete, or no target."""
        if self.newest is None or self.target_s is None:
            return None
        return min(self.newest.at, self.scanned_at) + stale_after_s(self.target_s, self.save_cost_s or 0.0)

    @property
    def resumes_from(self) -> Found | None:
        """What the run would go on from: the newest that is known to be resumable, else the newest that is complete. Some
        trainers go on from what their tracker names, so an older one there is the one to count on."""
        best = self.resumable or self.newest
        if best is None or self.tracked is None:
            return best
        return min(best, self.tracked, key=lambda each: each.lost_since_at)

    @property
    def lost_since_at(self) -> float | None:
        """From when on work would be lost if its node died now: since the state of the checkpoint that it would resume from, or
        since it runs. None: nobody knows."""
        if not self.read:
            return None if self.report is None else self.report.lost_since_at
        best = self.resumes_from
        begun = (
            self.training.running_since_at if self.training.running_since_at is not None else self.training.started_at
        )
        since = [at for at in (best.lost_since_at if best else None, begun) if at is not None]
        return max(since) if since else None

    @property
    def at_risk_s(self) -> float | None:
        """Work that would be lost if its node died now; None: nobody knows."""
        since = self.lost_since_at
        return None if since is None else max(0.0, self.scanned_at - since)


def stale_after_s(interval_s: float, cost_s: float) -> float:
    """τ + C + slack. The slack is a tenth of the interval, at least a minute, and never half of it, so that stale comes before
    critical."""
    slack_s = min(max(LEAST_SLACK_S, SLACK_SHARE * interval_s), MOST_SLACK_SHARE * interval_s)
    return interval_s + cost_s + slack_s


def critical_after_s(interval_s: float, cost_s: float) -> float:
    return 2 * interval_s + cost_s


def chosen(shelves: Sequence[Shelf], path: str) -> Shelf | None:
    """The directory that counts: the one that was declared, else the one below it that was written to last."""
    own = next((shelf for shelf in shelves if shelf.path == path), None)
    if own is not None:
        return own
    return max(shelves, key=lambda shelf: max(each.last_byte_at for each in shelf.checkpoints), default=None)


def unread(
    training: Training, now: float, usual: Usual, report: Report | None, trouble: str, detail: str = ""
) -> Freshness:
    """Where no store was read: none may be (`UNREAD`), or it failed."""
    found = _with_target(Freshness(training, Standing.UNKNOWN, now, trouble=trouble, detail=detail), usual, report)
    if training.life is not Life.ACTIVE:
        return structs.replace(found, standing=Standing.RESTING)
    if report is not None:
        late = _standing(found, min(report.at, report.received_at or report.at))
        standing = late if late in {Standing.STALE, Standing.CRITICAL} else Standing.REPORTED
        return structs.replace(found, standing=standing)
    return structs.replace(found, standing=UNREAD.get(trouble, Standing.UNREADABLE))


def freshness(
    training: Training,
    shelf: Shelf | None,
    now: float,
    usual: Usual,
    report: Report | None = None,
    *,
    below: bool = False,
) -> Freshness:
    """Of what was read. `shelf` None: there is nothing that looks like a checkpoint. A report is shown and changes nothing: what
    a store shows counts more than what anybody says about it."""
    base = _with_target(Freshness(training, Standing.UNKNOWN, now, read=True, below=below), usual, report)
    found = _with_shelf(base, shelf, now) if shelf is not None else base
    return structs.replace(found, standing=_judged(found))


def _with_target(found: Freshness, usual: Usual, report: Report | None) -> Freshness:
    declared, cost_s = found.training.interval_s, usual.cost_s
    if cost_s is None and report is not None:
        cost_s = report.duration_s
    return structs.replace(
        found,
        report=report,
        usual=usual,
        target_s=declared if declared is not None else usual.interval_s,
        observed=declared is None and usual.interval_s is not None,
        save_cost_s=cost_s,
    )


def _with_shelf(found: Freshness, shelf: Shelf, now: float) -> Freshness:
    newest, uri = shelf.newest, found.training.uri
    when = age(newest, now) if newest else None
    abandoned = shelf.of(State.ABANDONED)
    shown = sorted(shelf.checkpoints, key=order)[-SHOWN:]
    return structs.replace(
        found,
        newest=_found_at(newest, uri, shelf, found.save_cost_s),
        resumable=_found_at(shelf.newest_resumable, uri, shelf, found.save_cost_s),
        tracked=_found_at(_tracked(shelf), uri, shelf, found.save_cost_s),
        skew_s=when.skew_s if when and when.skew_s > CLOCKS_S else 0.0,
        in_flight=_in_flight(shelf.of(State.IN_PROGRESS)),
        abandoned=Left(len(abandoned), sum(each.size_bytes for each in abandoned)),
        weights_only=len(shelf.of(State.PARTIAL_STATE)),
        broken=_broken(shelf, newest),
        conflict=_disagreement(shelf),
        shelf=shelf.path,
        checkpoints=tuple(structs.replace(each, notes=each.notes[:MOST_NOTES]) for each in shown),
    )


def _found_at(checkpoint: Checkpoint | None, uri: str, shelf: Shelf, save_cost_s: float | None) -> Found | None:
    if checkpoint is None or checkpoint.committed_at is None:
        return None
    return Found(
        at=checkpoint.committed_at,
        step=checkpoint.step,
        size_bytes=checkpoint.size_bytes,
        components=checkpoint.components,
        uri=f"{uri.rstrip('/')}/{checkpoint.path[len(shelf.path) :].strip('/')}".rstrip("/"),
        format=checkpoint.format,
        state=checkpoint.state,
        state_at=state_at(checkpoint, shelf.checkpoints, save_cost_s),
    )


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


def _in_flight(found: Iterable[Checkpoint]) -> InFlight | None:
    """The one that was written to last."""
    last = max(found, key=lambda each: each.last_byte_at, default=None)
    if last is None:
        return None
    started_at = last.last_byte_at if last.first_byte_at is None else last.first_byte_at
    return InFlight(last.path, last.step, last.size_bytes, started_at, last.last_byte_at)


def _broken(shelf: Shelf, newest: Checkpoint | None) -> Broken | None:
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


def _tracked(shelf: Shelf) -> Checkpoint | None:
    """The oldest complete one of those that a tracker names although there is a newer one."""
    named = {conflict.path for conflict in shelf.conflicts if conflict.path}
    return next((each for each in shelf.checkpoints if each.state is State.COMPLETE and each.path in named), None)


def _disagreement(shelf: Shelf) -> Disagreement | None:
    found = next(iter(shelf.conflicts), None)
    if found is None:
        return None
    return Disagreement(found.tracker.path, found.tracker.says, found.tracker.step, found.newest_step, found.found)


def _judged(found: Freshness) -> Standing:
    training = found.training
    if training.life is not Life.ACTIVE:
        return Standing.RESTING
    if found.newest is None:
        return Standing.STARTING if _begins(found) else Standing.NONE
    standing = _standing(found, found.newest.at)
    if standing in {Standing.STALE, Standing.CRITICAL} and (_begins(found) or _resumed(found, found.newest.at)):
        return Standing.STARTING
    return standing


def _standing(found: Freshness, at: float) -> Standing:
    if found.target_s is None:
        return Standing.UNKNOWN
    interval_s, cost_s, age_s = found.target_s, found.save_cost_s or 0.0, max(0.0, found.scanned_at - at)
    if age_s > critical_after_s(interval_s, cost_s):
        return Standing.CRITICAL
    if age_s > stale_after_s(interval_s, cost_s):
        return Standing.STALE
    return Standing.LATE if age_s > interval_s + cost_s else Standing.FRESH


def _begins(found: Freshness) -> bool:
    """Whether the job is in its first τ + C."""
    begun = found.training.started_at
    return begun is not None and found.scanned_at - begun <= _round_s(found)


def _resumed(found: Freshness, at: float) -> bool:
    """Whether its pods have come back within τ + C: what they did not save while they were away is no fault of theirs. It excuses
    one round and no more, so that a job that starts over and over is told."""
    since, round_s = found.training.running_since_at, _round_s(found)
    if since is None or found.scanned_at - since > round_s:
        return False
    return found.scanned_at - at <= critical_after_s(found.target_s or 0.0, found.save_cost_s or 0.0) + round_s


def _round_s(found: Freshness) -> float:
    return NONE_AFTER_S if found.target_s is None else found.target_s + (found.save_cost_s or 0.0)
