"""A pod as a row: the status word that kubectl shows, its level, what it holds.

Owns how one pod reads. Must not know nodes or the other pods.
"""

from collections.abc import Mapping

from fleet.domain import capacity, machines, stages, training
from fleet.domain.objects import Condition, ContainerStatus, Pod, Terminated, seconds
from fleet.domain.owners import Ownership
from fleet.domain.picture import PodRow

MIRROR = "kubernetes.io/config.mirror"
# Labels by which controllers tell the versions of their template apart.
DEPLOYMENT_HASH, CONTROLLER_HASH = "pod-template-hash", "controller-revision-hash"

# Words of waiting that pass by themselves; every other waiting word is trouble.
STARTING = frozenset({"ContainerCreating", "PodInitializing", "Pending"})


def pod_row(pod: Pod, owner: Ownership, requests: Mapping[str, int], budgets: tuple[str, ...]) -> PodRow:
    meta, spec = pod.metadata, pod.spec
    scheduled = _condition(pod, "PodScheduled")
    bound = bool(spec.node_name)
    ready, containers = ready_containers(pod)
    held_up = scheduled is not None and scheduled.status == "False" and not bound
    return PodRow(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        node=spec.node_name,
        status=status_word(pod),
        level=level(pod),
        ready=ready,
        containers=containers,
        restarts=restarts(pod),
        gpus=sum(requests.values()),
        resources=tuple(sorted(requests.items())),
        product=machines.product_name(spec.node_selector),
        workload=owner.workload,
        owner_kind=owner.kind,
        owner_name=owner.name,
        team=team(pod, owner),
        budgets=budgets,
        grace_s=spec.termination_grace_period_seconds,
        empty_dir=any(volume.empty_dir is not None for volume in spec.volumes),
        saves=training.declares(pod),
        daemon=owner.kind == "DaemonSet",
        mirror=MIRROR in meta.annotations,
        claims=len(spec.resource_claims),
        waiting_reason=scheduled.reason if scheduled and held_up else "",
        waiting_message=scheduled.message if scheduled and held_up else "",
        created_at=seconds(meta.creation_timestamp),
        bound_at=seconds(scheduled.last_transition_time) if scheduled and bound else None,
        terminating_at=seconds(meta.deletion_timestamp),
        stage=stages.stage(pod).value,
        template=meta.labels.get(DEPLOYMENT_HASH) or meta.labels.get(CONTROLLER_HASH, ""),
        ready_at=stages.ready_at(pod),
    )


def team(pod: Pod, owner: Ownership) -> str:
    """From the pod's labels, else from its workload's."""
    found = machines.first(pod.metadata.labels, machines.TEAM)
    return found or (machines.first(owner.object.metadata.labels, machines.TEAM) if owner.object else "")


def by_age(row: PodRow) -> tuple[float, str, str]:
    """Sorts rows: the oldest first, unknown age last, ties by name."""
    return row.created_at if row.created_at is not None else float("inf"), row.namespace, row.name


def ready_after_s(row: PodRow) -> float | None:
    """From a pod's creation to Ready, warm-up included. None while it is not Ready, and for one whose containers started again:
    that would tell of something else."""
    if row.created_at is None or row.ready_at is None or row.ready_at < row.created_at or row.restarts:
        return None
    return row.ready_at - row.created_at


def is_ready(pod: Pod) -> bool:
    condition = _condition(pod, "Ready")
    return condition is not None and condition.status == "True"


def is_starting(row: PodRow) -> bool:
    """Whether a pod that is not Ready may just need time: bound, not ending, and nothing in it has failed or started again."""
    return bool(row.node) and row.terminating_at is None and row.level != "bad" and not row.restarts


