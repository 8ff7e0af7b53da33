"""What emptying a node would do to the pods on it: who goes, in which order, where to, and what is lost with each.

Owns the draft of a drain, on which guards and plan stand, and the loss of each pod. Must not judge whether it is acceptable.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from fleet.domain import draining, facts, first_saves, plans
from fleet.domain.budgets import Outlook, outlook
from fleet.domain.capacity import finished, waiting
from fleet.domain.draining import Options, Selection
from fleet.domain.facts import EMPTYING, REBOOTS, SCRATCH, Facts, gpus, saved, serves, trains
from fleet.domain.gangs import gang, gang_gpus
from fleet.domain.gpus import NA, Measure
from fleet.domain.machines import TEAM, first
from fleet.domain.plans import Loss, PodLoss, Save, Scratch
from fleet.domain.scheduling import Place, Placement, Unfit
from fleet.domain.specs import FullPod

CRITICAL_PRIORITY = 2_000_000_000  # system-cluster-critical and above
# Somebody has written on the pod that it must not be disturbed; the value that says so.
DO_NOT_DISRUPT = {
    "vigie.dev/do-not-disrupt": "true",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}


class Draft(Struct, frozen=True, dict=True):
    """A drain of `facts.target` as it would go. Everything follows from the facts."""

    facts: Facts

    @cached_property
    def selection(self) -> Selection:
        """Who would go if everything were accepted: what nobody accepted is a guard's business."""
        if self.facts.ending is not None:  # no drain: their own controller ends them
            return Selection(self.facts.target_pods, {}, {})
        accepted = Options(empty_dir=True, unmanaged=True)
        return draining.select(self.facts.target_pods, self.facts.daemon_sets, accepted, self.facts.now)

    @cached_property
    def blockers(self) -> Mapping[str, draining.Blocker]:
        """What kubectl would refuse without being told to, by pod UID."""
        return draining.select(self.facts.target_pods, self.facts.daemon_sets, Options(), self.facts.now).blockers

    @cached_property
    def going(self) -> tuple[FullPod, ...]:
        """The pods that would be evicted, in order: what costs least first, so that a drain that is stopped has cost least."""
        chosen = {pod.metadata.uid for pod in self.selection.evict}
        found = [pod for pod in self.facts.target_pods if pod.metadata.uid in chosen]
        return tuple(sorted(found, key=lambda pod: (_turn(self.facts, pod), pod.key)))

    @cached_property
    def _placement(self) -> tuple[dict[str, str], dict[str, Counter[Unfit]]]:
        """Every controlled pod's new node. Nodes that another action empties take nobody, and their pods, like those that the
        scheduler has not looked at yet, need room as well."""
        if self.facts.ending is not None:
            return {}, {}
        emptied = {self.facts.target, *(other.target for other in self.facts.running)}
        by_node: dict[str, list[FullPod]] = {}
        for pod in self.facts.pods:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
        places = [
            Place(node, by_node.get(node.metadata.name, ()), degraded=node.metadata.name in self.facts.degraded)
            for node in self.facts.nodes
            if node.metadata.name not in emptied
        ]
        placement = Placement(places, self.facts.claims, self.facts.storage)
        placement.place_all([pod for pod in self.facts.pods if _new(pod)])
        for other in self.facts.running:
            if other.kind in EMPTYING and other.target != self.facts.target:
                placement.place_all(self._leaving(by_node.get(other.target, ())))
        return placement.place_all([pod for pod in self.going if comes_back(pod)])

    def _leaving(self, pods: Sequence[FullPod]) -> list[FullPod]:
        """Those that another action moves, and whose replacements are not there yet."""
        accepted = Options(empty_dir=True, unmanaged=True)
        chosen = {
            pod.metadata.uid for pod in draining.select(pods, self.facts.daemon_sets, accepted, self.facts.now).evict
        }
        return [pod for pod in pods if pod.metadata.uid in chosen and comes_back(pod) and not _followed(pod)]

    @property
    def placed(self) -> Mapping[str, str]:
        return self._placement[0]

    @property
    def unplaced(self) -> Mapping[str, Counter[Unfit]]:
        return self._placement[1]

    @cached_property
    def outlook(self) -> Outlook:
        return outlook(self.going, self.facts.over, self.facts.allowances, self.placed.keys())

    @cached_property
    def staying(self) -> tuple[FullPod, ...]:
        """The pods that no drain moves, and that a reboot ends all the same."""
        return tuple(pod for pod in self.facts.target_pods if pod.metadata.uid in self.selection.stay)

    @property
    def ending(self) -> tuple[FullPod, ...]:
        """The pods that end: those that go, and with a reboot all others as well."""
        return (*self.going, *(self.staying if self.facts.kind in REBOOTS else ()))

    @cached_property
    def saves(self) -> tuple[Save, ...]:
        """The workloads that are asked to save first, if whoever asks wants that."""
        return first_saves.saves(self.facts, self.ending) if self.facts.save_first else ()

    @cached_property
    def loss(self) -> Loss:
        pods = tuple(_pod_loss(self, pod) for pod in self._shown())
        return _total(pods, _jobs_work_s(self, pods), _gpu_hours(self))

    def _shown(self) -> Sequence[FullPod]:
        """Those that go in their order, then those that stay."""
        gone = {pod.metadata.uid for pod in self.going}
        return (*self.going, *(pod for pod in self.facts.target_pods if pod.metadata.uid not in gone))


