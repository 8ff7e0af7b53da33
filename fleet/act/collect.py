"""The facts of a decision, read afresh from the cluster, the picture and the ledger.

Owns which questions are asked, all at once, and what a refusal to answer means: what Vigie may not read is `None`, never empty.
Must not judge.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec.structs import replace

from fleet.act.checkpoints import last_saves
from fleet.act.sites import Site
from fleet.domain import capacity, draining, in_flight, owners
from fleet.domain.actions import ACTIONS, cordoned_by
from fleet.domain.draining import Answer
from fleet.domain.facts import Actor, Facts, Machine, Owner, Permission, Right, Running, serves
from fleet.domain.gpus import Measure
from fleet.domain.losses import Draft
from fleet.domain.objects import Deployment, Job, Node, Object, ReplicaSet, StatefulSet, seconds
from fleet.domain.picture import Snapshot
from fleet.domain.plans import ActionState, Save
from fleet.domain.specs import FullPod
from fleet.models import Action
from fleet.ports import PortError

T = TypeVar("T")

AT_ONCE = 8


def collect(
    site: Site, kind: str, target: str, actor: Actor, now: Callable[[], float], *, save_first: bool = False
) -> Facts:
    """Everything that the guards of `kind` look at. Raises PortError when what no decision can do without cannot be read."""
    began, changer = now(), site.changer
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="facts") as pool:
        if not ACTIONS[kind].empties:
            rights = pool.submit(changer.may, (Right("patch", "nodes"),))
            return _light(site, kind, target, actor, began, changer.read_node(target), rights.result())
        read: dict[str, Future[Any]] = {
            "nodes": pool.submit(changer.read_nodes),
            "pods": pool.submit(changer.read_pods),
            "controllers": pool.submit(changer.read_controllers),
            "daemon_sets": pool.submit(readable, changer.read_daemon_sets),
            "budgets": pool.submit(readable, changer.read_budgets),
            "services": pool.submit(readable, changer.read_services),
            "claims": pool.submit(readable, changer.read_claims),
            "storage": pool.submit(readable, changer.read_storage),
        }
        got: dict[str, Any] = {name: future.result() for name, future in read.items()}
        facts = replace(heavy(site, kind, target, actor, began, got), save_first=save_first)
        return _asked(site, last_saves(site, facts, pool, now), pool, now)


def readable(read: Callable[[], T]) -> T | None:
    """None when Vigie's account may not read it; any other trouble is trouble."""
    try:
        return read()
    except PortError as error:
        if error.status == 403:
            return None
        raise


def stated(site: Site, kind: str, target: str, actor: Actor, now: float, **known: Any) -> Facts:
    """The site's and the ledger's part, with what else is `known`, by the fields' names."""
    return Facts(
        cluster=site.name,
        kind=kind,
        target=target,
        actor=actor,
        now=now,
        read_at=now,
        policy=site.policy,
        actions_allowed=site.actions,
        running=under_way(site.name),
        **known,
    )


def _light(
    site: Site, kind: str, target: str, actor: Actor, now: float, node: Node | None, rights: tuple[Permission, ...]
) -> Facts:
    nodes, mark = ((node,), cordoned_by(node)) if node else ((), "")
    return stated(site, kind, target, actor, now, nodes=nodes, permissions=rights, cordoned_by=mark)


def heavy(site: Site, kind: str, target: str, actor: Actor, now: float, got: Mapping[str, Any]) -> Facts:
    """`got`: what was read, by its name; what nobody asked for stays empty or unknown."""
    nodes: tuple[Node, ...] = got.get("nodes", ())
    node = next((node for node in nodes if node.metadata.name == target), None)
    pods: tuple[FullPod, ...] = got["pods"]
    snapshot = site.snapshot()
    claims, storage = got.get("claims"), got.get("storage")
    found = _owners(pods, got["controllers"])
    return stated(
        site,
        kind,
        target,
        actor,
        now,
        nodes=nodes,
        pods=pods,
        owners=found,
        daemon_sets=got.get("daemon_sets"),
        budgets=got.get("budgets"),
        services=got.get("services"),
        claims=None if claims is None else {claim.key: claim for claim in claims},
        storage=None if storage is None else {volume.key: volume for volume in storage},
        machine=machine(snapshot, target),
        degraded=_degraded(snapshot),
        warm_up_s=warm_ups(pods, found),
        cordoned_by=cordoned_by(node) if node else "",
    )


def _asked(site: Site, facts: Facts, pool: ThreadPoolExecutor, now: Callable[[], float]) -> Facts:
    """What has to be asked pod by pod, once it is known which: rights per namespace, dry runs, requests in flight."""
    draft = Draft(facts)
    going = draft.going
    rights = (*_rights(going), *rights_to_ask(draft.saves))
    allowed = pool.submit(site.changer.may, rights)
    answers = {pod.metadata.uid: pool.submit(_dry_run, site, pod) for pod in going}
    busy = {pod.metadata.uid: pool.submit(requests, site, pod) for pod in going if serves(facts, pod)}
    return replace(
        facts,
        now=now(),
        permissions=allowed.result(),
        dry_runs={uid: future.result() for uid, future in answers.items()},
        in_flight={uid: future.result() for uid, future in busy.items()},
    )


def _rights(going: Iterable[FullPod]) -> tuple[Right, ...]:
    """The exact verbs of a drain, in every namespace that it concerns."""
    namespaces = sorted({pod.metadata.namespace for pod in going})
    return (
        Right("patch", "nodes"),
        Right("get", "nodes"),
        Right("list", "pods"),
        *(Right("create", "pods/eviction", namespace) for namespace in namespaces),
    )


