"""The disruption controller: what each PodDisruptionBudget allows now.

Follows kubernetes/pkg/controller/disruption/disruption.go, with its habit of looking at only one of several budgets that
select the same pod. Must not evict or refuse: the eviction subresource does, with this status.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.label_selectors import LabelSelector
from fleet.simulation.resources import SERVED
from fleet.simulation.rollout_steps import share

Object = dict[str, Any]

POD = "pod "
TARGET = "DisruptionTarget"
CHARGED_S = 120.0  # how long an eviction that was charged keeps its pod from counting as healthy
SCALED = {
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "Deployment": "deployments",
    "ReplicationController": "replicationcontrollers",
}
KINDS = {(r.api_version, r.kind): r for r in SERVED}


class UnknownScaleError(Exception):
    """The controller of a pod has no scale to count with; the text is the condition's message."""


class Budgets(Controller):
    """Keys are PodDisruptionBudgets, and pods that were told that they are going (with POD in front) and did not go."""

    name = "controllermanager"
    primary = "poddisruptionbudgets"
    latency_s = (0.004, 0.01)

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        # The real one takes whichever of several budgets its cache happens to list first.
        self.choose: Callable[[Sequence[str]], str] = random.Random(1).choice  # noqa: S311 -- not for secrets

    def watches(self) -> dict[str, Keys]:
        return {"poddisruptionbudgets": _itself, "pods": self._pod_changed}

    def start_keys(self) -> Iterable[str]:
        told = [POD + key_of(p) for p in self.informers["pods"].all() if _told_to_go(p)]
        return [*super().start_keys(), *told]

    def _pod_changed(self, change: Change) -> Iterable[str]:
        told = [POD + key_of(change.object)] if _told_to_go(change.object) else []
        return [*told, *self._budget_of(change.object)]

    def _budget_of(self, pod: Object) -> Iterable[str]:
        """The one budget that a change of the pod makes the controller look at."""
        namespace = pod["metadata"]["namespace"]
        budgets = self.informers["poddisruptionbudgets"].indexed("namespace", namespace)
        matching = sorted(key_of(b) for b in budgets if _chosen(b, [pod]))
        if len(matching) < 2:
            return matching
        chosen = self.choose(matching)
        message = f'Pod "{namespace}"/"{pod["metadata"]["name"]}" matches multiple PodDisruptionBudgets.'
        message += f'  Chose "{split_key(chosen)[1]}" arbitrarily.'
        self._tell(pod, "MultiplePodDisruptionBudgets", message, kind="Warning")
        return (chosen,)

    def sync(self, key: str) -> float | None:
        if key.startswith(POD):
            return self._forget(key.removeprefix(POD))
        budget = self.informers["poddisruptionbudgets"].get(key)
        if budget is None or "deletionTimestamp" in budget["metadata"]:
            return None
        namespace = budget["metadata"]["namespace"]
        labels = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
        pods = _chosen(budget, self.informers["pods"].labelled(namespace, labels))
        if not pods:
            self._tell(budget, "NoPods", "No matching pods found")
        try:
            expected, desired = self._expected(budget, pods)
        except UnknownScaleError as reason:
            why = f"Failed to calculate the number of expected pods: {reason}"
            self._tell(budget, "CalculateExpectedPodCountFailed", why, kind="Warning")
            self._write(budget, self._failed(budget, str(reason)))
            return None
        charged, again_s = self._charged(budget, pods)
        healthy = sum(
            podstatus.is_ready(p) and not podstatus.is_terminating(p) and p["metadata"]["name"] not in charged
            for p in pods
        )
        self._write(budget, self._status(budget, healthy, expected, desired, charged))
        return again_s

    def _forget(self, key: str) -> float | None:
        """Take back that the pod is going, when it is still there after two minutes."""
        pod = self.informers["pods"].get(key)
        if pod is None or not _told_to_go(pod):
            return None
        told = podstatus.condition(pod["status"], TARGET)
        assert told is not None  # noqa: S101 -- as _told_to_go says
        wait_s = parse_stamp(told["lastTransitionTime"]) + CHARGED_S - self.clock.now()
        if wait_s > 0:
            return wait_s
        since = {"lastProbeTime": None, "lastTransitionTime": stamp(self.clock.now())}
        taken_back = {"type": TARGET, "status": "False", **since}

        def change(draft: Object) -> Object:
            conditions = [taken_back if c["type"] == TARGET else c for c in draft["status"]["conditions"]]
            return {**draft, "status": {**draft["status"], "conditions": conditions}}

        namespace, name = split_key(key)
        self.store.mutate("pods", namespace, name, change, manager=self.manager, subresource="status")
        return None

    def _expected(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """Pods that should exist and pods that must stay healthy; percentages are rounded up."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(budget, pods)
            away = share(spec["maxUnavailable"], expected, up=True)
            return expected, max(0, expected - away)
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(budget, pods)
        return expected, share(least, expected, up=True)

    def _scale(self, budget: Object, pods: list[Object]) -> int:
        """The sum of spec.replicas over the distinct controllers of the pods; bare pods are left out."""
        scales: dict[str, int] = {}
        bare = []
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                bare.append(pod["metadata"]["name"])
                continue
            scaled = self._top(pod, owner)
            scales[scaled["metadata"]["uid"]] = scaled["spec"].get("replicas", 1)
        if bare:
            message = f"Pods selected by this PodDisruptionBudget (selector: {_shown(budget)}) were found to be"
            message += " unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may"
            message += ' result in undefined behavior. To account for these pods please set ".spec.minAvailable"'
            message += " field of the PDB to an integer value."
            self._tell(budget, "UnmanagedPods", message, kind="Warning")
        return sum(scales.values())

    def _top(self, pod: Object, owner: Object) -> Object:
        """The object with a scale that stands above a pod: the Deployment of a ReplicaSet, or the controller itself."""
        namespace = pod["metadata"]["namespace"]
        plural = SCALED.get(owner["kind"])
        if plural is None:
            raise UnknownScaleError(_no_scale(owner))
        found = self.informers[plural].get(f"{namespace}/{owner['name']}")
        if found is None:
            raise UnknownScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        above = controller_of(found)
        return self._top(pod, above) if above is not None and above["kind"] in SCALED else found

    def _charged(self, budget: Object, pods: list[Object]) -> tuple[dict[str, str], float | None]:
        """disruptedPods that still count, and when the next one stops."""
        now = self.clock.now()
        present = {p["metadata"]["name"] for p in pods if not podstatus.is_terminating(p)}
        left: dict[str, str] = {}
        again_s: float | None = None
        for name, since in (budget["status"].get("disruptedPods") or {}).items():
            wait_s = parse_stamp(since) + CHARGED_S - now
            if name in present and wait_s > 0:
                left[name] = since
                again_s = wait_s if again_s is None else min(again_s, wait_s)
        return left, again_s

    def _status(self, budget: Object, healthy: int, expected: int, desired: int, charged: dict[str, str]) -> Object:
        allowed = max(0, healthy - desired) if expected > 0 else 0
        reason, value = ("SufficientPods", "True") if allowed else ("InsufficientPods", "False")
        status: Object = {"observedGeneration": budget["metadata"]["generation"]}
        if charged:
            status["disruptedPods"] = charged
        status |= {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(budget, budget["metadata"]["generation"], value, reason, "")],
        }
        return status

    def _failed(self, budget: Object, message: str) -> Object:
        status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
        status = {**status, **budget["status"], "disruptionsAllowed": 0}
        observed = budget["status"].get("observedGeneration", 0)  # this form has not been looked at
        return {**status, "conditions": [self._condition(budget, observed, "False", "SyncFailed", message)]}

    def _condition(self, budget: Object, observed: int, value: str, reason: str, message: str) -> Object:
        old = podstatus.condition(budget["status"], "DisruptionAllowed")
        since = old["lastTransitionTime"] if old and old["status"] == value else stamp(self.clock.now())
        made: Object = {"type": "DisruptionAllowed", "status": value}
        if observed:
            made["observedGeneration"] = observed
        return {**made, "lastTransitionTime": since, "reason": reason, "message": message}

    def _write(self, budget: Object, status: Object) -> None:
        if status == budget["status"]:
            return
        namespace, name = split_key(key_of(budget))
        self.store.mutate(
            "poddisruptionbudgets",
            namespace,
            name,
            lambda draft: {**draft, "status": status},
            manager=self.manager,
            subresource="status",
        )

    def _tell(self, about: Object, reason: str, message: str, kind: str = "Normal") -> None:
        self.recorder.core(about, reason, message, component=self.name, kind=kind)


def _chosen(budget: Object, pods: list[Object]) -> list[Object]:
    """The pods that the budget selects."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return []
    parsed = _parsed(msgspec.json.encode(selector).decode())
    return [p for p in pods if parsed.matches(p["metadata"].get("labels") or {})]


@lru_cache(maxsize=4096)
def _parsed(text: str) -> LabelSelector:
    return LabelSelector.from_object(msgspec.json.decode(text))


def _no_scale(owner: Object) -> str:
    """Why the controller of a pod cannot be counted with."""
    resource = KINDS.get((owner["apiVersion"], owner["kind"]))
    if resource is None:
        return f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"'
    return f"{resource.qualified} does not implement the scale subresource"


def _shown(budget: Object) -> str:
    """The selector as Go prints it."""
    labels = budget["spec"]["selector"].get("matchLabels") or {}
    words = "".join(f"{k}: {v}," for k, v in sorted(labels.items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{words}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
    )


def _told_to_go(pod: Object) -> bool:
    """Whether the pod has the condition of an eviction, and neither ends nor has ended."""
    if podstatus.is_terminating(pod) or podstatus.is_finished(pod):
        return False
    told = podstatus.condition(pod["status"], TARGET)
    return told is not None and told["status"] == "True"


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)
