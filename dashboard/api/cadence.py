"""The operation of the API about cadence: how often a run should save.

Owns its address and parameters. Must not compute: `fleet.domain.cadence` does.
"""

from http import HTTPStatus
from typing import Literal

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema

from dashboard import ledger
from dashboard.api import answers
from dashboard.api.answers import Refused, chosen, described
from dashboard.api.parameters import CLUSTER
from dashboard.panels.availability import WINDOWS
from fleet.domain import cadence as planner
from fleet.domain.cadence import LEAST_S, LONGEST_S, MOST_INTERVALS, Wanted

router = Router()


class CadenceWanted(Schema):
    """Times in seconds."""

    cluster: str = Field("", max_length=253, description=CLUSTER)
    save_cost_s: float | None = Field(
        None, ge=LEAST_S, le=LONGEST_S, description="How long a save stops training; as `workload` saves when left out"
    )
    workload: str = Field("", max_length=600, description="Kind/namespace/name of one whose saves were seen")
    mtbf_s: float | None = Field(
        None,
        ge=LEAST_S,
        le=LONGEST_S,
        description="Mean time between failures of the run; from the ledger when left out",
    )
    window: Literal["24h", "7d", "30d", "90d"] = Field("30d", description="Of the ledger")
    gpus: int = Field(1, ge=1, le=1_000_000, description="GPUs of the run; each failure in the ledger is of one")
    interval_s: list[float] = Field([], max_length=MOST_INTERVALS, description="To compare; may be given several times")
    horizon_s: float | None = Field(None, ge=LEAST_S, le=LONGEST_S, description="How long the run is")
    write_s: float = Field(
        0, ge=0, le=LONGEST_S, description="What an asynchronous save writes on after training goes on"
    )
    grace_s: float | None = Field(None, ge=0, le=LONGEST_S, description="Grace period of its pods")


@router.get("/cadence", url_name="cadence", openapi_extra=described(answers.CadenceAnswer))
def cadence(request: HttpRequest, asked: Query[CadenceWanted]) -> HttpResponse:
    """How often a run should save: Young, Daly, the exact optimum; what intervals cost and a failure loses; does a save fit?"""
    name, until = chosen(request, asked.cluster), ledger.until()
    since = until - WINDOWS[asked.window]
    observed = ledger.mtbf(name, since, until).of_group(asked.gpus) if asked.mtbf_s is None else None
    cost_s = ledger.saves(name, asked.workload).cost_s if asked.save_cost_s is None else asked.save_cost_s
    found = planner.cadence(_wanted(asked, cost_s, observed.planning_s if observed else asked.mtbf_s))
    body = answers.CadenceAnswer(name, since, until, asked.gpus, observed, **msgspec.structs.asdict(found))
    return answers.past(request, body)


def _wanted(asked: CadenceWanted, save_cost_s: float | None, mtbf_s: float | None) -> Wanted:
    """Raises Refused."""
    if save_cost_s is None:
        detail = "`save_cost_s` is needed, or a `workload` of which the ledger knows how long a save takes."
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    if mtbf_s is None:
        detail = "`mtbf_s` is needed: the ledger knows no time in this window in which a GPU was up."
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    try:
        return Wanted(
            save_cost_s=save_cost_s,
            mtbf_s=mtbf_s,
            intervals_s=tuple(asked.interval_s),
            horizon_s=asked.horizon_s,
            write_s=asked.write_s,
            grace_s=asked.grace_s,
        )
    except planner.CadenceError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from error
