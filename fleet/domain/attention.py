"""What needs a person, most urgent first.

Owns the concerns, their order, and the facts that the sentence of each needs. Must not write sentences: that is the screens' job.
Facts by concern: see each function. A fact that is unknown is None.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from fleet.domain import capacity, machines
from fleet.domain.objects import Node, seconds
from fleet.domain.picture import AttentionRow, NodeRow, PodRow, WorkloadRow
from fleet.domain.pods import by_age
from fleet.domain.totals import Shares, largest_free

Facts = tuple[tuple[str, str | int | float | None], ...]


class Concern(StrEnum):
    """Why something needs a person, most urgent first: the place in this list is the rank."""

    NODE_UNREACHABLE = "node-unreachable"  # condition Ready is Unknown: its kubelet is silent
    NODE_NOT_READY = "node-not-ready"  # condition Ready is False
    GPU_LOST = "gpu-lost"  # off the bus, or the driver lists it no more
    GPU_REBOOT_REQUIRED = "gpu-reboot-required"
    GPU_HARDWARE_SERVICE = "gpu-hardware-service"
    GPU_RESET_REQUIRED = "gpu-reset-required"  # now; one that can wait is degraded
    GPU_UNLISTED = "gpu-unlisted"  # its driver reported a fault of a GPU that no reading has ever listed
    DRIVER_HUNG = "driver-hung"  # calls of the driver do not return
    DRIVER_MISMATCH = "driver-mismatch"  # library and kernel module are of different versions
    DRIVER_MISSING = "driver-missing"  # or its library, or the right to use it
    GPUS_MISSING = "gpus-missing"  # labels tell of GPUs, but the node offers no slot
    GPUS_WITHDRAWN = "gpus-withdrawn"  # the device plugin reports devices unhealthy: allocatable < capacity
    OVER_COMMITTED = "over-committed"  # pods hold more slots than are allocatable
    CHECKPOINT_NONE = "checkpoint-none"  # it trains, and nothing complete was ever saved
    CHECKPOINT_CRITICAL = "checkpoint-critical"  # the newest one is older than two intervals and a save
    ROLLOUT_HELD = "rollout-held"  # a rollout of pods with GPUs does not get on by itself, or is past its deadline
    CHECKPOINT_CORRUPT = "checkpoint-corrupt"  # what ought to be the newest cannot be used
    RACK_EVENT = "rack-event"  # heat or power slows GPUs of several nodes of one rack, or zone, at the same time
    GPU_UNKNOWN = "gpu-unknown"  # some of its GPUs cannot be read, and nothing above says why
    READINGS_SILENT = "readings-silent"  # nobody reports the health of its GPUs any more
    GPU_WORK_STUCK = "gpu-work-stuck"  # announced work (driver upgrade, MIG change) failed, or takes too long
    GPU_COUNT_MISMATCH = "gpu-count-mismatch"  # driver, labels and slots tell of different numbers of GPUs
    PODS_HELD_UP = "pods-held-up"  # the same of pods without GPUs, or of a workload that has one version alone
    WORKLOAD_SHORT = "workload-short"  # fewer pods available than wanted
    PODS_WAITING = "pods-waiting"  # pods that want GPUs have no node
    WORKLOAD_STARTING = (
        "workload-starting"  # as workload-short, but its pods are starting, or its controller is at work
    )
    CHECKPOINT_STALE = "checkpoint-stale"  # the next one is overdue
    CHECKPOINT_UNREADABLE = "checkpoint-unreadable"  # policy lets us read where it saves, and it cannot be read
    CHECKPOINT_SKEW = "checkpoint-skew"  # the newest one is dated in the future
    GPU_DEGRADED = "gpu-degraded"  # works, and needs a reset, or an eye on it
    GPU_UNHELD_USE = "gpu-unheld-use"  # a process that is in no pod uses a GPU that no pod holds
    CLOCK_SKEW = "clock-skew"  # its clock and ours differ by more than 2 s
    KERNEL_LOG_UNREAD = "kernel-log-unread"  # nobody would hear of a fault
    NODE_TAINTED = "node-tainted"  # Ready and not cordoned, but closed by a taint
    CORDONED = "cordoned"
    GPU_IDLE_HELD = "gpu-idle-held"  # pods hold GPUs that nothing uses
    CHECKPOINT_NOT_GRANTED = "checkpoint-not-granted"  # policy does not let us read where it saves
    KERNEL_LOG_LOST = "kernel-log-lost"  # lines were overwritten before they were read: a fault may be among them
    CLAIMS = "claims"  # some GPUs are claimed (DRA) and not in our numbers


LEVELS = {
    Concern.NODE_UNREACHABLE: "bad",
    Concern.NODE_NOT_READY: "bad",
    Concern.GPU_LOST: "bad",
    Concern.GPU_REBOOT_REQUIRED: "bad",
    Concern.GPU_HARDWARE_SERVICE: "bad",
    Concern.GPU_RESET_REQUIRED: "bad",
    Concern.GPU_UNLISTED: "bad",
    Concern.DRIVER_HUNG: "bad",
    Concern.DRIVER_MISMATCH: "bad",
    Concern.DRIVER_MISSING: "bad",
    Concern.GPUS_MISSING: "bad",
    Concern.GPUS_WITHDRAWN: "bad",
    Concern.OVER_COMMITTED: "bad",
    Concern.CHECKPOINT_NONE: "bad",
    Concern.CHECKPOINT_CRITICAL: "bad",
    Concern.ROLLOUT_HELD: "bad",
    Concern.CHECKPOINT_CORRUPT: "warn",
    Concern.RACK_EVENT: "warn",
    Concern.GPU_UNKNOWN: "warn",
    Concern.READINGS_SILENT: "warn",
    Concern.GPU_WORK_STUCK: "warn",
    Concern.GPU_COUNT_MISMATCH: "warn",
    Concern.PODS_HELD_UP: "warn",
    Concern.WORKLOAD_SHORT: "warn",
    Concern.PODS_WAITING: "warn",
    Concern.WORKLOAD_STARTING: "warn",
    Concern.CHECKPOINT_STALE: "warn",
    Concern.CHECKPOINT_UNREADABLE: "warn",
    Concern.CHECKPOINT_SKEW: "warn",
    Concern.GPU_DEGRADED: "warn",
    Concern.GPU_UNHELD_USE: "warn",
    Concern.CLOCK_SKEW: "warn",
    Concern.KERNEL_LOG_UNREAD: "warn",
    Concern.NODE_TAINTED: "warn",
    Concern.CORDONED: "warn",
    Concern.GPU_IDLE_HELD: "note",
    Concern.CHECKPOINT_NOT_GRANTED: "note",
    Concern.KERNEL_LOG_LOST: "note",
    Concern.CLAIMS: "note",
}
RANKS = {concern: rank for rank, concern in enumerate(Concern)}


def order(row: AttentionRow) -> tuple[int, float, str]:
    """Most urgent first; the older first; unknown age last."""
    return row.rank, row.since_at if row.since_at is not None else float("inf"), row.subject


def of_node(node: Node, row: NodeRow) -> list[AttentionRow]:
    """One row per reason that Kubernetes tells of; those that its GPUs give are `gpu_attention`'s."""
    return [_of_node(concern, node, row) for reason in row.reasons if (concern := Concern(reason)) in _NODE_FACTS]


