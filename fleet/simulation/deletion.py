"""What a deletion request does to an object before it goes: marks, grace, finalizers.

Owns those rules. Changes the copy it is given; must not store anything.
"""

from datetime import UTC, datetime
from typing import Any

from fleet.simulation.resources import Resource

Object = dict[str, Any]

DEFAULT_GRACE_S = 30


def timestamp(at: float) -> str:
    """Seconds since 1970 as Kubernetes writes them (whole seconds, UTC)."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def marked(resource: Resource, obj: Object, now: float, grace_s: int | None, propagation: str) -> Object:
    """The object as a deletion request leaves it: a time already set can only be brought forward."""
    metadata = obj["metadata"]
    grace = _grace_s(resource, obj, grace_s)
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1
    elif grace_s is not None and grace < metadata["deletionGracePeriodSeconds"]:
        metadata["deletionTimestamp"] = timestamp(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
    if finalizer and finalizer not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]
    if resource.plural == "namespaces" and obj["spec"].get("finalizers"):
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    return obj


def is_final(resource: Resource, obj: Object) -> bool:
    """Whether nothing keeps a marked object any more: no grace, no finalizer, no content of a namespace."""
    metadata = obj["metadata"]
    if resource.plural == "namespaces" and obj["spec"].get("finalizers"):
        return False
    return not metadata.get("finalizers") and not metadata["deletionGracePeriodSeconds"]


def _grace_s(resource: Resource, obj: Object, asked_s: int | None) -> int:
    """Seconds of grace: only a bound pod that has not finished has any."""
    spec, phase = obj.get("spec", {}), obj.get("status", {}).get("phase")
    if resource.plural != "pods" or not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    default: int = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    return default if asked_s is None else asked_s
