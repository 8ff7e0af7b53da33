"""A rollout pod by pod, old ones and new ones: how far each is, on which node and GPUs, and what is wrong with it.

Owns which pods are listed where there are many. Must not hold wording (rollout_patterns.py) or rules.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.rollout_detail import Detail, PodLine, Side
from fleet.domain.stages import Stage

MOST_PODS = 60  # of one side that are listed
SUFFIX = 10  # characters
# Level and glyph of a pod by its stage.
POD_SIGNS = {
    Stage.READY: ("ok", "s-ok"),
    Stage.WARMING_UP: ("run", "s-run"),
    Stage.STARTING: ("run", "s-todo"),
    Stage.PULLING: ("run", "i-down"),
    Stage.PLACING: ("warn", "s-wait"),
    Stage.STOPPING: ("drain", "s-drain"),
}


@dataclass(frozen=True, slots=True)
class Pod:
    key: str
    level: str
    glyph: str
    name: str
    age: Value
    words: Text
    node: str


@dataclass(frozen=True, slots=True)
class PodList:
    title: Text
    total: int
    pods: tuple[Pod, ...]
    more: Text


def pods(found: Detail, workload: str) -> list[PodList]:
    """Old pods and new ones; where there are too many, those that are not Ready are listed first."""
    row = found.row
    return [
        _side([one for one in found.pods if one.side is Side.OLD], workload, row.was, "old"),
        _side([one for one in found.pods if one.side is Side.NEW], workload, row.revision, "new"),
    ]


def _side(lines: Sequence[PodLine], workload: str, revision: str, side: str) -> PodList:
    few = sorted(lines, key=lambda one: one.row.stage == Stage.READY)[:MOST_PODS] if len(lines) > MOST_PODS else lines
    left = len(lines) - len(few)
    return PodList(
        title=say(f"rollout.{side}-of", revision=revision) if revision else say(f"rollout.{side}-pods"),
        total=len(lines),
        pods=tuple(_pod(one, workload) for one in few),
        more=say("rollout.more-pods", n=left) if left else "",
    )


def _pod(line: PodLine, workload: str) -> Pod:
    row, stage = line.row, Stage(line.row.stage)
    level, glyph = ("bad", "s-bad") if line.cause else POD_SIGNS[stage]
    if line.side is Side.OLD and stage is Stage.READY:
        level = "off"
    cause = say(f"rollouts.cause.{line.cause}") if line.cause else ""
    return Pod(
        key=line.key,
        level=level,
        glyph=glyph,
        name=short(row.name, workload),
        age=None if row.created_at is None else Age(row.created_at),
        words=(say(f"rollout.pod.{stage}"), cause, _gpus(line)),
        node=row.node,
    )


def short(name: str, workload: str) -> str:
    """What tells a pod from its siblings: the end of its version's hash, and its own suffix."""
    rest = name.removeprefix(f"{workload}-")
    return name if rest == name else f"…{rest[-SUFFIX:]}"


def _gpus(line: PodLine) -> Text:
    if line.gpus:
        return say("rollout.pod.gpus", n=len(line.gpus), list=ranges(line.gpus))
    return say("gpus", n=line.row.gpus) if line.row.gpus else ""


def ranges(numbers: Iterable[int]) -> str:
    """0–3, 6"""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in found)
