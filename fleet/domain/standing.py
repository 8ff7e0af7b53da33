"""A GPU node as a whole: what its driver says, what somebody has announced, and whether all its GPUs are there.

Owns the rules about a node, and the words of the GPU operator for planned work. Must not judge a GPU.
"""

from collections.abc import Mapping
from typing import Final

from fleet.domain.findings import Docket
from fleet.domain.gpu_rows import idle_since
from fleet.domain.gpus import DeviceState, DriverStatus, GpuAction, Reading
from fleet.domain.rules import LASTING_S, Hit
from fleet.domain.verdicts import Facts, NodeContext, NodeHealth, NodeStanding

HUNG_ROUNDS: Final = 3
VALIDATION_S: Final = 600.0
MIG_CHANGE_S: Final = 1800.0
UPGRADE_STANDS_S: Final = 3 * 86_400.0  # one step of an upgrade, or waiting for it: longer than a long job's weekend
SKEW_S: Final = 2.0
STRANGER_FOR_S: Final = 60.0  # a process may outlive its pod by a moment
LEAST_DELAYS: Final = 3  # readings before the smallest delay says something about a clock

UPGRADE, MIG_CHANGE = "driver-upgrade", "mig-change"
PLANNED: Final = frozenset((UPGRADE, MIG_CHANGE))
# NVIDIA's upgrade controller between its first step on a node and its last. A node that only waits for its turn is at work.
UPGRADE_WAITS: Final = "upgrade-required"
UPGRADING: Final = frozenset(
    (
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "node-maintenance-required",
        "post-maintenance-required",
        "pod-restart-required",
        "validation-required",
        "uncordon-required",
    )
)
UPGRADE_FAILED: Final = "upgrade-failed"
RECONFIGURING: Final = frozenset(("pending", "rebooting"))

STATUSES: Final[Mapping[str, str]] = {
    DriverStatus.NO_LIBRARY: "library-missing",
    DriverStatus.NO_DRIVER: "driver-missing",
    DriverStatus.MISMATCH: "driver-mismatch",
    DriverStatus.NO_PERMISSION: "no-permission",
    DriverStatus.HUNG: "driver-hung",
    DriverStatus.ERROR: "driver-error",
}
NODE_RULES: Final[Mapping[str, str]] = {
    "library-missing": "NVIDIA, NVML: the loader finds no library; a fault of the agent's image or runtime",
    "driver-missing": "NVIDIA, NVML code 9 on a node that Kubernetes knows as a GPU node",
    "driver-mismatch": "NVIDIA, NVML code 18: restart the agent, or the node",
    "no-permission": "NVIDIA, NVML code 4",
    "driver-hung": "NVSentinel 1576, 1748: three rounds in a row in which a driver call did not return",
    "driver-error": "NVIDIA, NVML: any other code",
    "upgrade-failed": "GPU operator: label upgrade-failed",
    "upgrade-stuck": "GPU operator: validation takes longer than its 600 s; gpu-operator 2509: any other step stands for days",
    "mig-change-failed": "GPU operator: label mig.config.state=failed",
    "mig-change-stuck": "gpu-operator 2833; ours: 30 minutes",
    "gpu-count-mismatch": "ours: driver, labels and capacity count different numbers of GPUs",
    "readings-silent": "ours: no reading for 60 s",
    "clock-skew": "ours: the clocks of the node and of Vigie differ by more than 2 s",
    "kernel-log-lost": "ours: lines of the kernel log, or faults in it, were gone before they were taken in",
    "kernel-log-unread": "ours: the kernel log cannot be read, so that nothing was reported means nothing",
}
LASTING: Final[Mapping[str, float]] = {"gpu-count-mismatch": LASTING_S, "clock-skew": LASTING_S}


def announced(context: NodeContext) -> str:
    """What Kubernetes says is being done to the node's GPUs, in its words; "" nothing."""
    if context.upgrade_state in UPGRADING or context.upgrade_state == UPGRADE_FAILED:
        return context.upgrade_state
    if context.mig_state in RECONFIGURING or context.mig_state == "failed":
        return f"mig-{context.mig_state}"
    if context.deploy_paused.startswith("paused-for-"):
        return context.deploy_paused
    return context.upgrade_state if context.upgrade_state == UPGRADE_WAITS else ""


def work(context: NodeContext, past: NodeHealth, now: float) -> tuple[str, float]:
    """(announced, since when): by Kubernetes if it says so, else since we have seen it."""
    what = announced(context)
    if what and what == context.upgrade_state and context.upgrade_since_at is not None:
        return what, context.upgrade_since_at
    return past.work if past.work[0] == what else (what, now)


