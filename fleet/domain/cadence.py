"""How often to save: Young, Daly, the exact optimum, what an interval costs and what a failure loses.

Owns the formulas of one run that saves, fails and resumes. δ is the save's cost (the time that training stands still), M the
mean time between failures of everything that the run needs, τ the work between two saves. The model: failures are a Poisson
process, also during saves; δ is constant; the time to restart is left out, since no interval changes it. Must not know where
δ and M come from.

Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, Future Generation Computer Systems 22, 2006. The time that a run is
expected to take per second of work, M (e^((τ+δ)/M) − 1) / τ, is Daly's as well.
"""

import math
from itertools import pairwise
from typing import Final

from msgspec import Struct

from fleet.domain.saving import Fit, Saving, fits, savings

LEAST_S: Final = 0.001  # of any time that somebody enters, and the most
LONGEST_S: Final = 100 * 365 * 86_400
MOST_INTERVALS: Final = 12
CURVE_POINTS: Final = 97
REACH: Final = 6  # how many times shorter and longer than the best interval the curve goes
MARGIN: Final = 1.5  # and than those that were asked about


class Share(Struct, frozen=True):
    """What saving at an interval costs, as shares of the work: `overhead` = `saving` + `redoing`, in the exponential model.

    None: so much that the run practically never ends. `first_order`: δ/τ + τ/(2M), for comparison.
    """

    interval_s: float
    saving: float
    redoing: float | None
    overhead: float | None
    first_order: float


class LostWork(Struct, frozen=True):
    """What one failure loses at an interval: work on average and at most, and the longest time since what is kept was done.

    `overlaps`: a save begins while the one before is still being written, so the interval cannot be kept.
    """

    interval_s: float
    mean_s: float
    most_work_s: float
    most_wall_s: float
    overlaps: bool


class BreakEven(Struct, frozen=True):
    """Under this mean time between failures the shorter interval costs less, above it the longer one."""

    shorter_s: float
    longer_s: float
    first_order_s: float
    exponential_s: float


def young(save_cost_s: float, mtbf_s: float) -> float:
    """√(2δM): first order, for δ much smaller than M."""
    return math.sqrt(2 * save_cost_s * mtbf_s)


def daly(save_cost_s: float, mtbf_s: float) -> float:
    """√(2δM) (1 + ⅓ √(δ/2M) + ⅑ δ/2M) − δ while δ < 2M, else M. The two do not meet: at the limit the formula jumps."""
    if not daly_holds(save_cost_s, mtbf_s):
        return mtbf_s
    part = save_cost_s / (2 * mtbf_s)
    return young(save_cost_s, mtbf_s) * (1 + math.sqrt(part) / 3 + part / 9) - save_cost_s


def daly_holds(save_cost_s: float, mtbf_s: float) -> bool:
    """Whether Daly's series is meant for these: δ < 2M."""
    return save_cost_s < 2 * mtbf_s


def optimum(save_cost_s: float, mtbf_s: float) -> float:
    """The τ that minimises `overhead`: with x = τ/M the only root in (0, 1] of ln(1 − x) + x + δ/M = 0.

    The left side falls from δ/M at 0, and is at most δ/M − x²/2, so the root is under √(2δ/M).
    """
    part = save_cost_s / mtbf_s
    low, high = 0.0, min(1.0, math.sqrt(2 * part))
    while low < (x := (low + high) / 2) < high:
        low, high = (x, high) if math.log1p(-x) + x + part > 0 else (low, x)
    return high * mtbf_s


def overhead(interval_s: float, save_cost_s: float, mtbf_s: float, write_s: float = 0.0) -> float:
    """Time beyond the work, as a share of it: e^(P/M) M (e^((τ+δ)/M) − 1) / τ − 1. Infinite where floats end.

    `write_s`, P, is what an asynchronous save writes on after training goes on. A failure in it loses one more interval, so a
    failure loses P more on average; this counts it like a time to restart, which is exact to first order and moves no optimum.
    """
    try:
        grown = math.exp(write_s / mtbf_s) * math.expm1((interval_s + save_cost_s) / mtbf_s)
    except OverflowError:
        return math.inf
    return mtbf_s * grown / interval_s - 1


def share(interval_s: float, save_cost_s: float, mtbf_s: float, write_s: float = 0.0) -> Share:
    whole, saving = overhead(interval_s, save_cost_s, mtbf_s, write_s), save_cost_s / interval_s
    first_order = saving + (interval_s / 2 + write_s) / mtbf_s
    if math.isinf(whole):
        return Share(interval_s, saving, None, None, first_order)
    return Share(interval_s, saving, max(0.0, whole - saving), whole, first_order)


def loss(interval_s: float, save_cost_s: float, mtbf_s: float, write_s: float = 0.0) -> LostWork:
    """Of a failure between the end of one save and the end of the next.

    On average (M (1 − e^(−τ/M)) − τ e^(−(τ+δ)/M)) / (1 − e^(−(τ+δ)/M)): about half the interval, and P more with asynchronous
    saves.
    """
    work, cycle = interval_s / mtbf_s, (interval_s + save_cost_s) / mtbf_s
    mean_s = mtbf_s * (-math.expm1(-work) - work * math.exp(-cycle)) / -math.expm1(-cycle) + write_s
    return LostWork(
        interval_s=interval_s,
        mean_s=mean_s,
        most_work_s=interval_s + write_s,
        most_wall_s=interval_s + save_cost_s + write_s,
        overlaps=interval_s < write_s,
    )


