"""Arithmetic over values of which some are no numbers."""

import math

import pytest

from fleet.domain.gpus import NA
from fleet.domain.measures import MIB, memory_share, mib, number, whole
from tests.domain.gpu_readings import gpu


@pytest.mark.parametrize(
    ("measure", "is_number", "rounded"),
    [
        (0, 0, 0),
        (-3, -3, -3),
        (0.0, 0.0, 0),
        (2.6, 2.6, 3),
        (NA, None, NA),
        (None, None, None),
        (math.nan, None, None),
        (math.inf, None, None),
        (1e300, 1e300, None),
        (True, None, True),
    ],
)
def test_numbers_and_what_is_none(measure, is_number, rounded):
    assert number(measure) == is_number
    assert whole(measure) == rounded


@pytest.mark.parametrize(("measure", "shown"), [(0, 0), (MIB * 5 + 9, 5), (NA, NA), (None, None), (1e300, None)])
def test_mib(measure, shown):
    assert mib(measure) == shown


@pytest.mark.parametrize(
    "values",
    [
        {"memory_total_bytes": NA},
        {"memory_used_bytes": None},
        {"memory_total_bytes": 0, "memory_reserved_bytes": 0},
        {"memory_total_bytes": 5, "memory_reserved_bytes": 9},
    ],
)
def test_a_share_of_nothing_is_none(values):
    assert memory_share(gpu(**values)) is None
