"""How many findings a restart of each workload has, by severity, as a column of the lists of workloads and rollouts.

Owns the column and what a cell says. Must not judge. The picture holds no templates, so the column is as old as the page: script
leaves its cells alone (`Column.kept`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.panels.readiness import GLYPHS
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Text, Value, say
from fleet.domain.readiness import Finding, Severity

COLUMN = Column("restart", "two", small=True, link=True, to_readiness=True, mark=True, kept=True)

Found = Mapping[str, Sequence[Finding]] | None  # by workload; None: not judged yet


def joined(table: Table, found: Found) -> Table:
    """The table with the column, the last one."""
    rows = [_joined(row, found) for row in table.rows]
    return replace(table, columns=(*table.columns, COLUMN), rows=rows)


def _joined(row: Row, found: Found) -> Row:
    counted = Counter(one.severity for one in (found or {}).get(row.key, ()))
    severities = [severity for severity in Severity if counted[severity]]
    worst = next(iter(severities), None)
    known = found is not None and row.key in found
    words: Value = (
        _words(worst, counted) if worst else say("readiness.badge.none") if known else None if found is None else "–"
    )
    return replace(
        row,
        cells={**row.cells, COLUMN.id: words},
        small={**row.small, COLUMN.id: tuple(_words(one, counted) for one in severities[1:])},
        links={**row.links, COLUMN.id: row.key} if known else row.links,
        marks={**row.marks, COLUMN.id: GLYPHS[worst] if worst else ""},
        nil=row.nil if worst else (*row.nil, COLUMN.id),
    )


def _words(severity: Severity, counted: Counter[Severity]) -> Text:
    return say(f"readiness.{severity}s", n=counted[severity])
