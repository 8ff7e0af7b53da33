"""Lines over time: measurements in equal slots of time, and the paths that draw them.

Owns geometry only: whole numbers in a box of `slots - 1` by 100, which the page stretches; the browser draws alike
(`frontend/static/js/panels/charts.js`). A slot without a measurement is a gap, never a zero. Must not know what is measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE_S = 60
HOUR_SLOTS = 60
Values = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """Means of equal slots of time. `first`: the number of the first slot, in slots since 1970; `top`: what the box is high."""

    first: int
    values: Values
    top: int = 100

    @property
    def line(self) -> str:
        return line(self.values, self.top)

    @property
    def area(self) -> str:
        return area(self.values, self.top)

    @property
    def width(self) -> int:
        return max(1, len(self.values) - 1)

    @property
    def text(self) -> str:
        """The values as an attribute: "97,96,,0"."""
        return ",".join("" if value is None else str(value) for value in self.values)

    @property
    def known(self) -> list[int]:
        return [value for value in self.values if value is not None]


BLANK = Trend(0, (None,) * HOUR_SLOTS)


def slotted(points: Iterable[tuple[float, object]], now: float, slots: int, slot_s: int) -> tuple[int, Values]:
    """The number of the first slot, and the mean of each; the last slot is that of `now`. What is no number is left out."""
    first = int(now // slot_s) - slots + 1
    sums: list[list[float]] = [[] for _ in range(slots)]
    for at, value in points:
        i = int(at // slot_s) - first
        if 0 <= i < slots and isinstance(value, int | float):
            sums[i].append(float(value))
    return first, tuple(int(sum(found) / len(found) + 0.5) if found else None for found in sums)


def last_hour(points: Iterable[tuple[float, object]], now: float, top: int = 100) -> Trend:
    first, values = slotted(points, now, HOUR_SLOTS, MINUTE_S)
    return Trend(first, values, top)


def line(values: Sequence[int | None], top: int) -> str:
    """A lone point is a short dash, because a line of no length is not drawn."""
    return "".join(_run(run) + ("" if len(run) > 1 else "h.4") for run in _runs(values, top))


def area(values: Sequence[int | None], top: int) -> str:
    return "".join(f"{_run(run)}V100H{run[0][0]}Z" for run in _runs(values, top) if len(run) > 1)


def _run(points: Sequence[tuple[int, int]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)


def _runs(values: Sequence[int | None], top: int) -> list[list[tuple[int, int]]]:
    """Points side by side without a gap."""
    found: list[list[tuple[int, int]]] = []
    before = None
    for x, value in enumerate(values):
        if value is not None:
            if before is None:
                found.append([])
            found[-1].append((x, 100 - min(100, int(100 * value / top + 0.5))))
        before = value
    return found
