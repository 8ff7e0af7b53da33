"""What the readings worker has told about each node's GPUs, and what Kubernetes tells it about the nodes.

Owns both, between the inventory's snapshots. Must not judge a GPU or join it with slots (`joining` does). When nobody assesses
readings any more, every verdict is unknown, whatever it was.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from fleet.domain import machines
from fleet.domain.gpus import DeviceState, GpuAction
from fleet.domain.objects import Node
from fleet.domain.picture import FindingRow, GpuRow, NodeRow
from fleet.domain.tables import Table
from fleet.domain.verdicts import NodeContext, NodeStanding

SILENT: Final = "readings-silent"
UPGRADE_STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
MIG_STATE: Final = "nvidia.com/mig.config.state"
DEPLOY: Final = "nvidia.com/gpu.deploy."
PAUSED: Final = "paused-for-"
LABELLED: Final = ("nvidia.com/gpu.count", "nvidia.com/gpu.product", "nvidia.com/gpu.present")

Rows = Mapping[str, GpuRow]


class Measured:
    """Of all nodes of one cluster. `table` holds the rows of nodes that exist; `contexts` what is known of each node."""

    def __init__(self) -> None:
        self.table = Table[GpuRow]()
        self.contexts: dict[str, NodeContext | None] = {}
        self.undescribed: dict[str, NodeContext | None] = {}  # contexts that changed since somebody took them
        self._told: dict[str, tuple[NodeStanding, Rows]] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._trusted = True

    def put(self, node: str, standing: NodeStanding | None, rows: Rows) -> None:
        """What was told about a node; None: nothing is known of its GPUs any more."""
        if standing is None:
            self._told.pop(node, None)
        else:
            self._told[node] = standing, rows

    def trust(self, trusted: bool) -> Iterable[str]:
        """Whether verdicts hold; the nodes that look different now."""
        changed = trusted != self._trusted
        self._trusted = trusted
        return list(self._told) if changed else ()

    def of(self, node: str) -> tuple[NodeStanding, Rows] | None:
        """What counts for a node; None when no source measures it."""
        found = self._told.get(node)
        if found is None or not found[0].measured:
            return None
        return found if self._trusted else silenced(*found)

    def show(self, name: str, node: Node | None, row: NodeRow | None) -> None:
        """A node as it is now, or None when it is gone."""
        found = self.of(name) if node is not None else None
        rows: Rows = found[1] if found else {}
        for key in self._shown.get(name, ()):
            if key not in rows and (old := self.table.get(key)) is not None and old.node == name:
                self.table.put(key, None)
        for key, gpu in rows.items():
            self.table.put(key, gpu)
        if rows:
            self._shown[name] = tuple(rows)
        else:
            self._shown.pop(name, None)
        context = described(node, row) if node is not None and row is not None else None
        if context != self.contexts.get(name):
            self.undescribed[name] = context
            if context is None:
                del self.contexts[name]
            else:
                self.contexts[name] = context


def silenced(standing: NodeStanding, rows: Rows) -> tuple[NodeStanding, Rows]:
    """As if the node had fallen silent at its last reading."""
    since_at = standing.silent_since_at or standing.read_at
    return replace(standing, silent_since_at=since_at), {key: _unknown(row, since_at) for key, row in rows.items()}


def described(node: Node, row: NodeRow) -> NodeContext:
    """What a reading cannot know of its node. MIG instances are no slots that could be counted against GPUs."""
    labels = node.metadata.labels
    nvidia = [r for r in row.resources if r.name.startswith("nvidia.com/")]
    whole = [r for r in nvidia if not r.mig]
    mig = len(whole) < len(nvidia)
    shared = next((r for r in whole if r.shared), None)
    replicas = machines.number(labels.get(f"{shared.name}.replicas", "")) if shared else None
    replicas = replicas or (machines.number(labels.get("nvidia.com/gpu.replicas", "")) if shared else None)
    paused = (text for name, text in labels.items() if name.startswith(DEPLOY) and text.startswith(PAUSED))
    return NodeContext(
        node=node.metadata.name,
        gpu_labelled=bool(nvidia) or any(labels.get(name) for name in LABELLED),
        physical=machines.physical(labels),
        capacity=sum(r.capacity for r in whole) if whole and not mig else None,
        allocatable=sum(r.allocatable for r in whole) if whole and not mig else None,
        replicas=replicas or 1,
        upgrade_state=labels.get(UPGRADE_STATE, ""),
        mig_state=labels.get(MIG_STATE, ""),
        deploy_paused=min(paused, default=""),
        boot_id=node.status.node_info.boot_id,
        product=row.product_name,
    )


def _unknown(row: GpuRow, since_at: float | None) -> GpuRow:
    """A known bad state stays: unknown never hides a worse one."""
    if row.level == "bad" or row.state == DeviceState.UNKNOWN:
        return row
    finding = FindingRow(
        rule=SILENT,
        source="kubernetes",
        state=DeviceState.UNKNOWN,
        action=GpuAction.NONE,
        since_at=since_at or 0.0,
        seen_at=since_at or 0.0,
    )
    return replace(
        row, state="unknown", reason=SILENT, level="off", since_at=since_at, findings=(finding, *row.findings)
    )
