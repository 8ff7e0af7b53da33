"""The write story: propose, confirm, approve, stop; then `run` takes a confirmed action to its end.

Owns how an action comes to be allowed: a plan on fresh facts, its digest, all guards again when it is confirmed, waivers and the
second person. Must not know Django views, Celery or Kubernetes: a `Site` has the ports, `running` has the steps.

Every change of state is a compare-and-swap, in one transaction with its audit entry; no request leaves inside a transaction.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from django.db import transaction

from fleet.act import audit
from fleet.act.audit import Entry
from fleet.act.claims import RUNNABLE
from fleet.act.collect import collect, under_way
from fleet.act.quotes import quoted
from fleet.act.sites import Site
from fleet.act.summaries import against, loss_of
from fleet.act.surveying import survey
from fleet.domain import actions, guards, plans
from fleet.domain.actions import ACTIONS, LIFECYCLE
from fleet.domain.facts import Actor, Facts
from fleet.domain.guards import Waiver
from fleet.domain.kinds import SAVE_FIRST, Danger, Subject, named
from fleet.domain.plans import ENDED, ActionState, Check, LaneState, Plan, StepState
from fleet.models import Action, ActionLane, ActionStep
from fleet.ports import PortError

__all__ = ["ACTIONS", "Actor", "Refused", "Site", "Waiver", "approve", "confirm", "plan_of", "propose", "stop"]

Clock = Callable[[], float]

BEGIN_WITHIN_S = 120.0  # a confirmed action that no worker has begun by then is void: the facts have moved on
OVERTAKEN_TIMES = 5
LONGEST_REASON = 500
LONGEST_OPTION = 900
LONGEST_NAME = 253  # of a node
LONGEST_ACTOR = 150


class Refused(Exception):  # noqa: N818 -- it is an answer, not an accident
    """An action is not taken. `why`: a token; `checks`: what stands against it; `facts`: what the sentence of the token needs."""

    def __init__(self, why: str, checks: Iterable[Check] = (), **facts: Any) -> None:
        super().__init__(why)
        self.why, self.facts = why, facts
        self.checks = msgspec.convert(quoted(msgspec.to_builtins(tuple(checks))), tuple[Check, ...])


def propose(
    site: Site,
    kind: str,
    target: str,
    reason: str,
    actor: Actor,
    now: Clock = time.time,
    options: Mapping[str, str] | None = None,
) -> Action:
    """Compute a plan on fresh facts and keep it, whether or not anything blocks it. `options`: what a person chooses, by the
    names of the kind; `SAVE_FIRST`: workloads that declare how are asked for a checkpoint before their pods go. Raises Refused:
    no such kind, no reason, no such option in this kind, or the cluster cannot be read."""
    if kind not in ACTIONS:
        raise Refused("unknown-kind", kind=kind)
    chosen = {name: quoted(value, LONGEST_OPTION + 1).strip() for name, value in (options or {}).items() if value}
    name, first = SAVE_FIRST
    if not chosen.keys() <= set(ACTIONS[kind].options) or chosen.get(name, first) != first:
        raise Refused("no-option", kind=kind)
    if any(len(value) > LONGEST_OPTION for value in chosen.values()):
        raise Refused("long-option", most=LONGEST_OPTION)
    if len(target) > LONGEST_NAME:  # cut, it would be the name of another
        raise Refused("long-option", most=LONGEST_NAME)
    reason, target = quoted(reason, LONGEST_REASON + 1).strip(), quoted(target, LONGEST_NAME)
    if not reason:
        raise Refused("no-reason")
    if len(reason) > LONGEST_REASON:
        raise Refused("long-reason", most=LONGEST_REASON)
    facts = _collected(site, kind, target, chosen, actor, now)
    plan = actions.plan(facts, reason)
    pool, zone, rack = actions.where(facts)
    with transaction.atomic():
        action = Action.objects.create(
            cluster=site.name,
            kind=kind,
            target=target,
            target_uid=plan.target_uid,
            pool=pool,
            zone=zone,
            rack=rack,
            reason=reason,
            state=ActionState.PROPOSED,
            plan=quoted(msgspec.to_builtins(plan)),
            digest=plan.digest,
            needs_second=actions.second(facts),
            proposed_by=actor.name[:LONGEST_ACTOR],
            proposed_via=actor.via,
            proposed_at=plan.made_at,
            expires_at=plan.expires_at,
        )
        tell(
            action,
            actor,
            "proposed",
            plan.made_at,
            reason=reason,
            digest=plan.digest,
            **loss_of(plan),
            **against(plan.checks),
        )
    return action


def confirm(
    site: Site,
    action: Action,
    digest: str,
    typed: str,
    waivers: Mapping[str, str],
    actor: Actor,
    now: Clock = time.time,
) -> Action:
    """Authorise what was shown: the same plan, the target's name typed where pods have to go, and every guard passed again on
    fresh facts or waived. `waivers`: reason by `Check.key`, each lifted by this actor, if their role may. Where policy asks for
    a second person, this is the first one. Raises Refused."""
    _still_proposed(action, now())
    if action.confirmed_by:
        raise Refused("waits-for-second", by=action.confirmed_by)
    if digest != action.digest:
        raise Refused("other-plan")
    if ACTIONS[action.kind].danger is Danger.DESTRUCTIVE and typed.strip() not in {action.target, named(action.target)}:
        raise Refused("other-name", target=named(action.target))
    if any(len(reason) > LONGEST_REASON for reason in waivers.values()):
        raise Refused("long-reason", most=LONGEST_REASON)
    wanted = [Waiver(check, quoted(reason), actor.name, actor.role) for check, reason in waivers.items()]

    def authorise() -> None:
        facts, given = _check_again(site, action, wanted, actor, now)
        at = now()
        fields: dict[str, Any] = {
            "confirmed_by": actor.name[:LONGEST_ACTOR],
            "confirmed_via": actor.via,
            "confirmed_at": at,
            "waivers": msgspec.to_builtins(given),
        }
        told = {"waivers": msgspec.to_builtins(given), "digest": digest}
        # The policy or the node's pool may be another one than when it was proposed.
        if action.needs_second or actions.second(facts):
            _ask_second(action, actor, at, fields, told)
        else:
            _begin(action, facts, at, "confirmed", fields, told)

    _alone(authorise)
    action.refresh_from_db()
    return action


def approve(site: Site, action: Action, digest: str, reason: str, actor: Actor, now: Clock = time.time) -> Action:
    """The second person: an approver, another one than the first, and not at a console, where a name proves nothing."""
    _still_proposed(action, now())
    if not (action.needs_second and action.confirmed_by):
        raise Refused("no-second-needed")
    if actor.role != "approver":
        raise Refused("not-approver")
    if actor.via == "console" or action.confirmed_via == "console":
        raise Refused("console")
    if actor.name in {action.confirmed_by, action.proposed_by}:
        raise Refused("same-person", by=action.confirmed_by)
    if digest != action.digest:
        raise Refused("other-plan")
    if not reason.strip():
        raise Refused("no-reason")

    def authorise() -> None:
        facts, _ = _check_again(site, action, msgspec.convert(action.waivers, list[Waiver]), actor, now)
        at = now()
        fields = {"second_by": actor.name[:LONGEST_ACTOR], "second_at": at}
        _begin(action, facts, at, "approved", fields, {"reason": quoted(reason), "digest": digest})

    _alone(authorise)
    action.refresh_from_db()
    return action


def stop(action: Action, actor: Actor, now: Clock = time.time) -> Action:
    """Ask an action to stop: it does between two requests, and says in which condition it leaves the node. A proposal that nobody
    has confirmed is withdrawn at once."""
    at = now()
    if action.state in ENDED:
        raise Refused("ended", state=action.state)
    with transaction.atomic():
        if action.state == ActionState.PROPOSED:
            change(action, ActionState.REFUSED, actor, at, "withdrawn", outcome={"why": "withdrawn"})
        elif Action.objects.filter(pk=action.pk, state__in=RUNNABLE, stop_at=None).update(
            stop_by=actor.name[:LONGEST_ACTOR], stop_at=at, due_at=at
        ):
            tell(action, actor, "stop-asked", at)
    action.refresh_from_db()
    return action


def expire(now: float) -> int:
    """End every proposal that nobody confirmed in time."""
    count = 0
    for action in Action.objects.filter(state=ActionState.PROPOSED, expires_at__lt=now):
        with transaction.atomic():
            count += change(
                action, ActionState.EXPIRED, VIGIE, now, "expired", outcome={"why": "not-confirmed"}, quiet=True
            )
    return count


VIGIE = Actor("vigie", "", "vigie")


def plan_of(action: Action) -> Plan:
    return msgspec.convert(action.plan, Plan)


def change(
    action: Action,
    to: ActionState,
    actor: Actor,
    at: float,
    what: str,
    *,
    outcome: Mapping[str, Any] | None = None,
    quiet: bool = False,
    **fields: Any,
) -> bool:
    """Move an action to another state, if it is still in the one that we know, with the entry that tells of it. Raises Refused
    ("superseded") when somebody was faster; `quiet` gives False instead. Call within a transaction."""
    if to not in LIFECYCLE[ActionState(action.state)]:
        raise Refused("superseded", state=action.state)
    if to in ENDED:
        fields |= {"ended_at": at, "due_at": None, "claimed_by": "", "claim_until": 0.0}
    if outcome is not None:
        fields["outcome"] = quoted(outcome)
    if not Action.objects.filter(pk=action.pk, state=action.state).update(state=to, **fields):
        if quiet:
            return False
        raise Refused("superseded", state=action.state)
    action.state = to
    tell(action, actor, what, at, **(outcome or {}))
    return True


def tell(action: Action, actor: Actor, what: str, at: float, **facts: Any) -> None:
    """An audit entry about an action. Call within the transaction of what it tells of."""
    audit.append(
        Entry(
            at=at,
            actor=quoted(actor.name)[:LONGEST_ACTOR],
            via=actor.via,
            what=what,
            cluster=action.cluster,
            action=action.pk,
            kind=action.kind,
            target=action.target,
            facts=quoted(facts),
        )
    )


def _still_proposed(action: Action, now: float) -> None:
    if action.state != ActionState.PROPOSED:
        raise Refused("ended" if action.state in ENDED else "confirmed-already", state=action.state)
    if now > action.expires_at:
        raise Refused("expired")


def _check_again(
    site: Site, action: Action, waivers: list[Waiver], actor: Actor, now: Clock
) -> tuple[Facts, list[Waiver]]:
    """All guards on fresh facts, and those of the waivers that lift something. What has changed since the plan was shown is
    refused, with the new checks: what somebody typed a name under has to be what happens. A waiver is for a block that was shown:
    another finding of the same guard about the same pod stands, and a waiver that lifts nothing now will lift nothing later."""
    shown = plan_of(action)
    chosen = {name: str(value) for name, value in shown.options if name in ACTIONS[action.kind].options}
    facts = _collected(site, action.kind, action.target, chosen, actor, now)
    plan = actions.plan(facts, action.reason)
    _unless_superseded(action, shown, plan, actor, now())
    seen = {(check.key, check.reason) for check in shown.blocks}
    given = [waiver for waiver in waivers if any(check.key == waiver.check for check in plan.blocks)]
    unseen = [check for check in plan.blocks if (check.key, check.reason) not in seen]
    if blocks := tuple(dict.fromkeys((*guards.standing(plan.checks, given), *unseen))):
        with transaction.atomic():
            tell(action, actor, "refused", now(), **against(blocks))
        raise Refused("blocked", blocks)
    if _decided(plan) != _decided(shown):
        with transaction.atomic():
            tell(action, actor, "refused", now(), why="changed", pods=list(plan.pods))
        raise Refused("changed", plan.checks)
    return facts, given


def _unless_superseded(action: Action, shown: Plan, plan: Plan, actor: Actor, at: float) -> None:
    """A Service changes with every switch, and its plan is for one version of it: somebody who was faster has made this one void,
    whoever it was. Raises Refused."""
    if ACTIONS[action.kind].subject is not Subject.SERVICE:
        return
    other = next((dict(check.evidence).get("action") for check in plan.blocks if check.guard == "alone"), None)
    if other is None and dict(plan.seen).get("service") == dict(shown.seen).get("service"):
        return
    by = str(other or faster(action, shown.made_at))
    with transaction.atomic():
        change(action, ActionState.REFUSED, actor, at, "superseded", outcome={"why": "superseded", "by": by})
    raise Refused("superseded", by=by)


def faster(action: Action, since: float) -> str:
    """The last action on the same target that was confirmed since then; "" none of ours."""
    others = Action.objects.filter(cluster=action.cluster, target=action.target, confirmed_at__gte=since)
    found = others.exclude(pk=action.pk).order_by("-confirmed_at").first()
    return found.name if found else ""


def saves_first(plan: Plan) -> bool:
    return SAVE_FIRST in plan.options


def _decided(plan: Plan) -> tuple[Any, ...]:
    """What a plan would touch, as it was: the target, the pods that go, and those that are asked to save."""
    return plan.target_uid, plan.pods, plan.seen, [(save.workload, save.uid, save.hook) for save in plan.saves]


class _OvertakenError(Exception):
    """Another action was confirmed after this one's facts had been read."""


