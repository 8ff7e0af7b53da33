"""The pod garbage collector: removes pods that nobody else can: on nodes that are gone, out of service, or never reached one.

Follows kubernetes/pkg/controller/podgc. Must not touch pods whose kubelet can still end them.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key

Object = dict[str, Any]

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbage(Controller):
    """One key: a look at all pods every 20 seconds."""

    name = "pod-garbage-collector-controller"
    primary = "pods"
    EVERY_S = 20.0
    QUARANTINE_S = 40.0  # how long a node must have been gone

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._gone_since: dict[str, float] = {}

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_gone}

    def start_keys(self) -> Iterable[str]:
        return ["pods"]

    @staticmethod
    def _node_gone(change: Change) -> Iterable[str]:
        return ["pods"] if change.type == "DELETED" else ()

    def sync(self, key: str) -> float | None:  # noqa: ARG002
        nodes = self.informers["nodes"]
        nodes.catch_up()
        now = self.clock.now()
        missing: set[str] = set()
        for pod in self.informers["pods"].all():
            node = pod["spec"].get("nodeName", "")
            if not node:
                if podstatus.is_terminating(pod):
                    self._remove(pod)
            elif node not in nodes.objects:
                missing.add(node)
                if now - self._gone_since.setdefault(node, now) >= self.QUARANTINE_S:
                    self._orphan(pod)
            elif podstatus.is_terminating(pod) and _is_out_of_service(nodes.objects[node]):
                self._orphan(pod)
        self._gone_since = {n: at for n, at in self._gone_since.items() if n in missing}
        return self.EVERY_S

    def _orphan(self, pod: Object) -> None:
        """Mark as failed, then remove: so that whoever counts failures sees one."""
        if not podstatus.is_finished(pod):
            now = stamp(self.clock.now())

            def failed(draft: Object) -> None:
                reason = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
                made = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                others = [c for c in draft["status"].get("conditions") or () if c["type"] != "DisruptionTarget"]
                draft["status"] |= {"phase": "Failed", "conditions": [*others, made | reason]}

            namespace, name = split_key(key_of(pod))
            self.store.mutate("pods", namespace, name, failed, manager=self.manager, subresource="status")
        self._remove(pod)

    def _remove(self, pod: Object) -> None:
        namespace, name = split_key(key_of(pod))
        self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"], grace_s=0)


def _is_out_of_service(node: Object) -> bool:
    return any(t["key"] == OUT_OF_SERVICE for t in node["spec"].get("taints") or ())
