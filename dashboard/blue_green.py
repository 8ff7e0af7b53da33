"""The pages about blue/green: every Service with two sides, and one of them.

Must not hold markup, words or rules: view models come from `dashboard.panels`. Both read the cluster afresh, at most every few
seconds, since the picture holds no selectors. Whoever looks at one pair asks for the same markup again (`?part=live`): when the
socket says that a side's rollout has changed, and every three seconds, since a Service may be switched from elsewhere.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import access, rights
from dashboard.pages import not_yet, page, read, readable
from dashboard.panels import buttons, pair_tests
from dashboard.panels import pair as panel
from dashboard.panels.words import Clock, Text, say
from dashboard.roles import Role
from fleet import wiring
from fleet.act.sides import Opened, Shown
from fleet.domain.actions import ACTIONS
from fleet.domain.blue_green import Pair
from fleet.domain.changes import Screen
from fleet.domain.facts import Right
from fleet.domain.kinds import Subject
from fleet.domain.picture import Snapshot
from fleet.domain.plans import ActionState, StepKind
from fleet.models import Action, ActionStep

log = structlog.get_logger(__name__)

WAITS_S = 0.3  # a page of a cluster that does not answer comes without the link
_pool = ThreadPoolExecutor(2, thread_name_prefix="sides")


@require_safe
@readable
def blue_green(request: HttpRequest, cluster: str) -> HttpResponse:
    read(cluster)  # a cluster that is not configured has no page
    listed = wiring.sides().listed(cluster)
    shown = [_shown(one) for one in listed.pairs or ()]
    context = {"here": "rollouts", "read_at": listed.at, "unanswered": listed.pairs is None, "pairs": shown}
    return page(request, "blue-green.html", cluster, context)


def _shown(one: Shown) -> dict[str, Any]:
    namespace, _, name = one.pair.service.partition("/")
    return {
        "pair": one.pair,
        "namespace": namespace,
        "name": name,
        "head": panel.head(one.pair),
        "spare": panel.gpus(one.pair.spare_gpus, ""),
        "back_at": one.back.at if one.back else None,
        "sides": [(side, side.key.partition("/")[0], side.key in one.pair.live) for side in one.pair.sides],
    }


@require_safe
@readable
def pair(request: HttpRequest, cluster: str, namespace: str, name: str) -> HttpResponse:
    """One Service with two sides; 404, with how to make it one, for any other."""
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": Screen.ROLLOUTS.value})
    opened = wiring.sides().opened(cluster, namespace, name)
    context: dict[str, Any] = {"here": "rollouts", "published": published, "namespace": namespace, "name": name}
    if opened is None:
        return page(request, "pair-unanswered.html", cluster, context)
    if opened.known.pair is None:
        return page(request, "no-pair.html", cluster, context | {"there": opened.known.service is not None}, status=404)
    context |= {"view": {"screen": Screen.ROLLOUTS.value}}
    context |= _pair(request, cluster, opened, opened.known.pair, published.snapshot)
    template = "vigie/pair.html" if request.GET.get("part") == "live" else "pair.html"
    return page(request, template, cluster, context)


def _pair(request: HttpRequest, cluster: str, opened: Opened, found: Pair, snapshot: Snapshot) -> dict[str, Any]:
    role = access.role_of(request.user, cluster)
    off = _off(cluster, role, opened.known.namespace)
    return {
        "read_at": opened.at,
        "pair": found,
        "head": panel.head(found),
        "owned": panel.owned(found),
        "cards": panel.cards(opened, snapshot, role, off),
        "others": say("pair.others", n=opened.others) if opened.others else "",
        "back": panel.back(opened, wiring.policies().blue_green.keep_s, role, off),
        "turns": panel.turns(opened),
        "price": panel.price(opened, snapshot, role, off),
        "asked": pair_tests.asked(opened),
        **_ledger(cluster, opened, found),
    }


def _off(cluster: str, role: Role | None, namespace: str) -> Mapping[str, Text]:
    """Why each kind is not for this person or this cluster."""
    changeable = rights.changeable(cluster)
    service = rights.changes(cluster, role, Right("patch", "services", namespace))
    workload = rights.changes_workload(cluster, role, "Deployment", namespace)
    allowed = {"switch": service, "way-back": service, "retire": workload, "create-green": workload}
    kinds = [kind.name for kind in ACTIONS.values() if kind.subject is Subject.SERVICE]
    return {kind: buttons.why_off(role, changeable=changeable, allowed=allowed[kind]) for kind in kinds}


# What the ledger knows of it


def _ledger(cluster: str, opened: Opened, found: Pair) -> dict[str, Any]:
    of = Action.objects.filter(cluster=cluster)
    near = [opened.known.target, *(side.key for side in found.sides)]
    going = of.filter(target__in=near, state__in=[ActionState.CONFIRMED, ActionState.RUNNING]).order_by("pk")
    tests = (
        ActionStep.objects.filter(action__cluster=cluster, action__target=opened.known.target, kind=StepKind.SMOKE)
        .exclude(started_at=None)
        .select_related("action")
        .prefetch_related("action__steps")
        .order_by("-action")[: pair_tests.MOST]
    )
    return {
        "going": [(one, say(f"act.doing.{one.kind}", node=one.target.rpartition("/")[2])) for one in going],
        "tested": pair_tests.tested(tests),
        **_last(opened, of),
    }


def _last(opened: Opened, of: Any) -> dict[str, Any]:
    """The last switch, if it still stands: the Service's own note names its action."""
    way = opened.known.way_back
    if way is None:
        return {"last": "", "last_action": None, "since": None}
    number = way.action.rpartition("-")[2]
    mine = of.filter(target=opened.known.target, kind__in=("switch", "way-back"))
    found = mine.filter(pk=int(number)).first() if number.isdecimal() else None
    at = Clock(float(int(way.at)))
    if found is None:
        return {"last": say("pair.last.unknown", time=at), "last_action": None, "since": way.at}
    by = found.confirmed_by or found.proposed_by
    return {"last": say(f"pair.last.{found.kind}", time=at, by=by), "last_action": found, "since": way.at}


def service_of(cluster: str, workload: str) -> str:
    """The name of the Service that a workload is a side of; "" for none, or none that is known within a moment."""
    try:
        return _pool.submit(wiring.sides().service_of, cluster, workload).result(WAITS_S)
    except Late:
        return ""
    except Exception as error:  # noqa: BLE001 -- whatever it is, the page of a rollout does not need the link
        log.warning("sides could not be read", cluster=cluster, reason=type(error).__name__)
        return ""
