"""Why a rollout does not get on: reasons with evidence, the most serious first.

Owns which reason holds, read from the controller's conditions, the pods' container states, the scheduler's words and kubelets'
Events; never from how long something takes. Must not know nodes: `ways_out` says what would help.

A rollout asks no PodDisruptionBudget: its controller deletes pods, and budgets guard evictions alone (Kubernetes, disruption
controller). So a budget holds up only where pods are replaced when somebody has them go.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from statistics import median
from typing import Final

from msgspec import Struct

from fleet.domain.budgets import selects
from fleet.domain.objects import Budget, Condition, ContainerStatus, Deployment, Pod, Probe, Terminated, seconds
from fleet.domain.picture import EventRow, PodRow
from fleet.domain.pods import STARTING as PASSING
from fleet.domain.pods import ready_after_s
from fleet.domain.rollout_picture import HoldupRow
from fleet.domain.rollouts import Bounds, Progress, Rolled, Verdict
from fleet.domain.stages import IMAGE_TROUBLE, ON_ITS_WAY, Stage

LONGEST: Final = 1_024  # characters of evidence, the end of it where a log speaks
QUOTA_WORDS: Final = "exceeded quota"

Placed = tuple[Pod, PodRow]
Fact = tuple[str, str | int | float | None]
Trouble = tuple["Cause", str, tuple[Fact, ...]]  # with its evidence


class Cause(StrEnum):
    """The order of seriousness: what no waiting mends comes first."""

    QUOTA = "quota"  # the namespace may not have more
    ADMISSION = "admission"  # the API server refuses the pods
    IMAGE = "image"  # cannot be fetched
    CONFIG = "config"  # a container cannot be made: a missing Secret or ConfigMap, a command that is not there
    STARTUP_BUDGET = "startup-budget"  # the startup probe gives up before the model is loaded
    CRASH = "crash"  # a container ends again and again
    DEADLOCK = "deadlock"  # nothing can be added for lack of a hole, and nothing may go before something is added
    NO_HOLE = "no-hole"  # no node has enough free GPUs in one piece
    UNPLACEABLE = "unplaceable"  # the scheduler finds no node for another reason
    VOLUME = "volume"  # its volume is held by another pod, or cannot be mounted
    PROBE = "probe"  # runs, and its probe fails
    BUDGET = "budget"  # old pods may not be evicted now
    PAUSED = "paused"
    NOT_OBSERVED = "not-observed"  # the controller has not looked at the newest version


class Level(StrEnum):
    BAD = "bad"  # does not pass by itself
    WARN = "warn"  # may pass
    NOTE = "note"  # somebody wants it so, or it mostly lasts an instant


class Case(Struct, frozen=True):
    """What there is to judge. `new`: the pods of the newest version; `warnings`: kubelets' warnings about a pod, by its key;
    `refusal`: what the controller said last when it could not make a pod."""

    found: Rolled
    progress: Progress
    limits: Bounds | None
    new: Sequence[Placed]
    old: Sequence[Placed]
    warnings: Callable[[PodRow], Sequence[EventRow]]
    budgets: Iterable[Budget] = ()
    available: int = 0
    desired: int = 0
    refusal: EventRow | None = None


def holdups(case: Case) -> tuple[HoldupRow, ...]:
    """In the order of `Cause`. Empty as long as everything goes its way."""
    if case.progress.verdict is Verdict.DONE and all(row.stage == Stage.READY for _, row in case.new):
        return ()
    order = list(Cause)
    found = [*_of_controller(case), *_of_placing(case), *_of_containers(case)]
    return tuple(sorted(found, key=lambda row: order.index(Cause(row.cause))))


# What the controller says


def _of_controller(case: Case) -> Iterator[HoldupRow]:
    found, verdict = case.found, case.progress.verdict
    if isinstance(found, Deployment):
        refused = _condition(found, "ReplicaFailure")
        if refused is not None and refused.status == "True":
            yield _refused(refused.message, seconds(refused.last_transition_time))
    elif case.refusal is not None and _still_refused(case, case.refusal):
        yield _refused(case.refusal.message)
    if verdict is Verdict.PAUSED:
        moving = _condition(found, "Progressing") if isinstance(found, Deployment) else None
        since_at = seconds(moving.last_update_time) if moving and moving.reason == "DeploymentPaused" else None
        yield HoldupRow(Cause.PAUSED, Level.NOTE, since_at=since_at)
    if verdict is Verdict.NOT_OBSERVED:
        versions: tuple[Fact, ...] = (
            ("wanted", found.metadata.generation),
            ("observed", found.status.observed_generation),
        )
        yield HoldupRow(Cause.NOT_OBSERVED, Level.NOTE, facts=versions)
    if verdict is Verdict.MANUAL and case.old:
        yield from _of_budgets(case)


def _refused(message: str, since_at: float | None = None) -> HoldupRow:
    cause = Cause.QUOTA if QUOTA_WORDS in message else Cause.ADMISSION
    return HoldupRow(cause, Level.BAD, since_at=since_at, evidence=message[:LONGEST])


def _still_refused(case: Case, refusal: EventRow) -> bool:
    """StatefulSets and DaemonSets have no condition for it, and Events outlive what they tell of: it holds as long as pods are
    missing and none has been made since."""
    made = [row.created_at for _, row in (*case.new, *case.old) if row.created_at is not None]
    return len(case.new) + len(case.old) < case.desired and (refusal.last_at or 0.0) >= max(made, default=0.0)


def _of_budgets(case: Case) -> Iterator[HoldupRow]:
    for budget in case.budgets:
        held = [one for one in case.old if selects(budget.spec.selector, one[0].metadata.labels)]
        if held and budget.status.disruptions_allowed <= 0:
            facts: tuple[Fact, ...] = (("budget", budget.metadata.name),)
            yield _row(Cause.BUDGET, Level.WARN, held, "", facts)


def _condition(found: Deployment, name: str) -> Condition | None:
    return next((c for c in found.status.conditions if c.type == name), None)


# Pods without a node


def _of_placing(case: Case) -> Iterator[HoldupRow]:
    unplaced = [one for one in case.new if one[1].stage == Stage.PLACING and one[1].waiting_reason]
    short = [one for one in unplaced if _lacks_gpus(one[1])]
    other = [one for one in unplaced if not _lacks_gpus(one[1])]
    if short:
        yield _no_hole(case, short)
    if other:
        yield _row(Cause.UNPLACEABLE, Level.BAD, other, _words(other))


def _lacks_gpus(row: PodRow) -> bool:
    return any(f"Insufficient {name}" in row.waiting_message for name, _ in row.resources)


def _no_hole(case: Case, short: Sequence[Placed]) -> HoldupRow:
    """A deadlock: no pod is on its way, none is leaving, and every old one that serves has to stay."""
    coming = sum(row.stage in ON_ITS_WAY for _, row in case.new)
    leaving = sum(row.stage == Stage.STOPPING for _, row in (*case.old, *case.new))
    may_go = max(0, case.available - case.limits.min_available) if case.limits else 0
    staying = any(row.stage != Stage.STOPPING for _, row in case.old)
    moves = coming + leaving + (may_go if staying else 0) > 0
    cause = Cause.DEADLOCK if staying and not moves else Cause.NO_HOLE
    facts: tuple[Fact, ...] = (
        ("gpus", max(row.gpus for _, row in short)),
        ("may_go", may_go),
        ("coming", coming),
        ("leaving", leaving),
    )
    return _row(cause, Level.WARN if moves else Level.BAD, short, _words(short), facts)


def _words(pods: Sequence[Placed]) -> str:
    return _oldest(pods)[1].waiting_message


# Pods on a node


def _of_containers(case: Case) -> Iterator[HoldupRow]:
    held: dict[Cause, list[tuple[Placed, str, tuple[Fact, ...]]]] = {}
    for one in case.new:
        told = _trouble(case, one)
        if told is not None:
            cause, evidence, facts = told
            held.setdefault(cause, []).append((one, evidence, facts))
    for cause, found in held.items():
        first = min(found, key=lambda each: _age(each[0]))
        level = Level.WARN if cause in {Cause.PROBE, Cause.VOLUME} else Level.BAD
        yield _row(cause, level, [each[0] for each in found], first[1], first[2])


def _trouble(case: Case, one: Placed) -> Trouble | None:
    pod, row = one
    if row.stage not in ON_ITS_WAY:
        return None
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if (told := _container_trouble(case, row, status)) is not None:
            return told
    return _told_by_kubelet(case, row)


def _container_trouble(case: Case, row: PodRow, status: ContainerStatus) -> Trouble | None:
    waiting = status.state.waiting.reason if status.state.waiting else ""
    words = status.state.waiting.message[:LONGEST] if status.state.waiting else ""
    if waiting in IMAGE_TROUBLE:
        return Cause.IMAGE, words, (("container", status.name), ("reason", waiting))
    ended = status.state.terminated or status.last_state.terminated
    failed = ended is not None and ended.exit_code != 0 and not status.ready
    if waiting == "CrashLoopBackOff" or failed or (status.restart_count > 0 and not status.ready):
        return _crash(case, row, status, ended)
    if waiting not in PASSING | {""}:
        return Cause.CONFIG, words, (("container", status.name), ("reason", waiting))
    return None


def _crash(case: Case, row: PodRow, status: ContainerStatus, ended: Terminated | None) -> Trouble:
    """The startup probe's doing when a kubelet says so: it ends containers that would have gone on."""
    facts: tuple[Fact, ...] = (
        ("container", status.name),
        ("restarts", status.restart_count),
        ("exit_code", ended.exit_code if ended else None),
        ("reason", ended.reason if ended else ""),
    )
    given_up = next((w for w in case.warnings(row) if "Startup probe failed" in w.message), None)
    if given_up is not None:
        return Cause.STARTUP_BUDGET, given_up.message[:LONGEST], (*facts, *_budget_facts(case, status.name))
    return Cause.CRASH, ended.message[-LONGEST:] if ended else "", facts


