"""What a replay's plan must tell because its recording does not show it: objects that were there, and what was done unseen.

`given`: objects of the start state, as short as can be: `{kind, namespace, name}` and any other field of the object. A pod
runs and is ready (unless `ready = false`; `node`, `ip`); a Deployment's `pods` are made with it, as its ReplicaSet's.
`{like = [EXCHANGE, EVENT], without = [FIELD or CONDITION]}` is an object of a watch as it was before.
`before`: `{at = INDEX, create | patch | delete | stall | resume | wait}` right before an exchange.
"""

import uuid
from collections.abc import Iterator
from typing import Any

from fleet.simulation import patch, podstatus
from fleet.simulation.clock import ManualClock
from fleet.simulation.controller import Controller
from fleet.simulation.machinery import Machinery
from fleet.simulation.resources import RESOURCES
from fleet.simulation.store import Store
from tests.simulation.recorded import PLURALS

Object = dict[str, Any]

TIME = "2026-12-01T19:00:00Z"
STARTED_AT = 1_796_151_600.0  # the same


def given(rows: list[Object], exchanges: list[Object] | None = None) -> Iterator[tuple[str, Object]]:
    """(plural, object) of each row, in order."""
    for row in rows:
        if "like" in row:
            obj = _alike(row, exchanges or [])
            yield PLURALS[obj["kind"]], obj
        elif row["kind"] == "Deployment" and "pods" in row:
            yield from _deployment(row)
        else:
            plural = PLURALS[row["kind"]]
            yield plural, _object(row)


def _alike(row: Object, exchanges: list[Object]) -> Object:
    """The object of an event of a watch, as it was before: without some fields of its metadata and some conditions."""
    exchange, event = row["like"]
    obj: Object = exchanges[exchange]["response"]["body"][event]["object"]
    metadata = {k: v for k, v in obj["metadata"].items() if k not in row.get("without", ())}
    conditions = [c for c in obj["status"].get("conditions", ()) if c["type"] not in row.get("without", ())]
    return {**obj, "metadata": {**metadata, "generation": 1}, "status": {**obj["status"], "conditions": conditions}}


def _object(row: Object) -> Object:
    kind, namespace, name = row["kind"], row.get("namespace"), row["name"]
    rest = {
        k: v for k, v in row.items() if k not in {"kind", "namespace", "name", "labels", "uid", "ready", "ip", "node"}
    }
    metadata: Object = {"name": name, "uid": row.get("uid", _uid(kind, name)), "creationTimestamp": TIME}
    if namespace:
        metadata["namespace"] = namespace
    if row.get("labels"):
        metadata["labels"] = row["labels"]
    metadata["generation"] = 1
    obj = {
        "kind": kind,
        "apiVersion": RESOURCES[PLURALS[kind]].api_version,
        "metadata": metadata,
        "spec": {},
        "status": {},
    }
    if kind in {"Deployment", "ReplicaSet"}:
        rest.setdefault("spec", {})["template"] = _template(rest["spec"]["selector"]["matchLabels"])
    obj = {**obj, **rest, "metadata": {**metadata, **rest.get("metadata", {})}}
    return _running(obj, row) if kind == "Pod" else obj


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{name}"))


def _template(labels: Object) -> Object:
    containers = [{"name": "server", "image": "sim.io/server:v1"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


def _running(pod: Object, row: Object) -> Object:
    """A pod that a kubelet has started and, unless `ready` is false, found ready."""
    ports = [{"name": "http", "containerPort": 8000, "protocol": "TCP"}]
    container = {"name": "server", "image": "sim.io/server:v1", "ports": ports}
    grace = {"terminationGracePeriodSeconds": 30}
    pod["spec"] = {"containers": [container], "nodeName": row.get("node", "gpu-node-00"), **grace, **pod["spec"]}
    pod["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    pod["status"] = podstatus.running(pod, row.get("ip", "10.100.0.9"), STARTED_AT, ready=row.get("ready", True))
    return pod


def _deployment(row: Object) -> Iterator[tuple[str, Object]]:
    """A Deployment, its ReplicaSet (named like the pods) and its pods."""
    labels, namespace, names = row["labels"], row["namespace"], row["pods"]
    spec = {"replicas": row.get("replicas", len(names)), "selector": {"matchLabels": labels}}
    head = {k: v for k, v in row.items() if k not in {"pods", "replicas"}}
    yield "deployments", _object({**head, "spec": spec})
    replica_set = names[0].rpartition("-")[0]
    above = _owner("Deployment", row["name"])
    head = {"kind": "ReplicaSet", "namespace": namespace, "name": replica_set, "labels": labels, "spec": spec}
    yield "replicasets", _object({**head, "metadata": {"ownerReferences": [above]}})
    for name in names:
        owner = {
            "metadata": {"ownerReferences": [_owner("ReplicaSet", replica_set)], "generateName": f"{replica_set}-"}
        }
        yield "pods", _object({"kind": "Pod", "namespace": namespace, "name": name, "labels": labels, **owner})


def _owner(kind: str, name: str) -> Object:
    identity = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": _uid(kind, name)}
    return {**identity, "controller": True, "blockOwnerDeletion": True}


async def perform(step: Object, store: Store, clock: ManualClock, machinery: Machinery) -> None:
    """One step of a plan's `before`."""
    did = (set(step) - {"at", "with"}).pop()
    match did:
        case "create":
            for plural, obj in given([step["create"]]):
                store.restore(plural, obj)
        case "patch":
            plural, namespace, name = step["patch"].split()
            changed = patch.merge(store.record(plural, namespace, name).copy(), step["with"])
            store.restore(plural, changed)
        case "delete":
            for key in step["delete"] if isinstance(step["delete"], list) else [step["delete"]]:
                plural, namespace, name = key.split()
                store.delete(plural, None if namespace == "-" else namespace, name, grace_s=0)
        case "stall":
            await machinery.halt(_component(machinery, step["stall"]))
        case "resume":
            machinery.revive(_component(machinery, step["resume"]))
        case "wait":
            await clock.advance(step["wait"])
        case _:
            raise AssertionError(f"replay.toml has an unknown step: {did}")


def _component(machinery: Machinery, name: str) -> type[Controller]:
    return next(c for c in machinery.controllers if c.__name__ == name)
