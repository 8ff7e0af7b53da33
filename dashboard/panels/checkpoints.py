"""The Checkpoints page: what every training workload has saved, the least safe first, and what it would lose now.

Owns the order, which fact stands in which column, and how losses add up. Three values: a number, nothing of that kind, unknown,
which is a word and never 0. Must not hold wording (checkpoint_page_patterns.py) nor judge freshness: the picture's rows say.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from dashboard.panels import measures
from dashboard.panels.cadence import length
from dashboard.panels.checkpoint_reasons import Reason, reasons
from dashboard.panels.order import natural
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain import cadence, durations
from fleet.domain.freshness import Standing
from fleet.domain.mtbf import Mtbf
from fleet.domain.picture import Snapshot
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.save_rows import BEHIND, UNSEEN

PARTS: Final = (("W", "weights"), ("O", "optimizer"), ("L", "schedule"), ("P", "position"), ("R", "rng"))
# The least safe first.
ORDER: Final = tuple(
    each.value
    for each in (
        Standing.NONE, Standing.CRITICAL, Standing.STALE, Standing.UNREADABLE, Standing.NOT_GRANTED, Standing.UNKNOWN,
        Standing.LATE, Standing.STARTING, Standing.REPORTED, Standing.FRESH, Standing.RESTING,
    )
)  # fmt: skip
GLYPHS: Final = {"ok": "s-ok", "warn": "s-warn", "bad": "s-bad", "off": "s-unknown", "run": "s-run", "": "s-wait"}
STORED: Final = {"pod": "bad", "node": "warn", "durable": "ok", "object": "ok"}
STORED_GLYPHS: Final = {"bad": "s-bad", "warn": "s-warn", "ok": "i-disk", "off": "s-unknown"}


@dataclass(frozen=True, slots=True)
class Meter:
    """Age against the target; the bar ends at two targets. Shares in percent. `target` "" when nobody knows one."""

    level: str
    age: Value
    target: Text = ""
    fill: float = 0.0
    over: float = 0.0
    most_min: int = 0
    now_min: int = 0
    told: Text = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the five components. `has`: yes, no, empty, none (not applicable) or unknown."""

    letter: str
    has: str
    words: Text


@dataclass(frozen=True, slots=True)
class Lost:
    """What would be done again. `seconds` None: nobody knows. `nothing`: nothing runs that could lose anything."""

    seconds: float | None = None
    gpu_hours: float | None = None
    steps: int | None = None
    nothing: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the page."""

    key: str
    name: str
    path: str  # of its page: Kind/namespace/name
    level: str
    about: Text
    word: Text  # its standing
    word_level: str
    glyph: str
    meter: Meter | None
    step: Value
    at: Text
    size: Value
    parts: tuple[Part, ...]
    parts_told: Text
    stored_level: str
    stored_glyph: str
    stored: Text
    stored_note: Text
    lost: Text | None
    lost_note: Text
    lost_level: str
    best: Text | None
    best_note: Text
    plan: str  # the query of the cadence page
    measured: bool  # what a save takes, which the cadence page begins with


@dataclass(frozen=True, slots=True)
class Holding:
    """The GPUs that a workload's pods hold, and of which products."""

    gpus: int = 0
    products: frozenset[str] = frozenset()


def holdings(snapshot: Snapshot) -> dict[str, Holding]:
    """By the key of the workload, of those that train; one walk over the pods."""
    counts: dict[str, int] = {}
    products: dict[str, set[str]] = {}
    for key, pod in snapshot.pods.items():
        owner = pod.workload if pod.workload in snapshot.checkpoints else f"Pod/{key}"
        if owner in snapshot.checkpoints and pod.node and pod.gpus:
            counts[owner] = counts.get(owner, 0) + pod.gpus
            node = snapshot.nodes.get(pod.node)
            products.setdefault(owner, set()).add(node.product if node else "")
    return {key: Holding(count, frozenset(products[key])) for key, count in counts.items()}


def lost(row: CheckpointRow, held: Holding, now: float) -> Lost:
    """What the workload would do again if it ended now: all of its GPUs go on from the same checkpoint."""
    if row.standing == Standing.RESTING or not held.gpus:
        return Lost(nothing=True)
    if row.lost_since_at is None or row.skew_s or row.trouble == "no-scan":
        return Lost()
    seconds = max(0.0, now - row.lost_since_at)
    steps = math.ceil(seconds / row.step_s) if row.step_s else None
    return Lost(seconds, seconds * held.gpus / 3600, steps)


def jobs(snapshot: Snapshot, observed: Mtbf, now: float, asked: Mapping[str, CheckpointRow] | None = None) -> list[Job]:
    """Of those that are asked for; None: of all."""
    held = holdings(snapshot)
    rows = [
        (key, row, held.get(key, Holding())) for key, row in (snapshot.checkpoints if asked is None else asked).items()
    ]
    rows.sort(key=lambda each: (*_rank(each[1]), -(lost(each[1], each[2], now).gpu_hours or 0.0), natural(each[0])))
    return [job(key, row, held, observed, now) for key, row, held in rows]


