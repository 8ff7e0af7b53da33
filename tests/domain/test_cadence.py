"""How often to save, against published values, an independent root, a simulation, and what has to hold for any run."""

import math
import random
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import cadence
from fleet.domain.cadence import CadenceError, Wanted

MIN, H = 60.0, 3_600.0
seconds = st.floats(0.01, 1e7)
# δ up to four times M, and M up to ten million times δ.
models = st.tuples(st.floats(0.01, 1e4), st.floats(-0.6, 7.0)).map(lambda drawn: (drawn[0], drawn[0] * 10 ** drawn[1]))


def root(save_cost_s: float, mtbf_s: float) -> float:
    """The exact optimum in another way: M (1 + W(−e^(−1−δ/M))), W by Newton's method with sixty digits."""
    with localcontext() as context:
        context.prec = 60
        part = Decimal(save_cost_s) / Decimal(mtbf_s)
        z = -(-1 - part).exp()
        w = -1 + (2 * (1 + z * Decimal(1).exp())).sqrt()
        for _ in range(200):
            grown = w.exp()
            step = (w * grown - z) / (grown * (1 + w))
            w -= step
            if abs(step) < Decimal(10) ** -40:
                break
        return float(Decimal(mtbf_s) * (1 + w))


# Daly 2006 gives 117, 57 and 9.1 minutes; δ = 5 min.
@pytest.mark.parametrize(("mtbf_s", "daly_min", "optimum_min"), [
    (24 * H, 116.69, 116.69), (6 * H, 56.71, 56.72), (15 * MIN, 9.14, 9.17),
])  # fmt: skip
def test_the_published_values(mtbf_s, daly_min, optimum_min):
    assert cadence.daly(300, mtbf_s) / MIN == pytest.approx(daly_min, abs=0.01)
    assert cadence.optimum(300, mtbf_s) / MIN == pytest.approx(optimum_min, abs=0.01)


@pytest.mark.parametrize(("mtbf_h", "often", "seldom", "optimum_min", "young_min"), [
    (24, 0.113, 0.070, 90.96, 92.95), (100, 0.103, 0.036, 187.7, 189.74), (5, 0.163, 0.267, 40.45, 42.43),
])  # fmt: skip
def test_the_lessons_run_at_three_rates_of_failure(mtbf_h, often, seldom, optimum_min, young_min):
    """Three minutes a save, every 30 minutes or every 2 hours."""
    assert cadence.overhead(30 * MIN, 180, mtbf_h * H) == pytest.approx(often, abs=0.0005)
    assert cadence.overhead(2 * H, 180, mtbf_h * H) == pytest.approx(seldom, abs=0.0005)
    assert cadence.optimum(180, mtbf_h * H) / MIN == pytest.approx(optimum_min, abs=0.05)
    assert cadence.young(180, mtbf_h * H) / MIN == pytest.approx(young_min, abs=0.01)


def test_dalys_formula_ends_at_twice_the_mtbf_and_jumps_there():
    assert cadence.daly_holds(19.9, 10)
    assert not cadence.daly_holds(20, 10)
    assert cadence.daly(19.9, 10) == pytest.approx(8.89, abs=0.01)
    assert cadence.daly(20, 10) == 10


@given(models)
def test_the_optimum_is_the_root_that_another_method_finds(model):
    assert cadence.optimum(*model) == pytest.approx(root(*model), rel=1e-7)


@given(models, st.floats(0.01, 100))
def test_no_interval_costs_less_than_the_optimum(model, factor):
    best = cadence.optimum(*model)
    assert cadence.overhead(best, *model) <= cadence.overhead(best * factor, *model) + 1e-9


@given(models)
def test_young_is_above_the_optimum_by_less_than_the_save_and_close_while_saves_are_cheap(model):
    save_cost_s, mtbf_s = model
    best, first_order = cadence.optimum(*model), cadence.young(*model)
    assert best <= first_order * (1 + 1e-9)
    assert first_order - best <= save_cost_s
    if save_cost_s < mtbf_s / 1_000:
        assert first_order == pytest.approx(best, rel=0.02)


