"""Which pods are behind a Service, as the API tells it; `kube` decodes these structs and offers them under its own name.

Owns the shape of the API's JSON, like `objects`. Must not decide anything about what it means.
"""

from fleet.domain.objects import Object, ObjectReference, Part


class EndpointConditions(Part, frozen=True):
    """`None` is unknown: consumers of slices read it as ready, as serving like `ready`, and as not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Part, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointSlice(Object, frozen=True):
    """Belongs to the Service that its label kubernetes.io/service-name names."""

    endpoints: tuple[Endpoint, ...] = ()