def break_even(shorter_s: float, longer_s: float, save_cost_s: float) -> BreakEven:
    """τ₁τ₂/(2δ) to first order; in the exponential model the M at which both `overhead`s are equal, which is longer.

    As power series in 1/M the difference of the two changes its sign once, so there is one such M; infinite where floats cannot
    tell the two intervals apart.
    """
    first_order_s = shorter_s * longer_s / (2 * save_cost_s)

    def longer_costs_less(mtbf_s: float) -> bool:
        return _log_cost(longer_s, save_cost_s, mtbf_s) < _log_cost(shorter_s, save_cost_s, mtbf_s)

    low, high = first_order_s, 2 * first_order_s
    while high < math.inf and not longer_costs_less(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if longer_costs_less(middle) else (middle, high)
    return BreakEven(shorter_s, longer_s, first_order_s, high)


def _log_cost(interval_s: float, save_cost_s: float, mtbf_s: float) -> float:
    """ln(1 + `overhead`) for any M: ln(1 + δ/τ) + ln((e^y − 1) / y) with y = (τ+δ)/M, by its series where floats would cancel."""
    y = (interval_s + save_cost_s) / mtbf_s
    grown = y / 2 + y * y / 24 if y < 1e-3 else y + math.log(-math.expm1(-y)) - math.log(y)
    return math.log1p(save_cost_s / interval_s) + grown


class CadenceError(ValueError):
    """What was entered is out of bounds: which value, and why (`too-short`, `too-long`, `too-many`)."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field.replace('_', ' ')}: {_SENTENCES[why]}")
        self.field = field
        self.why = why


_SENTENCES: Final = {
    "too-short": "has to be at least a millisecond",
    "too-long": "has to be at most a hundred years",
    "too-many": f"at most {MOST_INTERVALS} can be compared",
}


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked, in seconds. Raises CadenceError when made of values out of bounds.

    `write_s`: what an asynchronous save writes on after training goes on. `horizon_s`: how long the run is, for counting its
    saves out. `grace_s`: the grace period of its pods.
    """

    save_cost_s: float
    mtbf_s: float
    intervals_s: tuple[float, ...] = ()
    horizon_s: float | None = None
    write_s: float = 0.0
    grace_s: float | None = None

    def __post_init__(self) -> None:
        given = (("save_cost", self.save_cost_s), ("mtbf", self.mtbf_s), ("horizon", self.horizon_s))
        for name, seconds in (*given, *(("interval", s) for s in self.intervals_s)):
            if seconds is not None:
                _check(name, seconds, LEAST_S)
        for name, seconds in (("write", self.write_s), ("grace", self.grace_s)):
            if seconds is not None:
                _check(name, seconds, 0.0)
        if len(self.intervals_s) > MOST_INTERVALS:
            raise CadenceError("interval", "too-many")


def _check(name: str, seconds: float, least_s: float) -> None:
    if not seconds >= least_s:
        raise CadenceError(name, "too-short")
    if seconds > LONGEST_S:
        raise CadenceError(name, "too-long")


class Cadence(Struct, frozen=True, kw_only=True):
    """How often to save. `best_s`: the optimum, or the write of an asynchronous save where that takes longer.

    `overheads` and `losses`: of the best interval first, then of those that were asked about, shorter ones first. `savings`:
    each of the latter by three conventions. `curve`: overheads around them all, at intervals in equal ratios.
    """

    save_cost_s: float
    mtbf_s: float
    write_s: float
    young_s: float
    daly_s: float
    daly_holds: bool
    optimum_s: float
    best_s: float
    overheads: tuple[Share, ...]
    losses: tuple[LostWork, ...]
    break_evens: tuple[BreakEven, ...]
    savings: tuple[Saving, ...]
    fits: tuple[Fit, ...]
    curve: tuple[Share, ...]


def cadence(wanted: Wanted) -> Cadence:
    cost_s, mtbf_s, write_s, length_s = wanted.save_cost_s, wanted.mtbf_s, wanted.write_s, wanted.horizon_s
    optimum_s = optimum(cost_s, mtbf_s)
    best_s = max(optimum_s, write_s)
    asked = sorted({round(seconds, 3) for seconds in wanted.intervals_s})
    return Cadence(
        save_cost_s=cost_s,
        mtbf_s=mtbf_s,
        write_s=write_s,
        young_s=young(cost_s, mtbf_s),
        daly_s=daly(cost_s, mtbf_s),
        daly_holds=daly_holds(cost_s, mtbf_s),
        optimum_s=optimum_s,
        best_s=best_s,
        overheads=tuple(share(s, cost_s, mtbf_s, write_s) for s in (best_s, *asked)),
        losses=tuple(loss(s, cost_s, mtbf_s, write_s) for s in (best_s, *asked)),
        break_evens=tuple(break_even(shorter, longer, cost_s) for shorter, longer in pairwise(asked)),
        savings=tuple(one for s in asked if length_s is not None for one in savings(length_s, cost_s, s)),
        fits=fits(cost_s + write_s, wanted.grace_s),
        curve=tuple(share(s, cost_s, mtbf_s, write_s) for s in _spread(best_s, asked)),
    )


def _spread(best_s: float, asked: list[float]) -> list[float]:
    low = min([best_s / REACH, *(s / MARGIN for s in asked)])
    high = max([best_s * REACH, *(s * MARGIN for s in asked)])
    return [low * (high / low) ** (i / (CURVE_POINTS - 1)) for i in range(CURVE_POINTS)]