@given(models)
def test_daly_is_close_to_the_optimum_within_its_limit(model):
    save_cost_s, mtbf_s = model
    if save_cost_s < mtbf_s / 2:
        assert cadence.daly(*model) == pytest.approx(cadence.optimum(*model), rel=0.01)


@given(models, st.floats(1.01, 10))
def test_dearer_saves_and_rarer_failures_make_intervals_longer(model, factor):
    save_cost_s, mtbf_s = model
    assert cadence.optimum(save_cost_s * factor, mtbf_s) >= cadence.optimum(*model)
    assert cadence.optimum(save_cost_s, mtbf_s * factor) > cadence.optimum(*model)


@given(seconds, models, st.floats(1.01, 10))
def test_overhead_falls_with_the_mtbf_and_grows_with_the_save(interval_s, model, factor):
    save_cost_s, mtbf_s = model
    before = cadence.overhead(interval_s, *model)
    assert cadence.overhead(interval_s, save_cost_s, mtbf_s * factor) <= before + 1e-9
    assert cadence.overhead(interval_s, save_cost_s * factor, mtbf_s) >= before - 1e-9


@given(seconds, models)
def test_an_overhead_is_its_two_parts_and_never_under_the_first_order_of_saving(interval_s, model):
    found = cadence.share(interval_s, *model)
    if found.overhead is not None:
        assert found.redoing is not None
        assert found.saving + found.redoing == pytest.approx(found.overhead, rel=1e-6, abs=1e-9)
        assert found.overhead >= found.first_order - 1e-6 * (1 + found.first_order)


def test_a_run_that_practically_never_ends_has_no_number():
    found = cadence.share(1e6, 180, 100)
    assert (found.overhead, found.redoing) == (None, None)
    assert found.first_order > 1_000


@given(st.floats(1, 1e4), st.floats(0, 3), st.floats(1e3, 1e7))
def test_a_failure_loses_half_an_interval_to_a_whole_one(interval_s, cost_part, mtbf_s):
    found = cadence.loss(interval_s, interval_s * cost_part, mtbf_s)
    assert 0 < found.mean_s <= found.most_work_s == interval_s
    assert found.most_wall_s == interval_s + interval_s * cost_part
    if not cost_part:
        assert found.mean_s <= interval_s / 2 * (1 + 1e-6)


def simulated(interval_s: float, save_cost_s: float, mtbf_s: float, write_s: float, cycles: int) -> tuple[float, float]:
    """Overhead, and mean work lost by a failure, of a run that is played: failures at any time, restarts at once.

    Each cycle is work and a save that blocks; what it saved counts once it is written, `write_s` later.
    """
    chance = random.Random(20)
    now, kept, at, lost = 0.0, 0.0, 0.0, []
    pending: list[tuple[float, float]] = []  # when what was saved counts, and how much it is
    failure = chance.expovariate(1 / mtbf_s)
    while kept < cycles * interval_s:
        saved_at = now + interval_s + save_cost_s
        pending, done = [one for one in pending if one[0] > now], [one for one in pending if one[0] <= now]
        kept = max([kept, *(work for _, work in done)])
        if failure < saved_at:
            kept = max([kept, *(work for when, work in pending if when <= failure)])
            lost.append(at + min(failure - now, interval_s) - kept)
            now, at, pending = failure, kept, []
            failure = now + chance.expovariate(1 / mtbf_s)
            continue
        now, at = saved_at, at + interval_s
        pending.append((now + write_s, at))
    return now / kept - 1, sum(lost) / len(lost)


@pytest.mark.parametrize(
    ("interval_s", "save_cost_s", "mtbf_s"), [(1_800, 180, 5 * H), (7_200, 180, 5 * H), (600, 300, 900)]
)
def test_a_played_run_costs_and_loses_what_the_formulas_say(interval_s, save_cost_s, mtbf_s):
    spent, lost = simulated(interval_s, save_cost_s, mtbf_s, 0.0, 40_000)
    assert spent == pytest.approx(cadence.overhead(interval_s, save_cost_s, mtbf_s), rel=0.03)
    assert lost == pytest.approx(cadence.loss(interval_s, save_cost_s, mtbf_s).mean_s, rel=0.03)


