"""The node lifecycle controller: the taint that goes with spec.unschedulable.

Owns taints that follow from a node's spec. Must not cordon or uncordon by itself, nor touch taints of others.
"""

from typing import Any

from fleet.simulation.clock import stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.placement import UNSCHEDULABLE

Object = dict[str, Any]


class NodeLifecycle(Controller):
    """Keys are nodes."""

    name = "node-controller"
    primary = "nodes"
    latency_s = (0.01, 0.03)

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed}

    @staticmethod
    def _node_changed(change: Change) -> list[str]:
        return [] if change.type == "DELETED" else [change.object["metadata"]["name"]]

    def sync(self, key: str) -> float | None:
        node = self.informers["nodes"].get(key)
        if node is None:
            return None
        wanted = bool(node["spec"].get("unschedulable"))
        taints = node["spec"].get("taints") or []
        if wanted == any(_is_cordon(t) for t in taints):
            return None
        now = stamp(self.clock.now())

        def follow(draft: Object) -> None:
            others = [t for t in draft["spec"].get("taints") or [] if not _is_cordon(t)]
            if draft["spec"].get("unschedulable"):
                others.append({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": now})
            if others:
                draft["spec"]["taints"] = others
            else:
                draft["spec"].pop("taints", None)

        self.store.mutate("nodes", None, key, follow, manager=self.manager)
        return None


def _is_cordon(taint: Object) -> bool:
    return bool(taint["key"] == UNSCHEDULABLE and taint["effect"] == "NoSchedule")
