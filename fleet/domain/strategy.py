"""Which strategy brings a new version of a workload onto the GPUs that are free: the advice before a rollout.

Owns the walk of an update over the holes of the nodes, the peak of GPUs that it takes and the fewest pods that serve meanwhile.
Must not decide for anybody: every strategy is shown with its numbers, and which one fits best. A place that is found means "there
is room", as everywhere in `scheduling`.

The walk is the Deployment controller's: new pods up to `max_pods`, old ones go while `min_available` stay, those first that share
their node with most others (controller_utils.go, ActivePodsWithRanks). Of equals the one goes whose node takes no new pods: it is
as unlucky as it may be. What an old pod held is free for a new one afterwards.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain.picture import NodeRow, PodRow, Snapshot
from fleet.domain.rollouts import Bounds, bounds
from fleet.domain.scheduling import Place, Placement, Unfit
from fleet.domain.specs import FullPod
from fleet.domain.stages import Stage

FULL: Final = frozenset({Unfit.NO_GPUS, Unfit.NO_ROOM, Unfit.TOO_MANY_PODS, Unfit.HOST_PORT})


class Kind(StrEnum):
    """From the one that needs most room to the one that needs none."""

    BLUE_GREEN = "blue-green"  # a full copy beside the old version, then the Service is switched
    SURGE_ONE = "surge-one"  # one more, none missing
    REPLACE_ONE = "replace-one"  # none more, one missing
    PRESENT = "present"  # what the workload is set to


class Doubt(StrEnum):
    """Why a strategy cannot finish, or what it costs."""

    NO_ROOM = "no-room"  # the new pods do not all find a place
    VOLUME = "volume"  # a volume that one pod holds: the new one waits for it
    LESS_CAPACITY = "less-capacity"  # fewer pods than wanted serve meanwhile
    OUTAGE = "outage"  # none does
    STOPPING = "stopping"  # pods that stop hold GPUs beyond the peak of `max_pods`


class Volume(StrEnum):
    """A claim that the pods share, as far as it matters: of one pod (RWOP), of one node (RWO)."""

    NONE = ""
    ONE_NODE = "one-node"
    ONE_POD = "one-pod"


class Ground(Struct, frozen=True, kw_only=True):
    """What an update starts from. `free`: GPUs of the kind that pods ask for, on every node that may take a new pod, also 0;
    `old` says where old pods run, also on nodes that take none."""

    replicas: int
    gpus: int  # per new pod
    old_gpus: int  # per old pod
    free: Mapping[str, int]
    old: Mapping[str, int]
    load_s: float | None = None  # from creation to Ready, measured; None unknown
    stop_s: float | None = None  # grace; None unknown
    volume: Volume = Volume.NONE
    present: Bounds | None = None
    adds: bool = True  # whether there may be more pods than wanted: a StatefulSet never has


class Strategy(Struct, frozen=True, kw_only=True):
    """One strategy with its numbers. Pods that stop hold their GPUs to the end: `peak_gpus` without them is Kubernetes' theory,
    `peak_gpus_held` is what is taken on the nodes."""

    kind: Kind
    surge: int
    unavailable: int
    finishes: bool
    peak_pods: int
    peak_gpus: int
    peak_gpus_held: int
    lowest: int  # pods that serve at the worst moment
    placed: int  # new pods that find a place
    more_gpus: int  # that have to be free at once, on nodes where a pod finds all of its own
    doubts: tuple[Doubt, ...] = ()


class Advice(Struct, frozen=True):
    """`best`: the first kind that finishes; None when none does. `slots`: how many new pods find a place right now; None: they
    ask for no GPUs. `wanted`: pods, each with `gpus`."""

    best: Kind | None
    strategies: tuple[Strategy, ...]
    slots: int | None
    largest: int  # the largest hole, in GPUs
    wanted: int = 0
    gpus: int = 0

    @property
    def present(self) -> Strategy | None:
        """What the workload is set to."""
        return next((one for one in self.strategies if one.kind is Kind.PRESENT), None)


def advise(ground: Ground) -> Advice:
    """All strategies, those that spare capacity most first; what the workload is set to comes last."""
    wanted = ground.replicas
    asked = [
        (Kind.BLUE_GREEN, Bounds(wanted, 0, 2 * wanted, wanted)),
        *([(Kind.SURGE_ONE, bounds(wanted, 1, 0))] if ground.adds else []),
        (Kind.REPLACE_ONE, bounds(wanted, 0, 1)),
    ]
    if ground.present is not None:
        asked.append((Kind.PRESENT, ground.present))
    found = tuple(_strategy(kind, limits, ground) for kind, limits in asked)
    best = next((one.kind for one in found if one.finishes), None)
    slots = sum(free // ground.gpus for free in ground.free.values()) if ground.gpus else None
    return Advice(best, found, slots, max(ground.free.values(), default=0), wanted, ground.gpus)


def ground(snapshot: Snapshot, key: str, gpus: int | None = None) -> Ground | None:
    """The ground of workload `key` as the picture shows it; `gpus`: what a pod of the new version asks for, None as now. None:
    it has no rollouts, no pod that tells which kind of GPU it asks for, or it is a DaemonSet, whose pods choose no node. Nodes
    count that take GPU pods of its product; finer rules (affinity, spread) need `surveyed`."""
    row = snapshot.rollouts.get(key)
    if row is None or row.kind == "DaemonSet":
        return None
    pods = [pod for pod in snapshot.pods.values() if pod.workload == key and pod.stage != Stage.ENDED]
    per_pod = row.gpus_per_pod if gpus is None else gpus
    if per_pod and not any(pod.resources for pod in pods):
        return None
    limits = (row.surge, row.unavailable, row.max_pods, row.min_available)
    return Ground(
        replicas=row.desired,
        gpus=per_pod,
        old_gpus=max((pod.gpus for pod in pods), default=per_pod),
        free=room(snapshot, pods),
        old=Counter(pod.node for pod in pods if pod.node and pod.stage != Stage.STOPPING),
        load_s=row.ready_after_s,
        stop_s=max((pod.grace_s for pod in pods if pod.grace_s is not None), default=None),
        present=None if None in limits else Bounds(*(limit or 0 for limit in limits)),
        adds=row.kind != "StatefulSet",
    )


def room(snapshot: Snapshot, pods: Iterable[PodRow]) -> dict[str, int]:
    """Free GPUs by node, of the kind that these pods of one workload ask for, on the nodes that take them."""
    one = next(iter(sorted(pods, key=lambda pod: -pod.gpus)), None)
    if one is None or not one.resources:
        return {}
    nodes = snapshot.nodes.values()
    return {node.name: free_for(node, one) for node in nodes if node.usable and _is_of(node, one.product)}


def free_for(node: NodeRow, pod: PodRow) -> int:
    """Free GPUs of a node, of the kind that a pod asks for; of several kinds the scarcest."""
    free = {resource.name: resource.free for resource in node.resources}
    return min((free.get(name, 0) for name, _ in pod.resources), default=0)


def surveyed(places: Iterable[Place], pod: FullPod, gpus: int, most: int) -> dict[str, int]:
    """Free GPUs by node for copies of `pod`, by all of the scheduler's filters, on nodes that were read afresh: only what a whole
    pod finds counts, and `most` pods on a node. `places` are used up. Nodes that are closed to it are left out."""
    found: dict[str, int] = {}
    for place in places:
        here, copies = Placement([place]), 0
        while copies < most and isinstance(answer := here.place(pod), str):
            copies += 1
        if copies == most or FULL.issuperset(answer):
            found[place.node.metadata.name] = copies * gpus
    return found


def _is_of(node: NodeRow, product: str) -> bool:
    return product in {"", node.product_name}


def _strategy(kind: Kind, limits: Bounds, ground: Ground) -> Strategy:
    whole = kind is Kind.BLUE_GREEN
    placed = _fitting(ground) if whole or not ground.gpus else _Walk(ground, limits).placed()
    held_back = _volume_holds(whole, limits, ground)
    finishes = placed == ground.replicas and not held_back
    peak, held = _peaks(limits, ground, stopping=0 if whole else _stopping(limits, ground))
    short = 0 if placed == ground.replicas else (ground.replicas - placed if whole else 1) * ground.gpus
    doubts = {
        Doubt.NO_ROOM: placed < ground.replicas,
        Doubt.VOLUME: held_back,
        Doubt.OUTAGE: limits.min_available == 0 < ground.replicas,
        Doubt.LESS_CAPACITY: limits.min_available < ground.replicas,
        Doubt.STOPPING: held > peak,
    }
    return Strategy(
        kind=kind,
        surge=limits.surge,
        unavailable=limits.unavailable,
        finishes=finishes,
        peak_pods=limits.max_pods,
        peak_gpus=peak,
        peak_gpus_held=held,
        lowest=limits.min_available,
        placed=placed,
        more_gpus=short,
        doubts=tuple(doubt for doubt, holds in doubts.items() if holds),
    )


def _fitting(ground: Ground) -> int:
    """How many new pods find a place while all old ones stay; no hole limits those without GPUs."""
    if not ground.gpus:
        return ground.replicas
    return min(ground.replicas, sum(free // ground.gpus for free in ground.free.values()))


def _volume_holds(whole: bool, limits: Bounds, ground: Ground) -> bool:
    """Whether new pods wait for a volume that old ones keep: with none unavailable they keep it for ever."""
    if ground.volume is Volume.NONE or not (whole or (limits.surge > 0 and limits.unavailable == 0)):
        return False
    home = next(iter(ground.old), "")
    same_node = len(ground.old) == 1 and ground.free.get(home, 0) >= ground.gpus * (ground.replicas if whole else 1)
    return ground.volume is Volume.ONE_POD or not same_node


def _stopping(limits: Bounds, ground: Ground) -> int:
    """How many old pods stop at once at most: so many go per load time, and each takes its stop time. Unknown times: all."""
    if ground.load_s is None or ground.stop_s is None:
        return ground.replicas
    waves = int(ground.stop_s // max(ground.load_s, 1.0)) + 1
    return min(ground.replicas, (limits.surge + limits.unavailable) * waves)


def _peaks(limits: Bounds, ground: Ground, stopping: int) -> tuple[int, int]:
    """GPUs at the peak without and with pods that stop; the latter also cannot take more than there is."""
    old, new = sum(ground.old.values()), ground.replicas
    extra = max(0, limits.max_pods - ground.replicas)

    def peak(beside: int) -> int:
        return max(
            new * ground.gpus + min(old, beside) * ground.old_gpus,
            old * ground.old_gpus + min(new, beside) * ground.gpus,
        )

    fits = old * ground.old_gpus + _fitting(ground) * ground.gpus
    return peak(extra), min(peak(extra + stopping), max(fits, new * ground.gpus, peak(extra) if stopping == 0 else 0))


class _Walk:
    """An update as the controller would do it, until it is through or nothing moves any more."""

    def __init__(self, ground: Ground, limits: Bounds) -> None:
        self._ground, self._limits = ground, limits
        self._free = dict(ground.free)
        self._old = {node: pods for node, pods in ground.old.items() if pods > 0}
        self._by_free: defaultdict[int, set[str]] = defaultdict(set)
        for node, free in self._free.items():
            self._by_free[free].add(node)
        self._new = 0

    def placed(self) -> int:
        """How many new pods find a place in the end."""
        moved = True
        while moved:
            moved = self._add() + self._remove() > 0
        return self._new

    def _add(self) -> int:
        due = min(self._ground.replicas, self._limits.max_pods - sum(self._old.values())) - self._new
        added = next((n for n in range(max(0, due)) if not self._place()), max(0, due))
        self._new += added
        return added

    def _place(self) -> bool:
        """On the node with the tightest fit."""
        wanted = self._ground.gpus
        sizes = [free for free, nodes in self._by_free.items() if free >= wanted and nodes]
        if not sizes:
            return False
        node = min(self._by_free[min(sizes)])
        self._change(node, -wanted)
        return True

    def _remove(self) -> int:
        spare = sum(self._old.values()) + self._new - self._limits.min_available
        going = min(sum(self._old.values()), max(0, spare))
        for _ in range(going):
            node = max(self._old, key=lambda name: (self._old[name], name not in self._free, name))
            self._old[node] -= 1
            if not self._old[node]:
                del self._old[node]
            if node in self._free:
                self._change(node, self._ground.old_gpus)
        return going

    def _change(self, node: str, gpus: int) -> None:
        self._by_free[self._free[node]].discard(node)
        self._free[node] += gpus
        self._by_free[self._free[node]].add(node)
