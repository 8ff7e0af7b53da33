"""What needs a person, with the facts that its sentence needs."""

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.domain import attention
from fleet.domain.attention import Concern
from fleet.domain.picture import AttentionRow
from tests.domain.cluster import EPOCH, EPOCH_AT, LABELS, changed, controller, inventory, node, owned_by, pod, snapshot

NODE_SILENT = {"reason": "KubeletReady", "message": ""}
CORDONED_BY = {"managedFields": [{"manager": "ops", "time": EPOCH, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]}
TAINT = {"key": "repair", "effect": "NoExecute", "timeAdded": EPOCH}
A100 = "NVIDIA-A100-SXM4-80GB"


def rows(*objects: dict[str, Any]) -> dict[str, AttentionRow]:
    return snapshot(*objects).attention


@pytest.mark.parametrize(
    ("found", "kind", "level", "since_at", "facts"),
    [
        pytest.param(node(ready="Unknown"), "node-unreachable", "bad", EPOCH_AT, NODE_SILENT, id="unreachable"),
        pytest.param(node(ready="False"), "node-not-ready", "bad", EPOCH_AT, NODE_SILENT, id="not ready"),
        pytest.param(
            node(allocatable=6),
            "gpus-withdrawn",
            "bad",
            None,
            {"withdrawn": 2, "capacity": 8, "resource": "nvidia.com/gpu"},
            id="withdrawn",
        ),
        pytest.param(
            node(gpus=1),
            "over-committed",
            "bad",
            None,
            {"overcommit": 1, "allocatable": 1, "resource": "nvidia.com/gpu"},
            id="over-committed",
        ),
        pytest.param(
            node(cordoned=True, **CORDONED_BY), "cordoned", "warn", EPOCH_AT, {"by": "ops", "free": 6}, id="cordoned"
        ),
        pytest.param(node(cordoned=True), "cordoned", "warn", None, {"by": None, "free": 6}, id="cordoned by somebody"),
        pytest.param(
            node(taints=(TAINT,)), "node-tainted", "warn", EPOCH_AT, {"taint": "repair:NoExecute"}, id="tainted"
        ),
    ],
)
def test_concerns_of_a_node(
    found: dict[str, Any], kind: str, level: str, since_at: float | None, facts: dict[str, Any]
) -> None:
    (row,) = rows(found, pod("p1"), pod("p2"), pod("plain", gpus=0)).values()
    assert (row.kind, row.level, row.subject, row.node, row.since_at) == (kind, level, "n1", "n1", since_at)
    assert dict(row.facts) == {"pods": 3, "gpus": 2} | facts


def test_a_node_that_never_said_anything_is_unreachable_for_unknown_reasons() -> None:
    mute = node()
    mute["status"]["conditions"] = []
    (row,) = rows(mute).values()
    assert (row.kind, row.since_at) == ("node-unreachable", None)
    assert dict(row.facts) == {"pods": 0, "gpus": 0, "reason": None, "message": None}


def test_gpus_that_labels_name_and_the_node_does_not_offer_are_missing() -> None:
    (row,) = rows(node(gpus=0)).values()
    assert (row.kind, row.level, dict(row.facts)) == ("gpus-missing", "bad", {"pods": 0, "gpus": 0, "physical": 8})


def test_a_healthy_fleet_needs_nobody() -> None:
    assert rows(node(), pod(), controller("Deployment", "web", 1, status={"availableReplicas": 1})) == {}


def test_pods_that_wait_are_told_by_workload() -> None:
    owner = {"ownerReferences": owned_by("Job", "train")}
    wish = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": A100}}}
    found = rows(
        node("a", labels=LABELS | {"nvidia.com/gpu.product": A100}),
        node("h"),
        pod("held", "a", gpus=5),
        pod("w1", "", gpus=8, creationTimestamp="2026-12-01T19:10:00Z", **wish, **owner),
        pod("w2", "", gpus=8, **wish, **owner),
        pod("bare", "", gpus=1),
    )
    assert set(found) == {"pods-waiting:Job/lab/train", "pods-waiting:lab/bare"}
    row = found["pods-waiting:Job/lab/train"]
    assert (row.level, row.node, row.since_at) == ("warn", "", EPOCH_AT)
    assert dict(row.facts) == {
        "pods": 2,
        "gpus": 8,
        "resource": "nvidia.com/gpu",
        "product": "A100",
        "hole": 3,
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
        "pod": "lab/w2",
    }
    assert dict(found["pods-waiting:lab/bare"].facts)["hole"] == 8


def test_the_hole_is_of_the_resource_asked_for_on_usable_nodes() -> None:
    mig = "nvidia.com/mig-1g.10gb"
    nodes = [node("m", gpus={mig: "3"}), node("h"), node("closed", gpus={mig: "7"}, cordoned=True)]
    found = rows(*nodes, pod("w", "", gpus={mig: "4"}))["pods-waiting:lab/w"]
    assert (dict(found.facts)["resource"], dict(found.facts)["hole"]) == (mig, 3)


SHORT = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1}
UNAVAILABLE = {"conditions": [{"type": "Available", "status": "False", "lastTransitionTime": EPOCH}]}


