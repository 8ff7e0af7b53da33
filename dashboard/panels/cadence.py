"""The Cadence page: what somebody enters about a run, and what saving at an interval costs and loses, in words.

Owns the reading of the form and how times and shares are shown. Must not hold wording (cadence_patterns.py) nor compute:
`fleet.domain.cadence` does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Final

from dashboard.panels import curves
from dashboard.panels.availability import HOUR_S, WINDOWS, hours
from dashboard.panels.curves import Chart
from dashboard.panels.fleet import KeyNumber
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Text, Value, age, say
from fleet.domain import cadence, durations
from fleet.domain.cadence import Cadence, CadenceError, LostWork, Share, Wanted
from fleet.domain.durations import DurationError
from fleet.domain.mtbf import Mtbf
from fleet.domain.save_history import Usual
from fleet.domain.saving import Fit, Notice, Saving

MOST_GPUS: Final = 1_000_000
DAY_S: Final = 86_400
TIMES: Final = ("save_cost", "write", "mtbf", "interval", "horizon", "grace")
LONGEST_TEXT: Final = 300
LONGEST_NAME: Final = 600

OVERHEADS = (
    Column("cadence-interval", mark=True, small=True),
    Column("cadence-overhead", "num"),
    Column("cadence-saving", "num"),
    Column("cadence-redoing", "num"),
    Column("cadence-first", "num"),
    Column("cadence-mean", "num"),
    Column("cadence-most", "num", small=True),
)
SAVINGS = (
    Column("cadence-interval"),
    Column("cadence-counted", small=True),
    Column("cadence-saves", "num"),
    Column("cadence-time", "num"),
    Column("cadence-whole", "num"),
    Column("cadence-unsaved", "num"),
    Column("cadence-of-work", "num"),
    Column("cadence-of-wall", "num"),
)
FITS = (
    Column("cadence-notice", small=True),
    Column("cadence-lead", "num"),
    Column("cadence-fits", mark=True),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed, by field, what it means in seconds, and what is wrong with it, by field."""

    texts: Mapping[str, str]
    seconds: Mapping[str, tuple[float, ...]]
    errors: Mapping[str, Text]
    window: str = "30d"
    gpus: int = 1
    workload: str = ""  # whose saves say how long one takes, where nobody does
    saves: int = 0  # that say so

    @classmethod
    def of_query(cls, query: Mapping[str, str], seen: Usual | None = None) -> "Asked":
        """`seen`: the saves of the workload that the query names."""
        texts = {name: query.get(name, "")[:LONGEST_TEXT].strip() for name in (*TIMES, "gpus")}
        seconds, errors = _times(texts)
        count = texts["gpus"] or "1"
        gpus = int(count) if re.fullmatch(r"[0-9]{1,7}", count) else 0
        if not 1 <= gpus <= MOST_GPUS:
            gpus, errors = 1, errors | {"gpus": say("cadence.no-count")}
        workload, saves = query.get("workload", "")[:LONGEST_NAME], 0
        if not texts["save_cost"] and workload and seen is not None and seen.cost_s:
            seconds["save_cost"], saves = (seen.cost_s,), seen.saves
        elif not texts["save_cost"] and (workload or any(texts.values())):
            errors |= {"save_cost": say("cadence.unseen" if workload else "cadence.needed")}
        window = query.get("window", "")
        return cls(texts, seconds, errors, window if window in WINDOWS else "30d", gpus, workload, saves)

    @property
    def given(self) -> bool:
        return any(self.texts.values()) or bool(self.workload)

    def first(self, name: str) -> float | None:
        return next(iter(self.seconds.get(name, ())), None)

    def wrong(self, name: str, why: Text) -> "Asked":
        return replace(self, errors={**self.errors, name: why})


def _times(texts: Mapping[str, str]) -> tuple[dict[str, tuple[float, ...]], dict[str, Text]]:
    seconds: dict[str, tuple[float, ...]] = {}
    errors: dict[str, Text] = {}
    for name in TIMES:
        parts = re.split(r"[\s,;]+", texts[name]) if name == "interval" else [texts[name]]
        try:
            seconds[name] = tuple(durations.parse(part) for part in parts if part)
        except DurationError:
            errors[name] = say("cadence.no-duration", text=texts[name])
    return seconds, errors


def planned(asked: Asked, observed: Mtbf) -> tuple[Asked, Cadence | None]:
    """The answer, or what stands in its way. `observed`: of the run, from the ledger, for whoever enters no MTBF."""
    if asked.errors or not asked.given:
        return asked, None
    mtbf_s, save_cost_s = asked.first("mtbf"), asked.first("save_cost")
    mtbf_s = observed.planning_s if mtbf_s is None else mtbf_s
    if mtbf_s is None or save_cost_s is None:
        return asked.wrong("mtbf", say("cadence.no-time")), None
    try:
        wanted = Wanted(
            save_cost_s=save_cost_s,
            mtbf_s=mtbf_s,
            intervals_s=asked.seconds["interval"],
            horizon_s=asked.first("horizon"),
            write_s=asked.first("write") or 0.0,
            grace_s=asked.first("grace"),
        )
    except CadenceError as error:
        return asked.wrong(error.field, say(f"cadence.{error.why}", most=cadence.MOST_INTERVALS)), None
    return asked, cadence.cadence(wanted)


