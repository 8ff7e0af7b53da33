"""What a reading means: findings, verdicts, and the transitions between them.

Owns the assessment of one node's reading against what is remembered of it, and the list of all rules. Pure: `now` is given. A
reading that is older than one already taken in, or the same again, changes nothing.

How a finding ends: a fault that a driver reported once ends with a reboot (another boot id), a reset (counters that restarted,
a pending remap that is gone) or a replacement (another UUID in its place); what Xid 154 and field 230 ask for ends when they ask
for nothing; a passing event after ten minutes; a measured condition when its measurement is well again. Unknown ends nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from fleet.domain import gpu_rows, identities, intake, rules, standing, xid
from fleet.domain.findings import Docket
from fleet.domain.gpus import DeviceState, DriverStatus, Fault, FaultKind, Gpu, GpuAction, Reading
from fleet.domain.intake import Reported, Visit
from fleet.domain.measures import most
from fleet.domain.picture import GpuRow
from fleet.domain.rules import Hit
from fleet.domain.transitions import left_fleet, transitions
from fleet.domain.verdicts import (
    NOT_OWNED,
    Assessed,
    GpuHealth,
    Heard,
    NodeContext,
    NodeHealth,
    NodeStanding,
    Transition,
)

__all__ = [
    "NOT_OWNED",
    "RULES",
    "Assessed",
    "GpuHealth",
    "NodeContext",
    "NodeHealth",
    "NodeStanding",
    "Transition",
    "as_before",
    "assess",
    "silent",
]

SILENT_AFTER_S: Final = 60.0
MISSING_S: Final = 60.0  # an exporter's series vanish for a scrape; a driver that does not list a GPU means it
GONE_AFTER_S: Final = 7 * 86400.0  # a GPU that nobody has listed for so long is no longer ours
MOST_GPUS: Final = 64  # remembered per node beside those that are listed
MOST_AGENTS: Final = 4
MOST_DELAYS: Final = 12
MOST_LOST: Final = 1_000_000  # lines that one reading can add

# Every token that a finding's `rule` may have, and where the rule comes from. "xid-79", "sxid-20034" and their kin are `xid`'s.
RULES: Final[Mapping[str, str]] = {
    **{rule.token: rule.source for rule in rules.MEASURED},
    **intake.GPU_RULES,
    **standing.NODE_RULES,
}


def assess(
    past: NodeHealth | None, reading: Reading, context: NodeContext, now: float, catalogue: xid.Catalogue = xid.NVIDIA
) -> Assessed:
    """Take one reading in. `now` is Vigie's clock, and so are the times of what comes back."""
    past = past or NodeHealth(node=reading.node)
    if _older(past, reading):
        return as_before(past, context)
    if _beside_better(past, reading, now):
        return _reports_only(past, reading, context, now, catalogue)
    heard, visit = _heard(past, reading, context, now, catalogue)
    found = identities.identified(past, reading)
    reported, nobodys = _reported(past, found.gpus, reading, visit)
    gpus: dict[str, GpuHealth] = {}
    news: list[Transition] = []
    for key, gpu in found.gpus.items():
        before = past.gpus.get(key)
        known_as = before or next((past.gpus[old] for old, new in found.named.items() if new == key), None)
        gpus[key], docket = intake.examined(known_as, gpu, visit, reported.get(key, ()))
        news += transitions(reading.node, key, reading.boot_id, before, gpus[key], docket)
    for key, gone in past.gpus.items():
        if key in gpus:
            continue
        if how := _left(key, gone, found, reading, visit):
            news += left_fleet(reading.node, key, reading.boot_id, gone, visit.at, how)
            continue
        gpus[key], docket = intake.unread(gone, *_absence(gone, reading, visit), visit, reported.get(key, ()))
        news += transitions(reading.node, key, reading.boot_id, gone, gpus[key], docket)
    for key in sorted(gpus.keys() - found.gpus.keys(), key=lambda key: gpus[key].seen_at)[:-MOST_GPUS]:
        news += left_fleet(reading.node, key, reading.boot_id, gpus.pop(key), visit.at, "removed")
    health = _concluded(replace(heard, gpus=gpus), past, reading, context, visit, nobodys)
    return Assessed(health, tuple(news), _rows(health), standing.standing(health, context))


