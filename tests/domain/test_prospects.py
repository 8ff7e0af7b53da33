"""What may be done to a pair before anybody has asked: which buttons there are, and what stands against each."""

from typing import Any

import msgspec

from fleet.domain import blue_green, switching
from fleet.domain.facts import Actor, Facts
from fleet.domain.policies import BlueGreen, Policy
from fleet.domain.prospects import Prospect, prospects
from fleet.domain.releases import Release
from fleet.domain.revisions import Workload
from fleet.domain.specs import FullPod
from tests.domain.test_blue_green import BLUE, GREEN, KEYS, around, deployment, service

NOW = 10_000.0
TESTED = {"vigie.dev/smoke-test": '{"path": "/v1/models"}'}


def workload(name: str, replicas: int) -> Workload:
    made = msgspec.to_builtins(deployment(name, BLUE if name.endswith("blue") else GREEN, replicas))
    template = {"metadata": {"labels": made["spec"]["template"]["metadata"]["labels"]}, "spec": {"containers": []}}
    meta = {"name": name, "namespace": "chat", "uid": name}
    return Workload("Deployment", {"metadata": meta, "spec": {"replicas": replicas, "template": template}})


def found(
    blue: int = 4,
    green: int = 4,
    unready: int = 0,
    wanted: int = 4,
    selector: dict[str, str] = BLUE,
    policy: Policy | None = None,
    count: int = 2,
    **metadata: Any,
) -> dict[str, Prospect]:
    """By "kind side". `metadata`: of the Service."""
    near = around(blue, green, unready)
    pods = {
        key: tuple(msgspec.convert(msgspec.to_builtins(pod), FullPod) for pod in mine) for key, mine in near.items()
    }
    made = service(selector, **{"annotations": TESTED, **metadata})
    sides = (deployment("llm-blue", BLUE), deployment("llm-green", GREEN, wanted))[:count]
    known = Release(
        "switch", "Service/chat/llm", {}, NOW, service=made, pair=blue_green.pair(made, sides, pods), pods=pods
    )
    facts = Facts("lab", "switch", known.target, Actor("", ""), NOW, NOW, policy or Policy(), actions_allowed=True)
    workloads = {KEYS[0]: workload("llm-blue", 4), KEYS[1]: workload("llm-green", wanted)}
    return {f"{one.kind} {one.side}".strip(): one for one in prospects(facts, known, workloads)}


def reasons(one: Prospect) -> list[tuple[str, str]]:
    return [(check.guard, check.reason) for check in one.blocks]


def switched(at: float) -> dict[str, Any]:
    return {"annotations": {**TESTED, **switching.note(BLUE, GREEN, at, "M-0001")}}


def test_a_whole_green_side_may_be_switched_to_or_retired_and_blue_copied() -> None:
    offered = found()
    assert {name: reasons(one) for name, one in offered.items()} == {
        "switch llm-green": [],
        "retire llm-green": [],
        "create-green": [],
    }
    preview = offered["switch llm-green"].release.preview
    assert preview is not None
    assert (dict(preview.before.ready), dict(preview.after.ready)) == ({KEYS[0]: 4}, {KEYS[1]: 4})


def test_one_pod_that_is_not_ready_is_enough_to_refuse() -> None:
    assert reasons(found(green=3, unready=1)["switch llm-green"]) == [("sides", "fewer")]
    assert reasons(found(green=0)["switch llm-green"]) == [("sides", "empty")]


def test_a_smoke_test_is_missed_before_anybody_asks_and_its_answers_are_not_guessed() -> None:
    assert reasons(found(annotations={})["switch llm-green"]) == [("smoke", "undeclared")]
    assert "smoke" not in {check.guard for check in found()["switch llm-green"].checks}


def test_the_old_side_is_kept_for_the_way_back() -> None:
    policy = Policy(blue_green=BlueGreen(keep_s=600.0))
    early = found(selector=GREEN, policy=policy, **switched(NOW - 60))
    assert reasons(early["way-back"]) == []
    assert early["way-back"].release.to == early["switch llm-blue"].release.to
    assert reasons(early["retire llm-blue"]) == [("spare", "too-early")]
    assert reasons(found(selector=GREEN, policy=policy, **switched(NOW - 601))["retire llm-blue"]) == []
    gone = found(blue=0, selector=GREEN, policy=policy, **switched(NOW - 60))
    assert ("sides", "empty") in reasons(gone["way-back"])


def test_a_side_that_holds_nothing_cannot_be_retired() -> None:
    assert "retire llm-green" not in found(green=0, wanted=0)
    assert "retire llm-green" in found(green=2, wanted=0), "its pods are still there"


def test_where_both_or_neither_serve_each_side_may_be_chosen() -> None:
    for selector in ({"app": "llm"}, {"app": "llm", "color": "red"}):
        offered = found(selector=selector)
        assert {"switch llm-blue", "switch llm-green"} <= offered.keys()
        assert "create-green" not in offered


def test_the_only_side_may_be_copied_and_nothing_else() -> None:
    offered = found(count=1)
    assert {name: reasons(one) for name, one in offered.items()} == {"create-green": []}


def test_what_another_controller_switches_is_offered_nothing() -> None:
    assert found(annotations={"argo-rollouts.argoproj.io/managed-by-rollouts": "llm"}) == {}