def _alone(authorise: Callable[[], None]) -> None:
    """Confirmations count one after the other: one that was overtaken looks at everything once more, and sees the other one's
    node emptied and its pods in the places where they go. Raises Refused when others are faster again and again."""
    for _ in range(OVERTAKEN_TIMES):
        try:
            return authorise()
        except _OvertakenError:
            continue
    raise Refused("superseded")


def _ask_second(action: Action, actor: Actor, at: float, fields: dict[str, Any], told: dict[str, Any]) -> None:
    with transaction.atomic():
        asked = Action.objects.filter(pk=action.pk, state=ActionState.PROPOSED, confirmed_by="")
        if not asked.update(**fields, needs_second=True, expires_at=at + plans.LIVES_S):
            raise Refused("superseded")
        tell(action, actor, "confirmed-first", at, **told)


def _begin(
    action: Action,
    facts: Facts,
    at: float,
    what: str,
    fields: dict[str, Any],
    told: dict[str, Any],
) -> None:
    """Confirm for good: from here the row is in the queue. The entry locks the end of the chain, so that what is under way then
    is what the guards have seen, or this is undone. Raises _OvertakenError."""
    plan, actor = plan_of(action), facts.actor
    before = ActionState(action.state)
    with transaction.atomic():
        if not Action.objects.filter(pk=action.pk, state=ActionState.PROPOSED).update(
            **fields, state=ActionState.CONFIRMED, due_at=at, expires_at=at + BEGIN_WITHIN_S
        ):
            raise Refused("superseded")
        action.state = ActionState.CONFIRMED
        tell(action, actor, what, at, **told)
        if not {*under_way(action.cluster, besides=action.pk)} <= {*facts.running}:
            action.state = before
            raise _OvertakenError
        ActionStep.objects.bulk_create(
            ActionStep(
                action=action,
                position=n,
                kind=step.kind,
                subject=step.subject,
                state=StepState.TODO,
                facts=dict(step.facts) | {"deadline_s": step.deadline_s},
            )
            for n, step in enumerate(plan.steps)
        )
        ActionLane.objects.bulk_create(
            ActionLane(
                action=action, uid=pod.uid, namespace=pod.namespace, name=pod.name, place=n, state=LaneState.QUEUED
            )
            for n, pod in enumerate(pod for pod in plan.loss.pods if pod.evicted and ACTIONS[action.kind].empties)
        )


def _collected(site: Site, kind: str, target: str, options: Mapping[str, str], actor: Actor, now: Clock) -> Facts:
    try:
        if ACTIONS[kind].subject is not Subject.NODE:
            return survey(site, kind, target, options, actor, now, save_first=SAVE_FIRST in options.items())
        return collect(site, kind, target, actor, now, save_first=SAVE_FIRST in options.items())
    except PortError as error:
        raise Refused("cluster-away", message=str(error)[:300]) from error
