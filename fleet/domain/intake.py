"""One GPU when a reading is taken in: from what was remembered, what it measured and what its driver reported to its new health.

Owns the order in which evidence counts: first what a reboot or a reset ends, then what is measured, then what was reported since.
Must not know other GPUs, nor whether a reading is old.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from fleet.domain import rules, standing, windows, xid
from fleet.domain.findings import Docket
from fleet.domain.gpu_rows import UNUSED_PCT
from fleet.domain.gpus import Answer, DeviceState, Fault, Gpu, GpuAction
from fleet.domain.measures import MIB, counts_reserved, number
from fleet.domain.picture import FindingRow
from fleet.domain.rules import CANNOT_TELL, Hit, Look
from fleet.domain.verdicts import GpuHealth, Window, known, urgent

PASSING_FOR_S: Final = 600.0  # how long an event that leaves nothing behind is shown
SETTLED_S: Final = 60.0
UNOBSERVED_S: Final = 180.0  # an exporter is scraped once a minute
MOST_TEXT: Final = 300
# Memory in use by nobody that is known: a driver before R510 counts what it reserves for itself as used.
LEFT_OVER_BYTES: Final = 256 * MIB
LEFT_OVER_WITH_RESERVED_BYTES: Final = 1024 * MIB

MISSING, NOT_MEASURED, SILENT = "gpu-missing", "not-measured", "readings-silent"
GPU_RULES: Final[Mapping[str, str]] = {
    "gpu-lost": "NVIDIA, NVML code 15",
    "reset-required": "NVIDIA, NVML code 16",
    "no-permission": "NVIDIA, NVML code 4",
    "power-cable": "NVIDIA, NVML code 8: external power",
    "call-hung": "NVSentinel 1576: a driver call for this GPU did not return before the deadline",
    "no-answer": "gpu-operator 485: any other code; often the monitor's container, not the GPU",
    MISSING: "dcgm-exporter 348: a GPU that was there is no longer listed",
    NOT_MEASURED: "ours: the driver answers, but not with one number",
    SILENT: "ours: no reading for 60 s",
    standing.UPGRADE: "GPU operator: label nvidia.com/gpu-driver-upgrade-state",
    standing.MIG_CHANGE: "GPU operator: label nvidia.com/mig.config.state",
}
# What is said instead of measurements. One at a time, but what is known to be worse than unknown stays until the GPU answers.
PRESENCE: Final = frozenset((*GPU_RULES, *standing.STATUSES.values()))


class Visit(Struct, frozen=True, kw_only=True):
    """What holds for all GPUs of the reading."""

    at: float
    source: str
    boot_id: str
    rebooted: bool = False
    reloaded: bool = False  # another driver version than before
    same_source: bool = True
    planned: str = ""
    clock_s: float = 0.0  # to be added to the node's times
    links: int = 0  # most NVLinks that are active on any GPU of this node
    catalogue: xid.Catalogue = xid.NVIDIA


Reported = tuple[Fault, xid.Classed]


def examined(
    before: GpuHealth | None, gpu: Gpu, visit: Visit, reported: Sequence[Reported]
) -> tuple[GpuHealth, Docket]:
    """A GPU that the source listed."""
    docket = _docket(before, visit)
    if gpu.answer is not Answer.OK:
        rule = rules.ANSWERS[gpu.answer][0]
        return _without_measurements(before, gpu, rule, rules.answered(gpu), visit, docket, reported)
    if not _measured(gpu):
        hit = Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, "")
        return _without_measurements(before, gpu, NOT_MEASURED, hit, visit, docket, reported)
    if docket.open:
        docket.close("cleared", _about_presence)
    how = "reboot" if visit.rebooted else "cleared"
    if before is not None and docket.open:
        how = _close_by_reset(docket, before.gpu, gpu, visit) or how
    window = before.window if before is not None else Window()
    taken = windows.taken(window, gpu, visit.at)
    _measure(docket, Look(gpu, taken, taken.minute != window.minute, visit.links, _open(docket)), visit, how)
    _report(docket, gpu, visit, reported)
    return _health(before, gpu, docket, taken, read_at=visit.at), docket


def unread(
    before: GpuHealth, rule: str, hit: Hit, visit: Visit, reported: Sequence[Reported]
) -> tuple[GpuHealth, Docket]:
    """A known GPU that the source did not list, or could not."""
    docket = _docket(before, visit)
    _presence(docket, rule, hit, visit)
    _report(docket, before.gpu, visit, reported)
    return _health(before, before.gpu, docket, before.window, read_at=before.read_at, listed=False), docket


def only_reported(before: GpuHealth, visit: Visit, reported: Sequence[Reported]) -> tuple[GpuHealth, Docket]:
    """A known GPU of which another source measures more: what its driver reported counts, and nothing else."""
    docket = _docket(before, visit)
    docket.pending = before.pending
    _report(docket, before.gpu, visit, reported)
    return _health(before, before.gpu, docket, before.window, read_at=before.read_at, listed=False), docket


def finding(fault: Fault, classed: xid.Classed, visit: Visit, instance: str = "") -> FindingRow:
    """A fault as a finding, at its own time. A remap that only the log tells of is what a measured one is: a reset some time."""
    at = min(max(fault.at + visit.clock_s, 0.0), visit.at)
    state, action = classed.state, classed.action
    if classed.soft:
        state, action = DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU
    facts = (
        ("code", fault.code),
        ("subject", classed.subject),
        ("pid", fault.pid),
        ("caused_by", fault.caused_by),
        ("pci", fault.pci or None),
        ("repeated", fault.repeated),
    )
    return FindingRow(
        rule=classed.rule,
        source=fault.source,
        state=state,
        action=action,
        since_at=at,
        seen_at=at,
        evidence=fault.text[:MOST_TEXT],
        facts=tuple(fact for fact in facts if fact[1] is not None),
        instance=instance,
        soft=classed.soft,
    )


def reported_once(finding: FindingRow) -> bool:
    """Whether a driver reported it once, so that no measurement can show that it is over."""
    return finding.rule.startswith(("xid", "sxid", "off-bus", "api-mismatch"))


def passing(finding: FindingRow) -> bool:
    """Whether it leaves nothing behind: over as soon as said, shown for a while."""
    if not reported_once(finding) or finding.soft or finding.rule in xid.RECOVERY_RULES:
        return False
    return finding.state in {DeviceState.OK, DeviceState.APP_FAULT}


def _docket(before: GpuHealth | None, visit: Visit) -> Docket:
    if before is None:
        return Docket((), (), visit.at)
    docket = Docket(before.findings, before.pending, visit.at)
    if docket.open:
        if visit.rebooted:
            docket.close("reboot", lambda f: reported_once(f) or f.rule in xid.RECOVERY_RULES)
        docket.close("expired", lambda f: passing(f) and visit.at - f.seen_at >= PASSING_FOR_S)
    return docket


def _open(docket: Docket) -> frozenset[str]:
    return frozenset(rule for rule, _ in docket.open) if docket.open else frozenset()


def _measured(gpu: Gpu) -> bool:
    """A verdict of "ok" needs at least one number."""
    measures = (gpu.temperature_c, gpu.power_w, gpu.memory_used_bytes, gpu.utilization_pct, gpu.sm_clock_mhz)
    return any(number(measure) is not None for measure in measures)


def _measure(docket: Docket, look: Look, visit: Visit, how: str) -> None:
    """`how` ends what is well again."""
    for rule in rules.MEASURED:
        told = rule.check(look)
        if told is CANNOT_TELL:
            continue
        if told is not None:
            docket.saw(rule.token, visit.source, told, rule.lasting_s)
        elif docket.open:
            docket.clear(rule.token, how)


def _about_presence(finding: FindingRow) -> bool:
    return finding.rule in PRESENCE


def _presence(docket: Docket, rule: str, hit: Hit, visit: Visit) -> None:
    if visit.planned:
        rule, hit = visit.planned, Hit(DeviceState.UNKNOWN, GpuAction.NONE, "")
    worse = known(hit.state)
    docket.close("cleared", lambda f: f.rule in PRESENCE and f.rule != rule and (worse or not known(f.state)))
    before = docket.open.get((rule, ""))
    if worse or before is None or not known(before.state):
        docket.saw(rule, "kubernetes" if visit.planned else visit.source, hit)


def _without_measurements(
    before: GpuHealth | None,
    gpu: Gpu,
    rule: str,
    hit: Hit,
    visit: Visit,
    docket: Docket,
    reported: Sequence[Reported],
) -> tuple[GpuHealth, Docket]:
    _presence(docket, rule, hit, visit)
    last = gpu if before is None or before.read_at is None else before.gpu
    _report(docket, last, visit, reported)
    window = before.window if before is not None else Window()
    read_at = before.read_at if before is not None else None
    hung = (before.hung if before is not None else 0) + 1 if gpu.answer is Answer.HUNG else 0
    return _health(before, last, docket, window, read_at=read_at, hung=hung), docket


def _close_by_reset(docket: Docket, before: Gpu, gpu: Gpu, visit: Visit) -> str:
    """Returns "reset" when there was one, else ""."""
    reset = not visit.rebooted and (visit.reloaded or (visit.same_source and _was_reset(before, gpu)))
    if reset:
        docket.close("reset", lambda f: reported_once(f) and f.state != DeviceState.HARDWARE_SERVICE)
    if number(gpu.remap_pending) == 0:
        docket.close("cleared", lambda f: f.soft and reported_once(f) and visit.at - f.since_at >= SETTLED_S)
    if number(gpu.recovery_action) == 0 and (number(before.recovery_action) or 0) > 0:
        docket.clear("xid-154")
        docket.close("reset", lambda f: reported_once(f) and f.state == DeviceState.RESET_REQUIRED)
    return "reset" if reset else ""


def _was_reset(before: Gpu, gpu: Gpu) -> bool:
    """Counters since the driver was loaded began anew, or rows that waited for a reset were remapped."""
    counters = (
        (before.energy_j, gpu.energy_j),
        (before.ecc_corrected, gpu.ecc_corrected),
        (before.ecc_uncorrected, gpu.ecc_uncorrected),
    )
    return any(_restarted(*counter) for counter in counters) or remapped_by_reset(before, gpu)


def _restarted(before: object, after: object) -> bool:
    return isinstance(before, int | float) and isinstance(after, int | float) and after + 1 <= before


def remapped_by_reset(before: Gpu, gpu: Gpu) -> bool:
    pending = number(before.remap_pending), number(gpu.remap_pending)
    return pending[0] == 1 and pending[1] == 0 and before.remap_uncorrected == gpu.remap_uncorrected


def _report(docket: Docket, gpu: Gpu, visit: Visit, reported: Sequence[Reported]) -> None:
    for fault, classed in reported:
        for rule in classed.clears:
            docket.clear(rule)
        if classed.clears:
            continue
        instance = _instance(fault, gpu) if classed.scope is xid.Scope.INSTANCE else ""
        row = finding(fault, classed, visit, instance)
        if not passing(row) or visit.at - row.seen_at < PASSING_FOR_S:
            docket.put(row)


def _instance(fault: Fault, gpu: Gpu) -> str:
    """UUID of the instance that a fault names; its numbers where the driver lists no such instance."""
    for instance in gpu.instances:
        if instance.gi == fault.gi and (fault.ci is None or instance.ci in {None, fault.ci}):
            return instance.uuid
    return f"gi{fault.gi}" if fault.ci is None else f"gi{fault.gi}/ci{fault.ci}"


def _health(
    before: GpuHealth | None,
    gpu: Gpu,
    docket: Docket,
    window: Window,
    *,
    read_at: float | None,
    listed: bool = True,
    hung: int = 0,
) -> GpuHealth:
    findings = docket.findings()
    ours = [f for f in findings if not f.instance] if findings else findings
    state, soft, planned, action = DeviceState.OK.value, False, False, GpuAction.NONE.value
    if ours:
        state, soft, planned = ours[0].state, ours[0].soft, ours[0].rule in standing.PLANNED
        action = urgent(ours)
    fresh = read_at == docket.at
    same = before is not None and (before.state, before.soft, before.planned) == (state, soft, planned)
    return GpuHealth(
        gpu=gpu,
        read_at=read_at,
        seen_at=docket.at if listed or before is None else before.seen_at,
        state=state,
        action=action,
        soft=soft,
        planned=planned,
        since_at=before.since_at if before is not None and same else docket.at,
        findings=findings,
        pending=docket.pending,
        window=window,
        unused_since_at=_unused_since(before, gpu, docket.at) if fresh else None,
        stranger_since_at=_stranger_since(before, gpu, docket.at) if fresh else None,
        hung=hung,
    )


def _unused_since(before: GpuHealth | None, gpu: Gpu, at: float) -> float | None:
    """A new holder has its ten minutes from the beginning, and what was not measured in between is not known to be idle."""
    load = number(gpu.utilization_pct)
    if load is None or load >= UNUSED_PCT or _held(gpu) is False:
        return None
    if before is None or before.unused_since_at is None or before.gpu.assigned != gpu.assigned:
        return at
    return at if _unobserved(before, at) else before.unused_since_at


def _stranger_since(before: GpuHealth | None, gpu: Gpu, at: float) -> float | None:
    if _held(gpu) is not False or not used_by_stranger(gpu):
        return None
    if before is None or before.stranger_since_at is None or _unobserved(before, at):
        return at
    return before.stranger_since_at


def _unobserved(before: GpuHealth, at: float) -> bool:
    """Whether nobody has looked for so long that what lasts has to be seen anew."""
    return before.read_at is None or at - before.read_at > UNOBSERVED_S


def _held(gpu: Gpu) -> bool | None:
    """Whether a pod holds it or an instance of it, as the kubelet says; None: nobody knows."""
    if gpu.assigned:
        return True
    return None if gpu.assigned is None else any(instance.assigned for instance in gpu.instances)


def used_by_stranger(gpu: Gpu) -> bool:
    """A process in no pod, or where processes are not known, more memory in use than a driver needs for itself."""
    if gpu.processes is not None:
        return any(process.holder is None for process in gpu.processes)
    used = number(gpu.memory_used_bytes)
    return used is not None and used > (LEFT_OVER_WITH_RESERVED_BYTES if counts_reserved(gpu) else LEFT_OVER_BYTES)
