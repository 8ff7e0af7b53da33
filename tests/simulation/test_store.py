"""The store's promises: identity, versions, generations, conflicts, deletion, managers and the window of changes."""

import asyncio
from typing import Any

import pytest

from fleet.simulation.clock import ManualClock
from fleet.simulation.store import ApiError, Object, Store
from tests.simulation.cluster import deployment, template

NODE = {"metadata": {"name": "n1"}, "spec": {}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}


def store(window: int = 10_000) -> Store:
    made = Store(ManualClock(), seed=1, window=window)
    made.create("namespaces", {"metadata": {"name": "test"}}, manager="test")
    return made


def pod(name: str = "p", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "test", **metadata}, "spec": template("app")["spec"]}


def cordon(draft: Object) -> None:
    draft["spec"]["unschedulable"] = True


def refused(status: int, reason: str) -> Any:
    class Check:
        def __enter__(self) -> None:
            return None

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            assert isinstance(error, ApiError), f"not refused: {error!r}"
            assert (error.status, error.reason) == (status, reason)
            return True

    return Check()


def test_creation_gives_identity() -> None:
    made = store().create("deployments", deployment("web", 2, template("web")), manager="kubectl")
    metadata = made["metadata"]
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"] == "2026-09-21T14:13:20Z"
    assert metadata["generation"] == 1
    assert made["kind"], made["apiVersion"] == ("Deployment", "apps/v1")
    assert made["spec"]["revisionHistoryLimit"] == 10


def test_versions_rise_over_all_kinds() -> None:
    cluster = store()
    first = cluster.create("nodes", NODE, manager="kubelet")
    second = cluster.create("configmaps", {"metadata": {"name": "c", "namespace": "test"}}, manager="x")
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    assert cluster.resource_version == int(second["metadata"]["resourceVersion"])


def test_generated_names_differ() -> None:
    cluster = store()
    made = {cluster.create("pods", pod("", generateName="web-"), manager="x")["metadata"]["name"] for _ in range(20)}
    assert len(made) == 20
    assert all(name.startswith("web-") and len(name) == 9 for name in made)


def test_the_same_seed_gives_the_same_identities() -> None:
    one, other = (store().create("pods", pod("", generateName="web-"), manager="x") for _ in range(2))
    assert one == other


def test_refused_creations() -> None:
    cluster = store()
    cluster.create("nodes", NODE, manager="kubelet")
    with refused(409, "AlreadyExists"):
        cluster.create("nodes", NODE, manager="kubelet")
    with refused(404, "NotFound"):
        cluster.create("pods", {**pod(), "metadata": {"name": "p", "namespace": "absent"}}, manager="x")
    with refused(422, "Invalid"):
        cluster.create("pods", {"metadata": {"namespace": "test"}, "spec": template("a")["spec"]}, manager="x")


