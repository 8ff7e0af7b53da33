"""GPUs as rows of the picture, and what a map shows of them.

Owns rounding, the choice of a cell, and how many slots failed GPUs leave. Must not judge: it shows what `health` remembers.
"""

from functools import lru_cache
from typing import Final

from fleet.domain import rules, windows
from fleet.domain.gpus import DeviceState, Gpu, Holder, Instance, Measure
from fleet.domain.measures import mib, number, whole
from fleet.domain.picture import GpuRow, InstanceRow
from fleet.domain.verdicts import SOFT_RESET, GpuHealth, severity, usable

UNUSED_PCT: Final = 3
UNUSED_FOR_S: Final = 600.0

_DEGRADED: Final = severity(DeviceState.DEGRADED)


def row(node: str, key: str, health: GpuHealth) -> GpuRow:
    gpu, findings = health.gpu, health.findings
    return GpuRow(
        node=node,
        index=gpu.index,
        uuid="" if key.startswith(node + "/") else key,
        pci=gpu.pci,
        name=gpu.name,
        serial=gpu.serial,
        state=health.state,
        action=health.action,
        reason=findings[0].rule if findings and not findings[0].instance else "",
        level=level(health.state, health.soft),
        soft=health.soft,
        since_at=health.since_at,
        read_at=health.read_at,
        findings=findings,
        utilization_pct=whole(gpu.utilization_pct),
        memory_used_mib=mib(gpu.memory_used_bytes),
        memory_total_mib=mib(gpu.memory_total_bytes),
        memory_reserved_mib=mib(gpu.memory_reserved_bytes),
        temperature_c=whole(gpu.temperature_c),
        memory_temperature_c=whole(gpu.memory_temperature_c),
        power_w=whole(gpu.power_w),
        power_limit_w=whole(gpu.power_limit_w),
        sm_clock_mhz=whole(gpu.sm_clock_mhz),
        clock_reasons=_reasons(gpu.clock_reasons),
        ecc_corrected=gpu.ecc_corrected,
        ecc_uncorrected=gpu.ecc_uncorrected,
        remap=rules.remapped(gpu),
        nvlinks=(gpu.nvlinks_active, gpu.nvlinks),
        pcie=(gpu.pcie_generation, gpu.pcie_width),
        pods=None if gpu.assigned is None else _pods(gpu.assigned),
        users=None if gpu.processes is None else len(gpu.processes),
        strangers=sum(process.holder is None for process in gpu.processes or ()),
        idle_since_at=idle_since(health),
        instances=tuple(_instance(instance, gpu, health) for instance in gpu.instances),
    )


def idle_since(health: GpuHealth) -> float | None:
    """Since when it has been under 3 %, once that has lasted for ten minutes of readings."""
    since_at, read_at = health.unused_since_at, health.read_at
    return since_at if since_at is not None and read_at is not None and read_at - since_at >= UNUSED_FOR_S else None


def cell(row: GpuRow, allocated: bool) -> str:
    """The letter of `picture.CELL_STATES` for one slot of this GPU; a node's own state (draining, cordoned) goes over it."""
    worst = severity(row.state, row.soft)
    if worst > SOFT_RESET:
        return "u" if row.state == DeviceState.UNKNOWN else "x"
    if worst >= _DEGRADED:
        return "d"
    if not allocated:
        return "f"
    return "i" if row.idle_since_at is not None else fifths(row.utilization_pct)


def fifths(utilization_pct: Measure) -> str:
    """Utilisation as the digit of a busy cell, to the nearest fifth; "b" when it is not measured."""
    pct = number(utilization_pct)
    return "b" if pct is None else str(int(min(max(pct, 0), 100) / 20 + 0.5))


def level(state: str, soft: bool) -> str:
    worst = severity(state, soft)
    if state == DeviceState.UNKNOWN:
        return "off"
    return "bad" if worst > SOFT_RESET else "warn" if worst >= _DEGRADED else ""


def usable_slots(capacity: int, allocatable: int, failed: int, replicas: int = 1) -> int:
    """Slots that work can use: a failed GPU takes all slots that stand for it.

    The plugin withdraws what it has noticed by itself (one slot of a shared GPU, at times), so the two are not added up.
    """
    return max(0, min(allocatable, capacity - failed * replicas))


@lru_cache(maxsize=1024)
def _tokens(mask: int) -> tuple[str, ...]:
    return windows.reasons(mask)


def _reasons(mask: Measure) -> tuple[str, ...]:
    n = number(mask)
    return () if n is None or n <= 0 else _tokens(int(n))


def _pods(holders: tuple[Holder, ...]) -> tuple[str, ...]:
    """Keys of pods, each once: several containers of one pod may hold the same GPU. A process may know its pod's UID alone."""
    if not holders:
        return ()
    return tuple(dict.fromkeys(f"{holder.namespace}/{holder.pod}" for holder in holders if holder.pod))


def _instance(instance: Instance, gpu: Gpu, health: GpuHealth) -> InstanceRow:
    """Its state is its own findings', unless the GPU as a whole cannot be used."""
    own = [finding for finding in health.findings if finding.instance == instance.uuid]
    worst = max((finding.state for finding in own), key=severity, default=DeviceState.OK)
    users = [p.holder for p in gpu.processes or () if p.instance == instance.uuid and p.holder is not None]
    return InstanceRow(
        uuid=instance.uuid,
        profile=instance.profile,
        state=worst if usable(health.state, health.soft) else health.state,
        memory_total_mib=mib(instance.memory_total_bytes),
        memory_used_mib=mib(instance.memory_used_bytes),
        pods=_pods((*instance.assigned, *users)),
    )
