"""Running a confirmed action: step by step, each "started" before its request and "done" with evidence after it.

Owns the order of steps, deadlines, stopping, and the honest end state. Must not know how a step is done (`steps`, `evicting`),
and holds nothing that the ledger does not: a killed worker's action is taken up at its first unfinished step.

Waiting is a step's outcome, not a sleep: the row says when it is due, and a pass that has nothing to do gives the worker back.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from django.db import transaction

from fleet.act import VIGIE, brakes, change, copying, evicting, plan_of, releasing, saving, selecting, steps, tell
from fleet.act.claims import LEASE_S, Claim, LostClaimError, claimed
from fleet.act.quotes import quoted
from fleet.act.sites import Site
from fleet.act.steps import Failed, Skipped, Wait, Work
from fleet.domain.actions import ACTIONS
from fleet.domain.facts import Actor
from fleet.domain.plans import ActionState, LaneState, StepKind, StepState
from fleet.models import Action
from fleet.ports import PortError

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 2.0
LOOK_S = 0.5  # how soon somebody's stop is seen
WITHDRAW_S = 600.0  # so long after its deadline a request for a reboot is tried to be taken back
PASS_S = 20.0  # then the worker is given back, so that others get their turn

PERFORM: Mapping[StepKind, Callable[[Work], "steps.Outcome"]] = {
    StepKind.CORDON: steps.cordon,
    StepKind.SAVE: saving.save,
    StepKind.DRAIN: evicting.drain,
    StepKind.RELEASE: steps.release,
    StepKind.REBOOT: steps.reboot,
    StepKind.VERIFY: steps.verify,
    StepKind.UNCORDON: steps.uncordon,
    StepKind.PROVE: steps.prove,
    StepKind.CHANGE: releasing.change,
    StepKind.ROLLOUT: releasing.rollout,
    StepKind.SMOKE: selecting.test,
    StepKind.SWITCH: selecting.switch,
    StepKind.ENDPOINTS: selecting.endpoints,
    StepKind.CREATE: copying.create,
    StepKind.BUDGET: copying.budget,
}

FINISHED = {StepState.DONE, StepState.SKIPPED}


def run(
    site: Site,
    pk: int,
    stopping: threading.Event,
    now: Callable[[], float] = time.time,
    lease_s: float = LEASE_S,
) -> float | None:
    """One pass: claim the action and do what is due. Gives when it has to be looked at again; None: never, or not by us."""
    with claimed(pk, now, lease_s) as claim:
        if claim is None:
            return None
        try:
            return _pass(site, claim, stopping, now)
        except LostClaimError:
            log.warning("another worker has the action", action=pk)
            return None


def _pass(site: Site, claim: Claim, stopping: threading.Event, now: Callable[[], float]) -> float | None:
    action = Action.objects.get(pk=claim.pk)
    if action.state == ActionState.CONFIRMED and not _begun(action, now()):
        return None
    until, due_at = now() + PASS_S, 0.0
    while True:
        action.refresh_from_db()
        step = next((s for s in action.steps.all() if s.state not in FINISHED), None)
        if step is None:
            with transaction.atomic():
                claim.hold()
                _end(action, ActionState.SUCCEEDED, now(), "succeeded", {})
            return None
        work = Work(site, action, step, claim, now, stopping)
        if action.stop_at is not None:
            return _stop(work)
        if now() >= due_at:
            due_at = _do(work) or 0.0
            if action.state != ActionState.RUNNING:
                return None
        elif due_at > until or now() >= until or stopping.wait(min(LOOK_S, max(0.0, due_at - now()))):
            return due_at


def _begun(action: Action, at: float) -> bool:
    """CONFIRMED → RUNNING, unless it has waited for too long or somebody has stopped it meanwhile."""
    with transaction.atomic():
        if action.stop_at is not None:
            change(action, ActionState.STOPPED, VIGIE, at, "stopped", outcome={"why": "stopped", "by": action.stop_by})
            return False
        if at > action.expires_at:
            change(action, ActionState.EXPIRED, VIGIE, at, "expired", outcome={"why": "not-begun"})
            return False
        change(action, ActionState.RUNNING, VIGIE, at, "began", started_at=at)
    return True


def _do(work: Work) -> float | None:
    """Do one step as far as it goes now. None: on to the next one."""
    if work.step.state == StepState.TODO:
        _start(work, work.now())
    try:
        # Whoever closes a cluster to Vigie means what is under way as well.
        outcome = _performed(work) if work.site.actions else Failed("read-only")
    except PortError as error:
        outcome = _trouble(error)
    return _settle(work, outcome, work.now())


def _performed(work: Work) -> "steps.Outcome":
    """A step that takes something away from others is begun only while nothing else in the fleet speaks against it."""
    kind = StepKind(work.step.kind)
    return brakes.pulled(work) or PERFORM[kind](work)


def _start(work: Work, at: float) -> None:
    action, step = work.action, work.step
    deadline_s = float(step.facts.get("deadline_s") or 0.0)
    step.state, step.started_at, step.deadline_at = StepState.STARTED, at, at + deadline_s if deadline_s else None
    with transaction.atomic():
        work.claim.hold()
        step.save(update_fields=["state", "started_at", "deadline_at"])
        tell(action, VIGIE, f"{step.kind}-started", at, step=step.position)


def _trouble(error: PortError) -> "steps.Outcome":
    if error.retryable or error.status in {409, 429} or (error.status or 0) >= 500:
        return Wait(max(LOOK_AGAIN_S, error.retry_after_s), {"trouble": str(error)[:300]})
    return Failed("cluster-refuses", {"status": error.status, "message": str(error)[:300]})


def _settle(work: Work, outcome: "steps.Outcome", at: float) -> float | None:
    step = work.step
    step.evidence = quoted({**step.evidence, **outcome.evidence})
    step.tries += 1
    match outcome:
        case Wait() if work.late:
            return _fail(work, Failed("deadline", outcome.evidence), at)
        case Wait(after_s=after_s):
            return _wait(work, at, after_s)
        case Failed():
            return _fail(work, outcome, at)
    step.state, step.done_at = StepState.SKIPPED if isinstance(outcome, Skipped) else StepState.DONE, at
    with transaction.atomic():
        work.claim.hold()
        step.save(update_fields=["state", "evidence", "tries", "done_at"])
        Action.objects.filter(pk=work.action.pk).update(due_at=at)
        tell(work.action, VIGIE, f"{step.kind}-{step.state}", at, step=step.position, **outcome.evidence)
    return None


def _wait(work: Work, at: float, after_s: float) -> float:
    """Until then, and never beyond the deadline, whatever a server says about when to ask again."""
    step, due_at = work.step, at + after_s
    if step.deadline_at is not None and not work.late:
        due_at = min(due_at, step.deadline_at)
    step.state = StepState.WAITING
    with transaction.atomic():
        work.claim.hold()
        step.save(update_fields=["state", "evidence", "tries"])
        Action.objects.filter(pk=work.action.pk).update(due_at=due_at)
    return due_at


def _fail(work: Work, outcome: Failed, at: float) -> float | None:
    """The step, what it leaves, and the action end together: a worker that takes over finds all of it, or none."""
    withdrawn = _withdrawn(work, steps.reopen if _in_vain(work) else steps.withdraw_reboot)
    if withdrawn is None:
        return _wait(work, at, LOOK_AGAIN_S)
    action, step = work.action, work.step
    step.state, step.done_at = StepState.FAILED, at
    told = {"why": outcome.why, "step": step.kind, **outcome.evidence, **withdrawn}
    with transaction.atomic():
        work.claim.hold()
        step.save(update_fields=["state", "evidence", "tries", "done_at"])
        action.lanes.filter(state__in=[LaneState.QUEUED, LaneState.HELD]).update(state=LaneState.LEFT)
        _end(action, ActionState.FAILED, at, "failed", told)
    return None


def _stop(work: Work) -> float | None:
    """Nothing more is asked for; what was asked for goes on by itself. A reboot that has not happened is not wanted any more. The
    node stays cordoned, which is stated."""
    withdrawn = _withdrawn(work, steps.withdraw_reboot)
    if withdrawn is None:
        return _wait(work, work.now(), LOOK_AGAIN_S)
    action = work.action
    told = {"why": "stopped", "by": action.stop_by, "step": work.step.kind, **withdrawn}
    with transaction.atomic():
        work.claim.hold()
        action.steps.exclude(state__in=[*FINISHED]).update(state=StepState.UNDONE)
        action.lanes.filter(state__in=[LaneState.QUEUED, LaneState.HELD]).update(state=LaneState.LEFT)
        _end(action, ActionState.STOPPED, work.now(), "stopped", told, Actor(action.stop_by, "", "vigie"))
    return None


def _in_vain(work: Work) -> bool:
    """Whether the node was closed for nothing: no pod has been asked to go, and none will be."""
    kinds = {StepKind.SAVE, StepKind.DRAIN} if ACTIONS[work.action.kind].empties else set[StepKind]()
    lanes = work.action.lanes
    return work.step.kind in kinds and not lanes.exclude(state__in=[LaneState.QUEUED, LaneState.HELD]).exists()


def _withdrawn(work: Work, undo: Callable[[Work], dict[str, Any]]) -> Mapping[str, Any] | None:
    """Take back what would outlive the action: a request for a reboot, which whoever owns machines would follow with other pods
    on the node; a cordon that has served nothing. None: not yet, try again; a cluster that stays away gets some time beyond the
    deadline, then the end says so."""
    step = work.step
    asked = step.kind == StepKind.REBOOT and step.state != StepState.TODO
    if not (asked or undo is steps.reopen) or not work.site.actions:
        return {}
    found = undo(work)
    since = step.deadline_at if step.deadline_at is not None else work.now()
    given_up = work.now() >= since + WITHDRAW_S
    return found if given_up or False not in (found.get("reboot_withdrawn"), found.get("reopened")) else None


def _end(action: Action, to: ActionState, at: float, what: str, told: dict[str, Any], actor: Actor = VIGIE) -> None:
    """Call within a transaction."""
    change(action, to, actor, at, what, outcome={**told, **actual_loss(action)})


def abandon(pk: int, now: Callable[[], float] = time.time, lease_s: float = LEASE_S) -> bool:
    """End an action whose cluster is not configured any more: nobody can look at it, so nothing is said of what became of its
    pods. What it has asked for goes on by itself. False: another worker has it, or it has ended."""
    with claimed(pk, now, lease_s) as claim:
        if claim is None:
            return False
        action, at = Action.objects.get(pk=pk), now()
        told: dict[str, Any] = {"why": "no-cluster", "cluster": action.cluster}
        with transaction.atomic():
            claim.hold()
            if action.state == ActionState.CONFIRMED:
                change(action, ActionState.EXPIRED, VIGIE, at, "expired", outcome=told)
                return True
            step = next((s for s in action.steps.all() if s.state not in FINISHED), None)
            if step is not None:
                step.state, step.done_at = StepState.FAILED, at
                step.save(update_fields=["state", "done_at"])
                told["step"] = step.kind
                if step.kind == StepKind.REBOOT and step.evidence.get("asked_at"):
                    told["reboot_withdrawn"] = False
            action.lanes.filter(state__in=[LaneState.QUEUED, LaneState.HELD]).update(state=LaneState.LEFT)
            _end(action, ActionState.FAILED, at, "failed", told)
    return True


def actual_loss(action: Action) -> dict[str, Any]:
    """What became of the pods, beside what the plan had promised."""
    lanes = list(action.lanes.all())
    planned = plan_of(action).loss
    counts: dict[str, int] = {}
    for lane in lanes:
        counts[lane.state] = counts.get(lane.state, 0) + 1
    slowest = [lane.replaced_at - lane.gone_at for lane in lanes if lane.replaced_at and lane.gone_at]
    return {
        "pods": counts,
        "evicted": sum(lane.accepted_at is not None for lane in lanes),
        "slowest_replacement_s": max(slowest, default=None),
        "planned": {"work_s": planned.work_s, "requests": planned.requests, "scratch_bytes": planned.scratch_bytes},
    }
