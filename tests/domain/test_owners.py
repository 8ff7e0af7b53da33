"""Who owns a pod."""

from typing import Any

import pytest

from fleet.domain import kube
from fleet.domain.owners import LONGEST_CHAIN, Ownership, ownership
from tests.domain import cluster
from tests.domain.cluster import controller, owned_by

DEPLOYMENT = controller("Deployment", "web")
REPLICA_SET = controller("ReplicaSet", "web-1", ownerReferences=owned_by("Deployment", "web"))
ROLLOUT_SET = controller("ReplicaSet", "ro-1", ownerReferences=owned_by("Rollout", "ro"))
JOB = controller("Job", "train")
CRON_JOB = controller("Job", "nightly-1", ownerReferences=owned_by("CronJob", "nightly"))
GROUP_SET = controller("StatefulSet", "group", ownerReferences=owned_by("LeaderWorkerSet", "lws"))


def owner_of(references: list[Any], *known: dict[str, Any]) -> Ownership:
    pod = cluster.decoded(cluster.pod(ownerReferences=references))
    assert isinstance(pod, kube.Pod)
    objects = {f"{one['kind']}/lab/{one['metadata']['name']}": cluster.decoded(one) for one in known}
    return ownership(pod, objects.get)


@pytest.mark.parametrize(
    ("references", "known", "workload", "kind"),
    [
        pytest.param([], [], "", "", id="bare"),
        pytest.param(
            owned_by("ReplicaSet", "web-1"),
            [REPLICA_SET, DEPLOYMENT],
            "Deployment/lab/web",
            "Deployment",
            id="deployment",
        ),
        pytest.param(
            owned_by("ReplicaSet", "web-1"), [REPLICA_SET], "Deployment/lab/web", "Deployment", id="not listed yet"
        ),
        pytest.param(
            owned_by("ReplicaSet", "web-1"), [], "ReplicaSet/lab/web-1", "ReplicaSet", id="nothing listed yet"
        ),
        pytest.param(
            owned_by("ReplicaSet", "ro-1"), [ROLLOUT_SET], "Rollout/lab/ro", "Rollout", id="a kind we do not watch"
        ),
        pytest.param(owned_by("Job", "train"), [JOB], "Job/lab/train", "Job", id="job"),
        pytest.param(
            owned_by("Job", "nightly-1"), [CRON_JOB], "Job/lab/nightly-1", "Job", id="a job, whatever made it"
        ),
        pytest.param(
            owned_by("StatefulSet", "group"), [GROUP_SET], "StatefulSet/lab/group", "StatefulSet", id="stateful set"
        ),
        pytest.param(owned_by("PyTorchJob", "llama"), [], "PyTorchJob/lab/llama", "PyTorchJob", id="custom owner"),
        pytest.param(owned_by("Node", "n1"), [], "", "Node", id="mirror pod"),
        pytest.param(
            [{"kind": "Job", "name": "train", "uid": "uid-train"}], [JOB], "", "", id="an owner that is no controller"
        ),
    ],
)
def test_the_workload_is_the_highest_owner_that_we_can_know(
    references: list[Any], known: list[Any], workload: str, kind: str
) -> None:
    found = owner_of(references, *known)
    assert (found.workload, found.kind) == (workload, kind)


def test_a_namesake_with_another_uid_is_not_the_owner() -> None:
    found = owner_of(owned_by("ReplicaSet", "web-1", uid="uid-older"), REPLICA_SET, DEPLOYMENT)
    assert (found.workload, found.object) == ("ReplicaSet/lab/web-1", None)


def test_the_answer_names_all_it_depends_on() -> None:
    assert owner_of(owned_by("ReplicaSet", "web-1"), REPLICA_SET).references == (
        "ReplicaSet/lab/web-1",
        "Deployment/lab/web",
    )
    assert owner_of(owned_by("Job", "nightly-1"), CRON_JOB).references == ("Job/lab/nightly-1", "CronJob/lab/nightly")


def test_a_loop_of_references_ends() -> None:
    one = controller("StatefulSet", "a", ownerReferences=owned_by("StatefulSet", "b"))
    two = controller("StatefulSet", "b", ownerReferences=owned_by("StatefulSet", "a"))
    assert len(owner_of(owned_by("StatefulSet", "a"), one, two).references) == LONGEST_CHAIN
