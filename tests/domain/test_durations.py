"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import durations


@pytest.mark.parametrize(("text", "seconds"), [
    ("5m", 300), ("1h30m", 5_400), ("90s", 90), ("2d", 172_800), ("1.5h", 5_400), ("5 min", 300), ("1h 30m", 5_400),
    (" 40h ", 144_000), ("1d2h3m4s", 93_784), ("0.25s", 0.25), ("0s", 0),
])  # fmt: skip
def test_what_people_write(text, seconds):
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", [
    "", " ", "5", "m", "-5m", "+5m", "5m1h", "1h1h", "5x", "1e3s", "nan", "inf", ".5h", "5.m", "٥m", "5m\n6",
    "1" * 41 + "s", "5 m s",
])  # fmt: skip
def test_what_is_none(text):
    with pytest.raises(durations.DurationError, match="write it like 5m, 1h30m or 90s"):
        durations.parse(text)


@given(st.integers(60, 10**9))
def test_spelled_is_read_back(seconds):
    assert durations.parse(durations.spelled(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (59.5, "59.5s"),
        (5_400, "1h30m"),
        (60.4, "1m"),
        (158_220, "43h57m"),
        (345_601, "4d1s"),
    ],
)
def test_spelled(seconds, text):
    assert durations.spelled(seconds) == text
