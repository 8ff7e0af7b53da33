"""What a story has at hand while it is played: hands that use the API, time, a look at the fleet, and how to undo it all.

Owns undoing: whatever is created or changed through it is put back, latest first. It looks into the store, as the audience
does, and writes only through hands.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from fleet.simulation.api import Application
from fleet.simulation.clock import Clock
from fleet.simulation.hardware import GPU
from fleet.simulation.placement import FINISHED, amounts, effective_request
from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.hand import Hand
from fleet.simulation.server_faults import ServerFaults

Object = dict[str, Any]
Undo = Callable[[], Awaitable[Any]]

PRODUCT = "nvidia.com/gpu.product"
LOOK_EVERY_S = 0.25


class Scene:
    """One performance of one story. `tell` takes each line of what happens."""

    def __init__(self, app: Application, faults: ServerFaults, clock: Clock, tell: Callable[[str], None]) -> None:
        self.store = app.store
        self.machines = app.machines
        self.faults = faults
        self.clock = clock
        self.tell = tell
        self.standing = False  # set by a story that is told and only goes on
        self._app = app
        self._hands: list[Hand] = []
        self._undo: list[Undo] = []

    def hand(self, name: str, agent: str = "kubectl") -> Hand:
        made = Hand(self._app, name, agent)
        self._hands.append(made)
        return made

    # Time

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Whether it came to hold within that time."""
        ends_at = self.clock.now() + within_s
        while not holds():
            if self.clock.now() >= ends_at:
                return False
            await self.clock.sleep(LOOK_EVERY_S)
        return True

    # Changes that are put back

    def on_undo(self, undo: Undo) -> None:
        self._undo.append(undo)

    async def create(self, hand: Hand, plural: str, obj: Object) -> Object:
        """ApiError as the server refuses, here and below."""
        made = await hand.create(plural, obj)
        metadata = made["metadata"]
        self.on_undo(lambda: hand.delete(plural, metadata.get("namespace", ""), metadata["name"]))
        return made

    async def patch(
        self, hand: Hand, plural: str, namespace: str, name: str, change: Object, subresource: str = ""
    ) -> Object:
        """A merge patch; undoing it gives each of its fields the value that it had."""
        before = await hand.get(plural, namespace, name)
        back = inverse(change, before)
        self.on_undo(lambda: hand.patch(plural, namespace, name, back, subresource))
        return await hand.patch(plural, namespace, name, change, subresource)

    async def undo(self) -> list[str]:
        """Put everything back, latest first; what could not be. What somebody else has deleted needs no undoing."""
        troubles = []
        while self._undo:
            try:
                await self._undo.pop()()
            except ApiError as refusal:
                if refusal.status != 404:
                    troubles.append(refusal.message)
        for hand in self._hands:
            hand.leave()
        self._hands.clear()
        return troubles

    # Looking

    def deployment_status(self, namespace: str, name: str) -> Object:
        """Its status once the controller has seen its latest form, else nothing."""
        found = self.store.get("deployments", namespace, name)
        status: Object = found.get("status") or {}
        return status if status.get("observedGeneration") == found["metadata"]["generation"] else {}

    def available(self, namespace: str, name: str, replicas: int) -> bool:
        return bool(self.deployment_status(namespace, name).get("availableReplicas", 0) >= replicas)

    def condition(self, namespace: str, name: str, kind: str) -> Object:
        """A Deployment's condition, or nothing."""
        conditions = self.store.get("deployments", namespace, name).get("status", {}).get("conditions") or ()
        found: Object = next((c for c in conditions if c["type"] == kind), {})
        return found

    def pods(self, namespace: str, app: str) -> list[Object]:
        return self.store.list("pods", namespace, {"app": app})

    def usable_nodes(self) -> list[Object]:
        """Ready, not cordoned, without taints, with GPUs."""
        return [n for n in self.store.list("nodes") if _usable(n)]

    def free_gpus(self) -> dict[str, int]:
        """Free GPUs of each usable node."""
        free = {n["metadata"]["name"]: gpus_of(n) for n in self.usable_nodes()}
        for pod in self.store.list("pods"):
            node = pod["spec"].get("nodeName")
            if node in free and pod["status"].get("phase") not in FINISHED:
                free[node] -= effective_request(pod["spec"]).get(GPU, 0)
        return free

    def free_by_product(self) -> dict[str, int]:
        """The most first."""
        free, found = self.free_gpus(), dict[str, int]()
        for node in self.usable_nodes():
            product = node["metadata"]["labels"].get(PRODUCT, "")
            found[product] = found.get(product, 0) + free[node["metadata"]["name"]]
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def busiest_node(self) -> str:
        """The usable node with the most GPUs in use, the last of them: the first ones are for visitors' eyes."""
        free = self.free_gpus()
        if not free:
            raise StoryError("no node is free for this")
        return min(free, key=lambda name: (free[name], [-ord(c) for c in name]))


class StoryError(Exception):
    """The fleet does not allow this story now; the text says what is missing."""


def inverse(change: Object, before: Object) -> Object:
    """The merge patch that takes `change` back from an object that was `before`."""
    back: Object = {}
    for field, value in change.items():
        was = before.get(field)
        back[field] = inverse(value, was) if isinstance(value, dict) and isinstance(was, dict) else was
    return back


def gpus_of(node: Object) -> int:
    return amounts(node.get("status", {}).get("allocatable")).get(GPU, 0)


def _usable(node: Object) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())
    return ready and gpus_of(node) > 0 and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
