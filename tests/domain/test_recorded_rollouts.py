"""Updates recorded on a real cluster (Kubernetes 1.36.2): bounds, stages, reasons and completion, at every single event."""

from collections import defaultdict
from functools import cache
from itertools import pairwise

import pytest

from tests.domain.recorded_rollouts import Moment, moments

WAY = ["placing", "pulling", "starting", "warming-up", "ready", "stopping", "ended"]
TEN, CHAT, STUCK = "Deployment/measure/ten", "Deployment/rollout/chat", "Deployment/stuck/chat"
ROLLED = [
    ("rolling10_25_25", TEN, 13, 8, 18),
    ("rolling10_0_1", TEN, 10, 9, 11),
    ("rolling10_1_0", TEN, 11, 10, 12),
    ("deployment_restart", CHAT, 4, 3, 5),
    ("deployment_rollback", CHAT, 4, 3, 5),
]


@cache
def told(name: str, key: str) -> list[Moment]:
    return list(moments(name, key))


@pytest.mark.parametrize(("name", "key", "most", "least", "most_held"), ROLLED)
def test_counts_stay_within_the_bounds_at_every_event(
    name: str, key: str, most: int, least: int, most_held: int
) -> None:
    found = told(name, key)
    assert {(one.row.max_pods, one.row.min_available) for one in found} == {(most, least)}
    assert max(one.row.old + one.row.new for one in found) == most
    assert min(one.ready for one in found) == least
    assert max(one.row.old + one.row.new + one.row.terminating for one in found) == most_held
    for one in found:
        held = sum(pod.gpus for pod in one.pods.values() if pod.node and pod.stage != "ended")
        assert one.row.old_gpus + one.row.new_gpus + one.row.terminating_gpus == held
        staged = sum(count for _, count in (*one.row.old_stages, *one.row.new_stages))
        assert staged == sum(pod.stage != "ended" for pod in one.pods.values())
        assert one.row.holdups == () or {h.cause for h in one.row.holdups} == {"not-observed"}


@pytest.mark.parametrize(("name", "key"), [found[:2] for found in ROLLED])
def test_it_is_done_at_the_event_that_completes_it(name: str, key: str) -> None:
    """By the controller's own stricter rule, on the object as it was told: kubectl's comes to the same here."""
    found = told(name, key)
    rolling = [i for i, one in enumerate(found) if one.row.verdict == "rolling"]
    done = next(i for i, one in enumerate(found) if i > rolling[0] and one.row.verdict == "done")
    assert found[done].kind == "Deployment"
    for i, one in enumerate(found):
        if one.kind != "Deployment":
            continue
        spec, status, meta = one.line["object"]["spec"], one.line["object"]["status"], one.line["object"]["metadata"]
        counts = {status.get(f"{count}Replicas", 0) for count in ("updated", "available")} | {status.get("replicas", 0)}
        complete = status["observedGeneration"] == meta["generation"] and counts == {spec["replicas"]}
        assert (one.row.verdict == "done") is complete, i
    assert [one.row.verdict for one in found[rolling[0] : done]] == ["rolling"] * (done - rolling[0])
    assert all("terminating" in one.row.remarks for one in found[done:] if one.row.terminating)
    assert found[-1].row.remarks == ()


@pytest.mark.parametrize(("name", "key"), [found[:2] for found in ROLLED])
def test_every_pod_goes_its_way_in_order(name: str, key: str) -> None:
    ways: defaultdict[str, list[str]] = defaultdict(list)
    for one in told(name, key):
        if one.kind == "Pod" and one.line["type"] != "DELETED":
            raw = one.line["object"]
            pod = one.pods[f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"]
            ways[pod.uid].append(pod.stage)
            assert (pod.stage == "placing") is ("nodeName" not in raw["spec"])
            assert (pod.stage in {"stopping", "ended"}) is ("deletionTimestamp" in raw["metadata"])
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in raw["status"].get("conditions", []))
            assert (pod.stage == "ready") is (ready and pod.stage != "stopping")
    for way in ways.values():
        assert all(WAY.index(before) <= WAY.index(after) for before, after in pairwise(way)), way
    new = [way for way in ways.values() if way[0] == "placing"]
    assert len(new) == told(name, key)[-1].row.desired
    assert all(list(dict.fromkeys(way)) == ["placing", "pulling", "warming-up", "ready"] for way in new)


