"""What a GPU did in a minute or an hour: a few numbers, and how they fit into seven bytes.

Owns the sums of a minute under way, and the packed form that the ledger keeps. Must not know where it is kept. Numbers that were
not applicable or unknown all the time stay so; where some readings had a number, only these count.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from fleet.domain.gpus import NA, Measure
from fleet.domain.measures import mean, most, number
from fleet.domain.picture import GpuRow

MINUTE_S: Final = 60
HOUR_S: Final = 3600
MINUTES_AN_HOUR: Final = 60

_FORM: Final = struct.Struct("<BBBHH")
_VERSION: Final = b"\x01"
_BYTE, _WORD = 0xFF, 0xFFFF  # unknown; one less is "not applicable", one less again is the largest number
_MEMORY_STEP_MIB: Final = 16


class Sample(Struct, frozen=True, array_like=True):
    """One GPU in one span of time."""

    utilization_pct: Measure = None  # mean
    utilization_most_pct: Measure = None
    temperature_c: Measure = None  # highest
    power_w: Measure = None  # mean
    memory_used_mib: Measure = None  # most, in steps of 16


class Gathering:
    """One span of one node that is under way."""

    def __init__(self, span: int) -> None:
        self.span = span
        self._rows: dict[str, list[tuple[Measure, Measure, Measure, Measure]]] = {}

    def add(self, rows: Mapping[str, GpuRow]) -> None:
        """One reading."""
        for key, row in rows.items():
            values = (row.utilization_pct, row.temperature_c, row.power_w, row.memory_used_mib)
            self._rows.setdefault(key, []).append(values)

    def samples(self) -> dict[str, Sample]:
        """Of every GPU, sorted by key, so that equal GPUs make equal line-ups."""
        return {key: _sample(*zip(*self._rows[key], strict=True)) for key in sorted(self._rows)}


def together(samples: Sequence[Sample]) -> Sample:
    """Several spans of one GPU as one."""
    return Sample(
        _or_why(mean(s.utilization_pct for s in samples), [s.utilization_pct for s in samples]),
        _or_why(most(s.utilization_most_pct for s in samples), [s.utilization_most_pct for s in samples]),
        _or_why(most(s.temperature_c for s in samples), [s.temperature_c for s in samples]),
        _or_why(mean(s.power_w for s in samples), [s.power_w for s in samples]),
        _or_why(most(s.memory_used_mib for s in samples), [s.memory_used_mib for s in samples]),
    )


def packed(samples: Iterable[Sample]) -> bytes:
    return _VERSION + b"".join(
        _FORM.pack(
            _code(s.utilization_pct, _BYTE),
            _code(s.utilization_most_pct, _BYTE),
            _code(s.temperature_c, _BYTE),
            _code(s.power_w, _WORD),
            _code(s.memory_used_mib, _WORD, _MEMORY_STEP_MIB),
        )
        for s in samples
    )


def unpacked(data: bytes) -> list[Sample]:
    """Raises ValueError for what `packed` has not made."""
    if data[:1] != _VERSION or (len(data) - 1) % _FORM.size:
        raise ValueError("not a packed span of this version")
    return [
        Sample(
            _value(busy, _BYTE),
            _value(busiest, _BYTE),
            _value(hottest, _BYTE),
            _value(power, _WORD),
            _value(memory, _WORD, _MEMORY_STEP_MIB),
        )
        for busy, busiest, hottest, power, memory in _FORM.iter_unpack(data[1:])
    ]


def _sample(
    utilization: Sequence[Measure], temperature: Sequence[Measure], power: Sequence[Measure], memory: Sequence[Measure]
) -> Sample:
    return Sample(
        _or_why(mean(utilization), utilization),
        _or_why(most(utilization), utilization),
        _or_why(most(temperature), temperature),
        _or_why(mean(power), power),
        _or_why(most(memory), memory),
    )


def _or_why(found: float | None, measures: Sequence[Measure]) -> Measure:
    """The number; where there is none, not applicable if it never was, else unknown."""
    if found is not None:
        return round(found)
    return NA if measures and all(measure == NA for measure in measures) else None


def _code(measure: Measure, unknown: int, step: int = 1) -> int:
    n = number(measure)
    if n is None:
        return unknown - 1 if measure == NA else unknown
    return min(max(round(n / step), 0), unknown - 2)


def _value(code: int, unknown: int, step: int = 1) -> Measure:
    if code == unknown:
        return None
    return NA if code == unknown - 1 else code * step
