"""The node lifecycle controller: notices kubelets that fall silent and marks their nodes and pods; taints that follow from it.

Follows kubernetes/pkg/controller/nodelifecycle: a look at all nodes every five seconds, NoSchedule taints at once after a
change of the node, NoExecute taints only at such a look. Must not cordon, nor touch taints of others, nor delete pods.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key
from fleet.simulation.placement import UNSCHEDULABLE

Object = dict[str, Any]

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
LEASE_NAMESPACE = "kube-node-lease"
LOOK = "*"  # the key of the look at all nodes
SILENCE = "Kubelet stopped posting node status."
# Condition and its status → the NoSchedule taint that it brings.
CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
OWN = frozenset({*CONDITION_TAINTS.values(), UNSCHEDULABLE})
EVICTING = {"False": NOT_READY, "Unknown": UNREACHABLE}


class NodeLifecycle(Controller):
    """Keys are nodes, and LOOK. `grace_s`: how old a kubelet's last sign of life may be."""

    name = "node-controller"
    primary = "nodes"
    latency_s = (0.01, 0.03)
    EVERY_S = 5.0
    grace_s = 50.0

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._executing: set[str] = set()  # nodes whose NoExecute taint is due
        self._looked_at = process.clock.now()

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed}

    def start_keys(self) -> Iterable[str]:
        return [LOOK, *super().start_keys()]

    def _node_changed(self, change: Change) -> list[str]:
        node = change.object
        name = node["metadata"]["name"]
        if change.type == "ADDED":
            message = f"Node {name} event: Registered Node {name} in Controller"
            self.recorder.core(node, "RegisteredNode", message, component=self.name)
        before = change.previous
        same = before is not None and before["spec"] == node["spec"] and _judged(before) == _judged(node)
        return [] if change.type == "DELETED" or same else [name]

    def sync(self, key: str) -> float | None:
        if key == LOOK:
            if not self._was_held_up():
                for each in self.informers["nodes"].all():
                    self._look_at(each)
            return self.EVERY_S
        node = self.informers["nodes"].get(key)
        if node is None:
            return None
        wanted = _no_schedule_taints(node)
        if wanted == {t["key"] for t in _taints(node) if _is_own(t, "NoSchedule")}:
            self._execute(node)
            return None
        self._retaint(node, "NoSchedule", wanted)
        return self.rng.uniform(*self.latency_s) if key in self._executing else None

    # The look at a node

    def _was_held_up(self) -> bool:
        """A whole rehearsal that stood still for a while has not lost its kubelets: they get until the next look."""
        now = self.clock.now()
        held_up = now - self._looked_at > 3 * self.EVERY_S
        self._looked_at = now
        return held_up

    def _look_at(self, node: Object) -> None:
        ready = podstatus.condition(node["status"], "Ready")
        if ready is None:  # no kubelet has ever reported it
            return
        was = ready["status"]
        if was != "Unknown" and self.clock.now() - self._last_sign_at(node, ready) > self.grace_s:
            self._give_up(node)
            if was == "True":
                self._tell_of(node)
            self._executing.add(node["metadata"]["name"])
            return
        if was == "True":
            self._executing.discard(node["metadata"]["name"])
            self._retaint(node, "NoExecute", set())
        elif not any(t["key"] == EVICTING[was] and t["effect"] == "NoExecute" for t in _taints(node)):
            self._executing.add(node["metadata"]["name"])
            self._execute(node)

    def _last_sign_at(self, node: Object, ready: Object) -> float:
        """The latest of the lease's renewal and the node's own status."""
        seen = parse_stamp(ready["lastHeartbeatTime"])
        lease = self.informers["leases"].get(f"{LEASE_NAMESPACE}/{node['metadata']['name']}")
        renewed = (lease or {}).get("spec", {}).get("renewTime")
        return max(seen, parse_stamp(renewed)) if renewed else seen

    def _give_up(self, node: Object) -> None:
        """All that the kubelet reports is unknown from now on."""
        now = stamp(self.clock.now())

        def unknown(draft: Object) -> None:
            for condition in draft["status"]["conditions"]:
                if condition["type"] in {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}:
                    condition |= {"status": "Unknown", "reason": "NodeStatusUnknown", "message": SILENCE}
                    condition["lastTransitionTime"] = now

        name = node["metadata"]["name"]
        self.store.mutate("nodes", None, name, unknown, manager=self.manager, subresource="status")

    def _tell_of(self, node: Object) -> None:
        """Events, and pods that nobody vouches for any more: not ready, but still running as far as anybody knows."""
        name = node["metadata"]["name"]
        self.recorder.core(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady", component=self.name)
        now = stamp(self.clock.now())

        def unready(draft: Object) -> None:
            for condition in draft["status"].get("conditions") or ():
                if condition["type"] == "Ready" and condition["status"] != "False":
                    condition |= {"status": "False", "lastTransitionTime": now}
                    condition.pop("reason", None)
                    condition.pop("message", None)

        for pod in self.informers["pods"].indexed("node", name):
            if podstatus.is_ready(pod):
                namespace, pod_name = split_key(key_of(pod))
                self.store.mutate("pods", namespace, pod_name, unready, manager=self.manager, subresource="status")
                self.recorder.core(pod, "NodeNotReady", "Node is not ready", component=self.name, kind="Warning")

    # Taints

    def _execute(self, node: Object) -> None:
        """The NoExecute taint that was found due."""
        ready = podstatus.condition(node["status"], "Ready")
        name = node["metadata"]["name"]
        if name in self._executing and ready is not None and ready["status"] in EVICTING:
            self._executing.discard(name)
            self._retaint(node, "NoExecute", {EVICTING[ready["status"]]})

    def _retaint(self, node: Object, effect: str, wanted: set[str]) -> None:
        """Make the taints of ours with `effect` exactly those `wanted`."""
        if wanted == {t["key"] for t in _taints(node) if _is_own(t, effect)}:
            return
        now = stamp(self.clock.now())

        def change(draft: Object) -> None:
            kept = [t for t in _taints(draft) if not _is_own(t, effect) or t["key"] in wanted]
            known = {t["key"] for t in kept if t["effect"] == effect}
            made = [{"key": k, "effect": effect, "timeAdded": now} for k in sorted(wanted - known)]
            if kept or made:
                draft["spec"]["taints"] = kept + made
            else:
                draft["spec"].pop("taints", None)

        self.store.mutate("nodes", None, node["metadata"]["name"], change, manager=self.manager)


def _taints(node: Object) -> list[Object]:
    return node["spec"].get("taints") or []


def _is_own(taint: Object, effect: str) -> bool:
    return bool(taint["key"] in OWN and taint["effect"] == effect)


def _judged(node: Object) -> list[tuple[str, str]]:
    return [(c["type"], c["status"]) for c in node["status"].get("conditions") or ()]


def _no_schedule_taints(node: Object) -> set[str]:
    """What the node's conditions and its cordon ask for."""
    wanted = {CONDITION_TAINTS[c] for c in _judged(node) if c in CONDITION_TAINTS}
    return wanted | ({UNSCHEDULABLE} if node["spec"].get("unschedulable") else set())
