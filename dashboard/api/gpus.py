"""The operations of the API about GPUs: as they are now, and what the ledger knows of them.

Owns their addresses and parameters. What an answer looks like is `answers`'. Must not judge a GPU: the domain does.
"""

import csv
import io
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema

from dashboard import ledger
from dashboard.api import answers
from dashboard.api.answers import AvailabilityLine, Refused, chosen, described, head, page, published
from dashboard.api.parameters import CLUSTER, Cluster, Part
from dashboard.panels.availability import WINDOWS, Line, ordered
from fleet import history
from fleet.domain import spans
from fleet.domain.gpus import DeviceState
from fleet.domain.picture import GpuRow, NodeRow

router = Router()
LONGEST_S = 400 * 86_400  # of one answer from the ledger


class GpusWanted(Part):
    state: DeviceState | None = Field(None, description="How the GPU is")
    node: str = Field("", max_length=253)
    product: str = Field("", max_length=253, description="Short name of the model, as the nodes have it")
    q: str = Field("", max_length=253, description="Only those whose UUID, serial number or PCI address has this in it")

    def fits(self, row: GpuRow, node: NodeRow | None) -> bool:
        return (
            self.state in {None, row.state}
            and self.node in {"", row.node}
            and self.product in {"", node.product if node else None}
            and any(self.q.lower() in name.lower() for name in (row.uuid, row.serial, row.pci))
        )


@router.get("/gpus", url_name="gpus", openapi_extra=described(answers.GpusAnswer))
def gpus(request: HttpRequest, wanted: Query[GpusWanted]) -> HttpResponse:
    """GPUs that some source measures, by UUID; of those that do not say it, by node and PCI address."""
    name, found = published(request, wanted.cluster)
    nodes = found.snapshot.nodes
    part = page(found.snapshot.gpus, lambda _, row: wanted.fits(row, nodes.get(row.node)), wanted.after, wanted.limit)
    return answers.answer(request, found, answers.GpusAnswer(**head(name, found), **part))


@router.get("/gpus/{uuid}", url_name="gpu", openapi_extra=described(answers.GpuAnswer))
def gpu(request: HttpRequest, uuid: str, cluster: Cluster = "") -> HttpResponse:
    """One GPU of one cluster, with its verdict and the evidence."""
    name, found = published(request, cluster)
    row = found.snapshot.gpus.get(uuid)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Cluster {name} has no GPU {uuid}.")
    return answers.answer(request, found, answers.GpuAnswer(**head(name, found), gpu=row))


class Window(Schema):
    """A time of the ledger; both ends in seconds since 1970."""

    cluster: str = Field("", max_length=253, description=CLUSTER)
    since: float | None = Field(None, ge=0, le=1e11, description="A week before `until` when left out")
    until: float | None = Field(None, ge=0, le=1e11, description="Now when left out")

    def ends(self) -> tuple[float, float]:
        """Raises Refused."""
        until = ledger.until() + ledger.STEP_S if self.until is None else self.until
        since = until - WINDOWS["7d"] if self.since is None else self.since
        if not since < until <= since + LONGEST_S:
            detail = f"`since` has to be before `until`, by at most {LONGEST_S} s."
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
        return since, until


class TransitionsWanted(Window):
    gpu: str = Field("", max_length=300)
    node: str = Field("", max_length=253)
    after: str = Field("", max_length=600, description="`next` of the answer before")
    limit: int = Field(500, ge=1, le=1000, description="The most items in one answer")


class HistoryWanted(Window):
    span: Literal["minute", "hour"] = Field("hour", description="Minutes are kept for 7 days, hours for 90")


@router.get("/transitions", url_name="transitions", openapi_extra=described(answers.TransitionsAnswer))
def transitions(request: HttpRequest, wanted: Query[TransitionsWanted]) -> HttpResponse:
    """What happened to GPUs: changes of their state, and findings that came or went. Rows are never changed or removed."""
    name, (since, until) = chosen(request, wanted.cluster), wanted.ends()
    found = history.transitions(name, since=since, until=until, gpu=wanted.gpu or None, node=wanted.node or None)
    rows = {f"{one.at:018.6f}/{one.gpu}/{one.to_state}/{one.reason}/{one.closes}": one for one in found}
    part = page(rows, lambda *_: True, wanted.after, wanted.limit)
    return answers.past(request, answers.TransitionsAnswer(name, since, until, **part))


@router.get("/gpus/{uuid}/history", url_name="gpu-history", openapi_extra=described(answers.HistoryAnswer))
def gpu_history(request: HttpRequest, uuid: str, wanted: Query[HistoryWanted]) -> HttpResponse:
    """What one GPU did, minute by minute or hour by hour, also when it is gone."""
    name, (since, until) = chosen(request, wanted.cluster), wanted.ends()
    node = _node_of(request, name, uuid)
    read, span_s = (history.minutes, spans.MINUTE_S) if wanted.span == "minute" else (history.hours, spans.HOUR_S)
    points = [answers.HistoryPoint(at, sample) for at, sample in read(name, node, since, until).get(uuid, ())]
    return answers.past(request, answers.HistoryAnswer(name, since, until, uuid, node, span_s, points))


def _node_of(request: HttpRequest, cluster: str, uuid: str) -> str:
    """Where a GPU is, or was last. Raises Refused."""
    if (last := ledger.last_known(cluster, uuid)) is not None:
        return last.node
    row = published(request, cluster)[1].snapshot.gpus.get(uuid)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Cluster {cluster} has no GPU {uuid}, and never had.")
    return row.node


@router.get("/availability", url_name="availability", openapi_extra=described(answers.AvailabilityAnswer))
def availability(
    request: HttpRequest,
    cluster: Cluster = "",
    window: Literal["24h", "7d", "30d", "90d"] = "7d",
    by: Literal["fleet", "product", "node", "gpu"] = "node",
    format: Annotated[Literal["json", "csv"], Query(description="`csv`: one line each, without incidents")] = "json",  # noqa: A002
) -> HttpResponse:
    """How much of the last hours or days GPUs could be used; unknown time and announced work apart. The worst first."""
    name, until = chosen(request, cluster), ledger.until()
    since = until - WINDOWS[window]
    items = [_line(line) for line in ordered(ledger.lines(name, by, since, until), "availability")]
    body = answers.AvailabilityAnswer(name, since, until, by, items)
    if format == "csv":
        return answers.past(request, body, _csv(items), "text/csv; charset=utf-8")
    return answers.past(request, body)


def _line(line: Line) -> AvailabilityLine:
    found = line.found
    return AvailabilityLine(
        name=line.name,
        node=line.node,
        gpus=line.gpus,
        up_s=found.up_s,
        down_s=found.down_s,
        planned_s=found.planned_s,
        unknown_s=found.unknown_s,
        availability=found.availability,
        failures=found.failures,
        repairs=found.repairs,
        mtbf_s=found.mtbf_s,
        mtbf_at_least_s=found.mtbf_at_least_s,
        mttr_s=found.mttr_s,
        open=found.open,
    )


def _csv(items: Sequence[AvailabilityLine]) -> bytes:
    """What is unknown is an empty field. A name that a spreadsheet would take for a formula is quoted."""
    text = io.StringIO()
    fields = [field for field in AvailabilityLine.__struct_fields__ if field != "open"]
    writer = csv.writer(text)
    writer.writerow([*fields, "open"])
    for item in items:
        values = [getattr(item, field) for field in fields]
        writer.writerow([_safe(value) for value in (*values, len(item.open))])
    return text.getvalue().encode()


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
