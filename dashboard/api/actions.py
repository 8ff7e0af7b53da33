"""The operations of the API about actions: plans, confirmations, how actions go, and the audit.

Owns their addresses, parameters and shapes. Must not decide whether anything may be done: `fleet.act` does, with the role that
the account has on the action's own cluster. What changes something takes a token; a browser's session is for pages.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Field, Query, Router, Schema
from ninja.security import HttpBearer

from dashboard import access, celery, errors
from dashboard.api.answers import Refused as NoAnswer
from dashboard.api.answers import chosen
from dashboard.api.parameters import CLUSTER
from dashboard.panels import checks
from dashboard.roles import Role
from fleet import act, wiring
from fleet.act import Actor
from fleet.domain.actions import ACTIONS
from fleet.domain.plans import ENDED, ActionState, Check
from fleet.models import Action, AuditEntry

router = Router()

CONSOLE = "Vigie-Console-User"
EVERY_S = 1.0


class Token(HttpBearer):
    """Only a token changes something: the gate has recognised it, and looked at its scope."""

    def authenticate(self, request: HttpRequest, _token: str) -> object:
        return access.token_of(request)


OPTIONS = (
    'What you choose. Wherever pods end: {"save": "first"}, workloads that declare how save a checkpoint before they go. '
    'undo: revision. set-image: image ("repo/llm:2", or "server=repo/llm:2, proxy=repo/proxy:3"). scale: replicas. switch: side '
    "(name of the workload that shall serve), smoke (a request as JSON). retire: side. create-green: version, image, name, side."
)


class Proposal(Schema):
    kind: str = Field(max_length=20, description=", ".join(ACTIONS))
    target: str = Field(
        min_length=1,
        max_length=253,
        description="Name of the node, or Deployment/namespace/name, or Service/namespace/name",
    )
    reason: str = Field(max_length=500, description="Why; it is kept on the node and in the audit")
    cluster: str = Field("", max_length=253, description=CLUSTER)
    options: dict[str, str] = Field({}, description=OPTIONS)


class Confirmation(Schema):
    digest: str = Field(max_length=64, description="Of the plan that you have seen")
    typed: str = Field("", max_length=253, description="The target's name, where pods have to go")
    waivers: dict[str, str] = Field({}, description="By `key` of a check: why you lift it")


class Approval(Schema):
    digest: str = Field(max_length=64, description="Of the plan that you have seen")
    reason: str = Field(max_length=500, description="Why you agree")


class ActionsWanted(Schema):
    cluster: str = Field("", max_length=253, description=CLUSTER)
    state: str = Field("", max_length=20)
    target: str = Field("", max_length=253)
    before: int | None = Field(None, description="Only those with a lower number")
    limit: int = Field(50, ge=1, le=500)


class AuditWanted(Schema):
    cluster: str = Field("", max_length=253, description=CLUSTER)
    actor: str = Field("", max_length=150)
    what: str = Field("", max_length=60)
    action: int | None = None
    before: int | None = Field(None, description="Only entries with a lower number")
    limit: int = Field(100, ge=1, le=1000)


@router.post("/plans", url_name="plans", auth=Token())
def propose(request: HttpRequest, body: Proposal) -> HttpResponse:
    """Compute a plan on fresh facts: what would be lost, every check, the steps, and for a new version the strategies that it
    could take (`advice`). Nothing happens to the cluster."""
    cluster = chosen(request, body.cluster)
    actor, site = _actor(request, cluster, Role.OPERATOR), wiring.site(cluster)
    action = _done(lambda: act.propose(site, body.kind, body.target, body.reason, actor, options=body.options))
    return _json(shown_plan(action), HTTPStatus.CREATED)


@router.get("/plans/{number}", url_name="plan")
def plan(request: HttpRequest, number: int) -> HttpResponse:
    """A plan as it was computed."""
    return _json(shown_plan(_action(request, number)))


@router.post("/plans/{number}/confirm", url_name="plan-confirm", auth=Token())
def confirm(request: HttpRequest, number: int, body: Confirmation) -> HttpResponse:
    """Do what the plan says. All checks run again on fresh facts first; where policy asks for it, somebody else has to agree."""
    action = _action(request, number)
    actor, site = _actor(request, action.cluster, Role.OPERATOR), wiring.site(action.cluster)
    return _json(shown(_done(lambda: act.confirm(site, action, body.digest, body.typed, body.waivers, actor))))


@router.post("/plans/{number}/approve", url_name="plan-approve", auth=Token())
def approve(request: HttpRequest, number: int, body: Approval) -> HttpResponse:
    """Be the second person."""
    action = _action(request, number)
    actor, site = _actor(request, action.cluster, Role.APPROVER), wiring.site(action.cluster)
    return _json(shown(_done(lambda: act.approve(site, action, body.digest, body.reason, actor))))


@router.get("/actions", url_name="actions")
def actions(request: HttpRequest, wanted: Query[ActionsWanted]) -> HttpResponse:
    """Actions of one cluster, the newest first."""
    found = Action.objects.filter(cluster=chosen(request, wanted.cluster)).order_by("-pk")
    if wanted.state:
        found = found.filter(state=wanted.state)
    if wanted.target:
        found = found.filter(target=wanted.target)
    if wanted.before is not None:
        found = found.filter(pk__lt=wanted.before)
    rows = list(found.prefetch_related("steps", "lanes")[: wanted.limit])
    return _json({"items": [shown(row) for row in rows], "next": rows[-1].pk if len(rows) == wanted.limit else None})


@router.get("/actions/{number}", url_name="action")
def action(request: HttpRequest, number: int) -> HttpResponse:
    """How an action goes: its state, steps and pods."""
    return _json(shown(_action(request, number)))


@router.get("/actions/{number}/events", url_name="action-events")
def follow(request: HttpRequest, number: int) -> StreamingHttpResponse:
    """Server-Sent Events: `action` whenever something about it has changed, until it has ended."""
    found = _action(request, number)
    return StreamingHttpResponse(
        _events(found.pk), content_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _events(pk: int) -> AsyncIterator[bytes]:
    last = b""
    while True:
        found = await sync_to_async(lambda: shown(Action.objects.prefetch_related("steps", "lanes").get(pk=pk)))()
        text = msgspec.json.encode(found)
        if text != last:
            yield b"event: action\ndata: " + text + b"\n\n"
            last = text
        if found["state"] in ENDED:
            return
        await asyncio.sleep(EVERY_S)


@router.post("/actions/{number}/stop", url_name="action-stop", auth=Token())
def stop(request: HttpRequest, number: int) -> HttpResponse:
    """Stop between two requests. What has been asked for goes on by itself; the node stays cordoned."""
    found = _action(request, number)
    actor = _actor(request, found.cluster, Role.OPERATOR)
    return _json(shown(_done(lambda: act.stop(found, actor))))


@router.get("/audit", url_name="audit")
def audit(request: HttpRequest, wanted: Query[AuditWanted]) -> HttpResponse:
    """What people and Vigie did, the newest first. Entries are never changed; each seals the one before."""
    found = AuditEntry.objects.filter(cluster=chosen(request, wanted.cluster)).order_by("-number")
    if wanted.actor:
        found = found.filter(actor=wanted.actor)
    if wanted.what:
        found = found.filter(what=wanted.what)
    if wanted.action is not None:
        found = found.filter(action=wanted.action)
    if wanted.before is not None:
        found = found.filter(number__lt=wanted.before)
    rows = list(found.values()[: wanted.limit])
    return _json({"items": rows, "next": rows[-1]["number"] if len(rows) == wanted.limit else None})


# Shapes


def shown_plan(found: Action) -> dict[str, Any]:
    """A plan for programs. Checks and steps as tokens with their facts; checks also in a sentence of the asker's language."""
    made = act.plan_of(found)
    now = time.time()
    return {
        "id": found.pk,
        "name": found.name,
        "cluster": found.cluster,
        "kind": found.kind,
        "target": found.target,
        "reason": found.reason,
        "state": found.state,
        "digest": found.digest,
        "made_at": made.made_at,
        "expires_at": found.expires_at,
        "needs_second": found.needs_second,
        "options": dict(made.options),
        "loss": msgspec.to_builtins(made.loss),
        "checks": [{**shown_check(check, now), "evidence": dict(check.evidence)} for check in made.checks],
        "steps": [{**msgspec.to_builtins(step), "facts": dict(step.facts)} for step in made.steps],
        "saves": [
            {"workload": save.workload, "pod": f"{save.namespace}/{save.pod}", "hook": save.hook} for save in made.saves
        ],
        "differences": msgspec.to_builtins(made.differences),
        "advice": msgspec.to_builtins(made.advice),
        "kubectl": list(made.kubectl),
    }


