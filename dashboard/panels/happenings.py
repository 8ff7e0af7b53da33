"""What controllers told of a workload, in their own words: a list under the line of its rollout.

Owns how many are listed. Must not hold wording or rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.panels.words import Clock, Text, Value, say
from fleet.domain.picture import EventRow

MOST = 10


@dataclass(frozen=True, slots=True)
class Happening:
    at: Value
    level: str
    glyph: str
    words: str
    times: Text


def happenings(rows: Sequence[EventRow]) -> list[Happening]:
    """The newest first."""
    return [_happening(row) for row in rows[:MOST]]


def _happening(row: EventRow) -> Happening:
    level, glyph = ("warn", "s-warn") if row.type == "Warning" else ("off", "s-info")
    at = None if row.last_at is None else Clock(row.last_at)
    times = say("rollout.times", n=row.count) if row.count > 1 else ""
    return Happening(at, level, glyph, row.message, times)
