"""What the default rehearsal offers to practise on: nodes that can be drained, one for every guard about the cluster, and the
whole way of a maintenance, over HTTP."""

import pytest

from fleet import act
from fleet.act import audit
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain.capacity import ready_status
from fleet.domain.plans import ActionState, LaneState, Outcome, StepKind, StepState
from fleet.models import AuditEntry
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.scenarios.stage import State
from tests.fleet.clusters import wait_for
from tests.fleet.test_act import OLGA, Lab, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

SPEED = 20.0
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
DRAINABLE = {"node-11", "node-16", *(f"node-{n}" for n in range(19, 25))}
# Where each guard about the cluster stands in the way, from the start.
BLOCKED = {
    ("node-01", "undisturbed", "annotated", "batch/dataset-import"),
    ("node-02", "service", "none-left", "web/model-catalog"),
    ("node-03", "unmanaged", "unmanaged", "sandbox/nccl-debug"),
    ("node-04", "one-budget", "two-budgets", "web/prompt-gateway"),
    ("node-05", "scratch", "undeclared", "training/vision-pretrain-3b"),
    ("node-08", "placement", "no-place", "training/moe-8x7b-pretrain"),
    ("node-09", "checkpoint", "not-granted", "training/graph-rank"),
    ("node-12", "volumes", "local", "web/feature-store"),
    ("node-13", "budgets", "no-replacement", "inference/llm-chat"),
}


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(clock=RealClock(SPEED), pace=0)) as found:
        yield found


@pytest.fixture
def site(cluster):
    connection = KubernetesCluster("rehearsal", str(cluster.kubeconfig))
    yield Lab(KubernetesChanges(connection.server))
    connection.close()


def planned(site: Lab, target: str):
    return act.plan_of(act.propose(site, "drain", target, "look", OLGA))


def test_several_nodes_can_be_drained_and_every_guard_has_its_node(site):
    plans = {node.metadata.name: planned(site, node.metadata.name) for node in site.changer.read_nodes()}
    assert {name for name, plan in plans.items() if not plan.blocks} == DRAINABLE
    for name, guard, reason, subject in BLOCKED:
        found = [(check.guard, check.reason, check.subject.startswith(subject)) for check in plans[name].blocks]
        assert (guard, reason, True) in found
    requests = {
        (pod.owner_name, isinstance(pod.requests, int))
        for plan in plans.values()
        for pod in plan.loss.pods
        if pod.serving and pod.namespace == "inference"
    }
    counted = {(name, True) for name in ("llm-chat", "embed-api", "rerank-api")}
    assert requests == counted | {("ocr-api", False)}
    declared = [check for check in plans["node-07"].checks if (check.guard, check.reason) == ("scratch", "declared")]
    assert [check.outcome for check in declared] == [Outcome.WARN]


@pytest.mark.parametrize(
    ("scenario", "guard", "reason"),
    [
        ("budget-deadlock", "budgets", "never"),
        ("two-budgets", "one-budget", "two-budgets"),
        ("control-plane", "control-plane", "control-plane"),
        ("lost-node", "node-answers", "silent"),
    ],
)
def test_a_scenario_shows_what_the_fleet_does_not(cluster, site, scenario, guard, reason):
    cluster.run(cluster.stage.start(scenario))

    def shown() -> bool:
        checks = [check for name in concerned(site) for check in planned(site, name).blocks]
        return any((check.guard, check.reason) == (guard, reason) for check in checks)

    try:
        wait_for(shown, 60)
    finally:
        cluster.run(cluster.stage.stop(scenario))


def concerned(site: Lab) -> set[str]:
    """The nodes of stories: with a server of theirs, silent, or of the control plane."""
    servers = {pod.spec.node_name for pod in site.changer.read_pods() if pod.metadata.namespace == "serving"}
    odd = {
        node.metadata.name
        for node in site.changer.read_nodes()
        if ready_status(node) != "True" or CONTROL_PLANE in node.metadata.labels
    }
    return servers | odd


def test_the_whole_way_of_a_maintenance(cluster, site):
    before = site.changer.read_node("node-11")
    known = set(before.metadata.annotations)
    action = act.propose(site, "maintain", "node-11", "new firmware", OLGA)
    act.confirm(site, action, action.digest, "node-11", {}, OLGA)
    done = through(site, action, 110)
    assert done.state == ActionState.SUCCEEDED, done.outcome
    assert [(step.kind, step.state) for step in done.steps.all()] == [
        (StepKind.CORDON, StepState.DONE),
        (StepKind.DRAIN, StepState.DONE),
        (StepKind.RELEASE, StepState.SKIPPED),  # nobody tells who uses this site's GPUs
        (StepKind.REBOOT, StepState.DONE),
        (StepKind.VERIFY, StepState.DONE),
        (StepKind.UNCORDON, StepState.DONE),
        (StepKind.PROVE, StepState.DONE),
    ]
    node = site.changer.read_node("node-11")
    assert not node.spec.unschedulable
    assert node.status.node_info.boot_id not in {"", before.status.node_info.boot_id}
    assert done.steps.get(kind=StepKind.REBOOT).evidence["boot_id"] == node.status.node_info.boot_id
    # What it leaves on the node is the site's controller's own word.
    assert set(node.metadata.annotations) - known <= {"vigie.dev/rebooted-at"}
    assert {lane.state for lane in done.lanes.all()} == {LaneState.REPLACED}
    daemons = [
        pod for pod in site.changer.read_pods("node-11") if pod.controller and pod.controller.kind == "DaemonSet"
    ]
    assert len(daemons) == 6
    assert audit.verify().broken is None
    told = list(AuditEntry.objects.filter(action=action.pk).values_list("what", flat=True))
    assert (told[:3], told[-1]) == (["proposed", "confirmed", "began"], "succeeded")


def test_another_controller_that_uncordons_ends_the_drain(cluster, site):
    """Its budget makes this drain slow enough for somebody who uncordons whatever has been cordoned for 15 s."""
    cluster.run(cluster.stage.start("foreign-uncordon"))
    try:
        wait_for(lambda: cluster.stage.performance("foreign-uncordon").state is State.STANDING, 30)
        action = act.propose(site, "drain", "node-20", "new disk", OLGA)
        act.confirm(site, action, action.digest, "node-20", {}, OLGA)
        ended = through(site, action, 110)
    finally:
        cluster.run(cluster.stage.stop("foreign-uncordon"))
    assert (ended.state, ended.outcome["why"]) == (ActionState.FAILED, "uncordoned")
    states = {lane.state for lane in ended.lanes.all()}
    assert LaneState.LEFT in states
    assert states <= {LaneState.LEFT, LaneState.GONE, LaneState.TERMINATING, LaneState.ACCEPTED}
    assert audit.verify().broken is None
