"""What NVIDIA's device plugin offers of a machine to the kubelet: slots, and which of them it calls healthy.

Follows k8s-device-plugin: any Xid outside its list makes a GPU unhealthy until the plugin starts anew, and while the plugin is
paused for maintenance nothing is healthy. Pure: a Node in, numbers out.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import gpu_troubles
from fleet.simulation.gpu_boards import MIG, SLICES, product_of
from fleet.simulation.gpu_troubles import Trouble
from fleet.simulation.hardware import GPU

Object = dict[str, Any]

SKIPPED = frozenset({13, 31, 43, 45, 68, 109})  # Xids that it takes for a program's fault
DEPLOY = "nvidia.com/gpu.deploy.device-plugin"
PAUSED = "paused-for-"
OFFERED = "sim/gpu-allocatable"  # annotation of a node: so many are healthy, whatever is known of its GPUs


def is_healthy(found: Iterable[Trouble]) -> bool:
    """Whether a GPU with these troubles is offered."""
    codes = (code for trouble in found for code in gpu_troubles.xids(trouble))
    return all(code in SKIPPED for code in codes)


def is_paused(node: Object) -> bool:
    return str((node["metadata"].get("labels") or {}).get(DEPLOY, "")).startswith(PAUSED)


def slots(node: Object) -> tuple[int, int]:
    """How many there are, and how many of them are healthy. With MIG (strategy single) every instance is a slot."""
    product = product_of(node)
    gpus = len(product.buses) if product else int(node["status"]["capacity"][GPU])
    notes = node["metadata"].get("annotations") or {}
    each = SLICES if notes.get(MIG) else 1
    healthy = each * sum(is_healthy(found) for found in gpu_troubles.troubles(node, gpus))
    return gpus * each, 0 if is_paused(node) else int(notes.get(OFFERED, healthy))
