"""The guard of room: a hole for every pod that a release adds.

Owns where new pods would go: a whole copy, more replicas, or what a rolling update adds before it takes. Must not know which
actions run it.
"""

from collections import Counter
from collections.abc import Iterator

from fleet.domain import rollouts, strategy
from fleet.domain.capacity import waiting
from fleet.domain.facts import gpus
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.releases import Release, pod_of
from fleet.domain.revisions import Json
from fleet.domain.rollouts import Rolled
from fleet.domain.scheduling import Place, Placement, Unfit
from fleet.domain.specs import FullPod
from fleet.domain.strategy import Ground, Kind

APPROVER = "approver"


def room(draft: Draft) -> Iterator[Check]:
    """There is a hole for every pod that is added: a whole copy, more replicas, or what a rolling update adds before it takes."""
    found = draft.facts.release
    if found is None or found.workload is None:
        return
    if found.kind in {"create-green", "scale"}:
        yield from _added(draft, found)
    elif found.rolled is not None and found.kind == "resume":
        yield from _rolled(draft, found, found.rolled, found.workload.template)
    elif found.rolled is not None and found.template is not None and not found.workload.paused:
        yield from _rolled(draft, found, found.rolled, found.template)


def _added(draft: Draft, found: Release) -> Iterator[Check]:
    template, count = found.template, 0
    if found.workload is not None and found.kind == "create-green":
        count = found.workload.replicas
    elif found.workload is not None and isinstance(found.replicas, int):
        template, count = found.workload.template, found.replicas - found.workload.replicas
    if template is None or count <= 0:
        return
    pod, refused = pod_of(template, found.namespace), Counter[Unfit]()
    placement, placed = _placement(draft), 0
    for _ in range(count):
        where = placement.place(pod)
        if not isinstance(where, str):
            refused = where
            break
        placed += 1
    if placed < count:
        evidence = _shortage(pod, count, placed, refused)
        yield _block(draft, "room", "no-place", evidence, remedy="make-room")


def _shortage(pod: FullPod, count: int, placed: int, refused: Counter[Unfit]) -> Facts:
    why: Facts = tuple((f"nodes-{reason}", nodes) for reason, nodes in refused.most_common())
    return (("gpus", gpus(pod)), ("pods", count), ("placed", placed), *why)


def _rolled(draft: Draft, found: Release, rolled: Rolled, template: Json) -> Iterator[Check]:
    limits = rollouts.bounds_of(rolled)
    if limits is None or not (replicas := limits.min_available + limits.unavailable):
        return
    pod, mine = (
        pod_of(template, found.namespace),
        draft.facts.of_owner.get(found.workload.key if found.workload else "", []),
    )
    if not gpus(pod):
        return
    ground = Ground(
        replicas=replicas,
        gpus=gpus(pod),
        old_gpus=max(map(gpus, mine), default=0),
        free=strategy.surveyed(_places(draft), pod, gpus(pod), replicas),
        old=Counter(
            one.spec.node_name for one in mine if one.spec.node_name and one.metadata.deletion_timestamp is None
        ),
        present=limits,
    )
    advice = strategy.advise(ground)
    present = advice.strategies[-1]
    if not present.finishes:
        evidence: Facts = (
            ("gpus", ground.gpus),
            ("pods", replicas),
            ("placed", present.placed),
            ("surge", present.surge),
            ("unavailable", present.unavailable),
            ("more_gpus", present.more_gpus),
            ("largest", advice.largest),
        )
        remedy = "surge-none" if advice.best is Kind.REPLACE_ONE else "make-room"
        yield _block(draft, "room", "no-surge", evidence, remedy=remedy)


def _places(draft: Draft) -> list[Place]:
    """Nodes that another action empties take nobody."""
    facts, by_node = draft.facts, dict[str, list[FullPod]]()
    emptied = {other.target for other in facts.running}
    for pod in facts.pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    return [
        Place(node, by_node.get(node.metadata.name, ()), degraded=node.metadata.name in facts.degraded)
        for node in facts.nodes
        if node.metadata.name not in emptied
    ]


def _placement(draft: Draft) -> Placement:
    """Pods that still look for a node come first."""
    placement = Placement(_places(draft), draft.facts.claims, draft.facts.storage)
    placement.place_all([pod for pod in draft.facts.pods if waiting(pod)])
    return placement


def _block(draft: Draft, guard: str, reason: str, evidence: Facts, remedy: str) -> Check:
    return Check(guard, Outcome.BLOCK, reason, draft.facts.target, evidence, remedy, APPROVER)
