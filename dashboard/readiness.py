"""The pages about restart readiness: every workload with what is wrong, and one workload with its lines of a stop and a start.

Must not hold words, markup or rules: view models come from `dashboard.panels`. Both read the cluster afresh, at most every few
seconds, since the picture holds no templates; nothing on them is live.
"""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.pages import not_yet, page, read, readable
from dashboard.panels import lifelines as lifelines_panel
from dashboard.panels import readiness as panel
from dashboard.panels.readiness import Choice
from fleet import wiring
from fleet.domain.lifelines import lifelines
from fleet.domain.readiness import Rule, Severity
from fleet.live import Published
from fleet.restarts import Judged, Unanswered


@readable
def readiness(request: HttpRequest, cluster: str) -> HttpResponse:
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": "workloads"})
    choice = Choice.of_query(request.GET)
    context: dict[str, Any] = {"view": None, "here": "readiness", "choice": choice, "severities": list(Severity)}
    judged = _judged(cluster, published)
    if judged is None:
        return page(request, "readiness.html", cluster, context)
    found = panel.groups(judged.report, choice)
    shown, number, pages = panel.part(found, choice)
    context |= {
        "judged": judged,
        "groups": shown,
        "numbers": panel.numbers(found, choice),
        "rules": [(rule.value, panel.name(rule)) for rule in panel.rules(judged.report)],
        "why": panel.why(Rule(choice.rule)) if choice.rule in set(Rule) else "",
        "namespaces": panel.namespaces(judged.report),
        "number": number,
        "pages": pages,
        "links": _links(request, number, pages),
        "programs": urlencode({"cluster": cluster}),
    }
    return page(request, "readiness.html", cluster, context)


def _links(request: HttpRequest, number: int, pages: int) -> dict[str, str]:
    """The queries of the parts before and after."""
    found = {}
    for name, other in (("before", number - 1), ("after", number + 1)):
        if 1 <= other <= pages:
            query = request.GET.copy()
            query["part"] = str(other)
            found[name] = query.urlencode()
    return found


@readable
def workload(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": "workloads"})
    key = f"{kind}/{namespace}/{name}"
    context: dict[str, Any] = {"view": None, "here": "readiness", "kind": kind, "namespace": namespace, "name": name}
    judged = _judged(cluster, published)
    if judged is None:
        return page(request, "readiness-workload.html", cluster, context)
    subject = next((one for one in judged.report.subjects if one.manifest.key == key), None)
    if subject is None:
        raise Http404
    lines = lifelines(subject)
    context |= {
        "judged": judged,
        "group": panel.group(subject, judged.report.by_workload()[key]),
        "stops": lifelines_panel.stops(lines),
        "starts": lifelines_panel.starts(lines),
        "probes": [(one.container, lifelines_panel.probes(one)) for one in lines.starts],
        "lines": lines,
        "unread_notes": subject.times.unread,
    }
    return page(request, "readiness-workload.html", cluster, context)


def _judged(cluster: str, published: Published) -> Judged | None:
    """None: the API server does not answer."""
    try:
        return wiring.restarts().judged(cluster, published.snapshot)
    except Unanswered:
        return None
