"""What a trainer does: steps, a loss that falls, a checkpoint every so many steps, and a start from the last one after a restart.

Progress follows from how long a container has run, so nothing has to happen for it. Files come with the checkpoint work. Must
not touch the store.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from fleet.simulation.programs import Answer, Call, Container, Line, PlainProgram, Programs

Object = dict[str, Any]

IMAGES = ("trainer", "rl-trainer")
# Annotations of the pod, and what holds without them.
STEP_SECONDS, SAVE_EVERY = "sim/step-seconds", "sim/save-steps"
STEP_S, SAVE_STEPS = 4.2, 250
SAVE_TAKES_S = 18.0
TOKENS_PER_STEP = 524_288
LOG_EVERY = 10
LATEST_LINES = 200
FOLDER = "/checkpoints"


@dataclass(frozen=True)
class Run:
    """One container's part of a training: it goes on from `base`."""

    name: str
    started_at: float
    base: int
    step_s: float
    save_steps: int

    def step(self, at: float) -> int:
        return self.base + max(0, int((at - self.started_at) / self.step_s))

    def at(self, step: int) -> float:
        """When a step was done."""
        return self.started_at + (step - self.base) * self.step_s

    def saved(self, at: float) -> int:
        """The step of the last checkpoint that was whole at `at`; 0 when there is none."""
        last = self.step(at - SAVE_TAKES_S) // self.save_steps * self.save_steps
        return max(last, self.base)

    def loss(self, step: int) -> float:
        noise = hashlib.sha256(f"{self.name}/{step}".encode()).digest()[0] / 255 - 0.5
        return float(1.6 + 9.0 * (step + 20) ** -0.35 + 0.04 * noise)

    def path(self, step: int) -> str:
        return f"{FOLDER}/{self.name}/step_{step:08d}"


class Trainer(PlainProgram):
    """Remembers where each pod's last container began, to go on from its last checkpoint in the next one."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def run_of(self, container: Container) -> Run:
        metadata = container.pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        known = self._runs.get(key)
        if known is not None and known.started_at == container.started_at:
            return known
        base = known.saved(container.started_at) if known is not None else 0
        notes = metadata.get("annotations") or {}
        step_s, save_steps = float(notes.get(STEP_SECONDS, STEP_S)), int(notes.get(SAVE_EVERY, SAVE_STEPS))
        made = Run(metadata["name"], container.started_at, base, step_s, save_steps)
        self._runs[key] = made
        return made

    async def page(self, container: Container, call: Call) -> Answer:
        if (call.method, call.path) != ("GET", "/progress"):
            return await super().page(container, call)
        run, now = self.run_of(container), container.now
        saved = run.saved(now)
        body: Object = {"step": run.step(now), "loss": round(run.loss(run.step(now)), 4), "saved_step": saved}
        if saved:
            body["checkpoint"] = run.path(saved)
        return Answer(200, json.dumps(body).encode(), "application/json")

    def metrics(self, container: Container) -> str:
        run, now = self.run_of(container), container.now
        step, saved = run.step(now), run.saved(now)
        shown = (
            ("trainer_step", "gauge", step),
            ("trainer_loss", "gauge", round(run.loss(step), 4)),
            ("trainer_step_seconds", "gauge", run.step_s),
            ("trainer_tokens_total", "counter", (step - run.base) * TOKENS_PER_STEP),
            ("trainer_checkpoint_step", "gauge", saved),
            (
                "trainer_checkpoint_timestamp_seconds",
                "gauge",
                round(run.at(saved) + SAVE_TAKES_S, 3) if saved > run.base else 0,
            ),
        )
        label = f'{{run="{run.name}"}}'
        return super().metrics(container) + "".join(f"# TYPE {n} {k}\n{n}{label} {v}\n" for n, k, v in shown)

    def log(self, container: Container) -> list[Line]:
        """The start, then the latest steps and checkpoints."""
        run, now = self.run_of(container), container.now
        begin = f"resuming from {run.path(run.base)}" if run.base else "starting from scratch"
        lines: list[Line] = [(run.started_at, f"{run.name}: {begin}")]
        last = run.step(now)
        first = max(run.base + 1, last - LATEST_LINES * LOG_EVERY)
        for step in range(-(-first // LOG_EVERY) * LOG_EVERY, last + 1, LOG_EVERY):
            speed = TOKENS_PER_STEP / run.step_s
            lines.append((run.at(step), f"step {step} loss {run.loss(step):.4f} tokens/s {speed:.0f}"))
            if step % run.save_steps == 0 and run.at(step) + SAVE_TAKES_S <= now:
                lines.append(
                    (run.at(step) + SAVE_TAKES_S, f"saved checkpoint {run.path(step)} in {SAVE_TAKES_S:.1f} s")
                )
        return sorted(lines)


def register(programs: Programs) -> None:
    for image in IMAGES:
        programs.register(image, Trainer())
