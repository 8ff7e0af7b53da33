"""A node as a row: its machine, its slots as cells, its level and the reasons for it.

Owns how one node reads, from its object and the pods on it. Must not know other nodes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from fleet.domain import capacity, machines, picture
from fleet.domain.attention import Concern
from fleet.domain.objects import Node, Pod, seconds
from fleet.domain.picture import LabelsRow, NodeRow, PodRow, Resource

# Reasons by what they do to the level of the node; the first that applies wins.
LEVELS = (
    ("off", {Concern.NODE_UNREACHABLE, Concern.NODE_NOT_READY}),
    ("bad", {Concern.GPUS_MISSING, Concern.GPUS_WITHDRAWN, Concern.OVER_COMMITTED}),
    ("off", {Concern.NODE_TAINTED, Concern.CORDONED}),
)

# Annotations that only programs read, by the beginning of their names. Nor is a very long annotation for people.
NOT_FOR_PEOPLE = (
    "csi.volume.kubernetes.io/",
    "kubeadm.alpha.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "nfd.node.kubernetes.io/",
    "node.alpha.kubernetes.io/ttl",
    "volumes.kubernetes.io/",
)
LONGEST_ANNOTATION = 256


def labels_row(node: Node) -> LabelsRow:
    told = (
        (name, text)
        for name, text in node.metadata.annotations.items()
        if len(text) <= LONGEST_ANNOTATION and not name.startswith(NOT_FOR_PEOPLE)
    )
    return LabelsRow(tuple(sorted(node.metadata.labels.items())), tuple(sorted(told)))


def node_row(node: Node, pods: Iterable[tuple[Pod, PodRow]]) -> NodeRow:
    """`pods`: those bound to the node, finished ones included."""
    held = [row for pod, row in pods if capacity.counted(pod)]
    machine = machines.machine(node.metadata.labels)
    info = node.status.node_info
    resources = capacity.resources(node, _requested(held))
    reasons = _reasons(node, resources, machine.physical)
    cordoned_by, cordoned_at = capacity.cordon(node)
    return NodeRow(
        name=node.metadata.name,
        pool=machine.pool,
        zone=machine.zone,
        product=machine.product,
        product_name=machine.product_name,
        memory_mib=machine.memory_mib,
        cells=cells(node, resources, machine.physical),
        level=next((level for level, concerns in LEVELS if concerns & {*reasons}), ""),
        reasons=tuple(reason.value for reason in reasons),
        usable=capacity.usable(node),
        ready=capacity.ready_status(node),
        unschedulable=node.spec.unschedulable,
        cordoned_at=cordoned_at,
        cordoned_by=cordoned_by,
        taints=tuple(map(capacity.taint_text, capacity.taints(node))),
        closed_by=next(map(capacity.taint_text, capacity.closing_taints(node)), ""),
        physical=machine.physical,
        resources=resources,
        gpu_workloads=_gpu_workloads(held),
        pods=len(held),
        conditions=_conditions(node),
        created_at=seconds(node.metadata.creation_timestamp),
        boot_id=info.boot_id,
        kubelet=info.kubelet_version,
        kernel=info.kernel_version,
        os_image=info.os_image,
        runtime=info.container_runtime_version,
        driver=machine.driver,
        cuda=machine.cuda,
        machine=machine.type,
        address=next((a.address for a in node.status.addresses if a.type == "InternalIP"), ""),
    )


def cells(node: Node, resources: Sequence[Resource], physical: int | None) -> str:
    """One letter of CELL_STATES per slot, resource after resource: busy, free, withdrawn.

    While nothing measures health this is allocation only. A node that is not Ready tells nothing about its slots, and so do GPUs
    that labels name but the node does not offer. Withdrawn devices are unhealthy to their plugin, so they are failed.
    """
    if capacity.ready_status(node) != "True":
        return "u" * (sum(map(_slots, resources)) or physical or 0)
    if not resources:
        return "u" * (physical or 0)
    free = "f" if capacity.usable(node) else "c"
    return "".join(
        "b" * min(r.allocated, r.allocatable) + free * r.free + "x" * (_slots(r) - r.allocatable) for r in resources
    )


def _slots(resource: Resource) -> int:
    return max(resource.capacity, resource.allocatable)


def _reasons(node: Node, resources: Sequence[Resource], physical: int | None) -> tuple[Concern, ...]:
    ready = capacity.ready_status(node)
    # A taint matters where it closes GPUs: every control plane has one.
    tainted = bool(resources) and not node.spec.unschedulable and bool(capacity.closing_taints(node))
    applies = {
        Concern.NODE_UNREACHABLE: ready not in {"True", "False"},
        Concern.NODE_NOT_READY: ready == "False",
        Concern.GPUS_MISSING: ready == "True" and not resources and bool(physical),
        Concern.GPUS_WITHDRAWN: ready == "True" and any(r.allocatable < r.capacity for r in resources),
        Concern.OVER_COMMITTED: any(r.overcommit for r in resources),
        Concern.NODE_TAINTED: ready == "True" and tainted,
        Concern.CORDONED: node.spec.unschedulable,
    }
    return tuple(concern for concern in Concern if applies.get(concern))


def _requested(held: Iterable[PodRow]) -> Counter[str]:
    total = Counter[str]()
    for row in held:
        for name, slots in row.resources:
            total[name] += slots
    return total


def _gpu_workloads(held: Iterable[PodRow]) -> tuple[str, ...]:
    """Names of the owners (of the pod where it has none) by the slots that they hold here, largest first."""
    total = Counter[str]()
    for row in held:
        if row.gpus:
            total[row.owner_name or row.name] += row.gpus
    return tuple(sorted(total, key=lambda name: (-total[name], name)))


def _conditions(node: Node) -> tuple[picture.Condition, ...]:
    return tuple(
        picture.Condition(c.type, c.status, c.reason, c.message, seconds(c.last_transition_time))
        for c in node.status.conditions
    )