def shown_check(check: Check, now: float) -> dict[str, Any]:
    told = {"outcome": check.outcome.upper(), "key": check.key, "sentence": checks.sentence(check, now)}
    return {**msgspec.to_builtins(check), **told}


def shown(found: Action) -> dict[str, Any]:
    """An action for programs."""
    return {
        "id": found.pk,
        "name": found.name,
        "cluster": found.cluster,
        "kind": found.kind,
        "target": found.target,
        "reason": found.reason,
        "state": found.state,
        "digest": found.digest,
        "proposed_by": found.proposed_by,
        "proposed_at": found.proposed_at,
        "expires_at": found.expires_at,
        "needs_second": found.needs_second,
        "confirmed_by": found.confirmed_by,
        "confirmed_at": found.confirmed_at,
        "second_by": found.second_by,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "stop_by": found.stop_by,
        "waivers": found.waivers,
        "outcome": found.outcome,
        "steps": [_step(step) for step in found.steps.all()],
        "pods": [_lane(lane) for lane in found.lanes.all()],
    }


def _step(step: Any) -> dict[str, Any]:
    names = ("position", "kind", "subject", "state", "started_at", "deadline_at", "done_at", "tries", "evidence")
    return {name: getattr(step, name) for name in names}


def _lane(lane: Any) -> dict[str, Any]:
    names = ("uid", "namespace", "name", "state", "tries", "reason", "accepted_at", "gone_at", "replaced_at", "facts")
    return {name: getattr(lane, name) for name in names}


