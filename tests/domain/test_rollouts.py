"""Bounds and completion: cases T6, T7 and T10 of Kubernetes, T8 of restart lint, and an oracle that was written independently."""

from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.objects import Object
from fleet.domain.rollouts import (
    Amount,
    Bounds,
    Progress,
    Step,
    Verdict,
    bounds,
    bounds_of,
    daemon_bounds,
    deadline_at,
    progress,
    stateful_bounds,
)
from tests.domain.cluster import EPOCH, EPOCH_AT, controller, decoded

EXCEEDED = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
MOVING = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": EPOCH}
DONE = Verdict.DONE


# --- Bounds -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "wanted", "gpus", "peak_gpus"),
    [
        (10, "25%", "25%", Bounds(3, 2, 13, 8), 4, 52),
        (1, "25%", "25%", Bounds(1, 0, 2, 1), 8, 16),
        (3, "0%", "30%", Bounds(0, 1, 3, 2), 2, 6),
        (7, "25%", "25%", Bounds(2, 1, 9, 6), 2, 18),
        (4, "25%", "25%", Bounds(1, 1, 5, 3), 8, 40),
        (2, "50%", "50%", Bounds(1, 1, 3, 1), 4, 12),
        (5, 0, "10%", Bounds(0, 1, 5, 4), 1, 5),
        (8, "100%", 0, Bounds(8, 0, 16, 8), 1, 16),
        (100, "7%", "29%", Bounds(7, 29, 107, 71), 1, 107),
        (25, "28%", 0, Bounds(7, 0, 32, 25), 1, 32),
        (3, "25%", "25%", Bounds(1, 0, 4, 3), 1, 4),
        (7, "30%", "30%", Bounds(3, 2, 10, 5), 1, 10),
        (3, 0, "25%", Bounds(0, 1, 3, 2), 1, 3),
        (2, 0, "1%", Bounds(0, 1, 2, 1), 1, 2),
        (4, "150%", 0, Bounds(6, 0, 10, 4), 1, 10),
        (2, 0, 5, Bounds(0, 2, 2, 0), 1, 2),
        (0, "25%", "25%", Bounds(0, 0, 0, 0), 1, 0),
    ],
)
def test_bounds_of_deployments(
    replicas: int, surge: Amount, unavailable: Amount, wanted: Bounds, gpus: int, peak_gpus: int
) -> None:
    assert bounds(replicas, surge, unavailable) == wanted
    assert wanted.max_pods * gpus == peak_gpus


@pytest.mark.parametrize(
    ("surge", "unavailable"),
    [
        ("5", 1),
        (1, "5"),
        ("2.5%", 1),
        (0, 0),
        ("0%", 0),
        ("0%", "0%"),
        (1, "101%"),
        (-1, 1),
        ("-1%", 1),
        ("%", 1),
        ("²%", 1),
    ],
)
def test_what_the_api_server_refuses_has_no_bounds(surge: Amount, unavailable: Amount) -> None:
    with pytest.raises(ValueError, match=r"count|navailable"):
        bounds(5, surge, unavailable)


def test_bounds_of_other_kinds() -> None:
    assert [stateful_bounds(5, amount).unavailable for amount in ("25%", "10%", 1, 2)] == [1, 1, 1, 2]
    assert [daemon_bounds(8, 0, amount).unavailable for amount in ("10%", "30%")] == [1, 3]
    assert daemon_bounds(8, "10%", 0) == Bounds(1, 0, 9, 8)
    for surge, unavailable in ((1, 1), (0, 0)):
        with pytest.raises(ValueError, match="exactly one"):
            daemon_bounds(8, surge, unavailable)


AMOUNTS = st.one_of(st.integers(0, 10**30), st.integers(0, 10**30).map("{}%".format))


def oracle(amount: Amount, replicas: int, rounded: Any) -> int:
    """By exact fractions, where the product divides whole numbers."""
    if isinstance(amount, int):
        return amount
    return int(rounded(Fraction(int(amount[:-1]), 100) * replicas))


