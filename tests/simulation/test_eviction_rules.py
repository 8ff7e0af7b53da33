"""The rules of eviction as tables: what is asked of a budget, what it answers, and what a charge leaves behind."""

from typing import Any

import pytest

from fleet.simulation import eviction_rules
from fleet.simulation.eviction_rules import Way
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

AT = 1_790_000_000.0


def pod(phase: str = "Running", *, ready: bool = True, terminating: bool = False, **labels: str) -> Object:
    metadata: Object = {"name": "p", "namespace": "test", "labels": labels or {"app": "chat"}}
    metadata |= {"uid": "u1", "resourceVersion": "7"}
    if terminating:
        metadata["deletionTimestamp"] = "2026-12-01T19:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": conditions}}


def budget(name: str = "b", policy: str = "", observed: int = 1, **status: Any) -> Object:
    spec: Object = {"selector": {"matchLabels": {"app": "chat"}}}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    metadata = {"name": name, "namespace": "test", "generation": 1}
    return {"metadata": metadata, "spec": spec, "status": {"observedGeneration": observed, **status}}


def counts(healthy: int, desired: int, allowed: int) -> Object:
    return {"currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed}


def cause(error: ApiError) -> str:
    assert error.details is not None
    told: str = error.details["causes"][0]["message"]
    return told


@pytest.mark.parametrize(
    ("phase", "terminating", "way"),
    [
        ("Pending", False, Way.DELETE_UNCHANGED),
        ("Pending", True, Way.DELETE),
        ("Succeeded", False, Way.DELETE),
        ("Failed", False, Way.DELETE),
        ("Running", True, Way.DELETE),
    ],
)
def test_pods_that_protect_nothing_are_never_asked_for_7(phase: str, terminating: bool, way: Way) -> None:
    """T3 l, and line 7: not even two budgets matter then."""
    both = [budget("a", **counts(3, 3, 0)), budget("b", **counts(3, 3, 0))]
    assert eviction_rules.decide(pod(phase, terminating=terminating), both).way is way


def test_no_budget_no_question() -> None:
    other = budget(**counts(3, 3, 0))
    assert eviction_rules.decide(pod(app="else"), [other]).way is Way.DELETE


def test_two_budgets_are_refused_without_a_reason_4() -> None:
    with pytest.raises(ApiError) as refused:
        eviction_rules.decide(pod(), [budget("a", **counts(3, 2, 1)), budget("b", **counts(3, 2, 1))])
    assert (refused.value.status, refused.value.reason) == (500, "")
    assert "reason" not in refused.value.body()


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "chat"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["chat", "x"]}]}, True),
    ],
)
def test_which_pods_a_budget_selects(selector: Object | None, selected: bool) -> None:
    made = budget()
    made["spec"]["selector"] = selector
    assert eviction_rules.selects(made, pod()) is selected
    made["metadata"]["namespace"] = "elsewhere"
    assert not eviction_rules.selects(made, pod())


@pytest.mark.parametrize(
    ("ready", "policy", "healthy", "desired", "way"),
    [
        (True, "", 4, 3, Way.CHARGE),
        (True, "AlwaysAllow", 4, 3, Way.CHARGE),
        (False, "AlwaysAllow", 3, 4, Way.DELETE_UNCHANGED),
        (False, "", 3, 3, Way.DELETE_UNCHANGED),  # T3 k: allowed 0 and yet evictable
        (False, "IfHealthyBudget", 3, 3, Way.DELETE_UNCHANGED),
        (False, "", 3, 4, Way.CHARGE),
        (False, "", 0, 0, Way.CHARGE),  # T3 j: a budget that protects nothing blocks an unready pod
    ],
)
def test_what_an_unready_pod_costs_8(ready: bool, policy: str, healthy: int, desired: int, way: Way) -> None:
    decision = eviction_rules.decide(pod(ready=ready), [budget(policy=policy, **counts(healthy, desired, 0))])
    assert decision.way is way


