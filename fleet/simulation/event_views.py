"""Events in the two shapes of their two groups: stored as core/v1, shown as events.k8s.io/v1 to who asks there.

Owns the mapping of fields. Must not store anything.
"""

from typing import Any

Object = dict[str, Any]

# core/v1 field → events.k8s.io/v1 field
_RENAMED = {
    "message": "note",
    "involvedObject": "regarding",
    "reportingComponent": "reportingController",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "source": "deprecatedSource",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def to_v1(event: Object) -> Object:
    """A stored event as events.k8s.io/v1."""
    renamed = {_RENAMED.get(k, k): v for k, v in event.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def from_v1(event: Object) -> Object:
    """An events.k8s.io/v1 body as it is stored, with what core/v1 always has."""
    stored = {_BACK.get(k, k): v for k, v in event.items()}
    for field, value in (("source", {}), ("firstTimestamp", None), ("lastTimestamp", None)):
        stored.setdefault(field, value)
    return {**stored, "apiVersion": "v1"}
