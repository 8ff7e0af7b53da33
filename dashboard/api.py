"""The API for programs: `/api/v1/`.

Owns addresses, answers and their description. Rows are those of `fleet.domain.picture`, as they are: what a screen shows and
what a program gets never differ. `access.Gate` decides who may ask. Must not hold rules about machines.
"""

import time
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Query
from ninja.errors import AuthenticationError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.security import APIKeyCookie, HttpBearer

from dashboard import access, clusters, errors
from fleet.domain.picture import AttentionRow, FleetRow, NodeRow, PodRow, ProductRow, Snapshot, WorkloadRow
from fleet.live import PictureError, Published


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


class Head(msgspec.Struct, frozen=True):
    """What every answer about a cluster begins with.

    `version`: (epoch, n). `at`: when it was last known to be true, `now`: when this was sent, both in seconds since 1970.
    `trouble`: (what, why, for how many seconds).
    """

    cluster: str
    version: tuple[int, int]
    at: float
    now: float
    trouble: tuple[tuple[str, str, float], ...]


class SnapshotAnswer(Head, frozen=True):
    """Everything that is known of one cluster."""

    fleet: FleetRow
    products: dict[str, ProductRow]
    nodes: dict[str, NodeRow]
    pods: dict[str, PodRow]
    workloads: dict[str, WorkloadRow]
    attention: dict[str, AttentionRow]


class NodesAnswer(Head, frozen=True):
    """Every node of one cluster, by name."""

    items: list[NodeRow]


class NodeAnswer(Head, frozen=True):
    """One node."""

    node: NodeRow


class Api(NinjaAPI):
    """Describes our answers from the same structs that they are made of."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        described = super().get_openapi_schema(**options)
        _, schemas = msgspec.json.schema_components(
            (SnapshotAnswer, NodesAnswer, NodeAnswer, errors.Problem), ref_template="#/components/schemas/{name}"
        )
        described["components"].setdefault("schemas", {}).update(schemas)
        return described


def _described(answer: type[Head]) -> dict[str, Any]:
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
    schema = {"$ref": f"#/components/schemas/{answer.__name__}"}
    ok = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    return {"responses": {200: ok, 304: {"description": "Not changed since the ETag in If-None-Match"}, **refused}}


api = Api(
    title="Vigie",
    version="1",
    description="Availability of a GPU fleet on Kubernetes. Times are seconds since 1970; null means unknown.",
    urls_namespace="api-v1",
    docs_url=None,
    auth=[Session(), Token()],
)

Cluster = Annotated[str, Query(max_length=253, description="Name of a cluster; the first one when left out")]


@api.get("/snapshot", url_name="snapshot", openapi_extra=_described(SnapshotAnswer))
def snapshot(request: HttpRequest, cluster: Cluster = "") -> HttpResponse:
    """Everything that is known of one cluster."""
    name, found = _published(request, cluster)
    tables = {table: getattr(found.snapshot, table) for table in Snapshot.__struct_fields__}
    tables["fleet"] = found.snapshot.fleet.get("fleet", FleetRow())
    return _answer(request, found, SnapshotAnswer(**_head(name, found), **tables))


@api.get("/nodes", url_name="nodes", openapi_extra=_described(NodesAnswer))
def nodes(request: HttpRequest, cluster: Cluster = "") -> HttpResponse:
    """Every node of one cluster, by name."""
    name, found = _published(request, cluster)
    items = [found.snapshot.nodes[key] for key in sorted(found.snapshot.nodes)]
    return _answer(request, found, NodesAnswer(**_head(name, found), items=items))


@api.get("/nodes/{name}", url_name="node", openapi_extra=_described(NodeAnswer))
def node(request: HttpRequest, name: str, cluster: Cluster = "") -> HttpResponse:
    """One node of one cluster."""
    chosen, found = _published(request, cluster)
    row = found.snapshot.nodes.get(name)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Cluster {chosen} has no node {name}.")
    return _answer(request, found, NodeAnswer(**_head(chosen, found), node=row))


class Refused(Exception):  # noqa: N818  (an answer, not a failure)
    """There is no answer but this problem."""

    def __init__(self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


@api.exception_handler(Refused)
def _refused(_request: HttpRequest, refused: Refused) -> HttpResponse:
    return errors.problem(refused.status, refused.detail, headers=refused.headers)


@api.exception_handler(ValidationError)
def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
    wrong = [{"in": [str(part) for part in e["loc"]], "detail": e["msg"]} for e in error.errors]
    return errors.problem(HTTPStatus.UNPROCESSABLE_ENTITY, "A parameter is not understood.", errors=wrong)


@api.exception_handler(AuthenticationError)
def _anonymous(_request: HttpRequest, _error: AuthenticationError) -> HttpResponse:
    return errors.unauthorised()


def _published(request: HttpRequest, cluster: str) -> tuple[str, Published]:
    """The chosen cluster's name and picture. Raises Refused."""
    try:
        name = clusters.chosen(cluster, access.clusters_of(request))
        found = clusters.published(name)
    except clusters.UnknownClusterError as error:
        raise Refused(HTTPStatus.NOT_FOUND, f"There is no cluster {cluster}.".replace(" .", ".")) from error
    except PictureError as error:
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE, "The picture cannot be read now.", {"Retry-After": "5"}
        ) from error
    if found is None:
        wait = {"Retry-After": "1"}
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"There is no snapshot of cluster {name} yet.", wait)
    return name, found


def _head(cluster: str, found: Published) -> dict[str, Any]:
    version, pulse = found.version, found.pulse
    return {
        "cluster": cluster,
        "version": (version.epoch, version.n),
        "at": pulse.at,
        "now": time.time(),
        "trouble": tuple(pulse.trouble),
    }


def _answer(request: HttpRequest, found: Published, answer: Head) -> HttpResponse:
    """JSON, or 304 for whoever has this version. `Vigie-At` says on both how old it is, since a 304 has no body that could."""
    kinds = sorted({what for what, _, _ in found.pulse.trouble})
    etag = f'W/"{answer.cluster}-{found.version.epoch}-{found.version.n}-{"+".join(kinds)}"'
    headers = {
        "ETag": etag,
        "Vigie-At": f"{found.pulse.at:.3f}",
        "Cache-Control": "no-cache, private",
        "Vary": "Cookie, Authorization",
    }
    if etag in [given.strip() for given in request.headers.get("If-None-Match", "").split(",")]:
        return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return HttpResponse(msgspec.json.encode(answer), content_type="application/json", headers=headers)
