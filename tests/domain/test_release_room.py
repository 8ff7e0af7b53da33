"""The strategies that a plan for a new version shows, on facts that were read afresh."""

from typing import Any

import msgspec
import pytest

from fleet.domain import actions
from fleet.domain.plans import Outcome, Plan
from fleet.domain.specs import Claim
from fleet.domain.strategy import Doubt, Kind
from tests.domain.drains import node
from tests.domain.releases import CHAT, deployment, safe, workload

SURGE_ONE: dict[str, Any] = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}


def nodes(*gpus: int) -> tuple[Any, ...]:
    return tuple(node(f"node-{n}", gpus=count) for n, count in enumerate(gpus, 1))


def plan(kind: str, **more: Any) -> Plan:
    return actions.plan(safe(kind, **more), "because")


@pytest.mark.parametrize("kind", ["restart", "undo", "set-image"])
@pytest.mark.parametrize(
    ("free", "best", "present"),
    [
        pytest.param((8, 8), Kind.BLUE_GREEN, True, id="room for a whole copy"),
        pytest.param((4, 3), Kind.SURGE_ONE, True, id="for one more"),
        pytest.param((3, 3), Kind.REPLACE_ONE, False, id="for none"),
    ],
)
def test_a_plan_ranks_the_strategies(kind: str, free: tuple[int, ...], best: Kind, present: bool) -> None:
    """Three pods on each node, of three workloads."""
    found = plan(kind, nodes=nodes(*free)).advice
    assert found is not None
    assert (found.best, found.wanted, found.gpus) == (best, 2, 1)
    set_to = found.present
    assert set_to is not None
    assert (set_to.surge, set_to.unavailable, set_to.finishes) == (1, 0, present)
    copy = found.strategies[0]
    assert (copy.kind, copy.peak_gpus, copy.lowest) == (Kind.BLUE_GREEN, 4, 2)
    assert set_to.peak_gpus_held == min(4, 2 + sum(free) - 6), "pods that stop hold GPUs as far as there are any"


@pytest.mark.parametrize("kind", ["scale", "pause", "switch", "create-green"])
def test_what_brings_no_new_version_has_no_strategies(kind: str) -> None:
    assert plan(kind).advice is None


def test_a_volume_that_old_pods_keep_is_told_before() -> None:
    raw = deployment("chat", {"app": "chat"}, **SURGE_ONE)
    raw["spec"]["template"]["spec"]["volumes"] = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    claim = msgspec.convert({"metadata": {"name": "cache"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}, Claim)
    made = plan("restart", workload=workload(CHAT, raw), claims={"lab/cache": claim})
    assert made.advice is not None
    assert made.advice.present is not None
    assert Doubt.VOLUME in made.advice.present.doubts
    assert [(one.guard, one.reason) for one in made.checks if one.outcome is Outcome.WARN and one.guard == "room"] == [
        ("room", "volume")
    ]
