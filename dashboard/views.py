"""The pages: which template answers and what it is given.

Must not hold words, markup or rules: view models and words come from `dashboard.panels`, facts from the picture. A page is the
truth at one moment; script keeps it up to date over the socket.
"""

import time
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard import access, ledger, restart_badges, rights
from dashboard.account import account as account  # noqa: PLC0414  (its address is among those of the other pages)
from dashboard.pages import PLACEHOLDER, behind, broken, freshness, not_yet, page, read, readable
from dashboard.panels import attention, words
from dashboard.panels import buttons as buttons_panel
from dashboard.panels import clusters as clusters_panel
from dashboard.panels import fleet as fleet_panel
from dashboard.panels import gpus as gpus_panel
from dashboard.panels import help as help_panel
from dashboard.panels import help_actions as help_actions_panel
from dashboard.panels import help_checkpoints as help_checkpoints_panel
from dashboard.panels import help_gpus as help_gpus_panel
from dashboard.panels import help_readiness as help_readiness_panel
from dashboard.panels import help_rollouts as help_rollouts_panel
from dashboard.panels import node as node_panel
from dashboard.panels import records as records_panel
from dashboard.panels import restart_badges as badges
from dashboard.panels import search as search_panel
from dashboard.panels import waiting as waiting_panel
from dashboard.panels import wall as wall_panel
from dashboard.panels import workloads as workloads_panel
from dashboard.panels import zoom as zoom_panel
from dashboard.panels.zoom import Filter, Zoom
from fleet.domain import changes
from fleet.domain.changes import Screen, View
from fleet.domain.picture import EMPTY, FleetRow, LabelsRow, NodeRow

ZOOM_COOKIE = "vigie-zoom"
YEAR_S = 31_536_000
LONGEST_NAME = 253

# What script makes new cards, groups, tags and entries from.
BLANKS = {
    "blank": fleet_panel.card(NodeRow(name=PLACEHOLDER)),
    "blank_group": fleet_panel.Group("", "", "", ()),
    "blank_mark": fleet_panel.Mark("", "", "", ""),
    "blank_entry": attention.Entry("", "", "", "", ""),
}


def home(request: HttpRequest) -> HttpResponse:
    """The first cluster's Fleet page."""
    names = access.clusters_of(request)
    return redirect("fleet", cluster=names[0]) if names else page(request, "no-cluster.html", "", {})


@readable
def fleet(request: HttpRequest, cluster: str) -> HttpResponse:
    published = read(cluster)
    view = {"screen": "fleet"}
    if published is None:
        return not_yet(request, cluster, view)
    snapshot = published.snapshot
    row, nodes = snapshot.fleet.get("fleet", FleetRow()), snapshot.nodes.values()
    chosen = request.GET.get("zoom", "") or request.COOKIES.get(ZOOM_COOKIE, "")
    zoom, narrowed, opened = zoom_panel.zoom(len(nodes), chosen), Filter.of(request.GET), request.GET.get("group", "")
    groups = [_group(group, zoom, narrowed, opened) for group in fleet_panel.groups(nodes)]
    response = page(
        request,
        "fleet.html",
        cluster,
        {
            "view": view,
            "published": published,
            "numbers": fleet_panel.strip(snapshot),
            "entries": attention.entries(snapshot.attention, broken(published.pulse)),
            "map_size": fleet_panel.map_size(row),
            "claims": fleet_panel.claims(row),
            "measured": fleet_panel.measured(nodes),
            "products": zoom_panel.products(nodes),
            "pools": zoom_panel.pools(nodes),
            "legend": fleet_panel.legend(row),
            "groups": groups,
            "filter": narrowed,
            "narrowed": bool(narrowed),
            "zoom": zoom,
            "zooms": zoom_panel.choices(len(nodes)),
            "opened": opened,
            "shown": words.say("map.shown", nodes=words.say("nodes", n=sum(group["shown"] for group in groups))),
            "any_shown": any(group["shown"] for group in groups),
            **BLANKS,
        },
    )
    if request.GET.get("zoom", "") in list(Zoom):
        response.set_cookie(ZOOM_COOKIE, request.GET["zoom"], YEAR_S, samesite="Lax", secure=request.is_secure())
    return response