def _new(pod: FullPod) -> bool:
    """Whether the scheduler has still to look for a node for it. What it found none for takes no room."""
    tried = any(
        c.type == "PodScheduled" and c.reason in {"Unschedulable", "SchedulingGated"} for c in pod.status.conditions
    )
    return waiting(pod) and not tried


def _followed(pod: FullPod) -> bool:
    """A ReplicaSet makes the next pod as soon as one is going."""
    return (
        pod.metadata.deletion_timestamp is not None
        and pod.controller is not None
        and pod.controller.kind == "ReplicaSet"
    )


def comes_back(pod: FullPod) -> bool:
    """Whether its controller makes another pod in its place."""
    return pod.controller is not None and not finished(pod)


def _turn(known: Facts, pod: FullPod) -> int:
    if finished(pod):
        return 0
    if (pod.spec.priority or 0) >= CRITICAL_PRIORITY:
        return 4
    if trains(known, pod):
        return 3
    return 2 if serves(known, pod) else 1


def _pod_loss(draft: Draft, pod: FullPod) -> PodLoss:
    known, uid = draft.facts, pod.metadata.uid
    owner, stays = known.owners.get(uid), draft.selection.stay.get(uid) or draft.selection.blockers.get(uid)
    newest, unsaved = saved(known, pod), known.unsaved.get(uid)
    training, done = trains(known, pod), finished(pod)
    over = known.over.get(uid, ())
    allowances = [known.allowances[budget.key] for budget in over]
    return PodLoss(
        uid=uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        owner_kind=owner.kind if owner else "",
        owner_name=owner.name if owner else "",
        team=first(pod.metadata.labels, TEAM),
        gpus=gpus(pod),
        training=training,
        serving=serves(known, pod),
        work_s=NA if done or not training or stays else _work_s(known, pod),
        steps=NA if done or not training or stays else _steps(known, pod),
        requests=_requests(known, pod) if not (done or stays) else NA,
        warm_up_s=known.warm_up_s.get(owner.key) if owner and serves(known, pod) else NA,
        scratch=() if stays else _scratch(known, pod),
        caches=_caches(known, pod),
        gang_gpus=0 if done or stays else gang_gpus(known, pod),
        grace_s=pod.spec.termination_grace_period_seconds,
        budgets=tuple(sorted(budget.metadata.name for budget in over)),
        available=owner.ready if owner else None,
        needed=max((found.desired for found in allowances), default=None),
        comes_back_on=draft.placed.get(uid, ""),
        evicted=stays is None,
        stays_because=stays.value if stays else "",
        saved_at=newest.at if newest else None,
        saved_step=newest.step if newest else None,
        saved_uri=newest.uri if newest else "",
        reported=newest is not None and newest.reported,
        unsaved=unsaved.why if unsaved and training and not newest else "",
        hook=first_saves.text(pod) if training and first_saves.obstacle(known, pod) is None else "",
    )


