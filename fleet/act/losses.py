"""What training pods would lose if they went now, looked up once more in their stores right before their eviction.

Owns which pods of a drain are looked at, and what was confirmed of each, also by what it has saved first. Must not evict, nor
judge how much is too much (`domain.confirmed_losses` does).
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from msgspec import Struct

from fleet.act import plan_of
from fleet.act.checkpoints import looks
from fleet.act.saving import State
from fleet.act.steps import Work
from fleet.domain import confirmed_losses
from fleet.domain.capacity import finished
from fleet.domain.confirmed_losses import Confirmed, Excess
from fleet.domain.owners import reference
from fleet.domain.plans import Plan, PodLoss, StepKind
from fleet.domain.specs import FullPod


class Now(Struct, frozen=True):
    """`since_at`: what was done after it is lost with the pod, by our clock; None: nobody knows."""

    excess: Excess | None
    since_at: float | None


def now(work: Work, pods: Iterable[FullPod], pool: Executor) -> dict[str, Now]:
    """Of those that train and whose loss was confirmed as a number, by UID."""
    agreed = _agreed(work)
    asked = {pod.metadata.uid: (pod, agreed[pod.metadata.uid]) for pod in pods if pod.metadata.uid in agreed}
    running = {uid: (pod, key) for uid, (pod, (key, _)) in asked.items() if not finished(pod)}
    seen = looks(work.site, running, pool, work.now())
    return {
        uid: Now(confirmed_losses.excess(agreed[uid][1], found), found.lost_since_at) for uid, found in seen.items()
    }


def _agreed(work: Work) -> dict[str, tuple[str, Confirmed]]:
    """The key of its workload and what was confirmed, by UID."""
    plan = plan_of(work.action)
    lifted = frozenset(str(waiver["check"]) for waiver in work.action.waivers)
    saved = _saved_first(work, plan)
    found: dict[str, tuple[str, Confirmed]] = {}
    for pod in plan.loss.pods:
        agreed = saved.get(pod.uid) or confirmed_losses.confirmed(plan, pod, lifted)
        if agreed is not None:
            found[pod.uid] = _key(pod), agreed
    return found


def _key(pod: PodLoss) -> str:
    if pod.owner_kind:
        return reference(pod.owner_kind, pod.namespace, pod.owner_name)
    return reference("Pod", pod.namespace, pod.name)


def _saved_first(work: Work, plan: Plan) -> dict[str, Confirmed]:
    step = work.action.steps.filter(kind=StepKind.SAVE).first()
    told: Mapping[str, Any] = (step.evidence.get("workloads") or {}) if step is not None else {}
    found: dict[str, Confirmed] = {}
    for save in plan.saves:
        one = told.get(save.workload) or {}
        if one.get("state") == State.SAVED:
            reported = one.get("saved_read") is False
            since_at = None if one.get("folded") else one["asked_at"]  # a save that went on holds an older state
            agreed = confirmed_losses.saved_first(one["saved_at"], one["uri"], since_at, reported=reported)
            found |= dict.fromkeys(save.pods, agreed)
    return found
