"""Pods on their way off a node: what each does now, what holds it, and its times as a bar.

Owns lanes, the overall progress, which never runs backwards, and what can be said about how long it takes. All from the ledger:
who reloads the page sees the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.panels import losses, measures
from dashboard.panels.measures import known
from dashboard.panels.words import Age, Clock, Text, say
from fleet.domain.plans import ActionState, LaneState, Plan, PodLoss, StepKind, StepState

SPAN_S = 60.0  # the least that the bars stretch over

LEVELS = {
    LaneState.QUEUED: ("off", "s-todo"),
    LaneState.ASKED: ("drain", "s-drain"),
    LaneState.HELD: ("bad", "s-hold"),
    LaneState.ACCEPTED: ("drain", "s-drain"),
    LaneState.TERMINATING: ("drain", "s-drain"),
    LaneState.GONE: ("run", "s-run"),
    LaneState.REPLACED: ("ok", "s-ok"),
    LaneState.FAILED: ("bad", "s-bad"),
    LaneState.LEFT: ("off", "s-off"),
}
# The share of a pod's way that is behind it; all three moments are written once and never taken back.
ACCEPTED_PART, GONE_PART = 0.3, 0.7


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of a lane, in percent of the whole span."""

    look: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Lane:
    key: str
    name: str
    owner: Text
    level: str
    glyph: str
    word: Text
    small: Text
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The span that the bars cover, with where now is, in percent."""

    from_at: float
    to_at: float
    now: str

    @property
    def far(self) -> bool:
        """Whether the word for now has room beside the first label."""
        return float(self.now.rstrip("%")) > 25

    @property
    def anchor(self) -> str:
        return "end" if float(self.now.rstrip("%")) > 90 else "middle"


@dataclass(frozen=True, slots=True)
class Progress:
    pct: int
    text: Text
    eta: Text


def axis(action: Any, now: float) -> Axis:
    begin = action.started_at or action.confirmed_at or now
    end = max(action.ended_at or now, begin + SPAN_S)
    return Axis(begin, end, _pct((action.ended_at or now) - begin, end - begin))


def lanes(action: Any, rows: Iterable[Any], plan: Plan, now: float) -> list[Lane]:
    pods = {pod.uid: pod for pod in plan.loss.pods}
    span, end = axis(action, now), action.ended_at or now
    return [_lane(row, pods[row.uid], span, end) for row in rows]


def _lane(row: Any, pod: PodLoss, span: Axis, end: float) -> Lane:
    level, glyph = LEVELS[row.state]
    return Lane(
        row.uid,
        f"{row.namespace}/{row.name}",
        losses.owner(pod),
        level,
        glyph,
        _word(row),
        _small(row, pod),
        tuple(_bars(row, span, end)),
    )


def _word(row: Any) -> Text:
    if row.state == LaneState.HELD:
        return say(f"act.lane.held.{row.reason}", budget=row.facts.get("budget") or None)
    if row.state == LaneState.FAILED and row.reason:
        return say(f"act.lane.failed.{row.reason}")
    return say(f"act.lane.{row.state}")


def _small(row: Any, pod: PodLoss) -> Text:
    """The second line, in the state that the pod is in."""
    facts: Mapping[str, Any] = row.facts
    match row.state:
        case LaneState.HELD:
            return _held(row)
        case LaneState.ACCEPTED if row.accepted_at:
            return say("act.lane.since", age=Age(row.accepted_at))
        case LaneState.TERMINATING if "grace_until" in facts:
            return say("act.lane.grace", grace_until=Clock(facts["grace_until"]))
        case LaneState.GONE:
            return _not_back(row, pod)
        case LaneState.REPLACED:
            return _took(row)
    return str(facts.get("message", "")) if row.state == LaneState.FAILED else ""


def _held(row: Any) -> Text:
    facts: Mapping[str, Any] = row.facts
    needs, has = facts.get("needs"), facts.get("has")
    known_needs = isinstance(needs, int)
    why: Text = say("act.lane.needs", needs=needs, has=has) if known_needs else str(facts.get("message", ""))
    return why, say("act.lane.again", retry_at=Clock(row.retry_at), tries=row.tries)


def _not_back(row: Any, pod: PodLoss) -> Text:
    room = say("act.lane.goes-to", node=pod.comes_back_on) if pod.comes_back_on else ""
    return room, say("act.lane.since", age=Age(row.gone_at)) if row.gone_at else ""


def _took(row: Any) -> Text:
    if row.gone_at is None or row.replaced_at is None or row.accepted_at is None:
        return ""
    return say(
        "act.lane.took",
        took_s=measures.duration(row.gone_at - row.accepted_at),
        back_s=measures.duration(row.replaced_at - row.gone_at),
    )


def _bars(row: Any, span: Axis, end: float) -> Iterable[Bar]:
    waiting = "dots-bad" if row.state == LaneState.HELD else "hatch-off"
    moments = (
        (waiting, span.from_at, row.accepted_at or row.gone_at),
        ("fill-drain", row.accepted_at, row.gone_at),
        ("hatch-run", row.gone_at, row.replaced_at),
        ("fill-ok", row.replaced_at, None),
    )
    whole = span.to_at - span.from_at
    for look, begin, until in moments:
        if begin is None:
            continue
        length = max(0.0, min(until if until is not None else end, end) - begin)
        if length > 0:
            yield Bar(look, _pct(begin - span.from_at, whole), _pct(length, whole))


def _pct(part: float, whole: float) -> str:
    return f"{max(0.0, min(100.0, part / whole * 100)):.2f}%"


def progress(steps: Sequence[Any], rows: Sequence[Any], plan: Plan, now: float) -> Progress:
    return Progress(_percent(steps, rows), _text(rows), eta(steps, rows, plan, now))


def _percent(steps: Sequence[Any], rows: Sequence[Any]) -> int:
    """Whole percent, rounded down: 100 is said when it has ended. A pod's three moments are never taken back, nor is a step."""
    weights = {StepKind.DRAIN: max(2.0, len(rows)), StepKind.PROVE: max(1.0, len(rows) / 2), StepKind.REBOOT: 3.0}
    whole = sum(weights.get(StepKind(step.kind), 1.0) for step in steps)
    done = sum(weights.get(StepKind(step.kind), 1.0) * _part(step, rows) for step in steps)
    return min(99, int(done / whole * 100)) if whole else 0


