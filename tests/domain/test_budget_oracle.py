"""The disruption controller's arithmetic against another way to say it: by counting up to the smallest number that is enough."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.budgets import Scale, allowance, of
from tests.domain.test_budget_arithmetic import NOW, budget, pods

SIZES = st.integers(0, 12)
PERCENT = st.integers(0, 130)


def share(percent: int, whole: int) -> int:
    """The smallest count of pods that is at least so many hundredths of all, as the definition says it: without dividing."""
    count = 0
    while count * 100 < percent * whole:
        count += 1
    return count


@given(PERCENT, st.integers(0, 400))
def test_a_share_of_few_pods(percent: int, whole: int) -> None:
    assert of(f"{percent}%", whole) == share(percent, whole)


@given(st.integers(0, 10**9), st.integers(0, 10**40))
def test_a_share_of_more_pods_than_floats_can_tell_apart(percent: int, whole: int) -> None:
    quotient, rest = divmod(percent * whole, 100)
    assert of(f"{percent}%", whole) == (quotient + 1 if rest else quotient)


def oracle(spec: dict[str, Any], replicas: int, healthy: int) -> tuple[int, int]:
    """(desired, allowed) of `replicas` pods of one controller."""
    ((name, amount),) = spec.items()
    count = share(int(amount[:-1]), replicas) if isinstance(amount, str) else amount
    desired = count if name == "minAvailable" else max(0, replicas - count)
    return desired, 0 if replicas == 0 else max(0, healthy - desired)


@given(
    st.sampled_from(["minAvailable", "maxUnavailable"]),
    st.one_of(SIZES, PERCENT.map("{}%".format)),
    SIZES,
    SIZES,
    SIZES,
)
def test_what_a_budget_allows(kind: str, amount: int | str, ready: int, unready: int, terminating: int) -> None:
    found = pods(ready, unready, terminating)
    replicas = len(found)
    spec: dict[str, Any] = {kind: amount}
    got = allowance(budget(**spec), [(one, Scale("web", replicas)) for one in found], NOW)
    assert (got.desired, got.allowed) == oracle(spec, replicas, ready)
    assert got.healthy == ready
    assert got.allowed <= got.healthy
