"""Rollouts: how many pods an update may add and go without, and whether it is done.

Owns the rounding of `maxSurge` and `maxUnavailable`, in whole numbers alone (0.07 * 100 is 7.000000000000001), and completion
exactly as `kubectl rollout status` decides it. Must not know pods: `rollout_rows` counts them, `stages` says how far each is.

What screens and actions use:

- `Snapshot.rollouts["Deployment/chat/llm"]` is a `picture.RolloutRow` for every Deployment, StatefulSet and DaemonSet that is a
  workload, also at rest: bounds, counts, stages, GPUs, deadline, ETA, `verdict` and `step` (`have` of `want`), what kubectl calls
  done though something is left (`remarks`), and `holdups`, the most serious first. The screen ROLLOUTS has all of them, and
  `changes.View(Screen.ROLLOUT, workload=key)` one with its workload, its pods (`PodRow.stage`, new when its `template` is that of
  the row) and its attention entries.
- `rollout_detail.detail(snapshot, key)` is what one page shows besides: pod by pod, the time line, ways out of each hold-up.
- `strategy.advise(ground)` ranks the strategies before a new version; `strategy.ground(snapshot, key)` reads the ground off the
  picture, `strategy.surveyed(places, pod, …)` gives its `free` from nodes and pods that were read afresh.

Sources: Kubernetes, pkg/controller/deployment/util/deployment_util.go, pkg/apis/apps/validation, pkg/controller/statefulset,
pkg/controller/daemon; kubectl, pkg/polymorphichelpers/rollout_status.go.
"""

from enum import StrEnum

from msgspec import Struct

from fleet.domain.objects import (
    Condition,
    DaemonSet,
    Deployment,
    Object,
    RollingUpdate,
    StatefulSet,
    UpdateStrategy,
    seconds,
)

Amount = int | str
Rolled = Deployment | StatefulSet | DaemonSet

DEFAULT: Amount = "25%"
NO_DEADLINE = 2**31 - 1  # seconds; means "never"
RECREATE, ON_DELETE = "Recreate", "OnDelete"
EXCEEDED, THROUGH = "ProgressDeadlineExceeded", "NewReplicaSetAvailable"


class Bounds(Struct, frozen=True):
    """In pods. Only pods that are not terminating count: those hold their GPUs on top of `max_pods`."""

    surge: int
    unavailable: int
    max_pods: int
    min_available: int


def bounds(replicas: int, max_surge: Amount = DEFAULT, max_unavailable: Amount = DEFAULT) -> Bounds:
    """Of a Deployment: surge rounds up, unavailable down, and where both come to 0 unavailable is 1. Raises ValueError for what
    the API server refuses."""
    if _number(max_surge) == 0 and _number(max_unavailable) == 0:
        raise ValueError("maxUnavailable may not be 0 when maxSurge is 0")
    if isinstance(max_unavailable, str) and _number(max_unavailable) > 100:
        raise ValueError(f"more than 100 % unavailable: {max_unavailable!r}")
    return _bounds(replicas, _up(max_surge, replicas), _down(max_unavailable, replicas))


def stateful_bounds(replicas: int, max_unavailable: Amount = 1) -> Bounds:
    """Of a StatefulSet: never more pods than replicas; unavailable rounds down, to 1 at least. Raises ValueError."""
    return _bounds(replicas, 0, _down(max_unavailable, replicas))


def daemon_bounds(nodes: int, max_surge: Amount = 0, max_unavailable: Amount = 1) -> Bounds:
    """Of a DaemonSet on so many nodes: both round up, and exactly one of them is not 0. Raises ValueError."""
    if (_number(max_surge) == 0) is (_number(max_unavailable) == 0):
        raise ValueError("exactly one of maxSurge and maxUnavailable may be set")
    return _bounds(nodes, _up(max_surge, nodes), _up(max_unavailable, nodes))


def bounds_of(found: Rolled) -> Bounds | None:
    """Those of an object. None where it has none: pods are replaced when somebody deletes them, or the object says something that
    no API server accepts."""
    try:
        return _bounds_of(found)
    except ValueError:
        return None


