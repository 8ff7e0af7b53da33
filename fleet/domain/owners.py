"""Who owns a pod: the chain of controllers from a pod up to its workload.

Owns the climb Pod → ReplicaSet → Deployment and its like, with owners of kinds that we do not watch. Must not build rows.
"""

from collections.abc import Callable

from msgspec import Struct

from fleet.domain.objects import Object, Pod, ReplicaSet

# The longest real chain is Pod, ReplicaSet, Deployment and one more; the bound makes a loop of references harmless.
LONGEST_CHAIN = 5

Find = Callable[[str], Object | None]


class Ownership(Struct, frozen=True):
    """The top owner, and all references whose objects this answer depends on."""

    workload: str = ""  # key of the workload, "" for a bare or a mirror pod
    kind: str = ""
    name: str = ""
    object: Object | None = None  # None when its kind is not watched or it is not there
    references: tuple[str, ...] = ()


def reference(kind: str, namespace: str, name: str) -> str:
    """The key of a workload: "Deployment/chat/llm"."""
    return f"{kind}/{namespace}/{name}"


def ownership(pod: Pod, find: Find) -> Ownership:
    """The highest owner of the pod that we can know; `find` gives the object of a reference, None when unknown.

    A pod's own controller counts even when its kind is not watched (PyTorchJob), and so does a ReplicaSet's (Rollout). Above any
    other controller only a known object counts: a Job is a workload of its own, whatever CronJob made it. An object with another
    uid than the reference names is a later namesake, not the owner.
    """
    top = Ownership()
    current: Object = pod
    references: list[str] = []
    while (owner := current.controller) and len(references) < LONGEST_CHAIN:
        key = reference(owner.kind, pod.metadata.namespace, owner.name)
        references.append(key)
        found = find(key)
        known = found if found is not None and owner.uid in {"", found.metadata.uid} else None
        if known is None and not isinstance(current, Pod | ReplicaSet):
            break
        top = Ownership("" if owner.kind == "Node" else key, owner.kind, owner.name, known)
        if known is None:
            break
        current = known
    return Ownership(top.workload, top.kind, top.name, top.object, tuple(references))
