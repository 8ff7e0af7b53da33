"""What kubelets report of their nodes: a Lease every 10 s, conditions and allocatable amounts when they change or every 5 min.

Owns lease renewal, the kubelet's conditions and allocatable GPUs. Must not create nodes nor judge them: that is the node
lifecycle controller.
"""

from typing import Any

from fleet.simulation import device_plugin
from fleet.simulation.clock import micro_stamp, parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.hardware import GPU
from fleet.simulation.history import Change
from fleet.simulation.kubelet import is_silent, notes_of
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

LEASE_NAMESPACE = "kube-node-lease"
LEASE_EVERY_S = 10.0
LEASE_DURATION_S = 40
STATUS_EVERY_S = 300.0
# Annotations of a node, read as what is wrong with its machine.
NOT_READY = "sim/not-ready"
HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
UNREADY = ("False", "KubeletNotReady", NO_NETWORK)


class Heartbeats(Controller):
    """Keys are nodes."""

    name = "heartbeats"
    manager = "kubelet"
    primary = "nodes"
    turn = 1000  # a machine is never too busy to say that it is there
    latency_s = (0.008, 0.03)

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed}

    @staticmethod
    def _node_changed(change: Change) -> list[str]:
        """New nodes, and those whose machine has changed."""
        same = change.previous is not None and _machine(change.previous) == _machine(change.object)
        return [] if same or change.type == "DELETED" else [change.object["metadata"]["name"]]

    def start_keys(self) -> list[str]:
        """Nodes go on in their own rhythm: spread over the interval, as machines that booted at different times are."""
        for node in self.informers["nodes"].all():
            self.queue.add(node["metadata"]["name"], self.rng.uniform(0.0, LEASE_EVERY_S))
        return []

    def sync(self, key: str) -> float | None:
        node = self.informers["nodes"].get(key)
        if node is None:
            return None
        if not is_silent(node):
            self._renew(node)
            self._report(node)
        return LEASE_EVERY_S

    def _renew(self, node: Object) -> None:
        name = node["metadata"]["name"]
        renewed = micro_stamp(self.clock.now())

        def renew(lease: Object) -> None:
            lease["spec"]["renewTime"] = renewed

        try:
            self.store.mutate("leases", LEASE_NAMESPACE, name, renew, manager=self.manager)
        except ApiError as refusal:
            if refusal.status != 404:
                raise
            self.store.create("leases", lease_of(node, renewed), manager=self.manager)

    def _report(self, node: Object) -> None:
        now = self.clock.now()
        mine = [c for c in node["status"].get("conditions") or () if c["type"] in HEALTHY]
        told = {**HEALTHY, "Ready": UNREADY if NOT_READY in notes_of(node) else HEALTHY["Ready"]}
        changed = any(_told(c) != told[c["type"]] for c in mine)
        due = any(now - parse_stamp(c["lastHeartbeatTime"]) >= STATUS_EVERY_S - 1 for c in mine)
        amounts = _amounts(node)
        if not changed and not due and all(node["status"].get(kind) == found for kind, found in amounts.items()):
            return

        def report(draft: Object) -> None:
            for entry in draft["status"]["conditions"]:
                if entry["type"] in told:
                    _update(entry, told[entry["type"]], stamp(now))
            draft["status"] |= amounts

        name = node["metadata"]["name"]
        self.store.mutate("nodes", None, name, report, manager=self.manager, subresource="status")


def _told(condition: Object) -> tuple[str, str, str]:
    return condition["status"], condition.get("reason", ""), condition.get("message", "")


def _update(entry: Object, told: tuple[str, str, str], now: str) -> None:
    status, reason, message = told
    if entry["status"] != status:
        entry["lastTransitionTime"] = now
    entry |= {"status": status, "reason": reason, "message": message, "lastHeartbeatTime": now}


def _machine(node: Object) -> tuple[dict[str, str], bool]:
    return notes_of(node), device_plugin.is_paused(node)


def _amounts(node: Object) -> Object:
    """Capacity and allocatable, with the slots that the device plugin offers now; nothing for a node without GPUs."""
    status = node["status"]
    if GPU not in (status.get("allocatable") or {}):
        return {}
    capacity, healthy = device_plugin.slots(node)
    found = {"capacity": capacity, "allocatable": healthy}
    return {kind: {**status[kind], GPU: str(count)} for kind, count in found.items()}


def lease_of(node: Object, renewed: str) -> Object:
    """A node's Lease; `renewed` is a MicroTime."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": metadata["name"],
            "leaseDurationSeconds": LEASE_DURATION_S,
            "renewTime": renewed,
        },
    }