def test_nothing_new_starts_in_a_terminating_namespace() -> None:
    cluster = store()
    cluster.delete("namespaces", None, "test")
    assert cluster.get("namespaces", None, "test")["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as error:
        cluster.create("pods", pod(), manager="x")
    assert error.value.status == 403
    assert error.value.body()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.finalize("test", [], manager="x")
    with refused(404, "NotFound"):
        cluster.get("namespaces", None, "test")


def test_dry_runs_change_nothing() -> None:
    cluster = store()
    before = cluster.resource_version
    assert cluster.create("nodes", NODE, manager="x", dry_run=True)["metadata"]["uid"]
    assert cluster.list("nodes") == []
    cluster.create("nodes", NODE, manager="x")
    cluster.mutate("nodes", None, "n1", cordon, manager="x", dry_run=True)
    cluster.delete("nodes", None, "n1", dry_run=True)
    assert cluster.get("nodes", None, "n1")["spec"] == {}
    assert cluster.resource_version == before + 1


def test_a_write_that_changes_nothing_keeps_the_version() -> None:
    cluster = store()
    cluster.create("nodes", NODE, manager="x")
    first = cluster.mutate("nodes", None, "n1", cordon, manager="x")
    assert cluster.mutate("nodes", None, "n1", cordon, manager="other") is first


def test_a_stale_version_is_a_conflict() -> None:
    cluster = store()
    old = cluster.create("nodes", NODE, manager="x")
    cluster.mutate("nodes", None, "n1", cordon, manager="x")
    with refused(409, "Conflict"):
        cluster.update("nodes", old, manager="x")
    with refused(409, "Conflict"):
        cluster.update("nodes", old, manager="x", dry_run=True)
    unversioned = {**old, "metadata": {k: v for k, v in old["metadata"].items() if k != "resourceVersion"}}
    assert "unschedulable" not in cluster.update("nodes", unversioned, manager="x")["spec"]


def test_spec_and_status_are_written_apart() -> None:
    cluster = store()
    cluster.create("deployments", deployment("web", 2, template("web")), manager="x")

    def both(draft: Object) -> None:
        draft["spec"]["replicas"] += 1
        draft["status"]["replicas"] = draft["status"].get("replicas", 0) + 1

    assert cluster.mutate("deployments", "test", "web", both, manager="x")["status"] == {}
    changed = cluster.mutate("deployments", "test", "web", both, manager="x", subresource="status")
    assert (changed["spec"]["replicas"], changed["status"]["replicas"]) == (3, 1)
    assert changed["metadata"]["generation"] == 2


def test_labels_do_not_raise_the_generation() -> None:
    cluster = store()
    cluster.create("deployments", deployment("web", 2, template("web")), manager="x")

    def label(draft: Object) -> None:
        draft["metadata"]["labels"] = {"a": "b"}

    assert cluster.mutate("deployments", "test", "web", label, manager="x")["metadata"]["generation"] == 1


def test_objects_of_the_store_are_not_those_of_the_caller() -> None:
    cluster = store()
    mine: Object = {"metadata": {"name": "n1"}, "spec": {}, "status": {}}
    cluster.create("nodes", mine, manager="x")
    mine["spec"]["unschedulable"] = True
    assert cluster.get("nodes", None, "n1")["spec"] == {}


class TestDeletion:
    def test_a_bound_pod_lingers_until_its_kubelet_is_done(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="x")
        cluster.create("pods", pod(), manager="x")
        cluster.bind("test", "p", "n1")
        marked = cluster.delete("pods", "test", "p", grace_s=5)["metadata"]
        assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2026-09-21T14:13:25Z", 5)
        assert marked["generation"] == 2
        again = cluster.delete("pods", "test", "p", grace_s=60)["metadata"]
        assert again["deletionGracePeriodSeconds"] == 5
        watch = cluster.subscribe("pods")
        gone = cluster.delete("pods", "test", "p", grace_s=0)["metadata"]
        assert (gone["deletionTimestamp"], gone["deletionGracePeriodSeconds"]) == ("2026-09-21T14:13:20Z", 0)
        assert [c.type for c in watch.take()] == ["MODIFIED", "DELETED"]
        with refused(404, "NotFound"):
            cluster.get("pods", "test", "p")

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_finished_and_unbound_pods_go_at_once(self, phase: str) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="x")
        for name in ("unbound", "finished"):
            cluster.create("pods", pod(name), manager="x")
        cluster.bind("test", "finished", "n1")
        cluster.mutate(
            "pods", "test", "finished", lambda d: d["status"].update(phase=phase), manager="k", subresource="status"
        )
        for name in ("unbound", "finished"):
            cluster.delete("pods", "test", name)
        assert cluster.list("pods") == []

    def test_finalizers_keep_an_object(self) -> None:
        cluster = store()
        cluster.create("nodes", {**NODE, "metadata": {"name": "n1", "finalizers": ["a"]}}, manager="x")
        kept = cluster.delete("nodes", None, "n1")
        assert kept["metadata"]["deletionTimestamp"]
        assert cluster.list("nodes") == [kept]
        cluster.mutate("nodes", None, "n1", lambda d: d["metadata"].pop("finalizers") and None, manager="x")
        assert cluster.list("nodes") == []

    def test_preconditions(self) -> None:
        cluster = store()
        made = cluster.create("nodes", NODE, manager="x")
        with refused(409, "Conflict"):
            cluster.delete("nodes", None, "n1", uid="other")
        with refused(409, "Conflict"):
            cluster.delete("nodes", None, "n1", resource_version="1")
        cluster.delete(
            "nodes", None, "n1", uid=made["metadata"]["uid"], resource_version=made["metadata"]["resourceVersion"]
        )
        with refused(404, "NotFound"):
            cluster.delete("nodes", None, "n1")

    @pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
    def test_propagation_is_left_to_the_collector(self, policy: str, finalizer: str) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="x")
        assert cluster.delete("nodes", None, "n1", propagation=policy)["metadata"]["finalizers"] == [finalizer]


class TestBinding:
    def test_a_binding_brings_the_zone(self) -> None:
        cluster = store()
        zone = {"topology.kubernetes.io/zone": "z1", "other": "label"}
        cluster.create("nodes", {**NODE, "metadata": {"name": "n1", "labels": zone}}, manager="x")
        cluster.create("pods", pod(), manager="x")
        bound = cluster.bind("test", "p", "n1")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z1"}
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
        assert bound["metadata"]["generation"] == 1

    def test_a_pod_is_bound_once(self) -> None:
        cluster = store()
        cluster.create("pods", pod(), manager="x")
        cluster.bind("test", "p", "n1")
        with refused(409, "Conflict"):
            cluster.bind("test", "p", "n2")


