"""Stories of GPUs that fail: one that falls off the bus, memory errors, a rack that grows hot, a driver that hangs.

Owns what happens in them. What is wrong with a GPU is told to its machine by annotations `sim/gpu…` (gpu_troubles.py); what
becomes of that is in the machine's kernel log, in its agent's readings, and in what its device plugin offers.
"""

from collections import Counter
from typing import Any

from fleet.simulation.gpu_holders import WHOLE
from fleet.simulation.gpu_troubles import ALL, ONE, Trouble
from fleet.simulation.kubelet import notes_of
from fleet.simulation.scenarios.scene import Scene, StoryError, gpus_of
from fleet.simulation.scenarios.stage import Scenario

Object = dict[str, Any]

RACK = "topology.kubernetes.io/rack"
NOTICED_S = 15.0
STORM_S = 45.0
HEAT_S = 400.0  # six of ten one-minute samples, and a little
MOST_HOT = 4


def sound_slots(scene: Scene, node: str) -> list[int]:
    """The GPUs of a node with which nothing is wrong so far."""
    notes = notes_of(scene.store.get("nodes", None, node))
    if ALL in notes:
        return []
    return [gpu.index for gpu in scene.machines.gpus(node) if f"{ONE}{gpu.index}" not in notes]


def used_slots(scene: Scene, node: str) -> dict[int, Object]:
    """The sound GPUs of a node that a pod holds, with the pod."""
    held = scene.machines.held(node)
    return {slot: held[slot, WHOLE][0] for slot in sound_slots(scene, node) if (slot, WHOLE) in held}