@given(st.integers(0, 10**30), AMOUNTS, AMOUNTS)
def test_bounds_against_exact_fractions(replicas: int, surge: Amount, unavailable: Amount) -> None:
    zero = all(str(amount).removesuffix("%") == "0" for amount in (surge, unavailable))
    beyond = isinstance(unavailable, str) and int(unavailable[:-1]) > 100
    if zero or beyond:
        with pytest.raises(ValueError, match=r"maxUnavailable|unavailable"):
            bounds(replicas, surge, unavailable)
        return
    found = bounds(replicas, surge, unavailable)
    up, down = oracle(surge, replicas, ceil), oracle(unavailable, replicas, floor)
    assert found.surge == up
    assert found.unavailable == min(replicas, down or (0 if up else 1))
    assert (found.max_pods, found.min_available) == (replicas + up, replicas - found.unavailable)
    assert 0 <= found.min_available <= replicas <= found.max_pods
    assert replicas == 0 or found.surge + found.unavailable > 0, "an update can always begin"


# --- Completion ---------------------------------------------------------------------------------------------------------------
def deployment(
    wanted: int, seen: tuple[int, int], counts: tuple[int, int, int], *conditions: dict[str, str], **spec: Any
) -> Object:
    replicas, updated, available = counts
    status = {
        "observedGeneration": seen[1],
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": list(conditions),
    }
    return decoded(controller("Deployment", "llm", wanted, status=status, generation=seen[0], spec=spec))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(deployment(4, (5, 4), (4, 4, 4)), Progress(Verdict.NOT_OBSERVED), id="a"),
        pytest.param(deployment(4, (5, 5), (5, 4, 5)), Progress(Verdict.ROLLING, Step.OLD, 1, 0), id="b"),
        pytest.param(deployment(4, (5, 5), (4, 4, 3)), Progress(Verdict.ROLLING, Step.AVAILABLE, 3, 4), id="c"),
        pytest.param(deployment(4, (5, 5), (5, 2, 4), EXCEEDED), Progress(Verdict.FAILED, Step.UPDATED, 2, 4), id="d"),
        pytest.param(deployment(4, (6, 5), (5, 2, 4), EXCEEDED), Progress(Verdict.NOT_OBSERVED), id="e"),
        pytest.param(deployment(0, (2, 2), (0, 0, 0)), Progress(DONE), id="f"),
        pytest.param(deployment(4, (5, 5), (4, 4, 4)), Progress(DONE, have=4, want=4), id="g"),
        pytest.param(deployment(4, (5, 5), (3, 3, 3)), Progress(Verdict.ROLLING, Step.UPDATED, 3, 4), id="h"),
        pytest.param(
            deployment(4, (5, 5), (4, 1, 4), paused=True), Progress(Verdict.PAUSED, Step.UPDATED, 1, 4), id="j"
        ),
        pytest.param(
            deployment(4, (5, 5), (4, 4, 4), paused=True), Progress(DONE, have=4, want=4), id="paused, but done"
        ),
    ],
)
def test_completion_of_deployments(found: Object, wanted: Progress) -> None:
    assert progress(found) == wanted


def test_an_object_that_was_made_anew_is_no_success() -> None:
    found = deployment(4, (1, 1), (4, 4, 4))
    assert progress(None).verdict is Verdict.GONE
    assert progress(found, "uid-of-the-first").verdict is Verdict.GONE
    assert progress(found, found.metadata.uid).verdict is DONE


def stateful_set(
    replicas: int, updated: int, ready: int, strategy: dict[str, Any], *, observed: int = 1, revisions: str = "ab"
) -> Object:
    status = {
        "observedGeneration": observed,
        "replicas": ready,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "currentRevision": revisions[0],
        "updateRevision": revisions[1],
    }
    return decoded(
        controller("StatefulSet", "db", replicas, status=status, generation=1, spec={"updateStrategy": strategy})
    )


