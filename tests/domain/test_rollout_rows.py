"""What a rollout's row counts: which pods are new, what kubectl calls done though something is left, and the estimate."""

from typing import Any

import pytest

from fleet.domain.rollout_picture import RolloutRow
from tests.domain.cluster import EPOCH, EPOCH_AT, GPU, controller, node, owned_by, pod, snapshot
from tests.domain.test_holdups import KEY, RUNS, SETS, container, deployment, member, row

NODES = (node("n1"), node("n2"))
DONE = {
    "observedGeneration": 3,
    "replicas": 4,
    "updatedReplicas": 4,
    "readyReplicas": 4,
    "availableReplicas": 4,
}


def ready(at: str = EPOCH) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}]}


def finished() -> dict[str, Any]:
    return {**deployment(wanted=4), "status": DONE}


NEW = tuple(member(f"new-{i}") for i in range(4))


def test_done_though_old_pods_hold_gpus() -> None:
    """Case T6 g."""
    leaving = [member(f"old-{i}", 1, deletionTimestamp=EPOCH, status=container(RUNS)) for i in range(2)]
    found = row(*NEW, *leaving, main=finished())
    assert (found.verdict, found.remarks) == ("done", ("terminating",))
    assert (found.terminating, found.terminating_gpus, found.new_gpus, found.old) == (2, 4, 8, 0)
    assert (found.old_stages, found.new_stages) == ((("stopping", 2),), (("ready", 4),))


def test_done_though_old_pods_still_answer() -> None:
    found = row(*NEW, member("old-1", 1, deletionTimestamp=EPOCH), main=finished())
    assert (found.answering, found.remarks) == (1, ("terminating", "answering"))


def test_done_and_nothing_left() -> None:
    found = row(*NEW, main=finished())
    assert (found.remarks, found.holdups, found.was, found.revision) == ((), (), "", "2")
    assert (found.gpus_per_pod, found.gpus_per_old_pod, found.deadline_at, found.eta_at) == (2, 0, None, None)


def test_an_evicted_pod_is_neither_old_nor_new() -> None:
    found = row(*NEW, member("gone", 1, phase="Failed"), main=finished())
    assert (found.old, found.new, found.old_stages) == (0, 4, ())


def stateful_set(**status: Any) -> dict[str, Any]:
    made = controller(
        "StatefulSet", "db", 5, spec={"minReadySeconds": 30, "updateStrategy": {"rollingUpdate": {"partition": 0}}}
    )
    return made | {"status": {"observedGeneration": 1, "updateRevision": "db-2", "currentRevision": "db-2", **status}}


def test_a_stateful_set_is_done_when_ready_though_not_available() -> None:
    """Case T10: 5 updated and Ready, 3 available."""
    main = stateful_set(replicas=5, updatedReplicas=5, readyReplicas=5, availableReplicas=3)
    found = snapshot(*NODES, main).rollouts["StatefulSet/lab/db"]
    assert (found.verdict, found.remarks, found.available, found.desired) == ("done", ("unavailable",), 3, 5)


def daemons(updated: int, *pods: tuple[str, str, str]) -> RolloutRow:
    main = controller(
        "DaemonSet",
        "d",
        annotations={"deprecated.daemonset.template.generation": "2"},
        status={"desiredNumberScheduled": 2, "updatedNumberScheduled": updated, "observedGeneration": 1},
    )
    made = [
        pod(
            f"d-{name}",
            labels={"pod-template-generation": generation, "controller-revision-hash": revision},
            ownerReferences=owned_by("DaemonSet", "d"),
        )
        for name, generation, revision in pods
    ]
    return snapshot(*NODES, main, *made).rollouts["DaemonSet/lab/d"]


@pytest.mark.parametrize(
    ("updated", "pods", "sides"),
    [
        pytest.param(1, (("a", "1", "x"), ("b", "2", "y")), (1, 1), id="by its generation"),
        pytest.param(0, (("a", "1", "x"), ("b", "1", "x")), (2, 0), id="nothing is new yet"),
        pytest.param(2, (("a", "1", "x"), ("b", "1", "x")), (0, 2), id="an undo finds pods of its version"),
    ],
)
def test_which_daemons_are_new(updated: int, pods: tuple[tuple[str, str, str], ...], sides: tuple[int, int]) -> None:
    found = daemons(updated, *pods)
    assert (found.old, found.new) == sides


def test_the_estimate_counts_the_rounds_that_are_left() -> None:
    """Four pods one by one: 60 s from creation to Ready, a new one every 90 s, two are missing, minReadySeconds 10."""
    main = deployment(wanted=4, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, minReadySeconds=10)
    first = member("new-1", status=ready("2026-12-01T19:01:00Z"), creationTimestamp=EPOCH)
    second = member("new-2", status=container(RUNS), creationTimestamp="2026-12-01T19:01:30Z")
    found = row(member("old-1", 1, creationTimestamp="2026-12-01T18:00:00Z"), first, second, main=main)
    assert (found.ready_after_s, found.seen, found.started_at) == (60, 1, EPOCH_AT)
    assert found.eta_at == EPOCH_AT + 90 + 60 + 2 * 90 + 10


def test_without_a_pod_that_was_ready_nothing_is_foretold() -> None:
    found = row(member("old-1", 1), member("new-1", status=container(RUNS)))
    assert (found.eta_at, found.ready_after_s, found.seen) == (None, None, 0)


def test_gpus_are_held_only_on_a_node() -> None:
    placing = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"Insufficient {GPU}"}
    found = row(member("old-1", 1, gpus=1), member("new-1", on="", status={"conditions": [placing]}))
    assert (found.old_gpus, found.new_gpus, found.gpus_per_pod, found.gpus_per_old_pod) == (1, 0, 2, 1)
    assert found.was == "1"


def test_a_rollout_leaves_with_its_workload() -> None:
    assert KEY not in snapshot(*NODES, *SETS).rollouts
    assert snapshot(*NODES, controller("Job", "t"), *SETS).rollouts == {}
