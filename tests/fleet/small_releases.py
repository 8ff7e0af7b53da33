"""A namespace with a blue/green pair in memory that a Changer reads and changes, for tests of what never may happen to a release.

It remembers every change that it took. Its controllers follow when time passes; other people's hands are methods of their own.
"""

import copy
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fleet.domain import kube, objects, smoke, switching
from fleet.domain.blue_green import selects
from fleet.domain.endpoints import EndpointSlice
from fleet.domain.facts import CHECKPOINT, TRAINS, Permission, Right
from fleet.domain.objects import Budget, Deployment, Node, Object, ReplicaSet, Service
from fleet.domain.releases import parts
from fleet.domain.revisions import REVISION, Json, Patch, Workload, after, digest
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import HOOK, Signal
from fleet.ports import PortError
from tests.domain import cluster
from tests.fleet.small_cluster import Killed, SmallCluster

NAMESPACE = "lab"
BLUE, GREEN, CHAT = (f"Deployment/{NAMESPACE}/{name}" for name in ("llm-blue", "llm-green", "chat"))
SERVICE = f"Service/{NAMESPACE}/llm"
PROBE = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8000}}}
GRACE_S = 5.0


@dataclasses.dataclass
class SmallReleases:
    """`fleet.ports.Changer`. `llm-blue` and `llm-green` behind the Service `llm`, two pods each, and `chat` beside them."""

    now: float
    workloads: dict[str, Json] = dataclasses.field(default_factory=dict)  # by key, ReplicaSets as well
    services: dict[str, Json] = dataclasses.field(default_factory=dict)  # by name
    pods: dict[str, Json] = dataclasses.field(default_factory=dict)  # by UID
    budgets: dict[str, Json] = dataclasses.field(default_factory=dict)  # by name
    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)
    scalers: list[Json] = dataclasses.field(default_factory=list)
    changes: list[str] = dataclasses.field(default_factory=list)  # taken, in order
    kill_before: int = -1  # changes from now until the process dies, before or after the server has heard it
    kill_after: int = -1
    mute: bool = False  # the next change is taken, and nobody is told
    stale_slices: bool = False
    answers: dict[str, smoke.Answer] = dataclasses.field(default_factory=dict)  # by pod name; others are well
    asked: list[tuple[str, int, str]] = dataclasses.field(default_factory=list)  # pod, port, path
    saved: list[str] = dataclasses.field(default_factory=list)  # pods that were asked to save
    denied: frozenset[str] = frozenset()  # resources that Vigie may not touch
    on_save: Any = None
    numbers: Any = dataclasses.field(default_factory=lambda: itertools.count(1))

    @classmethod
    def made(cls, now: float, nodes: int = 3, **more: Any) -> "SmallReleases":
        found = cls(now, **more)
        for n in range(nodes):
            node = msgspec.convert(cluster.node(f"node-{n}", 8), Node)
            found.nodes[node.metadata.name] = node
        for colour in ("blue", "green"):
            found.deploy(f"llm-{colour}", {"app": "llm", "color": colour})
        found.deploy("chat", {"app": "chat"})
        found.serve("llm", {"app": "llm", "color": "blue"})
        found.serve("chat", {"app": "chat"})
        found.settle()
        found.changes.clear()
        return found

    # Other people's hands

    def deploy(self, name: str, labels: dict[str, str], replicas: int = 2, gpus: int = 1, **spec: Any) -> Json:
        made = cluster.controller("Deployment", name, replicas, gpus, labels=labels)
        container = {**cluster.container(gpus, image="repo/llm:1"), **PROBE}
        made["spec"]["template"] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        made["spec"] |= {"selector": {"matchLabels": labels}, **spec}
        made["metadata"] |= {"uid": f"uid-{name}-{next(self.numbers)}", "generation": 1, "annotations": {}}
        self.workloads[f"Deployment/{NAMESPACE}/{name}"] = made
        self._version(made)
        return made

    def train(self, name: str, replicas: int = 2) -> Json:
        """What saves to the claim "ckpt" when it is asked to."""
        made = self.deploy(name, {"app": name}, replicas)
        template = made["spec"]["template"]
        template["metadata"]["annotations"] = {
            TRAINS: "training",
            CHECKPOINT: f"/ckpt/{name}",
            HOOK: "http:8080/save",
        }
        template["spec"]["containers"][0]["volumeMounts"] = [{"name": "ckpt", "mountPath": "/ckpt"}]
        template["spec"]["volumes"] = [{"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}]
        self.settle()
        return made

    def serve(self, name: str, selector: dict[str, str], **spec: Any) -> Json:
        made = {"metadata": cluster.meta(name, NAMESPACE), "spec": {"selector": selector, **spec}}
        made["metadata"] |= {"uid": f"uid-{name}-{next(self.numbers)}", "annotations": {}, "labels": {}}
        self.services[name] = made
        self._version(made)
        return made

    def edit(self, key: str, **spec: Any) -> None:
        """Somebody else writes the spec."""
        found = self.workloads[key]
        found["spec"] |= spec
        found["metadata"]["generation"] += 1
        self._version(found)

    def edit_template(self, key: str, **annotations: str) -> None:
        template = copy.deepcopy(self.workloads[key]["spec"]["template"])
        template["metadata"]["annotations"] = {**(template["metadata"].get("annotations") or {}), **annotations}
        self.edit(key, template=template)

    def edit_service(self, selector: dict[str, str] | None = None, **annotations: str | None) -> None:
        found = self.services["llm"]
        notes = {**found["metadata"]["annotations"], **annotations}
        found["metadata"]["annotations"] = {name: value for name, value in notes.items() if value is not None}
        found["spec"]["selector"] = selector or found["spec"]["selector"]
        self._version(found)

    def delete(self, key: str) -> None:
        """With everything that it owns, at once."""
        uid = self.workloads.pop(key)["metadata"]["uid"]
        for other in [k for k, one in self.workloads.items() if uid in _owners(one)]:
            self.delete(other)
        self.pods = {u: pod for u, pod in self.pods.items() if uid not in _owners(pod)}

    def stop_being_ready(self, name: str) -> None:
        """One pod of a workload."""
        pod = next(pod for pod in self.pods.values() if pod["metadata"]["name"].startswith(name) and _ready(pod))
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    def stray(self, name: str, labels: dict[str, str], ready: bool = True) -> None:
        made = cluster.pod(name, "node-0", 0, uid=name, labels=labels)
        made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
        self.pods[name] = made

    def _version(self, found: Json) -> None:
        found["metadata"]["resourceVersion"] = str(next(self.numbers))

    # Controllers

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for uid, pod in list(self.pods.items()):
            ends = pod["metadata"].get("deletionTimestamp")
            if ends and datetime.fromisoformat(ends).timestamp() <= self.now:
                del self.pods[uid]
        self.settle()

    def settle(self) -> None:
        for key, found in list(self.workloads.items()):
            if key.startswith("Deployment/"):
                self._roll(found)

    def _roll(self, found: Json) -> None:
        """All of the new ones at once, Ready in the same moment; old ones stop. A paused one keeps its old ones."""
        holders = [w for w in self.workloads.values() if found["metadata"]["uid"] in _owners(w)]
        wanted = digest(found["spec"]["template"])
        current = next((one for one in holders if digest(one["spec"]["template"]) == wanted), None)
        if current is None and found["spec"].get("paused"):
            current = holders[-1]
        elif current is None:
            current = self._holder(found, len(holders) + 1)
        for holder in holders:
            if holder is not current and not found["spec"].get("paused"):
                self._size(holder, 0)
        self._size(current, found["spec"]["replicas"])
        mine = [pod for pod in self.pods.values() if current["metadata"]["uid"] in _owners(pod)]
        count = sum(_ready(pod) for pod in mine)
        updated = count if digest(current["spec"]["template"]) == wanted else 0
        found["status"] = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": count,
            "updatedReplicas": updated,
            "readyReplicas": count,
            "availableReplicas": count,
        }

    def _holder(self, found: Json, number: int) -> Json:
        meta = found["metadata"]
        made = cluster.controller("ReplicaSet", f"{meta['name']}-{number}", 0)
        made["metadata"] |= {
            "uid": f"rs-{next(self.numbers)}",
            "annotations": {REVISION: str(number)},
            "ownerReferences": cluster.owned_by("Deployment", meta["name"], meta["uid"]),
        }
        made["spec"]["template"] = copy.deepcopy(found["spec"]["template"])
        self.workloads[f"ReplicaSet/{NAMESPACE}/{made['metadata']['name']}"] = made
        return made

    def _size(self, holder: Json, replicas: int) -> None:
        uid, name = holder["metadata"]["uid"], holder["metadata"]["name"]
        alive = [p for p in self.pods.values() if uid in _owners(p) and "deletionTimestamp" not in p["metadata"]]
        for pod in alive[replicas:]:
            ends = datetime.fromtimestamp(self.now + GRACE_S, UTC).isoformat()
            pod["metadata"]["deletionTimestamp"] = ends
        for _ in range(replicas - len(alive)):
            self._start(holder, f"{name}-{next(self.numbers)}")

    def _start(self, holder: Json, name: str) -> None:
        template = holder["spec"]["template"]
        owner = cluster.owned_by("ReplicaSet", holder["metadata"]["name"], holder["metadata"]["uid"])
        meta = {"uid": name, "ownerReferences": owner, **template["metadata"]}
        made = cluster.pod(name, f"node-{len(self.pods) % len(self.nodes)}", spec=template["spec"], **meta)
        made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self.pods[name] = made

    # The port

    def _heard(self) -> None:
        self._dies("kill_before")

    def _dies(self, name: str) -> None:
        left = getattr(self, name)
        if left >= 0:
            setattr(self, name, left - 1)
        if left == 0:
            raise Killed

    def _took(self, what: str) -> None:
        self.changes.append(what)
        self._dies("kill_after")
        if self.mute:
            self.mute = False
            raise PortError("nobody answers", retryable=True, reason="silent")

    def _may(self, resource: str) -> None:
        if resource in self.denied:
            raise PortError("you may not", retryable=False, status=403, reason="Forbidden")

    def read_nodes(self) -> tuple[Node, ...]:
        return tuple(self.nodes.values())

    def read_pods(self, node: str = "", namespace: str = "") -> tuple[FullPod, ...]:
        found = (_typed(pod, FullPod) for pod in self.pods.values())
        return tuple(pod for pod in found if node in {"", pod.spec.node_name})

    def read_pod(self, namespace: str, name: str) -> FullPod | None:
        return next((pod for pod in self.read_pods() if pod.metadata.name == name), None)

    def read_controllers(self, namespace: str = "") -> tuple[Object, ...]:
        types: dict[str, type[Object]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet}
        return tuple(_typed(one, types[parts(key)[0]]) for key, one in self.workloads.items())

    def read_budgets(self, namespace: str = "") -> tuple[Budget, ...]:
        return tuple(_typed(one, Budget) for one in self.budgets.values())

    def read_services(self, namespace: str = "") -> tuple[Service, ...]:
        self._may("services")
        return tuple(_typed(one, Service) for one in self.services.values())

    def read_claims(self) -> tuple[Claim, ...]:
        return SmallCluster.read_claims(self)  # type: ignore[arg-type]

    def read_storage(self) -> tuple[Storage, ...]:
        return SmallCluster.read_storage(self)  # type: ignore[arg-type]

    def read_autoscalers(self, namespace: str) -> tuple[Json, ...]:
        self._may("horizontalpodautoscalers")
        return tuple(self.scalers)

    def may(self, rights: Sequence[Right]) -> tuple[Permission, ...]:
        return tuple(Permission(r.verb, r.resource, r.namespace, r.resource not in self.denied) for r in rights)

    def read_workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        found = self.workloads.get(f"{kind}/{namespace}/{name}")
        return None if found is None else Workload(kind, copy.deepcopy(found))

    def read_holders(self, workload: Workload) -> tuple[Json, ...]:
        return tuple(copy.deepcopy(one) for one in self.workloads.values() if workload.uid in _owners(one))

    def read_service(self, namespace: str, name: str) -> Service | None:
        return _typed(self.services[name], Service) if name in self.services else None

    def read_slices(self, namespace: str, service: str) -> tuple[EndpointSlice, ...]:
        selector = {} if self.stale_slices else self.services[service]["spec"]["selector"]
        chosen = [pod for pod in self.read_selected(namespace, selector) if pod.metadata.deletion_timestamp is None]
        endpoints = [
            {"conditions": {"ready": _typed_ready(pod)}, "targetRef": {"kind": "Pod", "uid": pod.metadata.uid}}
            for pod in chosen
        ]
        made = {"metadata": cluster.meta(f"{service}-1", namespace), "endpoints": endpoints}
        return (msgspec.convert(made, EndpointSlice),)

    def read_selected(self, namespace: str, selector: Mapping[str, str]) -> tuple[FullPod, ...]:
        return tuple(pod for pod in self.read_pods() if selects(selector, pod.metadata.labels))

    def change_workload(self, workload: Workload, patch: Patch, *, dry_run: bool = False) -> Workload | None:
        if not dry_run:
            self._heard()
        found = self.workloads.get(workload.key)
        if found is None:
            raise PortError("not found", retryable=False, status=404, reason="NotFound")
        _conflict(found, patch.body["metadata"]["resourceVersion"])
        if dry_run:
            return Workload(workload.kind, copy.deepcopy(found))
        spec = {name: value for name, value in patch.body["spec"].items() if name != "template"}
        before = copy.deepcopy(found["spec"])
        found["spec"] = {n: v for n, v in {**found["spec"], **spec}.items() if v is not None}
        found["spec"]["template"] = after(workload, patch)
        found["metadata"]["generation"] += before != found["spec"]
        self._version(found)
        self._took(f"patch {workload.key}")
        return None if patch.subresource else Workload(workload.kind, copy.deepcopy(found))

    def select(
        self,
        service: Service,
        selector: Mapping[str, str],
        annotations: Mapping[str, str | None],
        *,
        dry_run: bool = False,
    ) -> Service:
        if not dry_run:
            self._heard()
        meta, found = service.metadata, self.services[service.metadata.name]
        patch = switching.patch(service.spec.selector, selector, meta.resource_version, annotations)
        _conflict(found, patch["metadata"]["resourceVersion"])
        if not dry_run:
            merged = {**found["spec"]["selector"], **patch["spec"]["selector"]}
            self.edit_service({n: v for n, v in merged.items() if v is not None}, **annotations)
            self._took(f"select {meta.name} {','.join(f'{n}={v}' for n, v in sorted(selector.items()))}")
        return _typed(found, Service)

    def create(self, kind: str, namespace: str, body: Json, *, dry_run: bool = False) -> Json:
        if not dry_run:
            self._heard()
        name = body["metadata"]["name"]
        there = self.workloads if kind == "Deployment" else self.budgets
        key = f"{kind}/{namespace}/{name}" if kind == "Deployment" else name
        if key in there:
            raise PortError("it is there", retryable=False, status=409, reason="AlreadyExists")
        made = copy.deepcopy(body)
        made["metadata"] |= {"namespace": namespace, "uid": f"uid-{name}-{next(self.numbers)}", "generation": 1}
        if not dry_run:
            there[key] = made
            self._version(made)
            self._took(f"create {kind} {name}")
        return copy.deepcopy(made)

    def ask_pod(self, namespace: str, name: str, port: int, path: str, within_s: float) -> smoke.Answer:
        self.asked.append((name, port, path))
        return self.answers.get(name, smoke.Answer(200, b'{"version": "2"}', 0.01))

    def get_from_pod(self, namespace: str, name: str, port: int, path: str) -> bytes:
        raise PortError("it serves nothing", retryable=False, status=404)

    def post_to_pod(self, namespace: str, name: str, port: int, path: str) -> None:
        self._heard()
        self.saved.append(name)
        if self.on_save is not None:
            self.on_save(name)
        self._dies("kill_after")

    def signal_pod(self, namespace: str, name: str, container: str, signal: Signal) -> None:
        raise AssertionError("nobody declares one")


def _typed(found: Json, type_: Any) -> Any:
    return msgspec.convert(kube.without_nulls(found), type_, strict=False)


def _typed_ready(pod: FullPod) -> bool:
    return objects.Condition("Ready", "True") in pod.status.conditions


def _ready(pod: Json) -> bool:
    return (
        "deletionTimestamp" not in pod["metadata"]
        and {"type": "Ready", "status": "True"} in pod["status"]["conditions"]
    )


def _owners(found: Json) -> set[str]:
    return {one["uid"] for one in found["metadata"].get("ownerReferences") or ()}


def _conflict(found: Json, version: str) -> None:
    if found["metadata"]["resourceVersion"] != version:
        raise PortError("conflict", retryable=False, status=409, reason="Conflict")
