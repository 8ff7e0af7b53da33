"""The StatefulSet controller: pods with ordinals, created in order and updated from the highest ordinal down.

Follows kubernetes/pkg/controller/statefulset (stateful_set_control.go). One step per sync when pods are ordered. Volume
claims are not made: nothing in the rehearsal keeps data in them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleet.simulation import podstatus, template_history
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.ownership import available_in_s, pod_from_template, without_zeros
from fleet.simulation.refusals import ApiError
from fleet.simulation.rollout_steps import share
from fleet.simulation.template_history import REVISION_LABEL

Object = dict[str, Any]


@dataclass
class Plan:
    """One sync: the set, its revisions by name, and its pods by ordinal."""

    owner: Object
    current: str
    update: str
    pods: dict[int, Object]

    @property
    def replicas(self) -> int:
        return int(self.owner["spec"].get("replicas", 1))

    @property
    def ordered(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def rolls(self) -> bool:
        """It replaces pods by itself, otherwise only whoever deletes them does (OnDelete)."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def partition(self) -> int:
        strategy = self.owner["spec"].get("updateStrategy") or {}
        return int((strategy.get("rollingUpdate") or {}).get("partition", 0))

    @property
    def may_be_away(self) -> int:
        """maxUnavailable, at least one; a percentage is rounded down."""
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return max(1, share(rolling.get("maxUnavailable") or 1, self.replicas, up=False))


