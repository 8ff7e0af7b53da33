"""A reboot that somebody asked for: only on a cordoned node, with a new boot id, and containers that begin again."""

from typing import Any

from fleet.simulation.kubelet import SILENT, boot_id
from fleet.simulation.reboots import BOOT_SECONDS, REBOOTED_AT, REQUESTED
from tests.simulation.cluster import Cluster, condition, deployment, events_of, template
from tests.simulation.test_lost_nodes import live_node, note

Object = dict[str, Any]


def cordon(draft: Object) -> None:
    draft["spec"]["unschedulable"] = True


def uncordon(draft: Object) -> None:
    del draft["spec"]["unschedulable"]


async def test_a_cordoned_node_is_rebooted_after_a_while() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d", warmup_seconds=2)), manager="test")
        bare = template("once", restart="Never")
        pod = {"metadata": {"name": "once", "namespace": "test", **bare["metadata"]}, "spec": bare["spec"]}
        cluster.store.create("pods", pod, manager="test")
        await cluster.run(20.0)
        before = boot_id(cluster.store.get("nodes", None, "n0"))
        cluster.store.mutate("nodes", None, "n0", cordon, manager="kubectl")
        note(cluster, "n0", **{REQUESTED: "2026-01-01T00:00:00Z", BOOT_SECONDS: "40"})
        await cluster.run(14.0)
        assert SILENT not in cluster.store.get("nodes", None, "n0")["metadata"]["annotations"], "not at once"
        await cluster.run(2.0)
        assert cluster.store.get("nodes", None, "n0")["metadata"]["annotations"][SILENT] == "true"
        assert boot_id(cluster.store.get("nodes", None, "n0")) == before
        await cluster.run(60.0)
        node, served = cluster.store.get("nodes", None, "n0"), cluster.pods(app="d")[0]
        assert boot_id(node) not in {before, ""}
        assert {REQUESTED, SILENT} & set(node["metadata"]["annotations"]) == set()
        assert REBOOTED_AT in node["metadata"]["annotations"]
        assert node["spec"]["unschedulable"], "whoever cordoned it uncordons it"
        container = served["status"]["containerStatuses"][0]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == 255
        assert condition(served, "Ready")["status"] == "True"
        assert cluster.store.get("pods", "test", "once")["status"]["phase"] == "Failed"
    assert any(reason == "Rebooted" for reason, _ in events_of(cluster.store, "n0"))


async def test_a_node_in_use_is_not_rebooted_and_a_request_taken_back_is_forgotten() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        note(cluster, "n0", **{REQUESTED: "2026-01-01T00:00:00Z"})
        await cluster.run(60.0)
        assert SILENT not in cluster.store.get("nodes", None, "n0")["metadata"]["annotations"], "it is not cordoned"
        cluster.store.mutate("nodes", None, "n0", cordon, manager="kubectl")
        await cluster.run(5.0)
        cluster.store.mutate("nodes", None, "n0", uncordon, manager="kubectl")
        await cluster.run(60.0)
        assert boot_id(cluster.store.get("nodes", None, "n0")) == ""
        assert set(cluster.store.get("nodes", None, "n0")["metadata"]["annotations"]) == {REQUESTED}
