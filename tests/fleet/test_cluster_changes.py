"""The write path's requests against the rehearsal over HTTP."""

import pytest

from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain.draining import Meaning, classify
from fleet.domain.facts import Right
from fleet.domain.training import Signal
from fleet.ports import OWN, PortError
from fleet.simulation.rehearsal import Rehearsal, serving

TRAINER = "llama-sft-70b-0"


@pytest.fixture(scope="module")
def running():
    with serving(Rehearsal(nodes=24, pace=0)) as found:
        yield found


@pytest.fixture(scope="module")
def changes(running):
    cluster = KubernetesCluster("rehearsal", str(running.kubeconfig))
    yield KubernetesChanges(cluster.server)
    cluster.close()


def test_everything_that_a_decision_reads(changes):
    nodes, pods = changes.read_nodes(), changes.read_pods()
    assert len(nodes) == 24
    assert any(pod.spec.node_name for pod in pods)
    assert any(pod.spec.tolerations for pod in pods)
    mine = changes.read_pods("node-01")
    assert {pod.metadata.uid for pod in mine} == {p.metadata.uid for p in pods if p.spec.node_name == "node-01"}
    assert changes.read_daemon_sets()
    assert changes.read_budgets()
    assert changes.read_services()
    claims, storage = changes.read_claims(), changes.read_storage()
    assert claims
    assert {claim.spec.volume_name for claim in claims} <= {volume.metadata.name for volume in storage}
    assert {type(found).__name__ for found in changes.read_controllers()} >= {"Deployment", "ReplicaSet", "StatefulSet"}


def test_what_is_not_there_is_none(changes):
    assert changes.read_node("node-99") is None
    assert changes.read_pod("inference", "nobody") is None


def test_our_own_rights(changes):
    rights = (Right("patch", "nodes"), Right("create", "pods/eviction", "inference"), Right("list", "daemonsets.apps"))
    found = changes.may(rights)
    assert [(one.verb, one.resource, one.namespace) for one in found] == [
        ("patch", "nodes", ""),
        ("create", "pods/eviction", "inference"),
        ("list", "daemonsets.apps", ""),
    ]
    assert all(one.allowed for one in found)


def test_a_node_is_changed_only_as_it_was_read(changes):
    before = changes.read_node("node-02")
    closed = changes.change_node(before, unschedulable=True, annotations={"vigie.dev/cordoned-by": "M-1"})
    assert closed.spec.unschedulable
    assert closed.metadata.annotations["vigie.dev/cordoned-by"] == "M-1"
    with pytest.raises(PortError) as refused:
        changes.change_node(before, unschedulable=True, annotations={})
    assert refused.value.status == 409
    now = changes.read_node("node-02")
    opened = changes.change_node(now, unschedulable=False, annotations={"vigie.dev/cordoned-by": None})
    assert not opened.spec.unschedulable
    assert "vigie.dev/cordoned-by" not in opened.metadata.annotations


def test_an_eviction_names_its_pod_by_uid_and_a_dry_run_changes_nothing(changes):
    pod = next(pod for pod in changes.read_pods() if pod.metadata.namespace == "inference" and pod.controller)
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    other = changes.evict(namespace, name, "another-uid", dry_run=True)
    assert classify(other).meaning is Meaning.GONE
    assert classify(changes.evict(namespace, name, uid, dry_run=True)).meaning in {Meaning.ACCEPTED, Meaning.BUDGET}
    assert changes.read_pod(namespace, name).metadata.deletion_timestamp is None
    assert classify(changes.evict(namespace, "nobody", uid, dry_run=False)).meaning is Meaning.GONE


def test_a_pod_answers_through_the_proxy(changes):
    pod = next(
        pod
        for pod in changes.read_pods()
        if pod.metadata.namespace == "inference" and any(c.ports for c in pod.spec.containers)
    )
    port = next(port.container_port for c in pod.spec.containers for port in c.ports)
    assert changes.get_from_pod(pod.metadata.namespace, pod.metadata.name, port, "/metrics")
    with pytest.raises(PortError) as missing:
        changes.get_from_pod(pod.metadata.namespace, "nobody", port, "/metrics")
    assert missing.value.status == 404


def saves_now(running, trainer: str) -> bool:
    def of_its_training():
        return running.rehearsal.trainings.of(running.rehearsal.store.get("pods", "training", trainer)).save is not None

    return running.call(of_its_training)


@pytest.mark.parametrize("trainer", [TRAINER, "moe-8x7b-pretrain-0"])
def test_a_trainer_is_asked_to_save(running, changes, trainer):
    assert not saves_now(running, trainer)
    if trainer == TRAINER:
        changes.post_to_pod("training", trainer, 29500, "/checkpoint")
    else:
        changes.signal_pod("training", trainer, "main", Signal.USR1)
    assert saves_now(running, trainer)


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (lambda changes: changes.post_to_pod("training", TRAINER, 29500, "/other"), 404),
        (lambda changes: changes.post_to_pod("training", "nobody", 29500, "/checkpoint"), 404),
        (lambda changes: changes.post_to_pod("training", TRAINER, 1, "/checkpoint"), 503),
        (lambda changes: changes.signal_pod("training", TRAINER, "other", Signal.USR1), 400),
        (lambda changes: changes.signal_pod("training", "nobody", "main", Signal.USR1), 404),
    ],
)
def test_a_refusal_to_save_has_its_status(changes, ask, status):
    with pytest.raises(PortError) as refused:
        ask(changes)
    assert refused.value.status == status


def test_whether_the_pod_has_said_no_is_told_apart(changes):
    for path, own in (("/other", True), ("/checkpoint", False)):
        with pytest.raises(PortError) as refused:
            changes.post_to_pod("training", TRAINER if own else "nobody", 29500, path)
        assert (refused.value.reason == OWN) is own


def test_a_signal_is_one_of_four(changes):
    with pytest.raises(ValueError, match="KILL"):
        changes.signal_pod("training", TRAINER, "main", "KILL")


@pytest.mark.parametrize("path", ["/../../../other/pods/theirs:80/proxy/stop", "/a/%2e%2E/b", "/x?y=1", "/..", "/a#b"])
def test_a_hook_does_not_lead_out_of_its_pod(changes, path):
    with pytest.raises(PortError) as refused:
        changes.post_to_pod("training", "nobody", 29500, path)
    assert refused.value.reason == "path"


@pytest.mark.parametrize("path", ["/../../../other/pods/theirs:80/proxy/stop", "/a/%2e%2E/b", "/./x", "/..", "/..?q"])
def test_a_path_that_a_pod_declares_does_not_lead_out_of_it(changes, path):
    with pytest.raises(PortError) as refused:
        changes.get_from_pod("inference", "nobody", 8000, path)
    assert refused.value.reason == "path"
