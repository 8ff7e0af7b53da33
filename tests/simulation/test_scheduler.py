"""Binding: where pods go, what they are told when they go nowhere, and that no node is ever given more than it has."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.simulation.placement import FINISHED, amounts, effective_request
from tests.simulation.cluster import GPU, Cluster, Watch, condition, deployment, events_of, template

Object = dict[str, Any]


def bare(name: str, gpus: int, **spec: Any) -> Object:
    made = template("bare", gpus, **spec.pop("sim", {}))
    return {
        "metadata": {"name": name, "namespace": "test", **made["metadata"]},
        "spec": {**made["spec"], **spec},
    }


def overcommitted(cluster: Cluster) -> list[str]:
    """Nodes whose bound, unfinished pods take more than there is."""
    taken: dict[str, dict[str, int]] = {}
    for pod in cluster.store.list("pods"):
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in FINISHED:
            mine = taken.setdefault(pod["spec"]["nodeName"], {"pods": 0})
            mine["pods"] += 1
            for name, amount in effective_request(pod["spec"]).items():
                mine[name] = mine.get(name, 0) + amount
    have = {n["metadata"]["name"]: amounts(n["status"]["allocatable"]) for n in cluster.store.list("nodes")}
    return [n for n, used in taken.items() if any(a > have[n].get(r, 0) for r, a in used.items())]


async def test_a_pod_is_bound_with_its_condition_its_zone_and_its_event() -> None:
    cluster = Cluster()
    labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r"}
    cluster.store.create("nodes", {**cluster_node("n0"), "metadata": {"name": "n0", "labels": labels}}, manager="t")
    async with cluster:
        cluster.store.create("pods", bare("p", 1), manager="test")
        await cluster.run(1.0)
    pod = cluster.store.get("pods", "test", "p")
    assert pod["spec"]["nodeName"] == "n0"
    assert condition(pod, "PodScheduled")["status"] == "True"
    assert pod["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z1"
    assert events_of(cluster.store, "p")[0] == ("Scheduled", "Successfully assigned test/p to n0")
    event = next(e for e in cluster.store.list("events") if e["reason"] == "Scheduled")
    assert event["eventTime"]
    assert event["firstTimestamp"] is None
    assert event["source"] == {}
    assert "count" not in event


def cluster_node(name: str, gpus: int = 8) -> Object:
    have = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {"metadata": {"name": name}, "spec": {}, "status": {"capacity": have, "allocatable": have}}


async def test_a_refusal_is_written_once_and_again_only_when_its_reason_changes() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    async with cluster:
        cluster.store.create("pods", bare("big", 16), manager="test")
        await cluster.run(1.0)
        watch = Watch(cluster.store, "pods")
        pod = cluster.store.get("pods", "test", "big")
        told = condition(pod, "PodScheduled")
        assert (told["status"], told["reason"]) == ("False", "Unschedulable")
        assert told["message"].startswith(f"0/2 nodes are available: 2 Insufficient {GPU}. no new claims")
        assert told["observedGeneration"] == 1
        assert events_of(cluster.store, "big") == [("FailedScheduling", told["message"])]
        cluster.store.create("pods", bare("small", 1), manager="test")
        await cluster.run(60.0)
        assert not [c for c in watch.take() if c.object["metadata"]["name"] == "big"]
        cluster.node("n2")
        await cluster.run(1.0)
        changed = [c.object for c in watch.take() if c.object["metadata"]["name"] == "big"]
        assert [condition(p, "PodScheduled")["message"][:4] for p in changed] == ["0/3 "]
        assert changed[0]["status"]["conditions"][0]["lastTransitionTime"] == told["lastTransitionTime"]


async def test_a_waiting_pod_gets_the_room_that_another_leaves() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare("first", 8, sim={"stop_seconds": 2}), manager="test")
        await cluster.run(5.0)
        cluster.store.create("pods", bare("second", 8), manager="test")
        await cluster.run(5.0)
        assert "nodeName" not in cluster.store.get("pods", "test", "second")["spec"]
        cluster.store.delete("pods", "test", "first")
        await cluster.run(1.0)
        assert "nodeName" not in cluster.store.get("pods", "test", "second")["spec"], "its GPUs are still held"
        await cluster.run(3.0)
        assert cluster.store.get("pods", "test", "second")["spec"]["nodeName"] == "n0"


async def test_a_waiting_pod_goes_to_a_node_that_is_uncordoned() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    cluster.store.mutate("nodes", None, "n0", lambda n: n["spec"].update(unschedulable=True), manager="test")
    async with cluster:
        cluster.store.create("pods", bare("p", 1), manager="test")
        await cluster.run(1.0)
        assert "were unschedulable" in condition(cluster.store.get("pods", "test", "p"), "PodScheduled")["message"]
        cluster.store.mutate("nodes", None, "n0", lambda n: n["spec"].pop("unschedulable") and None, manager="test")
        await cluster.run(1.0)
        assert cluster.store.get("pods", "test", "p")["spec"]["nodeName"] == "n0"


async def test_servers_are_spread_and_training_is_packed() -> None:
    cluster = Cluster()
    cluster.nodes(4)
    async with cluster:
        cluster.store.create("deployments", deployment("web", 4, template("web", 1)), manager="test")
        await cluster.run(5.0)
        assert len({p["spec"]["nodeName"] for p in cluster.pods(app="web")}) == 4
        made = template("train", 3)
        job = {
            "metadata": {"name": "train", "namespace": "test"},
            "spec": {"parallelism": 2, "completions": 2, "template": made},
        }
        made["spec"]["restartPolicy"] = "Never"
        cluster.store.create("jobs", job, manager="test")
        await cluster.run(5.0)
        assert len({p["spec"]["nodeName"] for p in cluster.pods(app="train")}) == 1


async def test_higher_priority_goes_first() -> None:
    cluster = Cluster()
    async with cluster:
        cluster.store.create("pods", bare("low", 8), manager="test")
        cluster.store.create("pods", bare("high", 8, priority=10), manager="test")
        await cluster.run(1.0)
        cluster.node("n0")
        await cluster.run(1.0)
    assert cluster.store.get("pods", "test", "high")["spec"].get("nodeName") == "n0"
    assert "nodeName" not in cluster.store.get("pods", "test", "low")["spec"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=30),
)
def test_no_node_is_ever_given_more_than_it_has(nodes: list[int], pods: list[tuple[int, int]]) -> None:
    """Pods of 0 to 9 GPUs come, some are deleted, nodes lose and gain GPUs: bound pods fitted when they were bound."""

    async def story() -> None:
        cluster = Cluster()
        for index, gpus in enumerate(nodes):
            cluster.node(f"n{index}", gpus)
        async with cluster:
            for index, (gpus, then) in enumerate(pods):
                cluster.store.create("pods", bare(f"p{index}", gpus, sim={"stop_seconds": 0.1}), manager="test")
                await cluster.run(0.1 * then)
                if then == 2 and f"test/p{index // 2}" in cluster.store.shelf("pods").records:
                    cluster.store.delete("pods", "test", f"p{index // 2}", grace_s=0 if index % 2 else None)
                assert not overcommitted(cluster)
            await cluster.run(10.0)
            assert not overcommitted(cluster)
            waiting = [p for p in cluster.pods() if not p["spec"].get("nodeName")]
            assert all(condition(p, "PodScheduled")["reason"] == "Unschedulable" for p in waiting)

    asyncio.run(story())
