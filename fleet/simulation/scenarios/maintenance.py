"""Stories of planned work on machines: a driver upgrade, a board that is replaced, GPUs cut into instances, a reboot.

Owns what people and the GPU operator do in them, step by step. The reboot itself is reboots.py's, the layout mig_manager.py's.
"""

from collections.abc import Callable
from typing import Any

from fleet.simulation import reboots
from fleet.simulation.device_plugin import PAUSED
from fleet.simulation.gpu_boards import product_of
from fleet.simulation.gpu_machine import CUDA_LABEL, DRIVER_LABEL
from fleet.simulation.gpu_troubles import BOARD, DRIVER, ONE, DriverTrouble, Trouble, revision
from fleet.simulation.hardware import CUDA, DRIVERS, GPU
from fleet.simulation.mig_manager import CLIENTS, CONFIG, DEPLOY, STATE
from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.gpus import suffer
from fleet.simulation.scenarios.hand import Hand
from fleet.simulation.scenarios.scene import PRODUCT, Scene, StoryError, gpus_of
from fleet.simulation.scenarios.stage import Scenario

Object = dict[str, Any]

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
NEW_DRIVER = DRIVERS[0]
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
BOOTS_IN_S = 45
LOOK_S = 1.0
BACK_S = 120.0
RECONFIGURED_S = 60.0
SETTLES_S = 15.0
EMPTIED_S, RETRY_S = 120.0, 5.0


def _node(scene: Scene, name: str) -> Object:
    return scene.store.get("nodes", None, name)


def _idle_machine(scene: Scene, suits: Callable[[Object], bool] = lambda _: True) -> str:
    """A machine of which no pod holds a GPU: better one that is cordoned already. StoryError when all have work."""
    nodes = {name: _node(scene, name) for name in scene.machines if not scene.machines.held(name)}
    idle = {name: node for name, node in nodes.items() if suits(node) and not _is_down(node)}
    if not idle:
        raise StoryError("pods hold GPUs on every machine")
    return min(idle, key=lambda name: (not idle[name]["spec"].get("unschedulable"), name))


def _is_down(node: Object) -> bool:
    return not any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())


async def _cordon(scene: Scene, hand: Hand, name: str) -> None:
    if not _node(scene, name)["spec"].get("unschedulable"):
        await scene.patch(hand, "nodes", "", name, {"spec": {"unschedulable": True}})


# A driver upgrade


class _Upgrade:
    """The upgrade controller of the GPU operator at work on one node; what it changes is put back in one step."""

    def __init__(self, scene: Scene, node: Object) -> None:
        self.scene = scene
        self.name: str = node["metadata"]["name"]
        self.hand = scene.hand("gpu-operator", "gpu-operator")
        labels = node["metadata"]["labels"]
        clients = {f"{DEPLOY}{client}": labels.get(f"{DEPLOY}{client}") for client in CLIENTS}
        was = {k: labels.get(k) for k in (UPGRADE, DRIVER_LABEL, CUDA_LABEL)} | clients
        metadata = {"labels": was, "annotations": {DRIVER: None}}
        back = {"metadata": metadata, "spec": {"unschedulable": node["spec"].get("unschedulable")}}
        scene.on_undo(lambda: self.hand.patch("nodes", "", self.name, back))

    async def state(self, state: str, wait_s: float, labels: dict[str, str] | None = None, **rest: Any) -> None:
        """Enter `state`, and stay there for a while."""
        change: Object = {"metadata": {"labels": {UPGRADE: state, **(labels or {})}}, **rest}
        await self.hand.patch("nodes", "", self.name, change)
        await self.scene.wait(wait_s)

    async def driver(self, trouble: DriverTrouble | None, wait_s: float) -> None:
        change = {"metadata": {"annotations": {DRIVER: trouble}}}
        await self.scene.hand("machine-room", "rehearsal").patch("nodes", "", self.name, change)
        await self.scene.wait(wait_s)

    async def evict_pods(self) -> list[str]:
        """Whoever holds its GPUs; refusals are tried again, as budgets want. StoryError when it takes too long."""
        pods = {
            p["metadata"]["name"]: p["metadata"]["namespace"] for p, _ in self.scene.machines.held(self.name).values()
        }
        ends_at = self.scene.clock.now() + EMPTIED_S
        for name, namespace in pods.items():
            while not await self._evict(namespace, name):
                if self.scene.clock.now() > ends_at:
                    raise StoryError(f"{name} cannot be evicted from {self.name}")
                await self.scene.wait(RETRY_S)
        if not await self.scene.until(lambda: not self.scene.machines.held(self.name), EMPTIED_S):
            raise StoryError(f"pods on {self.name} do not end")
        return sorted(pods)

    async def _evict(self, namespace: str, name: str) -> bool:
        try:
            await self.hand.evict(namespace, name)
        except ApiError as refusal:
            if refusal.status != 429:
                raise
            return False
        return True


