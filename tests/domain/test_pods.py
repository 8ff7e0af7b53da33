"""How one pod reads: the word of kubectl, its level, its columns."""

from typing import Any

import pytest

from fleet.domain import capacity, kube, pods
from fleet.domain.owners import Ownership
from fleet.domain.picture import PodRow
from fleet.domain.pods import ready_after_s
from tests.domain import cluster
from tests.domain.cluster import EPOCH, EPOCH_AT

RUNNING = {"running": {"startedAt": EPOCH}}


def waits(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int, reason: str = "", signal: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}


def status(state: dict[str, Any], name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": state is RUNNING, "restartCount": 0, "state": state, **more}


def conditions(**found: str) -> list[dict[str, str]]:
    return [{"type": name, "status": value} for name, value in found.items()]


def pod(
    phase: str,
    containers: list[Any] = (),
    init: list[Any] = (),
    *,
    init_spec: list[Any] = (),
    known: list[Any] | None = None,
    **more: Any,
) -> kube.Pod:
    made = cluster.pod(phase=phase, **more)
    made["spec"]["initContainers"] = list(init_spec) or [{"name": s["name"]} for s in init]
    made["status"] = {
        "phase": phase,
        "reason": made["status"].get("reason", ""),
        "conditions": known if known is not None else conditions(Ready=str(phase == "Running")),
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
    }
    found = cluster.decoded(made)
    assert isinstance(found, kube.Pod)
    return found


SIDECAR = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]


@pytest.mark.parametrize(
    ("found", "word", "level"),
    [
        pytest.param(pod("Running", [status(RUNNING)]), "Running", "ok", id="running"),
        pytest.param(
            pod("Running", [status(RUNNING, ready=False)], known=conditions(Ready="False")), "Running", "warn", id="not ready"
        ),
        pytest.param(pod("Pending"), "Pending", "", id="bound, nothing yet"),
        pytest.param(pod("Pending", node=""), "Pending", "warn", id="no node"),
        pytest.param(pod("Pending", known=GATED, node=""), "SchedulingGated", "warn", id="gated"),
        pytest.param(pod("Pending", [status(waits("ContainerCreating"))]), "ContainerCreating", "", id="creating"),
        pytest.param(pod("Pending", [status(waits("ErrImagePull"))]), "ErrImagePull", "bad", id="no image"),
        pytest.param(pod("Running", [status(waits("CrashLoopBackOff"))]), "CrashLoopBackOff", "bad", id="crash loop"),
        pytest.param(pod("Running", [status(ended(137, "OOMKilled"))]), "OOMKilled", "bad", id="out of memory"),
        pytest.param(pod("Failed", [status(ended(1))]), "ExitCode:1", "bad", id="exit code"),
        pytest.param(pod("Failed", [status(ended(0, signal=9))]), "Signal:9", "bad", id="signal"),
        pytest.param(pod("Succeeded", [status(ended(0, "Completed"))]), "Completed", "", id="completed"),
        pytest.param(
            pod("Running", [status(ended(0, "Completed"), "a"), status(RUNNING, "b")]), "Running", "ok", id="one goes on"
        ),
        pytest.param(
            pod("Running", [status(ended(0, "Completed"), "a"), status(RUNNING, "b")], known=conditions(Ready="False")),
            "NotReady",
            "warn",
            id="one goes on, not ready",
        ),
        pytest.param(
            pod("Running", [status(waits("CrashLoopBackOff"), "a"), status(waits("ImagePullBackOff"), "b")]),
            "CrashLoopBackOff",
            "bad",
            id="the first container speaks",
        ),
        pytest.param(pod("Pending", init=[status(RUNNING, "init", ready=False)]), "Init:0/1", "", id="init"),
        pytest.param(
            pod("Pending", init=[status(ended(0), "a"), status(waits("PodInitializing"), "b")]), "Init:1/2", "", id="second init"
        ),
        pytest.param(
            pod("Pending", [status(waits("PodInitializing"))], [status(ended(0), "init")]),
            "PodInitializing",
            "",
            id="init is through",
        ),
        pytest.param(
            pod("Pending", init=[status(waits("CrashLoopBackOff"), "init")]), "Init:CrashLoopBackOff", "bad", id="init crashes"
        ),
        pytest.param(pod("Pending", init=[status(ended(2, "Error"), "init")]), "Init:Error", "bad", id="init failed"),
        pytest.param(pod("Pending", init=[status(ended(2), "init")]), "Init:ExitCode:2", "bad", id="init's exit code"),
        pytest.param(pod("Pending", init=[status(ended(2, signal=9), "init")]), "Init:Signal:9", "bad", id="init's signal"),
        pytest.param(
            pod(
                "Pending",
                init=[status(RUNNING, "side", started=True), status(RUNNING, "init", ready=False)],
                init_spec=SIDECAR,
            ),
            "Init:1/2",
            "",
            id="a started sidecar is through",
        ),
        pytest.param(
            pod("Pending", init=[status(RUNNING, "side", ready=False)], init_spec=SIDECAR), "Init:0/2", "", id="sidecar starts"
        ),
        pytest.param(
            pod("Running", [status(RUNNING)], [status(waits("CrashLoopBackOff"), "side")], init_spec=SIDECAR,
                known=conditions(Initialized="True", Ready="True")),
            "Init:CrashLoopBackOff",
            "bad",
            id="a sidecar crashes later",
        ),
        pytest.param(pod("Running", [status(RUNNING)], deletionTimestamp=EPOCH), "Terminating", "drain", id="terminating"),
        pytest.param(
            pod("Succeeded", [status(ended(0, "Completed"))], deletionTimestamp=EPOCH), "Completed", "", id="over and deleted"
        ),
        pytest.param(
            pod("Running", [status(RUNNING)], deletionTimestamp=EPOCH, status={"reason": "NodeLost"}),
            "Unknown",
            "drain",
            id="node lost",
        ),
        pytest.param(pod("Failed", status={"reason": "Evicted"}), "Evicted", "bad", id="evicted"),
    ],
)  # fmt: skip
def test_the_word_that_kubectl_shows(found: kube.Pod, word: str, level: str) -> None:
    assert pods.status_word(found) == word
    assert pods.level(found) == level


