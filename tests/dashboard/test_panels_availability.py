"""Availability in words: shares that never look better than they are, the rule of three, order and parts."""

import pytest
from django.utils import translation

from dashboard.panels import availability, words
from dashboard.panels.availability import PART, Choice, Line
from fleet.domain.availability import Availability, Incident

H = 3_600.0


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


def told(value: words.Value) -> str:
    return words.plain(value, 1_000 * H).replace("\u00a0", " ")


@pytest.mark.parametrize(("share", "said"), [
    (1.0, "100.00 %"), (0.99999, "99.99 %"), (0.5, "50.00 %"), (0.0, "0.00 %"), (None, "never known"),
])  # fmt: skip
def test_a_share_is_rounded_down(share, said):
    assert told(availability.percent(share)) == said


@pytest.mark.parametrize(("seconds", "said"), [
    (0.0, "0 GPU-h"), (1.0, "< 0.1 GPU-h"), (0.06 * H, "0.1 GPU-h"), (H, "1.0 GPU-h"), (9.94 * H, "9.9 GPU-h"),
    (10 * H, "10 GPU-h"), (12_345 * H, "12,345 GPU-h"),
])  # fmt: skip
def test_hours_are_0_only_where_there_were_none(seconds, said):
    assert told(availability.gpu_hours(seconds)) == said


def test_no_failure_says_what_that_proves_and_not_infinity():
    quiet = Availability(up_s=300 * H)
    assert [told(part) for part in availability.mtbf(quiet)] == [
        "no failure",
        "in 300 GPU-h: at most one per 100 GPU-h, 95 % sure",
    ]
    assert [told(part) for part in availability.mtbf(Availability(up_s=30 * H, failures=2))] == ["15 GPU-h", ""]
    assert told(availability.mtbf(Availability(unknown_s=H))[0]) == "no time in which it was up"


@pytest.mark.parametrize(("up_h", "proved"), [
    (0.29, ""), (0.3, "0.1"), (2.9, "0.9"), (29.9, "9.9"), (32.9, "10"), (300, "100"),
])  # fmt: skip
def test_a_bound_is_never_rounded_up(up_h, proved):
    proves = told(availability.mtbf(Availability(up_s=up_h * H))[1])
    assert proves.partition("one per ")[2].partition(" ")[0] == proved


def test_only_repairs_that_are_over_count_and_open_ones_stand_beside():
    found = Availability(up_s=H, failures=2, repairs=1, repair_s=7_200, open=(Incident("GPU-a", "n", 0.0, "xid-79"),))
    numbers = {number.id: number for number in availability.numbers(found, 86_400)}
    assert told(numbers["mttr"].value) == "2 h 00 min"
    assert told(numbers["mttr"].note) == "of 1 repair"
    assert (told(numbers["failures"].note), numbers["failures"].level) == ("1 open", "bad")
    (row,) = availability.incidents(found).rows
    assert [told(row.cells[column]) for column in ("node", "reason", "open-for")] == ["n", "Xid 79", "41 d"]


def test_every_time_has_its_unit_and_its_share():
    found = Availability(up_s=99 * H, down_s=0.5 * H, planned_s=0.5 * H, unknown_s=0.001 * H)
    numbers = {number.id: number for number in availability.numbers(found, 86_400)}
    for name in ("up", "down", "planned", "unknown"):
        assert told(numbers[name].unit) == "GPU-h"
    assert told(numbers["unknown"].note) == "under 0.01 % of the time"
    assert told(numbers["availability"].note) == "last 1 d"


LINES = [
    Line("n10", Availability(up_s=9, down_s=1, failures=1)),
    Line("n9", Availability(up_s=9, down_s=1, failures=1)),
    Line("n1", Availability(up_s=10)),
    Line("n2", Availability(unknown_s=10)),
    Line("n3", Availability(up_s=5, down_s=5, failures=1)),
]


@pytest.mark.parametrize(("sort", "names"), [
    ("availability", ["n3", "n9", "n10", "n1", "n2"]),
    ("down", ["n3", "n9", "n10", "n1", "n2"]),
    ("unknown", ["n2", "n1", "n3", "n9", "n10"]),
    ("failures", ["n3", "n9", "n10", "n1", "n2"]),
    ("name", ["n1", "n2", "n3", "n9", "n10"]),
])  # fmt: skip
def test_the_most_troubled_come_first_and_names_are_counted(sort, names):
    assert [line.name for line in availability.ordered(LINES, sort)] == names


def test_a_long_list_comes_in_parts():
    lines = [Line(f"n{i}", Availability(up_s=1.0)) for i in range(2 * PART + 1)]
    shown = availability.table(lines, Choice(part=3))
    assert [row.key for row in shown.rows] == [f"n{2 * PART}"]
    assert availability.parts(lines, Choice(part=3))[1:] == (2, 0)
    assert availability.parts(lines, Choice(part=1))[1:] == (0, 2)
    assert told(availability.parts(lines, Choice(part=2))[0]) == f"{PART + 1} to {2 * PART} of {2 * PART + 1}"
    assert availability.parts(lines[:PART], Choice())[0] == ""
    assert availability.table(lines, Choice(part=99)).rows == []


@pytest.mark.parametrize(("query", "choice"), [
    ({}, Choice("7d", "node", "availability", 1)),
    ({"window": "90d", "by": "gpu", "sort": "open", "part": "3"}, Choice("90d", "gpu", "open", 3)),
    ({"window": "9y", "by": "<b>", "sort": "x", "part": "-1"}, Choice()),
    ({"part": "0"}, Choice()), ({"part": "9" * 40}, Choice()), ({"part": "²"}, Choice()),
])  # fmt: skip
def test_what_is_not_understood_is_as_if_left_out(query, choice):
    assert Choice.of_query(query) == choice
