"""The pages about rollouts: all of a cluster, and one of them.

Must not hold words, markup or rules: view models come from `dashboard.panels`, facts from the picture. Whoever looks at one hears
over the socket that something has changed, and asks for the same markup again (`?part=live`).
"""

import time
from typing import Any

from django.http import HttpRequest, HttpResponse

from dashboard import access, blue_green, crash_logs, restart_badges, revisions, rights
from dashboard.pages import not_yet, page, read, readable
from dashboard.panels import buttons, happenings, rollout_line, rollout_pods, rollout_reasons, strategies
from dashboard.panels import restart_badges as badges
from dashboard.panels import rollout as rollout_panel
from dashboard.panels import rollouts as panel
from dashboard.panels.words import say
from fleet.domain import rollout_detail, strategy
from fleet.domain.changes import Screen
from fleet.domain.picture import Snapshot
from fleet.domain.rollout_picture import RolloutRow

MOST_GPUS = 1_024  # of one pod that somebody may ask about


@readable
def rollouts(request: HttpRequest, cluster: str) -> HttpResponse:
    published, view = read(cluster), {"screen": Screen.ROLLOUTS.value}
    if published is None:
        return not_yet(request, cluster, view)
    found, choice = published.snapshot.rollouts, panel.Choice.of_query(request.GET)
    context = {
        "view": view,
        "published": published,
        "choice": choice,
        "kinds": panel.options(found, 0),
        "namespaces": panel.options(found, 1),
        "table": badges.joined(panel.table(found, choice), restart_badges.found(cluster, published.snapshot)),
        "counts": panel.counts(found, choice),
    }
    return page(request, "rollouts.html", cluster, context)


@readable
def rollout(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    """`?gpus=`: what a pod of the next version would ask for, for the advice. `?log`: with the last lines of what crashes."""
    published, key = read(cluster), f"{kind}/{namespace}/{name}"
    view = {"screen": Screen.ROLLOUT.value, "workload": key}
    if published is None:
        return not_yet(request, cluster, view)
    found = rollout_detail.detail(published.snapshot, key)
    if found is None:
        return page(request, "no-rollout.html", cluster, {"name": name}, status=404)
    now, role = time.time(), access.role_of(request.user, cluster)
    context = {
        "view": view,
        "published": published,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "row": found.row,
        "headline": rollout_panel.headline(found.row, now),
        "slots": rollout_panel.slots(found.row),
        **_buttons(request, cluster, found.row, name, namespace),
        "facts": rollout_panel.facts(found),
        "reasons": rollout_reasons.reasons(found),
        "said": crash_logs.said(cluster, found.row, role, asked="log" in request.GET),
        "wanted": say("rollout.wanted", n=found.row.desired),
        "nothing": say("rollout.nothing-holds"),
        "line": rollout_line.line(found, now),
        "happenings": happenings.happenings(found.happened),
        "pods": rollout_pods.pods(found, name),
        "side_of": blue_green.service_of(cluster, key),
        **revisions.shown(cluster, key, published.snapshot),
        **_advice(published.snapshot, key, request.GET.get("gpus", "")),
    }
    template = "vigie/rollout.html" if request.GET.get("part") == "live" else "rollout.html"
    return page(request, template, cluster, context)


def _buttons(request: HttpRequest, cluster: str, row: RolloutRow, name: str, namespace: str) -> dict[str, Any]:
    """What may be done to it, and why not."""
    role, changeable = access.role_of(request.user, cluster), rights.changeable(cluster)
    allowed = rights.changes_workload(cluster, role, row.kind, namespace)
    found = buttons.of_workload(row.kind, name, role, paused=row.paused, changeable=changeable, allowed=allowed)
    return {"buttons": found, "off": buttons.why_off(role, changeable=changeable, allowed=allowed)}


def _advice(snapshot: Snapshot, key: str, asked: str) -> dict[str, Any]:
    """What is no count of GPUs that a pod may have is not asked."""
    count = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 5 and int(asked) <= MOST_GPUS else None
    ground = strategy.ground(snapshot, key, count)
    return {"advice": strategies.advised(strategy.advise(ground)) if ground else None}
