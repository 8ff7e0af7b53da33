"""The frame of every page: in the reader's time zone, with what the top bar and the scripts need, or with why there is no page.

Owns what each page is given besides its own content. Must not know what any page shows.
"""

import functools
import time
import zoneinfo
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.gzip import gzip_page

from dashboard import access, errors, rights
from dashboard.panels import fleet, rollouts, words
from fleet import live, wiring
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Subject
from fleet.domain.picture import FleetRow, Snapshot
from fleet.domain.plans import ActionState
from fleet.models import Action

ZONE_COOKIE = "vigie-zone"  # the browser's time zone, set by script: times of events are shown in it
LATE_AFTER_S, LOST_AFTER_S = 10, 60  # as live/freshness.js
PLACEHOLDER = "~name~"  # where script puts a node's name into an address; a tilde is in no Kubernetes name


def readable(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For pages about machines: compressed, and while the picture's store cannot be reached, the page says so."""

    @functools.wraps(view)
    def shown(request: HttpRequest, cluster: str = "", **kwargs: str) -> HttpResponse:
        try:
            return view(request, cluster, **kwargs) if cluster else view(request, **kwargs)
        except live.PictureError:
            heading = _("The picture cannot be read")
            text = _("Vigie cannot reach its own store right now. It goes on trying; load the page again in a moment.")
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return page(request, "error.html", cluster, errors.context(request, status, heading, text), status=status)

    return gzip_page(shown)  # a map of a thousand nodes is 0.8 MB of repetition


def read(cluster: str) -> live.Published | None:
    """The cluster's picture; None before the first one. Raises Http404 when the cluster is not configured, and PictureError."""
    if cluster not in wiring.sites():
        raise Http404
    return live.picture().read(cluster)


def broken(pulse: live.Pulse) -> list[tuple[str, str, float]]:
    """The streams that are broken, with the moment since when: a page may be looked at for long."""
    now = int(time.time())
    return [(kind, reason, now - int(for_s)) for kind, reason, for_s in pulse.trouble]


def page(
    request: HttpRequest, template: str, cluster: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render in the reader's zone, with what the frame of every page and the scripts need."""
    now, published = time.time(), context.get("published")
    role = access.role_of(request.user, cluster or None)
    visible = access.clusters_of(request) if isinstance(request.user, User) else []
    near = cluster if cluster in visible else next(iter(visible), "")
    frame = {
        "now": now,
        "cluster": cluster,
        "clusters": visible,
        "near": near,  # where the navigation leads
        "under_way": _under_way(near),
        "behind": behind(published.snapshot) if published else None,
        "rolling": rollouts.moving(published.snapshot.rollouts) if published else 0,
        "role": role,
        "acts": _acts(role, cluster),
        "at": published.pulse.at if published else None,
        "fresh": freshness(published, now) if published else "",
        "script": {
            "cluster": cluster,
            "view": context.get("view"),
            "lang": get_language(),
            "words": words.catalogue(),
            "node_url": reverse("node", args=[cluster, PLACEHOLDER]) if cluster else "",
            "gpu_url": reverse("gpu", args=[cluster, PLACEHOLDER]) if cluster else "",
            "rollout_url": f"{reverse('rollouts', args=[cluster])}{PLACEHOLDER}/" if cluster else "",
            "training_url": f"{reverse('checkpoints', args=[cluster])}{PLACEHOLDER}/" if cluster else "",
            "page_urls": {name: reverse(name, args=[cluster]) for name in ("waiting", "workloads")} if cluster else {},
            "do_urls": _do_urls(cluster) if _acts(role, cluster) else {},
            "sign_in_url": reverse("sign-in"),
            "placeholder": PLACEHOLDER,
            "at": published.pulse.at if published else None,
            "loss": published.pulse.loss(now) if published else "",
            "socket": "/wall/ws/" if (context.get("view") or {}).get("screen") == "wall" else "/ws/",
            "now": now,
        },
    }
    with timezone.override(zone(request)):
        return render(request, template, frame | dict(context), status=status)


def not_yet(request: HttpRequest, cluster: str, view: Mapping[str, str]) -> HttpResponse:
    """Before the first picture: that it is being read, and what stands in the way if something does."""
    pulse = live.picture().last_pulse(cluster)
    causes: dict[str, list[str]] = {}
    for kind, reason, _since in pulse.trouble if pulse else ():
        causes.setdefault(reason, []).append(kind)
    return page(request, "waiting.html", cluster, {"view": view, "causes": list(causes.items())})


def behind(snapshot: Snapshot) -> fleet.KeyNumber:
    """How many workloads that train have not saved when they meant to, for the navigation."""
    return fleet.behind(snapshot.fleet.get("fleet", FleetRow()))


def _acts(role: access.Role | None, cluster: str) -> bool:
    """Whether buttons that change the cluster are offered at all; why one is off is told on the node's own page."""
    return bool(cluster) and access.may(role, "propose") and rights.changeable(cluster)


def _do_urls(cluster: str) -> dict[str, str]:
    return {
        kind: reverse("propose", args=[cluster, PLACEHOLDER, kind])
        for kind, found in ACTIONS.items()
        if found.subject is Subject.NODE
    }


def _under_way(cluster: str) -> int:
    """How many actions run on a cluster, for the navigation."""
    running = Action.objects.filter(cluster=cluster, state__in=[ActionState.CONFIRMED, ActionState.RUNNING])
    return running.count() if cluster else 0


def freshness(published: live.Published, now: float) -> str:
    """live, late or lost: by what is known, else by age; script judges alike."""
    age_s = now - published.pulse.at
    if published.pulse.loss(now) or age_s > LOST_AFTER_S:
        return "lost"
    return "live" if age_s < LATE_AFTER_S else "late"


def zone(request: HttpRequest) -> zoneinfo.ZoneInfo | None:
    """The reader's time zone from a cookie; None (the site's zone, UTC) when it is absent or unknown to this machine."""
    try:
        return zoneinfo.ZoneInfo(unquote(request.COOKIES.get(ZONE_COOKIE, "")))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
