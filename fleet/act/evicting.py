"""Evicting the pods of a plan, each by UID, in the plan's order.

Owns the lanes of a drain. A pod is written down as asked before it is asked, so that after a crash we look instead of asking
twice: no second eviction for a UID that was accepted, none for another UID, never a deletion, never a shorter grace. A training
pod goes only while it would lose no more than was confirmed.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleet.act import losses, plan_of
from fleet.act.claims import LostClaimError
from fleet.act.quotes import quoted
from fleet.act.steps import GONE, Done, Failed, Outcome, Wait, Work, frozen, newcomers
from fleet.domain import draining
from fleet.domain.draining import PERMANENT, Answer, Meaning, Turn, next_turns
from fleet.domain.losses import DO_NOT_DISRUPT
from fleet.domain.objects import seconds
from fleet.domain.plans import LaneState
from fleet.domain.specs import FullPod
from fleet.models import ActionLane
from fleet.ports import PortError

AT_ONCE = 8  # requests under way
ROUND = 40  # pods that are asked before we look at the node again
LOOK_S = 1.0
HELD_LOOK_S = 5.0
ANSWERED_WITHIN_S = 15.0  # a request without an answer may still be carried out until then

TO_ASK = {LaneState.QUEUED, LaneState.HELD}
GOING = {LaneState.ASKED, LaneState.ACCEPTED, LaneState.TERMINATING}


def drain(work: Work) -> Outcome:
    """One look at the node and its pods, and one round of asking."""
    node = work.node()
    if node is None:
        return GONE
    if not node.spec.unschedulable:
        return Failed("uncordoned", {"by": "somebody else"})
    if stopped := frozen(work, node):
        return stopped
    lanes = list(work.action.lanes.all())
    there = {pod.metadata.uid: pod for pod in work.site.changer.read_pods(work.action.target)}
    planned = {pod.uid for pod in plan_of(work.action).loss.pods}
    if new := newcomers(work, [pod for uid, pod in there.items() if uid not in planned]):
        return Failed("new-pods", {"new": new})
    for lane in lanes:
        _see(work, lane, there.get(lane.uid))
    _ask_round(work, lanes, there)
    return _outcome(work, lanes, there)


def _see(work: Work, lane: ActionLane, pod: FullPod | None) -> None:
    """What the cluster says of one pod: gone by UID, terminating, or asked for and not heard. Nothing else says that it is gone:
    a conflict is also what the server answers when something was written at the same moment."""
    if lane.state in {LaneState.GONE, LaneState.REPLACED, LaneState.LEFT, LaneState.FAILED}:
        return
    if pod is None:
        _set(work, lane, LaneState.GONE, gone_at=work.now())
    elif pod.metadata.deletion_timestamp is not None:
        grace_until = seconds(pod.metadata.deletion_timestamp)
        if lane.state != LaneState.TERMINATING or lane.facts.get("grace_until") != grace_until:
            lane.facts = {**lane.facts, "grace_until": grace_until}
            ours = lane.state in {LaneState.ASKED, LaneState.ACCEPTED}  # else somebody else has asked for it
            accepted_at = lane.accepted_at or (work.now() if ours else None)
            _set(work, lane, LaneState.TERMINATING, accepted_at=accepted_at)
    elif lane.state == LaneState.ASKED and not _disrupted(pod) and _unheard(work, lane):
        # Whoever asked was killed before the server heard it: the pod is not going, so it has not been accepted.
        _set(work, lane, LaneState.QUEUED)


def _unheard(work: Work, lane: ActionLane) -> bool:
    return work.now() - float(lane.facts.get("asked_at") or 0.0) >= ANSWERED_WITHIN_S


def _disrupted(pod: FullPod) -> bool:
    """The server has accepted an eviction and marks the pod before it deletes it."""
    return any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions)


def _ask_round(work: Work, lanes: list[ActionLane], there: dict[str, FullPod]) -> None:
    """Ask those whose turn it is, several at a time: first whether the server would take it, then, written down, in earnest.

    The dry run costs no budget; an eviction that is refused for its UID does, for two minutes.
    """
    if work.late or any(lane.state == LaneState.FAILED for lane in lanes):
        return  # the drain cannot end well any more: nobody else goes for nothing
    waiting = {lane.uid: lane for lane in lanes if lane.state in TO_ASK}
    turns = [Turn(lane.uid, lane.place, lane.tries, lane.retry_at) for lane in waiting.values()]
    chosen = [waiting[turn.uid] for turn in next_turns(turns, work.now())][:ROUND]
    if not chosen or work.told_to_stop():
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="evict") as pool:
        tried = list(pool.map(lambda lane: _try(work, lane, there[lane.uid]), chosen))
        willing = [lane for lane, answer in zip(chosen, tried, strict=True) if _would_go(work, lane, answer)]
        known = losses.now(work, [there[lane.uid] for lane in willing], pool)
        willing = [lane for lane in willing if _within_loss(work, lane, known.get(lane.uid))]
        if not willing or work.told_to_stop():
            return
        for lane in willing:
            lane.facts = {**lane.facts, "asked_at": work.now()}
            _set(work, lane, LaneState.ASKED)
        answers = list(pool.map(lambda lane: _evict(work, lane, dry_run=False), willing))
    for lane, answer in zip(willing, answers, strict=True):
        if isinstance(answer, Answer) and answer.meaning is Meaning.ACCEPTED:
            _set(work, lane, LaneState.ACCEPTED, accepted_at=work.now(), reason="")
        elif isinstance(answer, Answer):
            _refused(work, lane, answer)
        # No answer at all: it stays asked, and the next look tells whether it was carried out.


Tried = Answer | PortError | None


def _try(work: Work, lane: ActionLane, shown: FullPod) -> Tried:
    """What the server would say. None: the pod asks not to be disturbed, and nobody has waived that."""
    try:
        fresh = work.site.changer.read_pod(lane.namespace, lane.name)
        if fresh is None or fresh.metadata.uid != shown.metadata.uid:
            return Answer(Meaning.GONE)
        return None if _undisturbed(fresh, work) else _evict(work, lane, dry_run=True)
    except PortError as error:
        return error


def _evict(work: Work, lane: ActionLane, *, dry_run: bool) -> Answer | PortError:
    work.claim.check()
    try:
        return draining.classify(work.site.changer.evict(lane.namespace, lane.name, lane.uid, dry_run=dry_run))
    except PortError as error:
        return error


def _would_go(work: Work, lane: ActionLane, answer: Tried) -> bool:
    if answer is None:
        _set(work, lane, LaneState.FAILED, reason="undisturbed")
    elif isinstance(answer, PortError):
        _held(work, lane, "unreachable", max(LOOK_S, answer.retry_after_s), str(answer))
    elif answer.meaning is Meaning.ACCEPTED:
        return True
    else:
        _refused(work, lane, answer)
    return False


def _within_loss(work: Work, lane: ActionLane, known: losses.Now | None) -> bool:
    """Whether it still loses no more than was confirmed. If not it stays until it has saved, or the drain is too late."""
    if known is None:
        return True
    lane.facts = {**lane.facts, "lost_since_at": known.since_at}
    if known.excess is not None:
        _held(work, lane, known.excess, HELD_LOOK_S, "")
    return known.excess is None


def _undisturbed(pod: FullPod, work: Work) -> bool:
    """Whether the pod asks not to be disturbed and no waiver has lifted that."""
    asks = any(pod.metadata.annotations.get(name, "").lower() == value for name, value in DO_NOT_DISRUPT.items())
    return asks and not work.waived(f"undisturbed:{pod.key}")


def _refused(work: Work, lane: ActionLane, answer: Answer) -> None:
    if answer.meaning is Meaning.GONE:
        _set(work, lane, LaneState.QUEUED, retry_at=work.now() + LOOK_S)  # the next look tells whether it is
        return
    lane.facts = {**lane.facts, "budget": answer.budget, "needs": answer.needs, "has": answer.has}
    if answer.meaning in PERMANENT or answer.retry_in_s is None:
        lane.facts = {**lane.facts, "message": answer.message[:300]}
        _set(work, lane, LaneState.FAILED, reason=answer.meaning)
    else:
        _held(work, lane, answer.meaning, answer.retry_in_s, answer.message)


def _held(work: Work, lane: ActionLane, reason: str, retry_in_s: float, message: str) -> None:
    lane.tries += 1
    lane.facts = {**lane.facts, "message": message[:300]}
    _set(work, lane, LaneState.HELD, reason=reason, retry_at=work.now() + retry_in_s)


def _outcome(work: Work, lanes: Iterable[ActionLane], there: dict[str, FullPod]) -> Outcome:
    lanes = list(lanes)
    failed = [f"{lane.namespace}/{lane.name}: {lane.reason}" for lane in lanes if lane.state == LaneState.FAILED]
    open_lanes = [lane for lane in lanes if lane.state in (GOING if failed else TO_ASK | GOING)]
    evidence = {"gone": sum(lane.gone_at is not None for lane in lanes), "pods": len(lanes)}
    if open_lanes:
        now = work.now()
        retries = [lane.retry_at - now for lane in open_lanes if lane.state == LaneState.HELD]
        moving = any(lane.state in GOING or lane.state == LaneState.QUEUED for lane in open_lanes)
        return Wait(LOOK_S if moving else min(HELD_LOOK_S, max(0.2, min(retries))), evidence)
    if failed:
        return Failed("pods-refused", {**evidence, "refused": failed})
    # Whatever the lanes say: the node is empty when nothing is left that a drain would have to move.
    left = newcomers(work, there.values())
    return Failed("new-pods", {**evidence, "new": left}) if left else Done(evidence)


def _set(work: Work, lane: ActionLane, state: LaneState, **fields: Any) -> None:
    """Write how a pod is. Raises LostClaimError when the action is another worker's meanwhile, who knows better."""
    lane.state, lane.facts = state, quoted(lane.facts)
    for name, value in fields.items():
        setattr(lane, name, value)
    mine = ActionLane.objects.filter(pk=lane.pk, action__claimed_by=work.claim.token)
    if not mine.update(state=state, tries=lane.tries, facts=lane.facts, **fields):
        raise LostClaimError
