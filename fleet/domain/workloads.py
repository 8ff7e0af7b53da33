"""A workload as a row: what owns pods, how many it wants, has and serves.

Owns how each kind of controller counts its replicas. Must not know nodes.
"""

from collections.abc import Iterable, Sequence

from msgspec import structs

from fleet.domain import budgets, capacity, machines
from fleet.domain.objects import (
    Budget,
    Condition,
    DaemonSet,
    Deployment,
    Job,
    Object,
    Pod,
    PodTemplate,
    ReplicaSet,
    StatefulSet,
    seconds,
)
from fleet.domain.picture import PodRow, WorkloadRow
from fleet.domain.pods import is_ready, is_starting

REVISION = "deployment.kubernetes.io/revision"

Placed = tuple[Pod, PodRow]


def workload_row(
    key: str, found: Object | None, placed: Sequence[Placed], rules: Iterable[Budget]
) -> WorkloadRow | None:
    """The row of workload `key`; `found` is its object, None when its kind is not watched; `rules`: budgets of its namespace.

    None when there is nothing to show: no object and no pods, or a finished Job, or a ReplicaSet of nothing, without pods.
    """
    if not placed and (found is None or _is_over(found)):
        return None
    kind, namespace, name = key.split("/", 2)
    row = WorkloadRow(kind, namespace, name) if found is None else _counted(found, WorkloadRow(kind, namespace, name))
    row = structs.replace(
        _from_pods(row, placed) if found is None else row,
        starting=sum(_is_starting(*one) for one in placed),
        progressing=_is_progressing(found),
        team=_team(found, placed),
        gpus_per_pod=_gpus_per_pod(found, placed),
        gpus=sum(row.gpus for pod, row in placed if capacity.counted(pod)),
        budgets=_budgets(found, placed, rules),
    )
    return structs.replace(row, short_since_at=_short_since_at(found, row, placed)) if is_short(row) else row


def template(found: Object | None) -> PodTemplate | None:
    """The pod template of a controller of a watched kind."""
    match found:
        case Deployment() | ReplicaSet() | StatefulSet() | DaemonSet() | Job():
            return found.spec.template
        case _:
            return None


def is_short(row: WorkloadRow) -> bool:
    """Whether a workload that wants GPUs has fewer pods available than it wants; never where its kind does not say."""
    return (
        row.gpus_per_pod > 0 and row.desired is not None and row.available is not None and row.available < row.desired
    )


def _is_over(found: Object) -> bool:
    match found:
        case Job():
            return _is_finished(found)
        case ReplicaSet():
            return found.spec.replicas == 0 and found.status.replicas == 0
        case _:
            return False


def _is_finished(job: Job) -> bool:
    return any(c.type in {"Complete", "Failed"} and c.status == "True" for c in job.status.conditions)


def _counted(found: Object, row: WorkloadRow) -> WorkloadRow:
    """The numbers of the controller's own status."""
    row = structs.replace(row, created_at=seconds(found.metadata.creation_timestamp))
    match found:
        case Deployment():
            return structs.replace(
                row,
                desired=found.spec.replicas,
                current=found.status.replicas,
                updated=found.status.updated_replicas,
                ready=found.status.ready_replicas,
                available=found.status.available_replicas,
                revision=found.metadata.annotations.get(REVISION, ""),
                paused=found.spec.paused,
            )
        case StatefulSet():
            return structs.replace(
                row,
                desired=found.spec.replicas,
                current=found.status.replicas,
                updated=found.status.updated_replicas,
                ready=found.status.ready_replicas,
                available=found.status.available_replicas,
                revision=found.status.update_revision,
            )
        case DaemonSet():
            return structs.replace(
                row,
                desired=found.status.desired_number_scheduled,
                current=found.status.current_number_scheduled,
                updated=found.status.updated_number_scheduled,
                ready=found.status.number_ready,
                available=found.status.number_available,
            )
        case Job():
            return structs.replace(
                row,
                desired=_job_desired(found),
                current=found.status.active,
                ready=found.status.ready,
                paused=found.spec.suspend,
            )
        case ReplicaSet():
            return structs.replace(
                row,
                desired=found.spec.replicas,
                current=found.status.replicas,
                ready=found.status.ready_replicas,
                available=found.status.available_replicas,
                revision=found.metadata.annotations.get(REVISION, ""),
            )
        case _:
            raise TypeError(f"{type(found).__name__} is no workload")


def _is_progressing(found: Object | None) -> bool:
    """Whether a controller has not seen its last change yet, or a Deployment's rollout goes on within its deadline.

    Reason NewReplicaSetAvailable means that the last rollout is through; scaling does not change it.
    """
    match found:
        case Deployment() | ReplicaSet() | StatefulSet() | DaemonSet():
            behind = found.status.observed_generation < found.metadata.generation
            return behind or (isinstance(found, Deployment) and _is_rolling(found))
        case _:
            return False


def _is_rolling(found: Deployment) -> bool:
    progress = _condition(found, "Progressing")
    return progress is not None and progress.status == "True" and progress.reason != "NewReplicaSetAvailable"


def _is_starting(pod: Pod, row: PodRow) -> bool:
    return is_starting(row) and not is_ready(pod) and not capacity.finished(pod)


def _short_since_at(found: Object | None, row: WorkloadRow, placed: Sequence[Placed]) -> float | None:
    """What a Deployment's conditions say; else its newest pod that is not Ready tells, else its own age."""
    told = _told_short_since_at(found) if isinstance(found, Deployment) else None
    if told is not None:
        return told
    lacking = (one.created_at for pod, one in placed if not is_ready(pod) and not capacity.finished(pod))
    return max((at for at in lacking if at is not None), default=row.created_at)


def _told_short_since_at(found: Deployment) -> float | None:
    available, progress = _condition(found, "Available"), _condition(found, "Progressing")
    if available is not None and available.status == "False":
        return seconds(available.last_transition_time)
    if progress is not None and progress.reason != "NewReplicaSetAvailable":
        return seconds(progress.last_update_time or progress.last_transition_time)
    return None


def _condition(found: Deployment, name: str) -> Condition | None:
    return next((c for c in found.status.conditions if c.type == name), None)


def _job_desired(job: Job) -> int:
    """Pods that a Job wants at once: its parallelism, at most what is left to complete, none when suspended or finished."""
    if job.spec.suspend or _is_finished(job):
        return 0
    if job.spec.completions is None:
        return job.spec.parallelism
    return max(0, min(job.spec.parallelism, job.spec.completions - job.status.succeeded))


def _from_pods(row: WorkloadRow, placed: Sequence[Placed]) -> WorkloadRow:
    """An owner of a kind that we do not watch: what its pods say."""
    alive = [pod for pod, _ in placed if not capacity.finished(pod)]
    return structs.replace(row, current=len(alive), ready=sum(map(is_ready, alive)))


def _team(found: Object | None, placed: Sequence[Placed]) -> str:
    own = machines.first(found.metadata.labels, machines.TEAM) if found else ""
    return own or min((row.team for _, row in placed if row.team), default="")


def _gpus_per_pod(found: Object | None, placed: Sequence[Placed]) -> int:
    shape = template(found)
    if shape is not None:
        return sum(capacity.effective_requests(shape.spec).values())
    return max((row.gpus for _, row in placed), default=0)


def _budgets(found: Object | None, placed: Sequence[Placed], rules: Iterable[Budget]) -> tuple[str, ...]:
    shape = template(found)
    if shape is not None:
        return budgets.selecting(rules, shape.metadata.labels)
    return tuple(sorted({name for _, row in placed for name in row.budgets}))