def waiting_groups(waiting: Iterable[PodRow]) -> dict[str, list[PodRow]]:
    """Pods that wait for GPUs by workload, oldest first; a pod without one is its own subject."""
    groups: defaultdict[str, list[PodRow]] = defaultdict(list)
    for row in sorted(waiting, key=by_age):
        groups[row.workload or f"{row.namespace}/{row.name}"].append(row)
    return groups


def of_waiting(groups: Mapping[str, Sequence[PodRow]], shares: Shares) -> Iterator[AttentionRow]:
    """Facts: pods, then of the oldest: gpus, resource, product (wished, short), hole, reason, message (the scheduler's), pod.

    `hole` is the largest free piece of what it asks for on one usable node.
    """
    largest: dict[tuple[str, str], int] = {}
    for subject, pods in groups.items():
        oldest = pods[0]
        wish = (oldest.resources[0][0], oldest.product)
        if wish not in largest:
            largest[wish] = largest_free(shares, *wish)
        facts: Facts = (
            ("pods", len(pods)),
            ("gpus", oldest.gpus),
            ("resource", wish[0]),
            ("product", machines.short_product(oldest.product) or None),
            ("hole", largest[wish]),
            ("reason", oldest.waiting_reason),
            ("message", oldest.waiting_message),
            ("pod", f"{oldest.namespace}/{oldest.name}"),
        )
        yield _row(Concern.PODS_WAITING, subject, oldest.created_at, facts)