def _group(group: fleet_panel.Group, zoom: Zoom, narrowed: Filter, opened: str) -> dict[str, Any]:
    """One group of the map; in the zoom of groups only the opened one shows its nodes."""
    hidden = [narrowed.hides(node) for node in group.nodes]
    shown = len(hidden) - sum(hidden)
    is_open = zoom is not Zoom.GROUPS or group.id == opened
    cards = [(fleet_panel.card(node), out) for node, out in zip(group.nodes, hidden, strict=True)] if is_open else []
    found: dict[str, Any] = {"group": group, "cards": cards, "shown": shown, "hidden": not shown}
    if zoom is Zoom.GROUPS:
        found["opens"] = urlencode(narrowed.query() | ({} if is_open else {"group": group.id})) + f"#{group.id}"
    return found


@readable
def node(request: HttpRequest, cluster: str, node: str) -> HttpResponse:
    published = read(cluster)
    view = {"screen": "node", "node": node}
    if published is None:
        return not_yet(request, cluster, view)
    row = published.snapshot.nodes.get(node)
    if row is None:
        return page(request, "no-node.html", cluster, {"name": node}, status=404)
    pods = [(key, pod) for key, pod in published.snapshot.pods.items() if pod.node == node]
    labels = published.snapshot.labels.get(node, LabelsRow())
    happened = {key: event for key, event in published.snapshot.events.items() if event.node == node}
    own = {key: entry for key, entry in published.snapshot.attention.items() if changes.here(entry, node)}
    gpus = [gpu for gpu in published.snapshot.gpus.values() if gpu.node == node]
    return page(
        request,
        "node.html",
        cluster,
        {
            "gpus": gpus_panel.table(gpus, row, ledger.trends(cluster, node) if gpus else {}),
            "read": gpus_panel.read_at(gpus),
            "placed": gpus_panel.placed(gpus, row),
            "view": view,
            "published": published,
            "node": row,
            "place": fleet_panel.place(row.pool, row.zone),
            "group_id": fleet_panel.group_id(row.pool, row.zone),
            "tags": node_panel.tags(row),
            "summary": attention.summary(own),
            "card": fleet_panel.card(row),
            "hardware": node_panel.hardware(row),
            "tables": node_panel.tables(row, pods, published.snapshot.checkpoints)
            | records_panel.tables(labels, happened),
            "label_count": records_panel.label_count(labels),
            "pod_counts": node_panel.pod_counts(pod for _, pod in pods),
            "counts": fleet_panel.counts(row),
            "facts": node_panel.facts(row),
            "blank_tag": node_panel.Tag("", "", "", ""),
            "cordon": node_panel.cordon(row, labels),
            **_buttons(request, cluster, row),
        },
    )


def _buttons(request: HttpRequest, cluster: str, row: NodeRow) -> dict[str, Any]:
    """What may be done to the node, and why not."""
    role, changeable = access.role_of(request.user, cluster), rights.changeable(cluster)
    allowed = rights.changes_nodes(cluster, role)
    found = buttons_panel.buttons(
        row.name, role, unschedulable=row.unschedulable, changeable=changeable, allowed=allowed
    )
    return {"buttons": found, "off": buttons_panel.why_off(role, changeable=changeable, allowed=allowed)}


@readable
def workloads(request: HttpRequest, cluster: str) -> HttpResponse:
    published, view = read(cluster), {"screen": "workloads"}
    if published is None:
        return not_yet(request, cluster, view)
    found, choice = published.snapshot.workloads, workloads_panel.Choice.of_query(request.GET)
    picks = [
        {"name": name, "values": workloads_panel.options(found.values(), name), "chosen": getattr(choice, name)}
        for name in ("kind", "namespace", "team")
    ]
    return page(
        request,
        "workloads.html",
        cluster,
        {
            "view": view,
            "published": published,
            "choice": choice,
            "sorts": workloads_panel.SORTS,
            "picks": picks,
            "table": badges.joined(
                workloads_panel.table(found, published.snapshot.checkpoints, choice),
                restart_badges.found(cluster, published.snapshot),
            ),
            "counts": workloads_panel.counts(found, choice),
        },
    )


