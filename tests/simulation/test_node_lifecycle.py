"""The taint that follows a cordon."""

from typing import Any

from tests.simulation.cluster import Cluster, Watch

Object = dict[str, Any]

TAINT = "node.kubernetes.io/unschedulable"


def cordon(draft: Object) -> None:
    draft["spec"]["unschedulable"] = True


def uncordon(draft: Object) -> None:
    draft["spec"].pop("unschedulable")


async def test_cordon_and_uncordon_are_two_changes_each() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "nodes")
        began = cluster.clock.now()
        cluster.store.mutate("nodes", None, "n0", cordon, manager="kubectl")
        await cluster.run(0.009)
        assert len(watch.take()) == 1, "the taint does not come at the same time"
        await cluster.run(0.025)
        assert len(watch.take()) == 2
        await cluster.run(5.0)
        cluster.store.mutate("nodes", None, "n0", uncordon, manager="kubectl")
        await cluster.run(5.0)
    specs = [c.object["spec"] for c in watch.take()]
    assert [(s.get("unschedulable", False), [t["key"] for t in s.get("taints", [])]) for s in specs] == [
        (True, []),
        (True, [TAINT]),
        (False, [TAINT]),
        (False, []),
    ]
    taint = specs[1]["taints"][0]
    assert taint == {"key": TAINT, "effect": "NoSchedule", "timeAdded": taint["timeAdded"]}
    assert began > 0
    managers = {m["manager"]: m for m in watch.changes[1].object["metadata"]["managedFields"]}
    assert managers["kubectl"]["fieldsV1"]["f:spec"] == {"f:unschedulable": {}}
    assert "f:taints" in managers["kube-controller-manager"]["fieldsV1"]["f:spec"]


async def test_other_taints_stay() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    other = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    cluster.store.mutate("nodes", None, "n0", lambda n: n["spec"].update(taints=[other]), manager="test")
    async with cluster:
        cluster.store.mutate("nodes", None, "n0", cordon, manager="kubectl")
        await cluster.run(1.0)
        assert len(cluster.store.get("nodes", None, "n0")["spec"]["taints"]) == 2
        cluster.store.mutate("nodes", None, "n0", uncordon, manager="kubectl")
        await cluster.run(1.0)
        assert cluster.store.get("nodes", None, "n0")["spec"]["taints"] == [other]
