"""What the cluster has on record about a node: its labels and annotations, and its recent Events.

Owns what the Node page shows of them and in which order. Must not hold wording (node_patterns.py) or decide which are kept.
"""

from collections.abc import Iterable, Mapping

from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.occurrences import newest
from fleet.domain.picture import EventRow, LabelsRow

EVENTS = (
    Column("event", small=True),
    Column("message", "all", small=True),
    Column("times", "num"),
    Column("last", "num"),
)
LABELS = (Column("label"), Column("value", "all"))


def tables(labels: LabelsRow, happened: Mapping[str, EventRow]) -> dict[str, Table]:
    return {
        "events": Table("events", EVENTS, events(happened)),
        "annotations": Table("annotations", LABELS, texts(labels.annotations)),
        "labels": Table("labels", LABELS, texts(labels.labels)),
    }


def events(happened: Mapping[str, EventRow]) -> list[Row]:
    """The newest first."""
    return [_event(key, happened[key]) for key in newest(happened)]


def _event(key: str, row: EventRow) -> Row:
    cells: dict[str, Value] = {
        "event": row.reason,
        "message": row.message or "–",
        "times": row.count,
        "last": None if row.last_at is None else Age(row.last_at),
    }
    about = (row.kind, f"{row.namespace}/{row.name}" if row.namespace else row.name)
    nil = ("times",) if row.count == 1 else ()
    return Row(key, "warn" if row.type == "Warning" else "", cells, {"event": about, "message": row.source}, nil=nil)


def texts(found: Iterable[tuple[str, str]]) -> list[Row]:
    """Labels or annotations, in their order."""
    return [Row(name, "", {"label": name, "value": value or say("labels.empty")}, {}) for name, value in found]


def label_count(row: LabelsRow) -> Text:
    return say("labels.labels", n=len(row.labels))
