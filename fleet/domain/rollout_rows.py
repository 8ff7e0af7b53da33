"""A rollout as a row: which pods are new and which old, how far each is, what they hold, and when it will be through.

Owns the count of pods and the estimate. Must not know nodes, nor remember anything: the same objects make the same row.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fleet.domain.capacity import effective_requests
from fleet.domain.holdups import Case, Level, holdups
from fleet.domain.objects import Budget, DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet, seconds
from fleet.domain.picture import EventRow, PodRow
from fleet.domain.pods import DEPLOYMENT_HASH, ready_after_s
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.rollouts import (
    Remark,
    Rolled,
    Verdict,
    bounds_of,
    deadline_at,
    progress,
    strategy_of,
)
from fleet.domain.stages import Stage

REVISION = "deployment.kubernetes.io/revision"
DAEMON_GENERATION, POD_GENERATION = "deprecated.daemonset.template.generation", "pod-template-generation"

STAGES = tuple(stage.value for stage in Stage)
NOT_HELD = frozenset({Stage.PLACING.value, Stage.STOPPING.value})

Placed = tuple[Pod, PodRow]


class Surroundings(Struct, frozen=True):
    """What an object's rollout needs to know of others. `sets`: the ReplicaSets of a Deployment; `budgets`: of its namespace;
    `warnings`: what kubelets warn of a pod; `refusal`: what its controller said last when it could not make a pod."""

    sets: Sequence[ReplicaSet] = ()
    budgets: Iterable[Budget] = ()
    warnings: Callable[[PodRow], Sequence[EventRow]] = lambda _: ()
    refusal: EventRow | None = None


class _Side:
    """The pods of one version, sorted into stages in one go: a large fleet has thousands of rollouts at rest."""

    def __init__(self, pods: list[Placed]) -> None:
        self.pods = pods
        self.by_stage: dict[str, list[PodRow]] = {}
        for _, row in pods:
            self.by_stage.setdefault(row.stage, []).append(row)
        self.stopping = self.by_stage.get(Stage.STOPPING, [])

    @property
    def staying(self) -> int:
        return len(self.pods) - len(self.stopping)

    def gpus(self) -> int:
        """Held by pods that are not terminating, which are counted apart."""
        held = (rows for stage, rows in self.by_stage.items() if stage not in NOT_HELD)
        return sum([row.gpus for rows in held for row in rows])

    def stages(self) -> tuple[tuple[str, int], ...]:
        return tuple([(stage, len(self.by_stage[stage])) for stage in STAGES if stage in self.by_stage])

    def made(self) -> list[float]:
        return [row.created_at for _, row in self.pods if row.created_at is not None]


def rollout_row(found: Rolled, placed: Sequence[Placed], around: Surroundings) -> RolloutRow:
    alive = [one for one in placed if one[1].stage != Stage.ENDED]
    newest = newest_template(found, around.sets, alive)
    new = _Side([one for one in alive if one[1].template == newest])
    old = _Side([one for one in alive if one[1].template != newest])
    stands, limits = progress(found), bounds_of(found)
    row = _counted(found, old, new)
    case = Case(
        found,
        stands,
        limits,
        new.pods,
        old.pods,
        around.warnings,
        around.budgets,
        row.available,
        row.desired,
        around.refusal,
    )
    row = replace(
        row,
        verdict=stands.verdict.value,
        step=stands.step.value,
        have=stands.have,
        want=stands.want,
        template=newest,
        surge=limits.surge if limits else None,
        unavailable=limits.unavailable if limits else None,
        max_pods=limits.max_pods if limits else None,
        min_available=limits.min_available if limits else None,
        was=_was(old, around.sets) if old.pods else "",
        deadline_at=deadline_at(found),
        holdups=holdups(case),
    )
    return _foretold(found, replace(row, remarks=_remarks(row)), old, new)


def newest_template(found: Rolled, sets: Iterable[ReplicaSet], pods: Sequence[Placed]) -> str | None:
    """Hash of the newest version that the controller works on; None while no pod has it.

    A Deployment's is that of the ReplicaSet with its revision, but a paused one makes no ReplicaSet for a template that changed
    meanwhile: then it counts no pod as updated. Of a DaemonSet only the pods tell.
    """
    match found:
        case StatefulSet():
            return found.status.update_revision
        case DaemonSet():
            return _newest_daemon(found, pods)
        case Deployment() if found.spec.paused and found.status.updated_replicas == 0:
            return None
        case Deployment():
            revision = found.metadata.annotations.get(REVISION)
            mine = [one for one in sets if one.metadata.annotations.get(REVISION) == revision]
            last = max(mine, key=lambda one: (seconds(one.metadata.creation_timestamp) or 0.0, one.key), default=None)
            return last.metadata.labels.get(DEPLOYMENT_HASH, "") if last else None


def _newest_daemon(found: DaemonSet, pods: Sequence[Placed]) -> str | None:
    generation = found.metadata.annotations.get(DAEMON_GENERATION)
    marked = (row.template for pod, row in pods if pod.metadata.labels.get(POD_GENERATION, "") == generation)
    named = next(marked, None)
    if named is not None or found.status.updated_number_scheduled == 0:
        return named
    youngest = max(pods, key=lambda one: (one[1].created_at or 0.0, one[1].name), default=None)
    return youngest[1].template if youngest else None


def _counted(found: Rolled, old: _Side, new: _Side) -> RolloutRow:
    stopping = old.stopping + new.stopping
    return RolloutRow(
        kind=type(found).__name__,
        strategy=strategy_of(found),
        old=old.staying,
        new=new.staying,
        terminating=len(stopping),
        old_gpus=old.gpus(),
        new_gpus=new.gpus(),
        terminating_gpus=sum(row.gpus for row in stopping if row.node),
        gpus_per_pod=sum(effective_requests(found.spec.template.spec).values()),
        gpus_per_old_pod=max((row.gpus for _, row in old.pods), default=0),
        answering=sum(row.ready_at is not None for _, row in old.pods),
        old_stages=old.stages(),
        new_stages=new.stages(),
        **_of_object(found),
    )


def _of_object(found: Rolled) -> dict[str, Any]:
    match found:
        case Deployment():
            return {
                "desired": found.spec.replicas,
                "available": found.status.available_replicas,
                "paused": found.spec.paused,
                "revision": found.metadata.annotations.get(REVISION, ""),
            }
        case StatefulSet():
            rolling = found.spec.update_strategy.rolling_update
            partition = (rolling.partition if rolling else None) or 0
            return {
                "desired": found.spec.replicas,
                "available": found.status.available_replicas,
                "partition": min(partition, found.spec.replicas),
            }
        case DaemonSet():
            return {"desired": found.status.desired_number_scheduled, "available": found.status.number_available}


def _was(old: _Side, sets: Iterable[ReplicaSet]) -> str:
    """Revision of the version that most old pods have; of a Deployment alone."""
    counted = Counter(row.template for _, row in old.pods)
    most = max(counted, key=lambda template: (counted[template], template))
    mine = (one.metadata for one in sets if one.metadata.labels.get(DEPLOYMENT_HASH, "") == most)
    return next((meta.annotations.get(REVISION, "") for meta in mine), "")


def _remarks(row: RolloutRow) -> tuple[str, ...]:
    """What is left when kubectl calls it done."""
    if row.verdict != Verdict.DONE:
        return ()
    ready = dict(row.new_stages).get(Stage.READY, 0)
    holds = {
        Remark.UNREADY: ready < row.new,
        Remark.UNAVAILABLE: row.available < row.desired,
        Remark.TERMINATING: row.terminating > 0,
        Remark.ANSWERING: row.answering > 0,
        Remark.PARTITIONED: row.partition > 0 and row.old > 0,
    }
    return tuple(remark.value for remark, held in holds.items() if held)


# When it will be through


def _foretold(found: Rolled, row: RolloutRow, old: _Side, new: _Side) -> RolloutRow:
    """Start, load time and end, in whole seconds, as far as pods have shown them.

    The controller makes as many pods at once as the bounds let it, so what is still missing comes in rounds. A round takes what
    the rounds so far took from one pod to its successor, and at least the load time.
    """
    ready = new.by_stage.get(Stage.READY, [])
    took = [after for one in ready if (after := ready_after_s(one)) is not None]
    load_s = float(round(median(took))) if took else None
    if row.verdict == Verdict.DONE:
        return replace(row, ready_after_s=load_s)
    row = replace(row, started_at=_started_at(old, new), ready_after_s=load_s, seen=len(took))
    stuck = any(one.level == Level.BAD for one in row.holdups)
    if load_s is None or row.verdict != Verdict.ROLLING or stuck:
        return row
    made = sorted(new.made())
    width = max(1, (row.surge or 0) + (row.unavailable or 0))
    gaps = [later - earlier for earlier, later in zip(made, made[width:], strict=False)]
    round_s = max([load_s, *([median(gaps)] if gaps else [])])
    rounds = -(-max(0, row.desired - row.partition - row.new) // width)
    eta_at = made[-1] + load_s + rounds * round_s + found.spec.min_ready_seconds
    return replace(row, eta_at=float(round(eta_at)))


def _started_at(old: _Side, new: _Side) -> float | None:
    """When the first new pod was made after the last old one: an undo finds pods of its version that are older."""
    begun = max(old.made(), default=0.0)
    return min([at for at in new.made() if at >= begun], default=None)
