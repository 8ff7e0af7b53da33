"""The pages about actions: ask for one, its plan, how it runs, how it ended; and what people do on them.

Owns which template answers, and what of a form goes where. Must not decide whether anything may be done: `fleet.act` does, with
the role that somebody has on the action's own cluster. All forms work without script; what script shows comes from the ledger.
"""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import access, celery, rights, targets
from dashboard.pages import page
from dashboard.panels import buttons, checks, ends, lanes, losses, plan, steps, strategies, trail
from dashboard.panels.words import Text, say
from fleet import act, wiring
from fleet.act import Actor, Refused
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import SAVE_FIRST, Danger, Subject, named
from fleet.domain.plans import ENDED, LIVES_S, ActionState, Plan
from fleet.models import Action, AuditEntry

STATUS = {
    "unknown-kind": HTTPStatus.NOT_FOUND,
    "no-option": HTTPStatus.UNPROCESSABLE_ENTITY,
    "long-option": HTTPStatus.UNPROCESSABLE_ENTITY,
    "no-reason": HTTPStatus.UNPROCESSABLE_ENTITY,
    "long-reason": HTTPStatus.UNPROCESSABLE_ENTITY,
    "no-waiver-reason": HTTPStatus.UNPROCESSABLE_ENTITY,
    "other-name": HTTPStatus.UNPROCESSABLE_ENTITY,
    "not-approver": HTTPStatus.FORBIDDEN,
    "same-person": HTTPStatus.FORBIDDEN,
    "console": HTTPStatus.FORBIDDEN,
    "cluster-away": HTTPStatus.SERVICE_UNAVAILABLE,
}


@require_http_methods(["GET", "HEAD", "POST"])
def propose(request: HttpRequest, cluster: str, node: str, kind: str) -> HttpResponse:
    """Ask for an action on a node."""
    return _propose(request, cluster, node, kind, Subject.NODE)


@require_http_methods(["GET", "HEAD", "POST"])
def propose_release(request: HttpRequest, cluster: str, of: str, namespace: str, name: str, kind: str) -> HttpResponse:
    """Ask for an action on a workload or a Service."""
    subject = Subject.SERVICE if of == "Service" else Subject.WORKLOAD
    return _propose(request, cluster, f"{of}/{namespace}/{name}", kind, subject)


def _propose(request: HttpRequest, cluster: str, target: str, kind: str, subject: Subject) -> HttpResponse:
    """What can be undone is done at once if nothing blocks it; everything else gets a plan first."""
    if kind not in ACTIONS or ACTIONS[kind].subject is not subject:
        raise Http404
    if request.method != "POST":
        return _asked(request, cluster, target, kind)
    actor, site, reason = _actor(request, cluster), wiring.site(cluster), request.POST.get("reason", "")
    options = {name: value for name in ACTIONS[kind].options if (value := request.POST.get(name, ""))}
    try:
        found = act.propose(site, kind, target, reason, actor, options=options)
    except Refused as refused:
        return _asked(request, cluster, target, kind, refused)
    if ACTIONS[kind].danger is Danger.REVERSIBLE and not act.plan_of(found).blocks:
        return _done(request, found, lambda: act.confirm(site, found, found.digest, "", {}, actor))
    return _to(found)


def _asked(request: HttpRequest, cluster: str, target: str, kind: str, refused: Refused | None = None) -> HttpResponse:
    role, given = access.role_of(request.user, cluster), request.POST or request.GET
    context = {
        "here": "actions",
        **targets.shown(cluster, kind, target),
        "kind": kind,
        "options": [
            (name, given.get(name, "")[: act.LONGEST_OPTION]) for name in ACTIONS[kind].options if name != SAVE_FIRST[0]
        ],
        "quick": ACTIONS[kind].danger is Danger.REVERSIBLE,
        "saves": SAVE_FIRST[0] in ACTIONS[kind].options,
        "save_first": bool(request.POST.get("save")),
        "title": say(f"act.do.{kind}", node=named(target)),
        "means": say(f"act.means.{kind}"),
        "off": buttons.why_off(
            role, changeable=rights.changeable(cluster), allowed=targets.changes(cluster, role, kind, target)
        ),
        "refusal": _refusal(refused),
        "reason": request.POST.get("reason", ""),
        "longest": act.LONGEST_REASON,
        "longest_option": act.LONGEST_OPTION,
    }
    return page(request, "propose.html", cluster, context, status=_status(refused))


