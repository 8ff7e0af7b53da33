"""The pages about GPUs: one GPU, and the availability of all of them.

Must not hold words, markup or rules: view models come from `dashboard.panels`, what is from the picture and what was from the
ledger.
"""

import time
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from dashboard import ledger
from dashboard.pages import not_yet, page, read, readable
from dashboard.panels import availability as availability_panel
from dashboard.panels import fleet as fleet_panel
from dashboard.panels import gpu as gpu_panel
from dashboard.panels import gpus as gpus_panel
from dashboard.panels import past as past_panel
from dashboard.panels import verdict as verdict_panel
from fleet.domain import availability as availability_
from fleet.domain.picture import GpuRow, NodeRow, Snapshot

SPANS = past_panel.SPANS


@readable
def gpu(request: HttpRequest, cluster: str, gpu: str) -> HttpResponse:
    """One GPU by its UUID: as it is now, or, when it is gone, as the ledger knows it."""
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": "fleet"})
    row = published.snapshot.gpus.get(gpu)
    if row is None:
        return _past(request, cluster, gpu)
    context = {
        "view": {"screen": "node", "node": row.node},
        "published": published,
        **_now(published.snapshot, row),
        **_story(request, cluster, gpu, row.node, row),
    }
    return page(request, "gpu.html", cluster, context)


def _now(snapshot: Snapshot, row: GpuRow) -> dict[str, Any]:
    node = snapshot.nodes.get(row.node, NodeRow(row.node))
    return {
        "gpu": row,
        "key": gpus_panel.key(row),
        "title": gpu_panel.title(row),
        "since": gpu_panel.since(row),
        "read": gpus_panel.read_at([row]),
        "processes": gpu_panel.processes(row),
        "place": fleet_panel.place(node.pool, node.zone),
        "group_id": fleet_panel.group_id(node.pool, node.zone),
        "cell": gpus_panel.cell(row, node),
        "verdict": verdict_panel.verdict(row),
        "findings": verdict_panel.findings(row),
        "instances": verdict_panel.instances(row),
        "measures": gpu_panel.measures(row),
        "identity": gpu_panel.identity(row, node),
        "pods": gpu_panel.pods(row, snapshot.pods),
    }


def _story(request: HttpRequest, cluster: str, gpu: str, node: str, row: GpuRow | None) -> dict[str, Any]:
    """What the ledger and the last hour know of a GPU."""
    now = time.time()
    span = request.GET.get("span", "") if request.GET.get("span", "") in SPANS else next(iter(SPANS))
    happened = ledger.transitions(cluster, gpu, now)
    plots = past_panel.plots(ledger.points(cluster, node, gpu, span, now), span, now, row)
    return {
        "spans": list(SPANS),
        "span": span,
        "plots": plots,
        "drawn": any(plot.trend.known for plot in plots),
        "happened": past_panel.table(happened),
        "more": past_panel.more(happened),
        "numbers": availability_panel.of_one(ledger.of_one(cluster, gpu, happened, now)),
    }


def _past(request: HttpRequest, cluster: str, gpu: str) -> HttpResponse:
    last = ledger.last_known(cluster, gpu)
    if last is None:
        return page(request, "no-gpu.html", cluster, {"name": gpu}, status=404)
    context = {
        "view": None,
        "key": gpu,
        "node": last.node,
        "identity": gpu_panel.remembered(last),
        **_story(request, cluster, gpu, last.node, None),
    }
    return page(request, "gpu-past.html", cluster, context)


@readable
def availability(request: HttpRequest, cluster: str) -> HttpResponse:
    """How much of a window the GPUs of a cluster could be used. Nothing on this page is live."""
    choice = availability_panel.Choice.of_query(request.GET)
    end = ledger.until()
    since = end - choice.seconds
    lines = availability_panel.ordered(ledger.lines(cluster, choice.by, since, end), choice.sort)
    whole = availability_.total(line.found for line in lines)
    words, before, after = availability_panel.parts(lines, choice)
    asked = {"window": choice.window, "by": choice.by}
    context = {
        "view": None,
        "here": "availability",
        "choice": choice,
        "windows": list(availability_panel.WINDOWS),
        "groups": availability_panel.GROUPS,
        "sorts": availability_panel.SORTS,
        "since": since,
        "until": end,
        "numbers": availability_panel.numbers(whole, choice.seconds),
        "table": availability_panel.table(lines, choice),
        "part": words,
        "before": before,
        "after": after,
        "incidents": availability_panel.incidents(whole),
        "programs": urlencode({"cluster": cluster, **asked}),
    }
    return page(request, "availability.html", cluster, context)
