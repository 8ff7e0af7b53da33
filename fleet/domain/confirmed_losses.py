"""Whether a training pod would lose no more now than whoever confirmed its eviction was shown.

Owns how far a loss may have grown since: while a pod waits for its budget its work goes on, and checkpoints are taken away. Must
not read a store.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain import last_saves
from fleet.domain.facts import Saved
from fleet.domain.freshness import Freshness
from fleet.domain.plans import Plan, PodLoss
from fleet.domain.pod_guards import CHECKPOINT_S

BOUNDED: Final = "age"  # the block of the guard that is about a number; who lifts another one has accepted the unknown


# Why a checkpoint that is there has no age: what was saved at a moment that we know is younger all the same.
UNDATED: Final = frozenset({"clock", "untimed"})


class Excess(StrEnum):
    """Why a pod is not evicted yet."""

    GROWN = "loss-grown"  # more than was confirmed
    UNKNOWN = "loss-unknown"  # it was a number when it was confirmed
    CHANGED = "checkpoint-changed"  # it would go on from an older one, or from another place


class Confirmed(Struct, frozen=True):
    """What somebody has agreed to lose with a pod: at most `work_s`, going on from a checkpoint that was committed at `at` or
    later, by the clock of whoever dates it, in the directory `place`. `since_at`: nothing before is lost, by our clock, where
    that is known better than by dates: it has saved for us since."""

    work_s: float
    at: float | None = None
    place: str = ""
    reported: bool = False
    since_at: float | None = None


def confirmed(plan: Plan, pod: PodLoss, lifted: frozenset[str]) -> Confirmed | None:
    """Of a pod that nobody saves first. `lifted`: the keys of the waivers. None: it trains nothing, or whatever it loses was
    accepted."""
    if not (pod.training and pod.evicted):
        return None
    block = next(
        (c for c in plan.blocks if c.key == f"checkpoint:{pod.namespace}/{pod.name}" and c.key in lifted), None
    )
    if block is not None and block.reason != BOUNDED:
        return None
    shown_s = pod.work_s if isinstance(pod.work_s, int | float) and block is not None else 0.0
    return Confirmed(shown_s + CHECKPOINT_S, pod.saved_at, _directory(pod.saved_uri), pod.reported)


def saved_first(at: float, uri: str, since_at: float | None, *, reported: bool) -> Confirmed:
    """Of one that has saved when it was asked to. `since_at`: its save has begun since, by our clock; None: or before."""
    return Confirmed(CHECKPOINT_S, at, _directory(uri), reported, since_at)


def excess(agreed: Confirmed, seen: Freshness) -> Excess | None:
    """What stands against going now, by a look at its store; None: nothing."""
    known, best = last_saves.last(seen), seen.resumes_from if seen.read else seen.report
    if isinstance(known, Saved):
        since_at = known.lost_since_at
    elif known.why in UNDATED and agreed.since_at is not None:
        since_at = agreed.since_at
    else:
        return Excess.UNKNOWN
    if best is None or _changed(agreed, best.at, best.uri, reported=not seen.read):
        return Excess.CHANGED
    return Excess.GROWN if seen.scanned_at - since_at > agreed.work_s else None


def _changed(agreed: Confirmed, at: float, uri: str, *, reported: bool) -> bool:
    """Of two dates of the same clock the later one can be told, however wrong it is."""
    if agreed.at is None or agreed.reported is not reported:
        return False
    return at < agreed.at or (not reported and _directory(uri) != agreed.place)


def _directory(uri: str) -> str:
    return uri.rpartition("/")[0]
