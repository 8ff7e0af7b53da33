"""The cluster as the API server tells it, kept current event by event, and its picture.

Owns the current objects, the joins between them and which rows an event makes stale. Must not decide what a row says (`pods`,
`nodes`, `workloads`, `totals`, `attention` do), read a clock or remember the past: a snapshot depends on current objects alone.

A change costs what it touches: a pod its own row, its node's and its workload's; the totals are summed from the nodes' shares.
Services and EndpointSlices are followed, but no row needs them yet, so they are not kept. Events are kept as rows alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

from fleet.domain import attention, capacity, dependence, joining, racks, rollout_attention, totals, workloads
from fleet.domain.budgets import selecting
from fleet.domain.cluster_events import Occurrence
from fleet.domain.kube import (
    RESOURCES,
    Budget,
    Changed,
    DaemonSet,
    Deleted,
    Deployment,
    Event,
    Kind,
    Listed,
    Node,
    Object,
    Pod,
    ReplicaSet,
    StatefulSet,
)
from fleet.domain.measured import Measured
from fleet.domain.nodes import labels_row, node_row
from fleet.domain.occurrences import Occurrences
from fleet.domain.owners import ownership
from fleet.domain.picture import (
    EMPTY,
    AttentionRow,
    FleetRow,
    GpuRow,
    LabelsRow,
    NodeRow,
    PodRow,
    ProductRow,
    Snapshot,
    WorkloadRow,
)
from fleet.domain.pods import pod_row
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.rollout_rows import Surroundings, rollout_row
from fleet.domain.rollouts import Verdict
from fleet.domain.scanned import Scanned
from fleet.domain.tables import Join, Table
from fleet.domain.verdicts import NodeStanding

_WORKLOAD_KINDS = {
    RESOURCES[kind].name: kind
    for kind in (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.DAEMON_SET, Kind.JOB)
}
KEPT = {Kind.NODE, Kind.POD, Kind.BUDGET, *_WORKLOAD_KINDS.values()}


T = TypeVar("T")


class Inventory:
    """One cluster. Not thread-safe: the cluster's one writer owns it."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[str, Object]] = {kind: {} for kind in Kind}
        self._listed: set[Kind] = set()
        self._stale_pods: set[str] = set()
        self._stale_nodes: set[str] = set()
        self._stale_workloads: set[str] = set()
        self._on_node = Join[str]()  # pods by node
        self._in_workload = Join[str]()  # pods by workload
        self._through = Join[str]()  # pods by every owner that their ownership depends on
        self._in_namespace = Join[str]()  # pods by namespace
        self._workloads_in = Join[str]()  # workloads by namespace
        self._sets_of = Join[str]()  # ReplicaSets by Deployment
        self._budgets: defaultdict[str, dict[str, Budget]] = defaultdict(dict)  # by namespace, by name
        self._handed_up: dict[str, dependence.HandedUp] = {}  # by pod
        self._waiting: set[str] = set()  # pods that want GPUs and have no node
        self._claiming: set[str] = set()  # pods that use resource claims
        self._short: set[str] = set()  # workloads with fewer pods available than wanted
        self._held: set[str] = set()  # workloads whose rollouts do not get on by themselves
        self._shares = Join[totals.Share]()  # nodes by what they add to the totals
        self._standings = Join[totals.Standing]()  # the same
        self._node_attention: dict[str, list[AttentionRow]] = {}  # by node
        self._strains: dict[str, racks.Strain] = {}  # by node
        self._fleet = Table[FleetRow]()
        self._products = Table[ProductRow]()
        self._nodes = Table[NodeRow]()
        self._pods = Table[PodRow]()
        self._workloads = Table[WorkloadRow]()
        self._rollouts = Table[RolloutRow]()
        self._attention = Table[AttentionRow]()
        self._labels = Table[LabelsRow]()
        self._occurrences = Occurrences()
        self.gpus = Measured()
        self.saves = Scanned()
        self._snapshot = EMPTY

    @property
    def complete(self) -> bool:
        """Every kind has been listed at least once: nothing is missing from the picture."""
        return len(self._listed) == len(Kind)

    def apply(self, event: Event) -> None:
        """Take one event in. Bookmarks and lost streams say nothing about objects."""
        match event:
            case Listed(kind=kind, objects=objects):
                self._listed.add(kind)
                self._relist(kind, objects)
            case Changed(kind=kind, object=found):
                self._put(kind, found)
            case Deleted(kind=kind):
                self._delete(event)

    def measure(self, node: str, standing: NodeStanding | None, rows: Mapping[str, GpuRow]) -> None:
        """Take in what the readings worker says of a node's GPUs; None: nothing any more."""
        self.gpus.put(node, standing, rows)
        self._stale_nodes.add(node)

    def trust_verdicts(self, trusted: bool) -> None:
        """Whether somebody assesses readings: if not, no verdict holds."""
        self._stale_nodes.update(self.gpus.trust(trusted))

    def snapshot(self) -> Snapshot:
        """The picture of the current objects; the same object as last time when no row differs."""
        stale = self._stale_pods or self._stale_nodes or self._stale_workloads or self._occurrences.stale
        if not (stale or self.saves.stale) and self._snapshot is not EMPTY:
            return self._snapshot
        self._refresh_pods()
        self._refresh_nodes()
        for pod in self._occurrences.refresh(self._node_of):
            self._stale_workloads.update(row.workload for row in (self._pods.get(pod),) if row is not None)
        self._stale_workloads.update(self._occurrences.refused)
        self._refresh_workloads()
        self._refresh_totals()
        found = Snapshot(
            fleet=self._fleet.frozen(),
            products=self._products.frozen(),
            nodes=self._nodes.frozen(),
            pods=self._pods.frozen(),
            workloads=self._workloads.frozen(),
            attention=self._attention.frozen(),
            labels=self._labels.frozen(),
            events=self._occurrences.rows.frozen(),
            gpus=self.gpus.table.frozen(),
            rollouts=self._rollouts.frozen(),
            checkpoints=self.saves.frozen(),
        )
        if any(getattr(found, name) is not getattr(self._snapshot, name) for name in found.__struct_fields__):
            self._snapshot = found
        return self._snapshot

    # Objects come and go

    def _relist(self, kind: Kind, objects: Iterable[Object]) -> None:
        """The list is the whole truth: what it does not name is gone, also when its deletion was never told."""
        if kind is Kind.EVENT:
            self._occurrences.relist(cast(Iterable[Occurrence], objects))
        if kind not in KEPT:
            return
        current = {found.key: found for found in objects}
        for key in self._objects[kind].keys() - current.keys():
            self._remove(kind, key)
        for found in current.values():
            self._put(kind, found)

    def _put(self, kind: Kind, found: Object) -> None:
        if kind is Kind.EVENT:
            self._occurrences.put(cast(Occurrence, found))
        if kind not in KEPT:
            return
        key = found.key
        old = self._objects[kind].get(key)
        if old is not None and old.metadata.resource_version == found.metadata.resource_version != "":
            return
        self._objects[kind][key] = found
        self._touch(kind, key, old, found)

    def _delete(self, event: Deleted) -> None:
        """A deletion that names another uid is the end of a predecessor that came late."""
        key = f"{event.namespace}/{event.name}" if event.namespace else event.name
        if event.kind is Kind.EVENT:
            self._occurrences.remove(key)
        old = self._objects[event.kind].get(key)
        if old is not None and event.uid in {"", old.metadata.uid}:
            self._remove(event.kind, key)

    def _remove(self, kind: Kind, key: str) -> None:
        self._touch(kind, key, self._objects[kind].pop(key), None)

    # What an event makes stale

    def _touch(self, kind: Kind, key: str, old: Object | None, new: Object | None) -> None:
        if kind is Kind.POD:
            self._stale_pods.add(key)
        elif kind is Kind.NODE:
            self._stale_nodes.add(key)
        elif kind is Kind.BUDGET:
            self._touch_budget(key, cast(Budget | None, old), cast(Budget | None, new))
        else:
            self._touch_owner(f"{RESOURCES[kind].name}/{key}", old, new)

    def _touch_budget(self, key: str, old: Budget | None, new: Budget | None) -> None:
        namespace, name = key.split("/", 1)
        if new is None:
            del self._budgets[namespace][name]
        else:
            self._budgets[namespace][name] = new
        if old is None or new is None or old.spec.selector != new.spec.selector:
            self._stale_pods.update(self._in_namespace.members(namespace))
            self._stale_workloads.update(self._workloads_in.members(namespace))
        self._stale_workloads.update(key for key in self._workloads_in.members(namespace) if self._waits_for_hands(key))

    def _waits_for_hands(self, key: str) -> bool:
        """Whether pods of a workload are replaced when somebody has them go, which a budget may hold up."""
        row = self._rollouts.get(key)
        return row is not None and row.verdict == Verdict.MANUAL

    def _touch_owner(self, key: str, old: Object | None, new: Object | None) -> None:
        """Pods below it change only with what they take from it: who it is, who owns it, its team."""
        self._stale_workloads.add(key)
        if isinstance(old, ReplicaSet) or isinstance(new, ReplicaSet):
            self._stale_workloads.update(self._sets_of.of(key))
            self._sets_of.put(key, dependence.deployments(new))
            self._stale_workloads.update(self._sets_of.of(key))
        if dependence.handed_down(old) != dependence.handed_down(new):
            self._stale_pods.update(self._through.members(key))

    # Rows

    def _refresh_pods(self) -> None:
        stale, self._stale_pods = self._stale_pods, set()
        for key in sorted(stale):  # in the order of names, so that equal clusters make equal bytes
            old = self._pods.get(key)
            row = self._pod_row(key)
            self._pods.put(key, row)
            self._join_pod(key, row)
            if dependence.place(old) != dependence.place(row):
                self._occurrences.pod_moved(key)
            handed_up = dependence.handed_up(self._pod(key), row)
            if handed_up != self._handed_up.get(key):
                _set(self._handed_up, key, handed_up)
                for changed in filter(None, (old, row)):
                    self._stale_nodes.add(changed.node)
                    self._stale_workloads.add(changed.workload)

    def _pod_row(self, key: str) -> PodRow | None:
        """Bound pods, also finished ones, and those that still have no node; a pod that ended unbound shows nowhere."""
        pod = self._pod(key)
        if pod is None or (not pod.spec.node_name and capacity.finished(pod)):
            self._through.put(key, ())
            return None
        owner = ownership(pod, self._owner)
        self._through.put(key, owner.references)
        rules = self._budgets[pod.metadata.namespace].values()
        requests = capacity.effective_requests(pod.spec)
        return pod_row(pod, owner, requests, selecting(rules, pod.metadata.labels))

    def _join_pod(self, key: str, row: PodRow | None) -> None:
        self._on_node.put(key, (row.node,) if row and row.node else ())
        self._in_workload.put(key, (row.workload,) if row and row.workload else ())
        self._in_namespace.put(key, (row.namespace,) if row else ())
        pod = self._pod(key)
        alive = pod is not None and row is not None and not capacity.finished(pod)
        _keep(self._waiting, key, pod is not None and row is not None and row.gpus > 0 and capacity.waiting(pod))
        _keep(self._claiming, key, alive and row is not None and row.claims > 0)

    def _refresh_nodes(self) -> None:
        stale, self._stale_nodes = self._stale_nodes, set()
        for name in sorted(stale - {""}):
            node = cast(Node | None, self._objects[Kind.NODE].get(name))
            row = node_row(node, self._placed(self._on_node.members(name))) if node is not None else None
            self._labels.put(name, labels_row(node) if node is not None else None)
            self.gpus.show(name, node, row)
            of_gpus: list[AttentionRow] = []
            if row is not None and (told := self.gpus.of(name)) is not None:
                row, of_gpus = joining.joined(row, *told)
            if self._nodes.put(name, row):
                self._shares.put(name, totals.shares(row) if row is not None else ())
                self._standings.put(name, (totals.standing(row),) if row is not None else ())
            self._node_attention.pop(name, None)
            _set(self._strains, name, self._strain(node, row))
            if node is not None and row is not None and row.reasons:
                self._node_attention[name] = attention.of_node(node, row) + of_gpus

    def _refresh_workloads(self) -> None:
        stale, self._stale_workloads = self._stale_workloads, set()
        for key in sorted(stale - {""}):
            found = self._owner(key)
            pods = self._placed(self._in_workload.members(key))
            shown = pods or (found is not None and _is_top(found))
            namespace = key.split("/", 2)[1]
            row = workloads.workload_row(key, found, pods, self._budgets[namespace].values()) if shown else None
            self._workloads.put(key, row)
            self._workloads_in.put(key, (namespace,) if row else ())
            rollout = self._rollout_row(key, found, pods) if row else None
            self._rollouts.put(key, rollout)
            _keep(self._held, key, rollout is not None and rollout_attention.is_held(rollout))
            _keep(self._short, key, row is not None and workloads.is_short(row))

    def _rollout_row(self, key: str, found: Object | None, pods: list[tuple[Pod, PodRow]]) -> RolloutRow | None:
        if not isinstance(found, Deployment | StatefulSet | DaemonSet):
            return None
        sets = (self._owner(one) for one in sorted(self._sets_of.members(key)))
        around = Surroundings(
            sets=[one for one in sets if isinstance(one, ReplicaSet)],
            budgets=self._budgets[found.metadata.namespace].values(),
            warnings=self._occurrences.warnings,
            refusal=self._occurrences.refusal(key, found.metadata.uid),
        )
        return rollout_row(found, pods, around)

    def _refresh_totals(self) -> None:
        waiting = [row for key in self._waiting if (row := self._pods.get(key)) is not None]
        demand = totals.demand(waiting, claims=len(self._claiming))
        whole = totals.fleet_row(self._standings.groups, self._shares.groups, demand)
        self._fleet.put("fleet", self.saves.joined(whole))
        self._products.replace(totals.product_rows(self._shares.groups))
        self._attention.replace(attention.table(self._concerns(waiting)))

    def _concerns(self, waiting: list[PodRow]) -> Iterator[AttentionRow]:
        events = racks.events(self._strains)
        explained = racks.explained(events)
        for name, rows in self._node_attention.items():
            yield from racks.unexplained(rows) if name in explained else rows
        yield from racks.told(events)
        groups = attention.waiting_groups(waiting)
        held = {row.subject: row for row in self._held_up(groups)}
        yield from held.values()
        yield from attention.of_waiting({k: v for k, v in groups.items() if k not in held}, self._shares.groups)
        for key in self._short - held.keys():
            row = self._workloads.get(key)
            if row is not None:
                yield from attention.of_short_workload(key, row, waiting_pods=len(groups.get(key, ())))
        yield from attention.of_claims(len(self._claiming))
        yield from self.saves.concerns()

    def _held_up(self, waiting: rollout_attention.Waiting) -> Iterator[AttentionRow]:
        rows = ((key, self._rollouts.get(key), self._workloads.get(key)) for key in self._held)
        found = [(key, rollout, row) for key, rollout, row in rows if rollout is not None and row is not None]
        return (
            rollout_attention.of_held(found, waiting, self._nodes.frozen().values(), self._shares.groups)
            if found
            else iter(())
        )

    def _strain(self, node: Node | None, row: NodeRow | None) -> racks.Strain | None:
        told = self.gpus.of(row.name) if row is not None else None
        if node is None or row is None or told is None:
            return None
        return racks.strain(row, node.metadata.labels, told[1].values())

    # Objects

    def _pod(self, key: str) -> Pod | None:
        return cast(Pod | None, self._objects[Kind.POD].get(key))

    def _owner(self, key: str) -> Object | None:
        """The object of a workload's key, None when its kind is not watched or it is not there."""
        name, _, rest = key.partition("/")
        kind = _WORKLOAD_KINDS.get(name)
        return self._objects[kind].get(rest) if kind else None

    def _node_of(self, key: str, uid: str) -> str:
        """The node of the pod that an event names; its successor under the same name is another pod."""
        row = self._pods.get(key)
        return row.node if row is not None and uid in {"", row.uid} else ""

    def _placed(self, keys: Iterable[str]) -> list[tuple[Pod, PodRow]]:
        """Pods that a join names, with their rows: joined pods have both."""
        pods, rows = cast(dict[str, Pod], self._objects[Kind.POD]), self._pods
        return [(pods[key], row) for key in keys if (row := rows.get(key)) is not None]


def _keep(members: set[str], key: str, wanted: bool) -> None:
    if wanted:
        members.add(key)
    else:
        members.discard(key)


def _set(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _is_top(found: Object) -> bool:
    """Whether a controller is a workload also while it has no pods. A ReplicaSet of a Deployment never is."""
    owner = found.controller
    return owner is None or (not isinstance(found, ReplicaSet) and owner.kind not in _WORKLOAD_KINDS)
