"""Kubernetes as we read it: the watched kinds, where they live, how their JSON decodes, and what a followed kind can report.

Owns the mapping from API bytes to the structs of `objects` (offered here too: `kube.Pod`). Must not decide anything about what
the objects mean, and must not fetch.

Decoding is strict and fast first. What strictness refuses is read once more without its nulls, because the API writes `null` for
empty lists and unset times in places (an empty EndpointSlice has `endpoints: null`); what still does not fit is `Unreadable`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field

from fleet.domain.cluster_events import Occurrence
from fleet.domain.endpoints import Endpoint, EndpointConditions, EndpointSlice
from fleet.domain.objects import (
    Budget,
    BudgetSpec,
    BudgetStatus,
    Condition,
    Container,
    ContainerState,
    ContainerStatus,
    DaemonSet,
    Deployment,
    Job,
    LabelSelector,
    ManagedEntry,
    Metadata,
    Node,
    NodeMetadata,
    NodeSpec,
    NodeStatus,
    Object,
    OwnerReference,
    Part,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    ReplicaSet,
    Requests,
    Requirement,
    Service,
    StatefulSet,
    Taint,
    Volume,
    seconds,
)

__all__ = [
    "RESOURCES",
    "ApiResource",
    "Bookmark",
    "Budget",
    "BudgetSpec",
    "BudgetStatus",
    "Cause",
    "Changed",
    "Condition",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "DaemonSet",
    "Deleted",
    "Deployment",
    "Endpoint",
    "EndpointConditions",
    "EndpointSlice",
    "Event",
    "Job",
    "Kind",
    "LabelSelector",
    "Listed",
    "Lost",
    "ManagedEntry",
    "Metadata",
    "Node",
    "NodeMetadata",
    "NodeSpec",
    "NodeStatus",
    "Object",
    "Occurrence",
    "OwnerReference",
    "Page",
    "Pod",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "ReplicaSet",
    "Requests",
    "Requirement",
    "Service",
    "StatefulSet",
    "Status",
    "StatusDetails",
    "Taint",
    "Unreadable",
    "Volume",
    "page",
    "seconds",
    "status",
    "watch_line",
]

T = TypeVar("T")


class Kind(StrEnum):
    """Every kind that is watched; the value is the plural resource name."""

    NODE = "nodes"
    POD = "pods"
    DEPLOYMENT = "deployments"
    REPLICA_SET = "replicasets"
    STATEFUL_SET = "statefulsets"
    DAEMON_SET = "daemonsets"
    JOB = "jobs"
    SERVICE = "services"
    ENDPOINT_SLICE = "endpointslices"
    BUDGET = "poddisruptionbudgets"
    EVENT = "events"


class ApiResource(Struct, frozen=True):
    """Where a kind lives in the API and what it decodes to."""

    kind: Kind
    group: str  # "" is the core group
    name: str  # "Pod"
    struct: type[Object]
    version: str = "v1"
    namespaced: bool = True

    @property
    def path(self) -> str:
        """The collection over all namespaces, "/apis/apps/v1/deployments"."""
        return f"/{'apis/' + self.group if self.group else 'api'}/{self.version}/{self.kind.value}"


RESOURCES: Mapping[Kind, ApiResource] = {
    resource.kind: resource
    for resource in (
        ApiResource(Kind.NODE, "", "Node", Node, namespaced=False),
        ApiResource(Kind.POD, "", "Pod", Pod),
        ApiResource(Kind.DEPLOYMENT, "apps", "Deployment", Deployment),
        ApiResource(Kind.REPLICA_SET, "apps", "ReplicaSet", ReplicaSet),
        ApiResource(Kind.STATEFUL_SET, "apps", "StatefulSet", StatefulSet),
        ApiResource(Kind.DAEMON_SET, "apps", "DaemonSet", DaemonSet),
        ApiResource(Kind.JOB, "batch", "Job", Job),
        ApiResource(Kind.SERVICE, "", "Service", Service),
        ApiResource(Kind.ENDPOINT_SLICE, "discovery.k8s.io", "EndpointSlice", EndpointSlice),
        ApiResource(Kind.BUDGET, "policy", "PodDisruptionBudget", Budget),
        ApiResource(Kind.EVENT, "", "Event", Occurrence),
    )
}


class Listed(Struct, frozen=True):
    """The whole kind as of `resource_version`: whatever is not in `objects` no longer exists."""

    kind: Kind
    objects: tuple[Object, ...]
    resource_version: str


class Changed(Struct, frozen=True):
    """An object was added or modified."""

    kind: Kind
    object: Object
    resource_version: str


class Deleted(Struct, frozen=True):
    """An object is gone, or has left the selection that is followed."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str


