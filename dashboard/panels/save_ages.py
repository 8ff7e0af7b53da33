"""How old a workload's newest complete checkpoint is, in one cell of a table: what a restart now would cost.

Owns that cell alone. Must not judge: the row says how it stands.
"""

from typing import Final

from dashboard.panels.tables import Column
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.freshness import Standing
from fleet.domain.save_picture import CheckpointRow

COLUMN: Final = Column("checkpoint", small=True, link=True, to_training=True, mark=True)
GLYPHS: Final = {"ok": "s-ok", "warn": "s-warn", "bad": "s-bad", "off": "s-unknown"}


def cell(row: CheckpointRow | None) -> tuple[str, Value, Text]:
    """Glyph, words and second line. None: it does not train."""
    if row is None:
        return "", "–", ""
    glyph, standing = GLYPHS.get(row.level, ""), say(f"standing.{row.standing}")
    at = row.newest_at if row.newest_at is not None else row.reported_at
    if at is None or row.skew_s:
        return glyph, standing, ""
    return (
        glyph,
        Age(at),
        say("standing.no-target") if row.standing == Standing.UNKNOWN and not row.target_s else standing,
    )