def strategy_of(found: Rolled) -> str:
    """RollingUpdate, Recreate or OnDelete."""
    return _strategy(found).type


def _strategy(found: Rolled) -> UpdateStrategy:
    return found.spec.strategy if isinstance(found, Deployment) else found.spec.update_strategy


def _bounds_of(found: Rolled) -> Bounds | None:
    strategy = _strategy(found)
    rolling = strategy.rolling_update or RollingUpdate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    if strategy.type == ON_DELETE:
        return None
    match found:
        case Deployment() if strategy.type == RECREATE:
            return Bounds(0, found.spec.replicas, found.spec.replicas, 0)
        case Deployment():
            return bounds(found.spec.replicas, _or(surge, DEFAULT), _or(unavailable, DEFAULT))
        case StatefulSet():
            return stateful_bounds(found.spec.replicas, _or(unavailable, 1))
        case DaemonSet():
            nodes, added = found.status.desired_number_scheduled, _or(surge, 0)
            return daemon_bounds(nodes, added, _or(unavailable, 0 if _number(added) else 1))


def _or(amount: Amount | None, otherwise: Amount) -> Amount:
    return otherwise if amount is None else amount


def _bounds(wanted: int, surge: int, unavailable: int) -> Bounds:
    """With neither surge nor unavailable nothing could ever move, so one may be unavailable."""
    capped = min(unavailable if surge or unavailable else 1, wanted)
    return Bounds(surge, capped, wanted + surge, wanted - capped)


