"""The Workloads page: what owns pods, how many it wants and has, whose it is, and what protects it.

Owns which facts of a workload are shown, and the page's order and filters. Must not hold wording (patterns.py) or rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from dashboard.panels import save_ages
from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.picture import WorkloadRow
from fleet.domain.save_picture import CheckpointRow

COLUMNS = (
    Column("workload", small=True),
    Column("gpus-held", "num", small=True),
    Column("state", "state two", small=True, mark=True),
    Column("ready", "num"),
    Column("updated", "num"),
    save_ages.COLUMN,
    Column("team"),
    Column("budget"),
    Column("age", "num"),
)
SORTS = ("trouble", "gpus", "name", "age")
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the workloads is shown and in which order; "" does not narrow. `of`: EVERYTHING also shows those without GPUs."""

    q: str = ""
    kind: str = ""
    namespace: str = ""
    team: str = ""
    of: str = ""
    sort: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "").strip() for name in cls.__slots__})

    def shows(self, key: str, row: WorkloadRow) -> bool:
        return (
            (self.of == EVERYTHING or wants_gpus(row))
            and self.q.lower() in key.lower()
            and self.kind in {"", row.kind}
            and self.namespace in {"", row.namespace}
            and self.team in {"", row.team}
        )


def wants_gpus(row: WorkloadRow) -> bool:
    return row.gpus > 0 or row.gpus_per_pod > 0


Saves = Mapping[str, CheckpointRow]  # of those that train


def table(found: Mapping[str, WorkloadRow], saves: Saves, choice: Choice) -> Table:
    return Table("workloads", COLUMNS, rows(found, saves, choice), "tri")


def rows(found: Mapping[str, WorkloadRow], saves: Saves, choice: Choice) -> list[Row]:
    shown = [(key, row) for key, row in found.items() if choice.shows(key, row)]
    return [_row(key, row, saves.get(key)) for key, row in sorted(shown, key=lambda item: _order(choice.sort, *item))]


def _order(sort: str, key: str, row: WorkloadRow) -> Any:
    name = (natural(row.name), natural(key))
    match sort:
        case "name":
            return name
        case "gpus":
            return (-row.gpus, name)
        case "age":
            return (-(row.created_at or 0), name)
    return (not lacks(row), -row.gpus, name)


def lacks(row: WorkloadRow) -> int:
    """Pods that are wanted and not available; where a kind does not tell its available pods, those that are not Ready."""
    has = row.ready if row.available is None else row.available
    return max(0, (row.desired or 0) - has)


def _row(key: str, row: WorkloadRow, saves: CheckpointRow | None) -> Row:
    level, glyph, words, since = _state(row)
    saved, age, standing = save_ages.cell(saves)
    cells: dict[str, Value] = {
        "workload": row.name,
        "gpus-held": row.gpus,
        "state": words,
        "ready": _of(row.ready, row.desired),
        "updated": "–" if row.updated is None else _of(row.updated, row.desired),
        "checkpoint": age,
        "team": row.team or "–",
        "budget": ", ".join(row.budgets) or say("none"),
        "age": None if row.created_at is None else Age(row.created_at),
    }
    each = say("workloads.each", n=row.gpus_per_pod) if row.gpus_per_pod else ""
    small = {"workload": (row.namespace, row.kind), "gpus-held": each, "state": since, "checkpoint": standing}
    links, nil = {"checkpoint": key} if saves else {}, () if saves else ("checkpoint",)
    return Row(key, level, cells, small, links, {"state": glyph, "checkpoint": saved}, nil)


def _of(count: int, wanted: int | None) -> Text:
    return say("node.ready-of", ready=count, total=wanted)


def _state(row: WorkloadRow) -> tuple[str, str, Text, Text]:
    """Level, glyph, words and since when."""
    if row.desired is None:
        return "", "s-unknown", say("workloads.unknown"), ""
    if n := lacks(row):
        since = "" if row.short_since_at is None else say("workloads.since", age=Age(row.short_since_at))
        return "warn", "s-warn", say("workloads.short", n=n), since
    if row.paused:
        return "", "s-off", say("workloads.paused"), ""
    if not row.desired:
        return "", "s-off", say("workloads.none-wanted"), ""
    return "", "s-info", say("workloads.complete"), ""


def counts(found: Mapping[str, WorkloadRow], choice: Choice) -> Text:
    """How many are shown, and how many GPUs their pods hold."""
    shown = [row for key, row in found.items() if choice.shows(key, row)]
    gpus = say("gpus", n=sum(row.gpus for row in shown))
    return (say("workloads.count", n=len(shown)), say("workloads.held", gpus=gpus))


def options(found: Iterable[WorkloadRow], field: str) -> list[str]:
    """The values of one filter."""
    return sorted({value for row in found if (value := getattr(row, field))}, key=natural)
