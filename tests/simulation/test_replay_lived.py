"""Recordings of minutes of a real cluster's life replay equal on a cluster that lives by its own machinery, in seconds.

See lived.py for how, the second part of replay.toml for what and by which rules.
"""

import tomllib
from pathlib import Path

import msgspec
import pytest

from tests.simulation.lived import Lived, LivedPlan
from tests.simulation.packed_recordings import FOLDER

PLANS_FILE = Path(__file__).parents[1] / "data" / "replay.toml"


def plans() -> list[LivedPlan]:
    tables = tomllib.loads(PLANS_FILE.read_text())["lived"]
    return [msgspec.convert({"name": name, **table}, LivedPlan, strict=False) for name, table in tables.items()]


PLANS = plans()


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.name)
async def test_a_recording_is_lived_through_equally(plan: LivedPlan, capsys: pytest.CaptureFixture[str]) -> None:
    lived = Lived(plan)
    await lived.run()
    exchanges = [e for e in lived.exchanges if e["request"]["method"] != "CLI"]
    with capsys.disabled():
        print(f"\n{plan.name}: replayed {lived.replayed} / left out {lived.left_out}")
    assert not lived.differences, "\n".join(lived.differences)
    assert lived.replayed + lived.left_out == len(exchanges)


def test_every_long_recording_has_a_plan_and_every_omission_a_reason() -> None:
    assert {p.name for p in PLANS} == {f.stem for f in FOLDER.glob("*.json")}
    for plan in PLANS:
        assert all(len(reason) > 10 for reason in plan.left_out.values())
