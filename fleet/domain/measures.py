"""Arithmetic of measurements that may be a number, not applicable or unknown.

Owns what a mean, a maximum and a rounded figure are when some values are missing: they are left out, never counted as 0.
"""

from collections.abc import Iterable
from math import isfinite

from fleet.domain.gpus import NA, Gpu, Measure

MIB = 1 << 20
MOST = 1 << 63


def number(measure: Measure) -> int | float | None:
    """The number, or None when there is none, whatever the reason; NaN and infinity are none."""
    if type(measure) is int:
        return measure
    return measure if type(measure) is float and isfinite(measure) else None


def mean(measures: Iterable[Measure]) -> float | None:
    """Over the numbers only; None when there is none."""
    numbers = [n for m in measures if (n := number(m)) is not None]
    return sum(numbers) / len(numbers) if numbers else None


def most(measures: Iterable[Measure]) -> int | float | None:
    return max((n for m in measures if (n := number(m)) is not None), default=None)


def whole(measure: Measure) -> Measure:
    """As a screen shows it: rounded to a whole number; what is none stays what it is."""
    if type(measure) is int:
        return measure
    return _rounded(measure) if type(measure) is float else measure


def mib(measure: Measure) -> Measure:
    """Bytes in whole MiB."""
    n = number(measure)
    if n is None:
        return NA if measure == NA else None
    return _rounded(n / MIB)


def _rounded(n: float) -> int | None:
    """None for what is no number, or one that no counter of 64 bits holds."""
    return round(n) if abs(n) < MOST else None


def counts_reserved(gpu: Gpu) -> bool:
    """Whether `memory_used_bytes` includes what the driver reserves for itself: it cannot tell it apart before R510."""
    return number(gpu.memory_reserved_bytes) is None


def memory_share(gpu: Gpu) -> float | None:
    """How full the memory is, 0 to 1: used / (total - reserved); used / total with a driver that cannot tell reserved apart."""
    used, total = number(gpu.memory_used_bytes), number(gpu.memory_total_bytes)
    if used is None or total is None:
        return None
    room = total - (number(gpu.memory_reserved_bytes) or 0)
    return used / room if room > 0 else None
