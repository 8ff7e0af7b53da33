"""The pictures of a stop and a start: lanes of time with bars, and marks across them.

Owns geometry and where words stand: per cent across, units down. Must not compute when anything happens: the domain does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from dashboard.panels.cadence import length
from dashboard.panels.words import Text, say
from fleet.domain.lifelines import Lifelines, Start, Stop, Watch
from fleet.domain.readiness import Load

LANE: Final = 46  # units from lane to lane: a line of text over a bar
TOP: Final = 16  # where the first lane's text stands
BAR: Final = 14
AXIS: Final = 22  # under the axis, for its texts
ROOM: Final = 1.06  # of the time that is shown, beyond its last moment
STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400)
MOST_TICKS: Final = 6
NEAR: Final = 24.0  # per cent between two marks whose texts would touch


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    y: int
    style: str  # a class of the visual language


@dataclass(frozen=True, slots=True)
class Lane:
    name: Text
    told: Text
    y: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: a line over all lanes with its text under the axis."""

    x: float
    text: Text
    style: str
    anchor: str
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """`told`: the same in a sentence."""

    container: str
    told: Text
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    axis: int
    height: int


@dataclass(frozen=True, slots=True)
class Line:
    """A probe in words, for the table beside the picture."""

    name: str
    every: Text
    acts: Text


class _Scale:
    """Seconds to per cent across."""

    def __init__(self, end_s: float) -> None:
        self.end_s = max(1.0, end_s * ROOM)

    def x(self, s: float) -> float:
        return round(100 * min(s, self.end_s) / self.end_s, 2)

    def bar(self, lane: int, from_s: float, to_s: float, style: str) -> Bar:
        return Bar(self.x(from_s), round(self.x(to_s) - self.x(from_s), 2), TOP + lane * LANE + 6, style)


def stops(found: Lifelines) -> list[Picture]:
    return [_stop(one) for one in found.stops]


def starts(found: Lifelines) -> list[Picture]:
    return [_start(one, found.deadline_s) for one in found.starts]


def _stop(stop: Stop) -> Picture:
    scale = _Scale(max(stop.kill_s, stop.term_s + (stop.need_s or 0.0)))
    finish = [scale.bar(2, stop.term_s, stop.kill_s, "fill-run")]
    if stop.need_s is not None:
        end_s = stop.term_s + stop.need_s
        finish = [scale.bar(2, stop.term_s, min(end_s, stop.kill_s), "fill-ok" if not stop.lacks_s else "fill-run")]
        finish += [scale.bar(2, stop.kill_s, end_s, "dots-bad")] if stop.lacks_s else []
        finish += [scale.bar(2, end_s, stop.kill_s, "hatch-run")] if end_s < stop.kill_s else []
    lanes = (
        _lane(0, say("lifeline.endpoint"), say("lifeline.endpoint-told"), scale.bar(0, 0, stop.kill_s, "hatch-off")),
        _lane(1, say("lifeline.hook"), _hook(stop), *_hook_bars(scale, stop)),
        _lane(2, say("lifeline.finish"), _finish(stop), *finish),
    )
    told = say("lifeline.stop-told", container=stop.container, term=length(stop.term_s), kill=length(stop.kill_s))
    moments = [
        (stop.term_s, say("lifeline.term", time=length(stop.term_s)), "mark"),
        (stop.kill_s, say("lifeline.kill", time=length(stop.kill_s)), "limit"),
    ]
    return _picture(stop.container, (told, _finish(stop)), lanes, moments, scale)


def _hook(stop: Stop) -> Text:
    if not stop.has_hook:
        return say("lifeline.no-hook")
    if stop.hook_s is None:
        return say("lifeline.hook-unknown")
    if stop.cut_off:
        return say("lifeline.hook-cut", time=length(stop.hook_s), grace=length(stop.grace_s))
    return length(stop.hook_s)


def _hook_bars(scale: _Scale, stop: Stop) -> tuple[Bar, ...]:
    if not stop.has_hook:
        return ()
    if stop.hook_s is None:
        return (scale.bar(1, 0, stop.kill_s, "hatch-off"),)
    return (scale.bar(1, 0, stop.term_s, "fill-bad" if stop.cut_off else "fill-drain"),)


def _finish(stop: Stop) -> Text:
    left = say("lifeline.left", time=length(stop.left_s))
    if stop.need_s is None:
        return left
    if stop.lacks_s:
        return (left, say("lifeline.lacks", lacks=length(stop.lacks_s)))
    return (left, say("lifeline.fits", need=length(stop.need_s)))


