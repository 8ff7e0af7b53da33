"""Lengths of time and sizes as people read them, in three values: a number, nothing of that kind, unknown.

Owns rounding. Unknown is None, which the words say as such, never 0.
"""

from typing import Any, TypeGuard

from dashboard.panels import words
from dashboard.panels.words import Text, say
from fleet.domain.gpus import NA as NA  # noqa: PLC0414 -- nothing of that kind

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def known(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def duration(seconds: Any) -> Text | None:
    """ "2 h 06 min"; None when it is unknown."""
    return words.age(float(seconds)) if known(seconds) else None


def size(count: Any) -> Text | None:
    """Decimal units, one decimal below 100: "41.0 GB"; None when it is unknown."""
    if not known(count):
        return None
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1_000, unit + 1
    return say(f"measure.{UNITS[unit]}", value=round(value) if unit == 0 or value >= 99.95 else decimal(value))


def decimal(value: float) -> Text:
    tenths = round(value * 10)
    return say("gpu.decimal", whole=tenths // 10, tenth=tenths % 10)
