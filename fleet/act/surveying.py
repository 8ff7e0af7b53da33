"""The facts of a decision about a workload or a Service, read afresh from the cluster and the ledger.

Owns which questions are asked for which kind, and what a refusal to answer means. Must not judge. What needs no look at other
people's pods (pause, switch, way back, retire) reads the namespace alone: a way back does not wait for thirty thousand pods.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from fleet.act.asking import ask
from fleet.act.checkpoints import last_saves
from fleet.act.collect import AT_ONCE, heavy, readable, requests, rights_to_ask
from fleet.act.sites import Site
from fleet.domain import blue_green, revisions
from fleet.domain.actions import ACTIONS
from fleet.domain.capacity import finished
from fleet.domain.facts import Actor, Facts, Right, serves
from fleet.domain.losses import Draft
from fleet.domain.objects import Deployment, Object
from fleet.domain.pods import is_ready
from fleet.domain.release_guards import SWITCHES
from fleet.domain.releases import SCALES, Release, parts
from fleet.domain.revisions import Patch
from fleet.domain.smoke import Request, Verdict
from fleet.domain.specs import FullPod
from fleet.ports import PortError

PLURALS: Mapping[str, str] = {
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
}
WHOLE = frozenset({"restart", "resume", "undo", "set-image", "scale", "create-green"})  # need holes for new pods
RESUME = "resume"


def survey(
    site: Site,
    kind: str,
    target: str,
    options: Mapping[str, str],
    actor: Actor,
    now: Callable[[], float],
    *,
    save_first: bool = False,
) -> Facts:
    """Everything that the guards of `kind` look at. Raises PortError when what no decision can do without cannot be read."""
    began = now()
    release = Release(kind, target, options, began)
    if release.malformed:
        nothing: dict[str, Any] = {"pods": (), "controllers": ()}
        return replace(heavy(site, kind, target, actor, began, nothing), release=release, ending=frozenset())
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="facts") as pool:
        read = _reads(site, release, pool)
        got = {name: future.result() for name, future in read.items()}
        facts = heavy(site, kind, target, actor, began, got)
        release = _known(site, release, facts, got)
        facts = replace(facts, release=release, ending=_ending(release), save_first=save_first)
        facts = last_saves(site, facts, pool, now) if ACTIONS[kind].ends else facts
        return _asked(site, facts, release, pool, now)


def _reads(site: Site, release: Release, pool: ThreadPoolExecutor) -> dict[str, Future[Any]]:
    changer, whole = site.changer, release.kind in WHOLE
    namespace = "" if whole else release.namespace
    read: dict[str, Future[Any]] = {
        "pods": pool.submit(changer.read_pods, namespace=namespace),
        "controllers": pool.submit(changer.read_controllers, namespace=namespace),
        "services": pool.submit(readable, lambda: changer.read_services(namespace=namespace)),
    }
    if whole:
        read["claims"] = pool.submit(readable, changer.read_claims)
        read["storage"] = pool.submit(readable, changer.read_storage)
        read["budgets"] = pool.submit(readable, lambda: changer.read_budgets(namespace=release.namespace))
    policy = site.policy
    if whole or policy.pools or any(freeze.pools for freeze in policy.freeze):
        read["nodes"] = pool.submit(changer.read_nodes)
    if release.of_service:
        read["service"] = pool.submit(changer.read_service, release.namespace, release.name)
    else:
        read["workload"] = pool.submit(changer.read_workload, *parts(release.target))
    if release.kind in SCALES:
        read["scalers"] = pool.submit(readable, lambda: changer.read_autoscalers(release.namespace))
    return read


def _known(site: Site, release: Release, facts: Facts, got: Mapping[str, Any]) -> Release:
    """With the pair, the workload that it is about, and the pods by workload."""
    mine = [pod for pod in facts.pods if pod.metadata.namespace == release.namespace]
    by_key: dict[str, list[FullPod]] = {}
    for pod in mine:
        owner = facts.owners.get(pod.metadata.uid)
        by_key.setdefault(owner.key if owner else "", []).append(pod)
    strays = tuple(by_key.pop("", ()))
    pods = {key: tuple(found) for key, found in by_key.items()}
    near: list[Object] = [one for one in got["controllers"] if one.metadata.namespace == release.namespace]
    service, labels = got.get("service"), site.policy.blue_green.labels
    release = replace(
        release,
        workload=got.get("workload"),
        service=service,
        pair=blue_green.pair(service, near, pods, labels) if service else None,
        pods=pods,
        strays=strays,
        names=frozenset(one.metadata.name for one in near if isinstance(one, Deployment)),
    )
    changer = site.changer
    if release.of_service and release.to is not None:
        release = replace(release, workload=changer.read_workload(*parts(release.to.key)))
    if release.kind in {"undo", RESUME} and release.workload is not None:
        release = replace(release, holders=changer.read_holders(release.workload))
    if release.kind in SCALES and release.workload is not None:
        release = replace(release, scalers=_scalers(got["scalers"], release.workload.key))
    return release


def _scalers(found: Iterable[revisions.Json] | None, key: str) -> tuple[str, ...] | None:
    if found is None:
        return None
    kind, _, name = parts(key)
    aims = ((one, (one.get("spec") or {}).get("scaleTargetRef") or {}) for one in found)
    return tuple(
        str(one["metadata"]["name"]) for one, aim in aims if (aim.get("kind"), aim.get("name")) == (kind, name)
    )


def _ending(release: Release) -> frozenset[str]:
    """UIDs of the pods that end: all of them, those that a smaller scale takes away, or, when what was changed during a pause is
    rolled out, those of another template."""
    if not ACTIONS[release.kind].ends or release.workload is None or not isinstance(release.change, Patch):
        return frozenset()
    pods = [pod for pod in release.pods.get(release.workload.key, ()) if not finished(pod)]
    alive = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if release.kind in SCALES:
        alive = _first_to_go(release.workload.kind, alive)[: max(0, len(alive) - (release.replicas or 0))]
    elif release.kind == RESUME:
        current = {one.uid for one in release.history if one.current}
        alive = [pod for pod in alive if pod.controller is None or pod.controller.uid not in current]
    elif release.workload.paused:
        alive = []
    return frozenset(pod.metadata.uid for pod in alive)


def _first_to_go(kind: str, pods: list[FullPod]) -> list[FullPod]:
    """A ReplicaSet takes pods that are not Ready, then the newest; a StatefulSet the highest ordinals
    (controller_utils.go, ActivePodsWithRanks; without its spreading over nodes)."""
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: -_ordinal(pod.metadata.name))
    cost = "controller.kubernetes.io/pod-deletion-cost"

    def turn(pod: FullPod) -> tuple[bool, int, float]:
        made = pod.metadata.creation_timestamp
        priced = pod.metadata.annotations.get(cost, "0")
        price = int(priced) if priced.lstrip("-").isdigit() else 0
        return is_ready(pod), price, -(made.timestamp() if made else 0.0)

    return sorted(pods, key=turn)


def _ordinal(name: str) -> int:
    ordinal = name.rpartition("-")[2]
    return int(ordinal) if ordinal.isdigit() else -1


def _asked(site: Site, facts: Facts, release: Release, pool: ThreadPoolExecutor, now: Callable[[], float]) -> Facts:
    """What has to be asked once it is known of whom: rights, the smoke test, requests in flight, the server's own answer."""
    asking = rights_to_ask(Draft(facts).saves)
    allowed = pool.submit(site.changer.may, (*rights(release), *asking))
    refusal = pool.submit(_refusal, site, release)
    ending = [pod for pod in facts.target_pods if serves(facts, pod)]
    busy = {pod.metadata.uid: pool.submit(requests, site, pod) for pod in ending}
    tested: tuple[Verdict, ...] = ()
    if release.kind == "switch" and isinstance(release.asked, Request):
        tested = ask(site.changer, release.candidates, release.asked)
    return replace(
        facts,
        now=now(),
        permissions=allowed.result(),
        in_flight={uid: future.result() for uid, future in busy.items()},
        release=replace(release, tested=tested, refusal=refusal.result()),
    )


