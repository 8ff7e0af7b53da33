"""Which pod holds which GPU: the device managers of all kubelets.

Owns the assignment: decided when a pod's containers are made, kept until it has ended or is gone. Must not write to the store.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fleet.simulation.hardware import GPU
from fleet.simulation.placement import FINISHED, quantity

Object = dict[str, Any]
Device = tuple[int, int]  # slot, MIG instance; WHOLE: the GPU itself

WHOLE = -1


@dataclass(frozen=True)
class Grant:
    """The devices of one container."""

    container: str
    devices: tuple[Device, ...]


class Holders:
    """Fed with every pod as it changes. `devices_of(node)` names its healthy devices, best first."""

    def __init__(self, devices_of: Callable[[str], Iterable[Device]]) -> None:
        self._devices_of = devices_of
        self._grants: dict[str, tuple[Grant, ...]] = {}  # by uid
        self._pods: dict[str, dict[str, Object]] = {}  # node → uid → pod that holds something

    def see(self, pod: Object) -> None:
        """A pod that is new or has changed."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if pod["status"].get("phase") in FINISHED:
            self.drop(pod)
        elif uid in self._grants:
            self._pods[node][uid] = pod
        elif node and pod["status"].get("containerStatuses") and (wanted := _wanted(pod)):
            self._grants[uid] = self._choose(node, wanted)
            self._pods.setdefault(node, {})[uid] = pod

    def drop(self, pod: Object) -> None:
        """A pod that has ended or is gone."""
        uid = pod["metadata"]["uid"]
        if self._grants.pop(uid, None) is not None:
            self._pods[pod["spec"]["nodeName"]].pop(uid, None)

    def forget_but(self, uids: Iterable[str]) -> None:
        """Drop all pods but these."""
        kept = set(uids)
        for pod in [p for there in self._pods.values() for uid, p in there.items() if uid not in kept]:
            self.drop(pod)

    def _choose(self, node: str, wanted: list[tuple[str, int]]) -> tuple[Grant, ...]:
        """The first free ones; fewer than wanted when there are fewer, which the scheduler does not let happen."""
        taken = set(self.held(node))
        free = [d for d in self._devices_of(node) if d not in taken]
        grants = []
        for container, count in wanted:
            grants.append(Grant(container, tuple(free[:count])))
            del free[:count]
        return tuple(grants)

    def held(self, node: str) -> dict[Device, tuple[Object, str]]:
        """Each device in use there with its pod and the container's name."""
        return {
            device: (pod, grant.container)
            for uid, pod in self._pods.get(node, {}).items()
            for grant in self._grants[uid]
            for device in grant.devices
        }


def _wanted(pod: Object) -> list[tuple[str, int]]:
    """GPUs by container, those that want some."""
    found = []
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        if count := quantity(str(limits.get(GPU, "0"))):
            found.append((container["name"], count))
    return found