def programs(asked: Asked, cluster: str) -> list[tuple[str, str]]:
    """The same question to the API."""
    given = [(f"{name}_s", f"{s:g}") for name, values in asked.seconds.items() for s in values]
    return [("cluster", cluster), ("window", asked.window), ("gpus", str(asked.gpus)), *given]


def length(seconds: float) -> Text:
    """Two units, rounded: "1 h 57 min", "56 min 42 s", "3.3 s"."""
    if seconds < 59.95:
        tenths = int(seconds * 10 + 0.5)
        whole = tenths // 10
        return say("age.s", n=whole if tenths % 10 == 0 else say("gpu.decimal", whole=whole, tenth=tenths % 10))
    if seconds < HOUR_S - 0.5:
        return _two(int(seconds + 0.5), 60, 1, "age.min", "cadence.min-s")
    if seconds < durations.DAYS_FROM_S - 30:
        return _two(int(seconds + 30), HOUR_S, 60, "cadence.h", "cadence.h-min")
    return _two(int(seconds + 1_800), DAY_S, HOUR_S, "age.d", "cadence.d-h")


def _two(seconds: int, large_s: int, small_s: int, alone: str, both: str) -> Text:
    large, small = seconds // large_s, seconds % large_s // small_s
    return say(both, n=large, rest=small) if small else say(alone, n=large)


