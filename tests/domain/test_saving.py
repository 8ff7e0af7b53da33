"""A run's saves counted out: the lesson's example by three conventions, halves rounded up, and saves that fit a notice or not."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.saving import Convention, Notice, fits, percent, savings

MIN, H = 60, 3_600


# 40 hours, 3 minutes a save: saves, minutes of saving, of work, of wall time and unsaved at the end, % of work, % of wall time.
@pytest.mark.parametrize(("interval_min", "told"), [
    (30, [(80, 240, 2_400, 2_640, 0, 10.0, 9.09),
          (79, 237, 2_400, 2_637, 30, 9.88, 8.99),
          (72, 216, 2_184, 2_400, 24, 9.89, 9.0)]),
    (120, [(20, 60, 2_400, 2_460, 0, 2.5, 2.44),
           (19, 57, 2_400, 2_457, 120, 2.38, 2.32),
           (19, 57, 2_343, 2_400, 63, 2.43, 2.38)]),
])  # fmt: skip
def test_the_lessons_run_by_each_convention(interval_min, told):
    found = savings(40 * H, 3 * MIN, interval_min * MIN)
    assert [one.convention for one in found] == list(Convention)
    for one, (saves, saving, work, wall, unsaved, of_work, of_wall) in zip(found, told, strict=True):
        assert one.saves == saves
        assert [one.saving_s, one.work_s, one.wall_s, one.unsaved_s] == [MIN * n for n in (saving, work, wall, unsaved)]
        assert [one.of_work_pct, one.of_wall_pct] == [of_work, of_wall]


def test_an_interval_that_does_not_divide_the_run_saves_its_rest_too():
    at_end, not_at_end, wall = savings(100, 10, 30)
    assert (at_end.saves, at_end.saving_s, at_end.unsaved_s) == (4, 40, 0)
    assert (not_at_end.saves, not_at_end.saving_s, not_at_end.unsaved_s) == (3, 30, 10)
    assert (wall.saves, wall.saving_s, wall.work_s, wall.unsaved_s) == (2, 20, 80, 20)


def test_a_save_that_the_end_cuts_off_took_time_and_saved_nothing():
    wall = savings(75, 10, 30)[2]
    assert (wall.saves, wall.saving_s, wall.work_s, wall.unsaved_s) == (1, 15, 60, 30)


def test_a_run_shorter_than_the_interval():
    at_end, not_at_end, wall = savings(20, 10, 30)
    assert [one.saves for one in (at_end, not_at_end, wall)] == [1, 0, 0]
    assert [one.unsaved_s for one in (at_end, not_at_end, wall)] == [0, 20, 20]


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**5))
def test_time_adds_up_by_each_convention(length_s, cost_s, interval_s):
    at_end, not_at_end, wall = savings(length_s, cost_s, interval_s)
    assert at_end.saves == not_at_end.saves + 1
    assert at_end.work_s == not_at_end.work_s == wall.wall_s == length_s
    assert wall.work_s + wall.saving_s == length_s
    assert 0 < not_at_end.unsaved_s <= interval_s
    assert wall.unsaved_s <= interval_s


@pytest.mark.parametrize(("part", "whole", "told"), [
    (237, 2_400, 9.88), (57, 2_400, 2.38), (1, 3, 33.33), (2, 3, 66.67), (0, 5, 0.0), (1_005, 100_000, 1.01),
])  # fmt: skip
def test_halves_are_rounded_up(part, whole, told):
    assert percent(Fraction(part), Fraction(whole)) == told


def test_three_minutes_fit_no_notice_of_a_spot_machine_nor_the_lessons_grace():
    found = fits(180, grace_s=60)
    assert [one.notice for one in found] == list(Notice)
    assert not any(one.fits for one in found)
    assert [one.spare_s for one in found] == [-60, -150, -150, -150, -120]


def test_a_save_may_take_the_whole_notice_and_the_grace_is_left_out_when_nobody_says_it():
    assert {one.notice: one.fits for one in fits(30)} == {
        Notice.AWS_SPOT: True, Notice.GCP_SPOT: True, Notice.AZURE_SPOT: True, Notice.DEFAULT_GRACE: True,
    }  # fmt: skip
