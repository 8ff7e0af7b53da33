"""The DaemonSet controller: one pod on every node that matches, cordoned nodes included.

Follows kubernetes/pkg/controller/daemon. Pods are tied to their node by affinity and bound by the scheduler, as real ones.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus, template_history
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.ownership import available_in_s, is_active, pod_from_template, without_zeros
from fleet.simulation.placement import affinity_matches, tolerates
from fleet.simulation.refusals import ApiError
from fleet.simulation.rollout_steps import share
from fleet.simulation.template_history import REVISION_LABEL

Object = dict[str, Any]

TOLERATED = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
]
HOST_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


class DaemonSets(Controller):
    """Keys are DaemonSets."""

    name = "daemonset-controller"
    primary = "daemonsets"
    turn = 1

    def watches(self) -> dict[str, Keys]:
        return {"daemonsets": _itself, "pods": _owner, "nodes": self._node_changed}

    def _node_changed(self, change: Change) -> Iterable[str]:
        if change.type == "MODIFIED" and change.previous is not None and _same_node(change.previous, change.object):
            return ()
        return list(self.informers["daemonsets"].objects)

    def sync(self, key: str) -> float | None:
        owner = self.informers["daemonsets"].get(key)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return None
        identity = template_history.hash_of(owner, template_history.present_revision(self, owner))
        nodes = {n["metadata"]["name"]: n for n in self.informers["nodes"].all()}
        pods: dict[str, list[Object]] = {}
        for pod in self.informers["pods"].indexed("controller", owner["metadata"]["uid"]):
            pods.setdefault(node_of(pod), []).append(pod)
        wanted = [n for n, node in nodes.items() if _runs_on(owner, node)]
        try:
            for node in wanted:
                self._settle(owner, node, pods.get(node, []), identity)
            for node in pods.keys() - set(wanted):
                if node not in nodes or not _may_stay(owner, nodes[node]):
                    self._remove(owner, [p for p in pods[node] if not podstatus.is_terminating(p)])
            self._update(owner, wanted, pods, identity)
        finally:
            self._report(owner, wanted, pods, identity)
        prefix = owner["metadata"]["name"]
        every = [p for there in pods.values() for p in there]
        template_history.forget(self, owner, {f"{prefix}-{identity}", *(f"{prefix}-{_hash_of(p)}" for p in every)})
        return None

    def _settle(self, owner: Object, node: str, pods: list[Object], identity: str) -> None:
        """Exactly one pod that is not finished on this node."""
        self._remove(owner, [p for p in pods if podstatus.is_finished(p) and not podstatus.is_terminating(p)])
        if not any(not podstatus.is_finished(p) for p in pods):
            try:
                pod = self.store.create("pods", daemon_pod(owner, node, identity), manager=self.manager)
            except ApiError as refusal:
                self._tell(owner, "FailedCreate", f"Error creating: {refusal.message}", "Warning")
                raise
            self._tell(owner, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _remove(self, owner: Object, pods: list[Object]) -> None:
        for pod in pods:
            namespace, name = split_key(key_of(pod))
            self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"])
            self._tell(owner, "SuccessfulDelete", f"Deleted pod: {name}")

    def _update(self, owner: Object, wanted: list[str], pods: dict[str, list[Object]], identity: str) -> None:
        """Replace outdated pods, at most maxUnavailable being away at a time."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        mine = [p for n in wanted for p in pods.get(n, [])]
        outdated = [p for p in mine if is_active(p) and _hash_of(p) != identity]
        unready = [p for p in outdated if not podstatus.is_ready(p)]
        ready = [p for p in outdated if podstatus.is_ready(p)]
        available = sum(podstatus.is_ready(p) and is_active(p) for p in mine)
        may_go = max(0, share(limit, len(wanted), up=True) - (len(wanted) - available))
        self._remove(owner, [*unready, *ready[:may_go]])

    def _report(self, owner: Object, wanted: list[str], pods: dict[str, list[Object]], identity: str) -> None:
        here = [max(pods[n], key=lambda p: p["metadata"]["creationTimestamp"]) for n in wanted if pods.get(n)]
        now, wait_s = self.clock.now(), owner["spec"].get("minReadySeconds", 0)
        available = sum(available_in_s(p, wait_s, now) == 0 for p in here)
        counts = {
            "updatedNumberScheduled": sum(_hash_of(p) == identity for p in here),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        status = {
            "currentNumberScheduled": len(here),
            "numberMisscheduled": sum(1 for n, there in pods.items() if n not in set(wanted) and there),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(podstatus.is_ready(p) for p in here),
            "observedGeneration": owner["metadata"]["generation"],
            **without_zeros(counts),
        }
        if status == owner["status"]:
            return
        namespace, name = split_key(key_of(owner))
        self.store.mutate(
            "daemonsets",
            namespace,
            name,
            lambda draft: {**draft, "status": status},
            manager=self.manager,
            subresource="status",
        )

    def _tell(self, owner: Object, reason: str, message: str, kind: str = "Normal") -> None:
        self.recorder.core(owner, reason, message, component=self.name, kind=kind)


def daemon_pod(owner: Object, node: str, identity: str) -> Object:
    """The pod of a DaemonSet for one node."""
    generation = (owner["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    labels = {REVISION_LABEL: identity, "pod-template-generation": generation or "1"}
    pod = pod_from_template(owner, owner["spec"]["template"], labels)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    tolerations = [*(pod["spec"].get("tolerations") or []), *_tolerated(pod["spec"])]
    pod["spec"] = {**pod["spec"], "affinity": affinity, "tolerations": tolerations}
    return pod


def _tolerated(spec: Object) -> list[Object]:
    return [*TOLERATED, HOST_NETWORK] if spec.get("hostNetwork") else TOLERATED


def node_of(pod: Object) -> str:
    """The node that a DaemonSet's pod is bound to, or is meant for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def _runs_on(owner: Object, node: Object) -> bool:
    """Whether the node is to have a pod."""
    return _accepted(owner, node, {"NoSchedule", "NoExecute"})


def _may_stay(owner: Object, node: Object) -> bool:
    """Whether a pod that is there stays although none would be made."""
    return _accepted(owner, node, {"NoExecute"})


def _accepted(owner: Object, node: Object, effects: set[str]) -> bool:
    spec = owner["spec"]["template"]["spec"]
    tolerations = [*(spec.get("tolerations") or []), *_tolerated(spec)]
    taints = [t for t in node["spec"].get("taints") or [] if t["effect"] in effects]
    return affinity_matches(spec, node) and all(tolerates(tolerations, t) for t in taints)


def _same_node(before: Object, after: Object) -> bool:
    labels = before["metadata"].get("labels") == after["metadata"].get("labels")
    return bool(labels and before["spec"].get("taints") == after["spec"].get("taints"))


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)


def _owner(change: Change) -> Iterable[str]:
    owner = controller_of(change.object)
    if owner is None or owner["kind"] != "DaemonSet":
        return ()
    return (f"{change.object['metadata']['namespace']}/{owner['name']}",)


def _hash_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
