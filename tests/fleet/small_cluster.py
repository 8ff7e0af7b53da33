"""A cluster of a few nodes in memory that a Changer reads and changes, for tests of what never may happen.

It remembers which evictions it accepted. Controllers replace what goes; time passes by `pass_time`.
"""

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from fleet.domain import draining, objects
from fleet.domain.budgets import Scale, allowance, selects
from fleet.domain.draining import Cause, Reply
from fleet.domain.facts import CHECKPOINT, TRAINS, Permission, Right
from fleet.domain.objects import Budget, Deployment, Node, Object, Service
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import HOOK, Signal
from fleet.ports import PortError
from tests.domain import checkpoint_makers, cluster

BOOT = "nvidia.com/cuda.driver-version.full"


class Killed(BaseException):
    """The process dies here: nothing that follows runs, whatever it catches."""


@dataclasses.dataclass
class SmallCluster:
    """`fleet.ports.Changer`. Workloads have two pods each and a budget that spares one. `trainers` among them save to `shelf`,
    the claim "ckpt", when they are asked, and are done with it after `save_s`; a negative `save_s`: they never are."""

    now: float
    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)
    pods: dict[str, FullPod] = dataclasses.field(default_factory=dict)  # by UID
    budgets: list[Budget] = dataclasses.field(default_factory=list)
    ready_at: dict[str, float] = dataclasses.field(default_factory=dict)  # by pod UID
    accepted: list[str] = dataclasses.field(default_factory=list)  # UIDs, in the order of their evictions
    kill_before: int = -1  # requests from now until the process dies, before or after the server has heard it
    kill_after: int = -1
    away: bool = False
    trainers: frozenset[str] = frozenset()
    shelf: Path = Path()
    save_s: float = 8.0
    ahead_s: float = 0.0  # the clock of who dates what is saved
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # pod and how, in the order of asking
    saving: dict[str, float] = dataclasses.field(default_factory=dict)  # until when, by workload
    refuses: PortError | None = None  # what asking to save is answered with
    hook: str = "http:8080/save"
    numbers: Any = dataclasses.field(default_factory=lambda: itertools.count(1))

    @classmethod
    def made(
        cls, now: float, workloads: Sequence[str], nodes: int = 3, trainers: Sequence[str] = (), **more: Any
    ) -> "SmallCluster":
        found = cls(now, trainers=frozenset(trainers), **more)
        for n in range(nodes):
            node = msgspec.convert(cluster.node(f"node-{n}", 8, labels={**cluster.LABELS, "rack": str(n)}), Node)
            found.nodes[node.metadata.name] = found.versioned(node)
        for name in (*workloads, *trainers):
            for n in range(2):
                found.start(name, f"node-{n}")
            made = cluster.budget(name, {"matchLabels": {"app": name}})
            made["spec"]["maxUnavailable"] = 1
            found.budgets.append(msgspec.convert(made, Budget))
        return found

    # What happens in it

    def versioned(self, node: Node) -> Node:
        meta = msgspec.structs.replace(node.metadata, resource_version=str(next(self.numbers)))
        return msgspec.structs.replace(node, metadata=meta)

    def start(self, workload: str, node: str, warm_up_s: float = 0.0) -> None:
        uid = f"{workload}-{next(self.numbers)}"
        more = self._training(workload) if workload in self.trainers else {}
        owner = cluster.owned_by("Deployment", workload)
        made = cluster.pod(uid, node, 1, uid=uid, labels={"app": workload}, ownerReferences=owner, **more)
        self.pods[uid] = msgspec.convert(made, FullPod)
        self.ready_at[uid] = self.now + warm_up_s

    def _training(self, workload: str) -> dict[str, Any]:
        """What makes a pod train: where it saves, and how it is asked to."""
        mounted = {**cluster.container(1), "volumeMounts": [{"name": "ckpt", "mountPath": "/ckpt"}]}
        volume = {"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}
        notes = {TRAINS: "training", CHECKPOINT: f"/ckpt/{workload}", HOOK: self.hook}
        return {"annotations": notes, "spec": {"containers": [mounted], "volumes": [volume]}}

    def step(self) -> int:
        """Where every trainer is: one step in ten seconds."""
        return int(self.now) // 10 % 1_000_000

    def save(self, workload: str) -> None:
        """A complete checkpoint, now."""
        folder = self.shelf / workload
        folder.mkdir(parents=True, exist_ok=True)
        name = folder / f"step_{self.step()}.pt"
        name.write_bytes(checkpoint_makers.archive({**checkpoint_makers.FULL, "global_step": self.step()}))
        os.utime(name, (self.now + self.ahead_s,) * 2)

    def spares(self, workload: str, pods: int) -> None:
        """Its budget from now on."""
        self.budgets = [
            msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, max_unavailable=pods))
            if one.metadata.name == workload
            else one
            for one in self.budgets
        ]

    def _finish_saves(self) -> None:
        for workload, until in list(self.saving.items()):
            if until <= self.now:
                del self.saving[workload]
                self.save(workload)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self._finish_saves()
        for uid, pod in list(self.pods.items()):
            ends_at = objects.seconds(pod.metadata.deletion_timestamp)
            if ends_at is not None and ends_at <= self.now:
                del self.pods[uid]
                home = next((n for n, node in sorted(self.nodes.items()) if not node.spec.unschedulable), None)
                if home is not None:
                    self.start(pod.metadata.labels["app"], home, 3.0)
        self._replace_missing()

    def _replace_missing(self) -> None:
        """What found no node waits until there is one."""
        home = next((n for n, node in sorted(self.nodes.items()) if not node.spec.unschedulable), None)
        for budget in self.budgets:
            name = budget.metadata.name
            missing = 2 - sum(pod.metadata.labels["app"] == name for pod in self.pods.values())
            for _ in range(missing if home else 0):
                self.start(name, str(home), 3.0)

    def is_ready(self, pod: FullPod) -> bool:
        return self.ready_at[pod.metadata.uid] <= self.now and pod.metadata.deletion_timestamp is None

    def shown(self, pod: FullPod) -> FullPod:
        condition = objects.Condition("Ready", str(self.ready_at[pod.metadata.uid] <= self.now))
        return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=(condition,)))

    def cordon(self, name: str, closed: bool, by: str = "") -> None:
        """Somebody else does it."""
        node = self.nodes[name]
        notes = {
            key: value for key, value in node.metadata.annotations.items() if not key.startswith("vigie.dev/cordon")
        }
        meta = msgspec.structs.replace(node.metadata, annotations=notes)
        spec = msgspec.structs.replace(node.spec, unschedulable=closed)
        self.nodes[name] = self.versioned(msgspec.structs.replace(node, metadata=meta, spec=spec))

    def reboot(self, name: str) -> None:
        node = self.nodes[name]
        info = msgspec.structs.replace(node.status.node_info, boot_id=f"boot-{next(self.numbers)}")
        self.nodes[name] = self.versioned(
            msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, node_info=info))
        )

    # The port

    def _heard(self) -> None:
        if self.away:
            raise PortError("nobody is there", retryable=True, reason="refused")

    def _may_die(self, before: bool) -> None:
        name = "kill_before" if before else "kill_after"
        left = getattr(self, name)
        if left == 0:
            setattr(self, name, -1)
            raise Killed
        if left > 0:
            setattr(self, name, left - 1)

    def read_nodes(self) -> tuple[Node, ...]:
        self._heard()
        return tuple(self.nodes.values())

    def read_node(self, name: str) -> Node | None:
        self._heard()
        return self.nodes.get(name)

    def read_pods(self, node: str = "") -> tuple[FullPod, ...]:
        self._heard()
        return tuple(self.shown(pod) for pod in self.pods.values() if node in {"", pod.spec.node_name})

    def read_pod(self, namespace: str, name: str) -> FullPod | None:
        self._heard()
        return next((self.shown(pod) for pod in self.pods.values() if pod.metadata.name == name), None)

    def read_controllers(self) -> tuple[Object, ...]:
        self._heard()
        return tuple(self._deployment(budget.metadata.name) for budget in self.budgets)

    def _deployment(self, name: str) -> Deployment:
        ready = sum(self.is_ready(pod) for pod in self.pods.values() if pod.metadata.labels["app"] == name)
        made = cluster.controller("Deployment", name, 2)
        made["status"] = {"readyReplicas": ready, "availableReplicas": ready, "replicas": 2}
        return msgspec.convert(made, Deployment)

    def read_daemon_sets(self) -> frozenset[str]:
        return frozenset()

    def read_budgets(self) -> tuple[Budget, ...]:
        self._heard()
        return tuple(self._stated(budget) for budget in self.budgets)

    def _stated(self, budget: Budget) -> Budget:
        found = self._allowance(budget)
        status = objects.BudgetStatus(
            disruptions_allowed=found.allowed, current_healthy=found.healthy, desired_healthy=found.desired
        )
        return msgspec.structs.replace(budget, status=status)

    def _allowance(self, budget: Budget) -> Any:
        mine = [self.shown(p) for p in self.pods.values() if selects(budget.spec.selector, p.metadata.labels)]
        return allowance(budget, [(pod, Scale(budget.metadata.name, 2)) for pod in mine], self.now)

    def read_services(self) -> tuple[Service, ...]:
        return tuple(
            msgspec.convert(
                {"metadata": cluster.meta(b.metadata.name, "lab"), "spec": {"selector": {"app": b.metadata.name}}},
                Service,
            )
            for b in self.budgets
        )

    def read_claims(self) -> tuple[Claim, ...]:
        spec = {"accessModes": ["ReadWriteMany"], "volumeName": "pv-ckpt"}
        return (msgspec.convert({"metadata": cluster.meta("ckpt", "lab"), "spec": spec}, Claim),)

    def read_storage(self) -> tuple[Storage, ...]:
        return (msgspec.convert({"metadata": cluster.meta("pv-ckpt")}, Storage),)

    def may(self, rights: Sequence[Right]) -> tuple[Permission, ...]:
        self._heard()
        return tuple(Permission(right.verb, right.resource, right.namespace, allowed=True) for right in rights)

    def change_node(self, node: Node, *, unschedulable: bool | None, annotations: Mapping[str, str | None]) -> Node:
        self._heard()
        self._may_die(before=True)
        current = self.nodes[node.metadata.name]
        if current.metadata.resource_version != node.metadata.resource_version:
            raise PortError("conflict", retryable=False, status=409, reason="Conflict")
        notes = {**current.metadata.annotations, **annotations}
        meta = msgspec.structs.replace(
            current.metadata, annotations={key: value for key, value in notes.items() if value is not None}
        )
        closed = current.spec.unschedulable if unschedulable is None else unschedulable
        spec = msgspec.structs.replace(current.spec, unschedulable=closed)
        self.nodes[node.metadata.name] = self.versioned(msgspec.structs.replace(current, metadata=meta, spec=spec))
        self._may_die(before=False)
        return self.nodes[node.metadata.name]

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool) -> draining.Reply:
        self._heard()
        if not dry_run:
            self._may_die(before=True)
        pod = next((pod for pod in self.pods.values() if pod.metadata.name == name), None)
        if pod is None:
            return Reply(404, "NotFound")
        if pod.metadata.uid != uid:
            return Reply(409, "Conflict")
        reply = self._evicted(pod, dry_run=dry_run)
        if not dry_run:
            self._may_die(before=False)
        return reply

    def _evicted(self, pod: FullPod, *, dry_run: bool) -> Reply:
        budget = next(b for b in self.budgets if selects(b.spec.selector, pod.metadata.labels))
        found = self._allowance(budget)
        if found.allowed <= 0 and pod.metadata.deletion_timestamp is None:
            needs = f"needs {found.desired} healthy pods and has {found.healthy} currently"
            message = f"The disruption budget {budget.metadata.name} {needs}"
            return Reply(429, "TooManyRequests", "", (Cause("DisruptionBudget", message),))
        if not dry_run:
            self.accepted.append(pod.metadata.uid)
            ends = datetime.fromtimestamp(self.now + 5.0, UTC)
            meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=ends)
            self.pods[pod.metadata.uid] = msgspec.structs.replace(pod, metadata=meta)
        return Reply(201)

    def get_from_pod(self, namespace: str, name: str, port: int, path: str) -> bytes:
        raise PortError("it serves nothing", retryable=False, status=404)

    def post_to_pod(self, namespace: str, name: str, port: int, path: str) -> None:
        self._ask(name, f"http:{port}{path}")

    def signal_pod(self, namespace: str, name: str, container: str, signal: Signal) -> None:
        self._ask(name, f"signal:{signal}:{container}")

    def _ask(self, name: str, how: str) -> None:
        self._heard()
        self._may_die(before=True)
        if self.refuses is not None:
            raise self.refuses
        self.asked.append((name, how))
        if self.save_s >= 0:
            self.saving.setdefault(self.pods[name].metadata.labels["app"], self.now + self.save_s)
        self._may_die(before=False)
