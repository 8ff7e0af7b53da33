"""Objects as the API server writes them, short to say, and the inventory that holds them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fleet.domain import kube
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Changed, Deleted, Kind, Listed
from fleet.domain.picture import Snapshot

GPU = "nvidia.com/gpu"
EPOCH = "2026-12-01T19:00:00Z"
EPOCH_AT = 1796151600.0
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.replicas": "1",
    "topology.kubernetes.io/zone": "eu-west-1a",
}
KIND_OF = {resource.name: kind for kind, resource in kube.RESOURCES.items()}


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    found = {"name": name, "uid": more.pop("uid", f"uid-{name}"), "creationTimestamp": EPOCH, **more}
    return {**found, "namespace": namespace} if namespace else found


def node(
    name: str = "n1",
    gpus: int | Mapping[str, str] = 8,
    allocatable: int | Mapping[str, str] | None = None,
    *,
    ready: str = "True",
    cordoned: bool = False,
    taints: tuple[Mapping[str, str], ...] = (),
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A node with `gpus` whole GPUs (or quantities by resource name), all allocatable unless said otherwise."""
    capacity = {GPU: str(gpus)} if isinstance(gpus, int) else dict(gpus)
    if allocatable is None:
        allocatable = capacity
    elif isinstance(allocatable, int):
        allocatable = {GPU: str(allocatable)}
    spec: dict[str, Any] = {"providerID": f"sim://{name}"}
    if cordoned:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = list(taints)
    return {
        "kind": "Node",
        "metadata": meta(name, labels=dict(LABELS if labels is None else labels), **more),
        "spec": spec,
        "status": {
            "capacity": {"cpu": "224", **capacity},
            "allocatable": {"cpu": "223900m", **allocatable},
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "lastTransitionTime": EPOCH},
                {"type": "Ready", "status": ready, "reason": "KubeletReady", "lastTransitionTime": EPOCH},
            ],
            "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"bootID": f"boot-{name}", "kubeletVersion": "v1.36.2"},
        },
    }


def container(gpus: int | Mapping[str, str] = 0, name: str = "main", **more: Any) -> dict[str, Any]:
    limits = {GPU: str(gpus)} if isinstance(gpus, int) and gpus else dict(gpus) if isinstance(gpus, Mapping) else {}
    return {"name": name, "resources": {"limits": limits, "requests": limits}, **more}


def sidecar(gpus: int, name: str = "sidecar") -> dict[str, Any]:
    return container(gpus, name, restartPolicy="Always")


def owned_by(kind: str, name: str, uid: str | None = None) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}]


def pod(
    name: str = "p1",
    node: str = "n1",
    gpus: int | Mapping[str, str] = 1,
    *,
    phase: str = "Running",
    namespace: str = "lab",
    status: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A pod with one container; `node` "" leaves it unbound and Pending. `more` goes into its metadata."""
    phase = phase if node else "Pending"
    ready = phase == "Running"
    conditions = [
        {"type": "PodScheduled", "status": "True" if node else "False", "lastTransitionTime": EPOCH},
        {"type": "Ready", "status": str(ready), "lastTransitionTime": EPOCH},
    ]
    if not node:
        conditions[0] |= {"reason": "Unschedulable", "message": "0/1 nodes are available"}
    found: dict[str, Any] = {
        "kind": "Pod",
        "metadata": meta(name, namespace, **more),
        "spec": {"containers": [container(gpus)], "terminationGracePeriodSeconds": 30, **(spec or {})},
        "status": {"phase": phase, "conditions": conditions, **_containers(phase), **(status or {})},
    }
    if node:
        found["spec"]["nodeName"] = node
    return found


def _containers(phase: str) -> dict[str, Any]:
    state = {
        "Running": {"running": {"startedAt": EPOCH}},
        "Succeeded": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        "Failed": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }.get(phase)
    if state is None:
        return {}
    return {"containerStatuses": [{"name": "main", "ready": phase == "Running", "restartCount": 0, "state": state}]}


def controller(
    kind: str,
    name: str,
    replicas: int = 1,
    gpus: int = 1,
    *,
    namespace: str = "lab",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job; `labels` are those of its pods' template."""
    template = {
        "metadata": {"labels": dict(labels or {"app": name}), "creationTimestamp": None},
        "spec": {"containers": [container(gpus)]},
    }
    sizes = {"Job": {"parallelism": replicas, "completions": replicas}, "DaemonSet": {}}.get(
        kind, {"replicas": replicas}
    )
    return {
        "kind": kind,
        "metadata": meta(name, namespace, **more),
        "spec": {**sizes, "template": template, **(spec or {})},
        "status": dict(status or {}),
    }


def budget(
    name: str,
    selector: Mapping[str, Any] | None,
    namespace: str = "lab",
    *,
    status: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    spec = {"minAvailable": 1} if selector is None else {"minAvailable": 1, "selector": dict(selector)}
    found = {"kind": "PodDisruptionBudget", "metadata": meta(name, namespace, **more), "spec": spec}
    return {**found, "status": dict(status)} if status is not None else found


def occurrence(
    about: Mapping[str, Any], name: str = "e1", *, host: str = "", at: str = EPOCH, reason: str = "Started", **more: Any
) -> dict[str, Any]:
    """An Event about an object, as a kubelet (with its `host`) or a controller writes it. `more` are fields of it."""
    metadata = about["metadata"]
    fields = {"kind": about["kind"], **{key: metadata.get(key, "") for key in ("namespace", "name", "uid")}}
    return {
        "kind": "Event",
        "metadata": meta(name, metadata.get("namespace") or "default"),
        "involvedObject": fields,
        "type": "Normal",
        "reason": reason,
        "message": f"{reason} it",
        "source": {"component": "kubelet", "host": host} if host else {"component": "taint-eviction-controller"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        **more,
    }


def decoded(found: Mapping[str, Any]) -> kube.Object:
    return changed(found).object


def changed(found: Mapping[str, Any]) -> Changed:
    event = kube.watch_line(KIND_OF[found["kind"]], msgspec.json.encode({"type": "MODIFIED", "object": found}))
    assert isinstance(event, Changed)
    return event


def deleted(found: Mapping[str, Any]) -> Deleted:
    metadata = found["metadata"]
    namespace = metadata.get("namespace", "")
    return Deleted(KIND_OF[found["kind"]], namespace, metadata["name"], metadata["uid"], "")


def listed(kind: Kind, *found: Mapping[str, Any]) -> Listed:
    return Listed(kind, tuple(map(decoded, found)), "1")


def inventory(*found: Mapping[str, Any]) -> Inventory:
    made = Inventory()
    for one in found:
        made.apply(changed(one))
    return made


def snapshot(*found: Mapping[str, Any]) -> Snapshot:
    return inventory(*found).snapshot()
