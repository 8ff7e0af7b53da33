"""The chart of what intervals cost: shares against intervals in equal ratios, with the best one and those that were asked about.

Owns geometry and ticks only: paths in a box of 1000 by 250 that the page stretches sideways, and places in per cent across. Must
not compute a share.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import Final

from dashboard.panels.words import Text, say
from fleet.domain.cadence import Cadence, Share

WIDE, BOTTOM, TALL = 1_000, 212, 196  # of the box: its width, where the axis is, how far above it the top
HEADROOM: Final = 1.35
CLIPPED: Final = 4  # times the best: what costs more leaves the chart at its top
GRIDS: Final = 4
STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
LEFT: Final = 9  # per cent across that the texts of the lines across keep free
MOST_TICKS: Final = 6
TICKS_S: Final = (
    0.001, 0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 4 * 3_600, 8 * 3_600, 86_400, 2 * 86_400,
    4 * 86_400, 8 * 86_400, 16 * 86_400, 30 * 86_400, 100 * 86_400, 300 * 86_400, 1_000 * 86_400, 10_000 * 86_400,
)  # fmt: skip
NAMED_AT: Final = 0.6  # of the top: where a line's name stands, far enough from where lines cross and from the best
LABEL_WIDE, LABEL_TALL = 26.0, 16.0  # what a label keeps free: in per cent across, and in units of the box


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across with its text, at `at` units from the top; or a text under the axis, at `at` per cent."""

    at: float
    text: Text
    anchor: str = "middle"

    @property
    def above(self) -> float:
        return self.at - 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on the line of the whole: per cent across, units from the top, and where its text stands."""

    x: float
    y: float
    text: Text
    best: bool
    text_y: float
    anchor: str

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where its text stands, per cent across."""
        return _reach(self.x, self.anchor)


@dataclass(frozen=True, slots=True)
class Chart:
    whole: str
    saving: str
    redoing: str
    saving_named: tuple[float, float]
    redoing_named: tuple[float, float]
    grids: tuple[Tick, ...]
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """What the box shows: intervals from `low_s` to `high_s` in equal ratios, shares from 0 to `top`."""

    low_s: float
    high_s: float
    top: float

    def x(self, interval_s: float) -> float:
        """Per cent across."""
        return LEFT + (100 - LEFT) * log(interval_s / self.low_s) / log(self.high_s / self.low_s)

    def y(self, share: float) -> float:
        return BOTTOM - TALL * share / self.top


def chart(found: Cadence, length: Callable[[float], Text], percent: Callable[[float], Text]) -> Chart:
    """`length` and `percent` put an interval and a share into words. The best interval's overhead is known."""
    step = _step(found.overheads)
    scale = Scale(found.curve[0].interval_s, found.curve[-1].interval_s, GRIDS * step)
    whole, saving, redoing = (
        [(scale.x(one.interval_s), value) for one in found.curve if (value := pick(one)) is not None] for pick in _LINES
    )
    return Chart(
        whole=_path(whole, scale),
        saving=_path(saving, scale),
        redoing=_path(redoing, scale),
        saving_named=_named(saving, scale),
        redoing_named=_named(redoing, scale),
        grids=tuple(Tick(scale.y(step * i), _round(step * i, percent)) for i in range(1, GRIDS + 1)),
        ticks=tuple(Tick(x, length(s), _anchor(x, 4)) for s in _ticks(scale) for x in [round(scale.x(s), 2)]),
        marks=tuple(_marks(found.overheads, scale, length, percent)),
    )


_LINES: tuple[Callable[[Share], float | None], ...] = (
    lambda one: one.overhead,
    lambda one: one.saving,
    lambda one: one.redoing,
)


def _round(share: float, percent: Callable[[float], Text]) -> Text:
    whole = round(100 * share)
    return say("kpi.percent", n=whole) if abs(100 * share - whole) < 1e-9 else percent(share)


def _step(overheads: Sequence[Share]) -> float:
    """Between two lines across: a round share, so that what was asked about is in the chart while the best stays legible."""
    known = [one.overhead for one in overheads if one.overhead is not None] or [overheads[0].saving]
    least = min(max(known), CLIPPED * known[0]) * HEADROOM / GRIDS
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in STEPS if step * power >= least * (1 - 1e-9))


def _path(points: Sequence[tuple[float, float]], scale: Scale) -> str:
    """What is above the top is left out, up to where the line crosses it."""
    runs: list[list[tuple[float, float]]] = [[]]
    for before, here in zip([None, *points[:-1]], points, strict=True):
        inside, was_inside = here[1] <= scale.top, before is not None and before[1] <= scale.top
        if before is not None and inside != was_inside:
            runs[-1].append(_crossing(before, here, scale.top))
        if inside:
            runs[-1].append(here)
        elif was_inside:
            runs.append([])
    return "".join(_run(run, scale) for run in runs if len(run) > 1)


def _crossing(before: tuple[float, float], here: tuple[float, float], top: float) -> tuple[float, float]:
    part = (top - before[1]) / (here[1] - before[1])
    return before[0] + part * (here[0] - before[0]), top


def _run(points: Iterable[tuple[float, float]], scale: Scale) -> str:
    return "M" + "L".join(f"{x * WIDE / 100:.1f} {scale.y(share):.1f}" for x, share in points)


def _named(points: Sequence[tuple[float, float]], scale: Scale) -> tuple[float, float]:
    """Where on its line a name stands."""
    x, share = min(points, key=lambda point: abs(point[1] - NAMED_AT * scale.top))
    return round(min(88.0, max(LEFT + 14.0, x)), 1), round(scale.y(min(share, scale.top)), 1)


def _ticks(scale: Scale) -> list[float]:
    inside = [s for s in TICKS_S if scale.low_s <= s <= scale.high_s]
    return inside[:: max(1, ceil(len(inside) / MOST_TICKS))]


def _marks(
    overheads: Sequence[Share], scale: Scale, length: Callable[[float], Text], percent: Callable[[float], Text]
) -> list[Mark]:
    """The best first; of the others those that are in the chart, with texts that do not stand on one another."""
    found: list[Mark] = []
    for one in overheads:
        if one.overhead is None or one.overhead > scale.top:
            continue
        x, y = round(scale.x(one.interval_s), 2), round(scale.y(one.overhead), 1)
        best = one is overheads[0]
        left = one.interval_s < overheads[0].interval_s
        anchor = _anchor(x) if best else "start" if left else "end"  # away from the line, which rises on both sides
        words = say(
            f"cadence.mark-{'best' if best else 'asked'}", time=length(one.interval_s), share=percent(one.overhead)
        )
        text_y = _free(found, _reach(x, anchor), y - 12)
        found.append(Mark(x, y, words if text_y > 0 else "", best, text_y, anchor))  # the table says it too
    return found


def _reach(x: float, anchor: str) -> tuple[float, float]:
    begin = x - LABEL_WIDE * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    return begin, begin + LABEL_WIDE


def _free(marks: Sequence[Mark], reach: tuple[float, float], y: float) -> float:
    """Up from `y` to where no text stands."""
    for mark in sorted(marks, key=lambda mark: -mark.text_y):
        apart = mark.reach[1] <= reach[0] or reach[1] <= mark.reach[0]
        if not apart and abs(mark.text_y - y) < LABEL_TALL:
            y = mark.text_y - LABEL_TALL
    return round(y, 1)


def _anchor(x: float, edge: float = 20) -> str:
    return "start" if x < edge else "end" if x > 100 - edge else "middle"
