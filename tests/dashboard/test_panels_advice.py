"""The advice on a workload's page: what follows from what is known, and what is said when it is not."""

import pytest
from django.utils import translation

from dashboard.panels import advice, words
from dashboard.panels.advice import Advice
from dashboard.panels.checkpoints import Holding
from dashboard.panels.words import Value
from fleet.domain import cadence, mtbf
from fleet.domain.mtbf import Mtbf
from fleet.domain.save_history import Usual
from fleet.domain.save_picture import CheckpointRow

DAY_S = 86_400.0
SAVE_S = 95.0
HELD = Holding(32)
USUAL = Usual(saves=20, cost_s=SAVE_S)
OFTEN = mtbf.estimate(400, 400 * 32 * 19 * 3600)  # 32 GPUs together fail every 19 h, well known
ROW = CheckpointRow("Job/ml/llm", "ml", standing="fresh", save_cost_s=SAVE_S, target_s=1_800.0, hook="http")


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


def advised(observed: Mtbf, held: Holding = HELD, **facts: object) -> Advice:
    row = CheckpointRow(**{name: getattr(ROW, name) for name in ROW.__struct_fields__} | facts)  # type: ignore[arg-type]
    return advice.advice(row, held, observed, USUAL if row.save_cost_s else Usual(), 30 * DAY_S)


def text(found: Advice) -> str:
    return " ".join(said(one) for one in (found.lead, *found.sentences))


def said(value: Value) -> str:
    return words.plain(value, 0).replace("\xa0", " ")


def fact(found: Advice, name: str) -> tuple[str, str]:
    one = next(one for one in found.facts if one.title == f"advice.{name}")
    return said(one.value), said(one.note)


def test_an_interval_that_is_surely_too_short_is_told_with_what_the_best_one_wins():
    found = advised(OFTEN)
    best, now = (cadence.overhead(s, SAVE_S, 19 * 3600) for s in (cadence.optimum(SAVE_S, 19 * 3600), 1_800))
    won = now / (1 + now) - best / (1 + best)
    assert text(found) == (
        "Save every 59 min 2 s instead of every 30 min. "
        f"That wins back {100 * won:.2f} % of the time of 32 GPUs, about {won * 32 * 24:.1f} GPU-hours a day. "
        "A failure then costs 30 min 1 s of work on average instead of 15 min 41 s. "
        "The best interval is between 56 min 10 s and 1 h 2 min, 95 % sure."
    )
    assert fact(found, "takes") == ("1 min 35 s", "median of its last 20 saves")
    assert fact(found, "overhead")[1].endswith("at the best interval")
    assert found.chart is not None
    assert said(found.others).startswith("Young 1 h, Daly 59 min")


def test_an_interval_that_may_well_be_the_best_one_is_kept():
    seldom = mtbf.estimate(2, 2 * 32 * 19 * 3600)
    assert text(advised(seldom, target_s=2_100.0)).startswith(
        "Keep every 35 min. At the estimate 59 min 2 s would be best, but"
    )
    assert text(advised(OFTEN, target_s=cadence.optimum(SAVE_S, 19 * 3600) * 0.93)).startswith("Keep every ")


def test_without_a_failure_only_what_is_certain_is_said():
    quiet = mtbf.estimate(0, 3 * 32 * 19 * 3600)  # the bound of the run is 19 h
    rarer = advised(quiet)
    assert text(rarer).startswith("Every 59 min 2 s is often enough, instead of every 30 min. That wins back")
    assert rarer.chart is not None
    kept = advised(quiet, target_s=4 * 3_600.0)
    assert text(kept).startswith("Keep every 4 h. No failure was seen (0 failures in 1,824 GPU-h up")
    assert text(kept).endswith("Whether 4 h is too long, only more time or a failure will tell.")
    assert kept.chart is None
    assert fact(kept, "fails")[0] == "19 h or more"
    assert fact(kept, "best")[0] == "59 min 2 s or more"
    assert fact(kept, "overhead") == (f"{100 * cadence.overhead(4 * 3_600, SAVE_S, 19 * 3600):.1f} % or less", "")


@pytest.mark.parametrize(
    ("observed", "held", "facts", "why"),
    [
        (OFTEN, HELD, {"save_cost_s": None}, "Nobody has seen how long one of its saves takes."),
        (OFTEN, Holding(), {}, "Nothing of it holds a GPU now"),
        (mtbf.estimate(0, 0), HELD, {}, "The ledger knows no time in which a GPU of this cluster was up."),
        (mtbf.estimate(0, 60), HELD, {}, "No GPU has failed, and too little time has been seen"),
    ],
)
def test_what_is_not_known_is_named_and_nothing_is_made_up(observed, held, facts, why):
    found = advised(observed, held, **facts)
    assert text(found).startswith(f"It cannot be worked out yet. {why}")
    assert found.chart is None
    assert {one.title for one in found.facts} == {"advice.takes", "advice.every", "advice.fails"}


def test_no_target_is_no_comparison():
    found = advised(OFTEN, target_s=None)
    assert text(found).startswith("Save every 59 min 2 s.")
    assert text(found).endswith("Nobody says how often it saves now.")
    assert fact(found, "every") == ("unknown", "Nobody says how often it saves now.")


def test_a_run_that_never_ends_is_told_so():
    hopeless = mtbf.estimate(1_000, 1_000.0)
    assert text(advised(hopeless)).startswith("A run that fails so often practically never ends")
    assert advised(hopeless).chart is None


@pytest.mark.parametrize(("hook", "told"), [("http", "a plan can have it save"), ("", "Nobody can ask it to save")])
def test_planned_maintenance_is_another_matter_where_it_can_be_asked(hook, told):
    assert told in " ".join(said(one) for one in advised(OFTEN, hook=hook).notes)