@readable
def waiting(request: HttpRequest, cluster: str) -> HttpResponse:
    published, view = read(cluster), {"screen": "waiting"}
    if published is None:
        return not_yet(request, cluster, view)
    pods = {key: pod for key, pod in published.snapshot.pods.items() if changes.waits(pod)}
    context = {
        "view": view,
        "published": published,
        "table": waiting_panel.table(pods, published.snapshot.nodes),
        "counts": waiting_panel.counts(pods),
    }
    return page(request, "pods-waiting.html", cluster, context)


@readable
def search(request: HttpRequest, cluster: str) -> HttpResponse:
    """What was typed is looked for in the picture as it is now; nothing on this page is live."""
    published, text = read(cluster), request.GET.get("q", "").strip()[:LONGEST_NAME]
    context = {
        "view": None,
        "behind": behind(published.snapshot) if published else None,
        "known": published is not None,
        "q": text,
        "no_gpus": published is not None and not published.snapshot.gpus and search_panel.asks_for_a_gpu(text),
        "results": search_panel.search(published.snapshot, text) if published else [],
    }
    return page(request, "search.html", cluster, context)


@readable
def wall(request: HttpRequest) -> HttpResponse:
    """For a screen by its own cookie, which shows one cluster; for people, of the cluster that they ask for."""
    visible = access.clusters_of(request)
    cluster = request.GET.get("cluster", "") or next(iter(visible), "")
    if cluster not in visible:
        raise Http404
    published, view = read(cluster), {"screen": Screen.WALL.value}
    if published is None:
        return not_yet(request, cluster, view)
    rows = changes.rows(published.snapshot, View(Screen.WALL))
    snapshot = msgspec.structs.replace(published.snapshot, **rows)
    shown = wall_panel.wall(snapshot, broken(published.pulse))
    alarm = shown.alarm
    since = words.say("wall.since", time=words.Clock(alarm.since_at)) if alarm and alarm.since_at is not None else ""
    context = {
        "view": view,
        "published": published,
        "wall": shown,
        "alarm_since": since,
        "today": timezone.now(),
        "legend": fleet_panel.legend(snapshot.fleet.get("fleet", FleetRow())),
        "measured": fleet_panel.measured(snapshot.nodes.values()),
        **BLANKS,
    }
    return page(request, "wall.html", cluster, context)


@readable
def clusters(request: HttpRequest) -> HttpResponse:
    """Every cluster that whoever asks may see. One whose picture is not there yet, or old, takes nothing from the others."""
    cards = [_cluster(name) for name in access.clusters_of(request)]
    return page(request, "clusters.html", "", {"view": {"screen": Screen.CLUSTERS.value}, "cards": cards})


def _cluster(name: str) -> dict[str, Any]:
    published, now = read(name), time.time()
    snapshot = published.snapshot if published else EMPTY
    return {
        "card": clusters_panel.card(name, snapshot.fleet, snapshot.attention),
        "known": published is not None,
        "at": published.pulse.at if published else None,
        "loss": published.pulse.loss(now) if published else "no-picture",
        "fresh": freshness(published, now) if published else "lost",
    }


def help_page(request: HttpRequest) -> HttpResponse:
    return page(
        request,
        "help.html",
        "",
        {
            "sections": (
                *help_panel.sections(),
                *help_actions_panel.sections(),
                *help_checkpoints_panel.sections(),
                *help_gpus_panel.sections(),
                *help_readiness_panel.sections(),
                *help_rollouts_panel.sections(),
            )
        },
    )
