"""Stories of machines: silent ones, lost ones, GPUs that disappear, and somebody else who uncordons.

Owns what happens in them. What happens to a machine itself is told to its kubelet by annotations `sim/…`, which no cluster
outside the rehearsal has.
"""

from typing import Any

from fleet.simulation.gpu_troubles import ONE, Trouble
from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.gpus import sound_slots, suffer, used_slots, withdrawn
from fleet.simulation.scenarios.scene import Scene, StoryError, gpus_of
from fleet.simulation.scenarios.stage import Scenario

Object = dict[str, Any]

SILENT = {"metadata": {"annotations": {"sim/down": "true"}}}
TALKING = {"metadata": {"annotations": {"sim/down": None}}}
NOTICED_S = 90.0
PATIENCE_S = 15.0
LOOK_S = 1.0
GONE_AFTER_S = 400.0  # tolerationSeconds and what it takes


def _ready(scene: Scene, node: str) -> str:
    conditions = scene.store.get("nodes", None, node)["status"].get("conditions") or ()
    return str(next((c["status"] for c in conditions if c["type"] == "Ready"), ""))


async def _fall_silent(scene: Scene) -> str:
    """Its kubelet stops talking; returns once the cluster has noticed."""
    node = scene.busiest_node()
    await scene.patch(scene.hand("machine-room", "rehearsal"), "nodes", "", node, SILENT)
    scene.tell(f"The kubelet of {node} has stopped talking to the API server.")
    if await scene.until(lambda: _ready(scene, node) == "Unknown", NOTICED_S):
        scene.tell(
            f"The cluster has noticed: Ready is Unknown on {node}. Its pods still count, nobody knows how they are."
        )
    return node


async def silent_node(scene: Scene) -> None:
    node = await _fall_silent(scene)
    await scene.wait(30.0)
    await scene.hand("machine-room", "rehearsal").patch("nodes", "", node, TALKING)
    if await scene.until(lambda: _ready(scene, node) == "True", NOTICED_S):
        scene.tell(f"{node} talks again before anything was evicted: all its pods are where they were.")


async def lost_node(scene: Scene) -> None:
    node = await _fall_silent(scene)

    def leaving() -> int:
        pods = scene.store.list("pods", field=lambda p: p["spec"].get("nodeName") == node)
        return sum("deletionTimestamp" in p["metadata"] for p in pods)

    if await scene.until(lambda: leaving() > 0, GONE_AFTER_S):
        await scene.wait(2.0)
        scene.tell(f"{leaving()} pods of {node} are to go, but nobody there can stop them: they stay Terminating.")


async def gpu_loss(scene: Scene) -> None:
    free = scene.free_gpus()
    node = max(free, key=lambda name: free[name], default="")
    if not node or free[node] < 1:
        raise StoryError("no node has a free GPU to lose")
    held = {slot for slot, _ in scene.machines.held(node)}
    (slot,) = await _lose(scene, node, [s for s in sound_slots(scene, node) if s not in held][:1])
    scene.tell(f"GPU {slot} of {node} has fallen off the bus: it can be allocated no more. The node stays Ready.")


async def overcommit(scene: Scene) -> None:
    node = scene.busiest_node()
    await _lose(scene, node, list(used_slots(scene, node))[-2:])
    scene.tell(f"{node} has lost two GPUs while pods hold all of them: more is in use than there is.")


async def _lose(scene: Scene, node: str, slots: list[int]) -> list[int]:
    """These GPUs fall off the bus; StoryError when there are none, or nobody notices."""
    if not slots:
        raise StoryError(f"{node} has no sound GPU to lose")
    left = gpus_of(scene.store.get("nodes", None, node)) - len(slots)
    for slot in slots:
        await suffer(scene, node, f"{ONE}{slot}", Trouble.OFF_BUS)
    await withdrawn(scene, node, left)
    return slots


async def foreign_uncordon(scene: Scene) -> None:
    operator, node = scene.hand("gpu-operator", "gpu-operator"), scene.busiest_node()
    known = {n["metadata"]["name"] for n in scene.store.list("nodes") if n["spec"].get("unschedulable")}
    await scene.patch(scene.hand("marta", "kubectl-cordon"), "nodes", "", node, {"spec": {"unschedulable": True}})
    scene.tell(f"Marta has cordoned {node} to look at it.")
    scene.standing = True
    scene.tell("A driver upgrade runs as well: its operator uncordons whatever was cordoned since.")
    since: dict[str, float] = {}
    while True:
        now = scene.clock.now()
        cordoned = {n["metadata"]["name"] for n in scene.store.list("nodes") if n["spec"].get("unschedulable")}
        known &= cordoned
        since = {name: since.get(name, now) for name in cordoned - known}
        for name in [n for n, at in since.items() if now - at >= PATIENCE_S]:
            await _uncordon(scene, operator, name)
        await scene.wait(LOOK_S)


async def _uncordon(scene: Scene, operator: Any, node: str) -> None:
    try:
        await operator.patch("nodes", "", node, {"spec": {"unschedulable": None}})
    except ApiError as refusal:  # it will try again, as controllers do
        scene.tell(f"The operator could not uncordon {node}: {refusal.message}")
    else:
        scene.tell(f"The operator has uncordoned {node}, which was not its own to uncordon.")


STORIES = (
    Scenario(
        "silent-node",
        "A node that says nothing for a while",
        "A kubelet stops talking, the cluster marks its node unknown, and before anything is evicted it comes back.",
        "Fleet and Node: unknown is neither free nor healthy, and nothing was lost.",
        150.0,
        silent_node,
    ),
    Scenario(
        "lost-node",
        "A node that does not come back",
        "A kubelet dies. After five minutes its pods are to be deleted, whatever their budgets say, and never are.",
        "The node: Ready unknown, its pods Terminating without end. Stop the scenario to bring it back.",
        430.0,
        lost_node,
    ),
    Scenario(
        "gpu-loss",
        "A GPU that disappears",
        "A free GPU of a node can be allocated no more; Kubernetes says nothing else about it.",
        "The node: capacity 8, allocatable 7.",
        5.0,
        gpu_loss,
    ),
    Scenario(
        "overcommit",
        "More GPUs in use than there are",
        "A full node loses two GPUs, and its pods go on.",
        "The node: it holds more than can be allocated.",
        5.0,
        overcommit,
    ),
    Scenario(
        "foreign-uncordon",
        "Somebody else uncordons",
        "An operator that upgrades drivers uncordons every node that has been cordoned for 15 s, whoever did it and why.",
        "Cordon any node and wait: Vigie has to say that somebody has taken the cordon away.",
        20.0,
        foreign_uncordon,
    ),
)