@require_safe
@gzip_page
def action(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    """One action: its plan, how it runs, or how it ended. `?part=live`: only what changes while somebody looks."""
    return _shown(request, _found(cluster, number))


@require_POST
def confirm(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    found, actor = _found(cluster, number), _actor(request, cluster)
    waivers = checks.lifted(act.plan_of(found).checks, _waivers(request.POST))
    if not all(why.strip() for why in waivers.values()):
        return _shown(request, found, Refused("no-waiver-reason"), waivers)
    digest, typed = request.POST.get("digest", ""), request.POST.get("typed", "")
    site = wiring.site(cluster)
    return _done(request, found, lambda: act.confirm(site, found, digest, typed, waivers, actor), waivers)


@require_POST
def approve(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    found, actor, site = _found(cluster, number), _actor(request, cluster), wiring.site(cluster)
    digest, reason = request.POST.get("digest", ""), request.POST.get("reason", "")
    return _done(request, found, lambda: act.approve(site, found, digest, reason, actor))


@require_POST
def stop(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    found, actor = _found(cluster, number), _actor(request, cluster)
    return _done(request, found, lambda: act.stop(found, actor))


# What people do


def _actor(request: HttpRequest, cluster: str) -> Actor:
    return Actor(request.user.get_username(), access.role_of(request.user, cluster) or "", "web")


def _found(cluster: str, number: int) -> Action:
    found = Action.objects.filter(cluster=cluster, pk=number).first()
    if found is None:
        raise Http404
    return found


def _done(
    request: HttpRequest, found: Action, work: Callable[[], Action], waivers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Do it and show the action; or show it as it is, with why not."""
    try:
        changed = work()
    except Refused as refused:
        return _shown(request, _found(found.cluster, found.pk), refused, waivers)
    if changed.state == ActionState.CONFIRMED or changed.stop_at is not None:
        celery.run_soon(changed.pk)
    return _to(changed)


def _to(found: Action) -> HttpResponse:
    return redirect("action", cluster=found.cluster, number=found.pk)


def _waivers(form: Mapping[str, Any]) -> dict[str, str]:
    """The reasons of what was ticked."""
    keys = form.getlist("waive")  # type: ignore[attr-defined]
    return {key: form.get(f"why:{key}", "") for key in keys}


def _refusal(refused: Refused | None) -> dict[str, Any] | None:
    """Why not, and what stands against it."""
    if refused is None:
        return None
    values = {"by": "", "message": "", "target": "", **refused.facts}
    found = checks.findings(refused.checks, None)
    return {"words": say(f"act.no.{refused.why}", **values), "blocks": found.blocks}


def _status(refused: Refused | None) -> int:
    return HTTPStatus.OK if refused is None else STATUS.get(refused.why, HTTPStatus.CONFLICT)


# What is shown


def _shown(
    request: HttpRequest,
    found: Action,
    refused: Refused | None = None,
    waivers: Mapping[str, str] | None = None,
) -> HttpResponse:
    now, made = time.time(), act.plan_of(found)
    phase = _phase(found)
    name = phase.split(":")[0]
    context: dict[str, Any] = {
        "here": "actions",
        "follows": name != "done",
        "phase": phase,
        "action": found,
        "kind": ACTIONS[found.kind],
        "refusal": _refusal(refused),
        "do": say(f"act.do.{found.kind}", node=named(found.target)),
        **targets.shown(found.cluster, found.kind, found.target),
    }
    role = access.role_of(request.user, found.cluster)
    if found.state == ActionState.PROPOSED:
        context |= _proposed(request, found, made, now) | _findings(found, made, role, waivers, now)
    else:
        context |= _going(found, made, now)
    part = request.GET.get("part") == "live"
    template = f"vigie/{name}.html" if part else f"{name}.html"
    return page(request, template, found.cluster, context, status=_status(refused))


def _phase(found: Action) -> str:
    """What the page is; when it changes, those who look at it get the other page."""
    if found.state == ActionState.PROPOSED:
        return f"plan:{found.confirmed_by}"
    return "done" if found.state in ENDED else "run"


def _proposed(request: HttpRequest, found: Action, made: Plan, now: float) -> dict[str, Any]:
    left_s = max(0, int(found.expires_at - now))
    return {
        "title": plan.title(found),
        "expired": left_s < 1,
        "left_s": left_s,
        "until": int(found.expires_at),
        "lives_s": int(LIVES_S),
        "left": say("age.min-s", n=left_s // 60, s=left_s % 60),
        "read_at": made.read_at,
        "figures": losses.figures(made.loss),
        "hours": losses.hours(made.loss),
        "loss_level": losses.level(made.loss),
        **_losses(losses.lines(made.loss, made.saves, made.kind)),
        "stays": losses.stays(made.loss),
        "stay": say("act.loss.stays", n=len(losses.stays(made.loss))),
        "coming": plan.steps(made),
        "advice": strategies.advised(made.advice) if made.advice else None,
        "differences": made.differences,
        "save_first": act.saves_first(made),
        "can_save_first": losses.can_save_first(made.loss),
        "commands": plan.commands(made),
        "typed": request.POST.get("typed", ""),
        "reason": request.POST.get("reason", ""),
        "leave": say("act.leave", node=named(found.target)),
        "options": [(name, value) for name, value in made.options if name != SAVE_FIRST[0]],
        "mine": request.user.get_username() in {found.confirmed_by, found.proposed_by},
    }


def _losses(lines: list[losses.Line]) -> dict[str, Any]:
    shown, rest = losses.dearest(lines)
    return {"lines": shown, "rest": rest, "more": say("act.loss.more", n=len(rest))}


def _findings(
    found: Action, made: Plan, role: access.Role | None, waivers: Mapping[str, str] | None, now: float
) -> dict[str, Any]:
    """What the guards found, and whether the button is on for somebody of this role."""
    expired = found.expires_at - now < 1
    told = checks.findings(made.checks, role, waivers)
    return {
        "found": told,
        "counts": [
            ("warn", "s-warn", say("act.tag.warnings", n=plan.count(told.warnings))) if told.warnings else None,
            ("ok", "s-ok", say("act.tag.passed", n=len(told.passed))),
        ],
        "passed": say("act.tag.passed", n=len(told.passed)),
        "tag": plan.tag(found, told, expired=expired),
        "verdict": plan.verdict(found, made, told, expired=expired),
        "off": _off(found, made, role, expired=expired),
        "waivable": bool(told.blocks) and checks.all_liftable(made.checks, role),
    }


def _off(found: Action, made: Plan, role: access.Role | None, *, expired: bool) -> Text:
    """Why the button is off, "" when the server would look at what it sends."""
    if expired:
        return say("act.off.expired")
    if off := buttons.why_off(role, changeable=rights.changeable(found.cluster), allowed=None):
        return off
    return "" if checks.all_liftable(made.checks, role) else say("act.off.blocked")


def _going(found: Action, made: Plan, now: float) -> dict[str, Any]:
    stages, rows = list(found.steps.all()), list(found.lanes.all())
    told = AuditEntry.objects.filter(action=found.pk).order_by("-number")[: trail.LONGEST_LOG]
    return {
        "title": ends.headline(found),
        "tag": ends.tag(found) if found.state in ENDED else lanes.tag(found, rows),
        "sentences": ends.sentences(found, stages, rows),
        "empties": ACTIONS[found.kind].empties and bool(rows),
        "progress": lanes.progress(stages, rows, made, now),
        "axis": lanes.axis(found, now),
        "lanes": lanes.lanes(found, rows, made, now),
        "stages": steps.stages(stages),
        "promises": ends.promises(found, made, rows, stages),
        "recoveries": ends.recoveries(rows, made),
        "log": trail.log(told, rows),
        "stop": say(f"act.stop.{found.kind}", node=named(found.target)),
        "leaves": _leaves(found),
        "by_hand": steps.by_hand(stages),
        "again_title": buttons.title(found.kind, named(found.target)),
        "again": found.state in {ActionState.EXPIRED, ActionState.REFUSED, ActionState.FAILED, ActionState.STOPPED},
    }


def _leaves(found: Action) -> Text:
    if found.stop_at is not None:
        return say("act.stop-leaves.asked", by=found.stop_by)
    return say("act.stop-leaves.empties" if ACTIONS[found.kind].empties else "act.stop-leaves.light")
