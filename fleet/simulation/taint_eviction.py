"""The taint eviction controller: deletes pods from nodes with a NoExecute taint that they do not tolerate (long enough).

Follows kubernetes/pkg/controller/tainteviction. It asks no disruption budget. Must not set taints.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key
from fleet.simulation.placement import tolerates

Object = dict[str, Any]

MESSAGE = "Taint manager: deleting due to NoExecute taint"


class TaintEviction(Controller):
    """Keys are bound pods."""

    name = "taint-eviction-controller"
    primary = "nodes"
    latency_s = (0.045, 0.06)

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._due: dict[str, float] = {}  # pod's uid → when it has to go, by the first look at the taint

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed, "pods": self._pod_changed}

    def start_keys(self) -> Iterable[str]:
        self.informers["nodes"].catch_up()
        tainted = [n for n in self.informers["nodes"].objects.values() if _executing(n)]
        return [k for n in tainted for k in self._pods_of(n)]

    def _pods_of(self, node: Object) -> list[str]:
        return [key_of(p) for p in self.informers["pods"].indexed("node", node["metadata"]["name"])]

    def _node_changed(self, change: Change) -> Iterable[str]:
        before = _executing(change.previous) if change.previous is not None else []
        if change.type == "DELETED" or _executing(change.object) == before:
            return ()
        return self._pods_of(change.object)

    def _pod_changed(self, change: Change) -> Iterable[str]:
        """Pods that come to a tainted node."""
        pod, before = change.object, change.previous
        if change.type == "DELETED":
            self._due.pop(pod["metadata"]["uid"], None)
            return ()
        name = pod["spec"].get("nodeName")
        if not name or (before is not None and before["spec"].get("nodeName")):
            return ()
        node = self.informers["nodes"].objects.get(name)
        return (key_of(pod),) if node is not None and _executing(node) else ()

    def sync(self, key: str) -> float | None:
        pod = self.informers["pods"].get(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        node = self.informers["nodes"].get(pod["spec"]["nodeName"])
        patience_s = _patience_s(pod, _executing(node)) if node is not None else None
        uid, now = pod["metadata"]["uid"], self.clock.now()
        if patience_s is None:
            if self._due.pop(uid, None) is not None and not podstatus.is_terminating(pod):
                self._tell(pod, f"Cancelling deletion of Pod {key}")
            return None
        due = min(self._due.get(uid, now + patience_s), now + patience_s)
        self._due[uid] = due
        if due > now:
            return due - now
        self._evict(pod, key)
        return None

    def _evict(self, pod: Object, key: str) -> None:
        """First say why, then delete."""
        namespace, name = split_key(key)
        self._tell(pod, f"Marking for deletion Pod {key}")
        now = stamp(self.clock.now())

        def doomed(draft: Object) -> None:
            made = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            if "generation" in draft["metadata"]:
                made["observedGeneration"] = draft["metadata"]["generation"]
            others = [c for c in draft["status"].get("conditions") or () if c["type"] != "DisruptionTarget"]
            draft["status"]["conditions"] = [*others, {**made, "reason": "DeletionByTaintManager", "message": MESSAGE}]

        self.store.mutate("pods", namespace, name, doomed, manager=self.manager, subresource="status")
        if not podstatus.is_terminating(pod):
            self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"])

    def _tell(self, pod: Object, message: str) -> None:
        self.recorder.core(pod, "TaintManagerEviction", message, component=self.name, identified=False)


def _executing(node: Object) -> list[Object]:
    return [t for t in node["spec"].get("taints") or () if t["effect"] == "NoExecute"]


def _patience_s(pod: Object, taints: list[Object]) -> float | None:
    """How long the pod may stay; None for ever, 0 not at all."""
    tolerations = pod["spec"].get("tolerations") or []
    if not taints:
        return None
    if not all(tolerates(tolerations, t) for t in taints):
        return 0.0
    used = [t for t in tolerations if any(tolerates([t], taint) for taint in taints)]
    limits = [float(t["tolerationSeconds"]) for t in used if t.get("tolerationSeconds") is not None]
    return max(0.0, min(limits)) if limits else None
