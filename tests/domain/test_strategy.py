"""The advice before a rollout: case T9 of restart lint, the peaks that were measured on a real cluster, and what always holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.rollouts import Bounds, bounds
from fleet.domain.scheduling import Place
from fleet.domain.specs import FullPod, FullPodSpec, Toleration
from fleet.domain.strategy import Advice, Doubt, Ground, Kind, Strategy, Volume, advise, surveyed
from tests.domain import drains


def ground(replicas: int, gpus: int = 1, free: dict[str, int] | None = None, **more: Any) -> Ground:
    """All old pods run on node "home", unless said otherwise; it takes new ones when something is free there."""
    free = free if free is not None else {"home": 0}
    return Ground(
        **{"replicas": replicas, "gpus": gpus, "old_gpus": gpus, "free": free, "old": {"home": replicas}, **more}
    )


def of(found: Advice, kind: Kind) -> Strategy:
    return next(one for one in found.strategies if one.kind is kind)


def present(made: Ground) -> Strategy:
    return of(advise(made), Kind.PRESENT)


@pytest.mark.parametrize(
    ("made", "finishes", "lowest"),
    [
        pytest.param(ground(3, present=bounds(3)), False, 3, id="3 of 25 %: surge 1, unavailable 0, no hole"),
        pytest.param(ground(4, present=bounds(4)), True, 3, id="4 of 25 %: one may be missing"),
        pytest.param(
            ground(2, 2, {"a": 1, "b": 1}, old={"home": 2}, present=bounds(2)), False, 2, id="no node has two"
        ),
        pytest.param(ground(3, free={}, old={"home": 3}, present=bounds(3)), False, 3, id="free on a cordoned node"),
        pytest.param(ground(5, present=bounds(5, 0, 1)), True, 4, id="surge 0"),
        pytest.param(ground(1, free={"home": 1}, present=bounds(1), volume=Volume.ONE_POD), False, 1, id="RWOP"),
        pytest.param(ground(1, free={"a": 1}, present=bounds(1), volume=Volume.ONE_NODE), False, 1, id="RWO elsewhere"),
        pytest.param(ground(1, free={"home": 1}, present=bounds(1), volume=Volume.ONE_NODE), True, 1, id="RWO here"),
        pytest.param(ground(1, present=Bounds(0, 1, 1, 0), volume=Volume.ONE_POD), True, 0, id="Recreate"),
    ],
)
def test_which_updates_stall(made: Ground, finishes: bool, lowest: int) -> None:
    found = present(made)
    assert (found.finishes, found.lowest) == (finishes, lowest)
    assert (Doubt.OUTAGE in found.doubts) is (lowest == 0)
    assert (Doubt.LESS_CAPACITY in found.doubts) is (lowest < made.replicas)


@pytest.mark.parametrize(
    ("free", "best", "slots"),
    [
        ({"home": 0, "a": 4, "b": 2}, Kind.BLUE_GREEN, 3),
        ({"home": 0, "a": 3, "b": 1}, Kind.SURGE_ONE, 1),
        ({"home": 0, "a": 1, "b": 1}, Kind.REPLACE_ONE, 0),
        ({"a": 1}, None, 0),
    ],
)
def test_the_ladder_of_strategies(free: dict[str, int], best: Kind | None, slots: int) -> None:
    found = advise(ground(3, 2, free, old={"home": 3}))
    assert (found.best, found.slots) == (best, slots)
    assert [one.kind for one in found.strategies] == [Kind.BLUE_GREEN, Kind.SURGE_ONE, Kind.REPLACE_ONE]


def test_the_numbers_of_each_strategy() -> None:
    found = advise(ground(4, 2, {"home": 0, "a": 2}, load_s=60.0, stop_s=30.0))
    numbers = {one.kind: (one.peak_gpus, one.peak_gpus_held, one.lowest, one.more_gpus) for one in found.strategies}
    assert numbers == {
        Kind.BLUE_GREEN: (16, 16, 4, 6),
        Kind.SURGE_ONE: (10, 10, 4, 0),
        Kind.REPLACE_ONE: (8, 10, 3, 0),
    }
    assert of(found, Kind.BLUE_GREEN).doubts == (Doubt.NO_ROOM,)
    assert of(found, Kind.REPLACE_ONE).doubts == (Doubt.LESS_CAPACITY, Doubt.STOPPING)


@pytest.mark.parametrize(
    ("limits", "load_s", "stop_s", "held"),
    [
        pytest.param(bounds(10), 2.5, 1.0, 18, id="25 %/25 %, stop 1 s: 18 were measured"),
        pytest.param(bounds(10), 4.5, 15.0, 20, id="25 %/25 %, stop 15 s: 20 were measured"),
        pytest.param(bounds(10, 0, 1), 2.5, 1.0, 11, id="0/1: 11 were measured"),
        pytest.param(bounds(10, 1, 0), 2.5, 1.0, 12, id="1/0: 12 were measured"),
        pytest.param(bounds(10, 0, 1), None, 1.0, 20, id="unknown load time: the cautious bound"),
    ],
)
def test_peaks_with_pods_that_stop_are_those_measured(
    limits: Bounds, load_s: float | None, stop_s: float, held: int
) -> None:
    found = present(ground(10, free={"home": 0, "a": 64}, present=limits, load_s=load_s, stop_s=stop_s))
    assert (found.peak_gpus, found.peak_gpus_held) == (limits.max_pods, held)


def test_a_larger_version_needs_old_pods_that_share_a_node() -> None:
    """The mock's story: 2 GPUs instead of 1; what leaves frees 1 each, and only two on one node make a hole."""
    spread = ground(3, 2, {"a": 0, "b": 0, "c": 0}, old_gpus=1, old={"a": 1, "b": 1, "c": 1}, present=bounds(3, 0, 1))
    assert not present(spread).finishes
    roomy = ground(2, 2, {"a": 2, "b": 1}, old_gpus=1, old={"a": 1, "b": 1}, present=bounds(2, 1, 0))
    assert present(roomy).finishes