def status_word(pod: Pod) -> str:
    """The STATUS column of `kubectl get pods` (printPod of kubernetes/pkg/printers/internalversion/printers.go)."""
    word = pod.status.reason or pod.status.phase
    if any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in pod.status.conditions):
        word = "SchedulingGated"
    initialising = _init_word(pod)
    if initialising:
        word = initialising
    if not initialising or _is_initialised(pod):
        word = _containers_word(pod, word)
    if pod.metadata.deletion_timestamp is not None:
        if pod.status.reason == "NodeLost":
            return "Unknown"
        if not capacity.finished(pod):
            return "Terminating"
    return word


def level(pod: Pod) -> str:
    """How the row is coloured: drain while it ends, bad for a failure, warn for not ready, "" while it starts or after it."""
    if pod.metadata.deletion_timestamp is not None and not capacity.finished(pod):
        return "drain"
    if pod.status.phase == "Succeeded":
        return ""
    if pod.status.phase == "Failed" or _is_trouble(pod):
        return "bad"
    if not pod.spec.node_name:
        return "warn"
    if pod.status.phase == "Running" and not _is_starting(pod):
        return "ok" if is_ready(pod) else "warn"
    return ""


def ready_containers(pod: Pod) -> tuple[int, int]:
    """The READY column: (ready and running, all), sidecars included."""
    sidecars = _sidecars(pod)
    ready = sum(s.ready and s.state.running is not None for s in pod.status.container_statuses)
    ready += sum(s.ready and s.started for s in pod.status.init_container_statuses if s.name in sidecars)
    return ready, len(pod.spec.containers) + len(sidecars)


def restarts(pod: Pod) -> int:
    """The RESTARTS column: of init containers while they run, of containers and sidecars after that."""
    initial = pod.status.init_container_statuses
    if _init_word(pod) and not _is_initialised(pod):
        return sum(status.restart_count for status in initial)
    sidecars = _sidecars(pod)
    return sum(s.restart_count for s in pod.status.container_statuses) + sum(
        s.restart_count for s in initial if s.name in sidecars
    )


def _init_word(pod: Pod) -> str:
    """What the first init container that is not through says, "" when all are through."""
    sidecars = _sidecars(pod)
    for i, status in enumerate(pod.status.init_container_statuses):
        state = status.state
        if (state.terminated and state.terminated.exit_code == 0) or (status.name in sidecars and status.started):
            continue
        if state.terminated:
            return f"Init:{_ending(state.terminated)}"
        if state.waiting and state.waiting.reason not in {"", "PodInitializing"}:
            return f"Init:{state.waiting.reason}"
        return f"Init:{i}/{len(pod.spec.init_containers)}"
    return ""


def _containers_word(pod: Pod, word: str) -> str:
    """The first container that waits or has ended speaks for the pod."""
    running = False
    for status in reversed(pod.status.container_statuses):
        if status.state.waiting and status.state.waiting.reason:
            word = status.state.waiting.reason
        elif status.state.terminated:
            word = _ending(status.state.terminated)
        elif status.ready and status.state.running:
            running = True
    if word == "Completed" and running:
        return "Running" if is_ready(pod) else "NotReady"
    return word


def _ending(ended: Terminated) -> str:
    return ended.reason or (f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}")


def _sidecars(pod: Pod) -> frozenset[str]:
    return frozenset(c.name for c in pod.spec.init_containers if c.restart_policy == "Always")


def _is_initialised(pod: Pod) -> bool:
    condition = _condition(pod, "Initialized")
    return condition is not None and condition.status == "True"


def _is_trouble(pod: Pod) -> bool:
    """Some container waits for something that does not come by itself, or has failed for good."""
    return any(
        _waits_in_vain(status) or (status.state.terminated is not None and status.state.terminated.exit_code != 0)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _waits_in_vain(status: ContainerStatus) -> bool:
    waiting = status.state.waiting
    return waiting is not None and waiting.reason not in STARTING | {""}


def _is_starting(pod: Pod) -> bool:
    """Some container is still being created; a container that runs and is not ready is not that."""
    return any(s.state.waiting is not None for s in pod.status.container_statuses)


def _condition(pod: Pod, name: str) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == name), None)
