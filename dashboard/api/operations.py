"""The operations of the API: addresses, parameters, and which rows answer.

Owns `/api/v1/` but its stream and its reference page. What an answer looks like is `answers`'.
"""

import time
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from ninja import Field, NinjaAPI, Query
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.security import APIKeyCookie, HttpBearer

from dashboard import access, clusters, errors
from dashboard.api import actions, answers, cadence, checkpoints, gpus, readiness, reference, stream
from dashboard.api.answers import Refused, described, head, page, published
from dashboard.api.parameters import Cluster, Part
from fleet.domain.changes import Screen, View, waits
from fleet.domain.occurrences import newest
from fleet.domain.picture import FleetRow, LabelsRow, NodeRow, PodRow, Snapshot, WorkloadRow
from fleet.live import Loss, PictureError, Published


class Session(APIKeyCookie):
    """A signed-in browser. The gate has looked already; this says so in the description, and would refuse what it let through."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self) -> None:
        super().__init__(csrf=False)  # every operation only reads

    def authenticate(self, request: HttpRequest, _key: str | None) -> object:
        return request.user if request.user.is_authenticated else None


class Token(HttpBearer):
    """An API token, likewise."""

    def authenticate(self, request: HttpRequest, _token: str) -> object:
        return request.user if request.user.is_authenticated else None


class Api(NinjaAPI):
    """Describes our answers from the same structs that they are made of."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        found = super().get_openapi_schema(**options)
        _, schemas = msgspec.json.schema_components(
            (*answers.ANSWERS, *checkpoints.SHAPES), ref_template="#/components/schemas/{name}"
        )
        found["components"].setdefault("schemas", {}).update(schemas)
        return found


api = Api(
    title="Vigie",
    version="1",
    description="Availability of a GPU fleet on Kubernetes. Times are seconds since 1970; null means unknown.",
    urls_namespace="api-v1",
    docs_url=None,
    auth=[Session(), Token()],
)
api.add_router("", gpus.router)
api.add_router("", cadence.router)
api.add_router("", checkpoints.router)
api.add_router("", readiness.router)
api.add_router("", actions.router)


class NodesWanted(Part):
    pool: str = Field("", max_length=253)
    zone: str = Field("", max_length=253)
    product: str = Field("", max_length=253)
    level: Literal["", "ok", "warn", "bad", "drain", "off"] = Field("", description="`ok`: nothing is wrong")
    usable: bool | None = Field(None, description="Whether new pods may come")
    q: str = Field("", max_length=253, description="Only those whose name has this in it")

    def fits(self, name: str, row: NodeRow) -> bool:
        return (
            self.q.lower() in name.lower()
            and self.usable in {None, row.usable}
            and self.level in {"", row.level or "ok"}
            and self.pool in {"", row.pool}
            and self.zone in {"", row.zone}
            and self.product in {"", row.product}
        )


class WorkloadsWanted(Part):
    kind: str = Field("", max_length=63)
    namespace: str = Field("", max_length=63)
    team: str = Field("", max_length=253)
    gpus: bool | None = Field(None, description="Whether its pods want GPUs")
    q: str = Field("", max_length=253, description="Only those whose name has this in it")

    def fits(self, _key: str, row: WorkloadRow) -> bool:
        return (
            self.q.lower() in row.name.lower()
            and self.gpus in {None, row.gpus_per_pod > 0 or row.gpus > 0}
            and self.kind in {"", row.kind}
            and self.namespace in {"", row.namespace}
            and self.team in {"", row.team}
        )


class WaitingWanted(Part):
    namespace: str = Field("", max_length=63)

    def fits(self, _key: str, row: PodRow) -> bool:
        return waits(row) and self.namespace in {"", row.namespace}


@api.get("/clusters", url_name="clusters", openapi_extra=described(answers.ClustersAnswer))
def all_clusters(request: HttpRequest) -> HttpResponse:
    """Every cluster that you may see, with its totals."""
    now = time.time()
    body = answers.ClustersAnswer(now, [_state(name, now) for name in access.clusters_of(request)])
    return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def _state(name: str, now: float) -> answers.ClusterState:
    try:
        found = clusters.published(name)
    except PictureError:
        return answers.ClusterState(name, None, Loss.WRITER, None)
    if found is None:
        return answers.ClusterState(name, None, Loss.NO_PICTURE, None)
    return answers.ClusterState(name, found.pulse.at, found.pulse.loss(now), _totals(found))


def _totals(found: Published) -> FleetRow:
    return found.snapshot.fleet.get("fleet", FleetRow())


@api.get("/snapshot", url_name="snapshot", openapi_extra=described(answers.SnapshotAnswer))
def snapshot(request: HttpRequest, cluster: Cluster = "") -> HttpResponse:
    """Everything that is known of one cluster."""
    name, found = published(request, cluster)
    tables = {table: getattr(found.snapshot, table) for table in Snapshot.__struct_fields__}
    tables["fleet"] = _totals(found)
    return answers.answer(request, found, answers.SnapshotAnswer(**head(name, found), **tables))