def silent(past: NodeHealth, context: NodeContext, now: float) -> Assessed:
    """What is true while no reading comes: nothing changes for 60 s, then all GPUs are unknown; evidence keeps its age."""
    now = max(now, past.told_at)
    work = standing.work(context, past, now)
    planned, trouble = standing.planned(*work, now)
    known = past.silent_since_at is not None and (work, planned) == (past.work, past.planned)
    if known or not past.read_at or now - past.read_at < SILENT_AFTER_S:
        return as_before(past, context)
    visit = Visit(at=now, source=past.source, boot_id=past.boot_id, planned=planned)
    hit = Hit(DeviceState.UNKNOWN, GpuAction.NONE, "no reading")
    gpus: dict[str, GpuHealth] = {}
    news: list[Transition] = []
    for key, before in past.gpus.items():
        gpus[key], docket = intake.unread(before, intake.SILENT, hit, visit, ())
        news += transitions(past.node, key, past.boot_id, before, gpus[key], docket)
    docket = Docket(past.findings, past.pending, now)
    standing.trouble_with_work(docket, trouble, work[0])
    docket.pending = past.pending
    if planned:
        docket.clear(intake.SILENT)
    else:
        docket.saw(intake.SILENT, past.source, hit)
    health = replace(
        past,
        gpus=gpus,
        findings=docket.findings(),
        silent_since_at=past.read_at,
        told_at=now,
        work=work,
        planned=planned,
        planned_since_at=_since(past, planned, now),
    )
    return Assessed(health, tuple(news), _rows(health), standing.standing(health, context))


def as_before(past: NodeHealth, context: NodeContext) -> Assessed:
    """Nothing is new: what is remembered, as rows. Also what a process that has just started shows at first."""
    return Assessed(past, (), _rows(past), standing.standing(past, context))


def _rows(health: NodeHealth) -> dict[str, GpuRow]:
    return {key: gpu_rows.row(health.node, key, gpu) for key, gpu in health.gpus.items()}


def _older(past: NodeHealth, reading: Reading) -> bool:
    """Of an agent that another one has followed, or not after the last one of its own agent."""
    of_source = [heard for heard in past.heard if heard.source == reading.source]
    for place, heard in enumerate(of_source):
        if heard.agent == reading.agent:
            return place + 1 < len(of_source) or reading.sequence <= heard.sequence
    return False


def _heard(
    past: NodeHealth, reading: Reading, context: NodeContext, now: float, catalogue: xid.Catalogue
) -> tuple[NodeHealth, Visit]:
    """What is known of the node once the reading has come, without its GPUs, and what holds for all of them."""
    now = max(now, past.told_at)
    earlier = past.delays if past.source == reading.source else ()  # each source has a clock of its own
    delays = (*earlier[1 - MOST_DELAYS :], now - reading.sent_at)
    offset_s = min(delays)
    # A reading that waited in the buffer is as old as it is; one from before the last (a clock was set back) is from now.
    at = reading.sent_at + offset_s
    at = at if past.told_at <= at <= now else now
    rebooted = bool(past.boot_id) and past.boot_id != reading.boot_id
    work = standing.work(context, past, at)
    planned, _ = standing.planned(*work, at)
    health = NodeHealth(
        node=past.node,
        boot_id=reading.boot_id,
        source=reading.source,
        heard=_heard_of(past, reading, at),
        read_at=at,
        told_at=at,
        delays=delays,
        status=reading.status,
        error=reading.error,
        driver=reading.driver or past.driver,
        cuda=reading.cuda or past.cuda,
        count=reading.count,
        findings=past.findings,
        pending=past.pending,
        log_sequence=_last_line(reading, -1 if rebooted else past.log_sequence),
        lost_lines=_lost(reading) + (0 if rebooted else past.lost_lines),
        log_error=reading.log_error,
        hung=past.hung + 1 if reading.status == DriverStatus.HUNG else 0,
        work=work,
        planned=planned,
        planned_since_at=_since(past, planned, at),
    )
    visit = Visit(
        at=at,
        source=reading.source,
        boot_id=reading.boot_id,
        rebooted=rebooted,
        reloaded=bool(past.driver and reading.driver) and past.driver != reading.driver,
        same_source=past.source == reading.source,
        planned=planned,
        clock_s=offset_s if abs(offset_s) > standing.SKEW_S else 0.0,
        links=int(most(gpu.nvlinks_active for gpu in reading.gpus) or 0),
        catalogue=catalogue,
    )
    return health, visit


def _heard_of(past: NodeHealth, reading: Reading, at: float) -> tuple[Heard, ...]:
    others = [heard for heard in past.heard if (heard.source, heard.agent) != (reading.source, reading.agent)]
    return (*others[1 - MOST_AGENTS :], Heard(reading.source, reading.agent, reading.sequence, at))


def _beside_better(past: NodeHealth, reading: Reading, now: float) -> bool:
    """An exporter says less than the agent, so it counts in full only when the agent is silent."""
    return reading.source == "dcgm" and past.source == "nvml" and now - past.read_at < SILENT_AFTER_S


