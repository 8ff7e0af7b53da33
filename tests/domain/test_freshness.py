"""Freshness: cases T1 and T3 as somebody sees them, and each rule of "Freshness" in the notes on checkpoints."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet.domain import checkpoint_shelves, save_history, save_rows
from fleet.domain.checkpoint_files import Look
from fleet.domain.checkpoint_shelves import Shelf
from fleet.domain.checkpoints import Checkpoint, Components, Format, Note, Presence, Sign, State
from fleet.domain.facts import Saved, Unsaved
from fleet.domain.freshness import Freshness, Report, Standing, chosen, freshness, unread
from fleet.domain.last_saves import last
from fleet.domain.save_history import Interval, Save, Usual, intervals, usual
from fleet.domain.training import Life, Training
from tests.domain import checkpoint_makers as makers
from tests.domain.checkpoint_makers import NOON, Made, clock
from tests.domain.test_checkpoint_cases import END, half, step_1000

HOUR = 3600.0
LLM = Training("Job/ml/llm", "ml", "pvc://ml/ckpt/llm", interval_s=HOUR, started_at=NOON - 30 * HOUR)
WHOLE = Components(*[Presence.PRESENT] * 5)


def seen(made: Made, training: Training = LLM, now: float = NOON, past: Usual = Usual(), **more: Any) -> Freshness:  # noqa: B008
    hints = checkpoint_shelves.trackers("", made.listing(), Look(made))
    shelf = checkpoint_shelves.shelf("", made.judged().values(), hints, now, past.cost_s or 0.0)
    return freshness(training, shelf, now, past, **more)


def saved(at: float, step: int | None = 100, **more: Any) -> Checkpoint:
    found = {"state": State.COMPLETE, "components": WHOLE, "first_byte_at": at - 18, "last_byte_at": at, **more}
    return Checkpoint(f"step-{step}", Format.DCP, step=step, committed_at=at, **found)


def shelf(*found: Checkpoint, now: float = NOON) -> Shelf:
    return checkpoint_shelves.shelf("", found, (), now)


def below(found: Shelf) -> Shelf:
    """The same in a directory below "llm"."""
    moved = tuple(replace(each, path=f"llm/run-1/{each.path}") for each in found.checkpoints)
    return checkpoint_shelves.shelf("llm/run-1", moved, (), NOON)


class TestHalfWritten:
    """T1"""

    def test_the_older_one_counts_and_the_half_one_is_in_flight(self) -> None:
        found = seen(half(step_1000(Made())))
        assert found.newest is not None
        assert (found.newest.step, found.newest.uri, found.age_s) == (1000, "pvc://ml/ckpt/llm/step-1000", 3600.0)
        assert found.in_flight is not None
        assert (found.in_flight.step, NOON - found.in_flight.last_byte_at) == (1100, 7 * 60 + 49)
        assert (found.in_flight.started_at, found.in_flight.size_bytes) == (clock("11:52:00"), END + 20_001)
        assert found.abandoned.count == 0

    def test_after_ten_minutes_it_is_abandoned_and_costs_disk(self) -> None:
        found = seen(half(step_1000(Made())), now=NOON + 132)
        assert (found.in_flight, found.abandoned.count, found.abandoned.size_bytes) == (None, 1, END + 20_001)

    def test_a_usual_save_that_takes_long_is_waited_for(self) -> None:
        found = seen(half(step_1000(Made())), now=NOON + 900, past=Usual(cost_s=600.0))
        assert (found.in_flight is not None, found.abandoned.count) == (True, 0)

    def test_a_contradiction_is_told_and_the_older_one_counts(self) -> None:
        made = half(step_1000(Made()))
        del made.contents["step-1100/.metadata.tmp"]
        found = seen(made.put("step-1100/.metadata", makers.distributed(END), "11:52:11"))
        assert found.newest is not None
        assert found.newest.step == 1000
        assert found.broken is not None
        assert (found.broken.step, found.broken.state, found.broken.file) == (
            1100,
            State.CORRUPT,
            "step-1100/__1_0.distcp",
        )

    def test_parts_of_two_saves_are_not_fresh(self) -> None:
        made = Made().put("step-1000/.metadata", makers.distributed(END), "11:00:00")
        made.put("step-1000/__0_0.distcp", bytes(END), "11:52").put("step-1000/__1_0.distcp", bytes(END), "11:52")
        found = seen(made)
        assert (found.newest, found.standing) == (None, Standing.NONE)
        assert found.broken is not None
        assert found.broken.state is State.INCONSISTENT

    def test_a_name_that_only_contains_a_step_is_no_step(self) -> None:
        made = half(step_1000(Made()))
        for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
            made.put(f"old-step-1200/{name}", made.contents[f"step-1000/{name}"], "11:58")
        found = seen(made)
        assert found.newest is not None
        assert found.newest.step == 1000


class TestClocks:
    """T3"""

    A = saved(clock("12:07:00"), 900)
    B = saved(clock("11:55:00"), 800)
    C = saved(clock("11:59:00"), 300)  # copied back
    D = saved(clock("10:30:00"), 850, last_byte_at=clock("11:58:00"))  # Orbax wrote its own moment down

    def test_the_highest_step_counts_and_is_of_age_nothing(self) -> None:
        found = freshness(LLM, shelf(self.A, self.B, self.C, self.D), NOON, Usual())
        assert found.newest is not None
        assert (found.newest.step, found.age_s, found.skew_s, found.standing) == (900, 0.0, 420.0, Standing.FRESH)
        assert found.due_at == NOON + HOUR + 360, "and never later than if it were of now"

    def test_a_moment_that_was_written_down_counts_more_than_a_copys(self) -> None:
        found = freshness(LLM, shelf(self.C, self.D, self.B), NOON, Usual())
        assert found.newest is not None
        assert (found.newest.step, found.age_s) == (850, 90 * 60.0)

    def test_a_tracker_that_names_another_one_is_told(self) -> None:
        made = step_1000(Made())
        for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
            made.put(f"step-300/{name}", made.contents[f"step-1000/{name}"], "10:00")
        found = seen(made.put("latest", b"step-300", "11:59"))
        assert found.newest is not None
        assert found.newest.step == 1000
        assert found.conflict is not None
        assert (found.conflict.says, found.conflict.step, found.conflict.found) == ("step-300", 300, State.COMPLETE)
        assert found.resumes_from is not None
        assert found.resumes_from.step == 300, "a trainer that follows its tracker loses all that came after"
        known = last(found)
        assert isinstance(known, Saved)
        assert (known.step, known.at) == (300, clock("10:00:00"))

    def test_a_tracker_that_names_nothing_whole_lowers_no_loss(self) -> None:
        found = seen(step_1000(Made()).put("latest", b"step-300", "11:59"))
        assert (found.conflict is not None, found.tracked) == (True, None)
        assert found.resumes_from == found.newest

    @pytest.mark.parametrize(
        ("other", "shared"),
        [("", True), ("/a", True), ("-old", False), (None, False)],
        ids=["same", "below", "beside", "itself"],
    )
    def test_a_directory_of_several_jobs_tells_nothing_of_one(self, other: str | None, shared: bool) -> None:
        found = freshness(LLM, below(shelf(self.B)), NOON, Usual(), root="llm")
        beside = LLM if other is None else replace(LLM, workload="Job/ml/other", uri=LLM.uri + other)
        known = last(found, [LLM, beside])
        assert (isinstance(known, Unsaved) and known.why == "shared") is shared

    def test_what_is_below_the_declared_directory_is_named_in_full(self) -> None:
        found = freshness(LLM, below(shelf(self.B)), NOON, Usual(), root="llm").newest
        assert found is not None
        assert found.uri == "pvc://ml/ckpt/llm/run-1/step-800"

    @pytest.mark.parametrize(
        ("training", "standing", "why"),
        [
            (LLM, Standing.FRESH, ""),
            (replace(LLM, pods=4), Standing.UNKNOWN, "shared"),
            (replace(LLM, pods=4, bound=True), Standing.FRESH, ""),
        ],
        ids=["one", "apart", "ranks"],
    )
    def test_of_several_pods_nobody_knows_whose_directory_was_written_to_last(
        self, training: Training, standing: Standing, why: str
    ) -> None:
        found = freshness(training, below(shelf(self.B)), NOON, Usual(), root="llm")
        known = last(found)
        assert (found.standing, known.why if isinstance(known, Unsaved) else "") == (standing, why)
        assert (save_rows.row(found).lost_since_at is None) is bool(why)
        late = freshness(training, below(shelf(saved(NOON - 9 * HOUR))), NOON, Usual(), root="llm")
        assert late.standing is Standing.CRITICAL, "and everybody's is at least as old"
        assert freshness(training, shelf(self.B), NOON, Usual()).standing is Standing.FRESH, "their own directory"

    def test_what_was_dated_ahead_stays_of_unknown_age_once_that_moment_has_passed(self) -> None:
        """It was complete when it was seen first, so it is at least as old as that; by how much more, nobody knows."""
        first = {(self.A.path, clock("12:07:00")): NOON}
        found = freshness(LLM, shelf(self.A), NOON + 1200, Usual(), first=first)
        assert (found.age_s, found.skew_s, found.due_at) == (1200.0, 420.0, NOON + HOUR + 360)
        assert found.at_risk_s == 1200.0 + 18, "and its save took 18 s"
        known = last(found)
        assert (isinstance(known, Unsaved) and known.why) == "clock"
        assert kinds(found) == ["checkpoint-skew"]
        later = freshness(LLM, shelf(self.A), NOON + 2.1 * HOUR, Usual(), first=first)
        assert later.standing is Standing.CRITICAL

    def test_a_file_that_keeps_its_time_is_as_old_as_it_says(self) -> None:
        first = {(self.B.path, self.B.committed_at or 0.0): NOON}
        assert freshness(LLM, shelf(self.B), NOON + 60, Usual(), first=first).age_s == 360.0

    def test_two_seconds_are_no_skew(self) -> None:
        assert freshness(LLM, shelf(saved(NOON + 2)), NOON, Usual()).skew_s == 0.0


COST = 60.0
DUE, SLACK = HOUR + COST, 360.0  # a tenth of the interval


@pytest.mark.parametrize(
    ("age_s", "standing"),
    [
        (0, Standing.FRESH),
        (DUE, Standing.FRESH),
        (DUE + 1, Standing.LATE),
        (DUE + SLACK, Standing.LATE),
        (DUE + SLACK + 1, Standing.STALE),
        (2 * HOUR + COST, Standing.STALE),
        (2 * HOUR + COST + 1, Standing.CRITICAL),
    ],
)
def test_stale_and_critical(age_s: float, standing: Standing) -> None:
    found = freshness(LLM, shelf(saved(NOON - age_s)), NOON, Usual(cost_s=COST))
    assert (found.standing, found.age_s) == (standing, age_s)
    assert found.due_at == NOON - age_s + DUE + SLACK


@pytest.mark.parametrize(("interval_s", "slack_s"), [(30.0, 15.0), (120.0, 60.0), (600.0, 60.0), (36_000.0, 3600.0)])
def test_stale_comes_before_critical_whatever_the_interval(interval_s: float, slack_s: float) -> None:
    training = replace(LLM, interval_s=interval_s)
    found = freshness(training, shelf(saved(NOON - interval_s - slack_s - 0.1)), NOON, Usual())
    assert found.standing is Standing.STALE


@pytest.mark.parametrize(
    ("training", "standing"),
    [
        (LLM, Standing.CRITICAL),
        (replace(LLM, life=Life.FINISHED), Standing.RESTING),
        (replace(LLM, life=Life.SUSPENDED), Standing.RESTING),
        (replace(LLM, started_at=NOON - HOUR), Standing.STARTING),
        (replace(LLM, started_at=NOON - HOUR - 1), Standing.CRITICAL),
        (replace(LLM, started_at=None), Standing.CRITICAL),
        (replace(LLM, running_since_at=NOON - 600), Standing.STARTING),
        (replace(LLM, running_since_at=NOON - HOUR - 1), Standing.CRITICAL),
    ],
)
def test_nothing_is_due_from_who_rests_or_begins(training: Training, standing: Standing) -> None:
    assert freshness(training, shelf(saved(NOON - 2.5 * HOUR)), NOON, Usual()).standing is standing


def test_a_job_that_starts_over_and_over_is_told() -> None:
    training = replace(LLM, running_since_at=NOON - 60)
    assert freshness(training, shelf(saved(NOON - 3.1 * HOUR)), NOON, Usual()).standing is Standing.CRITICAL


@pytest.mark.parametrize(
    ("training", "standing"),
    [
        (LLM, Standing.NONE),
        (replace(LLM, started_at=NOON - HOUR), Standing.STARTING),
        (replace(LLM, interval_s=None, started_at=NOON - HOUR), Standing.STARTING),
        (replace(LLM, interval_s=None), Standing.NONE),
        (replace(LLM, life=Life.SUSPENDED), Standing.RESTING),
    ],
)
def test_nothing_complete(training: Training, standing: Standing) -> None:
    weights = saved(NOON - 60, 7, state=State.PARTIAL_STATE)
    for found in (None, shelf(weights)):
        told = freshness(training, found, NOON, Usual())
        assert (told.standing, told.age_s, told.newest) == (standing, None, None)
    assert told.weights_only == 1


def test_without_a_target_what_usually_happens_is_the_target() -> None:
    training = replace(LLM, interval_s=None)
    assert freshness(training, shelf(saved(NOON - 60)), NOON, Usual()).standing is Standing.UNKNOWN
    found = freshness(training, shelf(saved(NOON - 2000)), NOON, Usual(interval_s=900.0))
    assert (found.standing, found.target_s, found.observed) == (Standing.CRITICAL, 900.0, True)
    assert not freshness(LLM, shelf(saved(NOON)), NOON, Usual(interval_s=900.0)).observed


def test_what_a_run_would_resume_from_is_told_apart() -> None:
    lacking = saved(NOON - 60, 200, components=replace(WHOLE, position=Presence.UNKNOWN))
    found = freshness(LLM, shelf(saved(NOON - 900, 100), lacking), NOON, Usual())
    assert found.newest is not None
    assert found.resumable is not None
    assert (found.newest.step, found.resumable.step, found.at_risk_s) == (200, 100, 918.0), "and its save took 18 s"
    resumed = replace(LLM, running_since_at=NOON - 300)
    assert freshness(resumed, shelf(saved(NOON - 900)), NOON, Usual()).at_risk_s == 300.0, "it began again from there"
    assert freshness(LLM, None, NOON, Usual()).at_risk_s == 30 * HOUR


SAID = Report(NOON - 60, 500, duration_s=30.0, received_at=NOON - 59)


@pytest.mark.parametrize(
    ("trouble", "report", "standing"),
    [
        ("not-granted", None, Standing.NOT_GRANTED),
        ("no-place", None, Standing.UNKNOWN),
        ("local", None, Standing.UNKNOWN),
        ("denied", None, Standing.UNREADABLE),
        ("silent", None, Standing.UNREADABLE),
        ("no-place", SAID, Standing.REPORTED),
        ("not-granted", replace(SAID, at=NOON - 2 * HOUR), Standing.STALE),
        ("denied", replace(SAID, at=NOON - 9 * HOUR), Standing.CRITICAL),
        ("denied", replace(SAID, at=NOON + HOUR, received_at=NOON - 9 * HOUR), Standing.CRITICAL),
    ],
)
def test_where_no_store_was_read(trouble: str, report: Report | None, standing: Standing) -> None:
    found = unread(LLM, NOON, Usual(), report, trouble)
    assert (found.standing, found.read, found.newest) == (standing, False, None)
    assert (found.at_risk_s is None) == (report is None)
    rests = replace(LLM, life=Life.FINISHED)
    assert unread(rests, NOON, Usual(), report, trouble).standing is Standing.RESTING


def test_a_report_lowers_no_age_that_a_store_shows() -> None:
    found = freshness(LLM, shelf(saved(NOON - 9 * HOUR)), NOON, Usual(), SAID)
    assert (found.standing, found.age_s, found.report) == (Standing.CRITICAL, 9 * HOUR, SAID)


def test_the_declared_directory_counts_else_the_one_written_to_last() -> None:
    def at(path: str, last: float) -> Shelf:
        return Shelf(path, (saved(last),), None, None, None)

    assert chosen([at("llm", 1.0), at("llm/eval", 9.0)], "llm") == at("llm", 1.0)
    assert chosen([at("llm/run-1", 1.0), at("llm/run-2", 9.0)], "llm") == at("llm/run-2", 9.0)
    assert chosen([], "llm") is None


# Rows and concerns


def kinds(found: Freshness) -> list[str]:
    return [kind for kind, _, _ in save_rows.concerns(save_rows.row(found))]


def test_what_needs_a_person() -> None:
    broken = Checkpoint("step-300", Format.DCP, State.CORRUPT, 300, notes=(Note(Sign.ENDS_EARLY, "step-300/x"),))
    worst = freshness(LLM, shelf(saved(NOON - 9 * HOUR), broken), NOON, Usual())
    assert kinds(worst) == ["checkpoint-critical", "checkpoint-corrupt"]
    row = save_rows.row(worst)
    (_, since, facts), (_, _, about) = save_rows.concerns(row)
    assert (since, dict(facts)["target"]) == (NOON - 9 * HOUR + HOUR + 360, "1h")
    assert dict(about) == {
        "state": "corrupt",
        "step": 300,
        "file": "step-300/x",
        "older": NOON - 9 * HOUR,
        "older-step": 100,
    }
    assert kinds(freshness(LLM, None, NOON, Usual())) == ["checkpoint-none"]
    assert kinds(freshness(LLM, shelf(saved(NOON + 400)), NOON, Usual())) == ["checkpoint-skew"]
    assert kinds(unread(LLM, NOON, Usual(), None, "not-granted")) == ["checkpoint-not-granted"]
    assert kinds(unread(LLM, NOON, Usual(), None, "denied")) == ["checkpoint-unreadable"]
    assert kinds(freshness(LLM, shelf(saved(NOON)), NOON, Usual())) == []
    assert kinds(freshness(replace(LLM, life=Life.FINISHED), shelf(broken), NOON, Usual())) == []


def test_a_row_does_not_change_while_nothing_happens() -> None:
    first, later = (save_rows.row(freshness(LLM, shelf(saved(NOON)), NOON + s, Usual())) for s in (0, 30))
    assert first == later


def test_when_nobody_scans_no_good_standing_holds() -> None:
    good, bad = (save_rows.row(freshness(LLM, shelf(saved(NOON - s)), NOON, Usual())) for s in (0, 9 * HOUR))
    assert (save_rows.unscanned(good).standing, save_rows.unscanned(good).trouble) == ("unknown", "no-scan")
    assert save_rows.unscanned(bad) == bad


# History


def test_intervals_between_saves() -> None:
    run = [Save(100, 10, 5.0, 1000), Save(220, 20, 7.0, 1200), Save(340, 30, None, 1100)]
    assert intervals(run[::-1]) == (Interval(220, 120, 10), Interval(340, 120, 10))
    found = usual(run)
    assert (found.saves, found.interval_s, found.cost_s, found.size_bytes, found.step_s) == (3, 120, 6.0, 1100, 12.0)


def test_a_run_that_went_back_begins_anew() -> None:
    found = intervals([Save(100, 10), Save(220, 20), Save(900, 10), Save(1020, 20)])
    assert [each.interval_s for each in found] == [120, 120]


def test_saves_of_another_run_say_nothing_of_this_one() -> None:
    mine = [Save(600.0 * n, step=10 * n) for n in range(10)]
    ahead = [Save(600.0 * n - 100, step=10 * n + 45) for n in range(10)]  # a copy of a run that was further at any time
    assert usual(mine + ahead).interval_s == 600.0


def test_the_latest_saves_alone_are_usual() -> None:
    old = [Save(n * 10.0, n, 1.0) for n in range(100)]
    new = [Save(10_000 + n * 60.0, 1000 + n, 9.0) for n in range(save_history.LATEST)]
    assert (usual(old + new).interval_s, usual(old + new).cost_s) == (60.0, 9.0)
    assert usual([]) == Usual()
    assert (usual([Save(5)]).interval_s, usual([Save(5)]).cost_s) == (None, None)


class TestTheStateThatACheckpointHolds:
    """What a save writes is the state at its beginning, and it is committed at its end."""

    def test_it_is_as_old_as_the_first_byte(self) -> None:
        assert freshness(LLM, shelf(saved(NOON - 900, first_byte_at=NOON - 960)), NOON, Usual()).at_risk_s == 960.0

    def test_a_usual_save_tells_where_files_do_not(self) -> None:
        one_file = saved(NOON - 900, first_byte_at=NOON - 900)
        assert freshness(LLM, shelf(one_file), NOON, Usual(cost_s=45.0)).at_risk_s == 945.0

    def test_the_earlier_of_both_counts(self) -> None:
        slow = saved(NOON - 900, first_byte_at=NOON - 1_000)
        assert freshness(LLM, shelf(slow), NOON, Usual(cost_s=45.0)).at_risk_s == 1_000.0

    def test_a_file_that_was_copied_with_its_time_is_no_older_than_the_save_before(self) -> None:
        before, copied = saved(NOON - 1_800), saved(NOON - 900, 200, first_byte_at=NOON - 90_000)
        assert freshness(LLM, shelf(before, copied), NOON, Usual()).at_risk_s == 1_800.0

    def test_a_report_counts_from_the_beginning_of_its_save(self) -> None:
        said = unread(LLM, NOON, Usual(), Report(NOON - 300, 100, duration_s=20.0), "not-granted")
        assert said.at_risk_s == 320.0

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (Report(NOON - 300, 100, received_at=NOON - 300), "untimed"),
            (Report(NOON - 10, 100, duration_s=1.0, received_at=NOON - 600), "clock"),
            (Report(NOON + 300, 100, duration_s=1.0, received_at=NOON), "clock"),
        ],
        ids=["first ever", "ahead", "of the future"],
    )
    def test_a_report_that_nobody_can_date_is_no_number(self, said: Report, why: str) -> None:
        known = last(unread(LLM, NOON, Usual(), said, "not-granted"))
        assert (isinstance(known, Unsaved) and known.why) == why
        told = unread(LLM, NOON, Usual(cost_s=30.0), Report(NOON - 300, received_at=NOON), "not-granted")
        assert told.at_risk_s == 330.0, "a save that was seen before tells how long one takes"

    def test_plans_count_from_there_as_well(self) -> None:
        found = last(freshness(LLM, shelf(saved(NOON - 900, first_byte_at=NOON - 960)), NOON, Usual()))
        assert isinstance(found, Saved)
        assert (NOON - found.at, NOON - found.lost_since_at) == (900.0, 960.0)