def test_a_played_run_with_asynchronous_saves_costs_and_loses_the_write_more_by_failure():
    run = (1_800.0, 20.0, 24 * H, 600.0)
    spent, lost = simulated(*run, 150_000)
    assert spent == pytest.approx(cadence.overhead(*run), rel=0.03)
    assert lost == pytest.approx(cadence.loss(*run).mean_s, rel=0.03)
    assert cadence.overhead(*run) > cadence.overhead(*run[:3]) + 0.9 * 600 / (24 * H)


def test_asynchronous_saves_move_no_optimum_but_no_interval_is_shorter_than_the_write():
    slow = cadence.cadence(Wanted(save_cost_s=2, mtbf_s=6 * H, write_s=900, intervals_s=(600,)))
    assert slow.optimum_s == cadence.optimum(2, 6 * H) < 900
    assert slow.best_s == 900
    assert [one.overlaps for one in slow.losses] == [False, True]
    assert slow.losses[0].most_work_s == 1_800


def test_the_lessons_break_even():
    found = cadence.break_even(30 * MIN, 2 * H, 180)
    assert found.first_order_s / MIN == 600
    assert found.exponential_s / MIN == pytest.approx(649.98, abs=0.01)


@given(st.floats(1, 1e5), st.floats(1.1, 50), st.floats(0.1, 1e3))
def test_under_the_break_even_the_shorter_interval_costs_less_above_it_the_longer(shorter_s, factor, save_cost_s):
    longer_s = shorter_s * factor
    found = cadence.break_even(shorter_s, longer_s, save_cost_s)
    assert found.exponential_s >= found.first_order_s * (1 - 1e-9)
    for mtbf_s, wins, loses in (
        (found.exponential_s * 0.9, shorter_s, longer_s), (found.exponential_s * 1.1, longer_s, shorter_s),
    ):  # fmt: skip
        costs = [cadence.overhead(s, save_cost_s, mtbf_s) for s in (wins, loses)]
        assert costs[0] <= costs[1] + 1e-9 or math.inf in costs


def test_everything_at_once():
    found = cadence.cadence(Wanted(save_cost_s=180, mtbf_s=24 * H, intervals_s=(7_200, 1_800, 1_800), horizon_s=40 * H))
    assert [one.interval_s for one in found.overheads] == [found.best_s, 1_800, 7_200]
    assert [one.interval_s for one in found.losses] == [found.best_s, 1_800, 7_200]
    assert [(one.shorter_s, one.longer_s) for one in found.break_evens] == [(1_800, 7_200)]
    assert [(one.interval_s, one.convention.value) for one in found.savings] == [
        (interval_s, letter) for interval_s in (1_800, 7_200) for letter in "ABC"
    ]
    intervals = [one.interval_s for one in found.curve]
    assert intervals == sorted(intervals)
    assert intervals[0] < 1_800 < found.best_s < 7_200 < intervals[-1]
    assert min(one.overhead or 0 for one in found.curve) >= (found.overheads[0].overhead or 0) - 1e-9


@pytest.mark.parametrize(("changed", "field", "why"), [
    ({"save_cost_s": 0.0}, "save_cost", "too-short"), ({"save_cost_s": -1.0}, "save_cost", "too-short"),
    ({"mtbf_s": math.nan}, "mtbf", "too-short"), ({"mtbf_s": math.inf}, "mtbf", "too-long"),
    ({"intervals_s": (60.0, 0.0)}, "interval", "too-short"), ({"intervals_s": (60.0,) * 13}, "interval", "too-many"),
    ({"horizon_s": 1e12}, "horizon", "too-long"), ({"write_s": -1.0}, "write", "too-short"),
    ({"grace_s": -1.0}, "grace", "too-short"),
])  # fmt: skip
def test_what_is_out_of_bounds_is_named(changed, field, why):
    with pytest.raises(CadenceError) as caught:
        Wanted(**({"save_cost_s": 180.0, "mtbf_s": 24 * H} | changed))
    assert (caught.value.field, caught.value.why) == (field, why)
