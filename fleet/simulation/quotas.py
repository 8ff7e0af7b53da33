"""The ResourceQuota controller: keeps what each quota allows and what its namespace uses in its status.

Follows kubernetes/pkg/controller/resourcequota. Must not refuse anything; admission.py does.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import admission
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key

Object = dict[str, Any]


class Quotas(Controller):
    """Keys are ResourceQuotas."""

    name = "resourcequota-controller"
    primary = "resourcequotas"

    def watches(self) -> dict[str, Keys]:
        return {"resourcequotas": _itself, "pods": self._pod_changed}

    def _pod_changed(self, change: Change) -> Iterable[str]:
        namespace = change.object["metadata"]["namespace"]
        return [key_of(q) for q in self.informers["resourcequotas"].indexed("namespace", namespace)]

    def sync(self, key: str) -> float | None:
        quota = self.informers["resourcequotas"].get(key)
        if quota is None:
            return None
        namespace, name = split_key(key)
        assert namespace is not None  # noqa: S101 -- quotas belong to namespaces
        hard = quota["spec"].get("hard") or {}
        used = admission.usage(self.informers["pods"].indexed("namespace", namespace), hard)
        status = {"hard": hard, "used": {k: admission.shown(v, k) for k, v in used.items()}}
        if status != quota.get("status"):
            self.store.mutate(
                "resourcequotas",
                namespace,
                name,
                lambda draft: {**draft, "status": status},
                manager=self.manager,
                subresource="status",
            )
        return None


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)
