"""Durations as people write them: 5m, 1h30m, 90s.

Owns the notation only. Must not know what a duration is of.
"""

import re
from typing import Final

UNITS_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
DAYS_FROM_S: Final = 4 * 86_400
LONGEST_TEXT: Final = 40
HOW: Final = "write it like 5m, 1h30m or 90s"
_NUMBER = r"\d+(?:\.\d+)?"
_PARTS = re.compile("".join(rf"(?:(?P<{u}>{_NUMBER}) ?{'m(?:in)?' if u == 'm' else u} ?)?" for u in UNITS_S), re.ASCII)


class DurationError(ValueError):
    """Not a duration. The text says how to write one."""


def parse(text: str) -> float:
    """Seconds. Days, hours, minutes and seconds in this order, each at most once; a number without a unit is refused."""
    stripped = text.strip()
    found = _PARTS.fullmatch(stripped) if stripped and len(stripped) <= LONGEST_TEXT else None
    if found is None:
        raise DurationError(f"{text[:LONGEST_TEXT]!r} is not a duration; {HOW}")
    return sum(float(number) * UNITS_S[unit] for unit, number in found.groupdict().items() if number)


def spelled(seconds: float) -> str:
    """What `parse` reads as these seconds, to the second from a minute on, to a millisecond below; days from four on."""
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
    rest, parts = int(seconds + 0.5), []
    for unit, unit_s in UNITS_S.items():
        count, rest = divmod(rest, unit_s) if unit != "d" or seconds >= DAYS_FROM_S else (0, rest)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts)
