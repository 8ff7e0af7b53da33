"""The page about cadence: how often a run should save. Nothing on it is live.

Must not hold words, markup or formulas: view models come from `dashboard.panels.cadence`, failures from the ledger.
"""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from dashboard import clusters, ledger
from dashboard.pages import page, readable
from dashboard.panels import cadence as panel
from dashboard.panels.availability import WINDOWS
from dashboard.panels.words import say
from fleet.domain.cadence import Cadence
from fleet.domain.mtbf import Mtbf


@readable
def cadence(request: HttpRequest, cluster: str) -> HttpResponse:
    query = request.GET.dict() | {"interval": " ".join(request.GET.getlist("interval"))}
    asked = panel.Asked.of_query(
        {name: str(text) for name, text in query.items()}, ledger.saves(cluster, str(query.get("workload", ""))[:600])
    )
    end = ledger.until()
    since = end - WINDOWS[asked.window]
    observed = ledger.mtbf(cluster, since, end).of_group(asked.gpus)
    asked, found = panel.planned(asked, observed)
    context = {
        "view": None,
        "here": "cadence",
        "asked": asked,
        "windows": list(WINDOWS),
        "workloads": _measured(cluster, asked.workload),
        "since": since,
        "until": end,
        "known": panel.known(asked, observed),
        "typed": panel.typed(observed),
        "counted": panel.counted(asked, observed),
        "between": panel.between(observed),
        "found": found,
        **(_answer(found, asked, observed, cluster) if found else {}),
    }
    return page(request, "cadence.html", cluster, context)


def _measured(cluster: str, chosen: str) -> list[str]:
    """The workloads of which it is known now how long a save takes, and the one that was asked about."""
    found = clusters.published(cluster)
    rows = found.snapshot.checkpoints if found is not None else {}
    return sorted({key for key, row in rows.items() if row.save_cost_s} | ({chosen} if chosen else set()))


def _answer(found: Cadence, asked: panel.Asked, observed: Mtbf, cluster: str) -> dict[str, Any]:
    return {
        "numbers": panel.numbers(found, asked, observed),
        "chart": panel.chart(found),
        "told": panel.told(found),
        "verdicts": panel.verdicts(found),
        "advice": say("cadence.advice", time=panel.length(found.best_s)),
        "cost": panel.length(found.save_cost_s),
        "cost_source": panel.cost_source(asked),
        "write": say("cadence.writes-on", time=panel.length(found.write_s)) if found.write_s else "",
        "mtbf": panel.length(found.mtbf_s),
        "source": panel.source(asked, observed),
        "ledgers": asked.first("mtbf") is None,
        "best_between": panel.best_between(found, asked, observed),
        "formula": panel.formula(found),
        "table": panel.table(found),
        "savings": panel.savings(found),
        "fits": panel.fits(found),
        "programs": urlencode(panel.programs(asked, cluster)),
    }