@pytest.mark.parametrize(("name", "key"), [found[:2] for found in ROLLED])
def test_the_end_is_unknown_until_a_pod_was_seen_and_close_then(name: str, key: str) -> None:
    found = told(name, key)
    rolling = [one for one in found if one.row.verdict == "rolling"]
    ended_at = max(pod.ready_at for pod in found[-1].pods.values() if pod.ready_at is not None)
    assert rolling[0].row.eta_at is None
    assert all((one.row.eta_at is None) is (one.row.seen == 0) for one in rolling)
    guesses = [one.row.eta_at for one in rolling if one.row.eta_at is not None]
    whole_s = ended_at - (rolling[-1].row.started_at or 0)
    assert all(abs(guess - ended_at) <= max(4, 0.45 * whole_s) for guess in guesses), (guesses, ended_at)
    assert abs(guesses[-1] - ended_at) <= 2
    assert all(one.row.deadline_at is None for one in found if one.row.verdict != "rolling")


def test_a_deadlock_is_named_until_a_hole_opens() -> None:
    found = told("deployment_stuck", STUCK)
    causes = [tuple(h.cause for h in one.row.holdups if h.level == "bad") for one in found]
    stuck = [i for i, cause in enumerate(causes) if cause == ("deadlock",)]
    failed = [i for i, one in enumerate(found) if one.row.verdict == "failed"]
    assert {one.row.verdict for one in found} == {"not-observed", "rolling", "failed", "done"}
    assert stuck[0] < failed[0] <= stuck[-1], "named long before the deadline"
    first = found[stuck[-1]].row.holdups[0]
    assert "8 Insufficient nvidia.com/gpu" in first.evidence
    assert dict(first.facts) == {"gpus": 4, "may_go": 0, "coming": 0, "leaving": 0}
    assert (first.pods, found[stuck[-1]].row.eta_at) == (1, None)
    assert not any(causes[stuck[-1] + 1 :]), "it recovers by itself"
    assert found[-1].row.verdict == "done"
    assert max(one.row.old_gpus + one.row.new_gpus + one.row.terminating_gpus for one in found) == 16


def test_a_paused_deployment_has_no_new_pods_and_no_deadline() -> None:
    found = [one for one in told("deployment_paused", CHAT) if one.row.verdict == "paused"]
    assert found
    for one in found:
        assert [(h.cause, h.level) for h in one.row.holdups] == [("paused", "note")]
        assert (one.row.template, one.row.deadline_at, one.row.eta_at, one.row.new) == (None, None, None, 0)
        assert (one.row.step, one.row.have) == ("updated", 0)
    assert [one.row.verdict for one in told("deployment_paused", CHAT)][-1] == "done"


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("badimg", "image", "failed to pull and unpack image"),
        ("overquota", "quota", "exceeded quota: gpus"),
    ],
)
def test_bad_pods_are_named(name: str, cause: str, words: str) -> None:
    last = told("deployment_bad_pods", f"Deployment/stuck/{name}")[-1].row
    assert [(h.cause, h.level) for h in last.holdups] == [(cause, "bad")]
    assert words in last.holdups[0].evidence
    assert last.eta_at is None


def test_a_crash_loop_that_kubectl_calls_done_is_not() -> None:
    done = [one.row for one in told("deployment_bad_pods", "Deployment/stuck/crash") if one.row.verdict == "done"]
    crashing = [row for row in done if row.holdups]
    assert crashing
    assert {(row.remarks, row.holdups[0].cause) for row in crashing} == {(("unready",), "crash")}


def test_a_stateful_set_keeps_its_partition_and_waits_for_hands() -> None:
    key = "StatefulSet/sts/shard"
    found = told("statefulset", key)
    assert all(one.row.old + one.row.new + one.row.terminating <= 4 for one in found)
    partitioned = [one.row for one in found if one.row.partition == 2 and one.row.verdict == "done" and one.row.old]
    assert {(row.old, row.new, row.have, row.want) for row in partitioned} == {(2, 2, 2, 2)}
    assert all("partitioned" in row.remarks and row.answering == 2 for row in partitioned)
    later = [one.row for one in found if one.row.partition == 0 and one.row.strategy == "RollingUpdate"]
    assert {"rolling", "done"} <= {row.verdict for row in later}
    manual = [one.row for one in found if one.row.strategy == "OnDelete"]
    assert {(row.verdict, row.max_pods) for row in manual} == {("manual", None)}
    assert any(row.old == 4 and row.new == 0 for row in manual)
