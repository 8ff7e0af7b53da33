"""Stories of trainings that save too late, not whole, or not at all.

Owns what happens in them. A saver that hangs and a slow store are told to them by annotations `sim/…` of a pod and of a claim;
what becomes of that is in the store's folder, and in what the trainers say of themselves.
"""

from typing import Any

from fleet.domain import durations
from fleet.simulation import podstatus
from fleet.simulation.checkpoint_places import Kind
from fleet.simulation.scenarios.scene import Scene, StoryError
from fleet.simulation.scenarios.stage import Scenario
from fleet.simulation.training_habits import SILENT, Habit, habit_of, trainer_of
from fleet.simulation.trainings import SLOW

Object = dict[str, Any]

URI = "vigie.dev/checkpoint-uri"
PROGRESS, HOOK = "progress", "checkpoint"
INTO_THE_SAVE = 0.6  # of the time that it takes
SLOWER = 25
BACK_S = 150.0


def _savers(scene: Scene) -> list[tuple[Object, Habit]]:
    """The first pods of running trainings whose teams say where they save, on a claim: those of the most pods first."""
    found: dict[str, list[Object]] = {}
    for pod in scene.store.list("pods", "training"):
        if URI in (pod["metadata"].get("annotations") or {}) and podstatus.is_ready(pod):
            found.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
    ranked = sorted(found.values(), key=len, reverse=True)
    habits = [(pods[0], habit_of(pods[0], trainer_of(pods[0]) or {})) for pods in ranked]
    return [(pod, habit) for pod, habit in habits if habit.place and habit.place.kind is Kind.CLAIM]


def _saver(scene: Scene, number: int) -> tuple[Object, Habit]:
    """StoryError when the fleet has none."""
    found = _savers(scene)
    if len(found) <= number:
        raise StoryError("no training that saves to a claim runs")
    return found[number]


def _named(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _port(pod: Object) -> int:
    return int(pod["spec"]["containers"][0]["ports"][0]["containerPort"])


async def _progress(scene: Scene, pod: Object) -> Object:
    return await scene.hand("olga").ask_pod("GET", *_named(pod), _port(pod), PROGRESS)


async def stale_checkpoint(scene: Scene) -> None:
    pod, habit = _saver(scene, 0)
    namespace, name = _named(pod)
    interval_s = habit.save_steps * habit.step_s
    change = {"metadata": {"annotations": {SILENT: "true"}}}
    await scene.patch(scene.hand("trainer", "trainer"), "pods", namespace, name, change)
    step = (await _progress(scene, pod))["saved_step"]
    scene.tell(
        f"The thread of {name} that saves hangs: step {step} is the last that is saved. It trains on as if nothing were."
    )
    await scene.wait(interval_s + habit.save_s)
    now = (await _progress(scene, pod))["step"]
    scene.tell(
        f"The next should have come after {durations.spelled(interval_s)}. At step {now}, {now - step} steps stand to be lost."
    )
    await scene.wait(interval_s)
    now = (await _progress(scene, pod))["step"]
    scene.tell(f"Two are missing by now: {now - step} steps. Asking it to save is answered, and nothing comes of it.")


async def killed_in_save(scene: Scene) -> None:
    pod, habit = _saver(scene, 1)
    namespace, name = _named(pod)
    olga = scene.hand("olga")
    before = await _progress(scene, pod)
    asked = await olga.ask_pod("POST", namespace, name, _port(pod), HOOK)
    await scene.wait(habit.step_s + habit.save_s * INTO_THE_SAVE)
    reached = (await _progress(scene, pod))["step"]
    await olga.delete("pods", namespace, name)
    scene.tell(
        f"{name} is killed while it saves step {asked['step']}, at step {reached}. Half of that checkpoint is in the store."
    )

    def is_back() -> bool:
        found = [p for p in scene.store.list("pods", namespace) if p["metadata"]["name"] == name]
        return bool(found) and found[0]["metadata"]["uid"] != pod["metadata"]["uid"] and podstatus.is_ready(found[0])

    if not await scene.until(is_back, BACK_S):
        scene.tell("Its replacement has found no place yet: the whole training waits for it.")
        return
    step = before["saved_step"]
    scene.tell(
        f"It is back and goes on from step {step}, the newest that is whole: {reached - step} steps on all of its GPUs are lost."
    )


async def slow_store(scene: Scene) -> None:
    pod, habit = _saver(scene, 0)
    assert habit.place is not None  # noqa: S101 -- it saves to a claim
    namespace, _, claim = habit.place.root.partition("/")
    change = {"metadata": {"annotations": {SLOW: str(SLOWER)}}}
    await scene.patch(scene.hand("storage-room", "rehearsal"), "persistentvolumeclaims", namespace, claim, change)
    takes_s, interval_s = habit.save_s * SLOWER, habit.save_steps * habit.step_s
    scene.tell(
        f"The file server behind {namespace}/{claim} is overloaded: a save takes {durations.spelled(takes_s)}"
        f" instead of {durations.spelled(habit.save_s)}."
    )
    await scene.hand("olga").ask_pod("POST", *_named(pod), _port(pod), HOOK)
    await scene.wait(interval_s)
    scene.tell(f"{_named(pod)[1]} is still writing, though the next save is due every {durations.spelled(interval_s)}.")
    await scene.wait(takes_s - interval_s + 2 * habit.step_s)
    scene.tell("That save is whole now, and as old as it took: so much is lost when something happens.")


STORIES = (
    Scenario(
        "stale-checkpoint",
        "A training that no longer saves",
        "The thread that saves hangs in one of its ranks; the training goes on, and its newest checkpoint grows old.",
        "Its checkpoints: late after one interval, critical after two; the loss of a drain of its nodes grows.",
        660.0,
        stale_checkpoint,
    ),
    Scenario(
        "killed-in-save",
        "Killed while saving",
        "A rank is killed in the middle of a save: the directory with the highest number is not whole, and the training goes on"
        " from the one before.",
        "Its checkpoints: one in progress, later abandoned, beside the older one that counts.",
        190.0,
        killed_in_save,
    ),
    Scenario(
        "slow-store",
        "A slow store",
        "The file server is overloaded: saves take longer than the time between two of them.",
        "Its checkpoints: a save in flight for minutes, a history of saves that take ever longer, and ages above the interval.",
        480.0,
        slow_store,
    ),
)