def rights_to_ask(saves: Iterable[Save]) -> tuple[Right, ...]:
    """The ways into pods. A WebSocket is a GET to some API servers and a creation to others."""
    wanted = {
        Right(verb, "pods/exec" if save.hook.startswith("signal:") else "pods/proxy", save.namespace)
        for save in saves
        for verb in (("create", "get") if save.hook.startswith("signal:") else ("create",))
    }
    return tuple(sorted(wanted, key=lambda right: (right.namespace, right.resource, right.verb)))


def _dry_run(site: Site, pod: FullPod) -> Answer:
    meta = pod.metadata
    return draining.classify(site.changer.evict(meta.namespace, meta.name, meta.uid, dry_run=True))


def requests(site: Site, pod: FullPod) -> Measure:
    """Unknown when the pod declares no metric or does not answer; never 0 for want of an answer."""
    place = in_flight.where(pod)
    if place is None:
        return None
    try:
        page = site.changer.get_from_pod(pod.metadata.namespace, pod.metadata.name, place.port, place.path)
    except PortError:
        return None
    return in_flight.count(page.decode(errors="replace"), place.metrics)


def under_way(cluster: str, besides: int | None = None) -> tuple[Running, ...]:
    """The actions of this cluster that have been confirmed and have not ended."""
    found = Action.objects.filter(cluster=cluster, state__in=[ActionState.CONFIRMED, ActionState.RUNNING])
    return tuple(
        Running(
            action.name,
            action.kind,
            action.target,
            action.pool,
            action.zone,
            action.rack,
            action.second_at or action.confirmed_at or 0.0,
        )
        for action in found.only("kind", "target", "pool", "zone", "rack", "second_at", "confirmed_at").order_by("pk")
        if action.pk != besides
    )


def machine(snapshot: Snapshot | None, target: str) -> Machine:
    """What the picture says of the target's GPUs, with the age of its readings."""
    row = snapshot.nodes.get(target) if snapshot else None
    if row is None or snapshot is None:
        return Machine()
    gpus = [gpu for gpu in snapshot.gpus.values() if gpu.node == target]
    read = [gpu.read_at for gpu in gpus if gpu.read_at is not None]
    users = [gpu.users for gpu in gpus]
    return Machine(
        measured=row.measured,
        read_at=min(read, default=None) if len(read) == len(gpus) else None,
        silent=row.silent_since_at is not None,
        gpus=len(gpus) if row.measured else row.physical,
        troubles=tuple((gpu.index, gpu.reason) for gpu in gpus if gpu.state not in {"ok", "app-fault"}),
        in_use=sum(users_of for users_of in users if users_of) if gpus and None not in users else None,
    )


def _degraded(snapshot: Snapshot | None) -> frozenset[str]:
    gpus = snapshot.gpus.values() if snapshot else ()
    return frozenset(gpu.node for gpu in gpus if gpu.state not in {"ok", "app-fault", "unknown"})


def _owners(pods: Sequence[FullPod], controllers: Iterable[Object]) -> dict[str, Owner]:
    """The top controller of each pod, with its scale and how many of its pods are Ready."""
    known = {owners.reference(type(c).__name__, c.metadata.namespace, c.metadata.name): c for c in controllers}
    found: dict[str, Owner] = {}
    for pod in pods:
        top = owners.ownership(pod, known.get)
        if top.kind and top.kind != "Node":
            found[pod.metadata.uid] = Owner(
                top.workload, top.kind, top.name, _replicas(top.object), _ready(top.object), _retries(top.object)
            )
    return found


def _replicas(owner: Object | None) -> int | None:
    return owner.spec.replicas if isinstance(owner, Deployment | ReplicaSet | StatefulSet) else None


def _ready(owner: Object | None) -> int | None:
    if isinstance(owner, Deployment | ReplicaSet | StatefulSet):
        return owner.status.ready_replicas
    return owner.status.ready if isinstance(owner, Job) else None


def _retries(owner: Object | None) -> int | None:
    """How many more pods of a job may fail: an evicted one has failed, unless the job's policy passes over disruptions."""
    if not isinstance(owner, Job):
        return None
    spec = owner.spec
    rules = spec.pod_failure_policy.rules if spec.pod_failure_policy else ()
    patterns = {rule.action: {pattern.type for pattern in rule.on_pod_conditions} for rule in reversed(rules)}
    if "DisruptionTarget" in patterns.get("Ignore", ()):
        return None
    if "DisruptionTarget" in patterns.get("FailJob", ()):
        return 0
    left = max(0, spec.backoff_limit - owner.status.failed)
    return left if spec.backoff_limit_per_index is None else min(left, spec.backoff_limit_per_index)


def warm_ups(pods: Iterable[FullPod], found: Mapping[str, Owner]) -> dict[str, Measure]:
    """Seconds from being scheduled to Ready, as the median over the Ready pods of each owner."""
    taken: dict[str, list[float]] = {}
    for pod in pods:
        owner = found.get(pod.metadata.uid)
        spent = _warm_up_s(pod)
        if owner is not None and spent is not None:
            taken.setdefault(owner.key, []).append(spent)
    return {key: round(statistics.median(values)) for key, values in taken.items()}


def _warm_up_s(pod: FullPod) -> float | None:
    if capacity.finished(pod) or any(status.restart_count for status in pod.status.container_statuses):
        return None  # its Ready condition is that of a later start
    at = {c.type: seconds(c.last_transition_time) for c in pod.status.conditions if c.status == "True"}
    scheduled, ready = at.get("PodScheduled"), at.get("Ready")
    return ready - scheduled if scheduled is not None and ready is not None and ready >= scheduled else None
