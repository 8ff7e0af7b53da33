"""What the saves of one workload so far tell: how far apart they are, how long one takes, how large it is.

Owns the arithmetic of a list of saves. Must not know where they were seen.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct

LATEST: Final = 20  # saves that a usual value is made of: what was long ago had another model, or another disk


class Save(Struct, frozen=True):
    """One checkpoint that was complete. `duration_s`: from its first file's time to its commit, so at least what the save took;
    None: one file, which does not tell, or files of a single moment."""

    at: float  # its commit, seconds since 1970
    step: int | None = None
    duration_s: float | None = None
    size_bytes: int = 0
    path: str = ""


class Interval(Struct, frozen=True):
    """Between one save and the next. `steps`: None where one of them has no step, or the run went back."""

    at: float  # of the later one
    interval_s: float
    steps: int | None = None


class Usual(Struct, frozen=True):
    """Medians over the latest saves; None where too few tell. `cost_s`: what a save takes."""

    saves: int = 0
    interval_s: float | None = None
    cost_s: float | None = None
    size_bytes: int | None = None
    step_s: float | None = None


def intervals(saves: Iterable[Save]) -> tuple[Interval, ...]:
    """By commit moment. A save that goes back in steps begins anew: a run that was rolled back, or another one."""
    found = sorted(saves, key=lambda save: save.at)
    return tuple(
        Interval(b.at, b.at - a.at, _steps(a, b)) for a, b in pairwise(found) if b.at > a.at and _follows(a, b)
    )


def usual(saves: Iterable[Save]) -> Usual:
    """Of the run that saved last."""
    found = _one_run(sorted(saves, key=lambda save: save.at)[-LATEST:])
    between = intervals(found)
    per_step = [each.interval_s / each.steps for each in between if each.steps]
    return Usual(
        saves=len(found),
        interval_s=_median([each.interval_s for each in between]),
        cost_s=_median([save.duration_s for save in found if save.duration_s is not None]),
        size_bytes=round(median([save.size_bytes for save in found])) if found else None,
        step_s=_median(per_step),
    )


def _one_run(saves: Sequence[Save]) -> list[Save]:
    """Those that led to the last one: steps only grow in a run. Saves of another run of the same name and even of the same time,
    as a restored or copied directory has them, say nothing of how often this one saves."""
    found: list[Save] = []
    for save in reversed(saves):
        if not found or _follows(save, found[-1]):
            found.append(save)
    return found[::-1]


def _steps(before: Save, after: Save) -> int | None:
    return None if before.step is None or after.step is None else after.step - before.step


def _follows(before: Save, after: Save) -> bool:
    return before.step is None or after.step is None or after.step > before.step


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
