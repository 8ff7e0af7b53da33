"""A pod's life on a node: the steps of the recording, events, stopping, ending, heartbeats."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.simulation.clock import parse_stamp
from fleet.simulation.kubelet import Kubelet
from tests.simulation.cluster import Cluster, Watch, condition, events_of, template

Object = dict[str, Any]

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "watch_pods.json"


def bare(name: str = "w1", gpus: int = 1, **more: Any) -> Object:
    made = template("w", gpus, **more)
    return {"metadata": {"name": name, "namespace": "test", **made["metadata"]}, "spec": made["spec"]}


def step(pod: Object) -> tuple[Any, ...]:
    """What a change of a pod is about, without identities and times."""
    containers = pod["status"].get("containerStatuses") or []
    return (
        pod["status"]["phase"],
        pod["metadata"].get("deletionGracePeriodSeconds"),
        bool(pod["spec"].get("nodeName")),
        tuple((c["type"], c["status"], c.get("reason")) for c in pod["status"].get("conditions") or ()),
        tuple((c["ready"], c["started"], next(iter(c["state"]))) for c in containers),
        pod["status"].get("observedGeneration"),
        "podIP" in pod["status"],
    )


def recorded_life() -> list[tuple[str, tuple[Any, ...]]]:
    """The recorded life of the bare pod w1, without the two changes of its labels by a person."""
    exchanges = json.loads(RECORDING.read_text())
    watch = next(e for e in exchanges if (e["request"].get("query") or {}).get("watch") == "true")
    events = [e for e in watch["response"]["body"] if e["type"] != "BOOKMARK"]
    told = [(e["type"], step(e["object"])) for e in events]
    return [t for i, t in enumerate(told) if i == 0 or t != told[i - 1]]


async def test_the_steps_of_a_life_are_those_of_the_recording() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "pods")
        cluster.store.create("pods", bare(grace_s=5, warmup_seconds=1), manager="test")
        await cluster.run(5.0)
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(10.0)
    assert [(c.type, step(c.object)) for c in watch.take()] == recorded_life()


async def test_timings_are_those_of_the_image_or_the_annotations() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        began = cluster.clock.now()
        made = bare(pull_seconds=4, warmup_seconds=20)
        cluster.store.create("pods", made, manager="test")
        for expected_s, phase, ready in [
            (3.9, "Pending", "False"),
            (4.5, "Running", "False"),
            (25.0, "Running", "True"),
        ]:
            await cluster.run(expected_s - (cluster.clock.now() - began))
            pod = cluster.store.get("pods", "test", "w1")
            assert (pod["status"]["phase"], condition(pod, "Ready")["status"]) == (phase, ready)
        llm = bare("llm")
        del llm["metadata"]["annotations"]
        llm["spec"]["containers"][0]["image"] = "par-prod/llm-server:v41"
        cluster.store.create("pods", llm, manager="test")
        await cluster.run(9.0 + 38.0 - 1.0)
        assert condition(cluster.store.get("pods", "test", "llm"), "Ready")["status"] == "False"
        await cluster.run(2.0)
        assert condition(cluster.store.get("pods", "test", "llm"), "Ready")["status"] == "True"


async def test_events_tell_of_every_step() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare(), manager="test")
        await cluster.run(5.0)
        cluster.store.create("pods", bare("w2"), manager="test")
        await cluster.run(5.0)
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(5.0)
    assert [reason for reason, _ in events_of(cluster.store, "w1")] == [
        "Scheduled",
        "Pulling",
        "Pulled",
        "Created",
        "Started",
        "Killing",
    ]
    again = dict(events_of(cluster.store, "w2"))
    assert "Pulling" not in again
    assert "already present on machine" in again["Pulled"]
    killing = next(e for e in cluster.store.list("events") if e["reason"] == "Killing")
    assert killing["source"] == {"component": "kubelet", "host": "n0"}
    assert killing["count"] == 1
    assert killing["eventTime"] is None
    assert killing["involvedObject"]["fieldPath"] == "spec.containers{server}"


@pytest.mark.parametrize(("stop_s", "grace_s", "gone_after_s", "code"), [(1, 30, 1, 0), (20, 5, 5, 137)])
async def test_a_stop_takes_its_own_time_but_no_longer_than_the_grace(
    stop_s: int, grace_s: int, gone_after_s: int, code: int
) -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare(grace_s=grace_s, stop_seconds=stop_s), manager="test")
        await cluster.run(5.0)
        watch = Watch(cluster.store, "pods")
        began = cluster.clock.now()
        doomed = cluster.store.delete("pods", "test", "w1")
        assert parse_stamp(doomed["metadata"]["deletionTimestamp"]) == int(began) + grace_s
        await cluster.run(gone_after_s - 0.2)
        assert cluster.store.list("pods")
        await cluster.run(0.5)
        assert not cluster.store.list("pods")
    last = watch.take()[-1].object["status"]["containerStatuses"][0]["state"]["terminated"]
    assert last["exitCode"] == code


async def test_a_pod_that_never_started_goes_at_once() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare(pull_seconds=60), manager="test")
        await cluster.run(5.0)
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(0.5)
        assert not cluster.store.list("pods")


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded"), ("OnFailure", 3, "Running")],
)
async def test_what_follows_an_end_is_the_restart_policy(policy: str, code: int, phase: str) -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = bare(run_seconds=4, exit_code=code, warmup_seconds=0, restart=policy)
        cluster.store.create("pods", made, manager="test")
        await cluster.run(6.0)
        pod = cluster.store.get("pods", "test", "w1")
        assert pod["status"]["phase"] == phase
        state = pod["status"]["containerStatuses"][0]["state"]
        if phase == "Running":
            assert state["waiting"]["reason"] == "CrashLoopBackOff"
            await cluster.run(9.0)
            again = cluster.store.get("pods", "test", "w1")["status"]["containerStatuses"][0]
            assert again["restartCount"] == 1
            assert "running" in again["state"]
            assert again["lastState"]["terminated"]["exitCode"] == code
        else:
            assert state["terminated"]["exitCode"] == code


async def test_addresses_are_of_the_nodes_range_and_never_shared() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    async with cluster:
        for index in range(10):
            cluster.store.create("pods", bare(f"p{index}"), manager="test")
        await cluster.run(5.0)
        cluster.store.delete("pods", "test", "p3")
        await cluster.run(5.0)
        cluster.store.create("pods", bare("late"), manager="test")
        await cluster.run(5.0)
        pods = cluster.store.list("pods")
    addresses = {p["status"]["podIP"] for p in pods}
    assert len(addresses) == len(pods) == 10
    number = {"n0": "10.100.0.", "n1": "10.100.1."}
    assert all(p["status"]["podIP"].startswith(number[p["spec"]["nodeName"]]) for p in pods)
    assert all(p["status"]["hostIP"] == "10.1.0.1" for p in pods)


async def test_a_kubelet_that_restarts_goes_on_where_it_was() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare(pull_seconds=2, warmup_seconds=10, stop_seconds=4), manager="test")
        for _ in range(7):
            await cluster.run(2.0)
            await cluster.machinery.restart(Kubelet)
        assert condition(cluster.store.get("pods", "test", "w1"), "Ready")["status"] == "True"
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(2.0)
        await cluster.machinery.restart(Kubelet)
        await cluster.run(3.5)
        assert not cluster.store.list("pods")


async def test_the_kubelet_of_a_silent_node_does_nothing_until_it_is_back() -> None:
    cluster = Cluster()
    node = cluster.node("n0")
    async with cluster:
        cluster.store.create("pods", bare(), manager="test")
        await cluster.run(20.0)
        lease = cluster.store.get("leases", "kube-node-lease", "n0")

        def mute(draft: Object) -> None:
            draft["metadata"].setdefault("annotations", {})["sim/down"] = "true"

        def unmute(draft: Object) -> None:
            draft["metadata"]["annotations"].pop("sim/down")

        cluster.store.mutate("nodes", None, "n0", mute, manager="test")
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(60.0)
        assert "deletionTimestamp" in cluster.store.get("pods", "test", "w1")["metadata"]
        assert cluster.store.get("leases", "kube-node-lease", "n0")["spec"] == lease["spec"]
        cluster.store.mutate("nodes", None, node["metadata"]["name"], unmute, manager="test")
        await cluster.run(11.0)
        assert not cluster.store.list("pods")
        assert cluster.store.get("leases", "kube-node-lease", "n0")["spec"] != lease["spec"]


async def test_leases_every_ten_seconds_and_conditions_every_five_minutes() -> None:
    cluster = Cluster()
    cluster.node("n0")

    def report(draft: Object) -> None:
        now = "2026-09-21T14:13:20Z"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        told = {"reason": "KubeletReady", "message": "kubelet is posting ready status"}
        draft["status"]["conditions"] = [ready | told]

    cluster.store.mutate("nodes", None, "n0", report, manager="kubelet", subresource="status")
    async with cluster:
        leases, nodes = Watch(cluster.store, "leases"), Watch(cluster.store, "nodes")
        await cluster.run(620.0)
    assert 61 <= len(leases.take()) <= 63
    beats = [c.object["status"]["conditions"][0] for c in nodes.take()]
    assert len(beats) == 2
    gap_s = parse_stamp(beats[1]["lastHeartbeatTime"]) - parse_stamp(beats[0]["lastHeartbeatTime"])
    assert 295 <= gap_s <= 305
    assert {b["lastTransitionTime"] for b in beats} == {"2026-09-21T14:13:20Z"}
    owner = leases.changes[0].object["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Node", "n0")
