"""Events of nodes, their pods and workloads with rollouts, as rows: which belong to whom, and only the newest of each.

Owns what is kept of the cluster's Events, and where an event belongs. Must not know anything else about nodes and pods. An event
that newer ones have pushed out is forgotten: when those are deleted before their time, it does not come back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest

from msgspec import Struct
from msgspec.structs import replace

from fleet.domain.cluster_events import Occurrence
from fleet.domain.picture import EventRow, PodRow
from fleet.domain.tables import Join, Table

MOST = 20  # of one node, or of one workload
MOST_HOMELESS = 2_000  # about pods without a node, or gone
MOST_OF_WORKLOADS = 5_000
LONGEST = 1_024  # characters of a message; longer ones break the API's own rule for new events

WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
FAILED_CREATE = "FailedCreate"  # a controller may not make a pod

NodeOf = Callable[[str, str], str]  # key and uid of a pod → the node it is bound to, or ""


class _Kept(Struct, frozen=True, gc=False):
    row: EventRow
    pod: str  # key of the pod that says where it belongs; "" when the event says so itself
    uid: str
    workload: str = ""  # key of the workload that it is about


class Occurrences:
    """Events by key. Rows are placed by `refresh`, since a pod's node may become known after its events."""

    def __init__(self) -> None:
        self.rows = Table[EventRow]()
        self._kept: dict[str, _Kept] = {}
        self._stale: set[str] = set()
        self._of_pod = Join[str]()  # events by the pod that they wait for or follow
        self._on_node = Join[str]()  # events by node
        self._warnings = Join[str]()  # what kubelets warn of, by pod
        self._warned: set[str] = set()  # pods about which that has changed
        self._homeless: dict[str, None] = {}  # in the order in which they came
        self._on_workload = Join[str]()  # events by workload
        self._of_workloads: dict[str, None] = {}  # likewise
        self.refused: set[str] = (
            set()
        )  # workloads about which a controller has said something else since the last refresh

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    def relist(self, found: Iterable[Occurrence]) -> None:
        """The list is the whole truth."""
        current = {one.key: one for one in found}
        for key in self._kept.keys() - current.keys():
            self.remove(key)
        for one in current.values():
            self.put(one)

    def put(self, found: Occurrence) -> None:
        kept = _kept(found)
        if kept is not None and kept != self._kept.get(found.key):
            self._kept[found.key] = kept
            self._of_pod.put(found.key, (kept.pod,) if kept.pod else ())
            self._stale.add(found.key)

    def remove(self, key: str) -> None:
        if self._kept.pop(key, None) is not None:
            self._of_pod.put(key, ())
            self._stale.add(key)

    def pod_moved(self, pod: str) -> None:
        """A pod of that key came, went, or got its node."""
        self._stale.update(self._of_pod.members(pod))

    def warnings(self, pod: PodRow) -> list[EventRow]:
        """What kubelets warn of this very pod, the newest first; a namesake before it is another."""
        keys = self._warnings.members(f"{pod.namespace}/{pod.name}")
        found = {key: self._kept[key].row for key in keys if self._kept[key].uid in {"", pod.uid}}
        return [found[key] for key in newest(found)]

    def refusal(self, workload: str, uid: str) -> EventRow | None:
        """What its controller said last when it could not make a pod of it."""
        keys = self._on_workload.members(workload)
        found = {key: self._kept[key].row for key in keys if self._kept[key].uid in {"", uid}}
        return next((found[key] for key in newest(found) if found[key].reason == FAILED_CREATE), None)

    def refresh(self, node_of: NodeOf) -> set[str]:
        """Rows of what came, went or moved. Returns the keys of pods about which there are other warnings than before."""
        stale, self._stale = self._stale, set()
        nodes: set[str] = set()
        self._warned, self.refused = set(), set()
        for key in sorted(stale):
            kept = self._kept.get(key)
            if (kept and kept.workload) or key in self._of_workloads:
                self._put_of_workload(key, kept)
                continue
            node = (kept.row.node or node_of(kept.pod, kept.uid)) if kept else ""
            nodes.add(node)
            self._on_node.put(key, (node,) if node else ())
            self._put_row(key, replace(kept.row, node=node) if kept and node else None)
            self._homeless.pop(key, None)
            if kept and not node:
                self._homeless[key] = None
        for node in nodes - {""}:
            self._forget(self._older(self._on_node.members(node)))
        self._forget(list(self._homeless)[: max(0, len(self._homeless) - MOST_HOMELESS)])
        self._forget(list(self._of_workloads)[: max(0, len(self._of_workloads) - MOST_OF_WORKLOADS)])
        return self._warned

    def _put_of_workload(self, key: str, kept: _Kept | None) -> None:
        row = self.rows.get(key)
        if row is not None and row.reason == FAILED_CREATE:
            self.refused.add(workload_of(row))
        self.rows.put(key, kept.row if kept else None)
        self._on_workload.put(key, (kept.workload,) if kept else ())
        self._of_workloads.pop(key, None)
        if kept is not None:
            self._of_workloads[key] = None
            if kept.row.reason == FAILED_CREATE:
                self.refused.add(kept.workload)
            self._forget(self._older(self._on_workload.members(kept.workload)))

    def _put_row(self, key: str, row: EventRow | None) -> None:
        old = self.rows.get(key)
        if self.rows.put(key, row):
            about = [pod for pod in map(_warned_of, (old, row)) if pod]
            self._warned.update(about)
            self._warnings.put(key, tuple(about[-1:]) if row is not None else ())

    def _older(self, keys: Collection[str]) -> list[str]:
        """Those beyond the newest; mostly none or one, so nothing is sorted."""
        return nsmallest(len(keys) - MOST, keys, key=lambda key: (self._kept[key].row.last_at or 0.0, key))

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self._kept[key]
            self._homeless.pop(key, None)
            self._of_pod.put(key, ())
            self._on_node.put(key, ())
            self._on_workload.put(key, ())
            self._of_workloads.pop(key, None)
            self._put_row(key, None)


def newest(rows: Mapping[str, EventRow]) -> list[str]:
    """Keys in the order in which people read them; events without a time come last. Within a second the name decides, which ends
    with the nanosecond of the first time."""
    return sorted(sorted(rows, reverse=True), key=lambda key: -(rows[key].last_at or 0.0))


def _warned_of(row: EventRow | None) -> str:
    """Key of the pod that an event warns of."""
    return f"{row.namespace}/{row.name}" if row is not None and row.type == "Warning" and row.kind == "Pod" else ""


def _kept(found: Occurrence) -> _Kept | None:
    """None for what no page shows: events about anything but nodes, pods and workloads that have rollouts."""
    about = found.involved_object
    node = {"Node": about.name, "Pod": found.source.host}.get(about.kind, "")
    if about.kind not in WORKLOADS | {"Node", "Pod"}:
        return None
    row = EventRow(
        node=node,
        kind=about.kind,
        namespace=about.namespace,
        name=about.name,
        type=found.type,
        reason=found.reason,
        message=found.message[:LONGEST],
        count=max(found.count, found.series.count if found.series else 0, 1),
        last_at=None if found.last_at is None else float(int(found.last_at)),
        source=found.reporting_component or found.source.component,
    )
    if about.kind in WORKLOADS:
        return _Kept(row, "", about.uid, workload_of(row))
    return _Kept(row, "" if node else f"{about.namespace}/{about.name}", about.uid)


def workload_of(row: EventRow) -> str:
    """Key of the workload that an event is about, "" none."""
    return f"{row.kind}/{row.namespace}/{row.name}" if row.kind in WORKLOADS else ""
