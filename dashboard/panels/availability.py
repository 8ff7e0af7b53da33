"""The Availability page: how much of a window GPUs could be used, how often they failed, and what is open.

Owns order, grouping and how numbers are shown. Every time has its unit, and the page its window. Must not hold wording
(past_patterns.py) or formulas: `fleet.domain.availability` has them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.panels.fleet import KeyNumber
from dashboard.panels.gpus import SHORT_UUID, rule
from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Clock, Text, Value, age, say
from fleet.domain.availability import Availability, Incident

DAY_S = 86_400
HOUR_S = 3_600
WINDOWS: Final = {"24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S, "90d": 90 * DAY_S}
GROUPS: Final = ("fleet", "product", "node", "gpu")
SORTS: Final = ("availability", "down", "unknown", "failures", "open", "name")
PART: Final = 100  # rows on one page

COLUMNS = (
    Column("availability", "num"),
    Column("up", "num"),
    Column("down", "num"),
    Column("planned", "num"),
    Column("unknown", "num"),
    Column("failures", "num"),
    Column("mtbf", "num two", small=True),
    Column("mttr", "num", small=True),
    Column("open", "num"),
)
INCIDENTS = (
    Column("gpu", link=True, to_gpu=True),
    Column("node"),
    Column("reason", "all"),
    Column("since-at", "num"),
    Column("open-for", "num"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody asked for; what is not understood is as if it were left out."""

    window: str = "7d"
    by: str = "node"
    sort: str = "availability"
    part: int = 1

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "Choice":
        known: dict[str, Collection[str]] = {"window": WINDOWS, "by": GROUPS, "sort": SORTS}
        asked = {name: query.get(name, "") for name in known if query.get(name, "") in known[name]}
        part = query.get("part", "")
        return cls(**asked, part=max(1, int(part)) if part.isdecimal() and len(part) < 6 else 1)

    @property
    def seconds(self) -> int:
        return WINDOWS[self.window]


@dataclass(frozen=True, slots=True)
class Line:
    """One row: a GPU, a node, a product or the fleet. `gpus`: how many GPUs it is about; `node`: of a GPU."""

    name: str
    found: Availability
    gpus: int = 1
    node: str = ""


def ordered(lines: Sequence[Line], sort: str) -> list[Line]:
    """The most troubled first; equal ones by name."""
    return sorted(lines, key=lambda line: (_TROUBLE[sort](line.found), natural(line.name)))


_TROUBLE: Mapping[str, Callable[[Availability], float]] = {
    "availability": lambda found: 2.0 if found.availability is None else found.availability,
    "down": lambda found: -found.down_s,
    "unknown": lambda found: -found.unknown_s,
    "failures": lambda found: -found.failures,
    "open": lambda found: -len(found.open),
    "name": lambda _: 0.0,
}


def table(lines: Sequence[Line], choice: Choice) -> Table:
    """One part of the lines, which are in order."""
    first = PART * (choice.part - 1)
    what = Column("what", small=True, link=choice.by in {"gpu", "node"}, to_gpu=choice.by == "gpu")
    return Table(
        "availability", (what, *COLUMNS), [_row(line, choice.by) for line in lines[first : first + PART]], "tri"
    )


def parts(lines: Sequence[Line], choice: Choice) -> tuple[Text, int, int]:
    """Which lines are shown, and the parts before and after this one (0: none)."""
    first, last = PART * (choice.part - 1) + 1, min(PART * choice.part, len(lines))
    if len(lines) <= PART or first > last:
        return "", 0, 0
    words = say("avail.part", first=first, last=last, n=len(lines))
    return words, choice.part - 1, choice.part + 1 if last < len(lines) else 0


def _row(line: Line, by: str) -> Row:
    found = line.found
    (between, proves), (repair, repairs) = mtbf(found), mttr(found)
    cells: dict[str, Value] = {
        "what": name(line, by),
        "availability": percent(found.availability),
        "up": gpu_hours(found.up_s),
        "down": gpu_hours(found.down_s),
        "planned": gpu_hours(found.planned_s),
        "unknown": gpu_hours(found.unknown_s),
        "failures": found.failures,
        "mtbf": between,
        "mttr": repair,
        "open": len(found.open),
    }
    small: dict[str, Text] = {
        "what": line.node if by == "gpu" else say("gpus", n=line.gpus),
        "mtbf": proves,
        "mttr": repairs,
    }
    something = {"down": found.down_s, "planned": found.planned_s, "unknown": found.unknown_s, "open": found.open}
    nil = tuple(column for column, told in something.items() if not told)
    links = {"what": line.name} if by in {"gpu", "node"} else {}
    return Row(line.name, "bad" if found.open else "", cells, small, links, nil=nil)


