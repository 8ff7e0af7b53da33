"""Kubernetes quantities, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.quantities import quantity, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("8", 8),
        ("+8", 8),
        ("-1", -1),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1.5e-1", Fraction(3, 20)),
        ("500m", Fraction(1, 2)),
        ("250u", Fraction(1, 4000)),
        ("1n", Fraction(1, 10**9)),
        ("1Ki", 1024),
        ("3.5Gi", Fraction(7, 2) * 1024**3),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("2113410724Ki", 2113410724 * 1024),
    ],
)
def test_a_quantity_is_exact(text: str, value: Fraction | int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "eight", "1K", "1 ", "1.2.3", "1kk", "Ki", "1e", "--1", "1Kib", "٣"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantity(text)


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("1k", 1000), ("7500m", 8), ("1e1", 10)])
def test_whole_rounds_up(text: str, value: int) -> None:
    assert whole(text) == value


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "k", "M", "Ki", "Mi", "e2"]))
def test_any_whole_number_with_a_large_suffix_is_whole(number: int, suffix: str) -> None:
    assert quantity(f"{number}{suffix}").denominator == 1