# Who, and what is refused


def _action(request: HttpRequest, number: int) -> Action:
    """An action of a cluster that the account may see. Raises Refused."""
    found = Action.objects.filter(pk=number, cluster__in=access.clusters_of(request)).first()
    if found is None:
        raise NoAnswer(HTTPStatus.NOT_FOUND, f"There is no action {number}.")
    return found


def _actor(request: HttpRequest, cluster: str, least: Role) -> Actor:
    """Who asks, with the role on this very cluster. At a console somebody may say who they are: it is recorded and proves
    nothing."""
    role = access.role_of(request.user, cluster)
    if role is None or not role.includes(least):
        raise NoAnswer(HTTPStatus.FORBIDDEN, f"This takes the role {least} on cluster {cluster}.")
    name, said = request.user.get_username(), request.headers.get(CONSOLE, "").strip()[:100]
    return Actor(f"{name} as {said}", role, "console") if said else Actor(name, role, "api")


WHY: Mapping[str, tuple[HTTPStatus, str]] = {
    "unknown-kind": (HTTPStatus.UNPROCESSABLE_ENTITY, "There is no such kind of action."),
    "no-option": (HTTPStatus.UNPROCESSABLE_ENTITY, "This kind of action has no such option."),
    "long-option": (HTTPStatus.UNPROCESSABLE_ENTITY, "An option is too long."),
    "no-reason": (HTTPStatus.UNPROCESSABLE_ENTITY, "Say why."),
    "long-reason": (HTTPStatus.UNPROCESSABLE_ENTITY, "The reason is too long."),
    "other-plan": (HTTPStatus.CONFLICT, "The digest is not that of this plan."),
    "other-name": (HTTPStatus.UNPROCESSABLE_ENTITY, "The name that was typed is not that of the target."),
    "expired": (HTTPStatus.CONFLICT, "The plan has expired. Compute it again."),
    "changed": (HTTPStatus.CONFLICT, "The cluster has changed since the plan was computed. Compute it again."),
    "blocked": (HTTPStatus.CONFLICT, "A check stands against it."),
    "superseded": (HTTPStatus.CONFLICT, "Somebody else was faster."),
    "confirmed-already": (HTTPStatus.CONFLICT, "It has been confirmed already."),
    "waits-for-second": (HTTPStatus.CONFLICT, "It has been confirmed and waits for a second person."),
    "no-second-needed": (HTTPStatus.CONFLICT, "It waits for nobody."),
    "not-approver": (HTTPStatus.FORBIDDEN, "A second person has to be an approver."),
    "same-person": (HTTPStatus.FORBIDDEN, "A second person has to be another one."),
    "console": (HTTPStatus.FORBIDDEN, "Somebody at a console never counts as a second person."),
    "cluster-away": (HTTPStatus.SERVICE_UNAVAILABLE, "The cluster cannot be read now."),
    "ended": (HTTPStatus.CONFLICT, "It has ended."),
}


def _done(work: Any) -> Action:
    """What `work` gives, or the problem that says why not."""
    try:
        found: Action = work()
    except act.Refused as refused:
        raise Problem(refused) from refused
    if found.state == ActionState.CONFIRMED or found.stop_at is not None:
        celery.run_soon(found.pk)
    return found


class Problem(Exception):  # noqa: N818  (an answer, not a failure)
    """Why `fleet.act` refuses, with the checks that stand."""

    def __init__(self, refused: act.Refused) -> None:
        super().__init__(refused.why)
        self.refused = refused

    def response(self) -> HttpResponse:
        status, detail = WHY[self.refused.why]
        now = time.time()
        found = [shown_check(check, now) for check in self.refused.checks]
        return errors.problem(status, detail, why=self.refused.why, checks=found, **self.refused.facts)


def _json(body: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    headers = {"Cache-Control": "no-store", "Vary": "Cookie, Authorization"}
    return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)