def name(line: Line, by: str) -> Text:
    if by == "fleet":
        return say("avail.fleet")
    if by == "product":
        return line.name or say("avail.no-product")
    return line.name[:SHORT_UUID] if line.name.startswith("GPU-") and by == "gpu" else line.name


def percent(share: float | None) -> Text:
    """Two digits, rounded down: nothing that has failed is ever 100 %."""
    if share is None:
        return say("avail.never")
    hundredths = int(share * 10_000 + 1e-9)
    return say("avail.percent", whole=hundredths // 100, hundredths=f"{hundredths % 100:02}")


def gpu_hours(seconds: float) -> Text:
    return say("avail.gpu-h", n=hours(seconds))


def hours(seconds: float) -> Text | int:
    """Whole hours from ten on; one digit below, and neither 0 nor more than it was for what is shorter."""
    found = seconds / HOUR_S
    if found >= 10 or not seconds:
        return int(found + 0.5)
    tenths = int(found * 10 + 0.5)
    shown = say("gpu.decimal", whole=max(1, tenths) // 10, tenth=max(1, tenths) % 10)
    return shown if tenths else say("avail.under", n=shown)


def mtbf(found: Availability) -> tuple[Text, Text]:
    """Up time per failure; without a failure what that proves, by the rule of three."""
    if found.mtbf_s is not None:
        return gpu_hours(found.mtbf_s), ""
    if found.mtbf_at_least_s is None:
        return say("avail.no-time"), ""
    least = _rounded_down(found.mtbf_at_least_s)
    proves = say("avail.at-most", up=hours(found.up_s), least=hours(least)) if least else ""
    return say("avail.no-failure"), proves


def _rounded_down(seconds: float) -> float:
    """To what `hours` shows, but never up: a bound that is rounded up is not proved."""
    tenths = int(seconds / HOUR_S * 10)
    return (tenths // 10 if tenths >= 100 else tenths / 10) * HOUR_S


def mttr(found: Availability) -> tuple[Text, Text]:
    """Mean of the repairs that are over, and how many they are."""
    if found.mttr_s is None:
        return say("avail.no-repair"), ""
    return age(found.mttr_s), say("avail.repairs", n=found.repairs)


def numbers(found: Availability, window_s: int = 0) -> list[KeyNumber]:
    """Of the whole fleet, in a window; or (0) of one GPU in all the time that the ledger tells."""
    window = say("avail.last", time=age(window_s)) if window_s else say("avail.of", n=gpu_hours(found.owned_s))
    (between, proves), (repair, repairs) = mtbf(found), mttr(found)
    return [
        KeyNumber("availability", percent(found.availability), note=window),
        *(_part(name, getattr(found, f"{name}_s"), found.owned_s) for name in ("up", "down", "planned", "unknown")),
        KeyNumber("failures", found.failures, note=_open(found), level="bad" if found.open else ""),
        KeyNumber("mtbf", between, note=proves)
        if found.mtbf_s is None
        else KeyNumber("mtbf", hours(found.mtbf_s), say("avail.unit")),
        KeyNumber("mttr", repair, note=repairs),
    ]


def of_one(found: Availability) -> list[KeyNumber]:
    """One GPU, on its page."""
    return [number for number in numbers(found) if number.id not in {"up", "planned"}]


def _part(name: str, part_s: float, owned_s: float) -> KeyNumber:
    share = part_s / owned_s if owned_s else 0.0
    tiny = 0 < share < 0.0001
    note = say("avail.tiny") if tiny else say("avail.share", percent=percent(share)) if owned_s else ""
    return KeyNumber(name, hours(part_s), say("avail.unit"), note)


def _open(found: Availability) -> Text:
    return say("avail.open", n=len(found.open)) if found.open else say("avail.none-open")


def incidents(found: Availability) -> Table:
    return Table("incidents", INCIDENTS, [_incident(one) for one in found.open])


def _incident(one: Incident) -> Row:
    cells: dict[str, Value] = {
        "gpu": one.gpu[:SHORT_UUID] if one.gpu.startswith("GPU-") else one.gpu,
        "node": one.node,
        "reason": rule(one.reason) if one.reason else None,
        "since-at": Clock(one.since_at),
        "open-for": Age(one.since_at),
    }
    return Row(one.gpu, "bad", cells, {}, {"gpu": one.gpu})
