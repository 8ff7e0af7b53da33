"""The everyday life of the fleet: autoscaling, notebooks, batch queues and releases, at a calm pace.

Owns what people and their tools would do of themselves, each under its own manager's name. It only writes what they would
write; everything that follows is the controllers' work. It never touches nodes, and never stops training.
"""

import logging
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.simulation import manifests
from fleet.simulation.catalogue import WORKLOADS, Kind, Workload
from fleet.simulation.clock import Clock, stamp
from fleet.simulation.history import Change
from fleet.simulation.placement import affinity_matches, blocked, effective_request
from fleet.simulation.refusals import ApiError
from fleet.simulation.scheduler import Rooms
from fleet.simulation.store import Store

Object = dict[str, Any]

logger = logging.getLogger(__name__)

PAUSE_S = (4.0, 11.0)  # between two looks around
NOTEBOOK_SESSION_S = (900.0, 5400.0)
RELEASE_EVERY_S = (600.0, 1500.0)
SCALE_EVERY_S = (45.0, 150.0)
NEXT_BATCH_S = (20.0, 150.0)
AUTOSCALER, RELEASER, LAB, QUEUE = "kube-controller-manager", "argocd-controller", "jupyterhub", "batch-queue"


@dataclass
class Moments:
    """When each kind of thing happens next, by its subject."""

    due: dict[str, float]

    def reached(self, subject: str, now: float, wait_s: float) -> bool:
        """True once when `subject`'s moment has come; the next is in `wait_s`, the first sooner."""
        at = self.due.get(subject)
        if at is None:
            self.due[subject] = now + 0.3 * wait_s
            return False
        if now < at:
            return False
        self.due[subject] = now + wait_s
        return True


