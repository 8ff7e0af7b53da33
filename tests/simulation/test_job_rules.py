"""What a Job decides by: failures, policies, back-off."""

from typing import Any

import pytest

from fleet.simulation.clock import parse_stamp
from fleet.simulation.job_rules import Backoff, Verdict, finished_at, has_failed, verdict

Object = dict[str, Any]

AT = parse_stamp("2026-01-01T00:00:10Z")


def pod(
    phase: str = "Failed", code: int = 1, *, going: bool = False, disrupted: bool = False, at: str = "10"
) -> Object:
    metadata: Object = {"namespace": "jobs", "name": "work-x", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if going:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 20}
    ended = {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{at}Z"}
    state = {"terminated": ended} if phase in {"Failed", "Succeeded"} else {"running": {}}
    conditions = [{"type": "DisruptionTarget", "status": "True"}] if disrupted else []
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "main", "state": state}]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": status}


def job(*rules: Object, **spec: Any) -> Object:
    return {"spec": {**spec, **({"podFailurePolicy": {"rules": list(rules)}} if rules else {})}}


IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FATAL = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
ALL_ELSE = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0, 1]}}
WHY = "Container main for pod jobs/work-x failed with exit code {} matching FailJob rule at index {}"
COUNT = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("rules", "failed", "expected"),
    [
        ((), pod(), Verdict()),
        ((IGNORE, FATAL), pod(disrupted=True), Verdict(counts=False)),
        ((IGNORE, FATAL), pod(code=42, disrupted=True), Verdict(counts=False)),
        ((IGNORE, FATAL), pod(code=42), Verdict(message=WHY.format(42, 1))),
        ((FATAL,), pod(code=1), Verdict()),
        ((ALL_ELSE,), pod(code=1), Verdict()),
        ((ALL_ELSE,), pod(code=3), Verdict(message=WHY.format(3, 0))),
        ((COUNT, IGNORE), pod(disrupted=True), Verdict()),
    ],
)  # fmt: skip
def test_the_first_rule_that_matches_decides(rules: tuple[Object, ...], failed: Object, expected: Verdict) -> None:
    assert verdict(job(*rules), failed) == expected


@pytest.mark.parametrize(
    ("of", "of_pod", "failed"),
    [
        (job(), pod(), True),
        (job(), pod("Succeeded"), False),
        (job(), pod("Running"), False),
        (job(), pod("Running", going=True), True),
        (job(IGNORE), pod("Running", going=True), False),
        (job(podReplacementPolicy="Failed"), pod("Running", going=True), False),
        (job(podReplacementPolicy="Failed"), pod("Failed", going=True), True),
    ],
)
def test_a_pod_that_goes_counts_at_once_unless_failures_are_told_apart(
    of: Object, of_pod: Object, failed: bool
) -> None:
    assert has_failed(of, of_pod) is failed


def test_a_pod_ends_with_its_containers_or_when_it_was_asked_to() -> None:
    assert finished_at(pod()) == AT
    assert finished_at(pod("Running", going=True)) == AT
    assert finished_at(pod("Running")) == AT - 10


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (50, 600)])
def test_the_wait_doubles_with_each_failure_up_to_ten_minutes(failures: int, wait_s: float) -> None:
    assert Backoff(failures, AT).wait_s(AT) == wait_s
    assert Backoff(failures, AT).wait_s(AT + wait_s) == 0


def test_a_success_forgets_the_failures_before_it() -> None:
    known = Backoff(3, AT)
    assert known.after([], []) == known
    assert known.after([], [pod(at="20")]) == Backoff(4, AT + 10)
    assert known.after([pod("Succeeded", at="20")], [pod(at="15")]) == Backoff(0, 0.0)
    assert known.after([pod("Succeeded", at="20")], [pod(at="25")]) == Backoff(1, AT + 15)
