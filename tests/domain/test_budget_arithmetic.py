"""The disruption controller's numbers (case T3), the eviction subresource's rules, and how a whole drain fares under budgets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import kube
from fleet.domain.budgets import (
    Allowance,
    Course,
    Permission,
    Scale,
    Standing,
    allowance,
    of,
    outlook,
    permission,
)
from tests.domain import cluster

NOW = cluster.EPOCH_AT
WEB = Scale("web", 0)


def pod(name: str, *, is_ready: bool = True, terminating: bool = False, phase: str = "Running") -> kube.Pod:
    conditions = [{"type": "Ready", "status": str(is_ready and phase == "Running")}]
    more: dict[str, Any] = {"deletionTimestamp": "2026-12-01T19:00:30Z"} if terminating else {}
    found = cluster.decoded(cluster.pod(name, phase=phase, status={"conditions": conditions}, uid=name, **more))
    assert isinstance(found, kube.Pod)
    return found


def budget(name: str = "web", *, status: dict[str, Any] | None = None, **spec: Any) -> kube.Budget:
    made = cluster.budget(name, {"matchLabels": {"app": "web"}})
    made["spec"] |= spec
    made["status"] = status or {}
    found = cluster.decoded(made)
    assert isinstance(found, kube.Budget)
    return found


def pods(ready: int, unready: int = 0, terminating: int = 0) -> list[kube.Pod]:
    return [
        *(pod(f"r{n}") for n in range(ready)),
        *(pod(f"u{n}", is_ready=False) for n in range(unready)),
        *(pod(f"t{n}", terminating=True) for n in range(terminating)),
    ]


def counted(found: list[kube.Pod], replicas: int | None) -> list[tuple[kube.Pod, Scale | None]]:
    return [(one, None if replicas is None else Scale("web", replicas)) for one in found]


@pytest.mark.parametrize(
    ("spec", "found", "replicas", "desired", "allowed", "standing"),
    [
        pytest.param({"minAvailable": "50%"}, pods(5, 1), 6, 3, 2, Standing.OK, id="a"),
        pytest.param({"minAvailable": "50%"}, pods(7), 7, 4, 3, Standing.OK, id="b"),
        pytest.param({"maxUnavailable": "25%"}, pods(10), 10, 7, 3, Standing.OK, id="c"),
        pytest.param({"minAvailable": "50%"}, pods(1), 1, 1, 0, Standing.NEVER, id="d"),
        pytest.param({"maxUnavailable": "1%"}, pods(1), 1, 0, 1, Standing.OK, id="e"),
        pytest.param({"minAvailable": 3}, pods(3), 3, 3, 0, Standing.NEVER, id="f"),
        pytest.param({"maxUnavailable": 1}, pods(3, 0, 1), 4, 3, 0, Standing.WAIT, id="g"),
        pytest.param({"minAvailable": 1}, pods(2), None, 1, 1, Standing.OK, id="h"),
        pytest.param({"maxUnavailable": 1}, pods(2), None, 0, 0, Standing.NEVER, id="i"),
        pytest.param({"maxUnavailable": 1}, pods(0, 1), 1, 0, 0, Standing.UNREADY, id="j, unready"),
        pytest.param({"maxUnavailable": 1}, pods(1), 1, 0, 1, Standing.OK, id="j, ready"),
        pytest.param({"minAvailable": 2}, pods(2, 1), 3, 2, 0, Standing.WAIT, id="k"),
        pytest.param({"minAvailable": "80%"}, pods(4), 4, 4, 0, Standing.NEVER, id="80 % of 4"),
        pytest.param({"minAvailable": "75%"}, pods(4), 4, 3, 1, Standing.OK, id="75 % of 4"),
        pytest.param({"minAvailable": "51%"}, pods(1), 1, 1, 0, Standing.NEVER, id="51 % of 1"),
        pytest.param({"maxUnavailable": "10%"}, pods(3), 3, 2, 1, Standing.OK, id="10 % of 3"),
        pytest.param({"minAvailable": "50%"}, pods(7), 7, 4, 3, Standing.OK, id="50 % of 7"),
        pytest.param({"maxUnavailable": "34%"}, pods(3), 3, 1, 2, Standing.OK, id="34 % of 3, recorded"),
    ],
)
def test_the_table_of_budgets(
    spec: dict[str, Any],
    found: list[kube.Pod],
    replicas: int | None,
    desired: int,
    allowed: int,
    standing: Standing,
) -> None:
    got = allowance(budget(**spec), counted(found, replicas), NOW)
    assert (got.desired, got.allowed, got.standing) == (desired, allowed, standing)


def test_a_controller_without_a_scale_makes_the_budget_useless() -> None:
    got = allowance(budget(maxUnavailable=1), [(pod("a"), Scale("job", None))], NOW)
    assert (got.allowed, got.standing) == (0, Standing.NEVER)


TOLD = {"observedGeneration": 1, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3, "disruptionsAllowed": 1}
FAILED = [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]


@pytest.mark.parametrize(
    ("status", "standing"),
    [
        pytest.param(TOLD, Standing.OK, id="the server has counted"),
        pytest.param({**TOLD, "disruptionsAllowed": 0}, Standing.WAIT, id="and allows none now"),
        pytest.param({**TOLD, "desiredHealthy": 3, "disruptionsAllowed": 0}, Standing.NEVER, id="and never allows one"),
        pytest.param({}, Standing.UNKNOWN, id="it has not counted"),
        pytest.param({**TOLD, "conditions": FAILED}, Standing.UNKNOWN, id="it could not count"),
    ],
)
def test_of_a_controller_that_we_do_not_read_the_servers_count_is_taken(
    status: dict[str, Any], standing: Standing
) -> None:
    """An Argo Rollout, say: that we know no scale of it does not mean that it has none."""
    canary = [(one, Scale("Rollout/lab/canary", None, known=False)) for one in pods(3)]
    got = allowance(budget(maxUnavailable=1, status=status), canary, NOW)
    assert got.standing is standing
    assert got.allowed == (1 if standing is Standing.OK else 0)
    assert allowance(budget(minAvailable=2, status=status), canary, NOW).standing is Standing.OK


def test_an_evicted_pod_counts_as_gone_for_two_minutes() -> None:
    status = {"disruptedPods": {"r0": cluster.EPOCH}}
    found = counted(pods(3), 3)
    assert allowance(budget(minAvailable=2, status=status), found, NOW + 119).healthy == 2
    assert allowance(budget(minAvailable=2, status=status), found, NOW + 121).healthy == 3


@given(st.integers(0, 10_000), st.integers(0, 10**15))
def test_percentages_round_up_in_whole_numbers(percent: int, whole: int) -> None:
    found = of(f"{percent}%", whole)
    assert found * 100 >= percent * whole > (found - 1) * 100 or found == percent * whole == 0


@pytest.mark.parametrize("text", ["5", "2.5%", "", "%", "-1%", "x%"])
def test_other_text_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        of(text, 4)


OBSERVED = {"observedGeneration": 1}


@pytest.mark.parametrize(
    ("one", "over", "left", "says"),
    [
        pytest.param(pod("a"), [], 0, Permission.FREE, id="no budget"),
        pytest.param(pod("a", phase="Pending"), [budget(minAvailable=3)], 0, Permission.FREE, id="l: Pending"),
        pytest.param(pod("a", phase="Failed"), [budget(minAvailable=3)], 0, Permission.FREE, id="finished"),
        pytest.param(pod("a", terminating=True), [budget(minAvailable=3)], 0, Permission.FREE, id="terminating"),
        pytest.param(pod("a"), [budget(minAvailable=1)], 1, Permission.ALLOWED, id="allowed"),
        pytest.param(pod("a"), [budget(minAvailable=1)], 0, Permission.BUDGET, id="held"),
        pytest.param(pod("a"), [budget("x"), budget("y")], 9, Permission.TWO_BUDGETS, id="two budgets"),
        pytest.param(
            pod("a", is_ready=False),
            [budget(minAvailable=2, status={"currentHealthy": 2, "desiredHealthy": 2})],
            0,
            Permission.FREE,
            id="k: the unready pod of a healthy budget",
        ),
        pytest.param(
            pod("a", is_ready=False),
            [budget(minAvailable=2, status={"currentHealthy": 1, "desiredHealthy": 2})],
            0,
            Permission.BUDGET,
            id="the unready pod of a budget that lacks some",
        ),
        pytest.param(
            pod("a", is_ready=False), [budget(maxUnavailable=1)], 0, Permission.BUDGET, id="j: desired 0 is no shortcut"
        ),
        pytest.param(
            pod("a", is_ready=False),
            [budget(maxUnavailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")],
            0,
            Permission.FREE,
            id="j: always allowed",
        ),
    ],
)
def test_what_the_eviction_subresource_would_say(
    one: kube.Pod, over: list[kube.Budget], left: int, says: Permission
) -> None:
    assert permission(one, over, {found.metadata.name: left for found in over}) is says


def test_a_budget_whose_newest_version_is_not_observed() -> None:
    made = cluster.budget("web", {}, generation=2)
    made["status"] = OBSERVED
    found = cluster.decoded(made)
    assert isinstance(found, kube.Budget)
    assert permission(pod("a"), [found], {"web": 5}) is Permission.UNOBSERVED


def test_a_budget_that_cannot_be_counted_is_not_waited_for() -> None:
    """Its controller never observes it (SyncFailed), and the server says for ever that it is still being processed."""
    made = cluster.budget("web", {"matchLabels": {"app": "web"}}, generation=1)
    found = cluster.decoded({**made, "status": {"conditions": FAILED}})
    assert isinstance(found, kube.Budget)
    one = pod("a")

    def course(standing: Standing) -> Course:
        return outlook([one], {one.metadata.uid: [found]}, {found.key: Allowance(0, 1, 0, 0, standing)}, ["a"]).course

    assert course(Standing.NEVER) is Course.NEVER  # a Job under maxUnavailable
    assert course(Standing.UNKNOWN) is Course.UNKNOWN
    assert course(Standing.WAIT) is Course.WAITS


# --- A whole drain -------------------------------------------------------------------------------------------------------------
HOUSE = budget(minAvailable=2)


def drain(count: int, found: Allowance, returning: int) -> tuple[Course, list[Course]]:
    going = [pod(f"p{n}") for n in range(count)]
    over = {one.metadata.uid: [HOUSE] for one in going}
    got = outlook(going, over, {HOUSE.key: found}, {one.metadata.uid for one in going[:returning]})
    return got.course, [hold.course for hold in got.holds]


def test_the_sum_counts_not_each_pod_alone() -> None:
    one_spare = Allowance(3, 3, 2, 1, Standing.OK)
    assert drain(1, one_spare, 1) == (Course.FINISHES, [])
    assert drain(2, one_spare, 2) == (Course.WAITS, [Course.WAITS])
    assert drain(3, one_spare, 3) == (Course.WAITS, [Course.WAITS, Course.WAITS])


def test_a_drain_whose_pods_nothing_replaces_never_finishes() -> None:
    assert drain(2, Allowance(3, 3, 2, 1, Standing.OK), 0) == (Course.NEVER, [Course.NEVER])
    assert drain(2, Allowance(4, 4, 2, 2, Standing.OK), 0) == (Course.FINISHES, [])


def test_a_budget_that_spares_none_never_finishes() -> None:
    assert drain(1, Allowance(3, 3, 3, 0, Standing.NEVER), 1)[0] is Course.NEVER


def test_a_hold_says_how_many_have_to_come_back_first() -> None:
    going = [pod(f"p{n}") for n in range(3)]
    found = Allowance(3, 3, 2, 1, Standing.OK)
    got = outlook(going, {one.metadata.uid: [HOUSE] for one in going}, {HOUSE.key: found}, {"p0", "p1", "p2"})
    assert [(hold.uid, hold.behind) for hold in got.holds] == [("p1", 1), ("p2", 2)]
    assert got.holds[0].budgets == ("web",)
