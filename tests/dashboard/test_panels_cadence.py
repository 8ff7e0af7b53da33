"""How often to save, in words: what was typed, times and shares, and a chart whose texts do not stand on one another."""

import re

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from dashboard.panels import cadence as panel
from dashboard.panels import curves, words
from dashboard.panels.cadence import Asked
from fleet.domain import cadence, mtbf
from fleet.domain.cadence import Cadence, Wanted

MIN, H, DAY = 60.0, 3_600.0, 86_400.0
LESSON = {"save_cost": "3m", "mtbf": "24h", "interval": "30m, 2h", "horizon": "40h", "grace": "60s"}
NOTHING = mtbf.estimate(0, 0)


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


def told(value: words.Value) -> str:
    return words.plain(value, 0).replace("\u00a0", " ")


def lesson() -> tuple[Asked, Cadence]:
    asked, found = panel.planned(Asked.of_query(LESSON), NOTHING)
    assert found is not None
    return asked, found


@pytest.mark.parametrize(("seconds", "said"), [
    (0, "0 s"), (3.3, "3.3 s"), (30, "30 s"), (59.96, "1 min"), (60, "1 min"), (3_402, "56 min 42 s"), (3_599.6, "1 h"),
    (7_200, "2 h"), (7_001, "1 h 57 min"), (158_220, "43 h 57 min"), (4 * DAY, "4 d"), (4 * DAY + 5 * H, "4 d 5 h"),
    (159.99 * DAY, "160 d"),
])  # fmt: skip
def test_a_length_has_two_units_and_is_rounded(seconds, said):
    assert told(panel.length(seconds)) == said


@pytest.mark.parametrize(("share", "said"), [
    (0.0, "0.00 %"), (0.0674, "6.74 %"), (0.098745, "9.87 %"), (0.09996, "10.0 %"), (0.11270, "11.3 %"), (3.0, "300.0 %"),
    (None, "never ends"),
])  # fmt: skip
def test_a_share_has_three_digits(share, said):
    assert told(panel.percent(share)) == said


def test_what_was_typed_is_understood():
    asked, found = lesson()
    assert asked.seconds["interval"] == (1_800, 7_200)
    assert [one.interval_s for one in found.overheads][1:] == [1_800, 7_200]
    assert len(found.savings) == 6


@pytest.mark.parametrize(("query", "wrong"), [
    ({"save_cost": "3", "mtbf": "24h"}, {"save_cost": "“3” is not a duration; write it like 5m, 1h30m or 90s"}),
    ({"save_cost": "3m", "interval": "30m 1"}, {"interval": "“30m 1” is not a duration; write it like 5m, 1h30m or 90s"}),
    ({"save_cost": "3m", "mtbf": "1h", "gpus": "0"}, {"gpus": "has to be a number from 1 to 1,000,000"}),
    ({"save_cost": "3m", "mtbf": "1h", "gpus": "٣"}, {"gpus": "has to be a number from 1 to 1,000,000"}),
    ({"mtbf": "1h"}, {"save_cost": "how long a save takes has to be known"}),
    ({"save_cost": "0s", "mtbf": "1h"}, {"save_cost": "has to be at least a millisecond"}),
    ({"save_cost": "3m", "mtbf": "90000000d"}, {"mtbf": "has to be at most a hundred years"}),
    ({"save_cost": "3m", "mtbf": "1h", "interval": "5m " * 13}, {"interval": "at most 12 can be compared"}),
    ({"save_cost": "3m"},
     {"mtbf": "the ledger knows no time in which a GPU was up in this window, so it has to be entered"}),
])  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(query, wrong):
    asked, found = panel.planned(Asked.of_query(query), NOTHING)
    assert found is None
    assert {name: told(text) for name, text in asked.errors.items()} == wrong


def test_nothing_typed_is_no_error():
    asked, found = panel.planned(Asked.of_query({"window": "7d"}), NOTHING)
    assert (asked.given, asked.errors, found, asked.window) == (False, {}, None, "7d")


def test_what_the_ledger_knows_is_planned_with_and_said_with_its_uncertainty():
    observed = mtbf.estimate(10, 1_000 * H).of_group(8)
    asked, found = panel.planned(Asked.of_query({"save_cost": "3m", "gpus": "8"}), observed)
    assert found is not None
    assert found.mtbf_s == 12.5 * H
    assert told(panel.known(asked, observed)) == (
        "On 8 GPUs it fails every 12 h 30 min (6 h 48 min to 26 h 4 min, 95 % sure): 10 failures in 1,000 GPU-h up · last 30 d."
    )
    assert told(panel.best_between(found, asked, observed)) == "47 min 29 s to 1 h 35 min, 95 % sure"
    assert told(panel.source(asked, observed)) == "from the ledger"
    assert panel.typed(observed) == "12h30m"


