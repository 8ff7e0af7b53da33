"""The Kubernetes objects that we read, as typed structs with only the fields used; their decoders; and stream events.

Owns the mapping from API JSON to structs. Must not decide anything about what the objects mean.
"""

from enum import StrEnum

from msgspec import Struct


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


class Object(Struct, frozen=True):
    """Base of the object structs (metadata and so on come with the kinds)."""


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
