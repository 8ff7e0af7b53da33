"""Pods in trouble: images that cannot be had, crashes, hangs, slow starts, stops that take longer than they may."""

from typing import Any

from tests.simulation.cluster import Cluster, Watch, condition, events_of, template
from tests.simulation.test_kubelet import bare

Object = dict[str, Any]


def state(pod: Object) -> Object:
    found: Object = pod["status"]["containerStatuses"][0]["state"]
    return found


async def test_an_image_that_cannot_be_had_is_tried_again_and_again() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "pods")
        cluster.store.create("pods", bare(image_error="true"), manager="test")
        await cluster.run(120.0)
        waits = [state(c.object)["waiting"] for c in watch.take() if c.object["status"].get("containerStatuses")]
        reasons = [w["reason"] for w in waits]
        assert reasons[:4] == ["ContainerCreating", "ErrImagePull", "ImagePullBackOff", "ErrImagePull"]
        assert waits[1]["message"] == 'failed to pull and unpack image "sim.io/server:v1": not found'
        assert waits[2]["message"].startswith('Back-off pulling image "sim.io/server:v1"')
        told = [reason for reason, _ in events_of(cluster.store, "w1")]
        assert {"Pulling", "Failed", "BackOff"} <= set(told)
        assert cluster.store.get("pods", "test", "w1")["status"]["phase"] == "Pending"
        cluster.store.mutate("pods", "test", "w1", lambda p: p["metadata"].update(annotations={}), manager="kubectl")
        await cluster.run(310.0)
        assert condition(cluster.store.get("pods", "test", "w1"), "Ready")["status"] == "True", (
            "somebody pushed the image"
        )


async def test_a_pod_without_its_image_can_be_deleted() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("pods", bare(image_error="true"), manager="test")
        await cluster.run(5.0)
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(1.0)
        assert not cluster.store.list("pods")


async def test_crashes_are_waited_out_longer_each_time() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "pods")
        cluster.store.create("pods", bare(crashloop="true", warmup_seconds=0), manager="test")
        await cluster.run(50.0)
    counts = [
        c.object["status"]["containerStatuses"][0] for c in watch.take() if c.object["status"].get("containerStatuses")
    ]
    waits = [
        c["state"]["waiting"]["message"]
        for c in counts
        if c["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    ]
    assert [w.split()[1] for w in waits] == ["10s", "20s", "40s"]
    assert counts[-1]["restartCount"] == 2
    assert counts[-1]["lastState"]["terminated"]["exitCode"] == 1


def probed(**probes: Object) -> Object:
    made = bare(warmup_seconds=2, hang_seconds=20)
    http = {"httpGet": {"path": "/healthz", "port": "http"}}
    made["spec"]["containers"][0] |= {kind: http | spec for kind, spec in probes.items()}
    return made


async def test_a_server_that_hangs_is_taken_out_and_started_again() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "pods")
        made = probed(readinessProbe={"periodSeconds": 2, "failureThreshold": 2}, livenessProbe={"periodSeconds": 5})
        cluster.store.create("pods", made, manager="test")
        await cluster.run(40.0)
    told = [
        (
            condition(c.object, "Ready").get("status"),
            c.object["status"].get("containerStatuses", [{}])[0].get("restartCount"),
        )
        for c in watch.take()
    ]
    assert list(dict.fromkeys(t for t in told if t[0]))[:4] == [("False", 0), ("True", 0), ("False", 1), ("True", 1)]
    last = watch.changes[-1].object["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 137
    reasons = [reason for reason, _ in events_of(cluster.store, "w1")]
    assert {"Unhealthy", "Killing"} <= set(reasons)


async def test_a_server_that_starts_too_slowly_is_killed_before_it_is_up() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = bare(warmup_seconds=60)
        made["spec"]["containers"][0]["startupProbe"] = {
            "httpGet": {"port": 8000},
            "periodSeconds": 5,
            "failureThreshold": 3,
        }
        cluster.store.create("pods", made, manager="test")
        await cluster.run(45.0)
        pod = cluster.store.get("pods", "test", "w1")
        assert pod["status"]["containerStatuses"][0]["restartCount"] >= 2
        assert condition(pod, "Ready")["status"] == "False"
    assert ("Killing", "Container server failed startup probe, will be restarted") in events_of(cluster.store, "w1")


async def test_a_readiness_probe_that_never_passes_is_told_once() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = bare(unready="true")
        made["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"port": 8000}, "periodSeconds": 5}
        cluster.store.create("pods", made, manager="test")
        await cluster.run(45.0)
        assert condition(cluster.store.get("pods", "test", "w1"), "Ready")["status"] == "False"
    told = [message for reason, message in events_of(cluster.store, "w1") if reason == "Unhealthy"]
    assert told == ["Readiness probe failed: HTTP probe failed with statuscode: 503"]


async def test_a_pre_stop_hook_uses_up_the_grace() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = bare(grace_s=10, stop_seconds=4)
        made["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 8}}}
        cluster.store.create("pods", made, manager="test")
        await cluster.run(5.0)
        watch = Watch(cluster.store, "pods")
        cluster.store.delete("pods", "test", "w1")
        await cluster.run(9.0)
        assert cluster.store.list("pods")
        await cluster.run(2.0)
        assert not cluster.store.list("pods")
    codes = [s["exitCode"] for c in watch.take() if (s := state(c.object).get("terminated"))]
    assert set(codes) == {137}


async def test_several_containers_are_ready_together() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = template("w", warmup_seconds=1)
        second = {
            **made["spec"]["containers"][0],
            "name": "side",
            "readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 7},
        }
        made["spec"]["containers"].append(second)
        pod = {"metadata": {"name": "w1", "namespace": "test", **made["metadata"]}, "spec": made["spec"]}
        cluster.store.create("pods", pod, manager="test")
        await cluster.run(5.0)
        assert condition(cluster.store.get("pods", "test", "w1"), "Ready")["status"] == "False"
        await cluster.run(4.0)
        assert condition(cluster.store.get("pods", "test", "w1"), "Ready")["status"] == "True"