def of_short_workload(key: str, row: WorkloadRow, waiting_pods: int) -> Iterator[AttentionRow]:
    """Facts: desired, available, ready, gpus (each pod). For a row of which `workloads.is_short` holds.

    Nothing when `pods-waiting` says it already (all pods that lack are waiting for GPUs), or when they only start while a rollout
    goes on: its deadline watches them. Pods that start otherwise are watched by nobody, so they are told, less urgently.
    """
    lacking = (row.desired or 0) - (row.available or 0) - waiting_pods
    coming = row.starting + max(0, row.ready - (row.available or 0))  # not Ready for long enough is not available yet
    concern = Concern.WORKLOAD_STARTING if row.progressing or lacking <= coming else Concern.WORKLOAD_SHORT
    if lacking > (coming if row.progressing else 0):
        facts: Facts = (
            ("desired", row.desired),
            ("available", row.available),
            ("ready", row.ready),
            ("gpus", row.gpus_per_pod),
        )
        yield _row(concern, key, row.short_since_at, facts)


def of_claims(pods: int) -> Iterator[AttentionRow]:
    """Facts: pods (that use resource claims)."""
    if pods:
        yield _row(Concern.CLAIMS, "pods", None, (("pods", pods),))


def of_workload(concern: Concern, key: str, since_at: float | None, facts: Facts) -> AttentionRow:
    """About a workload as a whole, by its key."""
    return _row(concern, key, since_at, facts)


def table(rows: Iterable[AttentionRow]) -> dict[str, AttentionRow]:
    """The rows by key, most urgent first."""
    return {f"{row.kind}:{row.subject}": row for row in sorted(rows, key=order)}


def _of_node(concern: Concern, node: Node, row: NodeRow) -> AttentionRow:
    """Facts of every concern about a node: pods, gpus (slots that its pods hold), and those of the concern."""
    since_at, facts = _NODE_FACTS[concern](node, row)
    return of_concern(concern, row, since_at, facts)


def of_concern(concern: Concern, row: NodeRow, since_at: float | None, facts: Facts) -> AttentionRow:
    """About a node; what its pods hold is told with every one."""
    held: Facts = (("pods", row.pods), ("gpus", sum(r.allocated for r in row.resources)))
    return _row(concern, row.name, since_at, held + facts, row.name)


def of_place(
    concern: Concern, place: str, since_at: float | None, facts: Facts, nodes: tuple[str, ...]
) -> AttentionRow:
    """About several nodes that stand together."""
    return AttentionRow(concern.value, LEVELS[concern], RANKS[concern], place, "", since_at, facts, nodes)


def _silence(_node: Node, row: NodeRow) -> tuple[float | None, Facts]:
    ready = next((c for c in row.conditions if c.type == "Ready"), None)
    if ready is None:
        return None, (("reason", None), ("message", None))
    return ready.since_at, (("reason", ready.reason), ("message", ready.message))


def _missing(_node: Node, row: NodeRow) -> tuple[float | None, Facts]:
    return None, (("physical", row.physical),)


def _withdrawal(_node: Node, row: NodeRow) -> tuple[float | None, Facts]:
    lost = [r for r in row.resources if r.allocatable < r.capacity]
    return None, (
        ("withdrawn", sum(r.capacity - r.allocatable for r in lost)),
        ("capacity", sum(r.capacity for r in lost)),
        ("resource", lost[0].name),
    )


def _overcommit(_node: Node, row: NodeRow) -> tuple[float | None, Facts]:
    over = [r for r in row.resources if r.overcommit]
    return None, (
        ("overcommit", sum(r.overcommit for r in over)),
        ("allocatable", sum(r.allocatable for r in over)),
        ("resource", over[0].name),
    )


def _taint(node: Node, _row: NodeRow) -> tuple[float | None, Facts]:
    taints = capacity.closing_taints(node)
    since = [at for taint in taints if (at := seconds(taint.time_added)) is not None]
    return min(since, default=None), (("taint", capacity.taint_text(taints[0])),)


def _cordon(_node: Node, row: NodeRow) -> tuple[float | None, Facts]:
    return row.cordoned_at, (("by", row.cordoned_by or None), ("free", sum(r.free for r in row.resources)))


_NODE_FACTS = {
    Concern.NODE_UNREACHABLE: _silence,
    Concern.NODE_NOT_READY: _silence,
    Concern.GPUS_MISSING: _missing,
    Concern.GPUS_WITHDRAWN: _withdrawal,
    Concern.OVER_COMMITTED: _overcommit,
    Concern.NODE_TAINTED: _taint,
    Concern.CORDONED: _cordon,
}


def _row(concern: Concern, subject: str, since_at: float | None, facts: Facts, node: str = "") -> AttentionRow:
    return AttentionRow(concern.value, LEVELS[concern], RANKS[concern], subject, node, since_at, facts)
