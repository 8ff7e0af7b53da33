"""Recorded exchanges of a real API server replay equal: see replay.py for how, replay.toml for what."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from tests.simulation.recorded import RECORDINGS
from tests.simulation.replay import Plan, Replay

PLANS_FILE = Path(__file__).parents[1] / "data" / "replay.toml"


def plans() -> list[Plan]:
    tables = tomllib.loads(PLANS_FILE.read_text())
    tables.pop("lived")  # test_replay_lived.py
    return [msgspec.convert({"name": name, **table}, Plan, strict=False) for name, table in tables.items()]


PLANS = plans()


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.name)
async def test_a_recording_replays_equal(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    replay = Replay(plan)
    outcome = await replay.run()
    exchanges = [e for e in replay.exchanges if e["request"]["method"] not in {"CLI", "NOTE"}]
    with capsys.disabled():
        print(f"\n{plan.name}: replayed {outcome.replayed} / left out {outcome.left_out}")
    assert not outcome.differences, "\n".join(outcome.differences)
    assert outcome.replayed + outcome.left_out == len(exchanges)


def test_every_recording_has_a_plan_and_every_omission_a_reason() -> None:
    assert {p.name for p in PLANS} == {f.stem for f in RECORDINGS.glob("*.json")}
    for plan in PLANS:
        assert all(len(reason) > 10 for reason in plan.left_out.values())
