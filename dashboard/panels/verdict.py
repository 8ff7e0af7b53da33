"""What Vigie thinks of one GPU: the verdict in a sentence, the one right next action with its commands, and the evidence.

Owns which command belongs to which action. The commands are for a person to run: Vigie runs none of them. Must not decide how a
GPU is or what is to be done: the domain does.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.panels.gpus import memory, rule
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.gpus import DeviceState, GpuAction
from fleet.domain.picture import FindingRow, GpuRow, InstanceRow

LEVELS = {"": ("ok", "s-ok"), "warn": ("warn", "s-warn"), "bad": ("bad", "s-bad"), "off": ("off", "s-unknown")}
EMPTY_FIRST = (
    GpuAction.RESET_GPU,
    GpuAction.DRAIN_AND_RESET,
    GpuAction.RESET_BUS,
    GpuAction.REBOOT_NODE,
    GpuAction.CONTACT_SUPPORT,
)
EVIDENCE = (
    Column("finding", small=True),
    Column("evidence", "all mono"),
    Column("source"),
    Column("since", "num"),
    Column("seen", "num"),
)
INSTANCES = (
    Column("instance"),
    Column("profile"),
    Column("status", "state"),
    Column("memory", "num"),
    Column("used-by", "all"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, and the command for it; "" where there is none."""

    words: Text
    command: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    level: str
    glyph: str
    word: Text
    sentence: Text
    action: Text
    steps: tuple[Step, ...]


def verdict(row: GpuRow) -> Verdict:
    level, glyph = LEVELS[row.level]
    return Verdict(level, glyph, say(f"device.{row.state}"), sentence(row), action(row), tuple(steps(row)))


def sentence(row: GpuRow) -> Text:
    """Cause first; of a healthy GPU, that nothing speaks against it."""
    if row.reason:
        return say("verdict.because", reason=rule(row.reason), meaning=say(f"verdict.{row.state}"))
    return say(f"verdict.{row.state}")


def action(row: GpuRow) -> Text:
    words = say(f"action.{row.action}")
    return (words, say("gpu.when-convenient")) if row.soft else words


def steps(row: GpuRow) -> Iterable[Step]:
    """What to type, in order: a GPU is reset, and a node rebooted, only when nothing runs there any more."""
    found = GpuAction(row.action)
    if found in EMPTY_FIRST:
        yield Step(say("step.drain", node=row.node), f"kubectl drain {row.node} --ignore-daemonsets")
    target = row.uuid or row.pci
    match found:
        case GpuAction.RESTART_APP:
            for pod in row.pods or ():
                namespace, _, name = pod.partition("/")
                yield Step(say("step.restart", pod=name), f"kubectl -n {namespace} delete pod {name}")
        case GpuAction.RESET_GPU | GpuAction.DRAIN_AND_RESET:
            yield Step(say("step.reset", node=row.node), f"nvidia-smi --gpu-reset -i {target}")
        case GpuAction.REBOOT_NODE | GpuAction.RESET_BUS:
            yield Step(say("step.reboot", node=row.node), "systemctl reboot")
        case GpuAction.CONTACT_SUPPORT:
            yield Step(say("step.report", node=row.node), "nvidia-bug-report.sh")
        case GpuAction.DRAIN_PEERS:
            yield Step(say("step.peers", node=row.node), f"kubectl drain {row.node} --ignore-daemonsets")
        case GpuAction.RECOVER_IMEX:
            yield Step(say("step.imex", node=row.node), "systemctl status nvidia-imex")
    if found in EMPTY_FIRST and found != GpuAction.CONTACT_SUPPORT:
        yield Step(say("step.uncordon", node=row.node), f"kubectl uncordon {row.node}")


def findings(row: GpuRow) -> Table:
    """The deciding one first."""
    rows = [_finding(i, found) for i, found in enumerate(row.findings)]
    return Table("findings", EVIDENCE, rows)


def _finding(i: int, found: FindingRow) -> Row:
    cells: dict[str, Value] = {
        "finding": rule(found.rule),
        "evidence": found.evidence or "–",
        "source": say(f"source.{found.source}"),
        "since": Age(found.since_at),
        "seen": Age(found.seen_at),
    }
    instance = say("finding.instance", uuid=found.instance) if found.instance else ""
    small: dict[str, Text] = {"finding": (say(f"device.{found.state}"), say(f"action.{found.action}"), instance)}
    return Row(str(i), level_of(found.state, soft=found.soft), cells, small)


def level_of(state: str, *, soft: bool = False) -> str:
    """The level of the visual language that goes with a state."""
    if state in {DeviceState.OK, DeviceState.APP_FAULT}:
        return ""
    if state == DeviceState.UNKNOWN:
        return "off"
    return "warn" if soft or state == DeviceState.DEGRADED else "bad"


def instances(row: GpuRow) -> Table:
    return Table("instances", INSTANCES, [_instance(found) for found in row.instances])


def _instance(found: InstanceRow) -> Row:
    cells: dict[str, Value] = {
        "instance": found.uuid,
        "profile": found.profile or None,
        "status": say(f"device.{found.state}"),
        "memory": memory(found.memory_used_mib, found.memory_total_mib),
        "used-by": ", ".join(found.pods) or "–",
    }
    return Row(found.uuid, level_of(found.state), cells, {})
