"""A kubelet that falls silent, or says that it is not ready: conditions, taints, pods that go and pods that stay."""

from typing import Any

from fleet.simulation import hardware
from fleet.simulation.heartbeats import NOT_READY
from fleet.simulation.kubelet import SILENT
from fleet.simulation.node_lifecycle import LEASE_NAMESPACE, UNREACHABLE, NodeLifecycle
from tests.simulation.cluster import GPU, Cluster, Watch, condition, deployment, events_of, template

Object = dict[str, Any]


def live_node(cluster: Cluster, name: str) -> None:
    """A node with the conditions of a kubelet."""
    cluster.node(name)
    now = cluster.clock.now()

    def report(draft: Object) -> None:
        draft["status"]["conditions"] = hardware.conditions(now - 1000, now)

    cluster.store.mutate("nodes", None, name, report, manager="kubelet", subresource="status")


def note(cluster: Cluster, node: str, **notes: str | None) -> None:
    def change(draft: Object) -> None:
        known = {**(draft["metadata"].get("annotations") or {}), **{k.replace("__", "/"): v for k, v in notes.items()}}
        draft["metadata"]["annotations"] = {k: v for k, v in known.items() if v is not None}

    cluster.store.mutate("nodes", None, node, change, manager="machine-room")


def taints(node: Object) -> list[tuple[str, str]]:
    return [(t["key"].rpartition("/")[2], t["effect"]) for t in node["spec"].get("taints") or ()]


