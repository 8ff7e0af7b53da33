"""What every namespace has: the default service account and the certificate that pods trust the API server by.

Owns making them, and making them again when somebody removes them. Must not delete anything.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change

Object = dict[str, Any]

ACCOUNT = "default"
CERTIFICATE = "kube-root-ca.crt"


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


def _name(change: Change) -> Iterable[str]:
    return () if change.type == "DELETED" else (change.object["metadata"]["name"],)
