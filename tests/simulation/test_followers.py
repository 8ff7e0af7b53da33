"""What follows from pods: endpoints, budgets, and what goes with its owner."""

from typing import Any

import pytest

from tests.simulation.cluster import Cluster, Watch, deployment, template

Object = dict[str, Any]


def service(selector: dict[str, str]) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {
        "metadata": {"name": "web", "namespace": "test"},
        "spec": {"selector": selector, "ports": ports, "clusterIP": "10.96.0.9"},
    }


def budget(**spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": "web", "namespace": "test"}, "spec": {"selector": selector, **spec}}


async def web(cluster: Cluster, replicas: int = 3) -> None:
    cluster.nodes(2)
    cluster.store.create("deployments", deployment("web", replicas, template("web", stop_seconds=2)), manager="test")
    await cluster.run(10.0)


def endpoints(cluster: Cluster) -> list[tuple[bool, bool, bool]]:
    found = cluster.store.list("endpointslices", "test")
    shown = (e["conditions"] for e in found[0]["endpoints"] or ())
    return [(c["ready"], c["serving"], c["terminating"]) for c in shown]


async def test_a_service_reaches_its_ready_pods() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        cluster.store.create("services", service({"app": "web"}), manager="test")
        await cluster.run(1.0)
    found = cluster.store.list("endpointslices", "test")[0]
    assert endpoints(cluster) == [(True, True, False)] * 3
    assert found["ports"] == [{"name": "http", "protocol": "TCP", "port": 8000}]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"


async def test_a_pod_that_stops_is_first_not_ready_then_not_serving_then_gone() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        cluster.store.create("services", service({"app": "web"}), manager="test")
        await cluster.run(1.0)
        victim = endpoints_names(cluster)[0]
        watch = Watch(cluster.store, "endpointslices")
        cluster.store.delete("pods", "test", victim)
        await cluster.run(10.0)
    told = []
    for change in watch.take():
        mine = [e for e in change.object["endpoints"] if e["targetRef"]["name"] == victim]
        conditions = mine[0]["conditions"] if mine else {}
        told.append((conditions.get("ready"), conditions.get("serving"), conditions.get("terminating")))
    steps = list(dict.fromkeys(told))
    assert steps[-2:] == [(False, False, True), (None, None, None)]
    assert steps[0] in {(False, True, True), (False, False, True)}
    assert endpoints(cluster) == [(True, True, False)] * 3


def endpoints_names(cluster: Cluster) -> list[str]:
    return [e["targetRef"]["name"] for e in cluster.store.list("endpointslices", "test")[0]["endpoints"]]


async def test_a_switched_selector_changes_all_endpoints_in_one_event() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    for colour in ("blue", "green"):
        cluster.store.create("deployments", deployment(colour, 2, template(colour)), manager="test")
    cluster.store.create("services", service({"app": "blue"}), manager="test")
    async with cluster:
        await cluster.run(10.0)
        watch = Watch(cluster.store, "endpointslices")
        cluster.store.mutate(
            "services", "test", "web", lambda s: s["spec"].update(selector={"app": "green"}), manager="t"
        )
        await cluster.run(1.0)
        assert len(watch.take()) == 1
        assert all(name.startswith("green-") for name in endpoints_names(cluster))
        cluster.store.mutate("services", "test", "web", lambda s: s["spec"].update(selector={"app": "x"}), manager="t")
        await cluster.run(1.0)
        empty = watch.take()[-1].object
        assert (empty["endpoints"], empty["ports"]) == (None, None)


@pytest.mark.parametrize(
    ("spec", "allowed", "desired", "expected"),
    [
        ({"minAvailable": 2}, 1, 2, 3),
        ({"minAvailable": 3}, 0, 3, 3),
        ({"minAvailable": "50%"}, 1, 2, 3),
        ({"maxUnavailable": 1}, 1, 2, 3),
        ({"maxUnavailable": "34%"}, 2, 1, 3),
        ({"maxUnavailable": "0%"}, 0, 3, 3),
    ],
)
async def test_what_a_budget_allows(spec: Object, allowed: int, desired: int, expected: int) -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        cluster.store.create("poddisruptionbudgets", budget(**spec), manager="test")
        await cluster.run(1.0)
    status = cluster.store.get("poddisruptionbudgets", "test", "web")["status"]
    assert (status["disruptionsAllowed"], status["desiredHealthy"], status["expectedPods"]) == (
        allowed,
        desired,
        expected,
    )
    assert status["currentHealthy"] == 3
    assert status["conditions"][0]["reason"] == ("SufficientPods" if allowed else "InsufficientPods")


async def test_bare_pods_have_no_scale_to_take_a_share_of() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    made = template("web")
    for index in range(2):
        pod = {"metadata": {"name": f"b{index}", "namespace": "test", **made["metadata"]}, "spec": made["spec"]}
        cluster.store.create("pods", pod, manager="test")
    cluster.store.create("poddisruptionbudgets", budget(maxUnavailable=1), manager="test")
    async with cluster:
        await cluster.run(5.0)
    status = cluster.store.get("poddisruptionbudgets", "test", "web")["status"]
    shown = (status["expectedPods"], status["disruptionsAllowed"], status["currentHealthy"])
    assert shown == (0, 0, 2)
    assert "UnmanagedPods" in {e["reason"] for e in cluster.store.list("events")}


async def test_a_charged_pod_counts_as_gone_for_two_minutes() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        cluster.store.create("poddisruptionbudgets", budget(maxUnavailable=1), manager="test")
        await cluster.run(1.0)
        name = cluster.pods(app="web")[0]["metadata"]["name"]

        def charge(draft: Object) -> None:
            draft["status"]["disruptedPods"] = {name: "2026-09-21T14:13:31Z"}

        cluster.store.mutate(
            "poddisruptionbudgets", "test", "web", charge, manager="kube-apiserver", subresource="status"
        )
        await cluster.run(1.0)
        assert cluster.store.get("poddisruptionbudgets", "test", "web")["status"]["disruptionsAllowed"] == 0
        await cluster.run(115.0)
        assert cluster.store.get("poddisruptionbudgets", "test", "web")["status"]["disruptionsAllowed"] == 0
        await cluster.run(8.0)
        status = cluster.store.get("poddisruptionbudgets", "test", "web")["status"]
        assert status["disruptionsAllowed"] == 1
        assert "disruptedPods" not in status


async def test_an_unknown_owner_fails_the_budget() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    made = template("web")
    owner = {"apiVersion": "x.example/v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
    metadata = {"name": "odd", "namespace": "test", "ownerReferences": [owner], **made["metadata"]}
    cluster.store.create("pods", {"metadata": metadata, "spec": made["spec"]}, manager="test")
    cluster.store.create("poddisruptionbudgets", budget(maxUnavailable=1), manager="test")
    async with cluster:
        await cluster.run(5.0)
    status = cluster.store.get("poddisruptionbudgets", "test", "web")["status"]
    assert status["conditions"][0]["reason"] == "SyncFailed"
    assert "observedGeneration" not in status


async def test_everything_goes_with_its_owner() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        cluster.store.create("services", service({"app": "web"}), manager="test")
        await cluster.run(1.0)
        cluster.store.delete("deployments", "test", "web")
        cluster.store.delete("services", "test", "web")
        await cluster.run(10.0)
    assert not cluster.store.list("replicasets")
    assert not cluster.store.list("pods")
    assert not cluster.store.list("endpointslices")


async def test_orphans_stay_and_foreground_waits_for_the_dependents() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        name = cluster.store.list("replicasets")[0]["metadata"]["name"]
        cluster.store.delete("deployments", "test", "web", propagation="Orphan")
        await cluster.run(5.0)
        assert not cluster.store.list("deployments")
        assert "ownerReferences" not in cluster.store.get("replicasets", "test", name)["metadata"]
        cluster.store.delete("replicasets", "test", name, propagation="Foreground")
        await cluster.run(1.0)
        assert "deletionTimestamp" in cluster.store.get("replicasets", "test", name)["metadata"]
        await cluster.run(10.0)
        assert not cluster.store.list("pods")
        assert not cluster.store.list("replicasets")


async def test_events_live_for_an_hour() -> None:
    cluster = Cluster()
    async with cluster:
        await web(cluster)
        assert cluster.store.list("events")
        await cluster.run(3500.0)
        assert cluster.store.list("events")
        await cluster.run(200.0)
        assert not cluster.store.list("events")


async def test_every_namespace_gets_its_service_account_again_and_again() -> None:
    cluster = Cluster()
    async with cluster:
        cluster.store.create("namespaces", {"metadata": {"name": "new"}}, manager="test")
        await cluster.run(1.0)
        first = cluster.store.get("serviceaccounts", "new", "default")["metadata"]["uid"]
        assert cluster.store.get("configmaps", "new", "kube-root-ca.crt")
        cluster.store.delete("serviceaccounts", "new", "default")
        await cluster.run(1.0)
        assert cluster.store.get("serviceaccounts", "new", "default")["metadata"]["uid"] != first