async def test_a_silent_kubelet_is_given_up_after_the_grace_and_its_pods_stay_running() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d")), manager="test")
        await cluster.run(20.0)
        note(cluster, "n0", **{SILENT: "true"})
        watch = Watch(cluster.store, "nodes")
        lease = cluster.store.get("leases", LEASE_NAMESPACE, "n0")["spec"]["renewTime"]
        await cluster.run(49.0 - 10.0)
        assert not watch.take(), "not before the grace has passed since the last sign of life"
        await cluster.run(17.0)
        changes = [c.object for c in watch.take()]
        pod = cluster.pods(app="d")[0]
        assert cluster.store.get("leases", LEASE_NAMESPACE, "n0")["spec"]["renewTime"] == lease
    assert [(condition(n, "Ready")["status"], taints(n)) for n in changes] == [
        ("Unknown", []),
        ("Unknown", [("unreachable", "NoSchedule")]),
        ("Unknown", [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
    ]
    ready = condition(changes[0], "Ready")
    assert (ready["reason"], ready["message"]) == ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    assert "unschedulable" not in changes[-1]["spec"]
    assert pod["status"]["phase"] == "Running"
    assert condition(pod, "Ready")["status"] == "False"
    assert "reason" not in condition(pod, "Ready")
    assert ("NodeNotReady", "Node n0 status is now: NodeNotReady") in events_of(cluster.store, "n0")
    assert ("NodeNotReady", "Node is not ready") in events_of(cluster.store, pod["metadata"]["name"])


async def test_pods_leave_a_lost_node_after_their_patience_and_never_end_there() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    hasty = template("hasty")
    hasty["spec"]["tolerations"] = [
        {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    ]
    async with cluster:
        cluster.store.create("deployments", deployment("hasty", 1, hasty), manager="test")
        cluster.store.create("deployments", deployment("patient", 1, template("patient")), manager="test")
        await cluster.run(20.0)
        note(cluster, "n0", **{SILENT: "true"})
        live_node(cluster, "n1")
        await cluster.run(70.0)
        leaving = [p for p in cluster.pods(app="hasty") if "deletionTimestamp" in p["metadata"]]
        assert len(cluster.pods(app="hasty")) == 2, "its replacement runs elsewhere"
        assert condition(leaving[0], "DisruptionTarget")["reason"] == "DeletionByTaintManager"
        assert not [p for p in cluster.pods(app="patient") if "deletionTimestamp" in p["metadata"]]
        await cluster.run(300.0)
        assert leaving[0]["metadata"]["name"] in {p["metadata"]["name"] for p in cluster.pods(app="hasty")}
        assert [p for p in cluster.pods(app="patient") if "deletionTimestamp" in p["metadata"]], "300 s by admission"
        note(cluster, "n0", **{SILENT: None})
        await cluster.run(4.0)
        assert len(cluster.pods(app="hasty")) == len(cluster.pods(app="patient")) == 1


async def test_a_node_that_comes_back_keeps_the_execute_taint_until_the_next_look() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d")), manager="test")
        await cluster.run(20.0)
        note(cluster, "n0", **{SILENT: "true"})
        await cluster.run(62.0)
        watch = Watch(cluster.store, "nodes")
        note(cluster, "n0", **{SILENT: None})
        await cluster.run(6.0)
        told = [(condition(c.object, "Ready")["status"], taints(c.object)) for c in watch.take()]
        assert condition(cluster.pods(app="d")[0], "Ready")["status"] == "True"
    assert told == [
        ("Unknown", [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        ("True", [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        ("True", [("unreachable", "NoExecute")]),
        ("True", []),
    ]
    name = cluster.pods(app="d")[0]["metadata"]["name"]
    told_of_pod = events_of(cluster.store, name)
    assert ("TaintManagerEviction", f"Cancelling deletion of Pod test/{name}") in told_of_pod


async def test_a_kubelet_that_is_not_ready_is_tainted_and_its_pods_stay_ready() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d")), manager="test")
        await cluster.run(20.0)
        note(cluster, "n0", **{NOT_READY: "true"})
        await cluster.run(1.0)
        node = cluster.store.get("nodes", None, "n0")
        assert condition(node, "Ready")["reason"] == "KubeletNotReady"
        assert taints(node) == [("not-ready", "NoSchedule")]
        await cluster.run(5.0)
        assert taints(cluster.store.get("nodes", None, "n0"))[1:] == [("not-ready", "NoExecute")]
        assert condition(cluster.pods(app="d")[0], "Ready")["status"] == "True"


async def test_lost_gpus_show_in_allocatable_alone() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        await cluster.run(12.0)
        note(cluster, "n0", **{"sim/gpu-2": "off-bus", "sim/gpu-5": "uncorrectable", "sim/gpu-6": "hung"})
        await cluster.run(1.0)
        status = cluster.store.get("nodes", None, "n0")["status"]
        assert (status["allocatable"][GPU], status["capacity"][GPU]) == ("6", "8")
        assert condition(cluster.store.get("nodes", None, "n0"), "Ready")["status"] == "True"
        note(cluster, "n0", **{"sim/gpu-2": None, "sim/gpu-5": None})
        await cluster.run(1.0)
        assert cluster.store.get("nodes", None, "n0")["status"]["allocatable"][GPU] == "8"


async def test_a_taint_set_by_hand_takes_pods_at_once_whatever_their_budget() -> None:
    cluster = Cluster()
    live_node(cluster, "n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d")), manager="test")
        budget = {
            "metadata": {"name": "d", "namespace": "test"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "d"}}},
        }
        cluster.store.create("poddisruptionbudgets", budget, manager="test")
        await cluster.run(20.0)
        taint = {"key": "example.org/maintenance", "effect": "NoExecute"}
        cluster.store.mutate("nodes", None, "n0", lambda n: n["spec"].update(taints=[taint]), manager="kubectl")
        watch = Watch(cluster.store, "pods")
        await cluster.run(0.2)
        reasons = [condition(c.object, "DisruptionTarget").get("reason") for c in watch.take()]
    assert reasons[0] == "DeletionByTaintManager"
    assert "deletionTimestamp" in watch.changes[1].object["metadata"]


async def test_a_rehearsal_that_stood_still_has_lost_no_kubelet() -> None:
    cluster = Cluster(without=(NodeLifecycle,))
    live_node(cluster, "n0")
    async with cluster:
        await cluster.run(15.0)
        process = cluster.machinery.controllers[next(iter(cluster.machinery.controllers))].process
        lifecycle = NodeLifecycle(process)
        lifecycle.sync("*")
        await cluster.machinery.stop()
        await cluster.clock.advance(300.0)
        lifecycle.sync("*")
        assert condition(cluster.store.get("nodes", None, "n0"), "Ready")["status"] == "True"
        await cluster.clock.advance(5.0)
        lifecycle.sync("*")
        assert condition(cluster.store.get("nodes", None, "n0"), "Ready")["status"] == "Unknown"
