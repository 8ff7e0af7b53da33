"""How one workload reads, by the kind of its controller."""

from typing import Any

import pytest

from fleet.domain import workloads
from fleet.domain.picture import WorkloadRow
from tests.domain import cluster
from tests.domain.cluster import EPOCH, EPOCH_AT, controller, owned_by, pod, snapshot

COUNTS = {"replicas": 4, "readyReplicas": 3, "availableReplicas": 2, "updatedReplicas": 1}
REVISION = {"deployment.kubernetes.io/revision": "7"}


def row(*objects: dict[str, Any]) -> WorkloadRow:
    (only,) = snapshot(*objects).workloads.values()
    return only


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        pytest.param(
            controller("Deployment", "w", 5, status=COUNTS, annotations=REVISION),
            {"desired": 5, "current": 4, "updated": 1, "ready": 3, "available": 2, "revision": "7"},
            id="deployment",
        ),
        pytest.param(
            controller("Deployment", "w", 0),
            {"desired": 0, "current": 0, "updated": 0, "ready": 0, "available": 0},
            id="zero-valued fields are absent",
        ),
        pytest.param(
            controller("Deployment", "w", 5, spec={"paused": True}),
            {"desired": 5, "updated": 0, "available": 0, "paused": True},
            id="paused",
        ),
        pytest.param(
            controller("StatefulSet", "w", 5, status=COUNTS | {"updateRevision": "w-abc"}),
            {"desired": 5, "current": 4, "updated": 1, "ready": 3, "available": 2, "revision": "w-abc"},
            id="stateful set",
        ),
        pytest.param(
            controller(
                "DaemonSet",
                "w",
                status={
                    "desiredNumberScheduled": 5,
                    "currentNumberScheduled": 4,
                    "numberReady": 3,
                    "numberAvailable": 2,
                    "updatedNumberScheduled": 1,
                },
            ),
            {"desired": 5, "current": 4, "updated": 1, "ready": 3, "available": 2},
            id="daemon set",
        ),
        pytest.param(
            controller("ReplicaSet", "w", 5, status=COUNTS),
            {"desired": 5, "current": 4, "ready": 3, "available": 2},
            id="a ReplicaSet of its own",
        ),
        pytest.param(
            controller("Job", "w", 4, status={"active": 3, "ready": 2}),
            {"desired": 4, "current": 3, "ready": 2},
            id="job",
        ),
        pytest.param(
            controller("Job", "w", 4, status={"active": 1, "succeeded": 3}),
            {"desired": 1, "current": 1},
            id="a job's rest",
        ),
        pytest.param(
            controller("Job", "w", 4, spec={"completions": None}, status={"active": 4}),
            {"desired": 4, "current": 4},
            id="a work queue",
        ),
        pytest.param(controller("Job", "w", 4, spec={"suspend": True}), {"desired": 0, "paused": True}, id="suspended"),
    ],
)
def test_replicas_are_counted_as_the_kind_counts(found: dict[str, Any], counts: dict[str, Any]) -> None:
    short = counts.get("available", counts["desired"]) < counts["desired"]
    since_at = EPOCH_AT if short else None
    expected = WorkloadRow(
        found["kind"], "lab", "w", gpus_per_pod=1, created_at=EPOCH_AT, short_since_at=since_at, **counts
    )
    assert row(found) == expected


def test_an_owner_of_another_kind_is_counted_by_its_pods() -> None:
    owner = {"ownerReferences": owned_by("PyTorchJob", "llama")}
    found = row(
        pod("a", gpus=8, labels={"team": "nlp"}, **owner),
        pod("b", gpus=4, phase="Pending", **owner),
        pod("c", gpus=8, phase="Failed", **owner),
    )
    assert found == WorkloadRow(
        "PyTorchJob", "lab", "llama", team="nlp", current=2, ready=1, starting=1, gpus_per_pod=8, gpus=12
    )


def test_gpus_are_those_that_its_pods_hold() -> None:
    owner = {"ownerReferences": owned_by("Job", "train")}
    pods = [
        pod("bound", gpus=8, **owner),
        pod("terminating", gpus=8, deletionTimestamp=EPOCH, **owner),
        pod("over", gpus=8, phase="Succeeded", **owner),
        pod("waiting", node="", gpus=8, **owner),
    ]
    assert row(controller("Job", "train", 4, 8), *pods).gpus == 16


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_finished_job_without_pods_is_not_shown(condition: str) -> None:
    status = {"succeeded": 1, "conditions": [{"type": condition, "status": "True"}]}
    job = controller("Job", "train", status=status)
    assert snapshot(job).workloads == {}
    shown = row(job, pod(phase="Succeeded", ownerReferences=owned_by("Job", "train")))
    assert (shown.desired, shown.gpus) == (0, 0)


def test_a_replica_set_of_a_deployment_is_not_a_workload() -> None:
    found = snapshot(
        controller("Deployment", "web"),
        controller("ReplicaSet", "web-1", ownerReferences=owned_by("Deployment", "web")),
        controller("ReplicaSet", "empty", 0),
        pod(ownerReferences=owned_by("ReplicaSet", "web-1")),
    )
    assert set(found.workloads) == {"Deployment/lab/web"}


def test_budgets_are_those_that_select_its_template() -> None:
    found = row(
        controller("Deployment", "web", labels={"app": "web"}),
        cluster.budget("web", {"matchLabels": {"app": "web"}}),
        cluster.budget("all", {}),
        cluster.budget("none", None),
        cluster.budget("other", {}, namespace="elsewhere"),
    )
    assert found.budgets == ("all", "web")


@pytest.mark.parametrize(
    ("more", "short"),
    [
        ({"desired": 3, "available": 2}, True),
        ({"desired": 3, "available": 3}, False),
        ({"desired": 3, "available": 4}, False),
        ({"desired": 3, "available": None}, False),
        ({"desired": None, "available": 0}, False),
        ({"desired": 3, "available": 0, "gpus_per_pod": 0}, False),
    ],
)
def test_which_workloads_are_short(more: dict[str, Any], short: bool) -> None:
    assert workloads.is_short(WorkloadRow("Deployment", "lab", "w", **({"gpus_per_pod": 1} | more))) is short
