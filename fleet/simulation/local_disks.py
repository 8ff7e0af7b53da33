"""Disks of one machine as PersistentVolumes: who may claim one cannot run anywhere else.

Owns their manifests and the scheduler's filter for bound claims (VolumeBinding; provisioning and binding are not played: every
disk is bound from the start). Pure.
"""

from collections.abc import Callable
from typing import Any

from fleet.simulation.catalogue import Workload
from fleet.simulation.placement import Refusal, affinity_matches

Object = dict[str, Any]
Find = Callable[[str, str], Object | None]  # plural, key → the object

STORAGE_CLASS = "local-nvme"
AWAY = Refusal(("node(s) didn't match PersistentVolume's node affinity",), hopeless=True)
ONE_NODE = ["ReadWriteOnce"]


def storage_class() -> Object:
    return {
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim_name(workload: Workload) -> str:
    """Of the first pod of a StatefulSet."""
    return f"data-{workload.name}-0"


def volume_name(workload: Workload) -> str:
    return f"{STORAGE_CLASS}-{workload.name}"


def volume(workload: Workload, node: str) -> Object:
    """The PersistentVolume, which only `node` has."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    claimed = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {
        "metadata": {"name": volume_name(workload), "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "capacity": {"storage": f"{workload.disk_gib}Gi"},
            "accessModes": ONE_NODE,
            "claimRef": {**claimed, "namespace": workload.namespace, "name": claim_name(workload)},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "volumeMode": "Filesystem",
            "local": {"path": f"/mnt/nvme0/{workload.name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def claim(workload: Workload) -> Object:
    return {
        "metadata": {
            "name": claim_name(workload),
            "namespace": workload.namespace,
            "labels": {"app": workload.name},
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ONE_NODE,
            "resources": {"requests": {"storage": f"{workload.disk_gib}Gi"}},
            "storageClassName": STORAGE_CLASS,
            "volumeMode": "Filesystem",
            "volumeName": volume_name(workload),
        },
    }


def disk(workload: Workload, node: str) -> list[tuple[str, Object, Object]]:
    """A claimed volume on `node`: plural, object and status of each part."""
    size = {"storage": f"{workload.disk_gib}Gi"}
    return [
        ("persistentvolumes", volume(workload, node), {"phase": "Bound"}),
        ("persistentvolumeclaims", claim(workload), {"phase": "Bound", "accessModes": ONE_NODE, "capacity": size}),
    ]


def claims_of(pod: Object) -> list[str]:
    """Keys of the claims that a pod mounts."""
    sources = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return [f"{pod['metadata']['namespace']}/{source['claimName']}" for source in sources if source]


def out_of_reach(claims: list[str], node: Object, find: Find) -> Refusal | None:
    """Whether a bound claim's volume keeps its pod off the node."""
    for key in claims:
        claimed = find("persistentvolumeclaims", key)
        disk = find("persistentvolumes", claimed["spec"].get("volumeName", "")) if claimed else None
        required = ((disk or {}).get("spec", {}).get("nodeAffinity") or {}).get("required")
        wanted = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
        if required is not None and not affinity_matches(wanted, node):
            return AWAY
    return None