def percent(share: float | None) -> Text:
    """Two digits below 10 %, one above; halves up."""
    if share is None:
        return say("cadence.never-ends")
    if share < 0.09995:
        hundredths = int(share * 10_000 + 0.5)
        return say("avail.percent", whole=hundredths // 100, hundredths=f"{hundredths % 100:02}")
    tenths = int(share * 1_000 + 0.5)
    return say("kpi.percent", n=say("gpu.decimal", whole=tenths // 10, tenth=tenths % 10))


def numbers(found: Cadence, asked: Asked, observed: Mtbf) -> list[KeyNumber]:
    best, lost = found.overheads[0], found.losses[0]
    parts = say("cadence.parts", saving=percent(best.saving), redoing=percent(best.redoing))
    wall = say("cadence.wall", time=length(lost.most_wall_s))
    clean = percent(exp(-DAY_S / found.mtbf_s))
    limit = "" if found.daly_holds else say("cadence.daly-limit")
    held = (
        say("cadence.exact") if found.best_s == found.optimum_s else say("cadence.held", time=length(found.optimum_s))
    )
    return [
        KeyNumber("best", length(found.best_s), note=held),
        KeyNumber("overhead", percent(best.overhead), note=parts),
        KeyNumber("mean", length(lost.mean_s), note=say("cadence.of-work")),
        KeyNumber("most", length(lost.most_work_s), note=wall),
        KeyNumber("mtbf", length(found.mtbf_s), note=source(asked, observed)),
        KeyNumber("clean-day", clean, note=say("cadence.clean-day-note")),
        KeyNumber("young", length(found.young_s), note=say("cadence.young-note")),
        KeyNumber("daly", length(found.daly_s), note=limit),
    ]


def source(asked: Asked, observed: Mtbf) -> Text:
    """Where the time between failures is from."""
    if asked.first("mtbf") is not None:
        return say("cadence.entered")
    return say("cadence.from-ledger" if observed.failures else "cadence.from-bound")


def cost_source(asked: Asked) -> Text:
    """Where the time that a save takes is from, unless it was entered."""
    return say("cadence.from-saves", n=asked.saves, workload=asked.workload) if asked.saves else ""


def counted(asked: Asked, observed: Mtbf) -> Text:
    """What the ledger tells of its window: how many failures in how much time."""
    return tally(WINDOWS[asked.window], observed)


def tally(window_s: float, observed: Mtbf) -> Text:
    """The same of a window of any length."""
    window = say("avail.last", time=age(window_s))
    if observed.least_s is None:
        return (say("cadence.no-up-time"), window)
    up = say("avail.gpu-h", n=hours(observed.observed_s))
    return (say("cadence.failures", n=observed.failures, up=up), window)


def known(asked: Asked, observed: Mtbf) -> Text:
    """What the ledger says of the run; "" when it says nothing."""
    if observed.planning_s is None:
        return ""
    told = {"mtbf": length(observed.planning_s), "between": between(observed), "counted": counted(asked, observed)}
    return say("cadence.ledger-says", n=asked.gpus, **told)


def typed(observed: Mtbf) -> str:
    """The ledger's time between failures as somebody would enter it, to the hour from 60 hours on, to the minute from one on."""
    if observed.planning_s is None:
        return ""
    unit_s = next(s for s in (HOUR_S, 60, 1) if observed.planning_s >= 60 * s or s == 1)
    return durations.spelled(max(1, round(observed.planning_s / unit_s)) * unit_s)


def between(observed: Mtbf) -> Text:
    """How surely the time between failures of the run is known."""
    if observed.least_s is None:
        return ""
    if observed.most_s is None:
        return say("cadence.at-least", least=length(observed.least_s))
    return say("cadence.between", least=length(observed.least_s), most=length(observed.most_s))


def best_between(found: Cadence, asked: Asked, observed: Mtbf) -> Text:
    """Where the best interval is for what the time between failures may be; "" when it was entered or is a bound."""
    if asked.first("mtbf") is not None or observed.least_s is None or observed.most_s is None:
        return ""
    ends = (max(found.write_s, cadence.optimum(found.save_cost_s, s)) for s in (observed.least_s, observed.most_s))
    least, most = (length(s) for s in ends)
    return say("cadence.between", least=least, most=most)


def formula(found: Cadence) -> Text:
    cost, between_, young = (length(s) for s in (found.save_cost_s, found.mtbf_s, found.young_s))
    return say("cadence.formula", cost=cost, mtbf=between_, young=young)


def verdicts(found: Cadence) -> list[Text]:
    """What each interval that was asked about costs more than the best, and between which failures decide."""
    best = found.overheads[0].overhead
    told = [_dearer(one, best) for one in found.overheads[1:]]
    return told + [
        say(
            "cadence.break-even",
            shorter=length(one.shorter_s),
            longer=length(one.longer_s),
            mtbf=length(one.exponential_s),
            first=length(one.first_order_s),
        )
        for one in found.break_evens
        if isfinite(one.exponential_s)
    ]


def _dearer(one: Share, best: float | None) -> Text:
    every = length(one.interval_s)
    if one.overhead is None or best is None:
        return say("cadence.hopeless", time=every)
    return say("cadence.dearer", time=every, more=percent(max(0.0, one.overhead - best)))


def table(found: Cadence) -> Table:
    rows = [
        _overhead(str(i), share, lost)
        for i, (share, lost) in enumerate(zip(found.overheads, found.losses, strict=True))
    ]
    return Table("cadence-overheads", OVERHEADS, rows, "tri")


def _overhead(key: str, share: Share, lost: LostWork) -> Row:
    best = key == "0"
    cells: dict[str, Value] = {
        "cadence-interval": length(share.interval_s),
        "cadence-overhead": percent(share.overhead),
        "cadence-saving": percent(share.saving),
        "cadence-redoing": percent(share.redoing),
        "cadence-first": percent(share.first_order),
        "cadence-mean": length(lost.mean_s),
        "cadence-most": length(lost.most_work_s),
    }
    note = say("cadence.best") if best else say("cadence.overlaps") if lost.overlaps else ""
    small = {"cadence-interval": note, "cadence-most": say("cadence.wall", time=length(lost.most_wall_s))}
    marks = {"cadence-interval": "s-ok" if best else "s-warn" if lost.overlaps else ""}
    return Row(key, "ok" if best else "warn" if lost.overlaps else "", cells, small, marks=marks)


def savings(found: Cadence) -> Table:
    rows = [_saving(str(i), one) for i, one in enumerate(found.savings)]
    return Table("cadence-savings", SAVINGS, rows, "tri")


def _saving(key: str, one: Saving) -> Row:
    cells: dict[str, Value] = {
        "cadence-interval": length(one.interval_s),
        "cadence-counted": one.convention.value,
        "cadence-saves": one.saves,
        "cadence-time": length(one.saving_s),
        "cadence-whole": length(one.wall_s),
        "cadence-unsaved": length(one.unsaved_s),
        "cadence-of-work": _hundredths(one.of_work_pct),
        "cadence-of-wall": _hundredths(one.of_wall_pct),
    }
    return Row(key, "", cells, {"cadence-counted": say(f"cadence.counted-{one.convention.value}")})


def _hundredths(pct: float) -> Text:
    """A percentage that has two digits already."""
    whole, hundredths = divmod(round(pct * 100), 100)
    return say("avail.percent", whole=whole, hundredths=f"{hundredths:02}")


def fits(found: Cadence) -> Table:
    return Table("cadence-fits", FITS, [_fit(one) for one in found.fits])


def _fit(one: Fit) -> Row:
    words = say("cadence.fits" if one.fits else "cadence.too-long-by", time=length(abs(one.spare_s)))
    cells: dict[str, Value] = {
        "cadence-notice": say(f"notice.{one.notice}"),
        "cadence-lead": length(one.lead_s),
        "cadence-fits": words,
    }
    small = {"cadence-notice": say(f"notice.{one.notice}-what")}
    level = "warn" if one.notice is Notice.GRACE and not one.fits else ""
    return Row(one.notice, level, cells, small, marks={"cadence-fits": "s-ok" if one.fits else "s-warn"})


def chart(found: Cadence) -> Chart | None:
    """None where even the best interval practically never ends."""
    return None if found.overheads[0].overhead is None else curves.chart(found, length, percent)


def told(found: Cadence) -> Text:
    """The chart for those who do not see it."""
    points: Sequence[Share] = found.overheads
    best = say("cadence.mark-best", time=length(points[0].interval_s), share=percent(points[0].overhead))
    others = (say("cadence.mark-asked", time=length(s.interval_s), share=percent(s.overhead)) for s in points[1:])
    return (best, *others)