class Bookmark(Struct, frozen=True):
    """Nothing changed up to `resource_version`; also sent once when a watch has been accepted (stream alive)."""

    kind: Kind
    resource_version: str


class Lost(Struct, frozen=True):
    """The stream broke; it is tried again after `retry_in_s`."""

    kind: Kind
    reason: str
    retry_in_s: float


Event = Listed | Changed | Deleted | Bookmark | Lost


class Unreadable(ValueError):  # noqa: N818 - it says what the bytes are
    """Bytes that are not the JSON of the kind: half a line, a proxy's error page, a wrong type. Says where, not what."""


class Cause(Part, frozen=True):
    """One of a Status' causes; the API's JSON calls the type `reason`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Part, frozen=True):
    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int | None = None


class Status(Part, frozen=True):
    """The API's answer where it is not an object: every error, in a response body or as a watch's ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails = StatusDetails()

    @property
    def expired(self) -> bool:
        """The version asked for is gone: only a fresh list helps."""
        return self.code == 410


class Page(Struct, frozen=True):
    """One page of a list. `token` asks for the next one, "" after the last."""

    objects: tuple[Object, ...]
    resource_version: str
    token: str = ""


class _ListMetadata(Part, frozen=True):
    resource_version: str = ""
    token: str = field(default="", name="continue")


class _Line(Part, frozen=True):
    type: str
    object: Raw


class _OnlyMetadata(Part, frozen=True):
    metadata: Metadata = Metadata()


def _list_of(struct: type[Object]) -> type[Any]:
    return msgspec.defstruct(
        f"{struct.__name__}Page",
        [("metadata", _ListMetadata, _ListMetadata()), ("items", tuple[struct, ...], ())],  # type: ignore[valid-type]
        frozen=True,
        gc=False,
    )


_PAGES: dict[Kind, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(_list_of(resource.struct)) for kind, resource in RESOURCES.items()
}
_OBJECTS: dict[Kind, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(resource.struct) for kind, resource in RESOURCES.items()
}
_LINE = msgspec.json.Decoder(_Line)
_STATUS = msgspec.json.Decoder(Status)
_METADATA = msgspec.json.Decoder(_OnlyMetadata)


def page(kind: Kind, body: bytes) -> Page:
    """One page of a list of `kind`. Raises Unreadable."""
    found = _decoded(_PAGES[kind], body)
    return Page(found.items, found.metadata.resource_version, found.metadata.token)


def watch_line(kind: Kind, line: bytes) -> Changed | Deleted | Bookmark | Status:
    """One line of a watch of `kind`; a Status is the server's in-band ERROR event. Raises Unreadable."""
    event = _decoded(_LINE, line)
    match event.type:
        case "ADDED" | "MODIFIED":
            found = cast(Object, _decoded(_OBJECTS[kind], event.object))
            return Changed(kind, found, found.metadata.resource_version)
        case "DELETED":
            gone = _decoded(_METADATA, event.object).metadata
            return Deleted(kind, gone.namespace, gone.name, gone.uid, gone.resource_version)
        case "BOOKMARK":
            return Bookmark(kind, _decoded(_METADATA, event.object).metadata.resource_version)
        case "ERROR":
            return _decoded(_STATUS, event.object)
        case _:
            raise Unreadable(f"unknown watch event type {event.type[:40]!r}")


def status(body: bytes) -> Status:
    """The body of an error response. Raises Unreadable when something else than the API answered."""
    return _decoded(_STATUS, body)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return _decoded_without_nulls(decoder, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from error


def _decoded_without_nulls(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    try:
        return decoder.decode(msgspec.json.encode(without_nulls(msgspec.json.decode(data))))
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from error


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value
