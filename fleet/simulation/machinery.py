"""All controllers of a cluster as tasks on one event loop, in the processes that they belong to.

Owns starting and stopping them and running their caches. Must not know what any of them does.
"""

import asyncio
import contextlib
import logging
import random

from fleet.simulation.budgets import Budgets
from fleet.simulation.clock import Clock
from fleet.simulation.controller import Controller, Process
from fleet.simulation.daemonsets import DaemonSets
from fleet.simulation.deployments import Deployments
from fleet.simulation.endpoints import EndpointSlices
from fleet.simulation.garbage import EventExpiry, GarbageCollector
from fleet.simulation.heartbeats import Heartbeats
from fleet.simulation.informer import Informer
from fleet.simulation.jobs import Jobs
from fleet.simulation.kubelet import Kubelet
from fleet.simulation.mig_manager import MigManager
from fleet.simulation.namespaces import NamespaceDefaults, NamespaceEnd
from fleet.simulation.node_lifecycle import NodeLifecycle
from fleet.simulation.pod_garbage import PodGarbage
from fleet.simulation.quotas import Quotas
from fleet.simulation.reboots import Reboots
from fleet.simulation.replicasets import ReplicaSets
from fleet.simulation.scheduler import Scheduler
from fleet.simulation.statefulsets import StatefulSets
from fleet.simulation.store import Store
from fleet.simulation.taint_eviction import TaintEviction
from fleet.simulation.trainings import Trainings

logger = logging.getLogger(__name__)

PROCESSES: dict[str, tuple[type[Controller], ...]] = {
    "kube-controller-manager": (
        NodeLifecycle, TaintEviction, Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, EndpointSlices, Budgets,
        GarbageCollector, PodGarbage, EventExpiry, NamespaceDefaults, NamespaceEnd, Quotas,
    ),
    "kube-scheduler": (Scheduler,),
    "kubelet": (Kubelet, Heartbeats, Trainings),
    "site": (Reboots, MigManager),
}  # fmt: skip


class Machinery:
    """The control plane and the kubelets; `without` leaves controllers out (tests of a single one)."""

    def __init__(self, store: Store, clock: Clock, seed: int = 1, without: tuple[type[Controller], ...] = ()) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, Process] = {}
        self.controllers: dict[type[Controller], Controller] = {}
        for name, kinds in PROCESSES.items():
            process = Process(store, clock, random.Random(f"{seed}/{name}"))  # noqa: S311 -- not for secrets
            self._processes[name] = process
            for kind in kinds:
                if kind not in without:
                    self.controllers[kind] = kind(process)

    def start(self) -> None:
        """Begin all work on the running loop."""
        for controller in self.controllers.values():
            self._spawn(controller.name, controller)
        for name, process in self._processes.items():
            for informer in process.informers:
                self._watch(f"{name}/{informer.plural}", informer)

    def _spawn(self, name: str, controller: Controller) -> None:
        for plural in controller.watches():
            controller.informers[plural].catch_up()
        self._tasks[name] = asyncio.create_task(controller.run(), name=name)

    def _watch(self, name: str, informer: Informer) -> None:
        self._tasks[name] = asyncio.create_task(informer.run(), name=name)

    async def restart(self, kind: type[Controller]) -> None:
        """Stop one controller and start a fresh one that knows nothing but the store."""
        await self.halt(kind)
        self.revive(kind)

    async def halt(self, kind: type[Controller]) -> None:
        """Stop one controller: what it had queued is lost."""
        await _end(self._tasks.pop(self.controllers[kind].name))

    def revive(self, kind: type[Controller]) -> None:
        """Start a fresh controller in the place of one that was halted."""
        fresh = kind(self.controllers[kind].process)
        self.controllers[kind] = fresh
        self._spawn(fresh.name, fresh)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        for task in tasks:
            await _end(task)

    def check(self) -> None:
        """Raise what a task died of: none should ever end by itself."""
        for name, task in self._tasks.items():
            if task.done() and not task.cancelled():
                raise RuntimeError(f"{name} has ended") from task.exception()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
