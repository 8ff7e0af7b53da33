"""All GPU machines of the rehearsal: they follow the nodes and pods of the store.

Owns which machines there are and which pod holds which of their GPUs. Must not write to the store: what a machine is like is
read from it, and what it measures is for those who ask (agents.py posts it).
"""

from collections.abc import Callable, Iterator
from typing import Any

from fleet.domain.gpus import Gpu
from fleet.simulation.gpu_boards import product_of
from fleet.simulation.gpu_holders import Device, Holders
from fleet.simulation.gpu_machine import Machine
from fleet.simulation.history import Subscription
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]
Held = dict[Device, tuple[Object, str]]


class Machines:
    """Takes in what has changed whenever it is asked; costs nothing while nobody asks."""

    def __init__(self, store: Store, seed: int = 1) -> None:
        self.on_log: Callable[[str], None] | None = None  # told of a node whose kernel log has new lines
        self._store = store
        self._seed = seed
        self._machines: dict[str, Machine] = {}
        self._holders = Holders(self._devices)
        self._nodes: Subscription
        self._pods: Subscription
        self._list()

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes that are GPU machines."""
        self.catch_up()
        return iter(tuple(self._machines))

    def get(self, node: str) -> Machine | None:
        self.catch_up()
        return self._machines.get(node)

    def gpus(self, node: str) -> tuple[Gpu, ...]:
        """What its GPUs measure now; nothing for a node that is no GPU machine, or whose driver does not answer."""
        machine = self.get(node)
        return machine.gpus(self._holders.held(node), self._store.clock.now()) if machine else ()

    def held(self, node: str) -> Held:
        """The devices in use there, each with its pod and container."""
        self.catch_up()
        return self._holders.held(node)

    def catch_up(self) -> None:
        """Take in whatever the store has that is not known here."""
        try:
            pods, nodes = self._pods.take(), self._nodes.take()
        except ApiError:  # nobody has asked for so long that changes are forgotten
            self._list()
            return
        for change in nodes:
            if change.type == "DELETED":
                self._machines.pop(change.key, None)
            else:
                self._look(change.object)
        for change in pods:
            if change.type == "DELETED":
                self._holders.drop(change.object)
            else:
                self._holders.see(change.object)

    def _devices(self, node: str) -> list[Device]:
        machine = self._machines.get(node)
        return machine.devices() if machine else []

    def _list(self) -> None:
        self._nodes, self._pods = self._store.subscribe("nodes"), self._store.subscribe("pods")
        nodes = {n["metadata"]["name"]: n for n in self._store.list("nodes")}
        self._machines = {name: machine for name, machine in self._machines.items() if name in nodes}
        for node in nodes.values():
            self._look(node)
        pods = sorted(self._store.list("pods"), key=lambda p: (p["status"].get("startTime", ""), p["metadata"]["uid"]))
        self._holders.forget_but(p["metadata"]["uid"] for p in pods)
        for pod in pods:
            self._holders.see(pod)

    def _look(self, node: Object) -> None:
        name, now = node["metadata"]["name"], self._store.clock.now()
        machine = self._machines.get(name)
        if machine is None:
            product = product_of(node)
            if product is not None:
                self._machines[name] = Machine(node, product, self._seed, now)
        elif machine.look(node, self._holders.held(name), now) and self.on_log is not None:
            self.on_log(name)
