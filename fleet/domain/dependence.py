"""What rows take from objects beside their own: only when that changes, they are made anew.

Owns which part of an object counts for whom. Must not make rows.
"""

from collections.abc import Hashable

from fleet.domain import capacity, machines
from fleet.domain.objects import Object, Pod
from fleet.domain.owners import reference
from fleet.domain.picture import PodRow
from fleet.domain.pods import is_ready, is_starting
from fleet.domain.stages import ON_ITS_WAY

HandedUp = tuple[Hashable, ...]


def place(row: PodRow | None) -> tuple[str, str] | None:
    return None if row is None else (row.node, row.uid)


def handed_up(pod: Pod | None, row: PodRow | None) -> HandedUp | None:
    """What the node and the workload of a pod take from it; restart counts and status words, which change most, are not."""
    if pod is None or row is None:
        return None
    state = (capacity.finished(pod), is_ready(pod), is_starting(row))
    course = (
        row.uid,
        row.stage,
        row.template,
        row.ready_at,
        row.waiting_message,
        row.restarts > 0,
        _struggle(pod, row),
    )
    return row.node, row.workload, row.owner_name, row.resources, row.team, row.budgets, state, course


def _struggle(pod: Pod, row: PodRow) -> Hashable:
    """What a pod on its way says of its containers; a rollout tells why it is held up from that."""
    if row.stage not in ON_ITS_WAY:
        return None
    return pod.status.container_statuses, pod.status.init_container_statuses


def deployments(found: Object | None) -> tuple[str, ...]:
    """The Deployment of a ReplicaSet."""
    owner = found.controller if found is not None else None
    if found is None or owner is None or owner.kind != "Deployment":
        return ()
    return (reference(owner.kind, found.metadata.namespace, owner.name),)


def handed_down(owner: Object | None) -> object:
    """What pods take from an object above them: its identity, its own controller, its team."""
    if owner is None:
        return None
    return owner.metadata.uid, owner.controller, machines.first(owner.metadata.labels, machines.TEAM)
