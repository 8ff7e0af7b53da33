"""The Deployment controller: new ReplicaSets for new templates, and the steps from the old ones to the new.

Follows kubernetes/pkg/controller/deployment. One sync takes at most one step and writes the status that the step began
with, as the real one does; the changes that it makes call it again. Must not create pods.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import deployment_status as progress
from fleet.simulation import podstatus, revisions
from fleet.simulation.clock import parse_stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.rollout_steps import (
    DESIRED,
    Sizes,
    is_rolling,
    new_size,
    old_sizes,
    scaled_sizes,
    size,
)

Object = dict[str, Any]


class Deployments(Controller):
    """Keys are Deployments."""

    name = "deployment-controller"
    primary = "deployments"
    OWN_WRITE_S = 0.03  # a growing ReplicaSet has made its pods before the next look at what was just written

    def watches(self) -> dict[str, Keys]:
        return {"deployments": _itself, "replicasets": self._owner, "pods": self._pod_gone}

    def delay_s(self, change: Change) -> float:
        spec = change.previous is None or change.previous["spec"] != change.object["spec"]
        obj = change.object
        own = _is_growing(obj) if obj["kind"] == "ReplicaSet" else obj["kind"] == "Deployment" and not spec
        return self.OWN_WRITE_S if own else super().delay_s(change)

    @staticmethod
    def _owner(change: Change) -> Iterable[str]:
        owner = controller_of(change.object)
        if owner is None or owner["kind"] != "Deployment":
            return ()
        return (f"{change.object['metadata']['namespace']}/{owner['name']}",)

    def _pod_gone(self, change: Change) -> Iterable[str]:
        """Recreate waits for the old pods to be gone."""
        owner = controller_of(change.object)
        if change.type != "DELETED" or owner is None or owner["kind"] != "ReplicaSet":
            return ()
        key = f"{change.object['metadata']['namespace']}/{owner['name']}"
        replica_set = self.informers["replicasets"].objects.get(key)
        above = controller_of(replica_set) if replica_set else None
        return (f"{change.object['metadata']['namespace']}/{above['name']}",) if above else ()

    def sync(self, key: str) -> float | None:
        deployment = self.informers["deployments"].get(key)
        if deployment is None:
            return None
        every = self.informers["replicasets"].indexed("controller", deployment["metadata"]["uid"])
        newest = revisions.newest_of(deployment, every)
        old = [r for r in every if r is not newest]
        if "deletionTimestamp" in deployment["metadata"]:
            return self._write_counts(deployment, every, newest)
        if self._tell_pause(deployment):
            return None
        if deployment["spec"].get("paused") or _is_scaling(deployment, every):
            self._scale(deployment, scaled_sizes(deployment, newest, old))
            return self._write_counts(deployment, every, newest)
        if is_rolling(deployment):
            return self._roll(deployment, every, newest, old)
        return self._recreate(deployment, every, newest, old)

    # Steps

    def _roll(self, deployment: Object, every: list[Object], newest: Object | None, old: list[Object]) -> float | None:
        created = newest is None
        newest = newest or self._create(deployment, every, old)
        if not created and self._renumber(deployment, newest, old):
            return None
        grown = new_size(deployment, [*old, newest], newest)
        if grown != size(newest):
            self._scale(deployment, {newest["metadata"]["name"]: grown})
            newest = self.store.get("replicasets", newest["metadata"]["namespace"], newest["metadata"]["name"])
        else:
            active = [r for r in old if size(r) > 0]
            shrunk = old_sizes(deployment, newest, active)
            self._scale(deployment, shrunk)
            if not shrunk and progress.is_complete(deployment, deployment["status"]):
                self._forget_old(deployment, old)
        if created:  # the status has been written with the revision: a second write would be refused as stale
            return None
        return self._write_progress(deployment, [*old, newest], newest)

    def _recreate(
        self, deployment: Object, every: list[Object], newest: Object | None, old: list[Object]
    ) -> float | None:
        active = [r for r in old if size(r) > 0]
        if active:
            self._scale(deployment, {r["metadata"]["name"]: 0 for r in active})
            return self._write_progress(deployment, every, newest)
        if any(self._has_pods(r) for r in old):
            return self._write_progress(deployment, every, newest)
        if newest is None:
            self._create(deployment, every, old)
            return None
        if self._renumber(deployment, newest, old):
            return None
        if size(newest) != size(deployment):
            self._scale(deployment, {newest["metadata"]["name"]: size(deployment)})
        elif progress.is_complete(deployment, deployment["status"]):
            self._forget_old(deployment, old)
        return self._write_progress(deployment, every, newest)

    def _has_pods(self, replica_set: Object) -> bool:
        pods = self.informers["pods"].indexed("controller", replica_set["metadata"]["uid"])
        return any(not podstatus.is_finished(p) for p in pods)

    def _create(self, deployment: Object, every: list[Object], old: list[Object]) -> Object:
        number = max((revisions.revision(r) for r in old), default=0) + 1
        replicas = new_size(deployment, every, None)
        made = self.store.create(
            "replicasets",
            revisions.replica_set_for(deployment, number, replicas),
            manager=self.manager,
        )
        name = made["metadata"]["name"]
        if replicas:
            self._tell(deployment, f"Scaled up replica set {name} from 0 to {replicas}")
        message = f'Created new replica set "{name}"'
        self._number(deployment, str(number), "NewReplicaSetCreated", message)
        return made

    def _renumber(self, deployment: Object, newest: Object, old: list[Object]) -> bool:
        """An old ReplicaSet that became the new one again gets the next revision number; True when something was written."""
        number = max((revisions.revision(r) for r in old), default=0) + 1
        annotations = revisions.annotations_for(deployment, newest, number)
        wait_s = deployment["spec"].get("minReadySeconds", 0)
        if annotations != (newest["metadata"].get("annotations") or {}) or wait_s != newest["spec"].get(
            "minReadySeconds", 0
        ):
            self._annotate(newest, annotations, wait_s)
            return True
        shown = annotations[revisions.REVISION]
        if (deployment["metadata"].get("annotations") or {}).get(revisions.REVISION) == shown:
            return False
        message = f'Found new replica set "{newest["metadata"]["name"]}"'
        known = progress.condition(deployment["status"], "Progressing") is not None
        self._number(deployment, shown, "" if known else "FoundNewReplicaSet", message)
        return True

    def _annotate(self, replica_set: Object, annotations: dict[str, str], wait_s: int) -> None:
        namespace, name = split_key(key_of(replica_set))

        def change(draft: Object) -> None:
            draft["metadata"]["annotations"] = annotations
            if wait_s:
                draft["spec"]["minReadySeconds"] = wait_s
            else:
                draft["spec"].pop("minReadySeconds", None)

        self.store.mutate("replicasets", namespace, name, change, manager=self.manager)

    def _number(self, deployment: Object, number: str, reason: str, message: str) -> None:
        """Write the revision, and the condition of a ReplicaSet that came or was found, in one."""
        now = self.clock.now()

        def change(draft: Object) -> None:
            draft["metadata"].setdefault("annotations", {})[revisions.REVISION] = number
            if reason and progress.deadline_s(draft) is not None:
                made = progress.new_condition("Progressing", "True", reason, message, now)
                progress.set_condition(draft["status"], made)

        self._mutate(deployment, change)

    def _scale(self, deployment: Object, sizes: Sizes) -> None:
        namespace = deployment["metadata"]["namespace"]
        for name, wanted in sizes.items():
            before = self.store.get("replicasets", namespace, name)

            def change(draft: Object, wanted: int = wanted) -> None:
                draft["spec"]["replicas"] = wanted
                draft["metadata"].setdefault("annotations", {}).update(revisions.sizes_annotations(deployment))

            self.store.mutate("replicasets", namespace, name, change, manager=self.manager)
            was = size(before)
            if was != wanted:
                direction = "up" if wanted > was else "down"
                self._tell(deployment, f"Scaled {direction} replica set {name} from {was} to {wanted}")

    def _forget_old(self, deployment: Object, old: list[Object]) -> None:
        """Keep no more than revisionHistoryLimit old ReplicaSets."""
        idle = [r for r in old if size(r) == 0 and r["status"].get("replicas", 0) == 0]
        surplus = len(idle) - deployment["spec"].get("revisionHistoryLimit", 10)
        for replica_set in sorted(idle, key=revisions.revision)[: max(0, surplus)]:
            namespace, name = split_key(key_of(replica_set))
            self.store.delete("replicasets", namespace, name, uid=replica_set["metadata"]["uid"])

    # Status

    def _tell_pause(self, deployment: Object) -> bool:
        """Keep the condition that says paused or resumed; True when it was written."""
        found = progress.condition(deployment["status"], "Progressing")
        if progress.deadline_s(deployment) is None:
            return False
        if found is not None and found["reason"] == "ProgressDeadlineExceeded":
            return False
        paused = bool(deployment["spec"].get("paused"))
        told = found is not None and found["reason"] == "DeploymentPaused"
        if paused == told:
            return False
        reason, word = ("DeploymentPaused", "paused") if paused else ("DeploymentResumed", "resumed")
        made = progress.new_condition("Progressing", "Unknown", reason, f"Deployment is {word}", self.clock.now())
        self._mutate(deployment, lambda draft: progress.set_condition(draft["status"], made))
        return True

    def _write_counts(self, deployment: Object, every: list[Object], newest: Object | None) -> float | None:
        """After scaling or while paused: counts only, progress stays as it was."""
        self._write(deployment, progress.counted(deployment, every, newest, self.clock.now()))
        return None

    def _write_progress(self, deployment: Object, every: list[Object], newest: Object | None) -> float | None:
        now = self.clock.now()
        status = progress.counted(deployment, every, newest, now)
        status = progress.with_progress(deployment, status, newest, now)
        self._write(deployment, progress.with_failures(status, every, newest))
        return self._until_deadline_s(deployment, status, now)

    @staticmethod
    def _until_deadline_s(deployment: Object, status: Object, now: float) -> float | None:
        """When to look whether a rollout without progress has run out of time."""
        found, deadline = progress.condition(status, "Progressing"), progress.deadline_s(deployment)
        if found is None or deadline is None or progress.is_complete(deployment, status):
            return None
        if found["reason"] in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
            return None
        return max(0.0, parse_stamp(found["lastUpdateTime"]) + deadline - now) + 1.0

    def _write(self, deployment: Object, status: Object) -> None:
        if status != deployment["status"]:
            self._mutate(deployment, lambda draft: {**draft, "status": status})

    def _mutate(self, deployment: Object, change: Any) -> None:
        namespace, name = split_key(key_of(deployment))
        self.store.mutate("deployments", namespace, name, change, manager=self.manager, subresource="status")

    def _tell(self, deployment: Object, message: str) -> None:
        self.recorder.core(deployment, "ScalingReplicaSet", message, component=self.name)


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)


def _is_growing(replica_set: Object) -> bool:
    return int(replica_set["status"].get("replicas", 0)) < size(replica_set)


def _is_scaling(deployment: Object, every: list[Object]) -> bool:
    """spec.replicas is not what the active ReplicaSets were sized for."""
    for replica_set in every:
        annotated = (replica_set["metadata"].get("annotations") or {}).get(DESIRED)
        if size(replica_set) > 0 and annotated is not None and int(annotated) != size(deployment):
            return True
    return False
