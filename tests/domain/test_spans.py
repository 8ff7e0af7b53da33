"""Seven bytes of a GPU's minute: what comes out is what went in, and three values stay three."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.picture import GpuRow
from fleet.domain.spans import Gathering, Sample, packed, together, unpacked

measures = st.none() | st.just("n/a")
samples = st.builds(
    Sample,
    measures | st.integers(0, 100),
    measures | st.integers(0, 100),
    measures | st.integers(0, 253),
    measures | st.integers(0, 65533),
    measures | st.integers(0, 65533).map(lambda n: 16 * n),
)


@given(st.lists(samples, max_size=16))
def test_packing_loses_nothing(found):
    data = packed(found)
    assert unpacked(data) == found
    assert len(data) == 1 + 7 * len(found)


@given(st.builds(Sample, *[st.none() | st.just("n/a") | st.integers() | st.floats()] * 5))
def test_anything_can_be_packed(found):
    assert len(unpacked(packed([found]))) == 1


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01\x00", packed([Sample()])[:-1]])
def test_what_is_no_packed_span_is_said(data):
    with pytest.raises(ValueError, match="packed span"):
        unpacked(data)


def row(busy, power=None):
    return GpuRow("n", 0, utilization_pct=busy, power_w=power, temperature_c="n/a")


def test_a_minute_is_the_mean_of_what_was_measured():
    gathering = Gathering(7)
    for busy, power in ((10, 100), (None, 300), ("n/a", None), (30, 200)):
        gathering.add({"b": row(busy, power), "a": row(None)})
    assert gathering.samples() == {"a": Sample(None, None, "n/a", None, None), "b": Sample(20, 30, "n/a", 200, None)}
    assert list(gathering.samples()) == ["a", "b"]


def test_an_hour_is_made_of_its_minutes():
    assert together(
        [Sample(10, 20, 50, 100, 160), Sample(None, None, "n/a", None, None), Sample(30, 90, 40, 300, 320)]
    ) == Sample(20, 90, 50, 200, 320)
    assert together([Sample(temperature_c="n/a")] * 2).temperature_c == "n/a"
