"""What may have changed between a confirmation and the eviction of a training pod, and what holds the pod."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet.domain.checkpoints import Components
from fleet.domain.confirmed_losses import Confirmed, Excess, excess, saved_first
from fleet.domain.found_saves import Found
from fleet.domain.freshness import Freshness, Report, Standing
from fleet.domain.training import Training

NOW = 1_800_000_000.0
HOUR = 3600.0
PLACE = "pvc://lab/ckpt/llm"
AGREED = Confirmed(HOUR, NOW - 1800, PLACE)
BEST = Found(NOW - 1800, 100, 0, Components(), f"{PLACE}/step-100")
SAID = Report(NOW - 1800, 100, duration_s=10.0, received_at=NOW - 1800)
WORD = replace(AGREED, reported=True)


def seen(best: Found | None = BEST, **more: Any) -> Freshness:
    known = Freshness(
        Training("Job/lab/llm", "lab", PLACE), Standing.FRESH, NOW, read=True, newest=best, resumable=best
    )
    return replace(known, **more)


@pytest.mark.parametrize(
    ("agreed", "found", "expected"),
    [
        (AGREED, seen(), None),
        (AGREED, seen(replace(BEST, at=NOW - 60, uri=f"{PLACE}/step-200")), None),
        (AGREED, seen(replace(BEST, state_at=NOW - HOUR - 1)), Excess.GROWN),
        (AGREED, seen(replace(BEST, at=NOW - 1801)), Excess.CHANGED),
        (AGREED, seen(replace(BEST, uri=f"{PLACE}/run-2/step-100")), Excess.CHANGED),
        (AGREED, seen(None), Excess.UNKNOWN),
        (AGREED, seen(replace(BEST, ahead_s=60.0)), Excess.UNKNOWN),
        (AGREED, seen(shared=True), Excess.UNKNOWN),
        (AGREED, seen(read=False, trouble="silent"), Excess.UNKNOWN),
        (WORD, seen(None, read=False, report=SAID), None),
        (WORD, seen(None, read=False, report=replace(SAID, at=NOW - 1900)), Excess.CHANGED),
        (WORD, seen(None, read=False, report=replace(SAID, duration_s=None)), Excess.UNKNOWN),
    ],
)
def test_what_holds_a_pod(agreed: Confirmed, found: Freshness, expected: Excess | None) -> None:
    assert excess(agreed, found) is expected


@pytest.mark.parametrize(
    ("since_at", "at", "expected"),
    [
        (NOW - 60, NOW + 900, None),
        (NOW - HOUR - 1, NOW + 900, Excess.GROWN),
        (NOW - 60, NOW + 899, Excess.CHANGED),
        (None, NOW + 900, Excess.UNKNOWN),
    ],
)
def test_who_saved_when_asked_needs_no_right_clock(since_at: float | None, at: float, expected: Excess | None) -> None:
    """Of two dates by one clock the later one can be told, and since when it was asked our own clock knows."""
    agreed = saved_first(NOW + 900, BEST.uri, since_at, reported=False)
    assert excess(agreed, seen(replace(BEST, at=at, ahead_s=900.0))) is expected