def _reports_only(
    past: NodeHealth, reading: Reading, context: NodeContext, now: float, catalogue: xid.Catalogue
) -> Assessed:
    at = max(now, past.told_at)
    visit = Visit(at=at, source=reading.source, boot_id=past.boot_id, planned=past.planned, catalogue=catalogue)
    listed = identities.identified(past, reading).gpus
    reported, _ = _reported(past, {key: gpu for key, gpu in listed.items() if key in past.gpus}, reading, visit)
    gpus = dict(past.gpus)
    news: list[Transition] = []
    for key, faults in reported.items():
        gpus[key], docket = intake.only_reported(past.gpus[key], visit, faults)
        news += transitions(past.node, key, past.boot_id, past.gpus[key], gpus[key], docket)
    health = replace(past, gpus=gpus, heard=_heard_of(past, reading, at), told_at=at)
    return Assessed(health, tuple(news), _rows(health), standing.standing(health, context))


def _lost(reading: Reading) -> int:
    return min(max(0, reading.lost_lines) + max(0, reading.lost_faults), MOST_LOST)


def _last_line(reading: Reading, before: int) -> int:
    lines = [fault.sequence for fault in reading.faults if fault.source == "kernel-log" and fault.sequence is not None]
    return max([before, *lines])


def _reported(
    past: NodeHealth, gpus: Mapping[str, Gpu], reading: Reading, visit: Visit
) -> tuple[dict[str, list[Reported]], list[Reported]]:
    """What drivers reported, by the key of its GPU, in its order; and what is about no GPU that is known."""
    if not reading.faults:
        return {}, []
    known = {key: health.gpu for key, health in past.gpus.items()}
    done = -1 if visit.rebooted else past.log_sequence
    by_key: defaultdict[str, list[Reported]] = defaultdict(list)
    nobodys: list[Reported] = []
    for fault in sorted(reading.faults, key=lambda fault: (fault.at, fault.sequence or 0)):
        if fault.source == "kernel-log" and fault.sequence is not None and fault.sequence <= done:
            continue
        classed = xid.classify(fault, visit.catalogue)
        for key in _concerned(fault, classed, gpus, known):
            by_key[key].append((fault, classed))
        if not _concerned(fault, classed, gpus, known):
            nobodys.append((fault, classed))
    return by_key, nobodys


def _concerned(fault: Fault, classed: xid.Classed, gpus: Mapping[str, Gpu], known: Mapping[str, Gpu]) -> list[str]:
    """A fatal error of an NVSwitch concerns all GPUs behind it; what names no GPU is about the only one, if there is one."""
    if classed.scope is xid.Scope.NODE:
        everybody = fault.kind is FaultKind.SXID and classed.standing
        return list(gpus) if everybody or (len(gpus) == 1 and fault.kind is not FaultKind.MISMATCH) else []
    key = identities.of_fault(fault, gpus) or identities.of_fault(fault, known)
    return [key] if key else []


def _left(key: str, before: GpuHealth, found: identities.Identified, reading: Reading, visit: Visit) -> str:
    """How a GPU that is not in the reading has left the fleet; "" when it has not."""
    if key in found.replaced:
        return "replaced"
    if key in found.named:
        return "named"
    if reading.status != DriverStatus.OK:
        return ""
    missing = next((f for f in before.findings if f.rule == intake.MISSING), None)
    gone = missing is not None and visit.at - missing.since_at > GONE_AFTER_S
    return "removed" if gone or (visit.rebooted and identities.provisional(key)) else ""


def _absence(before: GpuHealth, reading: Reading, visit: Visit) -> tuple[str, Hit]:
    """Why a known GPU is not in the reading. A driver that lists none at all says more about the driver than about the GPUs."""
    if reading.status != DriverStatus.OK:
        hit = Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, reading.error or f"driver: {reading.status}")
        return standing.STATUSES[reading.status], hit
    sure = reading.source == "nvml" or visit.at - before.seen_at >= MISSING_S
    if reading.gpus and sure:
        return intake.MISSING, Hit(DeviceState.LOST, GpuAction.REBOOT_NODE, "not listed by the driver")
    return intake.MISSING, Hit(DeviceState.UNKNOWN, GpuAction.MONITOR, "not listed")


def _concluded(
    health: NodeHealth,
    past: NodeHealth,
    reading: Reading,
    context: NodeContext,
    visit: Visit,
    nobodys: Sequence[Reported],
) -> NodeHealth:
    """With the findings about the node as a whole."""
    docket = Docket(past.findings, past.pending, visit.at)
    if docket.open:
        docket.close("reboot", lambda f: visit.rebooted and intake.reported_once(f))
        docket.close("expired", lambda f: intake.passing(f) and visit.at - f.seen_at >= intake.PASSING_FOR_S)
    for fault, classed in nobodys:
        docket.put(intake.finding(fault, classed, visit, fault.pci))
    standing.judge(docket, health, reading, context)
    what, since_at = health.work
    standing.trouble_with_work(docket, standing.planned(what, since_at, visit.at)[1], what)
    return replace(health, findings=docket.findings(), pending=docket.pending)


def _since(past: NodeHealth, planned: str, at: float) -> float | None:
    if not planned:
        return None
    return past.planned_since_at if past.planned == planned else at
