"""The last checkpoint that counts for a decision: what a store shows, else what a workload says of itself.

Owns which of them it is, the pace between saves, and why there is none. Must not read anything, nor judge whether it will do.
"""

from collections.abc import Iterable

from fleet.domain import freshness, save_history
from fleet.domain.facts import Saved, Unsaved
from fleet.domain.found_saves import Found
from fleet.domain.freshness import Freshness
from fleet.domain.save_history import Save
from fleet.domain.training import Training

# Of the troubles that a look may have, those that people can do something else about than mend a store.
WHY = {
    "not-granted": "not-granted",
    "no-place": "undeclared",
    "local": "local",  # only its own pod or node could tell
    "silent": "late",
}


def last(seen: Freshness, others: Iterable[Training] = ()) -> Saved | Unsaved:
    """A store that was read counts, whatever anybody reports: a report lowers no loss that it contradicts. `others`: all that
    trains; where one of them saves in or below the same directory, what lies below it may be that one's."""
    found = _read(seen, others) if seen.read else _reported(seen)
    return Unsaved(found, seen.training.durable, seen.training.uri) if isinstance(found, str) else found


def _read(seen: Freshness, others: Iterable[Training]) -> Saved | str:
    """What was dated later than it was seen is of unknown age, also once that moment has passed."""
    if shared(seen, others).shared:
        return "shared"
    best = seen.resumes_from
    if best is None:
        return "none"
    if best.misdated:
        return "clock"
    return Saved(best.at, best.step, seen.training.durable, best.uri, pace_s(seen), state_at=best.lost_since_at)


def _reported(seen: Freshness) -> Saved | str:
    report, since = seen.report, seen.reported_since_at
    if report is None:
        return WHY.get(seen.trouble, "unreadable")
    if report.misdated:
        return "clock"
    if since is None:
        return "untimed"
    durable, uri, pace = seen.training.durable, report.uri or seen.training.uri, seen.usual.step_s
    return Saved(report.at, report.step, durable, uri, pace, reported=True, state_at=since)


def shared(seen: Freshness, others: Iterable[Training]) -> Freshness:
    """As it is beside all others that train."""
    if seen.shared or not seen.below or not any(_within(other, seen.training) for other in others):
        return seen
    return freshness.shared(seen)


def _within(other: Training, one: Training) -> bool:
    top = one.uri.rstrip("/")
    return other.workload != one.workload and f"{other.uri.rstrip('/')}/".startswith(f"{top}/")


def newest(seen: Freshness) -> Found | None:
    """The newest that is known to be resumable, else the newest that is complete, whatever a tracker names: it follows a new
    save a little later."""
    return seen.resumable or seen.newest


def pace_s(seen: Freshness) -> float | None:
    """Seconds per step between its saves; None: too few of them have a step."""
    shown = [Save(one.committed_at, one.step) for one in seen.checkpoints if one.whole and one.committed_at is not None]
    return save_history.usual(shown).step_s or seen.usual.step_s
