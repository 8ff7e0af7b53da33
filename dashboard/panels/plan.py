"""A plan as a page shows it before anybody confirms it: what will happen, whether it may, and what stands in the way.

Owns headline, verdict and steps of a plan. Must not judge: checks and losses come with the plan, and the server decides again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.panels import losses, measures
from dashboard.panels.checks import Finding, Findings
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.words import Text, say
from fleet.domain.plans import ActionState, Plan, Step, StepKind


@dataclass(frozen=True, slots=True)
class Verdict:
    """The head of the page's decision: is it safe?"""

    level: str
    glyph: str
    title: Text
    texts: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Coming:
    """One step as it will be. `reaches`: whose pods serve before and after it, "" for a step that changes nothing of that."""

    kind: str
    title: Text
    text: Text
    reaches: Text
    limit: Text


def title(action: Any) -> Text:
    return say(f"act.plan.{action.kind}", node=action.target)


def verdict(action: Any, plan: Plan, found: Findings, *, expired: bool) -> Verdict:
    """Of a proposal: what was found, unless it is too old or somebody has confirmed it already."""
    if expired:
        return Verdict("off", "i-clock", say("act.verdict.expired"), (say("act.verdict.too-old"),))
    if action.confirmed_by:
        return Verdict("warn", "s-wait", say("act.verdict.second"), (say("act.verdict.waits", by=action.confirmed_by),))
    if found.blocks:
        return Verdict("bad", "s-bad", say("act.verdict.blocked"), (found.blocks[0].title,))
    text = _cost(plan)
    if found.warnings:
        warnings = say("act.tag.warnings", n=count(found.warnings))
        return Verdict("ok", "s-ok", say("act.verdict.warned", warnings=warnings), text)
    return Verdict("ok", "s-ok", say("act.verdict.safe"), text)


def _cost(plan: Plan) -> tuple[Text, ...]:
    if not any(pod.evicted for pod in plan.loss.pods):
        return (say("act.verdict.nothing"),)
    lost = losses.lost(plan.loss)
    known = (say("act.verdict.lost", lost=lost),) if lost else ()
    unknown = (say("act.verdict.unknown"),) if losses.unknown(plan.loss) else ()
    return (*known, *unknown) or (say("act.verdict.unlost"),)


def count(found: Iterable[Finding]) -> int:
    """Checks, also where several are told in one line."""
    return sum(one.count for one in found)


def tag(action: Any, found: Findings, *, expired: bool) -> tuple[str, str, Text]:
    """Level, glyph and word beside the headline."""
    if expired:
        return "off", "i-clock", say("act.state.expired")
    if action.state == ActionState.PROPOSED and action.confirmed_by:
        return "warn", "s-wait", say("act.state.second")
    if found.blocks:
        return "bad", "s-bad", say("act.tag.blocks", n=count(found.blocks))
    return "ok", "s-ok", say("act.tag.safe")


def steps(plan: Plan) -> list[Coming]:
    return [_coming(step, plan.kind) for step in plan.steps]


def _coming(step: Step, kind: str) -> Coming:
    known = dict(step.facts)
    pods = known.get("pods")
    n, asked = int(pods) if isinstance(pods, int | float) else 0, str(known.get("asked") or "")
    of_kind = f"act.will.{step.kind}.{kind}"
    text = say(of_kind if of_kind in MESSAGES else f"act.will.{step.kind}", n=n, asked=asked)
    limit = measures.duration(step.deadline_s) if step.deadline_s else None
    slow = step.kind not in {StepKind.CORDON, StepKind.UNCORDON}
    at_most = say("act.step.at-most", deadline_s=limit) if slow else ""
    return Coming(step.kind, say(f"act.step.{step.kind}"), text, _reaches(known), at_most)


def _reaches(known: Mapping[str, Any]) -> Text:
    if "before" not in known or "after" not in known:
        return ""
    before, after = (known[name] or say("act.will.nobody") for name in ("before", "after"))
    return say("act.will.reach", before=before, after=after)


def commands(plan: Plan) -> Sequence[tuple[bool, str]]:
    """Each line and whether it is a remark."""
    return [(line.startswith("#"), line) for line in plan.kubectl]
