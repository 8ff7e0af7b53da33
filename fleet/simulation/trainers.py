"""What a trainer says and hears: its progress, metrics and log, and the wish for a checkpoint, over HTTP or as a signal.

Owns the words. Must not count steps or write files: training_runs.py does.
"""

import json
from typing import Any

from fleet.simulation.programs import Answer, Call, Container, Line, PlainProgram, Programs, Ran
from fleet.simulation.training_habits import IMAGES
from fleet.simulation.training_runs import Training
from fleet.simulation.trainings import Trainings

Object = dict[str, Any]

HOOK = "/checkpoint"
TOKENS_PER_STEP = 524_288
LOG_EVERY = 10
LATEST_LINES = 200
SIGNALS = {"0": 0, "HUP": 1, "USR1": 10, "USR2": 12, "TERM": 15}
SAVES_ON = "USR1"
WAITING = Training("waiting")


class Trainer(PlainProgram):
    def __init__(self, trainings: Trainings) -> None:
        self._trainings = trainings

    def _of(self, container: Container) -> Training:
        return self._trainings.of(container.pod) or WAITING

    async def page(self, container: Container, call: Call) -> Answer:
        match call.method, call.path:
            case "GET", "/progress":
                return _json(200, self._progress(container))
            case "POST", path if path == HOOK and self._of(container).saves:
                return self._hook(container)
            case _:
                return await super().page(container, call)

    def _progress(self, container: Container) -> Object:
        training, now = self._of(container), container.now
        step = training.step(now)
        body: Object = {"step": step, "loss": round(training.loss(step), 4), "saved_step": training.newest}
        if training.newest:
            body["checkpoint"] = training.path(training.newest)
        return body

    def _hook(self, container: Container) -> Answer:
        """It saves on in the background: whoever asked looks for the checkpoint itself."""
        step = self._trainings.ask(container.pod)
        if step is None:
            return _json(503, {"error": "no training: ranks are missing"})
        return _json(202, {"step": step})

    async def run(self, container: Container, command: tuple[str, ...], stdin: bytes) -> Ran:
        """`kill` for its process, which is the only one, and listens to one signal; the others do nothing to process 1."""
        if command[0].rpartition("/")[2] != "kill":
            return await super().run(container, command, stdin)
        *options, process = command[1:] or ("",)
        said = options[-1].removeprefix("-").removeprefix("SIG") if options else "TERM"
        number = next((n for name, n in SIGNALS.items() if said in {name, str(n)}), None)
        if number is None:
            return Ran(1, stderr=f"kill: unknown signal {said}\n".encode())
        if process != "1":
            return Ran(1, stderr=f"kill: sending signal to {process} failed: No such process\n".encode())
        if number == SIGNALS[SAVES_ON]:
            self._trainings.ask(container.pod)
        return Ran()

    def metrics(self, container: Container) -> str:
        training, now = self._of(container), container.now
        step, run = training.step(now), training.run
        shown = (
            ("training_step", "gauge", step),
            ("training_running", "gauge", int(run is not None)),
            ("training_loss", "gauge", round(training.loss(step), 4)),
            ("training_step_seconds", "gauge", run.step_s if run else 0),
            ("training_tokens_total", "counter", (step - run.base) * TOKENS_PER_STEP if run else 0),
            ("training_checkpoint_step", "gauge", training.newest),
            ("training_checkpoint_timestamp_seconds", "gauge", round(training.newest_at, 3)),
            ("training_checkpoint_in_progress", "gauge", int(training.save is not None)),
            ("training_resumed_step", "gauge", run.base if run else training.newest),
            ("training_lost_steps", "gauge", training.lost),
        )
        label = f'{{run="{training.name}"}}'
        return super().metrics(container) + "".join(f"# TYPE {n} {k}\n{n}{label} {v}\n" for n, k, v in shown)

    def log(self, container: Container) -> list[Line]:
        """What happened since the container started, and the latest steps."""
        training, run = self._of(container), self._of(container).run
        lines = [line for line in training.lines if line[0] >= container.started_at - 1]
        if run is None:
            return [(container.started_at, "waiting for the other ranks"), *lines]
        last = run.step(container.now)
        first = max(run.base + 1, last - LATEST_LINES * LOG_EVERY)
        speed = TOKENS_PER_STEP / run.step_s
        steps = range(-(-first // LOG_EVERY) * LOG_EVERY, last + 1, LOG_EVERY)
        lines += [(run.at(n), f"step {n} loss {training.loss(n):.4f} tokens/s {speed:.0f}") for n in steps]
        return sorted(lines)


def _json(status: int, body: Object) -> Answer:
    return Answer(status, json.dumps(body).encode(), "application/json")


def register(programs: Programs, trainings: Trainings) -> None:
    for image in IMAGES:
        programs.register(image, Trainer(trainings))