LATER, LATER_AT = "2026-12-01T19:10:00Z", EPOCH_AT + 600
DONE, ROLLING, STUCK = (
    {"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": LATER, "lastTransitionTime": EPOCH}
    for status, reason in (
        ("True", "NewReplicaSetAvailable"),
        ("True", "ReplicaSetUpdated"),
        ("False", "ProgressDeadlineExceeded"),
    )
)


def _of(kind: str, status: Mapping[str, Any], *conditions: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return controller(kind, "web", 3, status={**status, "conditions": list(conditions)}, **more)


@pytest.mark.parametrize(
    ("found", "since_at"),
    [
        pytest.param(controller("Deployment", "web", 3, status=SHORT), EPOCH_AT, id="its own age"),
        pytest.param(controller("Deployment", "web", 3, status=SHORT | UNAVAILABLE), EPOCH_AT, id="not Available"),
        pytest.param(_of("Deployment", SHORT, DONE), EPOCH_AT, id="the last rollout is through"),
        pytest.param(controller("StatefulSet", "web", 3, status=SHORT), EPOCH_AT, id="no conditions"),
    ],
)
def test_a_workload_with_too_few_pods(found: dict[str, Any], since_at: float) -> None:
    (row,) = rows(found).values()
    assert (row.kind, row.level, row.subject, row.since_at) == (
        "workload-short",
        "warn",
        f"{found['kind']}/lab/web",
        since_at,
    )
    assert dict(row.facts) == {"desired": 3, "available": 1, "ready": 2, "gpus": 1}


NONE = {"replicas": 3}
STARTING: dict[str, Any] = {"phase": "Pending", "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
CRASHED: dict[str, Any] = {
    "status": {
        "conditions": [],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
}
RESTARTED: dict[str, Any] = {"status": {"conditions": [], "containerStatuses": [{"name": "main", "restartCount": 1}]}}
ENDING = STARTING | {"deletionTimestamp": LATER}


@pytest.mark.parametrize(
    ("found", "pods", "kind"),
    [
        pytest.param(_of("Deployment", NONE, ROLLING), [STARTING] * 3, None, id="a rollout starts its pods"),
        pytest.param(
            _of("Deployment", NONE, ROLLING), [STARTING] * 2, "workload-starting", id="a pod is not there yet"
        ),
        pytest.param(_of("Deployment", NONE, ROLLING), [STARTING, STARTING, CRASHED], "workload-starting", id="crash"),
        pytest.param(_of("Deployment", NONE, STUCK), [STARTING, STARTING, CRASHED], "rollout-held", id="stuck"),
        pytest.param(_of("Deployment", NONE, DONE), [STARTING] * 3, "workload-starting", id="scaled up"),
        pytest.param(_of("Deployment", NONE, DONE), [STARTING] * 2, "workload-short", id="scaled up, without pods"),
        pytest.param(_of("Deployment", NONE, DONE, generation=2), [], "workload-starting", id="not seen yet"),
        pytest.param(_of("StatefulSet", NONE), [STARTING] * 3, "workload-starting", id="no progress is told"),
        pytest.param(_of("StatefulSet", NONE), [STARTING, STARTING, CRASHED], "pods-held-up", id="one crashes"),
        pytest.param(_of("StatefulSet", NONE), [STARTING, STARTING, RESTARTED], "pods-held-up", id="one restarted"),
        pytest.param(_of("StatefulSet", NONE), [STARTING, STARTING, ENDING], "workload-short", id="one is ending"),
        pytest.param(
            _of("StatefulSet", {"readyReplicas": 3, "availableReplicas": 2}),
            [],
            "workload-starting",
            id="Ready, not yet",
        ),
    ],
)
def test_pods_that_only_start_are_less_urgent_than_a_lack(
    found: dict[str, Any], pods: list[dict[str, Any]], kind: str | None
) -> None:
    owner: dict[str, Any] = {"ownerReferences": owned_by(found["kind"], "web"), "creationTimestamp": LATER}
    made = [pod(f"p{i}", **owner, **more) for i, more in enumerate(pods)]
    assert [row.kind for row in rows(node(), found, *made).values()] == ([kind] if kind else [])


def test_a_lack_is_as_old_as_the_newest_pod_that_is_not_ready() -> None:
    owner: dict[str, Any] = {"ownerReferences": owned_by("StatefulSet", "web")}
    old, new = (pod(f"p{i}", creationTimestamp=at, **owner, **STARTING) for i, at in enumerate((EPOCH, LATER)))
    ready = pod("p2", creationTimestamp="2026-12-01T19:20:00Z", **owner)
    found = snapshot(node(), _of("StatefulSet", {"readyReplicas": 1, "availableReplicas": 1}), old, new, ready)
    assert [row.since_at for row in found.attention.values()] == [LATER_AT]
    assert found.workloads["StatefulSet/lab/web"].short_since_at == LATER_AT


def test_a_pod_that_crashes_is_told_at_once() -> None:
    owner: dict[str, Any] = {"ownerReferences": owned_by("StatefulSet", "web")}
    starts = [pod(f"p{i}", **owner, **STARTING) for i in range(3)]
    live = inventory(node(), _of("StatefulSet", NONE), *starts)
    assert [row.kind for row in live.snapshot().attention.values()] == ["workload-starting"]
    live.apply(changed(pod("p0", **owner, **CRASHED)))
    assert [row.kind for row in live.snapshot().attention.values()] == ["pods-held-up"]


@pytest.mark.parametrize(
    ("waiting", "kinds"), [(0, {"workload-short"}), (1, {"workload-short", "pods-waiting"}), (2, {"pods-waiting"})]
)
def test_a_lack_that_waiting_pods_explain_is_told_once(waiting: int, kinds: set[str]) -> None:
    pods = [pod(f"w{i}", "", ownerReferences=owned_by("StatefulSet", "web")) for i in range(waiting)]
    found = rows(controller("StatefulSet", "web", 3, status=SHORT | {"readyReplicas": 1}), *pods)
    assert {row.kind for row in found.values()} == kinds


def test_claims_are_told_as_not_counted() -> None:
    claims = {"spec": {"resourceClaims": [{"name": "gpu"}]}}
    found = snapshot(
        node(),
        pod("a", gpus=0, **claims),
        pod("b", "", gpus=0, **claims),
        pod("over", phase="Failed", gpus=0, **claims),
    )
    (row,) = found.attention.values()
    assert (row.kind, row.level, dict(row.facts)) == ("claims", "note", {"pods": 2})
    assert found.fleet["fleet"].claims == 2
    assert found.fleet["fleet"].waiting_pods == 0


def test_the_most_urgent_comes_first() -> None:
    found = rows(
        node("z", ready="Unknown"),
        node("y", cordoned=True),
        node("x", allocatable=7),
        pod("w", "", gpus=1),
        controller("StatefulSet", "s", 2),
        node("a", ready="Unknown"),
    )
    assert [(row.kind, row.subject) for row in found.values()] == [
        ("node-unreachable", "a"),
        ("node-unreachable", "z"),
        ("gpus-withdrawn", "x"),
        ("workload-short", "StatefulSet/lab/s"),
        ("pods-waiting", "lab/w"),
        ("cordoned", "y"),
    ]
    assert [row.rank for row in found.values()] == sorted(row.rank for row in found.values())


def test_every_concern_has_a_level_and_a_rank() -> None:
    assert set(attention.LEVELS) == set(attention.RANKS) == set(Concern)