def test_pods_without_gpus_fit_however_many_there_are() -> None:
    found = advise(ground(2**31, 0, {}, old={"a": 3}))
    assert (found.best, found.slots) == (Kind.BLUE_GREEN, None)
    assert all(one.finishes and one.peak_gpus_held == 0 for one in found.strategies)


FREE = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 8), max_size=6)
OLD = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 6), max_size=8)


@given(FREE, OLD, st.integers(1, 4), st.integers(1, 4), st.integers(0, 12))
def test_more_room_never_makes_a_strategy_worse(
    free: dict[str, int], old: dict[str, int], gpus: int, old_gpus: int, replicas: int
) -> None:
    made = Ground(replicas=replicas, gpus=gpus, old_gpus=old_gpus, free=free, old=old)
    found = advise(made)
    for one in found.strategies:
        assert 0 <= one.placed <= replicas
        assert one.finishes is (one.placed == replicas)
        assert one.peak_gpus_held >= 0
        assert 0 <= one.lowest <= replicas
        assert (one.more_gpus == 0) is one.finishes
    roomier = advise(Ground(replicas=replicas, gpus=gpus, old_gpus=old_gpus, free={**free, "new": 100}, old=old))
    assert roomier.best is Kind.BLUE_GREEN
    if of(found, Kind.BLUE_GREEN).finishes:
        assert of(found, Kind.SURGE_ONE).finishes


@given(st.integers(1, 20), st.integers(1, 8), OLD)
def test_without_any_hole_replacing_one_finishes_where_old_pods_may_be_replaced(
    replicas: int, gpus: int, old: dict[str, int]
) -> None:
    old = {"a": replicas} if not any(old.values()) else old
    made = Ground(replicas=sum(old.values()), gpus=gpus, old_gpus=gpus, free=dict.fromkeys(old, 0), old=old, stop_s=9.0)
    found = advise(made)
    assert found.best is Kind.REPLACE_ONE
    assert of(found, Kind.REPLACE_ONE).peak_gpus_held == sum(old.values()) * gpus, "nothing more is there to take"


def test_a_survey_counts_copies_by_the_schedulers_filters() -> None:
    closed = Place(drains.node("n3", cordoned=True), [])
    places = [Place(drains.node("n1"), [drains.pod("x", "n1", 5)]), Place(drains.node("n2", gpus=2), []), closed]
    pod = drains.pod("new", "", 3)
    assert surveyed(places, pod, 3, most=9) == {"n1": 3, "n2": 0}
    tolerant = FullPod(
        pod.metadata, FullPodSpec(containers=pod.spec.containers, tolerations=(Toleration(operator="Exists"),))
    )
    assert surveyed([Place(drains.node("n3", cordoned=True), [])], tolerant, 3, most=1) == {"n3": 3}
