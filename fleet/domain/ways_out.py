"""What would help a rollout that is held up: ways out of each reason, the best first, with what each would do.

Owns the search for a hole (a node to uncordon, old pods to let go, pods of others to move) on the rows of the picture, and what
answers which reason. Must not do any of it, nor promise: "finds a place" means there is room, as everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain.holdups import Cause, Level
from fleet.domain.picture import NodeRow, PodRow, Snapshot
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from fleet.domain.stages import Stage
from fleet.domain.strategy import free_for

MOST: Final = 3  # of one kind


class Remedy(StrEnum):
    """What somebody could do, in the order in which it is offered when it helps equally much."""

    WAIT = "wait"  # it goes on by itself: `pods` of it are coming or leaving
    RESUME = "resume"
    UNCORDON = "uncordon"  # node `subject`
    LET_GO = "let-go"  # `moved` old pods on node `subject` first
    MOVE = "move"  # drain pods of others from node `subject`: they find places elsewhere
    ALLOW_MISSING = "allow-missing"  # maxSurge 0, maxUnavailable 1: an old pod goes first
    EVICT = "evict"  # have old pods go, when the budget allows it
    FIX_IMAGE = "fix-image"
    FIX_CONFIG = "fix-config"
    READ_LOG = "read-log"  # of pod `subject`
    WIDEN_PROBE = "widen-probe"  # a startup probe that lasts as long as the load
    FREE_VOLUME = "free-volume"  # the pod that holds it has to go first: maxSurge 0 or Recreate
    RAISE_QUOTA = "raise-quota"
    ASK_ADMISSION = "ask-admission"  # whoever owns the rule that refuses
    CHANGE_PLACING = "change-placing"  # node selector, affinity, tolerations
    CHECK_CONTROLLER = "check-controller"
    UNDO = "undo"  # to revision `subject`


class Way(Struct, frozen=True):
    """`pods`: how many of those that wait would find a place; `moved`: keys of pods that have to go first, under `budgets`."""

    remedy: Remedy
    subject: str = ""
    pods: int = 0
    moved: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    facts: tuple[tuple[str, str | int | float | None], ...] = ()


ANSWERS: Final[Mapping[Cause, tuple[Remedy, ...]]] = {
    Cause.QUOTA: (Remedy.RAISE_QUOTA, Remedy.UNDO),
    Cause.ADMISSION: (Remedy.ASK_ADMISSION, Remedy.UNDO),
    Cause.IMAGE: (Remedy.FIX_IMAGE, Remedy.UNDO),
    Cause.CONFIG: (Remedy.FIX_CONFIG, Remedy.UNDO),
    Cause.STARTUP_BUDGET: (Remedy.WIDEN_PROBE, Remedy.UNDO),
    Cause.CRASH: (Remedy.READ_LOG, Remedy.UNDO),
    Cause.DEADLOCK: (Remedy.ALLOW_MISSING, Remedy.UNDO),
    Cause.NO_HOLE: (Remedy.UNDO,),
    Cause.UNPLACEABLE: (Remedy.CHANGE_PLACING, Remedy.UNDO),
    Cause.VOLUME: (Remedy.FREE_VOLUME, Remedy.UNDO),
    Cause.PROBE: (Remedy.READ_LOG, Remedy.UNDO),
    Cause.BUDGET: (Remedy.EVICT,),
    Cause.PAUSED: (Remedy.RESUME,),  # an undo is refused meanwhile (kubectl, rollback.go)
    Cause.NOT_OBSERVED: (Remedy.CHECK_CONTROLLER,),
}
HOLES: Final = frozenset({Cause.DEADLOCK, Cause.NO_HOLE, Cause.UNPLACEABLE})
# The scheduler's words for rules of the pod itself; which nodes they would leave, the picture knows of its GPU product alone.
OWN_RULES: Final = ("node affinity", "affinity rules", "topology spread constraints")
ABOUT_POD: Final = frozenset({Remedy.READ_LOG, Remedy.FIX_IMAGE, Remedy.FIX_CONFIG, Remedy.FREE_VOLUME})


def ways_out(snapshot: Snapshot, key: str, holdup: HoldupRow) -> tuple[Way, ...]:
    """Of one reason why the rollout of workload `key` is held up; the best first."""
    row, cause = snapshot.rollouts[key], Cause(holdup.cause)
    found = [*_waits(holdup), *_answers(row, holdup)]
    if cause in HOLES and holdup.pod in snapshot.pods:
        found += _holes(_Ground(snapshot, key, row, holdup), cause)
    order = list(Remedy)
    return tuple(
        sorted(found, key=lambda way: (way.remedy is Remedy.UNDO, -min(way.pods, holdup.pods), order.index(way.remedy)))
    )


def uncordon(closed: Iterable[NodeRow], pod: PodRow, short: int) -> Way | None:
    """The cordoned node that would take most of so many pods like this one."""
    return next(iter(_best(_uncordoned(closed, pod, short))), None)


def answer(row: RolloutRow, holdup: HoldupRow) -> Way | None:
    """The first answer to a reason, without a look at nodes and other people's pods."""
    return next(_answers(row, holdup), None)


def _waits(holdup: HoldupRow) -> Iterator[Way]:
    """Pods on their way make old ones go, and those that leave make room: time helps as long as something moves."""
    facts = dict(holdup.facts)
    moving = [facts.get(name) for name in ("coming", "leaving", "may_go")]
    pods = sum(count for count in moving if isinstance(count, int))
    if holdup.level == Level.WARN and pods:
        yield Way(Remedy.WAIT, pods=min(pods, holdup.pods), facts=holdup.facts)


