"""Sending a Service's requests to the other side: what a selector would do, what it did, and the way back.

Owns endpoints before and after a selector, what must stand against writing it, the patch, and the proof. Must not send anything.
Pods tell what a selector would do; EndpointSlices prove what it did.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from fleet.domain.blue_green import Pair, Selector, Side, selects
from fleet.domain.capacity import finished
from fleet.domain.endpoints import Endpoint, EndpointSlice
from fleet.domain.objects import Pod, Service
from fleet.domain.pods import is_ready

WAY_BACK = "vigie.dev/way-back"  # on a Service: a `WayBack` as JSON, written together with the selector
SERVICE_NAME = "kubernetes.io/service-name"  # label of a slice


class Reach(Struct, frozen=True):
    """The pods that a selector reaches: Ready ones by workload key ("" for pods of nobody), and how many are not Ready."""

    ready: Mapping[str, int]
    unready: int = 0

    @property
    def total(self) -> int:
        return sum(self.ready.values())


class Fault(StrEnum):
    """Why a selector must not be written."""

    OWNED = "owned"  # another controller would take it back
    SAME = "same"  # it is the selector already
    EMPTY = "empty"  # no Ready pod would be left
    MIXED = "mixed"  # pods of several workloads would serve
    OTHER = "other"  # those of another workload than asked for would serve
    FEWER = "fewer"  # not every pod that the side wants is Ready
    UNTOLD = "untold"  # no label tells the sides apart


class Preview(Struct, frozen=True):
    """What writing `selector` would do, and what stands against it."""

    selector: Selector
    before: Reach
    after: Reach
    faults: tuple[Fault, ...]


def reach(selector: Selector, namespace: str, pods: Mapping[str, Sequence[Pod]], others: Iterable[Pod] = ()) -> Reach:
    """`pods` by the key of their workload; `others` have none. A terminating pod is no endpoint."""
    ready, unready = Counter[str](), 0
    for key, pod in _all(pods, others):
        meta = pod.metadata
        if meta.namespace != namespace or meta.deletion_timestamp is not None or finished(pod):
            continue
        if not selects(selector, meta.labels):
            continue
        if is_ready(pod):
            ready[key] += 1
        else:
            unready += 1
    return Reach(dict(sorted(ready.items())), unready)


def _all(pods: Mapping[str, Sequence[Pod]], others: Iterable[Pod]) -> Iterator[tuple[str, Pod]]:
    for key, found in pods.items():
        for pod in found:
            yield key, pod
    for pod in others:
        yield "", pod


def preview(
    found: Pair, selector: Selector, to: Side, pods: Mapping[str, Sequence[Pod]], others: Iterable[Pod] = ()
) -> Preview:
    """What stands against sending all requests to `to` by writing `selector`."""
    namespace = found.service.partition("/")[0]
    others = tuple(others)
    before, after = reach(found.selector, namespace, pods, others), reach(selector, namespace, pods, others)
    return Preview(selector, before, after, tuple(_faults(found, selector, to, after)))


def _faults(found: Pair, selector: Selector, to: Side, after: Reach) -> Iterator[Fault]:
    if found.owned_by:
        yield Fault.OWNED
    if not selector:
        yield Fault.UNTOLD
    elif dict(selector) == dict(found.selector):
        yield Fault.SAME
    ready = after.ready.get(to.key, 0)
    if not after.total:
        yield Fault.EMPTY
    elif len(after.ready) > 1:
        yield Fault.MIXED
    elif not ready:
        yield Fault.OTHER
    if ready and (ready < to.replicas or after.unready):
        yield Fault.FEWER


def patch(
    now: Selector, then: Selector, resource_version: str, annotations: Mapping[str, str | None]
) -> dict[str, Any]:
    """The merge patch that makes exactly `then` of `now`, on that very version of the Service."""
    gone = dict.fromkeys(sorted(now.keys() - then.keys()))
    return {
        "metadata": {"resourceVersion": resource_version, "annotations": dict(annotations)},
        "spec": {"selector": {**gone, **then}},
    }


# The way back


class WayBack(Struct, frozen=True):
    """What the Service selected before a switch of ours, and what since. `at`: seconds since 1970. `back`: the switch was a way
    back itself, from a side that somebody found bad: to that one leads no second way back, but a switch with its smoke test."""

    was: dict[str, str]
    now: dict[str, str]
    at: float
    action: str = ""
    back: bool = False


def noted(service: Service) -> WayBack | None:
    """What the last switch of ours has left, whatever came since. None: there was none, or its note is not readable."""
    try:
        return msgspec.json.decode(service.metadata.annotations.get(WAY_BACK, ""), type=WayBack)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def way_back(service: Service) -> WayBack | None:
    """The way back of the last switch. None: there was none, its note is not readable, it was a way back itself, or somebody has
    written another selector since, which nobody may take back without looking."""
    found = noted(service)
    if found is None or found.back:
        return None
    return found if found.now == service.spec.selector and found.was and found.was != found.now else None


def note(was: Selector, now: Selector, at: float, action: str, *, back: bool = False) -> dict[str, str]:
    """The annotation that a switch leaves."""
    return {WAY_BACK: msgspec.json.encode(WayBack(dict(was), dict(now), at, action, back)).decode()}


# The proof


class Served(Struct, frozen=True):
    """What the EndpointSlices of a Service send requests to: Ready endpoints by pod UID, and how many are none of a pod."""

    ready: frozenset[str]
    unready: frozenset[str] = frozenset()
    foreign: int = 0


def served(slices: Iterable[EndpointSlice]) -> Served:
    """An endpoint whose readiness is not told counts as ready: that is how its consumers read it."""
    ready, unready, foreign = set[str](), set[str](), 0
    for endpoint in (endpoint for one in slices for endpoint in one.endpoints):
        uid = _pod(endpoint)
        if endpoint.conditions.ready is False:
            unready.add(uid)
        elif uid:
            ready.add(uid)
        else:
            foreign += 1
    return Served(frozenset(ready), frozenset(unready - {""}), foreign)


def _pod(endpoint: Endpoint) -> str:
    target = endpoint.target_ref
    return target.uid if target is not None and target.kind == "Pod" else ""


class Proof(Struct, frozen=True):
    """How many Ready endpoints are pods of the side that has to serve, and how many are not."""

    right: int
    wrong: int

    @property
    def whole(self) -> bool:
        return self.right > 0 and not self.wrong


def proof(found: Served, wanted: Iterable[str]) -> Proof:
    """`wanted`: UIDs of the pods of the side that has to serve."""
    right = len(found.ready & frozenset(wanted))
    return Proof(right, len(found.ready) - right + found.foreign)