def _old_driver(scene: Scene) -> Object:
    """A machine with an old driver and only servers on it, as few as can be, best of a product that nobody waits for.

    StoryError when there is none.
    """
    waiting = {(p["spec"].get("nodeSelector") or {}).get(PRODUCT) for p in scene.store.list("pods", field=_has_no_node)}

    def pods(node: Object) -> list[Object]:
        return [pod for pod, _ in scene.machines.held(node["metadata"]["name"]).values()]

    old = [n for n in scene.usable_nodes() if n["metadata"]["labels"].get(DRIVER_LABEL, NEW_DRIVER) != NEW_DRIVER]
    calm = [n for n in old if all(p["metadata"]["namespace"] == "inference" for p in pods(n))]
    if not calm:
        raise StoryError("no machine with an old driver has only servers on it")
    return min(calm, key=lambda node: (node["metadata"]["labels"][PRODUCT] in waiting, len(pods(node))))


def _has_no_node(pod: Object) -> bool:
    return not pod["spec"].get("nodeName")


async def driver_upgrade(scene: Scene) -> None:
    node = _old_driver(scene)
    name, old = node["metadata"]["name"], node["metadata"]["labels"][DRIVER_LABEL]
    upgrade = _Upgrade(scene, node)
    await upgrade.state("upgrade-required", 5.0)
    scene.tell(f"{name} still has driver {old}; the GPU operator is to bring it to {NEW_DRIVER}.")
    await upgrade.state("cordon-required", 3.0)
    await upgrade.state("wait-for-jobs-required", 5.0, spec={"unschedulable": True})
    scene.tell(f"The operator has cordoned {name}.")
    await upgrade.state("pod-deletion-required", 2.0)
    gone = await upgrade.evict_pods()
    scene.tell(f"It has evicted the pods that held GPUs there: {', '.join(gone) or 'none'}.")
    paused = {f"{DEPLOY}{client}": f"{PAUSED}driver-upgrade" for client in CLIENTS}
    await upgrade.state("pod-restart-required", 3.0, paused)
    await upgrade.driver(DriverTrouble.ABSENT, 10.0)
    scene.tell(
        "The old driver is unloaded, the device plugin paused: nothing can be allocated, nothing can be measured."
    )
    await upgrade.driver(DriverTrouble.MISMATCH, 20.0)
    scene.tell(
        "The new driver is loaded, the agent still has the old library: NVML answers 18, a mismatch of versions."
    )
    cuda = CUDA[NEW_DRIVER.partition(".")[0]]
    found = {DRIVER_LABEL: NEW_DRIVER, CUDA_LABEL: cuda, **dict.fromkeys(paused, "true")}
    await upgrade.driver(None, 2.0)
    await upgrade.state("validation-required", 10.0, found)
    await upgrade.state("uncordon-required", 3.0)
    await upgrade.state("upgrade-done", 1.0, spec={"unschedulable": None})
    scene.tell(
        f"{name} runs {NEW_DRIVER}, is uncordoned and measured again. Stopping the scenario brings the old driver back."
    )


# A board, a layout, a reboot


async def _take_down(scene: Scene, hand: Hand, name: str) -> None:
    """Ask the site's controller for a reboot; returns when the machine is down. StoryError when nobody does it."""
    notes = {reboots.REQUESTED: "true", reboots.BOOT_SECONDS: str(BOOTS_IN_S)}
    await hand.patch("nodes", "", name, {"metadata": {"annotations": notes}})
    forgotten: Object = {reboots.REQUESTED: None, reboots.BOOT_SECONDS: None}
    scene.on_undo(lambda: hand.patch("nodes", "", name, {"metadata": {"annotations": forgotten}}))
    if not await scene.until(lambda: _is_off(scene, name), BACK_S):
        raise StoryError(f"nobody reboots {name}")
    scene.tell(f"{name} is down.")


async def _come_back(scene: Scene, name: str) -> None:
    """StoryError when it does not."""
    if not await scene.until(lambda: not _is_off(scene, name), BACK_S):
        raise StoryError(f"{name} does not come back")


def _is_off(scene: Scene, name: str) -> bool:
    return bool((_node(scene, name)["metadata"].get("annotations") or {}).get("sim/down"))


async def board_swap(scene: Scene) -> None:
    person, name = scene.hand("marta"), _idle_machine(scene)
    slot = next(g.index for g in scene.machines.gpus(name))
    old = scene.machines.gpus(name)[slot]
    await suffer(scene, name, f"{ONE}{slot}", Trouble.OFF_BUS)
    scene.tell(f"GPU {slot} of {name} at {old.pci} has fallen off the bus: {old.uuid}. Nobody uses this machine.")
    await _cordon(scene, scene.hand("marta", "kubectl-cordon"), name)
    await scene.wait(SETTLES_S)
    await _take_down(scene, person, name)
    board = {"metadata": {"annotations": {f"{BOARD}{slot}": str(revision(_node(scene, name), slot) + 1)}}}
    await scene.patch(scene.hand("machine-room", "rehearsal"), "nodes", "", name, board)
    scene.tell("Its board is replaced.")
    await _come_back(scene, name)
    new = scene.machines.gpus(name)[slot]
    scene.tell(f"{name} is up again, with another boot id and another board at {new.pci}: {new.uuid}.")


