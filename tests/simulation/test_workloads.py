"""StatefulSets, DaemonSets and Jobs."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.simulation.history import Change
from fleet.simulation.job_rules import TRACKING
from fleet.simulation.jobs import Jobs
from tests.simulation.cluster import Cluster, PodCounts, Watch, condition, events_of, template

Object = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"


def stateful_set(replicas: int, pod: Object, **spec: Any) -> Object:
    labels = pod["metadata"]["labels"]
    return {
        "metadata": {"name": "shard", "namespace": "test"},
        "spec": {
            "replicas": replicas,
            "serviceName": "shard",
            "selector": {"matchLabels": labels},
            "template": pod,
            **spec,
        },
    }


def restart(draft: Object) -> None:
    draft["spec"]["template"]["metadata"]["annotations"]["restarted"] = "yes"


async def test_stateful_pods_come_one_after_the_other_each_when_the_last_is_ready() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    async with cluster:
        watch = Watch(cluster.store, "pods")
        cluster.store.create("statefulsets", stateful_set(3, template("shard", warmup_seconds=1)), manager="test")
        await cluster.run(20.0)
    order = []
    for change in watch.take():
        name = change.object["metadata"]["name"]
        if change.type == "ADDED":
            order.append(f"{name} created")
        elif condition(change.object, "Ready").get("status") == "True":
            order.append(f"{name} ready")
    assert order == [f"shard-{i} {what}" for i in range(3) for what in ("created", "ready")]
    status = cluster.store.get("statefulsets", "test", "shard")["status"]
    revision = cluster.store.list("controllerrevisions", "test")[0]["metadata"]["name"]
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
        "availableReplicas": 3,
    }
    pod = cluster.store.get("pods", "test", "shard-1")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("shard-1", "shard")


async def test_a_stateful_update_goes_from_the_highest_ordinal_down_to_the_partition() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    made = stateful_set(4, template("shard", warmup_seconds=1))
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster.store.create("statefulsets", made, manager="test")
    async with cluster:
        await cluster.run(20.0)
        watch = Watch(cluster.store, "pods")
        cluster.store.mutate("statefulsets", "test", "shard", restart, manager="test")
        await cluster.run(20.0)
        gone = [c.object["metadata"]["name"] for c in watch.take() if c.type == "DELETED"]
        assert gone == ["shard-3", "shard-2"]
        status = cluster.store.get("statefulsets", "test", "shard")["status"]
        assert (status["updatedReplicas"], status["currentReplicas"]) == (2, 2)
        assert status["currentRevision"] != status["updateRevision"]

        def finish(draft: Object) -> None:
            draft["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0

        cluster.store.mutate("statefulsets", "test", "shard", finish, manager="test")
        await cluster.run(20.0)
        gone = [c.object["metadata"]["name"] for c in watch.take() if c.type == "DELETED"]
        assert gone == ["shard-3", "shard-2", "shard-1", "shard-0"]
        status = cluster.store.get("statefulsets", "test", "shard")["status"]
        assert status["currentRevision"] == status["updateRevision"]


async def test_the_statuses_of_creation_and_updates_are_those_of_the_recording() -> None:
    """Partition 2, then 0, then OnDelete with a new template, then the template as it was; a pod per ordinal."""
    cluster = Cluster()
    cluster.nodes(8)
    made = stateful_set(4, template("shard", warmup_seconds=1, grace_s=1))
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}

    def roll_on(draft: Object) -> None:
        draft["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0

    def hold(draft: Object) -> None:
        draft["spec"]["updateStrategy"] = {"type": "OnDelete"}
        draft["spec"]["template"]["metadata"]["annotations"]["restarted"] = "again"

    async with cluster:
        watch = Watch(cluster.store, "statefulsets")
        cluster.store.create("statefulsets", made, manager="test")
        for change in (None, restart, roll_on, hold, restart):
            if change is not None:
                cluster.store.mutate("statefulsets", "test", "shard", change, manager="test")
            await cluster.run(25.0)
    names: dict[str, str] = {}

    def shown(change: Change) -> Object:
        status = dict(change.object["status"])
        for revision in ("currentRevision", "updateRevision"):
            if revision in status:
                status[revision] = names.setdefault(status[revision], f"revision {len(names) + 1}")
        return {"generation": change.object["metadata"]["generation"], "status": status}

    assert [shown(c) for c in watch.take()] == json.loads((DATA / "stateful_statuses.json").read_text())


async def test_a_pod_below_the_partition_comes_back_at_its_old_revision() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    made = stateful_set(2, template("shard"))
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.store.create("statefulsets", made, manager="test")
    async with cluster:
        await cluster.run(10.0)
        cluster.store.mutate("statefulsets", "test", "shard", restart, manager="test")
        await cluster.run(10.0)
        cluster.store.delete("pods", "test", "shard-0")
        await cluster.run(10.0)
        annotations = {p["metadata"]["name"]: p["metadata"].get("annotations") or {} for p in cluster.pods()}
    assert "restarted" in annotations["shard-1"]
    assert "restarted" not in annotations["shard-0"]


async def test_several_stateful_pods_may_be_away_at_once_when_the_set_says_so() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    made = stateful_set(5, template("shard", warmup_seconds=1), podManagementPolicy="Parallel")
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    cluster.store.create("statefulsets", made, manager="test")
    async with cluster:
        await cluster.run(10.0)
        counts, watch = PodCounts(cluster.pods(app="shard")), Watch(cluster.store, "pods")
        cluster.store.mutate("statefulsets", "test", "shard", restart, manager="test")
        await cluster.run(30.0)
        counts.feed(watch.take())
    gone = [c.object["metadata"]["name"] for c in watch.changes if c.type == "DELETED"]
    assert {gone[0], gone[1]} == {"shard-4", "shard-3"}
    assert counts.least_available == 3
    status = cluster.store.get("statefulsets", "test", "shard")["status"]
    assert status["currentRevision"] == status["updateRevision"]


async def test_on_delete_moves_nothing_and_a_rollback_finds_the_old_revision() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    made = stateful_set(2, template("shard", warmup_seconds=0), updateStrategy={"type": "OnDelete"})
    cluster.store.create("statefulsets", made, manager="test")
    async with cluster:
        await cluster.run(10.0)
        before = cluster.store.get("statefulsets", "test", "shard")
        cluster.store.mutate("statefulsets", "test", "shard", restart, manager="test")
        await cluster.run(10.0)
        changed = cluster.store.get("statefulsets", "test", "shard")["status"]
        assert changed["updateRevision"] != before["status"]["updateRevision"]
        assert "updatedReplicas" not in changed
        cluster.store.delete("pods", "test", "shard-0")
        await cluster.run(10.0)
        hashes = [p["metadata"]["labels"]["controller-revision-hash"] for p in cluster.pods(app="shard")]
        assert hashes == [changed["updateRevision"], before["status"]["updateRevision"]]

        def undo(draft: Object) -> None:
            draft["spec"]["template"] = before["spec"]["template"]

        cluster.store.mutate("statefulsets", "test", "shard", undo, manager="test")
        await cluster.run(10.0)
        assert (
            cluster.store.get("statefulsets", "test", "shard")["status"]["updateRevision"]
            == before["status"]["updateRevision"]
        )
        revisions = {r["metadata"]["name"]: r["revision"] for r in cluster.store.list("controllerrevisions", "test")}
    assert revisions == {changed["updateRevision"]: 2, before["status"]["updateRevision"]: 3}


async def test_a_stateful_set_shrinks_from_the_top() -> None:
    cluster = Cluster()
    cluster.nodes(2)
    cluster.store.create("statefulsets", stateful_set(3, template("shard")), manager="test")
    async with cluster:
        await cluster.run(15.0)
        cluster.store.mutate("statefulsets", "test", "shard", lambda d: d["spec"].update(replicas=1), manager="test")
        await cluster.run(15.0)
    assert [p["metadata"]["name"] for p in cluster.pods()] == ["shard-0"]


def daemon_set(**template_spec: Any) -> Object:
    pod = template("agent", 0)
    pod["spec"] |= template_spec
    return {
        "metadata": {"name": "agent", "namespace": "test"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": pod},
    }


async def test_daemons_run_on_every_node_cordoned_ones_too_and_come_back_there() -> None:
    cluster = Cluster()
    cluster.nodes(3)
    async with cluster:
        cluster.store.mutate("nodes", None, "n1", lambda n: n["spec"].update(unschedulable=True), manager="test")
        cluster.store.create("daemonsets", daemon_set(), manager="test")
        await cluster.run(5.0)
        assert sorted(p["spec"]["nodeName"] for p in cluster.pods()) == ["n0", "n1", "n2"]
        victim = next(p for p in cluster.pods() if p["spec"]["nodeName"] == "n1")
        cluster.store.delete("pods", "test", victim["metadata"]["name"])
        await cluster.run(10.0)
        assert sorted(p["spec"]["nodeName"] for p in cluster.pods()) == ["n0", "n1", "n2"]
        cluster.node("n3")
        await cluster.run(5.0)
        assert len(cluster.pods()) == 4
        status = cluster.store.get("daemonsets", "test", "agent")["status"]
    assert status == {
        "currentNumberScheduled": 4,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 4,
        "numberReady": 4,
        "observedGeneration": 1,
        "updatedNumberScheduled": 4,
        "numberAvailable": 4,
    }


async def test_daemons_keep_to_their_selector_and_to_taints() -> None:
    cluster = Cluster()
    cluster.node("n0", pool="train")
    cluster.node("n1", pool="infer")
    cluster.node("n2", pool="train")
    taint = {"key": "reserved", "effect": "NoSchedule"}
    cluster.store.mutate("nodes", None, "n2", lambda n: n["spec"].update(taints=[taint]), manager="test")
    async with cluster:
        cluster.store.create("daemonsets", daemon_set(nodeSelector={"pool": "train"}), manager="test")
        await cluster.run(5.0)
        assert [p["spec"]["nodeName"] for p in cluster.pods()] == ["n0"]


async def test_a_daemon_update_takes_one_node_at_a_time() -> None:
    cluster = Cluster()
    cluster.nodes(3)
    cluster.store.create("daemonsets", daemon_set(), manager="test")
    async with cluster:
        await cluster.run(5.0)
        watch = Watch(cluster.store, "pods")
        cluster.store.mutate("daemonsets", "test", "agent", restart, manager="test")
        await cluster.run(30.0)
        away: set[str] = set()
        most = 0
        for change in watch.take():
            node = change.object["spec"].get("nodeName")
            ready = condition(change.object, "Ready").get("status") == "True" and change.type != "DELETED"
            terminating = "deletionTimestamp" in change.object["metadata"]
            if node:
                (away.discard if ready and not terminating else away.add)(node)
            most = max(most, len(away))
        assert most == 1
        assert all("restarted" in p["metadata"]["annotations"] for p in cluster.pods())


def job(completions: int, parallelism: int, pod: Object, **spec: Any) -> Object:
    pod["spec"]["restartPolicy"] = "Never"
    return {
        "metadata": {"name": "work", "namespace": "test"},
        "spec": {"completions": completions, "parallelism": parallelism, "template": pod, **spec},
    }


async def test_a_job_runs_its_pods_and_completes() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        watch = Watch(cluster.store, "jobs")
        made = job(5, 2, template("work", 1, run_seconds=3, warmup_seconds=0), ttlSecondsAfterFinished=30)
        cluster.store.create("jobs", made, manager="test")
        most = 0
        for _ in range(40):
            await cluster.run(0.5)
            most = max(most, sum(p["status"]["phase"] not in {"Succeeded", "Failed"} for p in cluster.pods()))
        done = cluster.store.get("jobs", "test", "work")
        assert most == 2
        assert done["status"]["succeeded"] == 5
        assert [c["type"] for c in done["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert "completionTime" in done["status"]
        assert "active" not in done["status"]
        assert all(TRACKING not in p["metadata"].get("finalizers", ()) for p in cluster.pods())
        counts = [c.object["status"].get("succeeded", 0) for c in watch.take()]
        assert counts == sorted(counts)
        await cluster.run(60.0)
        assert not cluster.store.list("jobs")
        assert not cluster.pods(), "its pods go with it"
        assert ("Completed", "Job completed") in events_of(cluster.store, "work")


async def test_a_job_that_keeps_failing_gives_up() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = job(1, 1, template("work", 1, run_seconds=1, exit_code=1, warmup_seconds=0), backoffLimit=2)
        cluster.store.create("jobs", made, manager="test")
        await cluster.run(25.0)
        assert len(cluster.pods(app="work")) == 2, "10 s after the first failure, 20 s after the second"
        await cluster.run(20.0)
    status = cluster.store.get("jobs", "test", "work")["status"]
    assert status["failed"] == 3
    assert [(c["type"], c["reason"]) for c in status["conditions"]] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


@pytest.mark.parametrize("pause_s", [0.3, 0.7])
async def test_a_job_controller_that_restarts_counts_every_pod_once(pause_s: float) -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = job(6, 3, template("work", 1, run_seconds=2, warmup_seconds=0))
        cluster.store.create("jobs", made, manager="test")
        for _ in range(40):
            await cluster.run(pause_s)
            await cluster.machinery.restart(Jobs)
        await cluster.run(20.0)
    assert cluster.store.get("jobs", "test", "work")["status"]["succeeded"] == 6
    assert len(cluster.pods()) == 6


async def test_indexed_pods_carry_their_index() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("jobs", job(3, 3, template("work"), completionMode="Indexed"), manager="test")
        await cluster.run(5.0)
    indexes = [p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in cluster.pods()]
    assert sorted(indexes) == ["0", "1", "2"]


async def test_a_suspended_job_loses_its_pods_and_comes_back() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        cluster.store.create("jobs", job(2, 2, template("work", restart="Never")), manager="test")
        await cluster.run(5.0)
        cluster.store.mutate("jobs", "test", "work", lambda j: j["spec"].update(suspend=True), manager="test")
        await cluster.run(5.0)
        assert not cluster.pods(app="work")
        suspended = cluster.store.get("jobs", "test", "work")["status"]
        assert [(c["type"], c["status"]) for c in suspended["conditions"]] == [("Suspended", "True")]
        assert "failed" not in suspended
        cluster.store.mutate("jobs", "test", "work", lambda j: j["spec"].update(suspend=False), manager="test")
        await cluster.run(5.0)
        resumed = cluster.store.get("jobs", "test", "work")["status"]
    assert [(c["status"], c["reason"]) for c in resumed["conditions"]] == [("False", "JobResumed")]
    assert resumed["active"] == 2
    assert resumed["startTime"] != suspended["startTime"]


async def test_a_job_ends_at_its_deadline() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        made = job(1, 1, template("work", restart="Never"), activeDeadlineSeconds=20)
        cluster.store.create("jobs", made, manager="test")
        await cluster.run(19.0)
        assert cluster.pods(app="work")
        await cluster.run(6.0)
    conditions = cluster.store.get("jobs", "test", "work")["status"]["conditions"]
    assert [(c["type"], c["reason"]) for c in conditions] == [
        ("FailureTarget", "DeadlineExceeded"),
        ("Failed", "DeadlineExceeded"),
    ]


async def test_controllers_say_why_they_cannot_make_a_pod() -> None:
    cluster = Cluster()
    cluster.nodes(1)
    async with cluster:
        none = {"metadata": {"name": "none", "namespace": "test"}, "spec": {"hard": {"pods": "0"}}}
        cluster.store.create("resourcequotas", none, manager="test")
        await cluster.run(2.0)
        cluster.store.create("statefulsets", stateful_set(1, template("shard")), manager="test")
        cluster.store.create("daemonsets", daemon_set(), manager="test")
        await cluster.run(5.0)
        assert cluster.store.get("daemonsets", "test", "agent")["status"]["desiredNumberScheduled"] == 1
    refused = [event for event in cluster.store.list("events", "test") if event["reason"] == "FailedCreate"]
    assert {(event["involvedObject"]["kind"], event["type"]) for event in refused} == {
        ("StatefulSet", "Warning"),
        ("DaemonSet", "Warning"),
    }
    assert all("exceeded quota: none" in event["message"] for event in refused)
