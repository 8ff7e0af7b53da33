"""How a run of a set length is saved at an interval, counted out, and whether one save fits into a notice.

Owns the three ways of counting, since "40 hours, a save every 30 minutes" does not say whether saves extend the run nor
whether the end is saved, and the notices that platforms give. Must not judge which interval is best: `cadence` does.
"""

from enum import StrEnum
from fractions import Fraction
from math import ceil, floor
from typing import Final

from msgspec import Struct


class Convention(StrEnum):
    """A: one save per interval, the last at the end; saves extend the run. B: as A without the save at the end.

    C: the length is wall clock, in which an interval of work and a save alternate.
    """

    SAVED_AT_END = "A"
    UNSAVED_AT_END = "B"
    WALL_CLOCK = "C"


class Saving(Struct, frozen=True, kw_only=True):
    """One run. `unsaved_s`: work after the last save that was finished. Percentages have two digits, halves rounded up."""

    convention: Convention
    interval_s: float
    saves: int
    saving_s: float
    work_s: float
    wall_s: float
    unsaved_s: float
    of_work_pct: float
    of_wall_pct: float


def savings(length_s: float, save_cost_s: float, interval_s: float) -> tuple[Saving, Saving, Saving]:
    """A run of `length_s` by each convention. All above 0."""
    length, cost, interval = Fraction(length_s), Fraction(save_cost_s), Fraction(interval_s)
    intervals = ceil(length / interval)
    left = length - (intervals - 1) * interval
    cycles = floor(length / (interval + cost))
    rest = length - cycles * (interval + cost)
    tail = min(rest, interval)
    begun = rest - tail  # of a save that the end cuts off
    return (
        _saving(Convention.SAVED_AT_END, interval, intervals, intervals * cost, length, Fraction(0)),
        _saving(Convention.UNSAVED_AT_END, interval, intervals - 1, (intervals - 1) * cost, length, left),
        _saving(Convention.WALL_CLOCK, interval, cycles, cycles * cost + begun, cycles * interval + tail, tail),
    )


def _saving(
    convention: Convention, interval: Fraction, saves: int, saving: Fraction, work: Fraction, unsaved: Fraction
) -> Saving:
    return Saving(
        convention=convention,
        interval_s=float(interval),
        saves=saves,
        saving_s=float(saving),
        work_s=float(work),
        wall_s=float(work + saving),
        unsaved_s=float(unsaved),
        of_work_pct=percent(saving, work),
        of_wall_pct=percent(saving, work + saving),
    )


def percent(part: Fraction, whole: Fraction) -> float:
    """Two digits, halves up: 9.875 is 9.88. Exact, since both are fractions."""
    return floor(10_000 * part / whole + Fraction(1, 2)) / 100


class Notice(StrEnum):
    """Who says how long before the end. Seconds in `LEADS_S`; the grace period is what a pod's manifest says."""

    AWS_SPOT = "aws-spot"
    GCP_SPOT = "gcp-spot"
    AZURE_SPOT = "azure-spot"
    DEFAULT_GRACE = "default-grace"
    GRACE = "grace"


# Documentation of AWS, Google Cloud and Azure for spot machines, of Kubernetes for terminationGracePeriodSeconds.
LEADS_S: Final = {Notice.AWS_SPOT: 120.0, Notice.GCP_SPOT: 30.0, Notice.AZURE_SPOT: 30.0, Notice.DEFAULT_GRACE: 30.0}


class Fit(Struct, frozen=True):
    """Whether a save that begins with the notice is finished before the end. `spare_s`: negative is what it lacks."""

    notice: Notice
    lead_s: float
    fits: bool
    spare_s: float


def fits(save_s: float, grace_s: float | None = None) -> tuple[Fit, ...]:
    """Of a whole save, its write in the background included. A preStop hook's time is part of the grace period."""
    leads = LEADS_S if grace_s is None else LEADS_S | {Notice.GRACE: grace_s}
    return tuple(Fit(notice, lead_s, save_s <= lead_s, lead_s - save_s) for notice, lead_s in leads.items())
