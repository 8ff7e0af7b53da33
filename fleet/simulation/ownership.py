"""What controllers of pods share: owner references, hashes of templates, pods made from templates, counting of pods.

Owns no state. Pure but for the names, which the store gives.
"""

from typing import Any

import msgspec

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp

Object = dict[str, Any]

HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def owner_reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_hash(template: Object, collisions: int = 0) -> str:
    """FNV-1a (32 bit) of the template, written in the letters of generated names, as pod-template-hash is."""
    text = msgspec.json.encode(template, order="deterministic")
    if collisions:
        text += str(collisions).encode()
    value = 0x811C9DC5
    for byte in text:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(HASH_LETTERS[ord(digit) % len(HASH_LETTERS)] for digit in str(value))


def pod_from_template(owner: Object, template: Object, labels: dict[str, str] | None = None) -> Object:
    """A pod to create, named by its owner; `labels` come on top of the template's."""
    metadata = template.get("metadata") or {}
    made: Object = {
        "generateName": f"{owner['metadata']['name']}-",
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(metadata.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(owner)],
    }
    if metadata.get("annotations"):
        made["annotations"] = dict(metadata["annotations"])
    if metadata.get("finalizers"):
        made["finalizers"] = list(metadata["finalizers"])
    return {"metadata": made, "spec": template["spec"]}


def is_active(pod: Object) -> bool:
    """Neither finished nor on its way out."""
    return not podstatus.is_finished(pod) and not podstatus.is_terminating(pod)


def available_in_s(pod: Object, min_ready_s: int, now: float) -> float | None:
    """0 when the pod is available, the seconds until it will be, None while it is not ready."""
    found = podstatus.condition(pod["status"], "Ready")
    if found is None or found["status"] != "True":
        return None
    return max(0.0, parse_stamp(found["lastTransitionTime"]) + min_ready_s - now) if min_ready_s else 0.0


def without_zeros(counts: dict[str, int]) -> dict[str, int]:
    """Counts as Go's omitempty writes them."""
    return {name: count for name, count in counts.items() if count}
