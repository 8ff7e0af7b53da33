"""Pods that work together: none of them goes on without the others.

Owns which pods those are. Must not judge what their stop costs.
"""

from collections.abc import Iterable

from fleet.domain.capacity import finished
from fleet.domain.facts import Facts, gpus, trains
from fleet.domain.objects import LabelSelector
from fleet.domain.specs import FullPod
from fleet.domain.training import GANG, KINDS


def gang(known: Facts, pod: FullPod) -> list[FullPod]:
    """The other unfinished pods of the same job. Only those of kinds whose pods work together, and of training pods at all."""
    if not trains(known, pod):
        return []
    owner = known.owners.get(pod.metadata.uid)
    if owner is not None and owner.kind in {*KINDS, "StatefulSet"}:
        found: Iterable[FullPod] = known.of_owner[owner.key]
    else:
        mine = {name: pod.metadata.labels[name] for name in GANG if name in pod.metadata.labels}
        near = known.labelled.near(LabelSelector(mine), (pod.metadata.namespace,)) if mine else ()
        found = (other for other in near if mine.items() <= other.metadata.labels.items())
    return [other for other in found if other.metadata.uid != pod.metadata.uid and not finished(other)]


def gang_gpus(known: Facts, pod: FullPod) -> int:
    """GPUs of the other pods that stop when this one does: all ranks of its job."""
    return sum(gpus(other) for other in gang(known, pod))
