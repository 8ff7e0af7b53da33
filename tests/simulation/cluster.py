"""A small cluster under a manual clock, for the tests of the machinery."""

from typing import Any

from fleet.simulation.clock import ManualClock
from fleet.simulation.controller import Controller
from fleet.simulation.history import Change
from fleet.simulation.machinery import Machinery
from fleet.simulation.placement import FINISHED
from fleet.simulation.store import Store

Object = dict[str, Any]

GPU = "nvidia.com/gpu"


class Cluster:
    """Store and machinery; `await cluster.run(seconds)` lets time go by."""

    def __init__(self, seed: int = 1, without: tuple[type[Controller], ...] = ()) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, seed=seed)
        self.machinery = Machinery(self.store, self.clock, seed, without)
        self.store.create("namespaces", {"metadata": {"name": "test"}}, manager="test")

    async def __aenter__(self) -> "Cluster":
        self.machinery.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.machinery.check()
        await self.machinery.stop()

    async def run(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        self.machinery.check()

    def node(self, name: str, gpus: int = 8, **labels: str) -> Object:
        status = {
            "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
            "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
            "conditions": [],
        }
        count = len(self.store.list("nodes"))
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"podCIDR": f"10.100.{count}.0/24"},
            "status": status,
        }
        return self.store.create("nodes", node, manager="kubelet")

    def nodes(self, count: int, gpus: int = 8) -> None:
        for index in range(count):
            self.node(f"n{index}", gpus)

    def pods(self, **labels: str) -> list[Object]:
        return self.store.list("pods", "test", labels)


def template(app: str, gpus: int = 1, grace_s: int = 30, restart: str = "Always", **sim: Any) -> Object:
    """A pod template; `sim` are the annotations of behaviour, without their prefix: warmup_seconds=2."""
    annotations = {f"sim/{k.replace('_', '-')}": str(v) for k, v in sim.items()}
    amounts = {"cpu": "1", "memory": "4Gi", **({GPU: str(gpus)} if gpus else {})}
    container = {
        "name": "server",
        "image": "sim.io/server:v1",
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace_s, "restartPolicy": restart},
    }


def deployment(
    name: str, replicas: int, pod: Object, surge: int | str = "25%", unavailable: int | str = "25%", **spec: Any
) -> Object:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": name, "namespace": "test"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": pod["metadata"]["labels"]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": pod,
            **spec,
        },
    }


def condition(obj: Object, kind: str) -> Object:
    found: Object = next((c for c in obj["status"].get("conditions") or () if c["type"] == kind), {})
    return found


def is_available(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def events_of(store: Store, name: str) -> list[tuple[str, str]]:
    """Reason and message of the events about an object, in the order in which they were written."""
    found = [e for e in store.list("events") if e["involvedObject"]["name"] == name]
    found.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
    return [(e["reason"], e["message"]) for e in found]


class Watch:
    """Every change of one resource since now."""

    def __init__(self, store: Store, plural: str) -> None:
        self._subscription = store.subscribe(plural)
        self.changes: list[Change] = []

    def take(self) -> list[Change]:
        self.changes += self._subscription.take()
        return self.changes


class PodCounts:
    """The extremes over every single event of unfinished pods: not terminating, with terminating ones, and available."""

    def __init__(self, pods: list[Object]) -> None:
        self._pods = {p["metadata"]["uid"]: p for p in pods}
        self.most = self.most_with_terminating = 0
        self.least_available = len(pods)

    def feed(self, changes: list[Change]) -> None:
        for change in changes:
            uid = change.object["metadata"]["uid"]
            if change.type == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = change.object
            self._measure()

    def _measure(self) -> None:
        alive = [p for p in self._pods.values() if p["status"].get("phase") not in FINISHED]
        self.most_with_terminating = max(self.most_with_terminating, len(alive))
        self.most = max(self.most, sum("deletionTimestamp" not in p["metadata"] for p in alive))
        self.least_available = min(self.least_available, sum(is_available(p) for p in alive))