def _answers(row: RolloutRow, holdup: HoldupRow) -> Iterator[Way]:
    for remedy in ANSWERS[Cause(holdup.cause)]:
        if remedy is Remedy.UNDO:
            yield from _undo(row)
        elif remedy is Remedy.ALLOW_MISSING:
            yield Way(remedy, pods=1, facts=(("lowest", row.desired - 1),))
        else:
            yield Way(remedy, holdup.pod if remedy in ABOUT_POD else "")


def _undo(row: RolloutRow) -> Iterator[Way]:
    """Only a Deployment keeps its older versions as ReplicaSets with numbers, and only one that still runs surely fits."""
    if row.was and row.old:
        yield Way(Remedy.UNDO, row.was, facts=(("serving", dict(row.old_stages).get(Stage.READY, 0)),))


# Holes


class _Ground:
    """The pods that wait, and what is on the nodes that could take them."""

    def __init__(self, snapshot: Snapshot, key: str, row: RolloutRow, holdup: HoldupRow) -> None:
        self.pod, self.short = snapshot.pods[holdup.pod], holdup.pods
        fits = {name: node for name, node in snapshot.nodes.items() if _is_of(node, self.pod)}
        self.nodes: Mapping[str, NodeRow] = fits
        self.free = {name: free_for(node, self.pod) for name, node in fits.items() if node.usable}
        self.on: dict[str, list[PodRow]] = {name: [] for name in self.free}
        for pod in snapshot.pods.values():
            if pod.node in self.on and pod.gpus and pod.stage not in {Stage.ENDED, Stage.STOPPING}:
                self.on[pod.node].append(pod)
        self.old = {
            name: [pod for pod in pods if pod.workload == key and pod.template != row.template]
            for name, pods in self.on.items()
        }


def _holes(ground: _Ground, cause: Cause) -> list[Way]:
    """Where GPUs are not what lacks, no pod that goes helps."""
    found = _best(_uncordoned(ground.nodes.values(), ground.pod, ground.short))
    if cause is not Cause.UNPLACEABLE:
        found += _best(_letting_go(ground))
        found += [] if _is_choosy(ground.pod) else _best(_moving(ground))
    return found


def _best(found: Iterable[Way]) -> list[Way]:
    return sorted(found, key=lambda way: (-way.pods, len(way.moved), way.subject))[:MOST]


def _uncordoned(nodes: Iterable[NodeRow], pod: PodRow, short: int) -> Iterator[Way]:
    """Cordoned nodes that would take some of so many pods like this one."""
    for node in () if _is_choosy(pod) else nodes:
        if not (node.unschedulable and node.ready == "True" and not node.closed_by and _is_of(node, pod)):
            continue
        pods = min(short, free_for(node, pod) // pod.gpus) if pod.gpus else short
        if pods:
            facts = (("by", node.cordoned_by), ("since_at", node.cordoned_at), ("trouble", ",".join(node.reasons)))
            yield Way(Remedy.UNCORDON, node.name, pods, facts=facts)


def _is_of(node: NodeRow, pod: PodRow) -> bool:
    return pod.product in {"", node.product_name}


def _is_choosy(pod: PodRow) -> bool:
    """Whether the scheduler refuses nodes by a rule of the pod itself, so that nobody here can tell which others it takes."""
    return not pod.product and any(words in pod.waiting_message for words in OWN_RULES)


def _letting_go(ground: _Ground) -> Iterator[Way]:
    """As few old pods as make one hole, on a node that has them all."""
    for name, free in ground.free.items():
        going = _fewest(ground.old[name], ground.pod.gpus - free)
        if going:
            yield _way(Remedy.LET_GO, name, 1, going)


def _moving(ground: _Ground) -> Iterator[Way]:
    """Pods of others that find a place of their own elsewhere; what restarts on the same node, or nowhere, is left alone."""
    for name, free in ground.free.items():
        others = [
            pod
            for pod in ground.on[name]
            if pod not in ground.old[name]
            and pod.owner_kind
            and not (pod.daemon or pod.mirror)
            and pod.workload != ground.pod.workload
        ]
        going = _fewest(others, ground.pod.gpus - free)
        elsewhere = {node: room for node, room in ground.free.items() if node != name}
        if going and _all_fit(going, elsewhere):
            yield _way(Remedy.MOVE, name, 1, going)


def _way(remedy: Remedy, node: str, pods: int, going: Sequence[PodRow]) -> Way:
    moved = tuple(f"{pod.namespace}/{pod.name}" for pod in going)
    return Way(remedy, node, pods, moved, tuple(sorted({name for pod in going for name in pod.budgets})))


def _fewest(pods: Iterable[PodRow], gpus: int) -> list[PodRow]:
    """Pods that hold at least so many GPUs together, the largest first; [] when all of them hold fewer, or none is needed."""
    found: list[PodRow] = []
    for pod in sorted(pods, key=lambda pod: (-pod.gpus, pod.name)):
        if gpus <= 0:
            break
        found.append(pod)
        gpus -= pod.gpus
    return found if gpus <= 0 else []


def _all_fit(pods: Iterable[PodRow], free: Mapping[str, int]) -> bool:
    """Each on the tightest fit, the largest first."""
    left = dict(free)
    for pod in pods:
        places = [(room, name) for name, room in left.items() if room >= pod.gpus]
        if not places:
            return False
        left[min(places)[1]] -= pod.gpus
    return True