@pytest.mark.parametrize(
    ("found", "ready", "restarts"),
    [
        (pod("Running", [status(RUNNING, "a", restartCount=2), status(RUNNING, "b", ready=False)]), (1, 1), 2),
        (pod("Pending", init=[status(RUNNING, "init", restartCount=3)]), (0, 1), 3),
        (
            pod(
                "Running",
                [status(RUNNING, restartCount=1)],
                [status(RUNNING, "side", started=True, restartCount=4), status(ended(0), "init", restartCount=9)],
                init_spec=SIDECAR,
            ),
            (2, 2),
            5,
        ),
    ],
    ids=["two containers", "init", "sidecar"],
)
def test_ready_and_restarts_are_those_of_kubectl(found: kube.Pod, ready: tuple[int, int], restarts: int) -> None:
    assert pods.ready_containers(found) == ready
    assert pods.restarts(found) == restarts


BARE = Ownership()


def row(found: dict[str, Any], owner: Ownership = BARE) -> PodRow:
    decoded = cluster.decoded(found)
    assert isinstance(decoded, kube.Pod)
    return pods.pod_row(decoded, owner, capacity.effective_requests(decoded.spec), ("web-min",))


def test_a_pod_in_full() -> None:
    spec = {
        "volumes": [{"name": "cache", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "x"}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }
    deployment = cluster.decoded(cluster.controller("Deployment", "web"))
    owner = Ownership(
        "Deployment/lab/web", "Deployment", "web", deployment, ("ReplicaSet/lab/web-1", "Deployment/lab/web")
    )
    assert row(cluster.pod(gpus=2, spec=spec, labels={"team": "nlp"}), owner) == PodRow(
        uid="uid-p1",
        namespace="lab",
        name="p1",
        node="n1",
        status="Running",
        level="ok",
        ready=1,
        containers=1,
        gpus=2,
        resources=((cluster.GPU, 2),),
        workload="Deployment/lab/web",
        owner_kind="Deployment",
        owner_name="web",
        team="nlp",
        budgets=("web-min",),
        grace_s=30,
        empty_dir=True,
        claims=1,
        created_at=EPOCH_AT,
        bound_at=EPOCH_AT,
        stage="ready",
        ready_at=EPOCH_AT,
    )


def test_an_unbound_pod_says_what_it_waits_for() -> None:
    found = row(
        cluster.pod(node="", gpus=8, spec={"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4", "disk": "ssd"}})
    )
    assert (found.waiting_reason, found.waiting_message) == ("Unschedulable", "0/1 nodes are available")
    assert (found.product, found.gpus, found.bound_at) == ("NVIDIA-L4", 8, None)


def test_a_terminating_pod_says_when_its_grace_ends() -> None:
    assert row(cluster.pod(deletionTimestamp=EPOCH)).terminating_at == EPOCH_AT


@pytest.mark.parametrize(
    ("volumes", "empty_dir"),
    [
        (None, False),
        ([], False),
        ([{"name": "t", "emptyDir": {"medium": "Memory"}}], True),
        ([{"name": "s", "secret": {}}], False),
    ],
)
def test_an_empty_dir_dies_with_the_pod(volumes: list[Any] | None, empty_dir: bool) -> None:
    assert row(cluster.pod(spec={"volumes": volumes})).empty_dir is empty_dir


def test_daemon_and_mirror_pods_are_told_apart() -> None:
    mirror = cluster.pod(annotations={"kubernetes.io/config.mirror": "abc"})
    assert row(mirror, Ownership(kind="Node", name="n1")).mirror
    daemon = row(cluster.pod(), Ownership("DaemonSet/lab/x", "DaemonSet", "x"))
    assert (daemon.daemon, daemon.mirror) == (True, False)


@pytest.mark.parametrize(
    ("labels", "above", "team"),
    [
        ({"team": "a"}, {"team": "b"}, "a"),
        ({"vigie.dev/team": "a", "team": "x"}, {}, "a"),
        ({}, {"app.kubernetes.io/part-of": "b"}, "b"),
        ({}, {}, ""),
    ],
)
def test_the_team_is_the_pods_or_its_workloads(labels: dict[str, str], above: dict[str, str], team: str) -> None:
    job = cluster.decoded(
        cluster.controller("Job", "j", labels={}) | {"metadata": cluster.meta("j", "lab", labels=above)}
    )
    assert row(cluster.pod(labels=labels), Ownership("Job/lab/j", "Job", "j", job)).team == team


@pytest.mark.parametrize(
    ("one", "took"),
    [
        (PodRow("u", "lab", "p", created_at=100.0, ready_at=290.0), 190.0),
        (PodRow("u", "lab", "p", created_at=100.0), None),
        (PodRow("u", "lab", "p", ready_at=290.0), None),
        (PodRow("u", "lab", "p", created_at=100.0, ready_at=290.0, restarts=1), None),
        (PodRow("u", "lab", "p", created_at=100.0, ready_at=99.0), None),
    ],
)
def test_how_long_a_pod_took_to_be_ready(one: PodRow, took: float | None) -> None:
    assert ready_after_s(one) == took
