"""What the API answers: the shape of every answer, and the answers that are problems.

Owns shapes and their description, versions as ETags, and how a long list is cut into pages. Must not know addresses.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse

from dashboard import access, clusters, errors
from fleet.domain.availability import Incident
from fleet.domain.cadence import BreakEven, LostWork, Share
from fleet.domain.mtbf import Mtbf
from fleet.domain.picture import (
    AttentionRow,
    EventRow,
    FleetRow,
    GpuRow,
    LabelsRow,
    NodeRow,
    PodRow,
    ProductRow,
    WorkloadRow,
)
from fleet.domain.readiness import Rule, Severity
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.saving import Fit, Saving
from fleet.domain.spans import Sample
from fleet.domain.verdicts import Transition
from fleet.live import Loss, PictureError, Published

R = TypeVar("R", bound=msgspec.Struct)


class Head(msgspec.Struct, frozen=True):
    """What every answer about a cluster begins with.

    `version`: (epoch, n). `at`: when it was last known to be true, `now`: when this was sent, both in seconds since 1970.
    `trouble`: (what, why, for how many seconds). `lost`: why it is known not to be kept true, whatever its age; else "".
    """

    cluster: str
    version: tuple[int, int]
    at: float
    now: float
    trouble: tuple[tuple[str, str, float], ...]
    lost: Loss


class SnapshotAnswer(Head, frozen=True):
    """Everything that is known of one cluster."""

    fleet: FleetRow
    products: dict[str, ProductRow]
    nodes: dict[str, NodeRow]
    pods: dict[str, PodRow]
    workloads: dict[str, WorkloadRow]
    attention: dict[str, AttentionRow]
    labels: dict[str, LabelsRow]
    events: dict[str, EventRow]
    gpus: dict[str, GpuRow]
    rollouts: dict[str, RolloutRow]
    checkpoints: dict[str, CheckpointRow]


class Page(Head, frozen=True):
    """A part of a list, in the order of its keys.

    `total`: how many match. `next`: what to give as `after` for the next part; null at the end. Parts that are read one after
    another may be of different versions; what stayed all the time is in one of them.
    """

    total: int
    next: str | None


class NodesAnswer(Page, frozen=True):
    """Nodes of one cluster, by name."""

    items: list[NodeRow]


class PodsAnswer(Page, frozen=True):
    """Pods of one cluster, by namespace and name."""

    items: list[PodRow]


class WorkloadsAnswer(Page, frozen=True):
    """Workloads of one cluster, by kind, namespace and name."""

    items: list[WorkloadRow]


class NodeAnswer(Head, frozen=True):
    """One node. `annotations`: those for people. `events`: about it and its pods, the newest first, not all of them."""

    node: NodeRow
    labels: dict[str, str]
    annotations: dict[str, str]
    events: list[EventRow]


class GpusAnswer(Page, frozen=True):
    """GPUs of one cluster that are measured, by their keys."""

    items: list[GpuRow]


class GpuAnswer(Head, frozen=True):
    """One GPU."""

    gpu: GpuRow


class Past(msgspec.Struct, frozen=True):
    """What every answer from the ledger begins with. `since` and `until`: seconds since 1970, the end not included."""

    cluster: str
    since: float
    until: float


class TransitionsAnswer(Past, frozen=True):
    """What happened to GPUs, oldest first. `next`: what to give as `after` for the next part; null at the end."""

    total: int
    next: str | None
    items: list[Transition]


class AvailabilityLine(msgspec.Struct, frozen=True):
    """Of one GPU, or of all `gpus` of a node, a product or the fleet. Times in GPU-seconds.

    `availability`: up / (up + down), null when it was never known to be either. `mtbf_s`: up time per failure, null without one;
    then the mean is over `mtbf_at_least_s`, 95 % sure. `mttr_s`: of the repairs that are over. `open`: incidents that are not.
    """

    name: str
    node: str
    gpus: int
    up_s: float
    down_s: float
    planned_s: float
    unknown_s: float
    availability: float | None
    failures: int
    repairs: int
    mtbf_s: float | None
    mtbf_at_least_s: float | None
    mttr_s: float | None
    open: tuple[Incident, ...]


class AvailabilityAnswer(Past, frozen=True):
    """How much of a window GPUs could be used."""

    by: str
    items: list[AvailabilityLine]


class HistoryPoint(msgspec.Struct, frozen=True):
    """A minute or an hour of a GPU that began `at`; see `Sample`."""

    at: float
    sample: Sample


class HistoryAnswer(Past, frozen=True):
    """What one GPU did, oldest first. `span_s`: how long each point is."""

    gpu: str
    node: str
    span_s: int
    items: list[HistoryPoint]


class CadenceAnswer(Past, frozen=True):
    """How often a run should save. Times in seconds, overheads as shares of the work.

    `observed`: the time between failures of a run on so many `gpus`, from the ledger of the window; null when `mtbf_s` was given.
    `mtbf_s`: what was planned with; without a failure the bound that is 95 % sure. `write_s`: see the parameter.
    An `overhead` that is null: the run practically never ends.
    """

    gpus: int
    observed: Mtbf | None
    save_cost_s: float
    mtbf_s: float
    write_s: float
    young_s: float
    daly_s: float
    daly_holds: bool
    optimum_s: float
    best_s: float
    overheads: tuple[Share, ...]
    losses: tuple[LostWork, ...]
    break_evens: tuple[BreakEven, ...]
    savings: tuple[Saving, ...]
    fits: tuple[Fit, ...]
    curve: tuple[Share, ...]


class FoundUnready(msgspec.Struct, frozen=True):
    """What makes a restart lose something. `object`: "Kind/namespace/name". `facts`: what the message holds, times in seconds.
    `remedy`: a patch as YAML, or an object to add; "" where somebody has to choose first."""

    rule: Rule
    severity: Severity
    object: str
    case: str
    facts: Mapping[str, str | int | float]
    message: str
    why: str
    remedy: str


class ReadinessAnswer(msgspec.Struct, frozen=True):
    """Findings of one cluster by object. `at`: when the objects were read; `unread`: kinds that Vigie may not list, about which
    nothing is said. `total` and `next`: as in every list."""

    cluster: str
    at: float
    unread: tuple[str, ...]
    total: int
    next: str | None
    items: list[FoundUnready]


class ClusterState(msgspec.Struct, frozen=True):
    """One cluster that you may see. `fleet`: its totals, null before its first snapshot. The rest as in every answer."""

    name: str
    at: float | None
    lost: Loss
    fleet: FleetRow | None


class ClustersAnswer(msgspec.Struct, frozen=True):
    """Every cluster that you may see, in the order of the configuration."""

    now: float
    items: list[ClusterState]


ANSWERS = (
    SnapshotAnswer,
    NodesAnswer,
    NodeAnswer,
    PodsAnswer,
    WorkloadsAnswer,
    GpusAnswer,
    GpuAnswer,
    TransitionsAnswer,
    AvailabilityAnswer,
    HistoryAnswer,
    CadenceAnswer,
    ReadinessAnswer,
    ClustersAnswer,
    errors.Problem,
)


class Refused(Exception):  # noqa: N818  (an answer, not a failure)
    """There is no answer but this problem."""

    def __init__(self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def described(answer: type, *, media: str = "application/json") -> dict[str, Any]:
    """The responses of one operation, for its description."""
    problem = {"$ref": "#/components/schemas/Problem"}
    refused = {
        status.value: {"description": status.phrase, "content": {errors.PROBLEM: {"schema": problem}}}
        for status in (
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.NOT_FOUND,
            HTTPStatus.UNPROCESSABLE_ENTITY,
            HTTPStatus.SERVICE_UNAVAILABLE,
        )
    }
    schema = {"type": "string"} if answer is str else {"$ref": f"#/components/schemas/{answer.__name__}"}
    ok = {"description": "OK", "content": {media: {"schema": schema}}}
    unchanged = (
        {304: {"description": "Not changed since the ETag in If-None-Match"}} if issubclass(answer, Head | Past) else {}
    )
    return {"responses": {200: ok, **unchanged, **refused}}


def chosen(request: HttpRequest, cluster: str) -> str:
    """The name of the cluster that is asked for. Raises Refused."""
    try:
        return clusters.chosen(cluster, access.clusters_of(request))
    except clusters.UnknownClusterError as error:
        detail = f"There is no cluster {cluster}." if cluster else "There is no cluster."
        raise Refused(HTTPStatus.NOT_FOUND, detail) from error


def published(request: HttpRequest, cluster: str) -> tuple[str, Published]:
    """The chosen cluster's name and picture. Raises Refused."""
    name = chosen(request, cluster)
    try:
        found = clusters.published(name)
    except PictureError as error:
        wait = {"Retry-After": "5"}
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The picture cannot be read now.", wait) from error
    if found is None:
        wait = {"Retry-After": "1"}
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"There is no snapshot of cluster {name} yet.", wait)
    return name, found


