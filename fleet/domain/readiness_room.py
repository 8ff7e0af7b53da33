"""What a cluster has for one more pod of a workload now: free GPUs on nodes that would take it.

Owns the count of places, node by node: a pod's GPUs have to be free on one node. Other resources than GPUs are not looked at.
"""

from collections.abc import Iterable, Mapping

from fleet.domain.objects import Condition, Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from fleet.domain.picture import LabelsRow, NodeRow
from fleet.domain.quantities import whole
from fleet.domain.readiness_subjects import Room, Subject
from fleet.domain.scheduling import closed
from fleet.domain.specs import FullPod


class Rooms:
    """Asked for each workload in turn; workloads that may be on the same nodes share the answer which ones those are."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """`nodes`: their `allocatable` is what is free now."""
        self._nodes = tuple(nodes)
        self._open: dict[str, tuple[Node, ...]] = {}

    def __call__(self, subject: Subject) -> Room:
        found = self._open_to(subject)
        return Room(sum(_slots(node, subject.gpus) for node in found), len(found))

    def _open_to(self, subject: Subject) -> tuple[Node, ...]:
        spec = subject.template.spec
        wanted = repr((spec.node_selector, spec.tolerations, spec.affinity and spec.affinity.node_affinity))
        if wanted not in self._open:
            pod = FullPod(subject.template.metadata, spec)
            self._open[wanted] = tuple(node for node in self._nodes if closed(pod, node) is None)
        return self._open[wanted]


def _slots(node: Node, gpus: Mapping[str, int]) -> int:
    free = node.status.allocatable
    return min((whole(free.get(name, "0")) // count for name, count in gpus.items()), default=0)


def free_nodes(rows: Iterable[NodeRow], labels: Mapping[str, LabelsRow]) -> tuple[Node, ...]:
    """The nodes of the picture with what is free on them: without failed GPUs, and those of silent nodes."""
    return tuple(_node(row, labels.get(row.name, LabelsRow())) for row in rows)


def _node(row: NodeRow, labels: LabelsRow) -> Node:
    return Node(
        NodeMetadata(name=row.name, labels=dict(labels.labels)),
        NodeSpec(row.unschedulable, tuple(_taint(text) for text in row.taints)),
        NodeStatus(
            allocatable={found.name: str(found.free) for found in row.resources},
            conditions=(Condition("Ready", row.ready),),
        ),
    )


def _taint(text: str) -> Taint:
    """As `capacity.taint_text` writes it."""
    told, _, effect = text.rpartition(":")
    key, _, value = told.partition("=")
    return Taint(key, effect, value)
