"""What the workloads of a node have saved, read from their stores at the moment of a decision.

Owns which pods are asked about, and that a job is looked at once however many of its pods there are. Must not judge, nor wait
for a store longer than a look takes.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from django.db import connections
from msgspec.structs import replace

from fleet.act.sites import Site
from fleet.domain import last_saves as last
from fleet.domain import training
from fleet.domain.capacity import finished
from fleet.domain.facts import Facts, Saved, Unsaved, trains, workload
from fleet.domain.freshness import Freshness
from fleet.domain.gangs import gang
from fleet.domain.losses import Draft
from fleet.domain.save_sites import Volumes
from fleet.domain.specs import FullPod
from fleet.domain.training import Record, Training

Known = Saved | Unsaved


def last_saves(site: Site, facts: Facts, pool: Executor, now: Callable[[], float]) -> Facts:
    """The facts with the last checkpoint of every training pod that ends with the action, or why none is known."""
    ending = [pod for pod in Draft(facts).ending if trains(facts, pod) and not finished(pod)]
    records = site.records() if ending else {}
    found = {
        pod.metadata.uid: replace(_training(facts, pod, records), pods=1 + len(gang(facts, pod))) for pod in ending
    }
    places = {_place(one): one for one in found.values()}
    looks = {place: pool.submit(_look, site, one, now()) for place, one in places.items()}
    seen = {uid: looks[_place(one)].result() for uid, one in found.items()}
    others = _others(facts, records) if any(one.below for one in seen.values()) else ()
    known: dict[str, Known] = {uid: last.last(one, others) for uid, one in seen.items()}
    return replace(
        facts,
        trainings=found,
        saved={uid: one for uid, one in known.items() if isinstance(one, Saved)},
        unsaved={uid: one for uid, one in known.items() if isinstance(one, Unsaved)},
    )


def looks(site: Site, pods: Mapping[str, tuple[FullPod, str]], pool: Executor, now: float) -> dict[str, Freshness]:
    """What the stores of some training pods show now, by UID; `pods`: each with the key of its workload."""
    records = site.records() if pods else {}
    found = {uid: training.training(pod, key, records, Volumes()) for uid, (pod, key) in pods.items()}
    asked = {place: pool.submit(_look, site, one, now) for place, one in {_place(x): x for x in found.values()}.items()}
    return {uid: asked[_place(one)].result() for uid, one in found.items()}


def _look(site: Site, one: Training, now: float) -> Freshness:
    """On a thread of its own, which keeps no connection to the ledger."""
    try:
        return site.look(one, now)
    finally:
        connections.close_all()


def _training(facts: Facts, pod: FullPod, records: Mapping[str, Record]) -> Training:
    key = workload(facts, pod)
    volumes = Volumes(facts.claims, facts.storage)
    return training.training(pod, key, records, volumes, reported=key in facts.policy.checkpoints.reported)


def _others(facts: Facts, records: Mapping[str, Record]) -> tuple[Training, ...]:
    """What all that trains in the cluster says of where it saves, one of each workload and place."""
    pods = (pod for pod in facts.pods if trains(facts, pod) and not finished(pod))
    found = (_training(facts, pod, records) for pod in pods)
    return tuple({_place(one): one for one in found}.values())


def _place(one: Training) -> tuple[str, str]:
    """Ranks of one job may save in several places, each its own part."""
    return one.workload, one.uri
