"""Placement: whether a pod could run on a node, and where the pods of a drain would go.

Owns the scheduler's filters that need no plugin of a site: room, taints, node affinity, pod (anti-)affinity, topology spread,
host ports, volumes. Must not say when a pod will run: preemption, quotas and other schedulers are not foreseen, so a place that
is found means "there is room", never a promise.

Source: kube-scheduler's default plugins; sizes of pods as component-helpers/resource/helpers.go.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from fleet.domain import objects
from fleet.domain.budgets import selects
from fleet.domain.capacity import finished, gpu_name, ready_status
from fleet.domain.labelled import Labelled
from fleet.domain.objects import LabelSelector, Requirement, Taint
from fleet.domain.quantities import quantity
from fleet.domain.specs import (
    Affinity,
    Claim,
    FullPod,
    FullPodSpec,
    NodeTerm,
    NodeTerms,
    PodTerm,
    Spread,
    Storage,
    Toleration,
)

Amounts = Mapping[str, Fraction]

CLOSING = frozenset({"NoSchedule", "NoExecute"})
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
HOSTNAME = "kubernetes.io/hostname"
NONE = Fraction(0)


class Unfit(StrEnum):
    """Why a node does not take a pod: the first of the scheduler's filters that fails."""

    NOT_READY = "not-ready"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    NODE_AFFINITY = "node-affinity"
    HOST_PORT = "host-port"
    TOO_MANY_PODS = "too-many-pods"
    NO_GPUS = "no-gpus"  # no hole big enough
    NO_ROOM = "no-room"  # processor, memory or another resource
    VOLUME = "volume"  # its volume cannot be reached from there
    POD_AFFINITY = "pod-affinity"
    SPREAD = "spread"


# What pods ask for is the same for many of them, and exact arithmetic is slow: so it is worked out once for each kind of pod.
_Container = tuple[str, tuple[tuple[str, str], ...]]  # restart policy, amounts; of one name the last counts
_Asked = tuple[tuple[_Container, ...], tuple[_Container, ...], tuple[tuple[str, str], ...]]


def requests(spec: FullPodSpec) -> Amounts:
    """What the pod takes on its node: max(Σ containers + Σ sidecars, start of each init container) + overhead, by resource."""
    return _requests(_asked(spec))


def _asked(spec: FullPodSpec) -> _Asked:
    """Extended resources may be given as limits alone; the API server fills requests from limits."""
    return _containers(spec.containers), _containers(spec.init_containers), (*spec.overhead.items(),)


def _containers(found: Iterable[objects.Container]) -> tuple[_Container, ...]:
    return tuple((c.restart_policy, (*c.resources.limits.items(), *c.resources.requests.items())) for c in found)


@lru_cache(maxsize=4096)
def _requests(asked: _Asked) -> Amounts:
    containers, init_containers, overhead = asked
    running, sidecars, peak = dict[str, Fraction](), dict[str, Fraction](), dict[str, Fraction]()
    for _, amounts in containers:
        running = _sum(running, _amounts(amounts))
    for restart_policy, amounts in init_containers:
        start = _sum(sidecars, _amounts(amounts))
        if restart_policy == "Always":
            sidecars = start
        peak = _larger(peak, start)
    total = _sum(_larger(_sum(running, sidecars), peak), _amounts(overhead))
    return {name: amount for name, amount in total.items() if amount > 0}


def _amounts(asked: Iterable[tuple[str, str]]) -> dict[str, Fraction]:
    return {name: quantity(text) for name, text in dict(asked).items()}


