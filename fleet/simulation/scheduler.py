"""The scheduler: binds pods that have no node, or says why none takes them.

Owns the choice among nodes that fit: servers are spread, batch and training work is packed so that whole nodes stay free.
Must not move or remove pods, and never gives a node more than it has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fleet.simulation.clock import stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.local_disks import claims_of, out_of_reach
from fleet.simulation.placement import (
    FINISHED,
    Amounts,
    Refusal,
    Room,
    amounts,
    blocked,
    effective_request,
    unavailable_message,
)

Object = dict[str, Any]

NAME = "default-scheduler"
PACKED_OWNERS = frozenset({"Job", "StatefulSet"})
KNOWN_WISHES = 1000
ENOUGH = 100  # nodes that fit, as with a low percentageOfNodesToScore: a large fleet is not searched to its end


@dataclass(frozen=True)
class Waiting:
    """What a pod that found no node asks for, and what it was told."""

    request: Amounts
    message: str


class Rooms:
    """The room on every node, kept up from the changes of nodes and pods."""

    def __init__(self) -> None:
        self.version = 0  # rises when a search may find something else
        self.nodes: dict[str, Object] = {}
        self._rooms: dict[str, Room] = {}
        self._held: dict[str, tuple[str, Amounts]] = {}  # pod key → node, request

    def room(self, node: str) -> Room:
        return self._rooms.setdefault(node, Room())

    def set_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        known = self.nodes.get(name)
        if known is None or _offers_other(known, node):
            self.version += 1
        self.nodes[name] = node
        self.room(name).allocatable = amounts(node["status"].get("allocatable"))

    def drop_node(self, name: str) -> None:
        self.version += 1
        self.nodes.pop(name, None)
        self.room(name).allocatable = {}

    def set_pod(self, pod: Object) -> None:
        """Count a pod, or stop counting it when it has finished or has no node."""
        key, node = key_of(pod), pod["spec"].get("nodeName")
        if not node or pod["status"].get("phase") in FINISHED:
            self.drop_pod(key)
        elif key not in self._held:
            request = effective_request(pod["spec"])
            self._held[key] = (node, request)
            self.room(node).take(request)
            self.version += 1

    def drop_pod(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.room(held[0]).give_back(held[1])
            self.version += 1


class Scheduler(Controller):
    """Keys are pods. A pod that fits nowhere waits until some node changes, or one has room for it again."""

    name = "scheduler"
    manager = "kube-scheduler"
    primary = "pods"
    latency_s = (0.001, 0.006)
    turn = 5

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.rooms = Rooms()
        self._waiting: dict[str, Waiting] = {}
        self._next_start = 0  # among the nodes, for the next search
        self._in_vain: dict[str, tuple[int, list[Refusal]]] = {}  # wishes → version of the rooms, why nobody has them

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed, "pods": self._pod_changed}

    def start_keys(self) -> Iterable[str]:
        self.rooms = Rooms()
        self._waiting = {}
        for node in self.informers["nodes"].all():
            self.rooms.set_node(node)
        pods = self.informers["pods"].all()
        for pod in pods:
            self.rooms.set_pod(pod)
        waiting = sorted((p for p in pods if _wants_node(p)), key=_turn)
        return [key_of(p) for p in waiting]

    def _node_changed(self, change: Change) -> Iterable[str]:
        if change.type == "DELETED":
            self.rooms.drop_node(change.object["metadata"]["name"])
            return ()
        self.rooms.set_node(change.object)
        if change.previous is not None and not _offers_other(change.previous, change.object):
            return ()
        return self._waiting_in_turn()

    def _pod_changed(self, change: Change) -> Iterable[str]:
        pod, key = change.object, key_of(change.object)
        gone = change.type == "DELETED"
        if gone:
            self.rooms.drop_pod(key)
            self._waiting.pop(key, None)
        else:
            self.rooms.set_pod(pod)
        node = pod["spec"].get("nodeName")
        if node:
            return self._now_fitting(node) if gone or pod["status"].get("phase") in FINISHED else ()
        return () if gone or not _wants_node(pod) or key in self._waiting else (key,)

    def _waiting_in_turn(self) -> Iterable[str]:
        pods = self.informers["pods"].objects
        return sorted((k for k in self._waiting if k in pods), key=lambda k: _turn(pods[k]))

    def _now_fitting(self, name: str) -> Iterable[str]:
        """The waiting pods for which this node has room now (the real scheduler's queueing hints)."""
        node, room = self.rooms.nodes.get(name), self.rooms.room(name)
        if node is None:
            return ()
        pods = self.informers["pods"].objects
        roomy = [k for k in self._waiting_in_turn() if not room.refuses(self._waiting[k].request)]
        return [k for k in roomy if not blocked(pods[k]["spec"], node)]

    def sync(self, key: str) -> float | None:
        self.informers["nodes"].catch_up()
        pod = self.informers["pods"].get(key)
        if pod is None or not _wants_node(pod):
            self._waiting.pop(key, None)
            return None
        request = effective_request(pod["spec"])
        fitting, refusals = self._search(pod, request)
        if fitting:
            self._bind(pod, min(fitting, key=self._preference(pod, request)))
        else:
            self._refuse(pod, Waiting(request, unavailable_message(len(self.rooms.nodes), refusals)))
        return None

    def _search(self, pod: Object, request: Amounts) -> tuple[list[str], list[Refusal]]:
        """As _filter; nothing is searched twice in vain for pods that ask for the same."""
        spec = pod["spec"]
        closed = (spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), claims_of(pod))
        wishes = repr((request, *closed))
        version, refusals = self._in_vain.get(wishes, (-1, []))
        if version == self.rooms.version:
            return [], refusals
        fitting, refusals = self._filter(pod, request)
        if not fitting:
            if len(self._in_vain) >= KNOWN_WISHES:
                self._in_vain.clear()
            self._in_vain[wishes] = (self.rooms.version, refusals)
        return fitting, refusals

    def _filter(self, pod: Object, request: Amounts) -> tuple[list[str], list[Refusal]]:
        """Nodes that fit, ENOUGH at most, and why those looked at before do not. Each search goes on where the last ended."""
        fitting: list[str] = []
        refusals: list[Refusal] = []
        names = list(self.rooms.nodes)
        first = self._next_start % len(names) if len(names) > ENOUGH else 0
        claims = claims_of(pod)
        for name in (*names[first:], *names[:first]):
            node = self.rooms.nodes[name]
            refusal = blocked(pod["spec"], node) or self.rooms.room(name).refuses(request)
            refusal = refusal or out_of_reach(claims, node, self._found)
            if refusal is None:
                fitting.append(name)
                if len(fitting) == ENOUGH:
                    break
            else:
                refusals.append(refusal)
        self._next_start = first + len(fitting) + len(refusals)
        return fitting, refusals

    def _found(self, plural: str, key: str) -> Object | None:
        return self.informers[plural].get(key)

    def _preference(self, pod: Object, request: Amounts) -> Callable[[str], tuple[float, ...]]:
        """The sort key of a node: smallest first. Siblings are the pods of the same controller."""
        owner = controller_of(pod)
        scarce = [r for r in request if "/" in r and request[r]] or ["cpu"]
        siblings: dict[str, int] = {}
        if owner is not None:
            for sibling in self.informers["pods"].indexed("controller", owner["uid"]):
                node = sibling["spec"].get("nodeName", "")
                siblings[node] = siblings.get(node, 0) + 1
        packed = owner is not None and owner["kind"] in PACKED_OWNERS
        order = {name: i for i, name in enumerate(self.rooms.nodes)}

        def preference(node: str) -> tuple[float, ...]:
            room = self.rooms.room(node)
            free = sum(room.free(r) for r in scarce)
            crowd = 0 if packed else siblings.get(node, 0)
            return (crowd, free if packed else -free, room.pods, order[node])

        return preference

    def _bind(self, pod: Object, node: str) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._waiting.pop(key_of(pod), None)
        bound = self.store.bind(namespace, name, node)
        self.rooms.set_pod(bound)
        note = f"Successfully assigned {namespace}/{name} to {node}"
        self.recorder.scheduling(pod, "Scheduled", note, "Binding")

    def _refuse(self, pod: Object, waiting: Waiting) -> None:
        """Say why; the pod and its events change only when the reason does."""
        key, message = key_of(pod), waiting.message
        namespace, name = split_key(key)
        before = self._waiting.get(key)
        self._waiting[key] = waiting
        if (before is not None and before.message == message) or _condition_message(pod) == message:
            return
        now = stamp(self.clock.now())

        def unschedulable(draft: Object) -> None:
            conditions = draft["status"].setdefault("conditions", [])
            old = next((c for c in conditions if c["type"] == "PodScheduled"), None)
            if old is None:
                old = {"type": "PodScheduled", "status": "", "lastProbeTime": None, "lastTransitionTime": now}
                conditions.append(old)
            if old["status"] != "False":
                old["lastTransitionTime"] = now
            old |= {"status": "False", "reason": "Unschedulable", "message": message}
            if "generation" in draft["metadata"]:
                old["observedGeneration"] = draft["metadata"]["generation"]

        refused = self.store.mutate("pods", namespace, name, unschedulable, manager=self.manager, subresource="status")
        self.recorder.scheduling(refused, "FailedScheduling", message, "Scheduling", kind="Warning")


def _wants_node(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", NAME) == NAME
    )


def _turn(pod: Object) -> tuple[int, str, str]:
    """Higher priority first, then older, then by name."""
    metadata = pod["metadata"]
    return (-pod["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["name"])


def _offers_other(before: Object, after: Object) -> bool:
    """Whether a node's change may let a waiting pod in: heartbeats do not."""
    return bool(
        before["spec"] != after["spec"]
        or before["status"].get("allocatable") != after["status"].get("allocatable")
        or before["metadata"].get("labels") != after["metadata"].get("labels")
    )


def _condition_message(pod: Object) -> str:
    for condition in pod["status"].get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
