"""Releases that nothing stands against, of every kind, and how to make exactly one thing about them unsafe."""

import copy
from typing import Any

import msgspec
from msgspec.structs import replace

from fleet.domain import blue_green, kube, switching
from fleet.domain.actions import ACTIONS
from fleet.domain.facts import Actor, Facts, Owner
from fleet.domain.objects import Budget, Deployment, Service
from fleet.domain.policies import BlueGreen, Policy
from fleet.domain.releases import Release
from fleet.domain.revisions import REVISION, Json, Patch, Workload
from fleet.domain.smoke import Verdict
from fleet.domain.specs import FullPod
from tests.domain import cluster
from tests.domain.drains import NOW, node

BLUE, GREEN, CHAT = (f"Deployment/lab/{name}" for name in ("llm-blue", "llm-green", "chat"))
SERVICE = "Service/lab/llm"
BLUE_SELECTED, GREEN_SELECTED = ({"app": "llm", "color": colour} for colour in ("blue", "green"))
POLICY = Policy(blue_green=BlueGreen(keep_s=30.0))
CHOSEN = {
    "undo": {"revision": "1"},
    "set-image": {"image": "repo/llm:2"},
    "scale": {"replicas": "3"},
    "create-green": {"version": "teal"},
}


def deployment(name: str, labels: dict[str, str], replicas: int = 2, gpus: int = 1, **spec: Any) -> Json:
    made = cluster.controller("Deployment", name, replicas, gpus, labels=labels, generation=1)
    made["metadata"] |= {"resourceVersion": "1", "annotations": {REVISION: "2"}, "labels": {}}
    probe = {"httpGet": {"path": "/ready", "port": 8000}}
    container = {**cluster.container(gpus), "image": "repo/llm:1", "readinessProbe": probe}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    made["spec"] |= {"selector": {"matchLabels": labels}, "template": template, **spec}
    made["status"] = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas}
    made["status"] |= {"readyReplicas": replicas, "availableReplicas": replicas}
    return made


def service(selector: dict[str, str], name: str = "llm", **more: Any) -> Service:
    meta = cluster.meta(name, "lab", resourceVersion="7", **more.pop("meta", {}))
    return msgspec.convert({"metadata": meta, "spec": {"selector": selector, **more}}, Service)


def pods(name: str, labels: dict[str, str], ready: int = 2, unready: int = 0, **more: Any) -> tuple[FullPod, ...]:
    found = []
    for n in range(ready + unready):
        owner = cluster.owned_by("ReplicaSet", name)
        made = cluster.pod(
            f"{name}-{n}", f"node-{n + 1}", 1, uid=f"{name}-{n}", labels=labels, ownerReferences=owner, **more
        )
        made["status"]["conditions"] = [{"type": "Ready", "status": str(n < ready)}]
        found.append(msgspec.convert(made, FullPod))
    return tuple(found)


def holder(name: str, number: int, image: str) -> Json:
    """A ReplicaSet that keeps a template of `name`."""
    template = copy.deepcopy(deployment(name, {"app": name})["spec"]["template"])
    template["spec"]["containers"][0]["image"] = image
    made = cluster.controller("ReplicaSet", f"{name}-{number}", ownerReferences=cluster.owned_by("Deployment", name))
    made["metadata"]["annotations"] = {REVISION: str(number)}
    return {**made, "spec": {**made["spec"], "template": template}}


def workload(key: str, made: Json | None = None, **metadata: Any) -> Workload:
    name = key.rpartition("/")[2]
    labels = {"chat": {"app": "chat"}, "llm-blue": BLUE_SELECTED, "llm-green": GREEN_SELECTED}[name]
    raw = copy.deepcopy(made or deployment(name, labels))
    raw["metadata"] |= metadata
    return Workload("Deployment", raw)


def target(kind: str) -> str:
    return SERVICE if ACTIONS[kind].subject == "service" else CHAT


