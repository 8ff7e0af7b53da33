"""Rollouts that need a person: which are told, once, with which reason and which way out."""

from typing import Any

import pytest

from fleet.domain.picture import AttentionRow
from tests.domain.cluster import EPOCH_AT, controller, node, owned_by, pod
from tests.domain.test_holdups import (
    CRASHED,
    KEY,
    OLD,
    ONE_MISSING,
    RUNS,
    SURGE_ONE,
    container,
    deployment,
    member,
    refusal,
    shown,
    waiting_for_gpus,
    waits,
)

CRASH = container(waits("CrashLoopBackOff"), restartCount=4, lastState=CRASHED)
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def told(*objects: dict[str, Any], main: dict[str, Any] | None = None) -> list[AttentionRow]:
    return list(shown(*objects, main=main).attention.values())


@pytest.mark.parametrize(
    ("objects", "main", "facts"),
    [
        pytest.param(
            (member("new-1", status=CRASH),),
            deployment(),
            {"causes": "crash", "container": "main", "restarts": 4, "code": 137, "reason": "OOMKilled"}
            | {"remedy": "read-log", "place": "new-1"},
            id="crash, without a container's own words",
        ),
        pytest.param(
            (member("new-1", status=container(waits("ErrImagePull", "manifest\n unknown"))),),
            deployment(STUCK),
            {"causes": "image", "late": 1, "said": "manifest unknown", "remedy": "fix-image", "place": "new-1"},
            id="image, past its deadline",
        ),
        pytest.param(
            (), deployment(refusal("exceeded quota")), {"causes": "quota", "remedy": "raise-quota"}, id="quota"
        ),
        pytest.param((), deployment(STUCK), {"causes": "", "late": 1, "available": 2}, id="past its deadline alone"),
        pytest.param(
            (waiting_for_gpus(),),
            deployment(**SURGE_ONE),
            {"causes": "deadlock", "gpus": 2, "hole": 6, "count": 1, "remedy": "allow-missing"},
            id="deadlock",
        ),
        pytest.param(
            (waiting_for_gpus(), node("n3", cordoned=True)),
            deployment(**SURGE_ONE),
            {"causes": "deadlock", "remedy": "uncordon", "place": "n3"},
            id="a cordoned node has the room",
        ),
        pytest.param(
            (waiting_for_gpus(), node("n3", gpus=1, cordoned=True), node("n4", cordoned=True, ready="Unknown")),
            deployment(**SURGE_ONE),
            {"remedy": "allow-missing"},
            id="cordoned nodes that do not have it",
        ),
        pytest.param(
            (waiting_for_gpus(message="0/3 nodes: volume node affinity conflict"),),
            deployment(),
            {"causes": "unplaceable", "said": "0/3 nodes: volume node affinity conflict", "remedy": "change-placing"},
            id="no node fits",
        ),
    ],
)
def test_a_rollout_that_is_held_up_is_told_once(
    objects: tuple[dict[str, Any], ...], main: dict[str, Any], facts: dict[str, Any]
) -> None:
    found = [row for row in told(*OLD, *objects, main=main) if not row.node]
    (row,) = found
    assert (row.kind, row.level, row.subject) == ("rollout-held", "bad", KEY)
    assert dict(row.facts).items() >= ({"old": 2, "desired": 2, "late": 0} | facts).items()
    assert row.since_at == (EPOCH_AT if dict(row.facts)["causes"] else None)
    assert "CUDA" not in str(row.facts)


def test_what_moves_or_is_wanted_so_needs_nobody() -> None:
    assert [row.kind for row in told(*OLD, waiting_for_gpus(), main=deployment(**ONE_MISSING))] == ["pods-waiting"]
    assert told(*OLD, member("new-1", status=container(RUNS))) == []
    assert told(*OLD, main=deployment(paused=True)) == []


def test_pods_of_one_version_are_told_by_what_they_wait_for() -> None:
    assert [row.kind for row in told(waiting_for_gpus(), main=deployment(available=1))] == ["pods-waiting"]
    crashed = told(waiting_for_gpus(), member("new-2", status=CRASH), main=deployment(available=0))
    assert [(row.kind, row.level, dict(row.facts)["causes"]) for row in crashed] == [("pods-held-up", "warn", "crash")]


def test_pods_without_gpus_are_less_urgent() -> None:
    web = controller("DaemonSet", "web", gpus=0, status={"desiredNumberScheduled": 1, "updatedNumberScheduled": 1})
    one = pod("web-1", gpus=0, ownerReferences=owned_by("DaemonSet", "web"), status=CRASH)
    (row,) = told(*OLD, web, one, main=deployment(STUCK))[1:]
    assert (row.kind, row.level, row.subject) == ("pods-held-up", "warn", "DaemonSet/lab/web")