def rolling(partition: int | None = 0) -> dict[str, Any]:
    block = {} if partition is None else {"rollingUpdate": {"partition": partition}}
    return {"type": "RollingUpdate", **block}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (stateful_set(5, 2, 5, rolling(3)), Progress(DONE, have=2, want=2)),
        (stateful_set(5, 4, 5, rolling()), Progress(Verdict.ROLLING, Step.UPDATED, 4, 5)),
        (stateful_set(5, 5, 5, rolling()), Progress(DONE, have=5, want=5)),
        (stateful_set(5, 5, 4, rolling()), Progress(Verdict.ROLLING, Step.READY, 4, 5)),
        (stateful_set(5, 5, 5, rolling(), observed=0), Progress(Verdict.NOT_OBSERVED)),
        (stateful_set(3, 0, 3, rolling(5)), Progress(DONE, have=0, want=0)),
        (
            stateful_set(3, 1, 3, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
            Progress(DONE, have=1, want=3),
        ),
        (stateful_set(3, 3, 3, {"type": "OnDelete"}), Progress(Verdict.MANUAL, Step.UPDATED, 3, 3)),
        (stateful_set(3, 3, 3, rolling(None)), Progress(Verdict.ROLLING, Step.REVISION, 3, 3)),
        (stateful_set(3, 3, 3, rolling(None), revisions="bb"), Progress(DONE)),
    ],
)
def test_completion_of_stateful_sets(found: Object, wanted: Progress) -> None:
    assert progress(found) == wanted


def daemon_set(updated: int, available: int, kind: str = "RollingUpdate") -> Object:
    status = {
        "desiredNumberScheduled": 8,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "observedGeneration": 1,
    }
    return decoded(controller("DaemonSet", "d", status=status, generation=1, spec={"updateStrategy": {"type": kind}}))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (daemon_set(8, 7), Progress(Verdict.ROLLING, Step.AVAILABLE, 7, 8)),
        (daemon_set(7, 8), Progress(Verdict.ROLLING, Step.UPDATED, 7, 8)),
        (daemon_set(8, 8), Progress(DONE, have=8, want=8)),
        (daemon_set(8, 8, "OnDelete"), Progress(Verdict.MANUAL, Step.UPDATED, 8, 8)),
    ],
)
def test_completion_of_daemon_sets(found: Object, wanted: Progress) -> None:
    assert progress(found) == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (deployment(4, (5, 5), (5, 2, 4), MOVING, progressDeadlineSeconds=90), EPOCH_AT + 90),
        (deployment(4, (5, 5), (5, 2, 4), MOVING), EPOCH_AT + 600),
        (deployment(4, (5, 5), (5, 2, 4), MOVING, progressDeadlineSeconds=2**31 - 1), None),
        (deployment(4, (5, 5), (5, 2, 4), MOVING | {"reason": "NewReplicaSetAvailable"}), None),
        (deployment(4, (5, 5), (4, 1, 4), MOVING, paused=True), None),
        (deployment(4, (6, 5), (5, 2, 4), MOVING), None),
        (deployment(4, (5, 5), (5, 2, 4), EXCEEDED), None),
        (stateful_set(5, 4, 5, rolling()), None),
    ],
)
def test_a_deadline_runs_from_the_last_progress(found: Object, wanted: float | None) -> None:
    assert deadline_at(found) == wanted


@pytest.mark.parametrize(
    ("kind", "spec", "wanted"),
    [
        ("Deployment", {}, Bounds(1, 1, 5, 3)),
        ("Deployment", {"strategy": {"type": "Recreate"}}, Bounds(0, 4, 4, 0)),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, Bounds(0, 1, 4, 3)),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": "many"}}}, None),
        ("StatefulSet", {}, Bounds(0, 1, 4, 3)),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}, Bounds(0, 2, 4, 2)),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, None),
        ("DaemonSet", {}, Bounds(0, 1, 4, 3)),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}, Bounds(1, 0, 5, 4)),
    ],
)
def test_bounds_of_objects(kind: str, spec: dict[str, Any], wanted: Bounds | None) -> None:
    status = {"desiredNumberScheduled": 4} if kind == "DaemonSet" else {}
    assert bounds_of(decoded(controller(kind, "x", 4, spec=spec, status=status))) == wanted  # type: ignore[arg-type]