def _rank(row: CheckpointRow) -> tuple[bool, int]:
    """What dies with its pod is behind nothing but what has nothing at all."""
    standing = ORDER.index(row.standing) if row.standing in ORDER else len(ORDER)
    return level(row) != "bad", standing


def level(row: CheckpointRow) -> str:
    if row.standing == Standing.RESTING:
        return ""
    stored = STORED.get(row.durability, "")
    return "bad" if "bad" in {row.level, stored} else "warn" if "warn" in {row.level, stored} else ""


def job(key: str, row: CheckpointRow, held: Holding, observed: Mtbf, now: float) -> Job:
    kind, namespace, name = key.split("/", 2)
    told = lost(row, held, now)
    stored = STORED.get(row.durability, "off")
    best, note = _best(row, held, observed)
    made = parts(row)
    return Job(
        key=key,
        name=name,
        path=f"{kind}/{namespace}/{name}",
        level=level(row),
        about=(_gpus(held), namespace, row.team),
        word=say(f"standing.{row.standing}"),
        word_level=row.level or "off",
        glyph=GLYPHS.get(row.level, "s-info"),
        meter=meter(row, now),
        step=_step(row),
        at=_at(row),
        size=measures.size(row.newest_bytes if row.newest_at else row.reported_bytes or None),
        parts=made,
        parts_told=_parts_told(made),
        stored_level=stored,
        stored_glyph=STORED_GLYPHS[stored],
        stored=_stored(row),
        stored_note="" if row.durability == "unknown" else say(f"ckpt.outlives.{row.durability}"),
        lost=lost_words(told),
        lost_note=lost_note(told),
        lost_level=_lost_level(row, told),
        best=best,
        best_note=note,
        plan=urlencode(plan_query(key, row, held)),
        measured=bool(row.save_cost_s),
    )


def _gpus(held: Holding) -> Text:
    if not held.gpus:
        return say("ckpt.no-gpus")
    product = next(iter(held.products)) if len(held.products) == 1 else ""
    return say("gpus.of", n=held.gpus, product=product) if product else say("gpus", n=held.gpus)


def meter(row: CheckpointRow, now: float) -> Meter | None:
    """None where there is no checkpoint that has an age."""
    at = row.newest_at if row.newest_at is not None else row.reported_at
    if at is None or row.skew_s:
        return None
    age_s = max(0.0, now - at)
    shown = row.level if row.level in {"ok", "warn", "bad"} else ""
    if not row.target_s:
        return Meter(shown, Age(at), told=say("ckpt.age", age=length(age_s)))
    share = 50 * age_s / row.target_s
    most_min = max(1, math.ceil(2 * row.target_s / 60))
    target = say("ckpt.target-observed" if row.observed else "ckpt.target", time=length(row.target_s))
    told = say("ckpt.age-of", age=length(age_s), target=length(row.target_s))
    fill, over = round(min(50.0, share), 1), round(min(50.0, max(0.0, share - 50)), 1)
    return Meter(shown, Age(at), target, fill, over, most_min, min(most_min, int(age_s / 60)), told)


def _step(row: CheckpointRow) -> Value:
    if row.newest_at is not None:
        return say("ckpt.no-step") if row.newest_step is None else row.newest_step
    if row.reported_at is not None:
        return say("ckpt.no-step") if row.reported_step is None else row.reported_step
    return say("ckpt.nothing") if row.standing == Standing.NONE else None


def _at(row: CheckpointRow) -> Text:
    if row.newest_at is not None:
        return say("ckpt.at", at=Clock(float(int(row.newest_at))))
    return say("ckpt.said", at=Clock(float(int(row.reported_at)))) if row.reported_at is not None else ""


HAS: Final = {"present": "yes", "absent": "no", "empty": "empty", "not-applicable": "none", "unknown": "unknown"}


def parts(row: CheckpointRow) -> tuple[Part, ...]:
    """The five of the newest complete one; () when there is none."""
    return tuple(
        Part(letter, HAS[found], say(f"ckpt.part-{HAS[found]}", part=say(f"ckpt.part.{name}")))
        for (letter, name), found in zip(PARTS, row.components, strict=False)
    )


def _parts_told(found: tuple[Part, ...]) -> Text:
    if not found:
        return ""
    if all(part.has == "yes" for part in found):
        return say("ckpt.parts-all")
    return tuple(part.words for part in found if part.has != "yes")


def _stored(row: CheckpointRow) -> Text:
    if row.claim:
        return row.claim.rpartition("/")[2]
    if row.durability == "object":
        return row.uri.partition("://")[2].partition("/")[0]
    return say(f"ckpt.stored.{row.durability}")


def lost_words(told: Lost) -> Text | None:
    if told.nothing:
        return say("ckpt.lost-nothing")
    return None if told.seconds is None else length(told.seconds)


def lost_note(told: Lost) -> Text:
    if told.nothing:
        return say("ckpt.lost-rests")
    if told.seconds is None:
        return ""
    hours = say("ckpt.gpu-hours", hours=gpu_hours(told.gpu_hours or 0.0))
    return (hours, say("ckpt.steps", n=told.steps)) if told.steps is not None else hours