def named(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def suffer(scene: Scene, node: str, key: str, *troubles: Trouble) -> None:
    change = {"metadata": {"annotations": {key: " ".join(troubles)}}}
    await scene.patch(scene.hand("machine-room", "rehearsal"), "nodes", "", node, change)


async def withdrawn(scene: Scene, node: str, left: int) -> None:
    """Wait for the device plugin and the kubelet; StoryError when they do not notice."""
    if not await scene.until(lambda: gpus_of(scene.store.get("nodes", None, node)) == left, NOTICED_S):
        raise StoryError(f"the device plugin of {node} has not noticed")


def _busy_gpu(scene: Scene) -> tuple[str, int, Object]:
    """A sound GPU in use, and who holds it: of the fullest machine, best of one large pod. StoryError when there is none."""

    def weight(node: str) -> tuple[int, int, str]:
        sizes = Counter(named(pod) for pod in used[node].values())
        return len(used[node]), max(sizes.values(), default=0), node

    used = {n["metadata"]["name"]: used_slots(scene, n["metadata"]["name"]) for n in scene.usable_nodes()}
    node = max(used, key=weight, default="")
    if not node or not used[node]:
        raise StoryError("no pod holds a sound GPU")
    slot = sorted(used[node])[len(used[node]) // 2]
    return node, slot, used[node][slot]


def _log_since(scene: Scene, node: str, sequence: int) -> list[str]:
    machine = scene.machines.get(node)
    return [line.text for line in machine.log if line.sequence > sequence] if machine else []


def _last_line(scene: Scene, node: str) -> int:
    machine = scene.machines.get(node)
    return machine.log[-1].sequence if machine and machine.log else 0


async def xid_79(scene: Scene) -> None:
    node, slot, pod = _busy_gpu(scene)
    left, before = gpus_of(scene.store.get("nodes", None, node)) - 1, _last_line(scene, node)
    await suffer(scene, node, f"{ONE}{slot}", Trouble.OFF_BUS)
    scene.tell(
        f"GPU {slot} of {node} is gone, under {named(pod)}. The kernel log: {_log_since(scene, node, before)[0]}"
    )
    await withdrawn(scene, node, left)
    scene.tell(
        f"The device plugin has withdrawn it: {left} GPUs of {node} can be allocated. The pod holds its own as before."
    )
    scene.tell(f"Only a reboot brings it back: cordon {node}, drain it, then annotate it vigie.dev/reboot-requested.")


async def ecc_storm(scene: Scene) -> None:
    node, slot, pod = _busy_gpu(scene)
    before = _last_line(scene, node)
    await suffer(scene, node, f"{ONE}{slot}", Trouble.ECC_STORM)
    scene.tell(f"GPU {slot} of {node}, held by {named(pod)}, corrects thousands of memory errors a second.")
    scene.tell(f"The kernel log: {_log_since(scene, node, before)[0]}")
    await scene.wait(STORM_S)
    before = _last_line(scene, node)
    await suffer(scene, node, f"{ONE}{slot}", Trouble.ECC_STORM, Trouble.UNCORRECTABLE)
    for line in _log_since(scene, node, before):
        scene.tell(f"The kernel log: {line}")
    scene.tell(
        "An error that could not be corrected has taken data; a row waits to be remapped, which takes a reset of the GPU."
    )


async def hot_rack(scene: Scene) -> None:
    first = scene.busiest_node()
    rack = scene.store.get("nodes", None, first)["metadata"]["labels"].get(RACK, "")
    there = [n["metadata"]["name"] for n in scene.usable_nodes() if n["metadata"]["labels"].get(RACK) == rack]
    working = [node for node in there if used_slots(scene, node)]
    if len(working) < 2:
        raise StoryError(f"fewer than two machines of rack {rack} work")
    *hot, braked = working[-MOST_HOT:]
    for node in hot:
        await suffer(scene, node, ALL, Trouble.HOT)
    scene.tell(
        f"The cooling of rack {rack} fails: the GPUs of {', '.join(hot)} reach the temperature that slows them down."
    )
    await scene.wait(NOTICED_S)
    await suffer(scene, braked, ALL, Trouble.POWER_BRAKE)
    scene.tell(f"A power supply of the rack gives way: {braked} brakes all its GPUs.")
    await scene.wait(HEAT_S)
    scene.tell("It has lasted for minutes now: work goes on at half the clock, and nothing in Kubernetes says so.")


async def hung_driver(scene: Scene) -> None:
    node, slot, pod = _busy_gpu(scene)
    await suffer(scene, node, f"{ONE}{slot}", Trouble.HUNG)
    scene.tell(
        f"The driver of {node} does not answer any more for GPU {slot}, held by {named(pod)}: no value, no error, no Xid."
    )
    await scene.wait(NOTICED_S)
    scene.tell("Its other GPUs are read as before; Kubernetes still calls all of them allocatable.")


STORIES = (
    Scenario(
        "xid-79",
        "A GPU falls off the bus",
        "A GPU disappears from its machine under a running pod: Xid 79, a lost handle, one GPU fewer to allocate. A reboot"
        " brings it back.",
        "The GPU: lost, with the line of the kernel log; its node: one fewer allocatable, and what to do.",
        20.0,
        xid_79,
    ),
    Scenario(
        "ecc-storm",
        "A storm of memory errors",
        "A GPU corrects thousands of errors a second (Xid 92), then meets one that it cannot correct (Xid 48): a row waits to"
        " be remapped (63), and the driver asks for a reset (154).",
        "The GPU: reset required, its counters, its lines of the kernel log.",
        60.0,
        ecc_storm,
    ),
    Scenario(
        "hot-rack",
        "A rack grows hot",
        "The cooling of a rack fails, then one of its power supplies: the GPUs of several machines are slowed down by heat,"
        " those of one by the power brake.",
        "GPUs of one rack, degraded for the same reason within minutes: not their fault, but that of the rack.",
        430.0,
        hot_rack,
    ),
    Scenario(
        "hung-driver",
        "A driver that does not answer",
        "Calls to the driver for one GPU never return; the other seven answer.",
        "The GPU: unknown, with the age of its last good values; the other seven are current.",
        25.0,
        hung_driver,
    ),
)