def _budget_facts(case: Case, name: str) -> tuple[Fact, ...]:
    """The guaranteed startup budget, beside how long pods of the old version took from creation to Ready."""
    containers = case.found.spec.template.spec.containers
    probe = next((c.startup_probe for c in containers if c.name == name), None)
    took = [after for _, row in case.old if (after := ready_after_s(row)) is not None]
    budget: tuple[Fact, ...] = (("budget_s", startup_budget_s(probe)),) if probe else ()
    return budget + ((("old_ready_after_s", round(median(took))),) if took else ())


def startup_budget_s(probe: Probe) -> int:
    """So long a container has at least before the probe ends it: the last of the failures comes this late."""
    return probe.initial_delay_seconds + (probe.failure_threshold - 1) * probe.period_seconds


def _told_by_kubelet(case: Case, row: PodRow) -> Trouble | None:
    for warning in case.warnings(row):
        if warning.reason in {"FailedAttachVolume", "FailedMount"} and row.stage == Stage.PULLING:
            return Cause.VOLUME, warning.message[:LONGEST], (("reason", warning.reason),)
        if warning.reason == "Unhealthy" and row.stage == Stage.WARMING_UP:
            return Cause.PROBE, warning.message[:LONGEST], (("times", warning.count),)
    return None


def _row(cause: Cause, level: Level, pods: Sequence[Placed], evidence: str, facts: tuple[Fact, ...] = ()) -> HoldupRow:
    _, oldest = _oldest(pods)
    key = f"{oldest.namespace}/{oldest.name}"
    return HoldupRow(cause, level, len(pods), key, oldest.created_at, evidence, facts)


def _oldest(pods: Sequence[Placed]) -> Placed:
    return min(pods, key=_age)


def _age(one: Placed) -> tuple[float, str]:
    created_at = one[1].created_at
    return float("inf") if created_at is None else created_at, one[1].name
