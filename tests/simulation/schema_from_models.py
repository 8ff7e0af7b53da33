"""Writes fleet/simulation/schema.json from the official client's models: `python -m tests.simulation.schema_from_models`.

The models are generated from Kubernetes' published OpenAPI document, so the schema states facts about the API, not
choices of ours.
"""

import json
import re
from pathlib import Path
from typing import Any

from kubernetes.client import models

SCHEMA = Path(__file__).parents[2] / "fleet" / "simulation" / "schema.json"
KINDS = (
    "Node", "Pod", "Namespace", "Service", "Endpoints", "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim",
    "PersistentVolume", "ResourceQuota", "LimitRange", "ReplicationController", "PodTemplate", "Deployment", "ReplicaSet",
    "StatefulSet", "DaemonSet", "ControllerRevision", "Job", "CronJob", "EndpointSlice", "PodDisruptionBudget", "Lease",
    "PriorityClass", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Eviction", "Binding", "Scale",
)  # fmt: skip
QUANTITIES = {"limits", "requests", "capacity", "allocatable", "hard", "used", "allocatedResources", "overhead",
              "default", "defaultRequest", "max", "min", "maxLimitRequestRatio"}  # fmt: skip
SCALARS = {
    "str": "s",
    "int": "i",
    "bool": "b",
    "float": "f",
    "object": "*",
    "datetime": "t",
    "bytearray": "s",
    "bytes": "s",
}


def struct_name(model: str) -> str:
    return re.sub(r"^(V\d+((alpha|beta)\d+)?|Core|Discovery|Events)+(?=[A-Z])", "", model)


def shorthand(field: str, kind: str) -> tuple[str, str | None]:
    """How the schema writes a type, and the model it refers to: "b", "[Container", "{s", "Container"."""
    if kind.startswith("List["):
        inner, model = shorthand(field, kind[5:-1])
        return f"[{inner}", model
    if kind.startswith("Dict["):
        inner, model = shorthand(field, kind[5:-1].partition(", ")[2])
        return ("{q" if field in QUANTITIES and inner == "s" else f"{{{inner}"), model
    if kind in SCALARS:
        return SCALARS[kind], None
    return struct_name(kind), kind


def schema() -> dict[str, dict[str, str]]:
    """Struct name → JSON field → type."""
    found: dict[str, dict[str, str]] = {}
    waiting = [f"V1{kind}" for kind in KINDS]
    while waiting:
        model = waiting.pop()
        name = struct_name(model)
        if name in found:
            continue
        cls: Any = getattr(models, model)
        fields: dict[str, str] = {}
        for attribute, kind in cls.openapi_types.items():
            field = cls.attribute_map[attribute]
            fields[field], used = shorthand(field, kind)
            if used:
                waiting.append(used)
        found[name] = fields
    return dict(sorted(found.items()))


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(schema(), separators=(",", ":")) + "\n")
