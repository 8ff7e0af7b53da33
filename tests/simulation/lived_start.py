"""The cluster that a recording began on, told from what the recording shows of it.

Owns undoing what the first sight of an object already shows of the recorded story, and stand-ins for what was there but
never shown: nodes, owners of shown pods, the other pods of shown owners. Must not send or compare anything.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.informer import controller_of
from fleet.simulation.ownership import is_active, owner_reference, pod_from_template
from fleet.simulation.placement import effective_request
from fleet.simulation.resources import SERVED
from fleet.simulation.revisions import HASH_LABEL
from fleet.simulation.template_history import REVISION_LABEL, revision_of

Exchange = dict[str, Any]
Object = dict[str, Any]

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
PLURALS = {r.kind: r.plural for r in reversed(SERVED)}
SCALED = {"Deployment", "ReplicaSet", "StatefulSet"}
GPU = "nvidia.com/gpu"
REFUSED = re.compile(r"disruption budget (\S+) needs (\d+) healthy pods and has (\d+) currently")


def objects_in(body: Any) -> list[Object]:
    """The stored objects that a response shows, kinds filled in from the list's."""
    if not isinstance(body, dict):
        return []
    if "items" in body and body.get("kind", "").endswith("List"):
        head = {"kind": body["kind"].removesuffix("List"), "apiVersion": body["apiVersion"]}
        return [o for i in body["items"] for o in objects_in({**head, **i})]
    return [body] if body.get("kind") in PLURALS and "uid" in body.get("metadata", {}) else []


def is_watch(exchange: Exchange) -> bool:
    return isinstance(exchange["response"]["body"], list)


def arrivals(exchange: Exchange) -> list[tuple[float, Object]]:
    """The events of a watch, each with its time (that of the watch where the recording has none)."""
    events = exchange["response"]["body"]
    times = exchange["response"].get("body_t") or [exchange["t"]] * len(events)
    return [(t, e) for t, e in zip(times, events, strict=True) if e["type"] in {"ADDED", "MODIFIED", "DELETED"}]


def sights(exchanges: list[Exchange]) -> Iterator[tuple[float, str, Object]]:
    """Every sight of an object in order: (time, how, object); how is GET, a write's method, or an event's type."""
    found: list[tuple[float, str, Object]] = []
    for exchange in exchanges:
        method, query = exchange["request"]["method"], exchange["request"].get("query") or {}
        if is_watch(exchange):
            initial = "sendInitialEvents" in query
            for at, event in arrivals(exchange):
                how = "GET" if initial and event["type"] == "ADDED" else event["type"]
                found += [(at, how, o) for o in objects_in(event["object"])]
        elif "dryRun" not in query:
            found += [(exchange["t"], method, o) for o in objects_in(exchange["response"]["body"])]
    return iter(sorted(found, key=lambda s: s[0]))


def last_state(exchanges: list[Exchange]) -> list[Object]:
    """Every object at the end of a recording."""
    known: dict[str, Object] = {}
    for _, how, obj in sights(exchanges):
        uid = obj["metadata"]["uid"]
        if how == "DELETED":
            known.pop(uid, None)
        elif int(obj["metadata"]["resourceVersion"]) >= int(known.get(uid, obj)["metadata"]["resourceVersion"]):
            known[uid] = obj
    return list(known.values())


def first_state(exchanges: list[Exchange], within_s: float = math.inf) -> list[Object]:
    """Every object that was there before the first change, as it was then; only those seen `within_s`."""
    known: dict[str, Object] = {}
    made: set[str] = set()
    moved = False
    for at, how, obj in sights(exchanges):
        uid = obj["metadata"]["uid"]
        moved = moved or how != "GET"
        if how in {"ADDED", "POST"}:
            made.add(uid)
        if uid not in made and uid not in known and at <= within_s:
            known[uid] = undone(obj) if moved else obj
    return list(known.values())


def created_at(obj: Object) -> float:
    return parse_stamp(obj["metadata"]["creationTimestamp"])


def undone(obj: Object) -> Object:
    """An object first seen in the middle of a change, as it was before: spec and generation follow what was observed."""
    obj = json.loads(json.dumps(obj))
    metadata, status = obj["metadata"], obj.get("status", {})
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(field, None)
    changed = metadata.get("generation", 0) != status.get("observedGeneration", 0)
    if "observedGeneration" in status:
        metadata["generation"] = status["observedGeneration"]
    if obj["kind"] == "EndpointSlice":  # seen as its first change left it
        metadata["generation"] -= 1
        for endpoint in obj["endpoints"] or ():
            endpoint["conditions"] = {"ready": True, "serving": True, "terminating": False}
    if obj["kind"] in SCALED and changed:
        obj["spec"]["replicas"] = status.get("replicas", 0)
        obj["spec"].pop("paused", None)
    return obj