def _up(amount: Amount, whole: int) -> int:
    return amount if isinstance(amount, int) else -(-_number(amount) * whole // 100)


def _down(amount: Amount, whole: int) -> int:
    return amount if isinstance(amount, int) else _number(amount) * whole // 100


def _number(amount: Amount) -> int:
    """The number that is written, with or without its percent sign. Text without one is refused, and so are fractions."""
    if isinstance(amount, str):
        digits = amount.removesuffix("%")
        if digits == amount or not (digits.isascii() and digits.isdecimal()):
            raise ValueError(f"neither a count nor a whole percentage: {amount!r}")
        return int(digits)
    if isinstance(amount, bool) or amount < 0:
        raise ValueError(f"no count: {amount!r}")
    return amount


class Verdict(StrEnum):
    """Where a rollout stands, in the order in which that is asked."""

    GONE = "gone"  # the object was deleted, or another one has its name now: no success
    MANUAL = "manual"  # pods are replaced when somebody deletes them: neither done nor failed
    NOT_OBSERVED = "not-observed"  # the controller has not seen the newest version; what it says is about an older one
    FAILED = "failed"  # no progress before the deadline. The controller goes on trying all the same
    PAUSED = "paused"  # nothing moves and no deadline runs
    ROLLING = "rolling"
    DONE = "done"


class Step(StrEnum):
    """What a rollout waits for."""

    UPDATED = "updated"  # `have` of `want` pods are new
    OLD = "old"  # `have` old pods are still to go
    AVAILABLE = "available"  # `have` of `want` new pods are available
    READY = "ready"  # `have` of `want` pods are Ready
    REVISION = "revision"  # all pods are new, and the controller has not said so yet
    NONE = ""


class Remark(StrEnum):
    """What is left of a rollout that kubectl calls done."""

    UNREADY = "unready"  # new pods are not Ready: with minReadySeconds 0 one moment of Ready is enough
    UNAVAILABLE = "unavailable"  # fewer are available than wanted, since minReadySeconds have not passed
    TERMINATING = "terminating"  # old pods still stop, and hold their GPUs
    ANSWERING = "answering"  # old pods may still answer requests
    PARTITIONED = "partitioned"  # some keep the old version, as the partition says


class Progress(Struct, frozen=True):
    """The answer of `kubectl rollout status`, as numbers."""

    verdict: Verdict
    step: Step = Step.NONE
    have: int = 0
    want: int = 0


def progress(found: Object | None, uid: str = "") -> Progress:
    """Of an object that is watched; `uid`: the one that the rollout began with, "" any."""
    if found is None or uid not in {"", found.metadata.uid}:
        return Progress(Verdict.GONE)
    match found:
        case Deployment():
            return _deployment(found)
        case StatefulSet():
            return _stateful_set(found)
        case DaemonSet():
            return _daemon_set(found)
        case _:
            raise TypeError(f"{type(found).__name__} has no rollouts")


def _deployment(found: Deployment) -> Progress:
    if found.status.observed_generation < found.metadata.generation:
        return Progress(Verdict.NOT_OBSERVED)
    moving = progressing(found)
    if moving is not None and moving.reason == EXCEEDED:
        return Progress(Verdict.FAILED, *_missing(found))
    step, have, want = _missing(found)
    if step is Step.NONE:
        return Progress(Verdict.DONE, have=have, want=want)
    return Progress(Verdict.PAUSED if found.spec.paused else Verdict.ROLLING, step, have, want)


def _missing(found: Deployment) -> tuple[Step, int, int]:
    wanted, status = found.spec.replicas, found.status
    updated = status.updated_replicas
    if updated < wanted:
        return Step.UPDATED, updated, wanted
    if status.replicas > updated:
        return Step.OLD, status.replicas - updated, 0
    if status.available_replicas < updated:
        return Step.AVAILABLE, status.available_replicas, updated
    return Step.NONE, updated, wanted


def _stateful_set(found: StatefulSet) -> Progress:
    wanted, status = found.spec.replicas, found.status
    if _strategy(found).type != "RollingUpdate":
        return Progress(Verdict.MANUAL, Step.UPDATED, status.updated_replicas, wanted)
    if status.observed_generation == 0 or status.observed_generation < found.metadata.generation:
        return Progress(Verdict.NOT_OBSERVED)
    if status.ready_replicas < wanted:
        return Progress(Verdict.ROLLING, Step.READY, status.ready_replicas, wanted)
    rolling = _strategy(found).rolling_update
    if rolling is None:
        done = status.update_revision == status.current_revision
        return (
            Progress(Verdict.DONE)
            if done
            else Progress(Verdict.ROLLING, Step.REVISION, status.updated_replicas, wanted)
        )
    due = wanted - (rolling.partition or 0)
    if rolling.partition is not None and status.updated_replicas < due:
        return Progress(Verdict.ROLLING, Step.UPDATED, status.updated_replicas, due)
    return Progress(Verdict.DONE, have=status.updated_replicas, want=max(0, due))


def _daemon_set(found: DaemonSet) -> Progress:
    wanted, status = found.status.desired_number_scheduled, found.status
    if _strategy(found).type != "RollingUpdate":
        return Progress(Verdict.MANUAL, Step.UPDATED, status.updated_number_scheduled, wanted)
    if status.observed_generation < found.metadata.generation:
        return Progress(Verdict.NOT_OBSERVED)
    if status.updated_number_scheduled < wanted:
        return Progress(Verdict.ROLLING, Step.UPDATED, status.updated_number_scheduled, wanted)
    if status.number_available < wanted:
        return Progress(Verdict.ROLLING, Step.AVAILABLE, status.number_available, wanted)
    return Progress(Verdict.DONE, have=status.updated_number_scheduled, want=wanted)


def progressing(found: Deployment) -> Condition | None:
    return next((c for c in found.status.conditions if c.type == "Progressing"), None)


def deadline_at(found: Object) -> float | None:
    """When a Deployment's controller gives up unless there is progress. None: no deadline runs."""
    if not isinstance(found, Deployment) or progress(found).verdict is not Verdict.ROLLING:
        return None
    moving, limit_s = progressing(found), found.spec.progress_deadline_seconds
    if moving is None or moving.status != "True" or moving.reason == THROUGH or limit_s >= NO_DEADLINE:
        return None
    moved_at = seconds(moving.last_update_time)
    return None if moved_at is None else moved_at + limit_s
