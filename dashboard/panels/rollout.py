"""One rollout's page: where it stands, its pods as slots within their bounds, and what it holds.

Owns which facts are shown and how pods become slots. Must not hold wording (rollout_patterns.py) or rules, nor the reasons why it
is held up (`rollout_reasons`), each pod (`rollout_pods`), its line over time (`rollout_line`) or what comes next (`strategies`).
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from dashboard.panels import words
from dashboard.panels.rollouts import SIGNS, TROUBLED, Standing, held_since_at, standing
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain.rollout_detail import Detail
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.rollouts import RECREATE, Remark, Step, Verdict
from fleet.domain.stages import Stage

MOST_SLOTS = 24  # as slots of their own; more of them are parts of a bar
FEW_SLOTS = 8
LATE_S = 5.0

# What a slot shows, in its order: those that serve first, so that the lower bound is a line between them and the others.
# Glyph of the slot, and fill of its part of a bar.
SLOTS = {
    "old": ("", "fill-off"),
    "new": ("s-ok", "fill-ok"),
    "old-wait": ("s-wait", "hatch-off"),
    "warm": ("s-run", "hatch-run"),
    "start": ("s-todo", "hatch-warn"),
    "pull": ("i-down", "hatch-drain"),
    "none": ("s-bad", "dots-bad"),
    "empty": ("", "fill-none"),
}
NEW_SLOTS = {
    Stage.READY: "new",
    Stage.WARMING_UP: "warm",
    Stage.STARTING: "start",
    Stage.PULLING: "pull",
    Stage.PLACING: "none",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """`sentences`: under the heading, in order."""

    level: str
    glyph: str
    tag: Text
    was: Text
    now: Text
    sentences: tuple[Text, ...]
    remarks: tuple[Text, ...]


def headline(row: RolloutRow, now: float) -> Headline:
    stands = standing(row)
    level, glyph = SIGNS[stands]
    since_at = held_since_at(row)
    for_ = stands in TROUBLED and since_at is not None
    return Headline(
        level=level or ("ok" if stands is Standing.DONE else "off"),
        glyph=glyph,
        tag=say(f"rollout.tag.{stands}-for", age=Age(since_at)) if for_ else say(f"rollout.tag.{stands}"),  # type: ignore[arg-type]
        was=say("rollout.revisions", was=row.was) if row.was and row.revision and row.was != row.revision else "",
        now=say("rollout.revision", now=row.revision) if row.revision else "",
        sentences=tuple(one for one in (_started(row), _deadline(row, now), _step(row), _eta(row, now)) if one),
        remarks=tuple(_remark(row, Remark(one)) for one in row.remarks),
    )


def _started(row: RolloutRow) -> Text:
    return "" if row.started_at is None else say("rollout.started", time=Clock(row.started_at))


def _deadline(row: RolloutRow, now: float) -> Text:
    match row.verdict:
        case Verdict.DONE:
            return say("rollout.done")
        case Verdict.FAILED:
            return say("rollout.gave-up")
        case Verdict.ROLLING if row.deadline_at is not None:
            return say("rollout.deadline", time=Clock(row.deadline_at), **{"in": _in(row.deadline_at, now)})
        case Verdict.ROLLING | Verdict.MANUAL if row.kind != "Deployment":
            return say("rollout.no-deadline-kind", kind=row.kind)
    return say("rollout.no-deadline")


def _in(at: float, now: float) -> Text:
    return say("rollout.in", age=words.age(at - now)) if at - now > LATE_S else say("rollout.overdue")


def _step(row: RolloutRow) -> Text:
    if row.step == Step.NONE or row.verdict == Verdict.MANUAL:
        return ""
    return say(f"rollout.step.{row.step}", n=row.have, have=row.have, want=row.want)


def _eta(row: RolloutRow, now: float) -> Text:
    if row.eta_at is not None:
        seen = say("rollout.eta-from", n=row.seen)
        return (say("rollout.eta", time=Clock(row.eta_at), **{"in": _in(row.eta_at, now)}), seen)
    match standing(row):
        case Standing.HELD:
            return say("rollout.eta-never")
        case Standing.PAUSED:
            return say("rollout.eta-paused")
        case Standing.MANUAL:
            return say("rollout.eta-manual")
        case Standing.ROLLING | Standing.WAITS:
            return say("rollout.eta-no-pod")
    return ""


def _remark(row: RolloutRow, remark: Remark) -> Text:
    match remark:
        case Remark.UNREADY:
            return say("rollout.remark.unready", have=dict(row.new_stages).get(Stage.READY, 0), want=row.new)
        case Remark.UNAVAILABLE:
            return say("rollout.remark.unavailable", have=row.available, want=row.desired)
        case Remark.TERMINATING:
            return say("rollout.remark.terminating", n=row.terminating, gpus=say("gpus", n=row.terminating_gpus))
        case Remark.ANSWERING:
            return say("rollout.remark.answering", n=row.answering)
        case Remark.PARTITIONED:
            return say("rollout.remark.partitioned", n=row.old)


# Pods now


@dataclass(frozen=True, slots=True)
class Key:
    slot: str
    style: str
    n: int
    words: Text


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar, in percent of its width."""

    slot: str
    style: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A line at `x` percent with its words on the side where there is room."""

    x: float
    text: Text
    side: str  # text-anchor
    kept: bool


@dataclass(frozen=True, slots=True)
class Slots:
    """`slots`: one by one (slot, glyph), empty when there are too many of them: then `parts` are a bar."""

    slots: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    keys: tuple[Key, ...]
    least: Limit | None
    most: Limit | None
    told: Text
    beside: Text
    stopping: range

    @property
    def few(self) -> bool:
        """So few that slots over the whole width would be boards."""
        return 0 < len(self.slots) <= FEW_SLOTS


def slots(row: RolloutRow) -> Slots:
    """Every pod that does not stop, those that may be added, and beside them what stops."""
    counts = _counts(row)
    total = sum(counts.values())
    many = total > MOST_SLOTS
    pods = total - counts["empty"]
    least = _limit(
        row.min_available,
        total,
        say("rollout.at-least", available=row.available, limit=row.min_available),
        row.available,
    )
    most = _limit(row.max_pods, total, say("rollout.at-most", pods=pods, limit=row.max_pods), None)
    limits = [one.text for one in (least, most) if one] or [say("rollout.no-bounds")]
    keys = tuple(Key(slot, SLOTS[slot][1], n, say(f"rollout.slot.{slot}")) for slot, n in counts.items())
    each = tuple(say("rollout.each", count=key.n, what=key.words) for key in keys if key.n)
    return Slots(
        slots=() if many else tuple((slot, SLOTS[slot][0]) for slot, n in counts.items() for _ in range(n)),
        parts=_parts(counts, total) if many else (),
        keys=keys,
        least=least,
        most=most,
        told=(*each, *limits),
        beside=say("rollout.beside", n=row.terminating, gpus=say("gpus", n=row.terminating_gpus))
        if row.terminating
        else say("rollout.beside-none"),
        stopping=range(min(row.terminating, MOST_SLOTS)),
    )


def _counts(row: RolloutRow) -> dict[str, int]:
    found: Counter[str] = Counter()
    for stage, n in row.new_stages:
        if stage != Stage.STOPPING:
            found[NEW_SLOTS[Stage(stage)]] += n
    for stage, n in row.old_stages:
        if stage != Stage.STOPPING:
            found["old" if stage == Stage.READY else "old-wait"] += n
    found["empty"] = max(0, (row.max_pods or row.desired) - found.total())
    return {slot: found[slot] for slot in SLOTS}


def _limit(at: int | None, total: int, text: Text, have: int | None) -> Limit | None:
    if at is None or not total:
        return None
    x = 100 * at / total
    return Limit(round(x, 2), text, "end" if x >= 50 else "start", have is None or have >= at)


def _parts(counts: dict[str, int], total: int) -> tuple[Part, ...]:
    ends = [0]
    for n in counts.values():
        ends.append(ends[-1] + n)
    spans = zip(counts, pairwise(ends), strict=True)
    return tuple(
        Part(slot, SLOTS[slot][1], round(100 * begin / total, 2), round(100 * (end - begin) / total, 2))
        for slot, (begin, end) in spans
        if end > begin
    )


# What it is set to, and what it holds


@dataclass(frozen=True, slots=True)
class Fact:
    name: Text
    value: Value
    note: Text = ""


def facts(found: Detail) -> list[Fact]:
    row = found.row
    return [one for one in (*_bounds(row), _each(row), _held(row), _ready(row), _room(found)) if one]


def _bounds(row: RolloutRow) -> list[Fact]:
    strategy = Fact(
        say("rollout.fact.strategy"), row.strategy, "" if row.max_pods is not None else say("rollout.no-bounds")
    )
    if row.max_pods is None or row.strategy == RECREATE:
        return [strategy]
    found = [
        strategy,
        Fact(say("rollout.fact.surge"), row.surge, say("rollout.most", n=row.max_pods)),
        Fact(say("rollout.fact.unavailable"), row.unavailable, say("rollout.least", n=row.min_available)),
    ]
    if row.partition:
        found.append(Fact(say("rollout.fact.partition"), row.partition, say("rollout.keeps", n=row.partition)))
    return found


def _each(row: RolloutRow) -> Fact:
    """GPUs of a pod before and after, and what the whole workload will hold more, or less, for it."""
    was, now = row.gpus_per_old_pod, row.gpus_per_pod
    if not row.old or was == now:
        return Fact(say("rollout.fact.gpus"), now)
    more = (now - was) * row.desired
    note = say("rollout.more", n=more) if more > 0 else say("rollout.fewer", n=-more)
    return Fact(say("rollout.fact.gpus"), say("rollouts.versions", was=was, now=now), note)


def _held(row: RolloutRow) -> Fact:
    parts = (
        say("rollout.by-old", n=row.old_gpus) if row.old_gpus else "",
        say("rollout.by-new", n=row.new_gpus) if row.new_gpus else "",
        say("rollouts.stopping-gpus", n=row.terminating_gpus) if row.terminating_gpus else "",
    )
    return Fact(say("rollout.fact.held"), row.old_gpus + row.new_gpus + row.terminating_gpus, parts)


def _ready(row: RolloutRow) -> Fact:
    name = say("rollout.fact.ready")
    if row.ready_after_s is None:
        return Fact(name, None, say("rollout.not-seen"))
    note = say("rollout.median", n=row.seen) if row.seen else say("rollout.median-now")
    return Fact(name, duration(row.ready_after_s), note)


def duration(seconds: float) -> Text:
    """Exact below an hour: a rollout is waited for in minutes and seconds."""
    whole = int(seconds)
    if 60 <= whole < 3_600:
        return say("age.min-s", n=whole // 60, s=f"{whole % 60:02}")
    return words.age(whole)


def _room(found: Detail) -> Fact | None:
    if found.largest is None or found.slots is None:
        return None
    return Fact(say("rollout.fact.hole"), say("gpus", n=found.largest), say("rollout.room", n=found.slots))