class Life:
    """One task that looks around every few seconds and does at most one thing. `pace` 2: twice as much happens."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        seed: int,
        pace: float = 1.0,
        workloads: tuple[Workload, ...] = WORKLOADS,
    ) -> None:
        self.store = store
        self.clock = clock
        self.pace = pace
        self.workloads = workloads
        self.rng = random.Random(f"{seed}/life")  # noqa: S311 -- not for secrets
        self._moments = Moments({})
        self._look_anew()

    async def run(self) -> None:
        while True:
            await self.clock.sleep(self._some(PAUSE_S))
            self.step()

    def _some(self, bounds_s: tuple[float, float]) -> float:
        return self.rng.uniform(*bounds_s) / self.pace

    def step(self) -> str:
        """Do one thing, if there is one to do; says what, or "" ."""
        now = self.clock.now()
        doings: list[Callable[[float], str]] = [self._batch, self._notebook, self._release, self._autoscale]
        for doing in doings:
            try:
                done = doing(now)
            except ApiError as refusal:  # a person may have deleted or changed it at the same time
                logger.info("the fleet's life was refused: %s", refusal)
                continue
            if done:
                logger.debug("life: %s", done)
                return done
        return ""

    # Batch queues

    def _batch(self, now: float) -> str:
        """A queue whose Job is gone gets its next one after a short pause."""
        present = {j["metadata"]["labels"].get("app") for j in self.store.list("jobs", "batch")}
        for workload in self.workloads:
            if workload.kind is not Kind.JOB or workload.name in present:
                continue
            if self._moments.reached(f"batch/{workload.name}", now, self._some(NEXT_BATCH_S)):
                self._moments.due.pop(f"batch/{workload.name}")
                return self._submit(workload, now)
        return ""

    def _submit(self, workload: Workload, now: float) -> str:
        job = manifests.controller(workload, workload.image, workload.replicas)
        job["metadata"]["name"] = f"{workload.name}-{int(now) % 1_000_000:06d}"
        self.store.create("jobs", job, manager=QUEUE)
        return f"submitted {job['metadata']['name']}"

    # Notebooks

    def _notebook(self, now: float) -> str:
        """People open a notebook, work for a while, and close it."""
        for notebook in self.store.list("statefulsets", "notebooks"):
            name = notebook["metadata"]["name"]
            if not self._moments.reached(f"notebook/{name}", now, self._some(NOTEBOOK_SESSION_S)):
                continue
            running = notebook["spec"]["replicas"] > 0
            if not running and not self._fits(notebook):
                continue
            self._resize("statefulsets", notebook, 0 if running else 1, LAB)
            return f"{'stopped' if running else 'started'} {name}"
        return ""

    # Servers

    def _autoscale(self, now: float) -> str:
        """Load moves every server by one replica now and then, within what its autoscaler allows."""
        scalers = self.store.list("horizontalpodautoscalers", "inference")
        self.rng.shuffle(scalers)
        for scaler in scalers:
            name = scaler["spec"]["scaleTargetRef"]["name"]
            deployment = self.store.get("deployments", "inference", name)
            every_s = self._some(SCALE_EVERY_S)
            if not self._moments.reached(f"scale/{name}", now, every_s) or not _is_settled(deployment):
                continue
            wanted = self._wanted(scaler, deployment)
            if wanted == deployment["spec"]["replicas"]:
                continue
            self._resize("deployments", deployment, wanted, AUTOSCALER)
            self._note(scaler, deployment, wanted, now)
            return f"scaled {name} to {wanted}"
        return ""

    def _wanted(self, scaler: Object, deployment: Object) -> int:
        """One more or one fewer, drawn back to the middle of the range; no more than fit."""
        least, most = int(scaler["spec"]["minReplicas"]), int(scaler["spec"]["maxReplicas"])
        present: int = deployment["spec"]["replicas"]
        grow = self.rng.uniform(least, most) > present
        if grow and not self._fits(deployment):
            return present
        return min(most, present + 1) if grow else max(least, present - 1)

    def _note(self, scaler: Object, deployment: Object, wanted: int, now: float) -> None:
        metadata = scaler["metadata"]
        status = {"lastScaleTime": stamp(now), "currentReplicas": deployment["spec"]["replicas"]}
        self.store.mutate(
            "horizontalpodautoscalers",
            metadata["namespace"],
            metadata["name"],
            lambda draft: {
                **draft,
                "status": {**draft.get("status", {}), **status, "desiredReplicas": wanted},
            },
            manager=AUTOSCALER,
            subresource="status",
        )

    def _release(self, now: float) -> str:
        """A new version of one server, when all of them are settled."""
        if not self._moments.reached("release", now, self._some(RELEASE_EVERY_S)):
            return ""
        deployments = self.store.list("deployments", "inference")
        if not deployments or not all(_is_settled(d) for d in deployments):
            self._moments.due["release"] = now + 60.0
            return ""
        chosen = self.rng.choice(deployments)
        image = next_tag(chosen["spec"]["template"]["spec"]["containers"][0]["image"])

        def release(draft: Object) -> None:
            draft["spec"]["template"]["spec"]["containers"][0]["image"] = image

        metadata = chosen["metadata"]
        self.store.mutate("deployments", metadata["namespace"], metadata["name"], release, manager=RELEASER)
        return f"released {image}"

    # What they have in common

    def _resize(self, plural: str, obj: Object, replicas: int, manager: str) -> None:
        def resize(draft: Object) -> None:
            draft["spec"]["replicas"] = replicas

        metadata = obj["metadata"]
        self.store.mutate(plural, metadata["namespace"], metadata["name"], resize, manager=manager, subresource="scale")

    def _fits(self, owner: Object) -> bool:
        """Whether one more of its pods finds room now."""
        spec = owner["spec"]["template"]["spec"]
        request = effective_request(spec)
        self._look()
        nodes = self._rooms.nodes.items()
        matching = (name for name, node in nodes if affinity_matches(spec, node) and not blocked(spec, node))
        return any(self._rooms.room(name).refuses(request) is None for name in matching)

    def _look(self) -> None:
        """Take in what has changed since the last look; everything anew after too long a time."""
        try:
            changes = [change for followed in self._followed for change in followed.take()]
        except ApiError:
            self._look_anew()
            return
        for change in changes:
            self._note_change(change)

    def _look_anew(self) -> None:
        self._rooms = Rooms()
        self._followed = [self.store.subscribe(plural) for plural in ("nodes", "pods")]
        for node in self.store.list("nodes"):
            self._rooms.set_node(node)
        for pod in self.store.list("pods"):
            self._rooms.set_pod(pod)

    def _note_change(self, change: Change) -> None:
        is_node, gone = change.object["kind"] == "Node", change.type == "DELETED"
        if is_node and gone:
            self._rooms.drop_node(change.key)
        elif is_node:
            self._rooms.set_node(change.object)
        elif gone:
            self._rooms.drop_pod(change.key)
        else:
            self._rooms.set_pod(change.object)


def next_tag(image: str) -> str:
    """The image with the last number of its tag raised by one: v41 → v42, 2.6.9 → 2.6.10."""
    return re.sub(r"(\d+)(\D*)$", lambda m: f"{int(m.group(1)) + 1}{m.group(2)}", image)


def _is_settled(deployment: Object) -> bool:
    """Neither paused nor rolling nor short of pods."""
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    fields = ("replicas", "updatedReplicas", "availableReplicas")
    observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
    paused = bool(deployment["spec"].get("paused"))
    return observed and not paused and all(status.get(f, 0) == wanted for f in fields)