def gpu_hours(hours: float) -> Text:
    """One digit, and never 0 for what is more."""
    return say("ckpt.under") if 0 < hours < 0.05 else measures.decimal(hours)


def _lost_level(row: CheckpointRow, told: Lost) -> str:
    if told.nothing:
        return ""
    if told.seconds is None:
        return "off"
    return row.level if row.level in {"warn", "bad"} else ""


def _best(row: CheckpointRow, held: Holding, observed: Mtbf) -> tuple[Text | None, Text]:
    """The exact optimum for the saves and failures that were seen; without a failure it is at least that."""
    if not row.save_cost_s:
        return None, say("ckpt.no-cost")
    if not held.gpus:
        return None, say("ckpt.lost-rests")
    mtbf = observed.of_group(held.gpus)
    if mtbf.planning_s is None:
        return None, say("ckpt.no-mtbf")
    if says_nothing(row.save_cost_s, mtbf):
        return None, say("ckpt.too-early")
    best = length(cadence.optimum(row.save_cost_s, mtbf.planning_s))
    return (best, "") if mtbf.failures else (say("ckpt.at-least", time=best), say("ckpt.no-failure"))


def says_nothing(save_cost_s: float, mtbf: Mtbf) -> bool:
    """Whether no GPU has failed in a time so short that a run could as well fail before it has saved once."""
    return not mtbf.failures and (
        mtbf.planning_s is None or cadence.optimum(save_cost_s, mtbf.planning_s) < save_cost_s
    )


def plan_query(key: str, row: CheckpointRow, held: Holding) -> list[tuple[str, str]]:
    interval = [("interval", durations.spelled(row.target_s))] if row.target_s else []
    return [("workload", key), ("gpus", str(max(1, held.gpus))), *interval]


# All of them together


@dataclass(frozen=True, slots=True)
class Sum:
    """`behind` of `jobs` that are due a checkpoint; the rest as sentences."""

    behind: int
    jobs: int
    tag: Text
    level: str
    sentences: tuple[Text, ...]


def total(snapshot: Snapshot, now: float) -> Sum:
    held = holdings(snapshot)
    active = {key: row for key, row in snapshot.checkpoints.items() if row.standing != Standing.RESTING}
    behind = sum(row.standing in BEHIND for row in active.values())
    losses = {key: lost(row, held.get(key, Holding()), now) for key, row in active.items()}
    known = {key: found for key, found in losses.items() if found.seconds is not None}
    unknown = sum(found.seconds is None and not found.nothing for found in losses.values())
    known_all = not any(row.standing in UNSEEN for row in active.values())
    if behind:
        tag = say("ckpt.behind", n=behind, all=len(active))
    else:
        tag = say("ckpt.none-behind" if known_all else "ckpt.none-known-behind")
    found: list[Text] = []
    if known:
        found.append(_sum(known.values()))
        largest = max(known, key=lambda key: known[key].gpu_hours or 0.0)
        if len(known) > 1 and known[largest].gpu_hours:
            found.append(say("ckpt.largest", name=largest.rpartition("/")[2]))
    if unknown:
        found.append(say("ckpt.sum-unknown", n=unknown))
    late = {row.standing for row in active.values()} & BEHIND
    level_ = ("bad" if late - {Standing.STALE.value} else "warn") if behind else "ok" if known_all else "off"
    return Sum(behind, len(active), tag, level_, tuple(found))


def _sum(known: Iterable[Lost]) -> Text:
    losses = list(known)
    seconds = sum(found.seconds or 0.0 for found in losses)
    hours = gpu_hours(sum(found.gpu_hours or 0.0 for found in losses))
    return say("ckpt.sum", n=len(losses), time=length(seconds), hours=hours)


@dataclass(frozen=True, slots=True)
class Concern:
    """One kind of reason, with the workloads that it is about: key, name and facts."""

    kind: str
    level: str
    glyph: str
    title: Text
    does: Text
    jobs: tuple[tuple[str, str, Text], ...]


def concerns(rows: Mapping[str, CheckpointRow]) -> list[Concern]:
    """What is to be done, by kind, the worst first."""
    found: dict[str, list[tuple[str, Reason]]] = {}
    for key in sorted(rows, key=natural):
        for reason in reasons(rows[key]):
            found.setdefault(reason.kind, []).append((key, reason))
    return sorted((_concern(kind, told) for kind, told in found.items()), key=lambda each: _URGENCY.index(each.level))


_URGENCY: Final = ["bad", "warn", "off", "run", ""]


def _concern(kind: str, told: list[tuple[str, Reason]]) -> Concern:
    worst = min((reason.level for _, reason in told), key=_URGENCY.index)
    named = tuple((key, key.rpartition("/")[2], reason.facts) for key, reason in told)
    title, does = say(f"ckpt.why.{kind}", n=len(named)), say(f"ckpt.do.{kind}")
    return Concern(kind, worst, GLYPHS.get(worst, "s-info"), title, does, named)
