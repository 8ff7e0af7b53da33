"""Rolling updates: the steps, the bounds at every single event, and what the Deployment says of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleet.simulation.deployments import Deployments
from fleet.simulation.kubelet import Kubelet
from fleet.simulation.replicasets import ReplicaSets
from fleet.simulation.rollout_steps import share, surge_and_unavailable
from fleet.simulation.scheduler import Scheduler
from tests.simulation.cluster import Cluster, PodCounts, Watch, condition, deployment, events_of, template

Object = dict[str, Any]


def restart(draft: Object) -> None:
    annotations = draft["spec"]["template"]["metadata"].setdefault("annotations", {})
    annotations["kubectl.kubernetes.io/restartedAt"] = annotations.get("kubectl.kubernetes.io/restartedAt", "") + "x"


def is_complete(found: Object) -> bool:
    status, wanted = found["status"], found["spec"]["replicas"]
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    return status.get("observedGeneration") == found["metadata"]["generation"] and all(
        status.get(f, 0) == wanted for f in fields
    )


async def roll(replicas: int, surge: int | str, unavailable: int | str, **sim: Any) -> tuple[PodCounts, float]:
    """Bring up a Deployment, restart it, and measure until it is complete and nothing terminates; seconds to complete."""
    cluster = Cluster()
    cluster.nodes(8)
    pod = template("ten", **{"warmup_seconds": 2, "stop_seconds": 1, "pull_seconds": 0.5, **sim})
    cluster.store.create("deployments", deployment("ten", replicas, pod, surge, unavailable), manager="test")
    async with cluster:
        await cluster.run(20.0)
        assert is_complete(cluster.store.get("deployments", "test", "ten"))
        counts, watch = PodCounts(cluster.pods(app="ten")), Watch(cluster.store, "pods")
        began, done_s = cluster.clock.now(), 0.0
        cluster.store.mutate("deployments", "test", "ten", restart, manager="kubectl-rollout")
        while not done_s:
            await cluster.run(0.1)
            if is_complete(cluster.store.get("deployments", "test", "ten")):
                done_s = cluster.clock.now() - began
            assert cluster.clock.now() - began < 600, cluster.store.get("deployments", "test", "ten")["status"]
        await cluster.run(60.0)
        counts.feed(watch.take())
        assert len(cluster.pods(app="ten")) == replicas
        return counts, done_s


@pytest.mark.parametrize(
    ("surge", "unavailable", "sim", "most", "with_terminating", "least", "seconds"),
    [
        ("25%", "25%", {}, 13, 18, 8, (4.5, 7.5)),
        ("25%", "25%", {"stop_seconds": 15, "warmup_seconds": 4}, 13, 20, 8, (8.0, 12.0)),
        (0, 1, {}, 10, 11, 9, (24.0, 28.0)),
        (1, 0, {}, 11, 12, 10, (24.0, 28.0)),
    ],
)
async def test_extremes_are_those_of_a_real_cluster(
    surge: int | str,
    unavailable: int | str,
    sim: dict[str, int],
    most: int,
    with_terminating: int,
    least: int,
    seconds: tuple[float, float],
) -> None:
    counts, took_s = await roll(10, surge, unavailable, **sim)
    assert (counts.most, counts.least_available) == (most, least)
    assert most < counts.most_with_terminating <= with_terminating, "terminating pods come on top of the bound"
    assert seconds[0] < took_s < seconds[1]


@settings(max_examples=25, deadline=None)
@given(
    replicas=st.integers(1, 9),
    surge=st.one_of(st.integers(0, 4), st.integers(0, 120).map(lambda p: f"{p}%")),
    unavailable=st.one_of(st.integers(0, 4), st.integers(0, 100).map(lambda p: f"{p}%")),
)
def test_a_rollout_never_leaves_its_bounds(replicas: int, surge: int | str, unavailable: int | str) -> None:
    assume({surge, unavailable} - {0, "0%"})  # both nothing: refused by the API
    counts, _ = asyncio.run(roll(replicas, surge, unavailable))
    more, fewer = surge_and_unavailable(deployment("d", replicas, template("d"), surge, unavailable))
    assert counts.most <= replicas + more
    assert counts.least_available >= replicas - fewer


@pytest.mark.parametrize(
    ("value", "of", "up", "rounded"),
    [
        ("7%", 100, True, 7), ("29%", 100, False, 29), ("28%", 25, True, 7), ("25%", 10, True, 3), ("25%", 10, False, 2),
        (3, 10, True, 3), ("0%", 10, True, 0), ("100%", 7, False, 7),
    ],
)  # fmt: skip
def test_percentages_are_whole_number_arithmetic(value: int | str, of: int, up: bool, rounded: int) -> None:
    assert share(value, of, up=up) == rounded


def test_a_share_that_is_no_percentage_is_refused() -> None:
    with pytest.raises(ValueError, match="percentage"):
        share("5", 10, up=True)


async def test_what_a_deployment_says_from_creation_to_completion() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    watch = Watch(cluster.store, "deployments")
    made = deployment("chat", 2, template("chat", warmup_seconds=2))
    cluster.store.create("deployments", made, manager="test")
    async with cluster:
        await cluster.run(10.0)
    reasons = [
        (c.object["status"].get("observedGeneration"), condition(c.object, "Progressing").get("reason"))
        for c in watch.take()
    ]
    assert list(dict.fromkeys(reasons)) == [
        (None, None),
        (None, "NewReplicaSetCreated"),
        (1, "ReplicaSetUpdated"),
        (1, "NewReplicaSetAvailable"),
    ]
    status = cluster.store.get("deployments", "test", "chat")["status"]
    assert "unavailableReplicas" not in status
    assert [c["type"] for c in status["conditions"]] == ["Available", "Progressing"]
    name = cluster.store.list("replicasets", "test")[0]["metadata"]["name"]
    assert events_of(cluster.store, "chat") == [("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2")]
    assert [reason for reason, _ in events_of(cluster.store, name)] == ["SuccessfulCreate"] * 2


async def test_the_old_condition_is_still_shown_right_after_a_restart() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    cluster.store.create("deployments", deployment("chat", 4, template("chat", warmup_seconds=1), 0, 1), manager="test")
    async with cluster:
        await cluster.run(15.0)
        watch = Watch(cluster.store, "deployments")
        cluster.store.mutate("deployments", "test", "chat", restart, manager="kubectl-rollout")
        await cluster.run(30.0)
    first = watch.take()[0].object
    assert condition(first, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert (first["metadata"]["generation"], first["status"]["observedGeneration"]) == (2, 1)
    shown = [condition(c.object, "Progressing")["reason"] for c in watch.changes]
    assert (
        list(dict.fromkeys(shown))
        == [
            "NewReplicaSetAvailable",
            "NewReplicaSetCreated",
            "ReplicaSetUpdated",
        ]
        or shown[-1] == "NewReplicaSetAvailable"
    )
    assert shown[-1] == "NewReplicaSetAvailable"
    assert (
        condition(watch.changes[-1].object, "Progressing")["lastTransitionTime"]
        == (condition(first, "Progressing")["lastTransitionTime"])
    )


async def test_the_statuses_of_a_restart_are_those_of_the_recording() -> None:
    """Four replicas, surge 0, one unavailable: every status of the Deployment and of both ReplicaSets, in order."""
    cluster = Cluster()
    cluster.nodes(8)
    pod = template("chat", warmup_seconds=2, stop_seconds=1, pull_seconds=0.5)
    cluster.store.create("deployments", deployment("chat", 4, pod, 0, 1), manager="test")

    def shown(found: Object) -> Object:
        status = {k: v for k, v in found["status"].items() if k != "conditions"}
        conditions = [[c["type"], c["status"], c["reason"]] for c in found["status"].get("conditions", [])]
        replicas, generation = found["spec"]["replicas"], found["metadata"]["generation"]
        return {"replicas": replicas, "generation": generation, "status": status, "conditions": conditions}

    async with cluster:
        await cluster.run(20.0)
        old = cluster.store.list("replicasets", "test")[0]["metadata"]["name"]
        deployments, sets = Watch(cluster.store, "deployments"), Watch(cluster.store, "replicasets")
        cluster.store.mutate("deployments", "test", "chat", restart, manager="kubectl-rollout")
        await cluster.run(40.0)
    told: dict[str, list[Object]] = {"deployment": [], "old": [], "new": []}
    for change in deployments.take():
        told["deployment"].append(shown(change.object))
    for change in sets.take():
        told["old" if change.object["metadata"]["name"] == old else "new"].append(shown(change.object))
    recorded = Path(__file__).parents[1] / "data" / "restart_statuses.json"
    assert told == json.loads(recorded.read_text())


async def test_rolling_back_reuses_the_old_replica_set_with_a_new_number() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    cluster.store.create("deployments", deployment("chat", 3, template("chat")), manager="test")
    async with cluster:
        await cluster.run(10.0)
        before = cluster.store.get("deployments", "test", "chat")["spec"]["template"]
        first = cluster.store.list("replicasets", "test")[0]["metadata"]["name"]
        cluster.store.mutate("deployments", "test", "chat", restart, manager="kubectl-rollout")
        await cluster.run(20.0)

        def undo(draft: Object) -> None:
            draft["spec"]["template"] = before

        cluster.store.mutate("deployments", "test", "chat", undo, manager="kubectl-rollout")
        await cluster.run(20.0)
    sets = {r["metadata"]["name"]: r for r in cluster.store.list("replicasets", "test")}
    assert len(sets) == 2
    annotations = sets[first]["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert sets[first]["spec"]["replicas"] == 3
    shown = cluster.store.get("deployments", "test", "chat")["metadata"]["annotations"]
    assert shown["deployment.kubernetes.io/revision"] == "3"


async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    cluster.store.create("deployments", deployment("chat", 2, template("chat")), manager="test")
    async with cluster:
        await cluster.run(10.0)

        def pause(draft: Object) -> None:
            draft["spec"]["paused"] = True

        def grow(draft: Object) -> None:
            draft["spec"]["replicas"] = 3

        def resume(draft: Object) -> None:
            del draft["spec"]["paused"]

        for change in (pause, restart, grow):
            cluster.store.mutate("deployments", "test", "chat", change, manager="test")
            await cluster.run(5.0)
        paused = cluster.store.get("deployments", "test", "chat")
        assert len(cluster.store.list("replicasets", "test")) == 1
        assert len(cluster.pods(app="chat")) == 3
        assert condition(paused, "Progressing")["reason"] == "DeploymentPaused"
        assert condition(paused, "Progressing")["status"] == "Unknown"
        cluster.store.mutate("deployments", "test", "chat", resume, manager="test")
        await cluster.run(20.0)
        assert is_complete(cluster.store.get("deployments", "test", "chat"))
        assert len(cluster.store.list("replicasets", "test")) == 2


async def test_a_rollout_without_room_misses_its_deadline_and_recovers_when_there_is_room() -> None:
    cluster = Cluster()
    cluster.nodes(1, gpus=2)
    made = deployment("chat", 2, template("chat"), 1, 0, progressDeadlineSeconds=10)
    cluster.store.create("deployments", made, manager="test")
    async with cluster:
        await cluster.run(8.0)
        cluster.store.mutate("deployments", "test", "chat", restart, manager="test")
        await cluster.run(13.0)
        stuck = cluster.store.get("deployments", "test", "chat")
        assert condition(stuck, "Progressing")["reason"] == "ProgressDeadlineExceeded"
        assert condition(stuck, "Progressing")["status"] == "False"
        assert condition(stuck, "Available")["status"] == "True"
        cluster.node("more")
        await cluster.run(20.0)
        assert condition(cluster.store.get("deployments", "test", "chat"), "Progressing")["status"] == "True"
        assert is_complete(cluster.store.get("deployments", "test", "chat"))


async def test_recreate_lets_the_old_pods_go_first() -> None:
    cluster = Cluster()
    cluster.nodes(1, gpus=4)
    made = deployment("solo", 4, template("solo", stop_seconds=3))
    made["spec"]["strategy"] = {"type": "Recreate"}
    cluster.store.create("deployments", made, manager="test")
    async with cluster:
        await cluster.run(10.0)
        counts, watch = PodCounts(cluster.pods(app="solo")), Watch(cluster.store, "pods")
        cluster.store.mutate("deployments", "test", "solo", restart, manager="test")
        await cluster.run(20.0)
        counts.feed(watch.take())
    assert counts.most_with_terminating == 4
    assert is_complete(cluster.store.get("deployments", "test", "solo"))


async def test_scaling_in_the_middle_of_a_rollout_keeps_proportions() -> None:
    cluster = Cluster()
    cluster.nodes(4)
    cluster.store.create(
        "deployments", deployment("chat", 8, template("chat", warmup_seconds=30), 2, 0), manager="test"
    )
    async with cluster:
        await cluster.run(60.0)
        cluster.store.mutate("deployments", "test", "chat", restart, manager="test")
        await cluster.run(5.0)

        def grow(draft: Object) -> None:
            draft["spec"]["replicas"] = 16

        cluster.store.mutate("deployments", "test", "chat", grow, manager="test")
        await cluster.run(1.0)
        sizes = sorted(r["spec"]["replicas"] for r in cluster.store.list("replicasets", "test"))
        assert sizes == [4, 14]
        await cluster.run(400.0)
        assert is_complete(cluster.store.get("deployments", "test", "chat"))


@pytest.mark.parametrize("kind", [Deployments, ReplicaSets, Scheduler, Kubelet])
async def test_a_controller_that_restarts_in_the_middle_changes_nothing_in_the_end(kind: Any) -> None:
    cluster = Cluster()
    cluster.nodes(4)
    cluster.store.create("deployments", deployment("chat", 6, template("chat", warmup_seconds=2)), manager="test")
    async with cluster:
        await cluster.run(10.0)
        counts, watch = PodCounts(cluster.pods(app="chat")), Watch(cluster.store, "pods")
        cluster.store.mutate("deployments", "test", "chat", restart, manager="test")
        for _ in range(12):
            await cluster.run(0.7)
            await cluster.machinery.restart(kind)
        await cluster.run(60.0)
        counts.feed(watch.take())
        assert is_complete(cluster.store.get("deployments", "test", "chat"))
        assert counts.most <= 8
        assert counts.least_available >= 5