def rights(release: Release) -> tuple[Right, ...]:
    """The exact verbs of each kind, in its namespace."""
    namespace = release.namespace
    plural = PLURALS.get(parts(release.workload.key)[0] if release.workload else "Deployment", "deployments.apps")
    holders = "replicasets.apps" if plural == PLURALS["Deployment"] else "controllerrevisions.apps"
    switching = [
        ("get", "services"),
        ("patch", "services"),
        ("list", "endpointslices.discovery.k8s.io"),
        ("list", "pods"),
    ]
    wanted: Mapping[str, list[tuple[str, str]]] = {
        "undo": [("get", plural), ("patch", plural), ("list", holders)],
        RESUME: [("get", plural), ("patch", plural), ("list", holders)],
        "scale": [("get", plural), ("patch", f"{plural}/scale"), ("list", holders)],
        "retire": [("get", plural), ("patch", f"{plural}/scale"), ("list", holders), ("get", "services")],
        "switch": [*switching, ("get", plural), ("get", "pods/proxy")],
        "way-back": [*switching, ("get", plural)],
        "create-green": [
            ("get", plural),
            ("create", plural),
            ("list", "poddisruptionbudgets.policy"),
            ("create", "poddisruptionbudgets.policy"),
        ],
    }
    pairs = wanted.get(release.kind, [("get", plural), ("patch", plural)])
    return tuple(Right(verb, resource, namespace) for verb, resource in pairs)


def _refusal(site: Site, release: Release) -> str:
    """What the API server says to the change in a dry run; "" it takes it, or there is nothing to ask yet. A conflict is no
    answer: the version is newer than what was read a moment ago."""
    changer = site.changer
    try:
        if isinstance(release.change, Patch) and release.workload is not None:
            changer.change_workload(release.workload, release.change, dry_run=True)
        elif isinstance(release.copy, dict):
            changer.create("Deployment", release.namespace, release.copy, dry_run=True)
        elif release.service is not None and release.kind in SWITCHES and release.selector:
            changer.select(release.service, release.selector, {}, dry_run=True)
    except PortError as error:
        if error.status in {400, 403, 422}:
            return str(error)[:300]
        if error.status != 409:
            raise
    return ""
