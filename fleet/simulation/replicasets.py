"""The ReplicaSet controller: as many pods as the spec says, and a status that counts them.

Follows kubernetes/pkg/controller/replicaset: the status is computed from the pods that the sync began with. Must not know
Deployments.
"""

import math
from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.ownership import available_in_s, is_active, pod_from_template, without_zeros
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

BURST = 500


class ReplicaSets(Controller):
    """Keys are ReplicaSets."""

    name = "replicaset-controller"
    primary = "replicasets"

    def watches(self) -> dict[str, Keys]:
        return {"replicasets": _itself, "pods": self._pod_changed}

    def _pod_changed(self, change: Change) -> Iterable[str]:
        owner = controller_of(change.object)
        if owner is None or owner["kind"] != "ReplicaSet":
            return ()
        return (f"{change.object['metadata']['namespace']}/{owner['name']}",)

    def sync(self, key: str) -> float | None:
        owner = self.informers["replicasets"].get(key)
        if owner is None:
            return None
        pods = self.informers["pods"].indexed("controller", owner["metadata"]["uid"])
        active = [p for p in pods if is_active(p)]
        terminating = [p for p in pods if podstatus.is_terminating(p) and not podstatus.is_finished(p)]
        failure = None
        if "deletionTimestamp" not in owner["metadata"]:
            failure = self._manage(owner, active)
        self._report(owner, active, len(terminating), failure)
        if failure is not None:
            raise failure
        return self._next_available_s(owner, active)

    def _manage(self, owner: Object, active: list[Object]) -> ApiError | None:
        missing = owner["spec"].get("replicas", 1) - len(active)
        if missing > 0:
            return self._create(owner, min(missing, BURST))
        if missing < 0:
            self._remove(owner, active, min(-missing, BURST))
        return None

    def _create(self, owner: Object, count: int) -> ApiError | None:
        for _ in range(count):
            try:
                pod = self.store.create(
                    "pods", pod_from_template(owner, owner["spec"]["template"]), manager=self.manager
                )
            except ApiError as refusal:
                self._tell(owner, "FailedCreate", f"Error creating: {refusal.message}", kind="Warning")
                return refusal
            self._tell(owner, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        return None

    def _remove(self, owner: Object, active: list[Object], count: int) -> None:
        crowd: dict[str, int] = {}
        for pod in active:
            node = pod["spec"].get("nodeName", "")
            crowd[node] = crowd.get(node, 0) + 1
        now = self.clock.now()
        for pod in sorted(active, key=lambda p: _dispensable(p, crowd, now))[:count]:
            namespace, name = split_key(key_of(pod))
            self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"])
            self._tell(owner, "SuccessfulDelete", f"Deleted pod: {name}")

    def _report(self, owner: Object, active: list[Object], terminating: int, failure: ApiError | None) -> None:
        status = self._status(owner, active, terminating, failure)
        if status == owner["status"]:
            return
        namespace, name = split_key(key_of(owner))

        def report(draft: Object) -> Object:
            return {**draft, "status": status}

        self.store.mutate("replicasets", namespace, name, report, manager=self.manager, subresource="status")

    def _status(self, owner: Object, active: list[Object], terminating: int, failure: ApiError | None) -> Object:
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        wait_s = owner["spec"].get("minReadySeconds", 0)
        now = self.clock.now()
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= (p["metadata"].get("labels") or {}).items() for p in active),
            "readyReplicas": sum(podstatus.is_ready(p) for p in active),
            "availableReplicas": sum(available_in_s(p, wait_s, now) == 0 for p in active),
        }
        status: Object = {"replicas": len(active), **without_zeros(counts), "terminatingReplicas": terminating}
        status["observedGeneration"] = owner["metadata"]["generation"]
        conditions = self._conditions(owner, failure)
        return {**status, "conditions": conditions} if conditions else status

    def _conditions(self, owner: Object, failure: ApiError | None) -> list[Object]:
        old = [c for c in owner["status"].get("conditions") or [] if c["type"] == "ReplicaFailure"]
        if failure is None:
            return []
        if old:
            return old
        failed = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": stamp(self.clock.now())}
        return [{**failed, "reason": "FailedCreate", "message": failure.message}]

    def _next_available_s(self, owner: Object, active: list[Object]) -> float | None:
        wait_s = owner["spec"].get("minReadySeconds", 0)
        waits = [available_in_s(p, wait_s, self.clock.now()) for p in active]
        later = [w for w in waits if w]
        return min(later) if later else None

    def _tell(self, owner: Object, reason: str, message: str, kind: str = "Normal") -> None:
        self.recorder.core(owner, reason, message, component=self.name, kind=kind)


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)


def _dispensable(pod: Object, crowd: dict[str, int], now: float) -> tuple[Any, ...]:
    """Order of removal (controller.ActivePodsWithRanks): unbound, pending, unready, cheap, crowded, young ones first."""
    metadata, status = pod["metadata"], pod["status"]
    ready = podstatus.condition(status, "Ready")
    is_ready = ready is not None and ready["status"] == "True"
    ready_s = now - parse_stamp(ready["lastTransitionTime"]) if ready and is_ready else 0.0
    restarts = sum(c["restartCount"] for c in status.get("containerStatuses") or ())
    cost = int((metadata.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", 0))
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(status.get("phase", ""), 2),
        is_ready,
        cost,
        -crowd[pod["spec"].get("nodeName", "")],
        int(math.log2(ready_s)) if ready_s >= 1 else -1,
        -restarts,
        -parse_stamp(metadata["creationTimestamp"]),
        metadata["name"],
    )