def safe(kind: str, options: dict[str, str] | None = None, **more: Any) -> Facts:
    """`more`: fields of facts and release; `on`: its target, `pair_of`: selector and metadata of its Service, `of`: pods by
    workload, `sides`: the Deployments of the pair."""
    of: dict[str, tuple[FullPod, ...]] = more.pop("of", {})
    mine = {
        BLUE: pods("llm-blue", BLUE_SELECTED),
        GREEN: pods("llm-green", GREEN_SELECTED),
        CHAT: pods("chat", {"app": "chat"}),
        **of,
    }
    release = _release(kind, CHOSEN.get(kind, {}) if options is None else options, mine, more)
    everybody = tuple(pod for found in mine.values() for pod in found) + release.strays
    names = {key: key.rpartition("/")[2] for key in mine}
    owners = {
        pod.metadata.uid: Owner(key, "Deployment", names[key], replicas=2, ready=2)
        for key, found in mine.items()
        for pod in found
    }
    known: dict[str, Any] = {
        "cluster": "lab",
        "kind": kind,
        "target": target(kind),
        "actor": Actor("olga", "operator"),
        "now": NOW,
        "read_at": NOW - 1,
        "policy": POLICY,
        "actions_allowed": True,
        "nodes": tuple(node(f"node-{n}") for n in range(1, 5)),
        "pods": everybody,
        "owners": owners,
        "services": (service(BLUE_SELECTED), service({"app": "chat"}, "chat")),
        "budgets": (),
        "claims": {},
        "storage": {},
        "in_flight": dict.fromkeys(owners, 0),
        "release": release,
        "ending": _ending(kind, release, mine),
    }
    return Facts(**{**known, **more})


def _release(kind: str, options: dict[str, str], mine: dict[str, tuple[FullPod, ...]], more: dict[str, Any]) -> Release:
    found = Release(kind, more.pop("on", target(kind)), options, NOW, pods=mine, strays=more.pop("strays", ()))
    names = ("scalers", "refusal", "names", "tested", "workload", "holders")
    given = {name: more.pop(name) for name in names if name in more}
    if kind in {"undo", "resume"}:
        found = replace(found, holders=(holder("chat", 1, "repo/llm:0"), holder("chat", 2, "repo/llm:1")))
    if not found.of_service:
        raw = deployment("chat", {"app": "chat"}, **({"paused": True} if kind == "resume" else {}))
        return replace(found, **{"workload": workload(CHAT, raw), **given})
    selector, meta = more.pop("pair_of", (BLUE_SELECTED, {}))
    if kind == "way-back":
        note = switching.note(GREEN_SELECTED, selector, NOW - 60, "M-0001")
        meta = {**meta, "annotations": {**note, **meta.get("annotations", {})}}
    one = service(selector, meta=meta)
    found = replace(found, service=one, pair=blue_green.pair(one, more.pop("sides", sides()), mine))
    if found.to is not None:
        tested = tuple(Verdict(pod.metadata.name, 200, 0.01) for pod in found.candidates)
        found = replace(found, workload=workload(found.to.key), tested=tested if kind == "switch" else ())
    return replace(found, **given)


def sides() -> list[Deployment]:
    return [msgspec.convert(kube.without_nulls(workload(key).raw), Deployment) for key in (BLUE, GREEN)]


def _ending(kind: str, release: Release, mine: dict[str, tuple[FullPod, ...]]) -> frozenset[str]:
    """As a survey finds them, in short: of a smaller scale all that are too many, of a new template all."""
    alive = mine.get(release.workload.key, ()) if release.workload and isinstance(release.change, Patch) else ()
    if kind in {"scale", "retire"}:
        return frozenset(pod.metadata.uid for pod in alive[release.replicas or 0 :])
    return frozenset(pod.metadata.uid for pod in alive) if kind in {"restart", "undo", "set-image"} else frozenset()


def budget(name: str, selector: dict[str, str]) -> Budget:
    return msgspec.convert(cluster.budget(name, {"matchLabels": selector}), Budget)
