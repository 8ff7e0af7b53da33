"""A node that can be drained safely, and how to make exactly one thing about it unsafe."""

from typing import Any

import msgspec

from fleet.domain import objects
from fleet.domain.facts import Actor, Facts, Machine, Owner, Saved
from fleet.domain.policies import Policy
from fleet.domain.specs import FullPod
from tests.domain import cluster

NOW = cluster.EPOCH_AT + 3600
NODE = "node-1"
CHAT = Owner("Deployment/lab/chat", "Deployment", "chat", replicas=3, ready=3)
TRAINER = Owner("StatefulSet/lab/trainer", "StatefulSet", "trainer", replicas=1, ready=1)


def node(name: str = NODE, gpus: int = 8, **more: Any) -> objects.Node:
    labels = {
        **cluster.LABELS,
        "vigie.dev/pool": "train",
        "topology.kubernetes.io/rack": f"rack-{name}",
        "kubernetes.io/hostname": name,
        **more.pop("labels", {}),
    }
    return msgspec.convert(cluster.node(name, gpus, labels=labels, **more), objects.Node)


def pod(name: str, on: str = NODE, gpus: int = 1, owner: str = "ReplicaSet", **more: Any) -> FullPod:
    references = cluster.owned_by(owner, name.rsplit("-", 1)[0]) if owner else []
    more.setdefault("ownerReferences", references)
    labels = more.pop("labels", {"app": name.rsplit("-", 1)[0]})
    return msgspec.convert(cluster.pod(name, on, gpus, uid=name, labels=labels, **more), FullPod)


def budget(name: str = "chat", app: str = "chat", allowed: int = 1, **spec: Any) -> objects.Budget:
    made = cluster.budget(name, {"matchLabels": {"app": app}})
    made["spec"] |= spec or {"minAvailable": 2}
    made["status"] = {"disruptionsAllowed": allowed}
    return msgspec.convert(made, objects.Budget)


def service(app: str = "chat", **spec: Any) -> objects.Service:
    meta = cluster.meta(app, "lab")
    return msgspec.convert({"metadata": meta, "spec": {"selector": {"app": app}, **spec}}, objects.Service)


def safe(**more: Any) -> Facts:
    """One of three servers under a budget that spares one, and a trainer whose checkpoint is a minute old, on a node beside three
    with room."""
    pods = (
        pod("chat-1"),
        pod("chat-2", "node-2"),
        pod("chat-3", "node-3"),
        pod("trainer-0", gpus=4, owner="StatefulSet"),
    )
    known = {
        "cluster": "lab",
        "kind": "drain",
        "target": NODE,
        "actor": Actor("olga", "operator"),
        "now": NOW,
        "read_at": NOW - 1,
        "policy": Policy(),
        "actions_allowed": True,
        "nodes": (node(), node("node-2"), node("node-3"), node("node-4")),
        "pods": pods,
        "owners": {"chat-1": CHAT, "chat-2": CHAT, "chat-3": CHAT, "trainer-0": TRAINER},
        "daemon_sets": frozenset({"lab/daemon"}),
        "budgets": (budget(),),
        "services": (service(),),
        "claims": {},
        "storage": {},
        "machine": Machine(measured=True, read_at=NOW - 5, gpus=8),
        "in_flight": {"chat-1": 0},
        "saved": {"trainer-0": Saved(NOW - 60, 4_000, durable=True)},
    }
    return Facts(**{**known, **more})


def without(uid: str) -> tuple[FullPod, ...]:
    return tuple(one for one in safe().pods if one.metadata.uid != uid)


def with_pod(one: FullPod, owner: Owner | None = None, **more: Any) -> Facts:
    """The safe node with one more pod."""
    owners = {**safe().owners, **({one.metadata.uid: owner} if owner else {})}
    return safe(**{"pods": (*safe().pods, one), "owners": owners, **more})