class TestManagers:
    def owners(self, obj: Object) -> list[tuple[str, str]]:
        return [(e["manager"], e.get("subresource", "")) for e in obj["metadata"]["managedFields"]]

    def test_who_cordoned_is_known(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="kubelet")
        node = cluster.mutate("nodes", None, "n1", cordon, manager="kubectl-cordon")
        entry = next(e for e in node["metadata"]["managedFields"] if e["manager"] == "kubectl-cordon")
        assert entry["fieldsV1"] == {"f:spec": {"f:unschedulable": {}}}
        assert entry["time"] == "2026-09-21T14:13:20Z"

    def test_a_field_changes_hands(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="kubelet")
        cluster.mutate("nodes", None, "n1", cordon, manager="a")
        node = cluster.mutate("nodes", None, "n1", lambda d: d["spec"].update(unschedulable=False), manager="b")
        assert "a" not in dict(self.owners(node))
        assert "b" in dict(self.owners(node))

    def test_subresources_have_entries_of_their_own(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="kubelet")

        def ready(draft: Object) -> None:
            draft["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

        node = cluster.mutate("nodes", None, "n1", ready, manager="kubelet", subresource="status")
        entry = next(e for e in node["metadata"]["managedFields"] if e.get("subresource") == "status")
        assert 'k:{"type":"Ready"}' in entry["fieldsV1"]["f:status"]["f:conditions"]


class TestChanges:
    def test_they_come_in_order_with_what_was_before(self) -> None:
        cluster = store()
        watch = cluster.subscribe("nodes", since=cluster.resource_version)
        cluster.create("nodes", NODE, manager="x")
        cluster.mutate("nodes", None, "n1", cordon, manager="x")
        cluster.delete("nodes", None, "n1")
        added, modified, deleted = watch.take()
        assert (added.type, added.previous) == ("ADDED", None)
        assert (modified.type, modified.previous) == ("MODIFIED", added.object)
        assert (deleted.type, deleted.previous) == ("DELETED", modified.object)
        assert added.resource_version < modified.resource_version < deleted.resource_version
        assert deleted.object["metadata"]["resourceVersion"] == str(deleted.resource_version)
        assert watch.take() == []

    def test_an_old_version_is_too_old(self) -> None:
        cluster = store(window=4)
        since = cluster.resource_version
        for index in range(8):
            cluster.create("nodes", {**NODE, "metadata": {"name": f"n{index}"}}, manager="x")
        with pytest.raises(ApiError) as error:
            cluster.subscribe("nodes", since=since)
        assert (error.value.status, error.value.reason) == (410, "Expired")
        assert error.value.message == f"too old resource version: {since} ({since + 4})"
        assert len(cluster.subscribe("nodes", since=since + 4).take()) == 4

    def test_a_slow_reader_learns_that_it_missed_something(self) -> None:
        cluster = store(window=4)
        watch = cluster.subscribe("nodes")
        for index in range(8):
            cluster.create("nodes", {**NODE, "metadata": {"name": f"n{index}"}}, manager="x")
        with refused(410, "Expired"):
            watch.take()

    def test_after_a_restart_everything_before_is_too_old(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="x")
        cluster.expire()
        with refused(410, "Expired"):
            cluster.subscribe("nodes", since=cluster.resource_version - 1)
        assert cluster.subscribe("nodes", since=cluster.resource_version).take() == []

    def test_a_version_still_to_come_is_silent_until_then(self) -> None:
        cluster = store()
        watch = cluster.subscribe("nodes", since=cluster.resource_version + 1)
        cluster.create("nodes", NODE, manager="x")
        assert watch.take() == []
        cluster.mutate("nodes", None, "n1", cordon, manager="x")
        assert len(watch.take()) == 1

    async def test_a_subscription_is_an_iterator_that_close_ends(self) -> None:
        cluster = store()
        watch = cluster.subscribe("nodes")
        seen: list[str] = []

        async def read() -> None:
            async for change in watch:
                seen.append(change.type)  # noqa: PERF401 -- the test looks before the iteration ends

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        cluster.create("nodes", NODE, manager="x")
        for _ in range(3):
            await asyncio.sleep(0)
        assert seen == ["ADDED"]
        watch.close()
        await asyncio.wait_for(reading, 1)

    def test_the_past_can_be_seen_again(self) -> None:
        cluster = store()
        cluster.create("nodes", NODE, manager="x")
        then = cluster.resource_version
        cluster.mutate("nodes", None, "n1", cordon, manager="x")
        cluster.create("nodes", {**NODE, "metadata": {"name": "n0"}}, manager="x")
        cluster.delete("nodes", None, "n1")
        past = cluster.shelf("nodes").as_of(then)
        assert [(k, r.object["spec"]) for k, r in past.range("")] == [("n1", {})]
        assert past.count("", "") == 1


def test_restoring_keeps_an_identity() -> None:
    cluster = store()
    recorded = {**NODE, "metadata": {"name": "n1", "uid": "as-recorded", "resourceVersion": "9999"}}
    restored = cluster.restore("nodes", recorded)["metadata"]
    assert restored["uid"] == "as-recorded"
    assert restored["resourceVersion"] == str(cluster.resource_version)
