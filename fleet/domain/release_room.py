"""The guard of room: a hole for every pod that a release adds.

Owns where new pods would go: a whole copy, more replicas, or what a rolling update adds before it takes; and the strategies that
a new version could take instead. Must not know which actions run it.
"""

from collections import Counter
from collections.abc import Iterator

from fleet.domain import rollouts, strategy
from fleet.domain.capacity import waiting
from fleet.domain.facts import gpus
from fleet.domain.losses import Draft
from fleet.domain.objects import StatefulSet
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.releases import Release, pod_of
from fleet.domain.revisions import Json
from fleet.domain.rollouts import Rolled
from fleet.domain.scheduling import Place, Placement, Unfit
from fleet.domain.specs import FullPod
from fleet.domain.strategy import Advice, Ground, Kind, Volume

APPROVER = "approver"


def room(draft: Draft) -> Iterator[Check]:
    """There is a hole for every pod that is added: a whole copy, more replicas, or what a rolling update adds before it takes."""
    found = draft.facts.release
    if found is None or found.workload is None:
        return
    if found.kind in {"create-green", "scale"}:
        yield from _added(draft, found)
    else:
        yield from _rolled(draft)


def advice(draft: Draft) -> Advice | None:
    """The strategies for the new version that the action makes, on what was read afresh. None: it makes none, nothing rolls now,
    or its pods ask for no GPUs."""
    found = draft.facts.release
    if found is None or found.workload is None or found.rolled is None:
        return None
    template = found.workload.template if found.kind == "resume" else found.template
    if template is None or (found.workload.paused and found.kind != "resume"):
        return None
    grounds = _ground(draft, found, found.workload.key, found.rolled, template)
    return strategy.advise(grounds) if grounds is not None else None


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


def _rolled(draft: Draft) -> Iterator[Check]:
    found = advice(draft)
    present = found.present if found else None
    if found is None or present is None or present.finishes:
        return
    if present.placed == found.wanted:
        yield Check("room", Outcome.WARN, "volume", draft.facts.target, (("surge", present.surge),))
        return
    evidence: Facts = (
        ("gpus", found.gpus),
        ("pods", found.wanted),
        ("placed", present.placed),
        ("surge", present.surge),
        ("unavailable", present.unavailable),
        ("more_gpus", present.more_gpus),
        ("largest", found.largest),
    )
    remedy = "surge-none" if found.best is Kind.REPLACE_ONE else "make-room"
    yield _block(draft, "room", "no-surge", evidence, remedy=remedy)


def _ground(draft: Draft, found: Release, key: str, rolled: Rolled, template: Json) -> Ground | None:
    limits = rollouts.bounds_of(rolled)
    replicas = limits.min_available + limits.unavailable if limits else 0
    pod, mine = pod_of(template, found.namespace), draft.facts.of_owner.get(key, [])
    if not replicas or not gpus(pod):
        return None
    loads = draft.facts.warm_up_s.get(key)
    return Ground(
        replicas=replicas,
        gpus=gpus(pod),
        old_gpus=max(map(gpus, mine), default=0),
        free=strategy.surveyed(_places(draft), pod, gpus(pod), replicas),
        old=Counter(
            one.spec.node_name for one in mine if one.spec.node_name and one.metadata.deletion_timestamp is None
        ),
        load_s=float(loads) if isinstance(loads, int | float) else None,
        stop_s=max(
            (float(s) for one in mine if (s := one.spec.termination_grace_period_seconds) is not None), default=None
        ),
        volume=_volume(pod, draft),
        present=limits,
        adds=not isinstance(rolled, StatefulSet),
    )


def _volume(pod: FullPod, draft: Draft) -> Volume:
    """The strictest of the claims that its pods share; what cannot be read holds nobody up."""
    sources = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    names = [f"{pod.metadata.namespace}/{source.claim_name}" for source in sources if source is not None]
    claims = [claim for name in names if (claim := (draft.facts.claims or {}).get(name)) is not None]
    modes = [set(claim.spec.access_modes) for claim in claims if claim.spec.access_modes]
    if any(found == {"ReadWriteOncePod"} for found in modes):
        return Volume.ONE_POD
    single = any(found <= {"ReadWriteOnce", "ReadWriteOncePod"} for found in modes)
    return Volume.ONE_NODE if single else Volume.NONE


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
