"""The pages about GPUs: one GPU, and the availability of all of them.

Must not hold words, markup or rules: view models come from `dashboard.panels`, what is from the picture and what
was from the ledger.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse

from dashboard.pages import not_yet, page, read, readable
from dashboard.panels import fleet as fleet_panel
from dashboard.panels import gpu as gpu_panel
from dashboard.panels import gpus as gpus_panel
from dashboard.panels import verdict as verdict_panel
from fleet.domain.picture import GpuRow, NodeRow, Snapshot


@readable
def gpu(request: HttpRequest, cluster: str, gpu: str) -> HttpResponse:
    """One GPU by its UUID: as it is now, or, when it is gone, as the ledger knows it."""
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": "fleet"})
    row = published.snapshot.gpus.get(gpu)
    if row is None:
        return page(request, "no-gpu.html", cluster, {"name": gpu}, status=404)
    context = {"view": {"screen": "node", "node": row.node}, "published": published, **_now(published.snapshot, row)}
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
