"""`manage.py cadence`: the answer as text and as JSON, and one line for what is not understood."""

import json
import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fleet import history, save_records
from fleet.domain.checkpoints import Checkpoint, Format, State
from fleet.domain.verdicts import Transition

LESSON = (
    "--save-cost",
    "3m",
    "--mtbf",
    "24h",
    "--interval",
    "30m",
    "--interval",
    "2h",
    "--horizon",
    "40h",
    "--grace",
    "60s",
)


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("cadence", *arguments, stdout=out)
    return out.getvalue()


def test_json_has_seconds_and_shares():
    found = json.loads(command("--save-cost", "5m", "--mtbf", "24h", "--json"))
    assert found["young_s"] == 7_200
    assert found["daly_s"] / 60 == pytest.approx(116.69, abs=0.01)
    assert found["optimum_s"] / 60 == pytest.approx(116.69, abs=0.01)
    assert [one["interval_s"] for one in found["overheads"]] == [found["optimum_s"]]
    assert found["losses"][0]["most_work_s"] == found["optimum_s"]
    assert found["savings"] == found["break_evens"] == []


def test_json_of_the_lessons_run():
    found = json.loads(command(*LESSON, "--json"))
    assert [one["saves"] for one in found["savings"]] == [80, 79, 72, 20, 19, 19]
    assert found["break_evens"][0]["first_order_s"] == 36_000
    assert [one["fits"] for one in found["fits"]] == [False] * 5


def test_a_run_that_never_ends_is_null_and_not_infinity():
    found = json.loads(command("--save-cost", "1s", "--mtbf", "1s", "--interval", "30d", "--json"))
    assert found["overheads"][1]["overhead"] is None


def test_text_of_the_lessons_run():
    told = command(*LESSON)
    for words in (
        "Save every 1h30m58s.", "Young 1h32m57s, Daly 1h30m58s, exact optimum 1h30m58s",
        "  11.27 %", "under an MTBF of 10h49m59s (to first order 10h)", "43h57m", "9.88 %", "2.38 %",
        "B: as A, not saved at the end", "gcp-spot 30s: too short by 2m30s", "grace 1m: too short by 2m",
    ):  # fmt: skip
        assert words in told, words


def test_text_says_where_daly_ends_and_what_cannot_be_kept():
    told = command("--save-cost", "20s", "--mtbf", "10s", "--write", "1m", "--interval", "30s")
    assert "Daly 10s (a save takes twice the MTBF or more: the MTBF itself)" in told
    assert "1m30s (shorter than its write)" in told
    assert command("--save-cost", "10s", "--mtbf", "1h").endswith("default-grace 30s: a save fits, 20s to spare\n")


@pytest.mark.parametrize(("arguments", "said"), [
    (("--mtbf", "24h"), "--save-cost is needed; write it like 5m, 1h30m or 90s"),
    (("--save-cost", "5m"), "--mtbf is needed; write it like 5m, 1h30m or 90s"),
    (("--save-cost", "5", "--mtbf", "24h"), "--save-cost: '5' is not a duration; write it like 5m, 1h30m or 90s"),
    (("--save-cost", "0s", "--mtbf", "24h"), "--save-cost: has to be at least a millisecond"),
    (("--save-cost", "5m", "--mtbf", "99999999d"), "--mtbf: has to be at most a hundred years"),
    (("--save-cost", "5m", "--mtbf", "1h", "--interval", "soon"),
     "--interval: 'soon' is not a duration; write it like 5m, 1h30m or 90s"),
    (("--save-cost", "5m", "--mtbf", "1h", *(["--interval", "5m"] * 13)), "--interval: at most 12 can be compared"),
])  # fmt: skip
def test_bad_input_is_one_line_and_status_2(arguments, said):
    with pytest.raises(CommandError) as caught:
        command(*arguments)
    assert str(caught.value) == said
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_a_workload_that_was_seen_to_save_says_what_a_save_costs():
    found = [(Checkpoint("step-1", Format.DCP, State.COMPLETE, 1, 1_000.0), 180.0)]
    save_records.see("lab", "Job/ml/llm", "s3://runs/ml", found, 1_001.0)
    asked = ("--workload", "Job/ml/llm", "--cluster", "lab", "--mtbf", "24h")
    assert json.loads(command(*asked, "--json"))["save_cost_s"] == 180.0
    for arguments, error in ((asked[:2], "--cluster is needed"), (("--workload", "x", *asked[2:]), "nobody has seen")):
        with pytest.raises(CommandError, match=error):
            command(*arguments, "--mtbf", "24h")


def lived(cluster: str, failures: int) -> None:
    """A GPU that was up for 300 hours until now, but for so many resets of a minute."""
    began = time.time() - 300 * 3_600
    told = [Transition(gpu="GPU-a", node="n", at=began, from_state="", to_state="ok")]
    for i in range(failures):
        at = began + (i + 1) * 36_000
        told.append(Transition(gpu="GPU-a", node="n", at=at, from_state="ok", to_state="lost", reason="xid-79"))
        told.append(Transition(gpu="GPU-a", node="n", at=at + 60, from_state="lost", to_state="ok", closes="reset"))
    history.record(cluster, told, {})


@pytest.mark.django_db
def test_failures_that_were_seen_come_with_how_sure_they_are():
    lived("lab", failures=3)
    asked = ("--save-cost", "3m", "--gpus", "4", "--cluster", "lab")
    found = json.loads(command(*asked, "--json"))
    observed = found["observed"]
    assert (found["gpus"], observed["failures"]) == (4, 3)
    assert found["mtbf_s"] == observed["mean_s"] == pytest.approx(25 * 3_600, rel=0.01)
    assert observed["least_s"] < observed["mean_s"] < observed["most_s"]
    told = command(*asked)
    assert " from 3 failures in " in told
    assert " of GPU time; 95 % sure: " in told


@pytest.mark.django_db
def test_without_a_failure_it_is_the_bound_of_the_rule_of_three():
    lived("lab", failures=0)
    asked = ("--save-cost", "3m", "--gpus", "1", "--cluster", "lab")
    found = json.loads(command(*asked, "--json"))
    assert found["observed"]["mean_s"] is None
    assert found["mtbf_s"] == found["observed"]["least_s"] == pytest.approx(100 * 3_600, rel=0.01)
    told = command(*asked)
    assert "No failure in " in told
    assert " or more, 95 % sure (rule of three)" in told


@pytest.mark.django_db
@pytest.mark.parametrize(("arguments", "said"), [
    (("--gpus", "1", "--mtbf", "1h", "--cluster", "lab"), "--gpus is instead of --mtbf"),
    (("--gpus", "0", "--cluster", "lab"), "--gpus must be between"),
    (("--gpus", "1", "--cluster", "nobody"), "--mtbf is needed: the ledger knows no time"),
])  # fmt: skip
def test_what_the_ledger_cannot_say_is_one_line(arguments, said):
    with pytest.raises(CommandError, match=said) as caught:
        command("--save-cost", "5m", *arguments)
    assert caught.value.returncode == 2
