"""Pods that work together: none of them goes on without the others.

Owns which pods those are. Must not judge what their stop costs.
"""

from collections.abc import Iterable
from typing import Final

from fleet.domain.capacity import finished
from fleet.domain.facts import Facts, gpus, trains
from fleet.domain.objects import LabelSelector
from fleet.domain.specs import FullPod
from fleet.domain.training import KINDS, declares, gang_labels

# Several pods of one of these at a time may as well be runs of their own, as in a sweep; nothing in them tells, so all count.
PERHAPS: Final = frozenset({"StatefulSet", "Job"})


def gang(known: Facts, pod: FullPod) -> list[FullPod]:
    """The other unfinished pods that stop with a training pod: those of the same job, by its controller or by the labels of a job
    that has several. A Deployment's only where somebody has said that it trains."""
    if not trains(known, pod):
        return []
    found = {other.metadata.uid: other for other in (*_of_controller(known, pod), *_of_labels(known, pod))}
    return [other for uid, other in found.items() if uid != pod.metadata.uid and not finished(other)]


def _of_controller(known: Facts, pod: FullPod) -> Iterable[FullPod]:
    owner = known.owners.get(pod.metadata.uid)
    if owner is None or not (owner.kind in KINDS | PERHAPS or declares(pod)):
        return ()
    return known.of_owner[owner.key]


def _of_labels(known: Facts, pod: FullPod) -> Iterable[FullPod]:
    mine = gang_labels(pod)
    near = known.labelled.near(LabelSelector(mine), (pod.metadata.namespace,)) if mine else ()
    return (other for other in near if mine.items() <= other.metadata.labels.items())


def gang_gpus(known: Facts, pod: FullPod) -> int:
    """GPUs of the other pods that stop when this one does: all ranks of its job."""
    return sum(gpus(other) for other in gang(known, pod))