def test_no_failure_is_a_bound():
    observed = mtbf.estimate(0, 300 * H)
    asked, found = panel.planned(Asked.of_query({"save_cost": "3m"}), observed)
    assert found is not None
    assert found.mtbf_s == 100 * H
    assert told(panel.source(asked, observed)) == "no failure: the bound that is 95 % sure"
    assert told(panel.between(observed)) == "4 d 4 h or more, 95 % sure"
    assert panel.best_between(found, asked, observed) == ""
    assert panel.typed(observed) == "4d4h"


def test_the_lessons_run_in_words():
    asked, found = lesson()
    said = [told(one) for one in panel.verdicts(found)]
    assert said == [
        "Every 30 min: 4.53 % of the work more than at the best interval.",
        "Every 2 h: 0.26 % of the work more than at the best interval.",
        "30 min costs less than 2 h while failures come more often than every 10 h 50 min; to first order, every 10 h.",
    ]
    rows = panel.savings(found).rows
    assert [told(row.cells["cadence-of-work"]) for row in rows] == [
        "10.00 %", "9.88 %", "9.89 %", "2.50 %", "2.38 %", "2.43 %",
    ]  # fmt: skip
    assert [told(row.cells["cadence-time"]) for row in rows][:2] == ["4 h", "3 h 57 min"]
    fits = panel.fits(found).rows
    assert told(fits[-1].cells["cadence-fits"]) == "too long by 2 min"
    assert [row.level for row in fits] == ["", "", "", "", "warn"]
    numbers = {number.id: told(number.value) for number in panel.numbers(found, asked, NOTHING)}
    assert (numbers["best"], numbers["overhead"], numbers["most"]) == ("1 h 31 min", "6.74 %", "1 h 31 min")
    assert numbers["clean-day"] == "36.8 %"


def test_an_interval_shorter_than_its_write_is_marked():
    _, found = panel.planned(
        Asked.of_query({"save_cost": "2s", "mtbf": "6h", "write": "15m", "interval": "10m"}), NOTHING
    )
    assert found is not None
    best, asked = panel.table(found).rows
    assert (best.level, asked.level) == ("ok", "warn")
    assert told(asked.small["cadence-interval"]) == "shorter than its write"


def test_the_same_question_for_programs():
    asked, _ = lesson()
    given = panel.programs(asked, "prod")
    assert ("interval_s", "1800") in given
    assert ("interval_s", "7200") in given
    assert dict(given)["save_cost_s"] == "180"


def test_a_run_that_never_ends_has_no_chart_but_words():
    _, found = panel.planned(Asked.of_query({"save_cost": "1h", "mtbf": "1s", "interval": "1h"}), NOTHING)
    assert found is not None
    assert panel.chart(found) is None
    assert told(panel.verdicts(found)[0]) == "Every 1 h: the run practically never ends."


lengths = st.floats(0.01, 1e8)


@given(lengths, lengths, st.lists(lengths, max_size=6), st.floats(0, 1e5))
def test_a_chart_stays_in_its_box_and_its_texts_stand_apart(save_cost_s, mtbf_s, intervals_s, write_s):
    wanted = Wanted(save_cost_s=save_cost_s, mtbf_s=mtbf_s, intervals_s=tuple(intervals_s), write_s=write_s)
    chart = panel.chart(cadence.cadence(wanted))
    if chart is None:
        return
    places = re.findall(r"([\d.-]+) ([\d.-]+)", chart.whole + chart.saving + chart.redoing)
    assert places
    assert all(0 <= float(x) <= curves.WIDE + 0.1 for x, _ in places)
    assert all(curves.BOTTOM - curves.TALL - 0.1 <= float(y) <= curves.BOTTOM + 0.1 for _, y in places)
    assert chart.marks[0].best
    assert 0 < len(chart.ticks) <= curves.MOST_TICKS
    for i, mark in enumerate(chart.marks):
        for other in chart.marks[:i]:
            apart = mark.reach[1] <= other.reach[0] or other.reach[1] <= mark.reach[0]
            assert apart or abs(mark.text_y - other.text_y) >= curves.LABEL_TALL - 0.1