def _start(start: Start, deadline_s: int | None) -> Picture:
    nominal_s, guaranteed_s = start.nominal_s, start.guaranteed_s
    known = [s for s in (nominal_s, start.load.p95_s if start.load else None) if s is not None]
    scale = _Scale(max([*known, 1.0]))
    guard: tuple[Bar, ...] = ()
    told: Text = say("lifeline.start-unguarded", container=start.container)
    if nominal_s is not None and guaranteed_s is not None:
        guard = (scale.bar(0, 0, guaranteed_s, "fill-run"), scale.bar(0, guaranteed_s, nominal_s, "hatch-warn"))
        times = {"guaranteed": length(guaranteed_s), "nominal": length(nominal_s)}
        told = say("lifeline.start-told", container=start.container, **times)
    lanes = [_lane(0, _guard_name(start), _budget(start), *guard), _load(scale, start)]
    if start.guarded_by == "startup":
        waits_s = start.load.p95_s if start.load else scale.end_s
        lanes.append(
            _lane(
                2,
                say("lifeline.after"),
                say("lifeline.after-told"),
                scale.bar(2, 0, waits_s, "hatch-off"),
                *((scale.bar(2, waits_s, scale.end_s, "fill-ok"),) if start.load else ()),
            )
        )
    moments = (
        [(float(nominal_s), say("lifeline.restart", time=length(nominal_s)), "limit")] if nominal_s is not None else []
    )
    if deadline_s is not None and deadline_s <= scale.end_s:
        moments.append((float(deadline_s), say("lifeline.deadline", time=length(deadline_s)), "limit"))
    return _picture(start.container, told, tuple(lanes), moments, scale)


def _guard_name(start: Start) -> Text:
    names = {"startup": "lifeline.startup", "liveness": "lifeline.liveness-guards", "": "lifeline.unguarded"}
    return say(names[start.guarded_by])


def _budget(start: Start) -> Text:
    if start.guaranteed_s is None or start.nominal_s is None:
        return ""
    return say("lifeline.budget", guaranteed=length(start.guaranteed_s), nominal=length(start.nominal_s))


def _load(scale: _Scale, start: Start) -> Lane:
    load = start.load
    if load is None:
        return _lane(1, say("lifeline.load"), say("lifeline.load-unknown"))
    late = start.guaranteed_s is not None and load.p95_s > start.guaranteed_s
    over = start.nominal_s is not None and load.p95_s > start.nominal_s
    style = "fill-bad" if over else "fill-warn" if late else "fill-ok"
    return _lane(1, say("lifeline.load"), loaded(load), scale.bar(1, 0, load.p95_s, style))


def loaded(load: Load | None) -> Text:
    if load is None:
        return say("lifeline.load-unknown")
    if not load.pods:
        return say("lifeline.load-declared", time=length(load.p95_s))
    return say("lifeline.load-measured", time=length(load.p95_s), pods=say("pods", n=load.pods))


def _lane(number: int, name: Text, told: Text, *bars: Bar) -> Lane:
    return Lane(name, told, TOP + number * LANE, tuple(bar for bar in bars if bar.width > 0))


def _picture(
    container: str, told: Text, lanes: tuple[Lane, ...], moments: Sequence[tuple[float, Text, str]], scale: _Scale
) -> Picture:
    axis = TOP + len(lanes) * LANE - 12
    xs = [scale.x(s) for s, _, _ in moments]
    rows = [i if i and abs(xs[i] - xs[i - 1]) < NEAR else 0 for i in range(len(xs))]
    marks = tuple(
        Mark(x, text, style, _anchor(x), axis + 34 + 16 * row)
        for x, (_, text, style), row in zip(xs, moments, rows, strict=True)
    )
    height = axis + AXIS + (16 * (1 + max(rows, default=0)) if marks else 0)
    return Picture(container, told, lanes, marks, _ticks(scale, axis), axis, height)


def _ticks(scale: _Scale, axis: int) -> tuple[Mark, ...]:
    days = 86_400 * ceil(scale.end_s / (86_400 * MOST_TICKS))
    step = next((s for s in STEPS_S if scale.end_s / s <= MOST_TICKS), days)
    times = range(0, int(scale.end_s) + 1, step)
    return tuple(Mark(scale.x(s), length(s), "", _anchor(scale.x(s), 3), axis + 16) for s in times)


def _anchor(x: float, edge: float = 12) -> str:
    return "start" if x < edge else "end" if x > 100 - edge else "middle"


def probes(start: Start) -> list[Line]:
    named = (("startup", start.startup), ("readiness", start.readiness), ("liveness", start.liveness))
    return [Line(name, *_watch(watch)) for name, watch in named]


def _watch(watch: Watch | None) -> tuple[Text, Text]:
    if watch is None:
        return say("lifeline.none"), ""
    every = say("lifeline.watch", period=length(watch.period_s), timeout=length(watch.timeout_s))
    acts = say("lifeline.acts", n=watch.failures, least=length(watch.least_s), most=length(watch.most_s))
    return every, acts
