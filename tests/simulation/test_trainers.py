"""A trainer's steps, checkpoints and restarts, as its log, its metrics and its progress tell of them."""

import json
from typing import Any

from fleet.simulation.programs import Call, Container
from fleet.simulation.trainers import SAVE_TAKES_S, Trainer

Object = dict[str, Any]

BEGAN = 1_790_000_000.0


def container(at_s: float, started_s: float = 0.0) -> Container:
    notes = {"sim/step-seconds": "2", "sim/save-steps": "50"}
    pod = {"metadata": {"name": "moe-0", "namespace": "training", "annotations": notes}, "status": {}}
    return Container(pod, {"name": "main", "ports": [{"containerPort": 8000}]}, BEGAN + started_s, BEGAN + at_s)


async def progress(trainer: Trainer, of: Container) -> Object:
    answer = await trainer.http(of, 8000, Call("GET", "/progress"))
    assert answer is not None
    found: Object = json.loads(answer.body)
    return found


async def test_it_steps_and_saves() -> None:
    trainer = Trainer()
    early = await progress(trainer, container(20.0))
    assert (early["step"], early["saved_step"]) == (10, 0)
    assert "checkpoint" not in early
    writing = await progress(trainer, container(100.0 + SAVE_TAKES_S - 1))
    assert writing["saved_step"] == 0, "a checkpoint that is being written is none"
    later = await progress(trainer, container(250.0))
    assert (later["step"], later["saved_step"], later["checkpoint"]) == (125, 100, "/checkpoints/moe-0/step_00000100")
    assert later["loss"] < early["loss"]


async def test_a_restart_goes_on_from_the_last_checkpoint() -> None:
    trainer = Trainer()
    await progress(trainer, container(250.0))
    again = await progress(trainer, container(310.0, started_s=300.0))
    assert (again["step"], again["saved_step"]) == (100 + 5, 100)
    assert (
        trainer.log(container(310.0, started_s=300.0))[0][1] == "moe-0: resuming from /checkpoints/moe-0/step_00000100"
    )


def test_its_log_tells_of_steps_and_checkpoints_and_does_not_grow_without_bound() -> None:
    trainer = Trainer()
    lines = trainer.log(container(125.0))
    told = [text for _, text in lines]
    assert told[0] == "moe-0: starting from scratch"
    assert told[-1].startswith("step 60 loss ")
    assert "saved checkpoint /checkpoints/moe-0/step_00000050 in 18.0 s" in told
    assert lines == sorted(lines)
    assert len(trainer.log(container(1_000_000.0))) < 300


async def test_its_metrics_are_those_of_its_progress() -> None:
    trainer = Trainer()
    answer = await trainer.http(container(250.0), 8000, Call("GET", "/metrics"))
    assert answer is not None
    text = answer.body.decode()
    assert 'trainer_step{run="moe-0"} 125\n' in text
    assert 'trainer_checkpoint_step{run="moe-0"} 100\n' in text
    assert f'trainer_checkpoint_timestamp_seconds{{run="moe-0"}} {BEGAN + 200 + SAVE_TAKES_S}\n' in text
    assert "# TYPE trainer_tokens_total counter\n" in text
