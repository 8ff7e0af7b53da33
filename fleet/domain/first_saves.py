"""Saving first: which workloads can be asked for a checkpoint before their pods go, and which of their pods is asked.

Owns what has to be so for that: a hook that can be read, a policy that allows its way in, and somebody who can tell that the
checkpoint is complete. Must not ask anybody.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

from fleet.domain import training
from fleet.domain.capacity import finished
from fleet.domain.facts import Facts, trains, workload
from fleet.domain.gangs import gang
from fleet.domain.plans import Save
from fleet.domain.specs import FullPod
from fleet.domain.training import HOOK


class Cannot(StrEnum):
    """Why a workload cannot be asked to save first."""

    UNDECLARED = "undeclared"
    UNREADABLE = "unreadable"  # its annotation means nothing
    EXEC_OFF = "exec-off"  # the policy lets nobody send signals in its namespace
    UNPROVED = "unproved"  # no store can be read that would show the checkpoint


def obstacle(facts: Facts, pod: FullPod) -> Cannot | None:
    """What stands against asking the pod; None: it may be asked, and its checkpoint will be seen."""
    if not text(pod):
        return Cannot.UNDECLARED
    hook = training.hook_of(pod)
    if hook is None:
        return Cannot.UNREADABLE
    if hook.signal is not None and pod.metadata.namespace not in facts.policy.checkpoints.exec:
        return Cannot.EXEC_OFF
    return None if _shows(facts, pod) else Cannot.UNPROVED


def text(pod: FullPod) -> str:
    """The hook as its team declares it."""
    return pod.metadata.annotations.get(HOOK, "").strip()


def _shows(facts: Facts, pod: FullPod) -> bool:
    """Whether a checkpoint that comes would be seen: in a store that was read just now, or in a report that the policy trusts."""
    uid = pod.metadata.uid
    if uid not in facts.trainings:
        return False
    if workload(facts, pod) in facts.policy.checkpoints.reported:
        return True
    if uid in facts.saved:
        return not facts.saved[uid].reported
    return uid in facts.unsaved and facts.unsaved[uid].why in {"none", "clock"}


def saves(facts: Facts, ending: Iterable[FullPod]) -> tuple[Save, ...]:
    """Whom to ask so that the training pods of `ending` lose little: each job once, at its first pod by name."""
    pods = [pod for pod in ending if trains(facts, pod) and not finished(pod)]
    found: list[Save] = []
    for pod in pods:
        covered = any(pod.metadata.uid in save.pods or workload(facts, pod) == save.workload for save in found)
        if not covered and obstacle(facts, pod) is None:
            found.append(_save(facts, pod, pods))
    return tuple(found)


def _save(facts: Facts, pod: FullPod, ending: Iterable[FullPod]) -> Save:
    """Asked is the first rank, wherever it runs, if it declares the same hook. It covers the ranks that save where it is looked:
    one that saves elsewhere may save by itself, and its checkpoint would not be seen."""
    key = workload(facts, pod)
    others = {one.metadata.uid: one for one in (*facts.of_owner.get(key, ()), *gang(facts, pod)) if not finished(one)}
    together = {**others, pod.metadata.uid: pod}
    first = min((one for one in together.values() if text(one) == text(pod)), key=_rank).metadata
    where = facts.trainings[pod.metadata.uid]
    mine = tuple(
        uid for uid in (one.metadata.uid for one in ending) if uid in together and _at(facts, uid) == where.uri
    )
    return Save(key, first.namespace, first.name, first.uid, text(pod), where, mine)


def _at(facts: Facts, uid: str) -> str | None:
    return facts.trainings[uid].uri if uid in facts.trainings else None


def _rank(pod: FullPod) -> tuple[tuple[int, int | str], ...]:
    """Names in the order in which people count: trainer-2 before trainer-10, a master before a worker."""
    parts = re.split(r"(\d+)", pod.metadata.name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
