"""How fresh a workload's checkpoints are: the newest one against how often it means to save.

Owns the rule: with the interval τ and the time C that a save takes, checkpoints are stale after τ + C and some slack, critical
after 2τ + C. Nothing is due from a job that is finished or suspended, nor in its first τ + C. Must not read a store, nor say what
to do about it.

Source: the project's notes on checkpoints, "Freshness".
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from fleet.domain import found_saves
from fleet.domain.checkpoint_shelves import Shelf, order
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.found_saves import CLOCKS_S, Broken, Disagreement, Found, InFlight, Left, Seen
from fleet.domain.save_history import Usual
from fleet.domain.training import Life, Training

LEAST_SLACK_S: Final = 60.0
SLACK_SHARE: Final = 0.1  # of the interval
MOST_SLACK_SHARE: Final = 0.5
NONE_AFTER_S: Final = 3600.0  # without a checkpoint, where nobody says how often it means to save
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


class Report(Struct, frozen=True):
    """What the trainer itself says of its last save. `received_at`: by our clock."""

    at: float
    step: int | None = None
    size_bytes: int = 0
    duration_s: float | None = None
    uri: str = ""
    received_at: float = 0.0

    @property
    def seen_at(self) -> float:
        """Its commit by our clock: at the latest, where the trainer's is ahead."""
        return min(self.at, self.received_at or self.at)

    @property
    def misdated(self) -> bool:
        """Whether it speaks of the future: how old it is, nobody knows."""
        return self.at - self.seen_at > CLOCKS_S


class Freshness(Struct, frozen=True):
    """Of one workload at `scanned_at`. Times are seconds since 1970. `read`: whether a store was read for it; everything about
    checkpoints is empty without. `trouble`: why it was not: a token of `ports.CheckpointStore`, or one of `UNREAD`. `shared`:
    others save below the same directory, so whose the newest one is cannot be told."""

    training: Training
    standing: Standing
    scanned_at: float
    read: bool = False
    trouble: str = ""
    detail: str = ""
    newest: Found | None = None  # complete
    resumable: Found | None = None  # newest complete with weights, optimizer and position
    tracked: Found | None = None  # complete, and what a tracker names instead of the newest
    skew_s: float = 0.0  # how far in the future the newest one was committed when it was seen first
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
    shared: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()  # the latest by step, of that directory

    @property
    def ranks(self) -> int:
        """Pods that train together and go on from the same checkpoint."""
        return self.training.pods

    @property
    def age_s(self) -> float | None:
        """Of the newest complete checkpoint, never negative; None: there is none."""
        return None if self.newest is None else max(0.0, self.scanned_at - self.newest.seen_at)

    @property
    def due_at(self) -> float | None:
        """From when on it is stale; None: nothing complete, or no target."""
        if self.newest is None or self.target_s is None:
            return None
        return self.newest.seen_at + stale_after_s(self.target_s, self.save_cost_s or 0.0)

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
            return self.reported_since_at
        if self.shared:
            return None
        best = self.resumes_from
        begun = (
            self.training.running_since_at if self.training.running_since_at is not None else self.training.started_at
        )
        since = [at for at in (best.lost_since_at if best else None, begun) if at is not None]
        return max(since) if since else None

    @property
    def reported_since_at(self) -> float | None:
        """The same by the last report: what it saved is the state at the beginning of its save. None: there is none, or nobody
        has ever said how long a save takes."""
        if self.report is None:
            return None
        took = [s for s in (self.report.duration_s, self.usual.cost_s) if s is not None]
        return self.report.seen_at - max(took) if took else None

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
        late = _standing(found, report.seen_at)
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
    root: str = "",
    first: Mapping[tuple[str, float], float] | None = None,
) -> Freshness:
    """Of what was read at `root` of the store. `shelf` None: there is nothing that looks like a checkpoint. `first`: when each
    was seen first, by path and commit. A report is shown and changes nothing: what a store shows counts more than what anybody
    says about it."""
    below = shelf is not None and shelf.path != root and (not root or shelf.path.startswith(f"{root}/"))
    base = Freshness(training, Standing.UNKNOWN, now, read=True, below=below, shared=below and training.apart)
    found = _with_target(base, usual, report)
    found = _with_shelf(found, shelf, Seen(now, root, first or {})) if shelf is not None else found
    return structs.replace(found, standing=_judged(found))


def shared(found: Freshness) -> Freshness:
    """The same where another workload saves below the same directory."""
    known = structs.replace(found, shared=True)
    return structs.replace(known, standing=_judged(known))


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


def _with_shelf(known: Freshness, shelf: Shelf, seen: Seen) -> Freshness:
    uri, cost_s = known.training.uri, known.save_cost_s
    newest, resumable, tracked = (
        found_saves.found(each, uri, shelf, cost_s, seen) for each in found_saves.counting(shelf)
    )
    abandoned = shelf.of(State.ABANDONED)
    shown = sorted(shelf.checkpoints, key=order)[-SHOWN:]
    return structs.replace(
        known,
        newest=newest,
        resumable=resumable,
        tracked=tracked,
        skew_s=max((each.ahead_s for each in (newest, resumable) if each and each.misdated), default=0.0),
        in_flight=found_saves.in_flight(shelf.of(State.IN_PROGRESS)),
        abandoned=Left(len(abandoned), sum(each.size_bytes for each in abandoned)),
        weights_only=len(shelf.of(State.PARTIAL_STATE)),
        broken=found_saves.broken(shelf, shelf.newest),
        conflict=found_saves.disagreement(shelf),
        shelf=shelf.path,
        checkpoints=tuple(structs.replace(each, notes=each.notes[:MOST_NOTES]) for each in shown),
    )


def _judged(found: Freshness) -> Standing:
    training = found.training
    if training.life is not Life.ACTIVE:
        return Standing.RESTING
    if found.newest is None:
        return Standing.STARTING if _begins(found) else Standing.NONE
    standing = _standing(found, found.newest.seen_at)
    if standing in {Standing.STALE, Standing.CRITICAL} and (_begins(found) or _resumed(found, found.newest.seen_at)):
        return Standing.STARTING
    # Where even the newest of all who save there is stale, everybody's is.
    return Standing.UNKNOWN if found.shared and standing in {Standing.FRESH, Standing.LATE} else standing


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
