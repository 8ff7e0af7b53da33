"""The heartbeats of the nodes: a Lease every 10 s, the node's conditions every 5 min.

Owns lease renewal and lastHeartbeatTime. Must not create nodes nor judge them: that is the node lifecycle controller.
"""

from typing import Any

from fleet.simulation.clock import micro_stamp, parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.kubelet import SILENT
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

LEASE_NAMESPACE = "kube-node-lease"
LEASE_EVERY_S = 10.0
LEASE_DURATION_S = 40
STATUS_EVERY_S = 300.0
KUBELET_CONDITIONS = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"})


class Heartbeats(Controller):
    """Keys are nodes."""

    name = "heartbeats"
    manager = "kubelet"
    primary = "nodes"

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_added}

    @staticmethod
    def _node_added(change: Change) -> list[str]:
        return [change.object["metadata"]["name"]] if change.type == "ADDED" else []

    def start_keys(self) -> list[str]:
        """Nodes go on in their own rhythm: spread over the interval, as machines that booted at different times are."""
        for node in self.informers["nodes"].all():
            self.queue.add(node["metadata"]["name"], self.rng.uniform(0.0, LEASE_EVERY_S))
        return []

    def sync(self, key: str) -> float | None:
        node = self.informers["nodes"].get(key)
        if node is None:
            return None
        if (node["metadata"].get("annotations") or {}).get(SILENT) != "true":
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
        mine = [c for c in node["status"].get("conditions") or () if c["type"] in KUBELET_CONDITIONS]
        if all(now - parse_stamp(c["lastHeartbeatTime"]) < STATUS_EVERY_S - 1 for c in mine):
            return

        def report(draft: Object) -> None:
            for entry in draft["status"]["conditions"]:
                if entry["type"] in KUBELET_CONDITIONS:
                    entry["lastHeartbeatTime"] = stamp(now)

        name = node["metadata"]["name"]
        self.store.mutate("nodes", None, name, report, manager=self.manager, subresource="status")


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
