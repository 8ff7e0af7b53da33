"""The attention list: one entry per problem, with cause, evidence, age and where to go next.

Owns which facts of an attention row its sentences use. Must not decide what needs attention: the domain does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.panels.fleet import GLYPHS, natural
from dashboard.panels.words import Clock, Text, Value, say
from fleet.domain.picture import AttentionRow

STREAM_RANK = -1  # what we cannot see comes before what we see

# Facts that are moments: shown as the time of an event.
MOMENTS = ("_at",)


@dataclass(frozen=True, slots=True)
class Entry:
    """One problem. `since_at` is None when nobody knows since when."""

    key: str
    level: str
    glyph: str
    title: Text
    evidence: Text
    since_at: float | None = None
    node: str = ""
    action: Text = ""


def entries(rows: Mapping[str, AttentionRow], trouble: Iterable[tuple[str, str, float]] = ()) -> list[Entry]:
    """Most urgent first; streams that are broken come before what they may hide."""
    lost = [stream(kind, reason, since_at) for kind, reason, since_at in trouble]
    return lost + [entry(key, row) for key, row in sorted(rows.items(), key=lambda item: urgency(item[1]))]


def urgency(row: AttentionRow) -> tuple[int, float, Any]:
    since = float("inf") if row.since_at is None else row.since_at
    return (row.rank, since, natural(row.subject))


def entry(key: str, row: AttentionRow) -> Entry:
    values = _values(row)
    return Entry(
        key=key,
        level=row.level,
        glyph=GLYPHS.get(row.level, "s-info"),
        title=say(f"attention.{row.kind}", **values),
        evidence=say(f"evidence.{row.kind}", **values),
        since_at=row.since_at,
        node=row.node,
        action=say("attention.open", node=row.node) if row.node else "",
    )


def _values(row: AttentionRow) -> dict[str, Value]:
    facts: dict[str, Value] = {
        name: Clock(value) if name.endswith(MOMENTS) and isinstance(value, int | float) else _value(value)
        for name, value in row.facts
    }
    return {"subject": row.subject, "node": row.node, **facts}


def _value(value: str | float | None) -> Value:
    return int(value) if isinstance(value, float) else value


def stream(kind: str, reason: str, since_at: float) -> Entry:
    title = say("attention.stream", kind=kind)
    return Entry(f"stream:{kind}", "warn", "s-warn", title, say("evidence.stream", reason=reason), since_at)


def summary(rows: Mapping[str, AttentionRow]) -> Text:
    """The most urgent evidence about one node, or that there is none."""
    found = entries(rows)
    return found[0].evidence if found else say("node.fine")
