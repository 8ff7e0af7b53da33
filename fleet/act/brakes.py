"""Brakes: whether the rest of the fleet still allows that a step takes something away from others.

Owns which guards are asked again before such a step, on a fresh list of nodes and the ledger's running actions. Must not judge:
the guards are those that the confirmation has passed.

Once for each step, when it begins: a drain that has begun is not made safer by being left half-way.
"""

from typing import Any

from fleet.act.collect import under_way
from fleet.act.steps import Failed, Work
from fleet.domain import guards
from fleet.domain.actions import ACTIONS
from fleet.domain.facts import Actor, Facts
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Outcome, StepKind

DISRUPTIVE = frozenset({StepKind.SAVE, StepKind.DRAIN, StepKind.REBOOT})
ASKED = ("failure-domain", "breaker", "capacity-floor")
PASSED = "brakes_at"  # in the evidence of a step: when they were asked


def pulled(work: Work) -> Failed | None:
    """What speaks against the step now and was not waived when this was confirmed. None: nothing. Raises PortError."""
    if StepKind(work.step.kind) not in DISRUPTIVE or PASSED in work.step.evidence:
        return None
    draft = Draft(_facts(work))
    names = [name for name in ASKED if name in ACTIONS[work.action.kind].guards]
    blocks = [check for check in guards.run(names, draft) if check.outcome is Outcome.BLOCK]
    if standing := [check for check in blocks if not work.waived(check.key, check.reason)]:
        return Failed("braked", {"checks": [_told(check) for check in standing]})
    work.step.evidence = {**work.step.evidence, PASSED: work.now()}
    return None


def _facts(work: Work) -> Facts:
    """Of all other actions, those that were confirmed before this one: whoever came later had to take this one into account."""
    action, site, now = work.action, work.site, work.now()
    others = under_way(action.cluster, besides=action.pk)
    earlier = tuple(other for other in others if other.since_at <= (action.second_at or action.confirmed_at or 0.0))
    later = {other.target for other in others if other not in earlier}
    return Facts(
        cluster=action.cluster,
        kind=action.kind,
        target=action.target,
        actor=Actor(action.confirmed_by, "operator", action.confirmed_via),
        now=now,
        read_at=now,
        policy=site.policy,
        actions_allowed=site.actions,
        nodes=tuple(node for node in site.changer.read_nodes() if node.metadata.name not in later),
        running=earlier,
    )


def _told(check: Check) -> dict[str, Any]:
    return {"guard": check.guard, "reason": check.reason, "subject": check.subject, "evidence": dict(check.evidence)}
