"""What is removed because nobody else can: content of namespaces that end, pods of nodes that are gone."""

from typing import Any

from tests.simulation.cluster import Cluster, condition, deployment, template

Object = dict[str, Any]


async def test_a_namespace_ends_when_everything_in_it_has_ended() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        pod = template("d", stop_seconds=8)
        cluster.store.create("deployments", deployment("d", 2, pod), manager="test")
        service = {
            "metadata": {"name": "d", "namespace": "test"},
            "spec": {"selector": {"app": "d"}, "ports": [{"port": 80}]},
        }
        cluster.store.create("services", service, manager="test")
        await cluster.run(10.0)
        cluster.store.delete("namespaces", None, "test")
        await cluster.run(4.0)
        namespace = cluster.store.get("namespaces", None, "test")
        assert namespace["status"]["phase"] == "Terminating"
        remaining = condition(namespace, "NamespaceContentRemaining")
        assert (remaining["status"], remaining["reason"]) == ("True", "SomeResourcesRemain")
        assert "pods. has 2 resource instances" in remaining["message"]
        assert not cluster.store.list("deployments", "test")
        await cluster.run(10.0)
        assert "test" not in {n["metadata"]["name"] for n in cluster.store.list("namespaces")}
        assert not [
            o for plural in ("pods", "events", "services", "configmaps") for o in cluster.store.list(plural, "test")
        ]


async def test_pods_of_a_node_that_is_gone_fail_and_go_after_a_while() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    async with cluster:
        cluster.store.create("deployments", deployment("d", 2, template("d")), manager="test")
        await cluster.run(10.0)
        lost = next(p for p in cluster.pods(app="d") if p["spec"]["nodeName"] == "n0")["metadata"]["name"]
        cluster.store.delete("nodes", None, "n0")
        await cluster.run(30.0)
        assert lost in {p["metadata"]["name"] for p in cluster.pods(app="d")}, "the node may be registered again"
        await cluster.run(40.0)
        pods = cluster.pods(app="d")
        assert lost not in {p["metadata"]["name"] for p in pods}
        assert [p["spec"]["nodeName"] for p in pods] == ["n1", "n1"]


async def test_a_taint_out_of_service_frees_pods_that_no_kubelet_ends() -> None:
    cluster = Cluster()
    cluster.node("n0")
    async with cluster:
        cluster.store.create("deployments", deployment("d", 1, template("d")), manager="test")
        await cluster.run(10.0)
        down = {"sim/down": "true"}
        cluster.store.mutate("nodes", None, "n0", lambda n: n["metadata"].update(annotations=down), manager="test")
        cluster.store.delete("pods", "test", cluster.pods(app="d")[0]["metadata"]["name"])
        cluster.node("n1")
        await cluster.run(60.0)
        assert len(cluster.pods(app="d")) == 2
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        cluster.store.mutate("nodes", None, "n0", lambda n: n["spec"].update(taints=[taint]), manager="kubectl")
        await cluster.run(21.0)
        assert [p["spec"]["nodeName"] for p in cluster.pods(app="d")] == ["n1"]


async def test_a_pod_that_never_got_a_node_is_removed_when_it_terminates() -> None:
    cluster = Cluster()
    async with cluster:
        made = template("w")
        pod = {"metadata": {"name": "w", "namespace": "test", "finalizers": ["example.org/hold"]}, "spec": made["spec"]}
        cluster.store.create("pods", pod, manager="test")
        cluster.store.delete("pods", "test", "w")
        await cluster.run(1.0)
        assert cluster.store.list("pods", "test")
        cluster.store.mutate("pods", "test", "w", lambda p: p["metadata"].update(finalizers=[]), manager="test")
        await cluster.run(21.0)
        assert not cluster.store.list("pods", "test")
