"""The operation of the API about restart readiness.

Owns its address and parameters. Must not judge: `fleet.domain.readiness` does.
"""

from http import HTTPStatus

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router

from dashboard.api import answers
from dashboard.api.answers import FoundUnready, Refused, described, page, published
from dashboard.api.parameters import Part
from dashboard.panels import readiness as panel
from fleet import wiring
from fleet.domain.readiness import Finding, Rule, Severity
from fleet.restarts import Unanswered

router = Router()


class ReadinessWanted(Part):
    rule: Rule | None = Field(None, description="R01 to R34")
    severity: Severity | None = None
    namespace: str = Field("", max_length=63)
    object: str = Field("", max_length=600, description="Kind/namespace/name")

    def fits(self, _key: str, finding: FoundUnready) -> bool:
        return (
            self.rule in {None, finding.rule}
            and self.severity in {None, finding.severity}
            and self.namespace in {"", finding.object.split("/")[1]}
            and self.object in {"", finding.object}
        )


@router.get("/readiness", url_name="readiness", openapi_extra=described(answers.ReadinessAnswer))
def readiness(request: HttpRequest, wanted: Query[ReadinessWanted]) -> HttpResponse:
    """What of the workloads' own definitions makes a restart lose work or requests. Read from the cluster, at most 15 s ago."""
    name, found = published(request, wanted.cluster)
    try:
        judged = wiring.restarts().judged(name, found.snapshot)
    except Unanswered as error:
        detail, wait = f"The API server of {name} does not answer.", {"Retry-After": "5"}
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, detail, wait) from error
    rows = {_key(i, one): _found(one) for i, one in enumerate(judged.report.findings)}
    part = page(rows, wanted.fits, wanted.after, wanted.limit)
    body = answers.ReadinessAnswer(name, judged.at, judged.unread, **part)
    headers = {"Cache-Control": "no-cache, private", "Vary": "Cookie, Authorization"}
    if body.next is not None:
        headers["Link"] = f'<{answers.following(request, body.next)}>; rel="next"'
    return HttpResponse(msgspec.json.encode(body), content_type="application/json", headers=headers)


def _key(number: int, finding: Finding) -> str:
    """In the order of the report, and the same as long as it is."""
    return f"{finding.object}/{finding.rule.value}/{number:06}"


def _found(finding: Finding) -> FoundUnready:
    return FoundUnready(
        rule=finding.rule,
        severity=finding.severity,
        object=finding.object,
        case=finding.case,
        facts=finding.facts,
        message=panel.spoken(panel.sentence(finding)),
        why=panel.spoken(panel.why(finding.rule)),
        remedy=finding.remedy,
    )
