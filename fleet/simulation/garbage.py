"""The garbage collector: what belongs only to owners that are gone goes too; and events expire.

Owns background, foreground and orphan deletion by ownerReferences, and the hour that events live. Must not delete anything
whose owner still exists.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from fleet.simulation.clock import parse_stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key

Object = dict[str, Any]

OWNERS = {
    "Node": "nodes", "Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets", "Job": "jobs", "Service": "services",
}  # fmt: skip
DEPENDENTS = ("replicasets", "pods", "endpointslices", "controllerrevisions", "jobs", "leases")
WAITING = {"foregroundDeletion", "orphan"}


class GarbageCollector(Controller):
    """Keys are "plural|key" of dependents that may have lost an owner, and of owners that are being deleted."""

    name = "garbage-collector-controller"
    primary = "pods"
    latency_s = (0.02, 0.1)

    def watches(self) -> dict[str, Keys]:
        plurals = {*OWNERS.values(), *DEPENDENTS}
        return {plural: partial(self._concerned, plural) for plural in plurals}

    def start_keys(self) -> Iterable[str]:
        return [f"{plural}|{key}" for plural in DEPENDENTS for key in self._keys_with_owners(plural)]

    def _keys_with_owners(self, plural: str) -> Iterable[str]:
        """Only what has lost an owner needs a visit."""
        for obj in self.informers[plural].all():
            owners = obj["metadata"].get("ownerReferences")
            if owners and not all(self._exists(obj, o) for o in owners):
                yield key_of(obj)

    def _concerned(self, plural: str, change: Change) -> Iterable[str]:
        obj = change.object
        if change.type == "DELETED":
            uid = obj["metadata"]["uid"]
            above = [self._owner_key(obj, o) for o in obj["metadata"].get("ownerReferences") or ()]
            return [*self._dependents(uid), *(k for k in above if k)]
        if WAITING & set(obj["metadata"].get("finalizers") or ()) and "deletionTimestamp" in obj["metadata"]:
            return [f"{plural}|{key_of(obj)}"]
        if change.type == "ADDED" and obj["metadata"].get("ownerReferences"):
            return [f"{plural}|{key_of(obj)}"]
        return ()

    def _dependents(self, uid: str) -> list[str]:
        return [f"{plural}|{key_of(o)}" for plural in DEPENDENTS for o in self.informers[plural].indexed("owner", uid)]

    @staticmethod
    def _owner_key(obj: Object, owner: Object) -> str:
        plural = OWNERS.get(owner["kind"])
        if plural is None:
            return ""
        namespace = obj["metadata"].get("namespace")
        return f"{plural}|{owner['name']}" if plural == "nodes" else f"{plural}|{namespace}/{owner['name']}"

    def sync(self, key: str) -> float | None:
        plural, _, name_key = key.partition("|")
        obj = self.informers[plural].get(name_key)
        if obj is None:
            return None
        namespace, name = split_key(name_key)
        metadata = obj["metadata"]
        waiting = WAITING & set(metadata.get("finalizers") or ())
        if "deletionTimestamp" in metadata and waiting:
            self._finish_owner(plural, obj, orphan="orphan" in waiting)
            return None
        owners = metadata.get("ownerReferences") or ()
        if not owners or any(self._exists(obj, o) for o in owners) or "deletionTimestamp" in metadata:
            return None
        self.store.delete(plural, namespace, name, uid=metadata["uid"])
        return None

    def _exists(self, obj: Object, owner: Object) -> bool:
        """Owners of kinds that are not looked after here count as existing."""
        key = self._owner_key(obj, owner)
        if not key:
            return True
        plural, _, name_key = key.partition("|")
        found = self.informers[plural].get(name_key)
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    def _finish_owner(self, plural: str, owner: Object, *, orphan: bool) -> None:
        """Foreground: dependents first, then the owner. Orphan: dependents lose the reference, then the owner goes."""
        uid = owner["metadata"]["uid"]
        left = self._dependents(uid)
        for key in left:
            other, _, name_key = key.partition("|")
            namespace, name = split_key(name_key)
            if orphan:
                self.store.mutate(other, namespace, name, lambda d: _disown(d, uid), manager=self.manager)
            elif "deletionTimestamp" not in self.store.get(other, namespace, name)["metadata"]:
                self.store.delete(other, namespace, name)
        if left and not orphan:
            return
        namespace, name = split_key(key_of(owner))
        self.store.mutate(plural, namespace, name, _unfinalized, manager=self.manager)


class EventExpiry(Controller):
    """One key: once a minute, remove the events that were last seen more than an hour ago."""

    name = "event-expiry"
    manager = "kube-apiserver"
    primary = "events"
    EVERY_S = 60.0
    LIFE_S = 3600.0

    def watches(self) -> dict[str, Keys]:
        return {}

    def start_keys(self) -> Iterable[str]:
        return ["events"]

    def sync(self, key: str) -> float | None:  # noqa: ARG002
        oldest = self.clock.now() - self.LIFE_S
        for event in self.informers["events"].all():
            if _last_seen(event) < oldest:
                namespace, name = split_key(key_of(event))
                self.store.delete("events", namespace, name)
        return self.EVERY_S


def _last_seen(event: Object) -> float:
    moment = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return parse_stamp(moment)


def _disown(dependent: Object, uid: str) -> None:
    metadata = dependent["metadata"]
    left = [o for o in metadata.get("ownerReferences") or () if o["uid"] != uid]
    metadata.pop("ownerReferences", None)
    if left:
        metadata["ownerReferences"] = left


def _unfinalized(owner: Object) -> None:
    left = [f for f in owner["metadata"].get("finalizers") or () if f not in WAITING]
    owner["metadata"].pop("finalizers", None)
    if left:
        owner["metadata"]["finalizers"] = left