def head(cluster: str, found: Published) -> dict[str, Any]:
    version, pulse, now = found.version, found.pulse, time.time()
    return {
        "cluster": cluster,
        "version": (version.epoch, version.n),
        "at": pulse.at,
        "now": now,
        "trouble": pulse.trouble,
        "lost": pulse.loss(now),
    }


def page(rows: Mapping[str, R], wanted: Callable[[str, R], bool], after: str, limit: int) -> dict[str, Any]:
    """The members of a `Page`: of the rows that are wanted, those whose keys come after `after`, at most `limit`."""
    keys = sorted(key for key, row in rows.items() if wanted(key, row))
    rest = [key for key in keys if key > after] if after else keys
    part = rest[:limit]
    return {
        "total": len(keys),
        "next": part[-1] if len(rest) > limit else None,
        "items": [rows[key] for key in part],
    }


def answer(request: HttpRequest, found: Published, body: Head) -> HttpResponse:
    """JSON, or 304 for whoever has this version. `Vigie-At` says on both how old it is, since a 304 has no body that could."""
    state = "+".join(sorted({*(what for what, _, _ in found.pulse.trouble), body.lost} - {""}))
    etag = f'W/"{body.cluster}-{found.version.epoch}-{found.version.n}-{state}"'
    headers = {
        "ETag": etag,
        "Vigie-At": f"{found.pulse.at:.3f}",
        "Cache-Control": "no-cache, private",
        "Vary": "Cookie, Authorization",
    }
    if etag in [given.strip() for given in request.headers.get("If-None-Match", "").split(",")]:
        return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if isinstance(body, Page) and body.next is not None:
        headers["Link"] = f'<{following(request, body.next)}>; rel="next"'
    return HttpResponse(msgspec.json.encode(body), content_type="application/json", headers=headers)


def past(request: HttpRequest, body: Past, text: bytes = b"", media: str = "application/json") -> HttpResponse:
    """An answer from the ledger, as JSON unless it is given as another text, or 304 for whoever has it."""
    text = text or msgspec.json.encode(body)
    etag = f'W/"{hashlib.sha256(text).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache, private", "Vary": "Cookie, Authorization"}
    if etag in [given.strip() for given in request.headers.get("If-None-Match", "").split(",")]:
        return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if isinstance(body, TransitionsAnswer) and body.next is not None:
        headers["Link"] = f'<{following(request, body.next)}>; rel="next"'
    return HttpResponse(text, content_type=media, headers=headers)


def following(request: HttpRequest, after: str) -> str:
    query = request.GET.copy()
    query["after"] = after
    return f"{request.path}?{query.urlencode()}"