@api.get("/nodes", url_name="nodes", openapi_extra=described(answers.NodesAnswer))
def nodes(request: HttpRequest, wanted: Query[NodesWanted]) -> HttpResponse:
    """Nodes of one cluster, by name."""
    name, found = published(request, wanted.cluster)
    part = page(found.snapshot.nodes, wanted.fits, wanted.after, wanted.limit)
    return answers.answer(request, found, answers.NodesAnswer(**head(name, found), **part))


@api.get("/nodes/{name}", url_name="node", openapi_extra=described(answers.NodeAnswer))
def node(request: HttpRequest, name: str, cluster: Cluster = "") -> HttpResponse:
    """One node of one cluster, with its labels and its recent events."""
    chosen, found = published(request, cluster)
    row, told = _node(chosen, found, name), found.snapshot.labels.get(name, LabelsRow())
    happened = {key: event for key, event in found.snapshot.events.items() if event.node == name}
    body = answers.NodeAnswer(
        **head(chosen, found),
        node=row,
        labels=dict(told.labels),
        annotations=dict(told.annotations),
        events=[happened[key] for key in newest(happened)],
    )
    return answers.answer(request, found, body)


def _node(cluster: str, found: Published, name: str) -> NodeRow:
    row = found.snapshot.nodes.get(name)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Cluster {cluster} has no node {name}.")
    return row


@api.get("/nodes/{name}/pods", url_name="node-pods", openapi_extra=described(answers.PodsAnswer))
def node_pods(request: HttpRequest, name: str, wanted: Query[Part]) -> HttpResponse:
    """Pods that are bound to one node."""
    cluster, found = published(request, wanted.cluster)
    _node(cluster, found, name)
    part = page(found.snapshot.pods, lambda _, pod: pod.node == name, wanted.after, wanted.limit)
    return answers.answer(request, found, answers.PodsAnswer(**head(cluster, found), **part))


@api.get("/workloads", url_name="workloads", openapi_extra=described(answers.WorkloadsAnswer))
def workloads(request: HttpRequest, wanted: Query[WorkloadsWanted]) -> HttpResponse:
    """Owners of pods: Deployments, StatefulSets, DaemonSets, Jobs and the like."""
    name, found = published(request, wanted.cluster)
    part = page(found.snapshot.workloads, wanted.fits, wanted.after, wanted.limit)
    return answers.answer(request, found, answers.WorkloadsAnswer(**head(name, found), **part))


@api.get("/waiting", url_name="waiting", openapi_extra=described(answers.PodsAnswer))
def waiting(request: HttpRequest, wanted: Query[WaitingWanted]) -> HttpResponse:
    """Pods that want GPUs and have no node."""
    name, found = published(request, wanted.cluster)
    part = page(found.snapshot.pods, wanted.fits, wanted.after, wanted.limit)
    return answers.answer(request, found, answers.PodsAnswer(**head(name, found), **part))


@api.get("/events", url_name="events", openapi_extra=described(str, media="text/event-stream"))
def events(
    request: HttpRequest,
    cluster: Cluster = "",
    view: Annotated[str, Query(pattern=stream.VIEWS, description="Which tables to follow")] = "everything",
    node: Annotated[str, Query(max_length=253, description="For the view of one node")] = "",
    workload: Annotated[
        str, Query(max_length=520, description="Kind/namespace/name, for the view of one rollout")
    ] = "",
) -> HttpResponseBase:
    """Server-Sent Events: `snapshot` with all rows of the view, then a `delta` for each change; a `pulse` at least every 2 s."""
    return stream.follow(request, answers.chosen(request, cluster), View(Screen(view), node, workload))


@api.get("/docs", url_name="docs", include_in_schema=False)
def docs(request: HttpRequest) -> HttpResponse:
    """This description as a page."""
    return reference.page(request, dict(api.get_openapi_schema()))


@api.exception_handler(Refused)
def _refused(_request: HttpRequest, refused: Refused) -> HttpResponse:
    return errors.problem(refused.status, refused.detail, headers=refused.headers)


@api.exception_handler(actions.Problem)
def _not_done(_request: HttpRequest, problem: actions.Problem) -> HttpResponse:
    return problem.response()


@api.exception_handler(ValidationError)
def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
    wrong = [{"in": [str(part) for part in e["loc"]], "detail": e["msg"]} for e in error.errors]
    return errors.problem(HTTPStatus.UNPROCESSABLE_ENTITY, "A parameter is not understood.", errors=wrong)


@api.exception_handler(HttpError)
def _malformed(_request: HttpRequest, error: HttpError) -> HttpResponse:
    """A body that is no JSON."""
    return errors.problem(HTTPStatus(error.status_code), f"{error}.")


@api.exception_handler(AuthenticationError)
def _anonymous(_request: HttpRequest, _error: AuthenticationError) -> HttpResponse:
    return errors.unauthorised()