def planned(what: str, since_at: float, now: float) -> tuple[str, str]:
    """(planned work, rule of what went wrong with it); work that failed or takes too long is planned no longer."""
    if what == UPGRADE_FAILED:
        return "", "upgrade-failed"
    if what == "mig-failed":
        return "", "mig-change-failed"
    if what == "validation-required" and now - since_at > VALIDATION_S:
        return "", "upgrade-stuck"
    if what.startswith("mig-"):
        return ("", "mig-change-stuck") if now - since_at > MIG_CHANGE_S else (MIG_CHANGE, "")
    if what in UPGRADING or what == UPGRADE_WAITS:
        stuck = now - since_at > UPGRADE_STANDS_S
        return "" if stuck or what == UPGRADE_WAITS else UPGRADE, "upgrade-stuck" if stuck else ""
    return (MIG_CHANGE if what == "paused-for-mig-change" else UPGRADE, "") if what else ("", "")


def trouble_with_work(docket: Docket, trouble: str, what: str) -> None:
    for rule in ("upgrade-failed", "upgrade-stuck", "mig-change-failed", "mig-change-stuck"):
        if rule == trouble:
            docket.saw(rule, "kubernetes", Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, what))
        else:
            docket.clear(rule)


def judge(docket: Docket, health: NodeHealth, reading: Reading, context: NodeContext) -> None:
    """The rules about the node that a reading can answer. `health` is what is known with it."""
    hits = {rule: None for rule in STATUSES.values() if rule != "driver-hung"} | {
        "driver-hung": _hung(health),
        "clock-skew": _skew(health),
        "kernel-log-lost": _lost_lines(health),
        "kernel-log-unread": _unread_log(health),
        "readings-silent": None,
    }
    if health.status not in {DriverStatus.OK, DriverStatus.HUNG} and not health.planned:
        hits[STATUSES[health.status]] = Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, reading.error or health.status)
    elif _all_forbidden(reading):
        hits["no-permission"] = Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, f"all of {len(reading.gpus)} GPUs")
    if health.status == DriverStatus.OK and not health.planned:
        hits["gpu-count-mismatch"] = _miscounted(health, context)
    for rule, hit in hits.items():
        if hit is None:
            docket.clear(rule)
        else:
            docket.saw(rule, reading.source, hit, LASTING.get(rule, 0.0))


def standing(health: NodeHealth, context: NodeContext) -> NodeStanding:
    ours = context.gpu_labelled or bool(health.gpus)
    gpus = health.gpus.values()
    return NodeStanding(
        gpu_node=ours,
        measured=ours and health.read_at > 0,
        source=health.source,
        read_at=health.read_at or None,
        silent_since_at=health.silent_since_at,
        planned=health.planned,
        planned_since_at=health.planned_since_at,
        driver_status=health.status,
        driver=health.driver,
        cuda=health.cuda,
        count=health.count,
        known=len(health.gpus),
        unheld_use=sum(
            gpu.stranger_since_at is not None and gpu.seen_at - gpu.stranger_since_at >= STRANGER_FOR_S for gpu in gpus
        ),
        idle_held=sum(bool(gpu.gpu.assigned) and idle_since(gpu) is not None for gpu in gpus),
        clock_offset_s=min(health.delays, default=None),
        findings=health.findings if ours else (),
    )


def _hung(health: NodeHealth) -> Hit | None:
    rounds = max((gpu.hung for gpu in health.gpus.values()), default=0)
    rounds = max(rounds, health.hung)
    if rounds < HUNG_ROUNDS:
        return None
    indices = ", ".join(str(gpu.gpu.index) for gpu in health.gpus.values() if gpu.hung >= HUNG_ROUNDS)
    return Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, f"{rounds} rounds", (("gpus", indices or None),))


def _skew(health: NodeHealth) -> Hit | None:
    offset_s = min(health.delays, default=0.0)
    if abs(offset_s) <= SKEW_S or len(health.delays) < LEAST_DELAYS:
        return None
    return Hit(DeviceState.OK, GpuAction.MONITOR, f"{offset_s:+.1f} s", (("offset_s", round(offset_s, 1)),))


def _lost_lines(health: NodeHealth) -> Hit | None:
    lines = health.lost_lines
    return Hit(DeviceState.OK, GpuAction.MONITOR, f"{lines} lines", (("lines", lines),)) if lines > 0 else None


def _unread_log(health: NodeHealth) -> Hit | None:
    return Hit(DeviceState.OK, GpuAction.MONITOR, health.log_error) if health.log_error else None


def _all_forbidden(reading: Reading) -> bool:
    return bool(reading.gpus) and all(gpu.answer == "no-permission" for gpu in reading.gpus)


def _miscounted(health: NodeHealth, context: NodeContext) -> Hit | None:
    """Slots count as GPUs only where they stand for whole ones or shares of them."""
    slots = None if context.capacity is None else context.capacity // max(1, context.replicas)
    facts: Facts = (
        ("driver", health.count),
        ("labels", context.physical),
        ("slots", slots),
        ("known", len(health.gpus) or None),
    )
    told = {value for _, value in facts if value is not None}
    if len(told) <= 1 or health.count is None:
        return None
    evidence = ", ".join(f"{name} {value}" for name, value in facts if value is not None)
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, evidence, facts)