def _work_s(known: Facts, pod: FullPod) -> Measure:
    newest = saved(known, pod)
    return None if newest is None else max(0.0, known.now - newest.lost_since_at)


def _steps(known: Facts, pod: FullPod) -> Measure:
    """By the pace between its saves, rounded up; unknown where its saves tell none."""
    newest, work_s = saved(known, pod), _work_s(known, pod)
    if newest is None or not newest.step_s or not isinstance(work_s, int | float):
        return None
    return math.ceil(work_s / newest.step_s)


def _requests(known: Facts, pod: FullPod) -> Measure:
    """NA only for a pod that serves nobody; one that serves without a metric has an unknown number in flight, never none."""
    return known.in_flight.get(pod.metadata.uid) if serves(known, pod) else NA


def _scratch(known: Facts, pod: FullPod) -> tuple[Scratch, ...]:
    named = pod.metadata.annotations.get(SCRATCH, "")
    declared = {name.strip() for name in named.split(",")}
    return tuple(
        Scratch(
            volume.name,
            known.scratch_bytes.get(f"{pod.metadata.uid}/{volume.name}"),
            in_memory=(volume.empty_dir or {}).get("medium") == "Memory",
            declared="*" in declared or volume.name in declared,
        )
        for volume in pod.spec.volumes
        if volume.empty_dir is not None or volume.ephemeral is not None  # a claim that is made and deleted with its pod
    )


def _caches(known: Facts, pod: FullPod) -> tuple[str, ...]:
    """What has to be warm again elsewhere: emptyDir volumes that call themselves caches, and sessions pinned by a Service."""
    found = [v.name for v in pod.spec.volumes if v.empty_dir is not None and "cache" in v.name.lower()]
    pinned = any(service.spec.session_affinity == "ClientIP" for service in facts.selecting(known, pod))
    return (*sorted(found), *(("sessions",) if pinned else ()))


def _gpu_hours(draft: Draft) -> Measure:
    """Each GPU of a gang once, however many of its ranks are on the node."""
    spent: dict[str, float] = {}
    for pod in draft.going:
        if finished(pod) or not trains(draft.facts, pod):
            continue
        work_s = _work_s(draft.facts, pod)
        if not isinstance(work_s, int | float):
            return None
        for one in (pod, *gang(draft.facts, pod)):
            uid = one.metadata.uid
            spent[uid] = max(spent.get(uid, 0.0), work_s * gpus(one) / 3600)
    return sum(spent.values()) if spent else NA


def _jobs_work_s(draft: Draft, pods: Sequence[PodLoss]) -> Measure:
    """Each job once: what one rank loses the others lose with it, in the same hour."""
    lost: dict[str, list[Measure]] = {}
    by_uid = {pod.uid: pod.work_s for pod in pods if pod.evicted}
    for pod in draft.going:
        uid = pod.metadata.uid
        job = min([uid, *(one.metadata.uid for one in gang(draft.facts, pod))])
        lost.setdefault(job, []).append(by_uid[uid])
    return plans.total(largest(values) for values in lost.values())


def largest(values: Sequence[Measure]) -> Measure:
    """The largest; unknown when any is."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return None if None in values else max(numbers, default=NA)


def _total(pods: tuple[PodLoss, ...], work_s: Measure, gpu_hours: Measure) -> Loss:
    going = [pod for pod in pods if pod.evicted]
    scratch = [volume.used_bytes for pod in going for volume in pod.scratch]
    return Loss(
        pods=pods,
        work_s=work_s,
        gpu_hours=gpu_hours,
        requests=plans.total(pod.requests for pod in going),
        scratch_bytes=plans.total(scratch),
    )
