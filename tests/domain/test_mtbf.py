"""The mean time between failures as an estimate: intervals of confidence against tables, another method, and a played process."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import mtbf


# Half of chi-square's tabulated quantiles, with twice as many degrees of freedom.
@pytest.mark.parametrize(("shape", "share", "chi_square"), [
    (1, 0.025, 0.0506356), (1, 0.95, 5.99146), (2, 0.975, 11.1433), (5, 0.05, 3.94030), (10, 0.025, 9.59078),
    (11, 0.975, 36.7807), (50, 0.975, 129.561), (50, 0.025, 74.2219),
])  # fmt: skip
def test_quantiles_of_the_tables(shape, share, chi_square):
    assert mtbf.gamma_quantile(shape, share) == pytest.approx(chi_square / 2, rel=2e-5)


@given(st.integers(1, 40), st.floats(0.001, 120))
def test_the_distribution_is_what_its_sum_says(shape, x):
    left = math.fsum(math.exp(-x) * x**i / math.factorial(i) for i in range(shape))
    assert mtbf.gamma_cdf(shape, x) == pytest.approx(1 - left, abs=1e-12)


@given(st.integers(1, 100_000), st.floats(0.001, 0.999))
def test_a_quantile_is_where_the_distribution_reaches_it(shape, share):
    found = mtbf.gamma_quantile(shape, share)
    assert mtbf.gamma_cdf(shape, found) == pytest.approx(share, abs=1e-8)


def test_below_0_there_is_nothing():
    assert mtbf.gamma_cdf(3, 0) == mtbf.gamma_cdf(3, -1) == 0


def test_ten_failures():
    found = mtbf.estimate(10, 1_000)
    assert found.mean_s == found.planning_s == 100
    assert found.least_s == pytest.approx(54.376, abs=0.001)
    assert found.most_s == pytest.approx(208.53, abs=0.01)


def test_without_a_failure_there_is_a_bound_and_it_is_planned_with():
    found = mtbf.estimate(0, 300)
    assert (found.mean_s, found.least_s, found.most_s, found.planning_s) == (None, 100, None, 100)


def test_without_time_nothing_is_known():
    assert mtbf.estimate(0, 0).planning_s is None


@given(st.integers(1, 5_000), st.floats(1, 1e9))
def test_the_estimate_is_inside_its_interval_which_narrows_with_failures(failures, observed_s):
    found, better = mtbf.estimate(failures, observed_s), mtbf.estimate(4 * failures, 4 * observed_s)
    for one in (found, better):
        assert one.least_s < one.mean_s < one.most_s
    assert better.most_s / better.least_s < found.most_s / found.least_s


def test_rates_of_a_group_add():
    found = mtbf.estimate(10, 1_000).of_group(8)
    assert found.mean_s == 12.5
    assert found.least_s == pytest.approx(54.376 / 8, abs=0.001)
    assert (found.failures, found.observed_s) == (10, 1_000)
    assert mtbf.estimate(0, 240).of_group(8) == mtbf.Mtbf(0, 240, None, 10, None)


def test_the_interval_holds_the_true_mean_as_often_as_it_says():
    """Played: 4,000 tests of a process with a mean of 1, each as long as six failures take on average."""
    chance, held, told = random.Random(3), 0, 0
    for _ in range(4_000):
        at, failures = chance.expovariate(1), 0
        while at < 6:
            failures, at = failures + 1, at + chance.expovariate(1)
        if failures:
            found = mtbf.estimate(failures, 6)
            told, held = told + 1, held + (found.least_s <= 1 <= found.most_s)
    assert held / told >= 0.95 - 0.01