class Stage:
    """The start state, completed. `began_at` is the time of t = 0."""

    def __init__(self, objects: list[Object], began_at: float) -> None:
        self.objects = {o["metadata"]["uid"]: o for o in objects}
        self.began_at = began_at
        self.standing_in: list[Object] = []  # pods to be made and put on nodes

    def of(self, kind: str) -> list[Object]:
        return [o for o in self.objects.values() if o["kind"] == kind]

    def complete(self, exchanges: list[Exchange]) -> None:
        self._nodes()
        self._owners()
        self._templates()
        self._services()
        self._budgets(exchanges)
        for kind in ("ReplicaSet", "DaemonSet"):
            for owner in self.of(kind):
                self._pods_of(owner)

    def _add(self, obj: Object) -> None:
        self.objects[obj["metadata"]["uid"]] = obj

    def _nodes(self) -> None:
        names = {n["metadata"]["name"] for n in self.of("Node")}
        listed = json.loads((RECORDINGS / "list_nodes.json").read_text())[0]["response"]["body"]
        for node in objects_in(listed):
            if node["metadata"]["name"] not in names:
                self._add(node)

    def _owners(self) -> None:
        """ReplicaSets that only their pods tell of, under the Deployment that their name begins with."""
        for pod in self.of("Pod"):
            owner = controller_of(pod)
            if owner is None or owner["uid"] in self.objects or owner["kind"] != "ReplicaSet":
                continue
            metadata, spec = pod["metadata"], pod["spec"]
            count = sum((controller_of(p) or {}).get("uid") == owner["uid"] for p in self.of("Pod"))
            above = self._deployment(metadata["namespace"], owner["name"])
            labels = {k: v for k, v in metadata["labels"].items() if "/" not in k}
            template = above["spec"]["template"] if above else {"spec": _unbound(spec), "metadata": {}}
            inner = {**template["metadata"], "labels": labels}
            if above is None and metadata.get("annotations"):
                inner["annotations"] = metadata["annotations"]
            made = {
                "name": owner["name"],
                "namespace": metadata["namespace"],
                "uid": owner["uid"],
                "generation": 1,
                "labels": labels,
                "annotations": {"deployment.kubernetes.io/revision": "1"},
                "creationTimestamp": metadata["creationTimestamp"],
                "resourceVersion": "1",
            }
            if above is not None:
                made["ownerReferences"] = [owner_reference(above)]
            self._add(
                {
                    "kind": "ReplicaSet",
                    "apiVersion": "apps/v1",
                    "metadata": made,
                    "spec": {
                        "replicas": count,
                        "selector": {"matchLabels": labels},
                        "template": {"metadata": inner, "spec": template["spec"]},
                    },
                    "status": _settled(count),
                }
            )

    def _deployment(self, namespace: str, replica_set: str) -> Object | None:
        for found in self.of("Deployment"):
            metadata = found["metadata"]
            if metadata["namespace"] == namespace and replica_set.rpartition("-")[0] == metadata["name"]:
                count = found["spec"]["replicas"]
                conditions = found["status"].get("conditions", [])
                found["status"] = {**_settled(count), "updatedReplicas": count, "conditions": conditions}
                return found
        return None

    def _services(self) -> None:
        """Services that only their slices tell of."""
        labels = {p["metadata"]["uid"]: p["metadata"]["labels"] for p in self.of("Pod")}
        for found in self.of("EndpointSlice"):
            owner = controller_of(found)
            if owner is None or owner["uid"] in self.objects:
                continue
            chosen = labels[found["endpoints"][0]["targetRef"]["uid"]]
            metadata = {k: found["metadata"][k] for k in ("namespace", "creationTimestamp", "resourceVersion")}
            ports = [{"port": p["port"], "targetPort": p["port"], "protocol": p["protocol"]} for p in found["ports"]]
            self._add(
                {
                    "kind": "Service",
                    "apiVersion": "v1",
                    "metadata": {"name": owner["name"], "uid": owner["uid"], **metadata},
                    "spec": {"selector": {"app": chosen["app"]}, "ports": ports, "type": "ClusterIP"},
                }
            )

    def _budgets(self, exchanges: list[Exchange]) -> None:
        """Budgets that only the evictions that they refused tell of; their ReplicaSets have as many pods as they say."""
        for exchange in exchanges:
            body = exchange["response"]["body"]
            if exchange["response"]["status"] != 429 or not isinstance(body, dict):
                continue
            found = REFUSED.search(body["details"]["causes"][0]["message"])
            _, _, _, _, namespace, _, name, _ = exchange["request"]["path"].split("/")
            pod = next(p for p in self.of("Pod") if p["metadata"]["name"] == name)
            if found is None or f"budget-{found[1]}" in self.objects:
                continue
            metadata = {"name": found[1], "namespace": namespace, "uid": f"budget-{found[1]}", "generation": 1}
            metadata |= {"creationTimestamp": pod["metadata"]["creationTimestamp"], "resourceVersion": "1"}
            spec = {
                "minAvailable": int(found[2]),
                "selector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}},
            }
            counts = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
            head = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": metadata}
            self._add({**head, "spec": spec, "status": counts})
            owner = self.objects[(controller_of(pod) or {})["uid"]]
            owner["spec"]["replicas"] = int(found[3])
            owner["status"] = _settled(int(found[3]))

    def _templates(self) -> None:
        """A Deployment first seen with its new template had that of its largest ReplicaSet."""
        for deployment in self.of("Deployment"):
            mine = [
                r for r in self.of("ReplicaSet") if (controller_of(r) or {}).get("uid") == deployment["metadata"]["uid"]
            ]
            shown = {json.dumps(_plain(r["spec"]["template"]), sort_keys=True) for r in mine}
            if mine and json.dumps(_plain(deployment["spec"]["template"]), sort_keys=True) not in shown:
                largest = max(mine, key=lambda r: r["spec"]["replicas"])
                deployment["spec"]["template"] = _plain(largest["spec"]["template"])

    def _pods_of(self, owner: Object) -> None:
        mine = [p for p in self.of("Pod") if (controller_of(p) or {}).get("uid") == owner["metadata"]["uid"]]
        if owner["kind"] == "ReplicaSet":
            missing = owner["status"].get("replicas", 0) - sum(is_active(p) for p in mine)
            self.standing_in += [pod_from_template(owner, owner["spec"]["template"]) for _ in range(missing)]
            return
        label = mine[0]["metadata"]["labels"][REVISION_LABEL]
        revision = revision_of(owner, f"{owner['metadata']['name']}-{label}", label, 1)
        revision["metadata"] |= {"uid": f"revision-{label}", "resourceVersion": "1"}
        revision["metadata"]["creationTimestamp"] = owner["metadata"]["creationTimestamp"]
        self._add({"kind": "ControllerRevision", "apiVersion": "apps/v1", **revision})
        there = {p["spec"]["nodeName"] for p in mine}
        for node in self.of("Node"):
            name = node["metadata"]["name"]
            if name not in there:
                spec = {**_unbound(mine[0]["spec"]), "nodeName": name}
                pod = {"metadata": {"generateName": mine[0]["metadata"]["generateName"]}, "spec": spec}
                pod["metadata"] |= {k: mine[0]["metadata"][k] for k in ("namespace", "labels", "ownerReferences")}
                self.standing_in.append(pod)

    def place(self, pod: Object, used: dict[str, int]) -> str:
        """A node with room for a stand-in; `used` are the GPUs in use by node and is kept up."""
        wanted = effective_request(pod["spec"]).get(GPU, 0)
        for node in sorted(self.of("Node"), key=lambda n: used.get(n["metadata"]["name"], 0)):
            name = node["metadata"]["name"]
            if used.get(name, 0) + wanted <= int(node["status"]["allocatable"][GPU]):
                used[name] = used.get(name, 0) + wanted
                return str(name)
        raise AssertionError(f"no node has room for {pod['metadata']}")

    def running(self, pod: Object) -> Object:
        """The status of a stand-in that has been running for a while."""
        at = self.began_at - 2
        status = podstatus.running(pod, "10.99.0.1", at, ready=True)
        return {**status, "hostIP": "10.0.0.1", "startTime": stamp(at)}


def _settled(count: int) -> Object:
    counts = dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), count)
    return {**counts, "terminatingReplicas": 0, "observedGeneration": 1}


def as_written(spec: Object) -> Object:
    """A pod's spec without the token's volume, which the server would add once more."""
    volumes = [v for v in spec.get("volumes") or () if not v["name"].startswith("kube-api-access-")]
    return {**spec, "volumes": volumes}


def _unbound(spec: Object) -> Object:
    return {k: v for k, v in as_written(spec).items() if k != "nodeName"}


def _plain(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    return {"metadata": metadata, "spec": template["spec"]}
