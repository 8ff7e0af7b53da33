"""The last checkpoint that counts for a decision: what a store shows, else what a workload says of itself.

Owns which of them it is, the pace between saves, and why there is none. Must not read anything, nor judge whether it will do.
"""

from fleet.domain import save_history
from fleet.domain.facts import Saved, Unsaved
from fleet.domain.freshness import Found, Freshness
from fleet.domain.save_history import Save

# Of the troubles that a look may have, those that people can do something else about than mend a store.
WHY = {
    "not-granted": "not-granted",
    "no-place": "undeclared",
    "local": "local",  # only its own pod or node could tell
    "silent": "late",
}


def last(seen: Freshness) -> Saved | Unsaved:
    """A store that was read counts, whatever anybody reports: a report lowers no loss that it contradicts."""
    durable, uri = seen.training.durable, seen.training.uri
    if seen.read:
        best = newest(seen)
        if best is None:
            return Unsaved("none", durable, uri)
        return Saved(best.at, best.step, durable, best.uri, pace_s(seen), state_at=best.lost_since_at)
    if (report := seen.report) is not None:
        since = report.at - max(report.duration_s or 0.0, seen.usual.cost_s or 0.0)
        where = report.uri or uri
        return Saved(report.at, report.step, durable, where, seen.usual.step_s, reported=True, state_at=since)
    return Unsaved(WHY.get(seen.trouble, "unreadable"), durable, uri)


def newest(seen: Freshness) -> Found | None:
    """What the run would go on from: the newest that is known to be resumable, else the newest that is complete."""
    return seen.resumable or seen.newest


def pace_s(seen: Freshness) -> float | None:
    """Seconds per step between its saves; None: too few of them have a step."""
    shown = [Save(one.committed_at, one.step) for one in seen.checkpoints if one.whole and one.committed_at is not None]
    return save_history.usual(shown).step_s or seen.usual.step_s
