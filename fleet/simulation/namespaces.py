"""What every namespace has, and its end: default service account and certificate at first, everything in it deleted at last.

Follows kubernetes/pkg/controller/namespace and serviceaccount. Must not delete anything in a namespace that is to stay.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation.clock import stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.resources import SERVED

Object = dict[str, Any]

ACCOUNT = "default"
CERTIFICATE = "kube-root-ca.crt"
REMAINING = "NamespaceContentRemaining"


class NamespaceDefaults(Controller):
    """Keys are namespaces."""

    name = "serviceaccount-controller"
    primary = "namespaces"

    def watches(self) -> dict[str, Keys]:
        return {"namespaces": _name, "serviceaccounts": self._lost(ACCOUNT), "configmaps": self._lost(CERTIFICATE)}

    @staticmethod
    def _lost(name: str) -> Keys:
        def namespace_of(change: Change) -> Iterable[str]:
            metadata = change.object["metadata"]
            return (metadata["namespace"],) if change.type == "DELETED" and metadata["name"] == name else ()

        return namespace_of

    def sync(self, key: str) -> float | None:
        namespace = self.informers["namespaces"].get(key)
        if namespace is None or "deletionTimestamp" in namespace["metadata"]:
            return None
        if self.informers["serviceaccounts"].get(f"{key}/{ACCOUNT}") is None:
            self._create("serviceaccounts", key, ACCOUNT, {})
        if self.informers["configmaps"].get(f"{key}/{CERTIFICATE}") is None:
            told = {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver."}
            self._create("configmaps", key, CERTIFICATE, {"data": {"ca.crt": ""}}, told)
        return None

    def _create(
        self, plural: str, namespace: str, name: str, content: Object, annotations: dict[str, str] | None = None
    ) -> None:
        metadata: Object = {"name": name, "namespace": namespace}
        if annotations:
            metadata["annotations"] = annotations
        self.store.create(plural, {"metadata": metadata, **content}, manager=self.manager)


class NamespaceEnd(Controller):
    """Keys are namespaces that are being deleted: their content goes, and when it has gone they do."""

    name = "namespace-controller"
    primary = "namespaces"
    latency_s = (0.02, 0.05)
    AGAIN_S = 1.0
    CONTENT = tuple(r.plural for r in SERVED if r.namespaced and r.stored)

    def watches(self) -> dict[str, Keys]:
        return {"namespaces": _name}

    def sync(self, key: str) -> float | None:
        namespace = self.informers["namespaces"].get(key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return None
        left = self._delete_content(key)
        self._report(namespace, left)
        if left:
            return self.AGAIN_S
        if namespace["spec"].get("finalizers"):
            self.store.finalize(key, [], manager=self.manager)
        return None

    def _delete_content(self, namespace: str) -> dict[str, int]:
        """Ask everything in it to go; how many of which are still there."""
        left: dict[str, int] = {}
        for plural in self.CONTENT:
            for obj in self.store.list(plural, namespace):
                if "deletionTimestamp" not in obj["metadata"]:
                    self.store.delete(plural, namespace, obj["metadata"]["name"], uid=obj["metadata"]["uid"])
            if count := len(self.store.list(plural, namespace)):
                left[plural] = count
        return left

    def _report(self, namespace: Object, left: dict[str, int]) -> None:
        """What is still there, as kubectl describe shows it."""
        value, reason, message = "False", "ContentRemoved", "All content successfully removed"
        if left:
            told = ", ".join(f"{plural}. has {count} resource instances" for plural, count in sorted(left.items()))
            value, reason, message = "True", "SomeResourcesRemain", f"Some resources are remaining: {told}"
        old: Object = next((c for c in namespace["status"].get("conditions") or () if c["type"] == REMAINING), {})
        if (old.get("status"), old.get("message")) == (value, message):
            return
        since = old["lastTransitionTime"] if old.get("status") == value else stamp(self.clock.now())
        made = {"type": REMAINING, "status": value, "lastTransitionTime": since, "reason": reason, "message": message}

        def change(draft: Object) -> None:
            others = [c for c in draft["status"].get("conditions") or () if c["type"] != REMAINING]
            draft["status"]["conditions"] = [*others, made]

        name = namespace["metadata"]["name"]
        self.store.mutate("namespaces", None, name, change, manager=self.manager, subresource="status")


def _name(change: Change) -> Iterable[str]:
    return () if change.type == "DELETED" else (change.object["metadata"]["name"],)