def _sum(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    return {**one, **{name: one.get(name, NONE) + amount for name, amount in other.items()}}


def _larger(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    return {**one, **{name: max(one.get(name, NONE), amount) for name, amount in other.items()}}


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _term_holds(term: NodeTerm, node: objects.Node) -> bool:
    """A term without any requirement matches nothing."""
    fields = {"metadata.name": node.metadata.name}
    labels = node.metadata.labels
    return (
        bool(term.match_expressions or term.match_fields)
        and all(_meets(one, labels) for one in term.match_expressions)
        and all(_meets(one, fields) for one in term.match_fields)
    )


def _meets(requirement: Requirement, values: Mapping[str, str]) -> bool:
    if requirement.operator not in {"Gt", "Lt"}:
        return selects(LabelSelector({}, (requirement,)), values)
    try:
        found, bound = int(values[requirement.key]), int(requirement.values[0])
    except (KeyError, ValueError, IndexError):
        return False
    return found > bound if requirement.operator == "Gt" else found < bound


def _matches(terms: NodeTerms | None, node: objects.Node) -> bool:
    return terms is None or any(_term_holds(term, node) for term in terms.node_selector_terms)


class Place:
    """One node as the walk over a drain's pods fills it."""

    def __init__(self, node: objects.Node, pods: Iterable[FullPod], *, degraded: bool = False) -> None:
        """`pods`: those bound to it; finished ones hold nothing. `degraded`: a GPU of it has trouble, so others are preferred."""
        self.node, self.degraded = node, degraded
        self.pods = [pod for pod in pods if not finished(pod)]
        self.ports: set[tuple[int, str]] = set()  # of the host that its pods use
        self.free: dict[str, Fraction] = {name: quantity(text) for name, text in node.status.allocatable.items()}
        for pod in self.pods:
            self.ports |= _host_ports(pod)
        for asked, count in Counter(_asked(pod.spec) for pod in self.pods).items():
            self._take(asked, count)

    def take(self, pod: FullPod) -> None:
        self.pods.append(pod)
        self.ports |= _host_ports(pod)
        self._take(_asked(pod.spec), 1)

    def _take(self, asked: _Asked, count: int) -> None:
        for name, amount in _requests(asked).items():
            self.free[name] = self.free.get(name, NONE) - amount * count

    def gpus_free(self, wanted: Amounts) -> Fraction:
        return sum((self.free.get(name, NONE) for name in wanted if gpu_name(name)), NONE)


class _Around:
    """The pods of all places, by what asks about them: selectors of affinity and spread, and the pods that repel others."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.places = tuple(places)
        self.pods: Labelled[tuple[Place, FullPod]] = Labelled()
        self._repelling: defaultdict[tuple[str, str] | None, list[tuple[Place, FullPod, PodTerm]]] = defaultdict(list)
        for place in self.places:
            for pod in place.pods:
                self.add(place, pod)

    def add(self, place: Place, pod: FullPod) -> None:
        self.pods.add(pod.metadata.namespace, pod.metadata.labels, (place, pod))
        anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        for term in anti.required if anti else ():
            labels = term.label_selector.match_labels if term.label_selector else {}
            self._repelling[next(iter(labels.items()), None)].append((place, pod, term))

    def selected(self, term: PodTerm, owner: FullPod) -> Iterator[tuple[Place, FullPod]]:
        """The pods that a term of `owner` selects."""
        namespaces = None if term.namespace_selector is not None else term.namespaces or (owner.metadata.namespace,)
        for place, other in self.pods.near(term.label_selector, namespaces):
            if _selected(term, owner, other):
                yield place, other

    def repelling(self, pod: FullPod) -> Iterator[tuple[Place, PodTerm]]:
        """Anti-affinity is symmetric: pods that are there already may not want this one near."""
        for label in (*pod.metadata.labels.items(), None):
            for place, other, term in self._repelling.get(label, ()):
                if _selected(term, other, pod):
                    yield place, term


def _host_ports(pod: FullPod) -> set[tuple[int, str]]:
    return {(port.host_port, port.protocol) for c in pod.spec.containers for port in c.ports if port.host_port}


class Placement:
    """Where pods would go, one after the other, on nodes that fill up as they are placed."""

    def __init__(
        self,
        places: Iterable[Place],
        claims: Mapping[str, Claim] | None = None,
        storage: Mapping[str, Storage] | None = None,
    ) -> None:
        """`places`: every node but those that are being emptied. `claims` by "namespace/name" and `storage` by name; None: not
        known, so volumes are not looked at."""
        self.places = {place.node.metadata.name: place for place in places}
        self._around = _Around(self.places.values())
        self._claims, self._storage = claims, storage

    def place(self, pod: FullPod) -> str | Counter[Unfit]:
        """The node that would take it, which it then fills; or how many nodes refuse for which reason.

        Prefers nodes without degraded GPUs, and of those the tightest fit, which keeps large holes whole.
        """
        seeker, wanted = _Seeker(pod, self._around, self._reachable(pod)), requests(pod.spec)
        refused: Counter[Unfit] = Counter()
        fitting: list[Place] = []
        for place in self.places.values():
            unfit = closed(pod, place.node) or _full(pod, wanted, place) or seeker.unfit(place)
            if unfit is None:
                fitting.append(place)
            else:
                refused[unfit] += 1
        if not fitting:
            return refused
        best = min(fitting, key=lambda place: (place.degraded, place.gpus_free(wanted), place.node.metadata.name))
        best.take(pod)
        self._around.add(best, pod)
        return best.node.metadata.name

    def place_all(self, pods: Sequence[FullPod]) -> tuple[dict[str, str], dict[str, Counter[Unfit]]]:
        """Node by pod UID, and why not by pod UID, in this order."""
        placed: dict[str, str] = {}
        unplaced: dict[str, Counter[Unfit]] = {}
        for pod in pods:
            found = self.place(pod)
            if isinstance(found, str):
                placed[pod.metadata.uid] = found
            else:
                unplaced[pod.metadata.uid] = found
        return placed, unplaced

    def _reachable(self, pod: FullPod) -> list[NodeTerms]:
        """Which nodes its volumes can be reached from (local disks, zones). A claim that is not bound yet follows its pod."""
        found = []
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            claim = (self._claims or {}).get(f"{pod.metadata.namespace}/{source.claim_name}") if source else None
            bound = (self._storage or {}).get(claim.spec.volume_name) if claim else None
            if bound is not None and bound.spec.node_affinity and bound.spec.node_affinity.required:
                found.append(bound.spec.node_affinity.required)
        return found


class _Seeker:
    """What one pod asks of the pods around it, counted once for all nodes."""

    def __init__(self, pod: FullPod, around: _Around, reachable: Sequence[NodeTerms]) -> None:
        affinity = pod.spec.affinity or Affinity()
        self._reachable, self._around = reachable, around
        together = affinity.pod_affinity.required if affinity.pod_affinity else ()
        self._together = [self._domains(term, pod) for term in together]
        # The first pod of a group that wants to be together may go anywhere.
        self._first = not any(values for _, values in self._together) and all(_selected(t, pod, pod) for t in together)
        anti = affinity.pod_anti_affinity.required if affinity.pod_anti_affinity else ()
        self._apart = [*(self._domains(term, pod) for term in anti), *self._repelling(pod)]
        self._spreads = [
            (spread, self._counts(spread, pod))
            for spread in pod.spec.topology_spread_constraints
            if spread.when_unsatisfiable == "DoNotSchedule"
        ]

    def unfit(self, place: Place) -> Unfit | None:
        node = place.node
        if any(not _matches(terms, node) for terms in self._reachable):
            return Unfit.VOLUME
        if any(_topology(node, key) in values for key, values in self._apart):
            return Unfit.POD_AFFINITY
        if not self._first and any(_topology(node, key) not in values for key, values in self._together):
            return Unfit.POD_AFFINITY
        return Unfit.SPREAD if any(_skewed(node, *found) for found in self._spreads) else None

    def _domains(self, term: PodTerm, pod: FullPod) -> tuple[str, set[str]]:
        """The topology domains in which a pod runs that the term selects."""
        found = {_topology(place.node, term.topology_key) for place, _ in self._around.selected(term, pod)}
        return term.topology_key, {value for value in found if value is not None}

    def _repelling(self, pod: FullPod) -> Iterable[tuple[str, set[str]]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for place, term in self._around.repelling(pod):
            value = _topology(place.node, term.topology_key)
            if value is not None:
                found[term.topology_key].add(value)
        return found.items()

    def _counts(self, spread: Spread, pod: FullPod) -> defaultdict[str, int]:
        counts: defaultdict[str, int] = defaultdict(int)
        domains: dict[str, str] = {}  # by node
        for place in self._around.places:
            value = _topology(place.node, spread.topology_key)
            if value is not None and not _away(pod, place.node):
                domains[place.node.metadata.name] = value
                counts[value] += 0
        for place, other in self._around.pods.near(spread.label_selector, (pod.metadata.namespace,)):
            value = domains.get(place.node.metadata.name)
            alive = other.metadata.deletion_timestamp is None
            if value is not None and alive and selects(spread.label_selector, other.metadata.labels):
                counts[value] += 1
        return counts


def _skewed(node: objects.Node, spread: Spread, counts: Mapping[str, int]) -> bool:
    """Hard topology spread: after placing, a domain may not have more than `maxSkew` more than the emptiest one."""
    value = _topology(node, spread.topology_key)
    return value is None or counts.get(value, 0) + 1 - min(counts.values(), default=0) > spread.max_skew


def _topology(node: objects.Node, key: str) -> str | None:
    return node.metadata.name if key == HOSTNAME else node.metadata.labels.get(key)


def _selected(term: PodTerm, owner: FullPod, other: FullPod) -> bool:
    """Namespaces: those named, else the pod's own; a namespace selector is taken as "any", the cautious reading."""
    namespaces = term.namespaces or (owner.metadata.namespace,)
    inside = term.namespace_selector is not None or other.metadata.namespace in namespaces
    return inside and selects(term.label_selector, other.metadata.labels)


def closed(pod: FullPod, node: objects.Node) -> Unfit | None:
    """Why a node takes no such pod whatever is free on it."""
    tolerations = pod.spec.tolerations
    if ready_status(node) != "True":
        return Unfit.NOT_READY
    if node.spec.unschedulable and not tolerated(UNSCHEDULABLE, tolerations):
        return Unfit.CORDONED
    taints = (taint for taint in node.spec.taints if taint.effect in CLOSING and taint.key != UNSCHEDULABLE.key)
    if any(not tolerated(taint, tolerations) for taint in taints):
        return Unfit.TAINTED
    return Unfit.NODE_AFFINITY if _away(pod, node) else None


def _away(pod: FullPod, node: objects.Node) -> bool:
    """Whether its node selector or required node affinity keeps the pod off the node."""
    if not pod.spec.node_selector.items() <= node.metadata.labels.items():
        return True
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity is not None and not _matches(affinity.required, node)


def _full(pod: FullPod, wanted: Amounts, place: Place) -> Unfit | None:
    if _host_ports(pod) & place.ports:
        return Unfit.HOST_PORT
    if "pods" in place.free and len(place.pods) + 1 > place.free["pods"]:
        return Unfit.TOO_MANY_PODS
    short = [name for name, amount in wanted.items() if amount > place.free.get(name, NONE)]
    if not short:
        return None
    return Unfit.NO_GPUS if any(gpu_name(name) for name in short) else Unfit.NO_ROOM