def test_a_budget_not_yet_looked_at_says_when_to_come_back_3() -> None:
    with pytest.raises(ApiError) as refused:
        eviction_rules.charged(budget(observed=0, **counts(4, 3, 1)), "p", AT)
    assert refused.value.headers == {"retry-after": "10"}
    assert refused.value.details is not None
    assert refused.value.details["retryAfterSeconds"] == 10
    assert cause(refused.value) == "The disruption budget b is still being processed by the server."


FAILED = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
ODD = {"type": "DisruptionAllowed", "status": "False", "reason": "Odd", "message": "somebody says so"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (counts(3, 3, 0), "The disruption budget b needs 3 healthy pods and has 3 currently"),
        (counts(4, 6, 0), "The disruption budget b needs 6 healthy pods and has 4 currently"),
        (counts(2, 0, 0), "The disruption budget b does not allow evicting pods currently"),
        (
            {**counts(0, 0, 0), "conditions": [FAILED]},
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
        ),
        (
            {**counts(2, 0, 0), "conditions": [ODD]},
            "The disruption budget b does not allow evicting pods currently (Odd): somebody says so",
        ),
    ],
)
def test_why_a_budget_refuses_2(status: Object, words: str) -> None:
    """No Retry-After: nobody knows when it will allow one."""
    with pytest.raises(ApiError) as refused:
        eviction_rules.charged(budget(**status), "p", AT)
    assert (refused.value.status, refused.value.reason, refused.value.headers) == (429, "TooManyRequests", {})
    assert cause(refused.value) == words
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "DisruptionBudget"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (counts(3, 3, -1), "pdb disruptions allowed is negative"),
        (
            {**counts(3, 0, 3), "disruptedPods": {f"p{i}": "" for i in range(2001)}},
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ],
)
def test_a_broken_budget_is_forbidden(status: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        eviction_rules.charged(budget(**status), "p", AT)
    assert refused.value.status == 403
    assert refused.value.message == f'poddisruptionbudget.policy "b" is forbidden: {words}'


def test_a_charge_names_the_pod_and_takes_one() -> None:
    before = budget(**counts(5, 3, 2), disruptedPods={"q": "2026-12-01T19:00:00Z"})
    after = eviction_rules.charged(before, "p", AT)["status"]
    assert after["disruptionsAllowed"] == 1
    assert after["disruptedPods"] == {"q": "2026-12-01T19:00:00Z", "p": "2026-09-21T14:13:20Z"}
    assert "conditions" not in after
    assert before["status"]["disruptionsAllowed"] == 2


def test_the_last_disruption_says_so_in_the_condition() -> None:
    allowed = {"type": "DisruptionAllowed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    after = eviction_rules.charged(budget(**counts(4, 3, 1), conditions=[allowed]), "p", AT)["status"]
    (condition,) = after["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    assert condition["lastTransitionTime"] == "2026-09-21T14:13:20Z"
    assert after["currentHealthy"] == 4  # the controller's to lower


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            {"uid": "u2"},
            (
                "the UID in the precondition (u2) does not match the UID in record (u1). "
                "The object might have been deleted and then recreated"
            ),
        ),
        (
            {"resourceVersion": "6"},
            (
                "the ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7). "
                "The object might have been modified"
            ),
        ),
    ],
)
def test_preconditions_name_what_differs_6(wanted: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        eviction_rules.check_preconditions(pod(), wanted)
    assert refused.value.message == f'Operation cannot be fulfilled on Pod "p": {words}'
    assert refused.value.details == {"name": "p", "kind": "Pod"}


def test_preconditions_that_hold_say_nothing() -> None:
    eviction_rules.check_preconditions(pod(), {"uid": "u1", "resourceVersion": "7"})
    eviction_rules.check_preconditions(pod(), {})


def test_who_ended_a_pod_is_said_once() -> None:
    first = eviction_rules.targeted(pod(), AT)
    told = first["conditions"][-1]
    assert (told["type"], told["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    again = eviction_rules.targeted({**pod(), "status": first}, AT + 60)
    assert again == first
