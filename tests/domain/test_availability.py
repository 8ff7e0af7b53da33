"""Availability, MTBF and MTTR over transitions, by hand and by property."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.availability import Availability, Incident, availability, each, grouped, total, unsettled
from fleet.domain.gpus import DeviceState
from fleet.domain.verdicts import NOT_OWNED, Transition

HOUR = 3600.0


def moved(at, to_state, *, gpu="GPU-1", from_state="?", **values):
    return Transition(node="node-1", gpu=gpu, at=at, from_state=from_state, to_state=to_state, **values)


def spent(part: Availability):
    return part.up_s, part.down_s, part.planned_s, part.unknown_s


def test_a_gpu_that_failed_once():
    part = availability(
        [moved(0, "ok", from_state=NOT_OWNED), moved(10 * HOUR, "lost", reason="xid-79"), moved(12 * HOUR, "ok")],
        0,
        24 * HOUR,
    )
    assert spent(part) == (22 * HOUR, 2 * HOUR, 0, 0)
    assert part.availability == pytest.approx(22 / 24)
    assert (part.failures, part.mtbf_s, part.mttr_s) == (1, 22 * HOUR, 2 * HOUR)
    assert (part.open, part.mtbf_at_least_s) == ((), None)


def test_which_gpus_may_have_an_open_incident():
    last = {
        state or "gone": moved(0, state, gpu=state or "gone")
        for state in ("ok", "degraded", "lost", "unknown", NOT_OWNED)
    } | {"planned": moved(0, "unknown", gpu="planned", planned=True)}
    assert unsettled(last) == ["lost", "unknown", "planned"]


def test_without_a_failure_a_bound_and_no_infinity():
    part = availability([moved(0, "ok")], 0, 30 * HOUR)
    assert (part.availability, part.mtbf_s, part.mttr_s) == (1.0, None, None)
    assert part.mtbf_at_least_s == 10 * HOUR, "rule of three: under 3 in 30 hours"


def test_unknown_is_neither_up_nor_down():
    part = availability([moved(0, "ok"), moved(HOUR, "unknown"), moved(3 * HOUR, "ok")], 0, 4 * HOUR)
    assert spent(part) == (2 * HOUR, 0, 0, 2 * HOUR)
    assert (part.availability, part.failures) == (1.0, 0)
    nothing = availability([moved(0, "unknown")], 0, HOUR)
    assert (nothing.availability, nothing.mtbf_s, nothing.mtbf_at_least_s) == (None, None, None)


def test_planned_work_is_apart_and_no_failure():
    part = availability([moved(0, "ok"), moved(HOUR, "unknown", planned=True), moved(2 * HOUR, "ok")], 0, 4 * HOUR)
    assert spent(part) == (3 * HOUR, 0, HOUR, 0)
    assert part.failures == 0


@pytest.mark.parametrize(
    ("state", "soft", "up"),
    [
        ("ok", False, True),
        ("app-fault", False, True),
        ("degraded", False, True),
        ("reset-required", True, True),
        ("reset-required", False, False),
        ("reboot-required", False, False),
        ("hardware-service", False, False),
        ("lost", False, False),
    ],
)
def test_what_counts_as_up(state, soft, up):
    part = availability([moved(0, state, soft=soft)], 0, HOUR)
    assert (part.up_s, part.down_s) == ((HOUR, 0) if up else (0, HOUR))


def test_one_incident_may_change_its_state_and_go_unseen():
    rows = [
        moved(0, "ok"),
        moved(1 * HOUR, "reset-required", reason="xid-95"),
        moved(2 * HOUR, "lost", reason="xid-79"),
        moved(3 * HOUR, "unknown"),
        moved(4 * HOUR, "ok"),
    ]
    part = availability(rows, 0, 5 * HOUR)
    assert (part.failures, part.repairs, part.mttr_s) == (1, 1, 3 * HOUR)
    assert spent(part) == (2 * HOUR, 2 * HOUR, 0, HOUR)


def test_an_open_incident_is_no_repair_and_has_its_age():
    part = availability([moved(0, "ok"), moved(HOUR, "lost", reason="xid-79")], 0, 4 * HOUR)
    assert (part.mttr_s, part.failures) == (None, 1)
    assert part.open == (Incident("GPU-1", "node-1", HOUR, "xid-79"),)


def test_an_incident_from_before_the_window_is_no_failure_of_it():
    rows = [moved(0, "lost"), moved(30 * HOUR, "ok")]
    part = availability(rows, 24 * HOUR, 48 * HOUR)
    assert (part.failures, part.repairs, part.mttr_s) == (0, 1, 30 * HOUR)
    assert spent(part) == (18 * HOUR, 6 * HOUR, 0, 0)
    assert availability(rows[1:], 24 * HOUR, 48 * HOUR, {"GPU-1": rows[0]}) == part


def test_only_owned_time_counts():
    rows = [moved(HOUR, "ok", from_state=NOT_OWNED), moved(3 * HOUR, NOT_OWNED, closes="replaced")]
    part = availability(rows, 0, 10 * HOUR)
    assert (part.owned_s, part.up_s) == (2 * HOUR, 2 * HOUR)
    replaced = availability([moved(0, "lost"), moved(HOUR, NOT_OWNED, closes="replaced")], 0, 10 * HOUR)
    assert (replaced.owned_s, replaced.repairs, replaced.open) == (HOUR, 1, ())


def test_rows_of_one_moment_that_only_tell_of_findings_change_nothing():
    rows = [
        moved(0, "ok"),
        moved(HOUR, "lost", from_state="ok"),
        moved(HOUR, "lost", from_state="lost", reason="xid-95"),
    ]
    assert availability(rows, 0, 2 * HOUR) == availability(rows[::-1], 0, 2 * HOUR)
    assert availability(rows, 0, 2 * HOUR).failures == 1


def test_sums_by_whatever_one_asks_for():
    rows = [
        moved(0, "ok", gpu="a"),
        moved(0, "ok", gpu="b"),
        moved(HOUR, "lost", gpu="b"),
        moved(0, "lost", gpu="c"),
    ]
    parts = each(rows, 0, 4 * HOUR)
    assert set(parts) == {"a", "b", "c"}
    nodes = grouped(parts, {"a": "node-1", "b": "node-1", "c": "node-2"}.__getitem__)
    assert spent(nodes["node-1"]) == (5 * HOUR, 3 * HOUR, 0, 0)
    assert nodes["node-2"].availability == 0
    fleet = availability(rows, 0, 4 * HOUR)
    assert fleet == total(nodes.values()) == total(parts.values())
    assert [incident.gpu for incident in fleet.open] == ["c", "b"], "oldest first"
    assert total([]) == Availability()


@dataclass(frozen=True)
class Story:
    rows: list[Transition]
    middle: float


STATES = st.sampled_from([*DeviceState, NOT_OWNED])


@st.composite
def stories(draw):
    rows = []
    for gpu in ("a", "b"):
        times = draw(st.lists(st.integers(-50, 150), unique=True, max_size=12))
        before = NOT_OWNED
        for at in sorted(times):
            state = draw(STATES)
            planned = state == DeviceState.UNKNOWN and draw(st.booleans())
            soft = state == DeviceState.RESET_REQUIRED and draw(st.booleans())
            rows.append(moved(float(at), state, gpu=gpu, from_state=before, planned=planned, soft=soft))
            before = state
    return Story(rows, float(draw(st.integers(0, 100))))


@given(stories())
def test_the_parts_sum_to_the_time_that_a_gpu_was_ours(story):
    for gpu, part in each(story.rows, 0, 100).items():
        rows = sorted((row for row in story.rows if row.gpu == gpu), key=lambda row: row.at)
        ends = [*(row.at for row in rows[1:]), 100.0]
        owned = sum(
            max(0.0, min(end, 100.0) - max(row.at, 0.0))
            for row, end in zip(rows, ends, strict=True)
            if row.to_state != NOT_OWNED
        )
        assert part.owned_s == pytest.approx(owned)
        assert min(spent(part)) >= 0
        assert part.owned_s <= 100
        assert len(part.open) <= 1


@given(stories(), st.randoms())
def test_the_order_of_transitions_is_irrelevant(story, random):
    shuffled = list(story.rows)
    random.shuffle(shuffled)
    assert each(shuffled, 0, 100) == each(story.rows, 0, 100)


@given(stories())
def test_two_windows_are_one(story):
    whole = availability(story.rows, 0, 100)
    first, second = availability(story.rows, 0, story.middle), availability(story.rows, story.middle, 100)
    both = total([first, second])
    assert spent(both) == pytest.approx(spent(whole))
    assert (both.failures, both.repairs, both.repair_s) == (
        whole.failures,
        whole.repairs,
        pytest.approx(whole.repair_s),
    )
    assert second.open == whole.open


@given(stories())
def test_the_last_transition_before_the_window_is_all_that_its_times_need(story):
    before = {}
    for row in sorted(story.rows, key=lambda row: row.at):
        if row.at < 0:
            before[row.gpu] = row
    inside = [row for row in story.rows if row.at >= 0]
    assert spent(availability(inside, 0, 100, before)) == pytest.approx(spent(availability(story.rows, 0, 100)))