def _part(step: Any, rows: Sequence[Any]) -> float:
    if step.state in {StepState.DONE, StepState.SKIPPED}:
        return 1.0
    if not rows:
        return 0.0
    if step.kind == StepKind.DRAIN:
        asked = sum(row.accepted_at is not None or row.gone_at is not None for row in rows)
        return (ACCEPTED_PART * asked + GONE_PART * sum(row.gone_at is not None for row in rows)) / len(rows)
    return sum(row.replaced_at is not None for row in rows) / len(rows) if step.kind == StepKind.PROVE else 0.0


def _text(rows: Sequence[Any]) -> Text:
    counts = Counter(row.state for row in rows)
    going = sum(counts[state] for state in (LaneState.ASKED, LaneState.ACCEPTED, LaneState.TERMINATING))
    told = (
        ("going", going),
        ("held", counts[LaneState.HELD]),
        ("queued", counts[LaneState.QUEUED]),
        ("gone", counts[LaneState.GONE]),
        ("replaced", counts[LaneState.REPLACED]),
        ("failed", counts[LaneState.FAILED]),
    )
    return tuple(say(f"act.progress.{name}", n=n) for name, n in told if n) or say("act.progress.none")


def eta(steps: Sequence[Any], rows: Sequence[Any], plan: Plan, now: float) -> Text:
    """From the grace that pods ask for and how long their kind took to be Ready; what nobody has measured gives none."""
    step = next((one for one in steps if one.state not in {StepState.DONE, StepState.SKIPPED}), None)
    if step is None:
        return ""
    if any(row.state == LaneState.HELD for row in rows):
        return say("act.eta.held")
    if step.kind in {StepKind.SAVE, StepKind.REBOOT, StepKind.VERIFY} and step.deadline_at is not None:
        return say("act.eta.by", deadline_at=Clock(step.deadline_at))
    if any(one.kind == StepKind.REBOOT for one in steps):
        return say("act.eta.unknown")  # how long the machine takes is nobody's to say
    pods = {pod.uid: pod for pod in plan.loss.pods}
    left = [_left_s(row, pods[row.uid], now) for row in rows if row.replaced_at is None]
    known_s = [part for part in left if part is not None]
    if not left or len(known_s) < len(left):
        return say("act.eta.unknown")
    return say("act.eta.about", left_s=measures.duration(max(known_s)))


def _left_s(row: Any, pod: PodLoss, now: float) -> float | None:
    if not known(pod.warm_up_s) or pod.grace_s is None:
        return None
    if row.gone_at is not None:
        return max(0.0, float(row.gone_at) + pod.warm_up_s - now)
    until = row.facts.get("grace_until")
    grace_s = max(0.0, until - now) if known(until) else pod.grace_s
    return grace_s + pod.warm_up_s


def tag(action: Any, rows: Sequence[Any]) -> tuple[str, str, Text]:
    """Beside the headline of a running action."""
    if action.state == ActionState.CONFIRMED or not rows:
        return "drain", "s-drain", say(f"act.state.{action.state}")
    moved = sum(row.gone_at is not None for row in rows)
    return "drain", "s-drain", say("act.tag.moved", moved=moved, pods=len(rows))