class StatefulSets(Controller):
    """Keys are StatefulSets."""

    name = "statefulset-controller"
    primary = "statefulsets"

    def watches(self) -> dict[str, Keys]:
        return {"statefulsets": _itself, "pods": _owner}

    def sync(self, key: str) -> float | None:
        owner = self.informers["statefulsets"].get(key)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return None
        update = str(template_history.present_revision(self, owner)["metadata"]["name"])
        current = owner["status"].get("currentRevision") or update
        pods = self.informers["pods"].indexed("controller", owner["metadata"]["uid"])
        plan = Plan(owner, current, update, {_ordinal(p): p for p in pods})
        status = self._status(plan)
        try:
            self._step(plan, status)
        finally:
            self._report(plan, status)
        if current == update:
            template_history.forget(self, owner, {update, *(_revision_of(p) for p in pods)})
        return None

    # Revisions

    def _template(self, plan: Plan, revision: str) -> Object:
        if revision == plan.update:
            template: Object = plan.owner["spec"]["template"]
            return template
        key = f"{plan.owner['metadata']['namespace']}/{revision}"
        kept = self.informers["controllerrevisions"].get(key)
        template = kept["data"]["spec"]["template"] if kept else plan.owner["spec"]["template"]
        return {k: v for k, v in template.items() if k != "$patch"}

    # Steps

    def _step(self, plan: Plan, status: Object) -> None:
        """Create what is missing, then remove what is too much, then replace what is outdated."""
        for ordinal in range(plan.replicas):
            if self._settle(plan, ordinal):
                return
        for ordinal in sorted((o for o in plan.pods if o >= plan.replicas), reverse=True):
            if self._remove(plan, plan.pods[ordinal]) and plan.ordered:
                return
        if plan.rolls:
            self._replace(plan, status)

    def _settle(self, plan: Plan, ordinal: int) -> bool:
        """See to one ordinal; True when the ones after it must wait."""
        pod = plan.pods.get(ordinal)
        if pod is None:
            self._create(plan, ordinal)
            return plan.ordered
        if podstatus.is_finished(pod) and not podstatus.is_terminating(pod):
            self._delete(plan, pod)
            return plan.ordered
        return plan.ordered and not _is_healthy(pod)

    def _create(self, plan: Plan, ordinal: int) -> None:
        revision = plan.current if plan.rolls and ordinal < plan.partition else plan.update
        template = self._template(plan, revision)
        name = f"{plan.owner['metadata']['name']}-{ordinal}"
        pod = stateful_pod(plan.owner, template, revision, ordinal)
        owner = plan.owner["metadata"]["name"]
        try:
            self.store.create("pods", pod, manager=self.manager)
        except ApiError as refusal:
            self._tell(
                plan,
                "FailedCreate",
                f"create Pod {name} in StatefulSet {owner} failed error: {refusal.message}",
                "Warning",
            )
            raise
        self._tell(plan, "SuccessfulCreate", f"create Pod {name} in StatefulSet {owner} successful")

    def _remove(self, plan: Plan, pod: Object) -> bool:
        if not podstatus.is_terminating(pod):
            self._delete(plan, pod)
        return True

    def _delete(self, plan: Plan, pod: Object) -> None:
        namespace, name = split_key(key_of(pod))
        self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"])
        owner = plan.owner["metadata"]["name"]
        self._tell(plan, "SuccessfulDelete", f"delete Pod {name} in StatefulSet {owner} successful")

    def _replace(self, plan: Plan, status: Object) -> None:
        """Delete the highest outdated pod, when all above it are up to date and healthy; several if so many may be away."""
        if plan.may_be_away > 1:
            self._replace_several(plan, status)
            return
        for ordinal in range(plan.replicas - 1, plan.partition - 1, -1):
            pod = plan.pods.get(ordinal)
            if pod is None:
                return
            outdated = _revision_of(pod) != plan.update
            if outdated and not podstatus.is_terminating(pod):
                self._delete_outdated(plan, pod, status)
                return
            if not _is_healthy(pod):
                return

    def _replace_several(self, plan: Plan, status: Object) -> None:
        pods = [plan.pods.get(o) for o in range(plan.replicas)]
        left = plan.may_be_away - sum(p is None or not _is_healthy(p) for p in pods)
        for pod in reversed(pods[plan.partition :]):
            if left <= 0:
                return
            if pod is not None and _revision_of(pod) != plan.update and not podstatus.is_terminating(pod):
                self._delete_outdated(plan, pod, status)
                left -= 1

    def _delete_outdated(self, plan: Plan, pod: Object, status: Object) -> None:
        self._delete(plan, pod)
        if _revision_of(pod) == plan.current and status.get("currentReplicas"):
            status["currentReplicas"] -= 1

    # Status

    def _status(self, plan: Plan) -> Object:
        pods = [p for p in plan.pods.values() if p["status"].get("phase")]
        staying = [p for p in pods if not podstatus.is_terminating(p)]
        now, wait_s = self.clock.now(), plan.owner["spec"].get("minReadySeconds", 0)
        ready = [p for p in pods if podstatus.is_ready(p)]
        return {
            "observedGeneration": plan.owner["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "currentReplicas": sum(_revision_of(p) == plan.current for p in staying),
            "updatedReplicas": sum(_revision_of(p) == plan.update for p in staying),
            "currentRevision": plan.current,
            "updateRevision": plan.update,
            "collisionCount": 0,
            "availableReplicas": sum(available_in_s(p, wait_s, now) == 0 for p in ready),
        }

    def _report(self, plan: Plan, status: Object) -> None:
        done = status["updatedReplicas"] == status["replicas"] == status["readyReplicas"] == plan.replicas
        if done and plan.current != plan.update:
            status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": plan.update}
        optional = {k: status[k] for k in ("readyReplicas", "currentReplicas", "updatedReplicas")}
        kept = without_zeros(optional)
        shown = {k: v for k, v in status.items() if k not in optional or k in kept}
        if shown == plan.owner["status"]:
            return
        namespace, name = split_key(key_of(plan.owner))
        self.store.mutate(
            "statefulsets",
            namespace,
            name,
            lambda draft: {**draft, "status": shown},
            manager=self.manager,
            subresource="status",
        )

    def _tell(self, plan: Plan, reason: str, message: str, kind: str = "Normal") -> None:
        self.recorder.core(plan.owner, reason, message, component=self.name, kind=kind)


def stateful_pod(owner: Object, template: Object, revision: str, ordinal: int) -> Object:
    """The pod with `ordinal` of a StatefulSet."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    labels = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    pod = pod_from_template(owner, template, labels)
    pod["metadata"]["name"] = name
    subdomain = {"subdomain": owner["spec"]["serviceName"]} if owner["spec"].get("serviceName") else {}
    pod["spec"] = {**pod["spec"], "hostname": name, **subdomain}
    return pod


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)


def _owner(change: Change) -> Iterable[str]:
    owner = controller_of(change.object)
    if owner is None or owner["kind"] != "StatefulSet":
        return ()
    return (f"{change.object['metadata']['namespace']}/{owner['name']}",)


def _ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _revision_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def _is_healthy(pod: Object) -> bool:
    running = pod["status"].get("phase") == "Running"
    return running and podstatus.is_ready(pod) and not podstatus.is_terminating(pod)
