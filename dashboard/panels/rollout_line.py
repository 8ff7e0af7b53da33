"""A rollout over time: pods of each version as a picture, with its bounds, its deadline and now.

Owns geometry: percent across, pixels down. Must not hold wording (rollout_patterns.py), nor know more than the pods that still
exist have shown, and Events of those that do not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dashboard.panels.rollouts import Standing, standing
from dashboard.panels.words import Clock, Text, say
from fleet.domain.rollout_detail import Detail, Point, Side, What
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.rollouts import Verdict

TOP, BASE = 28.0, 168.0  # px: the upper and the lower edge of the picture
HEIGHT, UNDER, ABOVE = 190, 185.0, 12.0
NEAR = 20.0  # percent: ticks this near to a mark are left out
TICKS = 4
SHORTEST_S = 60.0
FILLS = (("old_gone", "hatch-off"), ("old_ready", "fill-off"), ("new_ready", "fill-ok"), ("new_other", "hatch-run"))


@dataclass(frozen=True, slots=True)
class Bar:
    style: str
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: a line from `top` to the base with its words at `y`, mostly under it."""

    style: str
    x: float
    text: Text
    anchor: str
    top: float
    y: float = UNDER


@dataclass(frozen=True, slots=True)
class Level:
    """A bound: a line across with its words at the right end, outside of the two: they may be one pod apart."""

    y: float
    text: Text
    dy: int


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    at: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Line:
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    levels: tuple[Level, ...]
    ticks: tuple[Tick, ...]
    told: Text
    height: int = HEIGHT
    base: float = BASE


def line(found: Detail, now: float) -> Line | None:
    """None when no new pod has been made yet: nothing tells when it began."""
    begin_at = _begin_at(found)
    if begin_at is None:
        return None
    row = found.row
    last_at = max((point.at for point in found.points), default=begin_at)
    after_s = max(0.1 * (last_at - begin_at), 5.0)
    shown_to = min(now, last_at + after_s) if row.verdict == Verdict.DONE else max(now, begin_at)
    width_s = max(shown_to - begin_at, (row.deadline_at or shown_to) - begin_at, SHORTEST_S)
    start_at, end_at = begin_at - 0.04 * width_s, begin_at + 1.08 * width_s
    across = _Across(start_at, end_at)
    points = list(_from(found.points, start_at, shown_to))
    top = max([row.max_pods or row.desired, 1, *(p.old_gone + p.old_ready + p.new_ready + p.new_other for p in points)])
    marks = tuple(_marks(row, across, now, points[-1].at))
    return Line(
        bars=tuple(_bars(points, shown_to, across, top)),
        marks=marks,
        levels=tuple(_levels(row, top)),
        ticks=tuple(_ticks(across, marks)),
        told=say("rollout.line.told", n=max(0, len(points) - 1), since=Clock(begin_at)),
    )


class _Across:
    """Moments as percent of the width."""

    def __init__(self, start_at: float, end_at: float) -> None:
        self.start_at, self.width_s = start_at, max(1.0, end_at - start_at)

    def x(self, at: float) -> float:
        return round(min(100.0, max(0.0, 100 * (at - self.start_at) / self.width_s)), 2)


def _begin_at(found: Detail) -> float | None:
    made = [moment.at for moment in found.moments if moment.side is Side.NEW and moment.what is What.MADE]
    return found.row.started_at if found.row.started_at is not None else min(made, default=None)


def _from(points: Sequence[Point], start_at: float, end_at: float) -> Iterator[Point]:
    """Those in the picture; the last one before it holds at its left edge."""
    before = next(
        (point for point in reversed(points) if point.at < start_at), Point(start_at, 0, 0, 0, points[0].old_gone)
    )
    yield Point(start_at, before.new_ready, before.new_other, before.old_ready, before.old_gone)
    yield from (point for point in points if start_at <= point.at <= end_at)


def _y(pods: int, top: int) -> float:
    return round(BASE - (BASE - TOP) * pods / top, 1)


def _bars(points: Sequence[Point], end_at: float, across: _Across, top: int) -> Iterator[Bar]:
    ends = [*(later.at for _, later in pairwise(points)), end_at]
    for point, until in zip(points, ends, strict=True):
        x, below = across.x(point.at), 0
        for name, style in FILLS:
            pods = getattr(point, name)
            if pods and across.x(until) > x:
                y = _y(below + pods, top)
                yield Bar(style, x, round(across.x(until) - x, 2), y, round(_y(below, top) - y, 1))
            below += pods


def _levels(row: RolloutRow, top: int) -> Iterator[Level]:
    if row.max_pods is not None and row.min_available is not None:
        yield Level(_y(row.max_pods, top), say("rollout.line.most", limit=row.max_pods), -5)
        if row.min_available and row.min_available != row.max_pods:
            yield Level(_y(row.min_available, top), say("rollout.line.least", limit=row.min_available), 14)


def _marks(row: RolloutRow, across: _Across, now: float, changed_at: float) -> Iterator[Mark]:
    if row.verdict != Verdict.DONE:
        yield _mark("mark", across.x(now), say("rollout.line.now"), 4.0)
    if row.deadline_at is not None and row.deadline_at > now:
        yield _mark("limit", across.x(row.deadline_at), say("rollout.line.deadline"), 128.0)

    if standing(row) is Standing.HELD:
        x = across.x(changed_at)
        yield Mark(
            "mark", x, say("rollout.line.still", time=Clock(changed_at)), "end" if x > 50 else "start", 4.0, ABOVE
        )


def _mark(style: str, x: float, text: Text, top: float) -> Mark:
    return Mark(style, x, text, "end" if x > 90 else "start" if x < 6 else "middle", top)


def _ticks(across: _Across, marks: Iterable[Mark]) -> Iterator[Tick]:
    """At equal steps, apart from where a mark has its words."""
    taken = [mark.x for mark in marks if mark.y == UNDER]
    for i in range(TICKS):
        x = 100.0 * i / TICKS
        if all(abs(x - other) > NEAR for other in taken):
            yield Tick(x, float(round(across.start_at + across.width_s * i / TICKS)), "start" if i == 0 else "middle")
