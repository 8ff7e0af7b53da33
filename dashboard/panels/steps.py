"""The steps of an action that has been confirmed: done, under way, to come, each with its times and what it waits for.

Owns which evidence of a step is told. Must not know how a step is done.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.panels import measures
from dashboard.panels.measures import known
from dashboard.panels.words import Age, Clock, Text, say
from fleet.domain.actions import REBOOT
from fleet.domain.plans import StepKind, StepState

GLYPHS = {"done": "s-ok", "now": "s-run", "todo": "s-todo", "failed": "s-bad", "skipped": "s-off", "undone": "s-off"}
NOW = {StepState.STARTED, StepState.WAITING}


@dataclass(frozen=True, slots=True)
class Stage:
    """One step. `stage`: done, now, todo, failed, skipped, undone."""

    key: str
    kind: str
    stage: str
    glyph: str
    word: Text
    title: Text
    text: Text


@dataclass(frozen=True, slots=True)
class ByHand:
    """What whoever owns the machines needs for a reboot that is waited for."""

    words: Text
    command: str


def by_hand(rows: Iterable[Any]) -> ByHand | None:
    """The site's own command when its policy has one; else how to see what is asked for: how machines are rebooted is not ours to
    guess. Shown from the start, so that nothing moves when its turn comes. None for what reboots nothing."""
    row = next((row for row in rows if row.kind == StepKind.REBOOT), None)
    if row is None:
        return None
    if command := row.facts.get("command"):
        return ByHand(say("act.reboot.command"), str(command))
    path = f"{{.metadata.annotations.{REBOOT.replace('.', chr(92) + '.', 1)}}} {{.status.nodeInfo.bootID}}"
    return ByHand(say("act.reboot.asked", annotation=REBOOT), f"kubectl get node {row.subject} -o jsonpath='{path}'")


def stages(rows: Iterable[Any]) -> list[Stage]:
    return [_stage(row) for row in rows]


def _stage(row: Any) -> Stage:
    stage = "now" if row.state in NOW else row.state
    return Stage(
        str(row.position),
        row.kind,
        stage,
        GLYPHS[stage],
        say(f"act.step.{row.state}"),
        say(f"act.step.{row.kind}"),
        _told(row),
    )


def _told(row: Any) -> Text:
    """An age ticks, and grows: nothing stands behind it that would have to move."""
    if row.state in NOW and row.started_at is not None:
        until = say("act.step.until", deadline_at=Clock(row.deadline_at)) if row.deadline_at else ""
        return (*waits(row), until, say("act.step.since", age=Age(row.started_at)))
    return (_times(row), *waits(row))


def _times(row: Any) -> Text:
    if row.done_at is not None:
        took = measures.duration(row.done_at - row.started_at) if row.started_at is not None else None
        return (Clock(row.done_at), say("act.step.took", took_s=took))
    if row.state in NOW and row.started_at is not None:
        until = say("act.step.until", deadline_at=Clock(row.deadline_at)) if row.deadline_at else ""
        return (say("act.step.since", age=Age(row.started_at)), until)
    return ""


def waits(row: Any) -> tuple[Text, ...]:
    """What a step has found so far."""
    found: Mapping[str, Any] = row.evidence
    told: list[Text] = []
    if found.get("foreign"):
        told.append(say("act.step.foreign"))
    if found.get("already"):
        told.append(say("act.step.already-open"))
    if found.get("measured") is False:
        told.append(say("act.step.unmeasured"))
    if known(found.get("answered")):
        told.append(say("act.step.answered", passed=found.get("passed", 0), answered=found["answered"]))
    if found.get("leaving"):
        told.append(say("act.step.leaving", n=found["leaving"]))
    told += _saves(found)
    if row.state in NOW:
        told += _so_far(found)
    elif known(found.get("pods")):
        told.append(say("act.step.gone", gone=found.get("gone", 0), pods=found["pods"]))
    return tuple(told)


def _saves(found: Mapping[str, Any]) -> list[Text]:
    """Which workloads have saved, and which are waited for."""
    told: list[Text] = []
    for workload, one in (found.get("workloads") or {}).items():
        if one.get("state") == "saved":
            key = "act.step.saved" if known(one.get("saved_step")) else "act.step.saved-no-step"
            told.append(say(key, workload=workload, step=one.get("saved_step")))
    if found.get("awaited"):
        told.append(say("act.step.awaited", awaited=", ".join(found["awaited"])))
    return told


def _so_far(found: Mapping[str, Any]) -> list[Text]:
    told: list[Text] = []
    if found.get("processes"):
        told.append(say("act.step.processes", n=found["processes"]))
    if found.get("not_back"):
        told.append(say("act.step.not-back", n=found["not_back"]))
    if known(found.get("pods")):
        told.append(say("act.step.gone", gone=found.get("gone", 0), pods=found["pods"]))
    if known(found.get("asked_at")):
        told.append(say("act.step.asked", asked_at=Clock(found["asked_at"])))
    for name, value in (found.get("missing") or {}).items():
        told.append(_missing(name, value))
    if found.get("trouble"):
        told.append(say("act.step.trouble", trouble=str(found["trouble"])))
    return told


def _missing(name: str, value: Any) -> Text:
    if name == "gpus":
        return say("act.step.missing.gpus", gpus=say("gpus", n=int(value)) if known(value) else None)
    if name == "driver":
        return say("act.step.missing.driver", driver=value)
    return say(f"act.step.missing.{name}")
