"""The pages about machines: Fleet and Node, and what is shown while there is nothing to show.

Owns which template answers and what it is given. Must not hold words, markup or rules: view models and words come from
`dashboard.panels`, facts from the picture. A page is the truth at one moment; script keeps it up to date over the socket.
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
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from dashboard import access
from dashboard.panels import attention, words
from dashboard.panels import fleet as fleet_panel
from dashboard.panels import node as node_panel
from fleet import live, wiring
from fleet.domain.picture import FleetRow, NodeRow

ZONE_COOKIE = "vigie-zone"  # the browser's time zone, set by script: times of events are shown in it
PLACEHOLDER = "~name~"  # where script puts a node's name into an address; a tilde is in no Kubernetes name

# What script makes new cards, groups and entries from.
BLANKS = {
    "blank": fleet_panel.card(NodeRow(name=PLACEHOLDER)),
    "blank_group": fleet_panel.Group("", "", "", ()),
    "blank_entry": attention.Entry("", "", "", "", ""),
}


def home(request: HttpRequest) -> HttpResponse:
    """The first cluster's Fleet page."""
    names = wiring.sites()
    return redirect("fleet", cluster=names[0]) if names else page(request, "no-cluster.html", "", {})


def readable(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """While the picture's store cannot be reached, the page says so."""

    @functools.wraps(view)
    def shown(request: HttpRequest, cluster: str, **kwargs: str) -> HttpResponse:
        try:
            return view(request, cluster, **kwargs)
        except live.PictureError:
            heading = _("The picture cannot be read")
            text = _("Vigie cannot reach its own store right now. It goes on trying; load the page again in a moment.")
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return page(
                request, "error.html", cluster, {"heading": heading, "text": text, "status": status}, status=status
            )

    return shown


@readable
def fleet(request: HttpRequest, cluster: str) -> HttpResponse:
    published = _read(cluster)
    view = {"screen": "fleet"}
    if published is None:
        return page(request, "waiting.html", cluster, {"view": view})
    snapshot, state, product = published.snapshot, request.GET.get("state", ""), request.GET.get("product", "")
    row = snapshot.fleet.get("fleet", FleetRow())
    groups = [_group(group, state, product) for group in fleet_panel.groups(snapshot.nodes.values())]
    shown = sum(len(group["cards"]) - group["hidden_cards"] for group in groups)
    entries = attention.entries(snapshot.attention, _broken(published.pulse))
    return page(
        request,
        "fleet.html",
        cluster,
        {
            "view": view,
            "published": published,
            "numbers": fleet_panel.key_numbers(snapshot),
            "entries": entries,
            "map_size": fleet_panel.map_size(row),
            "claims": fleet_panel.claims(row),
            "measured": fleet_panel.measured(snapshot.nodes.values()),
            "products": fleet_panel.products(snapshot.nodes.values()),
            "legend": fleet_panel.legend(row),
            "groups": groups,
            "state": state,
            "product": product,
            "any_shown": shown > 0,
            "shown": words.say("map.shown", nodes=words.say("nodes", n=shown)),
            **BLANKS,
        },
    )


def _broken(pulse: live.Pulse) -> list[tuple[str, str, float]]:
    """The streams that are broken, with the moment since when: a page may be looked at for long."""
    now = int(time.time())
    return [(kind, reason, now - int(for_s)) for kind, reason, for_s in pulse.trouble]


def _group(group: fleet_panel.Group, state: str, product: str) -> dict[str, Any]:
    cards = [(fleet_panel.card(node), fleet_panel.filtered_out(node, state, product)) for node in group.nodes]
    hidden = sum(out for _, out in cards)
    return {"group": group, "cards": cards, "hidden_cards": hidden, "hidden": hidden == len(cards)}


@readable
def node(request: HttpRequest, cluster: str, node: str) -> HttpResponse:
    published = _read(cluster)
    view = {"screen": "node", "node": node}
    if published is None:
        return page(request, "waiting.html", cluster, {"view": view})
    row = published.snapshot.nodes.get(node)
    if row is None:
        return page(request, "no-node.html", cluster, {"name": node}, status=404)
    pods = [(key, pod) for key, pod in published.snapshot.pods.items() if pod.node == node]
    own = {key: entry for key, entry in published.snapshot.attention.items() if entry.node == node}
    return page(
        request,
        "node.html",
        cluster,
        {
            "view": view,
            "published": published,
            "node": row,
            "place": fleet_panel.place(row.pool, row.zone),
            "group_id": fleet_panel.group_id(row.pool, row.zone),
            "tags": node_panel.tags(row),
            "summary": attention.summary(own),
            "card": fleet_panel.card(row),
            "hardware": node_panel.hardware(row),
            "tables": node_panel.tables(row, pods),
            "pod_counts": node_panel.pod_counts(pod for _, pod in pods),
            "counts": fleet_panel.counts(row),
            "facts": node_panel.facts(row),
            "blank_tag": node_panel.Tag("", "", "", ""),
        },
    )


def _read(cluster: str) -> live.Published | None:
    if cluster not in wiring.sites():
        raise Http404
    return live.picture().read(cluster)


def page(
    request: HttpRequest, template: str, cluster: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render in the reader's zone, with what the frame of every page and the scripts need."""
    now, published = time.time(), context.get("published")
    role = access.role_of(request.user) if isinstance(request.user, User) else None
    frame = {
        "now": now,
        "cluster": cluster,
        "clusters": wiring.sites(),
        "role": role,
        "at": published.pulse.at if published else None,
        "script": {
            "cluster": cluster,
            "view": context.get("view"),
            "lang": get_language(),
            "words": words.catalogue(),
            "node_url": reverse("node", args=[cluster, PLACEHOLDER]) if cluster else "",
            "sign_in_url": reverse("sign-in"),
            "placeholder": PLACEHOLDER,
            "at": published.pulse.at if published else None,
            "now": now,
        },
    }
    with timezone.override(zone(request)):
        return render(request, template, frame | dict(context), status=status)


def zone(request: HttpRequest) -> zoneinfo.ZoneInfo | None:
    """The reader's time zone from a cookie; None (the site's zone, UTC) when it is absent or unknown to this machine."""
    try:
        return zoneinfo.ZoneInfo(unquote(request.COOKIES.get(ZONE_COOKIE, "")))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
