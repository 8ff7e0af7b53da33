"""How far a pod is on its way: from waiting for a node to Ready, and out again.

Owns the stages and the moments that a pod's conditions tell. Reads conditions and container states alone, never how much time has
passed. Must not know whether a stage takes too long, nor why: `holdups` does.
"""

from enum import StrEnum

from fleet.domain.capacity import finished
from fleet.domain.objects import Condition, ContainerStatus, Pod, seconds

IMAGE_TROUBLE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
    "SignatureValidationFailed",
})  # fmt: skip


class Stage(StrEnum):
    """In the order in which a pod goes through them."""

    PLACING = "placing"  # no node yet
    PULLING = "pulling"  # its node fetches what it needs (volumes, network, image): kubelets do not tell these apart
    STARTING = "starting"  # its image is there, not all of its containers run
    WARMING_UP = "warming-up"  # its containers run; startup or readiness probes do not pass yet, or no longer
    READY = "ready"
    STOPPING = "stopping"  # asked to go; it holds its GPUs to the end
    ENDED = "ended"  # its containers are through: it holds nothing


ON_ITS_WAY = frozenset({Stage.PULLING, Stage.STARTING, Stage.WARMING_UP})


def stage(pod: Pod) -> Stage:
    if finished(pod):
        return Stage.ENDED
    if pod.metadata.deletion_timestamp is not None:
        return Stage.STOPPING
    if not pod.spec.node_name:
        return Stage.PLACING
    if _is_true(pod, "Ready"):
        return Stage.READY
    statuses = pod.status.container_statuses
    if statuses and all(status.state.running is not None for status in statuses):
        return Stage.WARMING_UP
    return Stage.STARTING if _has_image(pod) else Stage.PULLING


def ready_at(pod: Pod) -> float | None:
    """Since when it has been Ready; None while it is not."""
    found = _condition(pod, "Ready")
    return seconds(found.last_transition_time) if found is not None and found.status == "True" else None


def _condition(pod: Pod, name: str) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == name), None)


def _is_true(pod: Pod, name: str) -> bool:
    found = _condition(pod, name)
    return found is not None and found.status == "True"


def _has_image(pod: Pod) -> bool:
    """Whether some container has got further than its image. Init containers run before the images of the others are fetched."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    if any(_waiting(status) in IMAGE_TROUBLE for status in statuses):
        return False
    return any(_has_run(status) for status in statuses)


def _has_run(status: ContainerStatus) -> bool:
    state = status.state
    if state.running is not None or state.terminated is not None or status.restart_count > 0:
        return True
    return _waiting(status) not in {"", "ContainerCreating", "PodInitializing"}


def _waiting(status: ContainerStatus) -> str:
    return status.state.waiting.reason if status.state.waiting else ""