async def mig(scene: Scene) -> None:
    name = _idle_machine(scene, lambda node: bool((product := product_of(node)) and product.slice))
    layout = {"metadata": {"labels": {CONFIG: "all-1g.10gb"}}}
    await scene.patch(scene.hand("marta", "kubectl-label"), "nodes", "", name, layout)
    scene.tell(f"Marta wants the GPUs of {name} as seven small instances each: {CONFIG}=all-1g.10gb.")

    def state() -> str:
        return str(_node(scene, name)["metadata"]["labels"].get(STATE, ""))

    if await scene.until(lambda: state() == "pending", SETTLES_S):
        scene.tell("The MIG manager is at work; the device plugin is paused, nothing can be allocated there.")
    if not await scene.until(lambda: state() != "pending", RECONFIGURED_S) or state() != "success":
        raise StoryError(f"the MIG manager says {state()}")
    if await scene.until(lambda: gpus_of(_node(scene, name)) > 8, SETTLES_S):
        scene.tell(f"Done: eight GPUs, {gpus_of(_node(scene, name))} slots of {GPU}.")


async def reboot(scene: Scene) -> None:
    name = _idle_machine(scene)
    await _cordon(scene, scene.hand("marta", "kubectl-cordon"), name)
    scene.tell(f"Marta asks for a reboot of {name}, which is cordoned and empty.")
    await _take_down(scene, scene.hand("marta"), name)
    await _come_back(scene, name)
    scene.tell(f"{name} is up again with a new boot id; counters and kernel log begin anew.")


async def no_reboot(scene: Scene) -> None:
    """Goes on: whoever asks for a reboot is left waiting."""
    name, room = _idle_machine(scene), scene.hand("machine-room", "rehearsal")
    await _cordon(scene, scene.hand("marta", "kubectl-cordon"), name)
    asked = {"metadata": {"annotations": {reboots.REQUESTED: "true"}}}
    await scene.patch(scene.hand("marta", "kubectl-annotate"), "nodes", "", name, asked)
    scene.tell(f"Marta has asked for a reboot of {name}. The site's controller is broken: nobody reboots anything.")
    scene.standing = True
    left: set[str] = set()
    while True:
        notes = {n["metadata"]["name"]: n["metadata"].get("annotations") or {} for n in scene.store.list("nodes")}
        for node in [n for n, found in notes.items() if reboots.REQUESTED in found and n not in left]:
            change = {"metadata": {"annotations": {reboots.REBOOTS: reboots.NEVER}}}
            await scene.patch(room, "nodes", "", node, change)
            scene.tell(f"A reboot of {node} has been asked for, and will not happen.")
            left.add(node)
        await scene.wait(LOOK_S)


async def control_plane(scene: Scene) -> None:
    name = _idle_machine(scene)
    change = {"metadata": {"labels": {CONTROL_PLANE: ""}}}
    await scene.patch(scene.hand("marta", "kubeadm"), "nodes", "", name, change)
    scene.tell(f"{name} has become the third machine of the control plane: etcd runs on it now.")


STORIES = (
    Scenario(
        "driver-upgrade",
        "A driver upgrade",
        "The GPU operator upgrades the driver of one machine: cordon, pods evicted, old driver unloaded, versions that do not"
        " match for a while, validation, uncordon.",
        "Its GPUs: unknown because of planned work, never a fault; the inventory stays.",
        160.0,
        driver_upgrade,
    ),
    Scenario(
        "board-swap",
        "A board is replaced",
        "A GPU falls off the bus, the machine is taken down, and comes back with another board in the same slot.",
        "The old GPU: closed as replaced, its history kept; the new one in its place without inherited faults.",
        130.0,
        board_swap,
    ),
    Scenario(
        "mig",
        "GPUs cut into instances",
        "A machine is set to seven 1g.10gb instances per GPU: pending, then success, and 56 slots instead of 8.",
        "The node: eight physical GPUs, 56 slots, utilisation and remapped rows not applicable; no incident meanwhile.",
        60.0,
        mig,
    ),
    Scenario(
        "reboot",
        "A machine is rebooted",
        "The site's controller reboots a cordoned, empty machine on request.",
        "The node: silent for a minute, then back with a new boot id.",
        100.0,
        reboot,
    ),
    Scenario(
        "control-plane",
        "A machine joins the control plane",
        "An idle GPU machine takes the place of a broken control-plane machine.",
        "Its drain plan: blocked, since the cluster itself stands on it.",
        5.0,
        control_plane,
    ),
    Scenario(
        "no-reboot",
        "Nobody reboots",
        "The site's controller is broken: requests for a reboot stand, and no machine goes down.",
        "A maintenance that asks for a reboot: it waits, reminds, and ends with its deadline.",
        20.0,
        no_reboot,
    ),
)
