"""What a GPU did and what happened to it: lines over the last hour, day or week, and the transitions of the ledger.

Owns the spans of time and the scales of the lines. A scale begins at 0 and ends at what the hardware allows, so that GPUs can be
compared. Must not hold wording (past_patterns.py) or read anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.panels import charts
from dashboard.panels.charts import Trend
from dashboard.panels.gpus import gib, rule
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.verdict import level_of
from dashboard.panels.words import Clock, Text, Value, age, say
from fleet.domain.gpus import NA, Measure
from fleet.domain.picture import GpuRow
from fleet.domain.spans import Sample
from fleet.domain.verdicts import NOT_OWNED, Transition

MEASURES: Final = ("utilization_pct", "memory_used_mib", "temperature_c", "power_w")
SPANS: Final = {"1h": (60, 60), "24h": (144, 600), "7d": (168, 3_600)}  # slots, and seconds of each
HOTTEST_C = 100
MOST_TRANSITIONS = 200
TRANSITIONS = (
    Column("at"),
    Column("turn", "state", small=True),
    Column("reason", "all", small=True),
    Column("node"),
)
Points = Mapping[str, Sequence[tuple[float, Measure]]]  # by measure


@dataclass(frozen=True, slots=True)
class Plot:
    """One measurement over a span of time. `words`: its lowest, highest and latest value, and how much is missing."""

    id: str
    trend: Trend
    top: Text
    words: Text
    begins: Clock
    ends: Clock

    @property
    def title(self) -> str:
        return f"plot.{self.id}"


def plots(points: Points, span: str, now: float, row: GpuRow | None) -> list[Plot]:
    slots, slot_s = SPANS[span]
    return [_plot(name, points.get(name, ()), row, now, slots, slot_s) for name in MEASURES]


def _plot(
    name: str, points: Sequence[tuple[float, Measure]], row: GpuRow | None, now: float, slots: int, slot_s: int
) -> Plot:
    first, values = charts.slotted(points, now, slots, slot_s)
    trend = Trend(first, values, _top(name, row, values))
    begins, ends = Clock(float(first * slot_s)), Clock(float(int(now)))
    top = value(name, trend.top) if trend.known else ""
    return Plot(name, trend, top, _words(name, trend, points, slot_s), begins, ends)


def _top(name: str, row: GpuRow | None, values: Iterable[int | None]) -> int:
    limits = {
        "utilization_pct": 100,
        "memory_used_mib": row.memory_total_mib if row else None,
        "temperature_c": HOTTEST_C,
        "power_w": row.power_limit_w if row else None,
    }
    limit = limits[name]
    highest = max((known for known in values if known is not None), default=0)
    return max(int(limit) if isinstance(limit, int | float) else 0, highest, 1)


def _words(name: str, trend: Trend, points: Sequence[tuple[float, Measure]], slot_s: int) -> Text:
    known = trend.known
    if not known:
        na = bool(points) and all(found == NA for _, found in points)
        return say("plot.na") if na else say("plot.unknown")
    missing = len(trend.values) - len(known)
    gaps = say("plot.gaps", time=age(missing * slot_s)) if missing else ""
    low, high = value(name, min(known)), value(name, max(known))
    return (say("plot.same", low=low) if low == high else say("plot.range", low=low, high=high), gaps)


def value(name: str, number: int) -> Text:
    """A number of a measurement with its unit."""
    if name == "memory_used_mib":
        return say("gpu.memory", used=gib(number))
    pattern, hole = {"utilization_pct": ("kpi.percent", "n"), "temperature_c": ("gpu.c", "n"), "power_w": ("gpu.power", "used")}[
        name
    ]  # fmt: skip
    return say(pattern, **{hole: number})


def of_samples(samples: Iterable[tuple[float, Sample]]) -> dict[str, list[tuple[float, Measure]]]:
    """The ledger's minutes or hours as lines."""
    known = list(samples)
    return {name: [(at, getattr(sample, name)) for at, sample in known] for name in MEASURES}


def table(transitions: Sequence[Transition]) -> Table:
    """The newest first, at most 200 of them."""
    newest = list(enumerate(transitions))[::-1][:MOST_TRANSITIONS]
    return Table("transitions", TRANSITIONS, [_transition(i, found) for i, found in newest])


def more(transitions: Sequence[Transition]) -> Text:
    """How many the table leaves out."""
    left = len(transitions) - MOST_TRANSITIONS
    return say("past.more", n=left) if left > 0 else ""


def _transition(i: int, found: Transition) -> Row:
    cells: dict[str, Value] = {
        "at": Clock(found.at),
        "turn": _turn(found),
        "reason": rule(found.reason) if found.reason else "–",
        "node": found.node,
    }
    small: dict[str, Text] = {
        "turn": (say("past.planned") if found.planned else "", say("gpu.when-convenient") if found.soft else ""),
        "reason": (_ending(found), str(found.evidence.get("text") or "")),
    }
    return Row(str(i), "" if found.to_state == NOT_OWNED else level_of(found.to_state, soft=found.soft), cells, small)


def _turn(found: Transition) -> Text:
    if found.to_state == NOT_OWNED:
        return say("past.gone")
    if found.from_state == found.to_state:
        return say(f"device.{found.to_state}")
    return say("past.turn", before=state(found.from_state), after=state(found.to_state))


def state(token: str) -> Text:
    return say("past.new") if token == NOT_OWNED else say(f"device.{token}")


def _ending(found: Transition) -> Text:
    return say(f"closes.{found.closes}") if found.closes else ""
