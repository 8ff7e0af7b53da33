"""What needs a person about the GPUs of one node: one entry per concern, however many GPUs it is about.

Owns which verdicts and findings become which concern, and their facts. Must not write sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleet.domain.attention import LEVELS, RANKS, Concern, Facts, of_concern
from fleet.domain.gpus import DeviceState
from fleet.domain.picture import AttentionRow, FindingRow, GpuRow, NodeRow
from fleet.domain.verdicts import URGENCY, NodeStanding, severity, usable

STATES: Final[Mapping[str, Concern]] = {
    DeviceState.LOST: Concern.GPU_LOST,
    DeviceState.REBOOT_REQUIRED: Concern.GPU_REBOOT_REQUIRED,
    DeviceState.HARDWARE_SERVICE: Concern.GPU_HARDWARE_SERVICE,
    DeviceState.RESET_REQUIRED: Concern.GPU_RESET_REQUIRED,
    DeviceState.DEGRADED: Concern.GPU_DEGRADED,
}
RULES: Final[Mapping[str, Concern]] = {
    "driver-hung": Concern.DRIVER_HUNG,
    "driver-mismatch": Concern.DRIVER_MISMATCH,
    "driver-missing": Concern.DRIVER_MISSING,
    "library-missing": Concern.DRIVER_MISSING,
    "no-permission": Concern.DRIVER_MISSING,
    "driver-error": Concern.DRIVER_MISSING,
    "readings-silent": Concern.READINGS_SILENT,
    "upgrade-failed": Concern.GPU_WORK_STUCK,
    "upgrade-stuck": Concern.GPU_WORK_STUCK,
    "mig-change-failed": Concern.GPU_WORK_STUCK,
    "mig-change-stuck": Concern.GPU_WORK_STUCK,
    "gpu-count-mismatch": Concern.GPU_COUNT_MISMATCH,
    "clock-skew": Concern.CLOCK_SKEW,
    "kernel-log-lost": Concern.KERNEL_LOG_LOST,
    "kernel-log-unread": Concern.KERNEL_LOG_UNREAD,
}
EXPLAINING: Final = frozenset(
    (
        Concern.DRIVER_HUNG,
        Concern.DRIVER_MISMATCH,
        Concern.DRIVER_MISSING,
        Concern.READINGS_SILENT,
        Concern.GPU_WORK_STUCK,
    )
)

Told = tuple[Concern, float | None, Facts]


def concerns(row: NodeRow, standing: NodeStanding, gpus: Sequence[GpuRow]) -> list[Told]:
    """(concern, since when, facts), most urgent first. `gpus` in the order of their indices.

    Facts: count, indices ("0, 3"), rule, action, evidence, state (of the GPU that decides); of a node as a whole rule, action,
    evidence and what the rule says; of use: count, indices.
    """
    return sorted(_concerns(row, standing, gpus), key=lambda told: RANKS[told[0]])


def of_gpus(row: NodeRow, told: Sequence[Told]) -> list[AttentionRow]:
    return [of_concern(concern, row, since_at, facts) for concern, since_at, facts in told]


def reasons(row: NodeRow, told: Sequence[Told], gpus: Sequence[GpuRow], *, planned: bool) -> tuple[str, ...]:
    """The node's reasons with those of its GPUs. Slots that a plugin has withdrawn, also from under pods, are no news
    where verdicts say why, or somebody has announced it."""
    failed = sum(not usable(gpu.state, gpu.soft) and gpu.state != DeviceState.UNKNOWN for gpu in gpus)
    withdrawn = sum(max(0, r.capacity - r.allocatable) for r in row.resources)
    explained: set[str] = set()
    if planned:
        explained = {Concern.GPUS_MISSING, Concern.GPUS_WITHDRAWN}
    elif withdrawn <= failed:
        explained = {Concern.GPUS_WITHDRAWN}
    if sum(r.overcommit for r in row.resources) <= failed:
        explained |= {Concern.OVER_COMMITTED}
    known = {*row.reasons, *(concern.value for concern, _, _ in told)} - explained
    return tuple(sorted(known, key=lambda reason: RANKS[Concern(reason)]))


def level(row: NodeRow, standing: NodeStanding, told: Sequence[Told], gpus: Sequence[GpuRow]) -> str:
    """The worst GPU decides where Kubernetes knows nothing worse: a node that is not Ready says nothing about its GPUs."""
    if row.ready != "True" or (row.level == "bad" and not standing.planned):
        return row.level
    levels = {gpu.level for gpu in gpus} | {LEVELS[concern] for concern, _, _ in told}
    if "bad" in levels:
        return "bad"
    if standing.planned:
        return "drain"
    if row.level or "off" in levels:
        return row.level or "off"
    return "warn" if "warn" in levels else ""


def _concerns(row: NodeRow, standing: NodeStanding, gpus: Sequence[GpuRow]) -> Iterator[Told]:
    by_concern: dict[Concern, list[GpuRow]] = {}
    for gpu in gpus:
        concern = Concern.GPU_DEGRADED if gpu.soft else STATES.get(gpu.state)
        if concern is not None:
            by_concern.setdefault(concern, []).append(gpu)
    unknown = [gpu for gpu in gpus if gpu.state == DeviceState.UNKNOWN]
    of_node = list(_of_node(standing)) if row.ready == "True" else []  # a node that is gone takes its agent with it
    explained = standing.planned or any(concern in EXPLAINING for concern, _, _ in of_node)
    if unknown and row.ready == "True" and not explained:
        by_concern[Concern.GPU_UNKNOWN] = unknown
    for concern, found in by_concern.items():
        yield concern, min((g.since_at for g in found if g.since_at is not None), default=None), _verdict(found)
    yield from of_node
    if row.ready == "True":
        yield from _unlisted(standing)
    if standing.unheld_use:
        strange = [gpu for gpu in gpus if gpu.strangers and not gpu.pods]
        yield Concern.GPU_UNHELD_USE, None, _counted(standing.unheld_use, strange)
    if standing.idle_held:
        idle = [gpu for gpu in gpus if gpu.pods and gpu.idle_since_at is not None]
        since_at = min((gpu.idle_since_at for gpu in idle if gpu.idle_since_at is not None), default=None)
        yield Concern.GPU_IDLE_HELD, since_at, _counted(standing.idle_held, idle)


def _of_node(standing: NodeStanding) -> Iterator[Told]:
    """One per concern: several rules may lead to the same, and the first one decides."""
    seen: set[Concern] = set()
    for finding in standing.findings:
        concern = RULES.get(finding.rule)
        if concern is None or concern in seen:
            continue
        seen.add(concern)
        since_at = standing.silent_since_at if concern is Concern.READINGS_SILENT else finding.since_at
        yield concern, since_at, _about(finding)
    if standing.silent_since_at is not None and not standing.planned and Concern.READINGS_SILENT not in seen:
        yield Concern.READINGS_SILENT, standing.silent_since_at, (("rule", "readings-silent"),)


def _unlisted(standing: NodeStanding) -> Iterator[Told]:
    """What a driver reported of a GPU that no reading has listed, by its PCI address as far as the line has one."""
    found = [f for f in standing.findings if f.rule not in RULES and _down(f)]
    if not found:
        return
    worst = max(found, key=lambda finding: severity(finding.state, finding.soft))
    addresses = sorted({finding.instance or "?" for finding in found})
    facts: Facts = (
        ("count", len(addresses)),
        ("indices", ", ".join(addresses)),
        ("rule", worst.rule),
        ("action", worst.action),
        ("state", worst.state),
        ("evidence", worst.evidence or None),
    )
    yield Concern.GPU_UNLISTED, min(finding.since_at for finding in found), facts


def _down(finding: FindingRow) -> bool:
    return finding.state != DeviceState.UNKNOWN and not usable(finding.state, finding.soft)


def _verdict(gpus: Sequence[GpuRow]) -> Facts:
    """Of the one that asks for the most."""
    worst = max(gpus, key=lambda gpu: URGENCY[gpu.action])
    finding = next((f for f in worst.findings if f.rule == worst.reason), None)
    facts: Facts = (
        ("rule", worst.reason or None),
        ("action", worst.action),
        ("state", worst.state),
        ("evidence", finding.evidence if finding else None),
    )
    return _counted(len(gpus), gpus) + facts


def _about(finding: FindingRow) -> Facts:
    facts: Facts = (("rule", finding.rule), ("action", finding.action), ("evidence", finding.evidence or None))
    known = {name for name, _ in facts} | {"pods", "gpus"}
    return facts + tuple((name, fact) for name, fact in finding.facts if name not in known)


def _counted(count: int, gpus: Sequence[GpuRow]) -> Facts:
    return ("count", count), ("indices", ", ".join(str(gpu.index) for gpu in gpus))
