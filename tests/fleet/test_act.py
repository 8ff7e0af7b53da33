"""The write story against the rehearsal over HTTP: propose, confirm, run, stop, and what the ledger and the audit say."""

import threading
import time
from dataclasses import dataclass, field
from functools import cached_property

import pytest

from fleet import act
from fleet.act import Actor, Refused, audit, claims, running
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain.plans import ActionState, LaneState, StepKind
from fleet.domain.policies import Policy
from fleet.models import Action, AuditEntry
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.fleet import pictures
from tests.fleet.shelves import NoStores

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

OLGA = Actor("olga", "operator")
ADA = Actor("ada", "approver")
SPEED = 10.0  # servers of models need a minute to come up again


@dataclass
class Lab(NoStores):
    """A site on a running rehearsal, whose picture shows GPUs that are well by readings of this moment."""

    changer: KubernetesChanges
    name: str = "rehearsal"
    actions: bool = True
    policy: Policy = field(default_factory=Policy)

    @cached_property
    def names(self):
        return [node.metadata.name for node in self.changer.read_nodes()]

    def snapshot(self):
        return pictures.read(self.names, time.time())


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(nodes=24, clock=RealClock(SPEED), pace=0)) as found:
        yield found


@pytest.fixture
def site(cluster):
    connection = KubernetesCluster("rehearsal", str(cluster.kubeconfig))
    yield Lab(KubernetesChanges(connection.server))
    connection.close()


def through(site: Lab, action: Action, within_s: float = 60.0) -> Action:
    """Run an action to its end."""
    stopping, deadline = threading.Event(), time.monotonic() + within_s
    while time.monotonic() < deadline:
        due_at = running.run(site, action.pk, stopping)
        action.refresh_from_db()
        if action.state in act.plans.ENDED:
            return action
        time.sleep(max(0.0, min(0.5, (due_at or 0) - time.time())))
    pytest.fail(f"{action} is still {action.state}: {[(s.kind, s.state, s.evidence) for s in action.steps.all()]}")


def waived(action: Action) -> dict[str, str]:
    return {check.key: "tested" for check in act.plan_of(action).blocks}


def test_a_cordon_carries_our_name_and_its_uncordon_takes_it_away(site):
    action = act.propose(site, "cordon", "node-02", "row remap", OLGA)
    assert act.plan_of(action).blocks == ()
    act.confirm(site, action, action.digest, "", {}, OLGA)
    assert through(site, action).state == ActionState.SUCCEEDED
    node = site.changer.read_node("node-02")
    assert node.spec.unschedulable
    assert node.metadata.annotations["vigie.dev/cordoned-by"] == action.name
    assert node.metadata.annotations["vigie.dev/cordon-reason"] == "row remap"
    back = act.propose(site, "uncordon", "node-02", "done", OLGA)
    act.confirm(site, back, back.digest, "", {}, OLGA)
    assert through(site, back).state == ActionState.SUCCEEDED
    node = site.changer.read_node("node-02")
    assert not node.spec.unschedulable
    assert not [name for name in node.metadata.annotations if name.startswith("vigie.dev/cordon")]
    assert audit.verify().broken is None
    told = list(AuditEntry.objects.filter(action=action.pk).values_list("what", flat=True))
    assert told == ["proposed", "confirmed", "began", "cordon-started", "cordon-done", "succeeded"]


def drainable(site: Lab) -> str:
    """The first node whose drain nothing blocks."""
    for node in site.changer.read_nodes():
        plan = act.plan_of(act.propose(site, "drain", node.metadata.name, "look", OLGA))
        if not plan.blocks:
            return node.metadata.name
    pytest.fail("something blocks every drain of the rehearsal")


def test_a_drain_moves_every_pod_and_proves_it(site):
    name = drainable(site)
    action = act.propose(site, "drain", name, "new disk", OLGA)
    pods = act.plan_of(action).pods
    assert pods
    act.confirm(site, action, action.digest, name, {}, OLGA)
    done = through(site, action, 120)
    assert done.state == ActionState.SUCCEEDED, done.outcome
    assert {lane.state for lane in done.lanes.all()} == {LaneState.REPLACED}
    left = {pod.metadata.uid for pod in site.changer.read_pods(name)}
    assert not left & set(pods)
    assert site.changer.read_node(name).spec.unschedulable
    assert done.outcome["evicted"] == len(pods)
    assert audit.verify().broken is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"digest": "other"}, "other-plan"),
        ({"typed": "node-99"}, "other-name"),
    ],
)
def test_what_was_not_shown_is_not_confirmed(site, change, why):
    action = act.propose(site, "drain", "node-03", "look", OLGA)
    given = {"digest": action.digest, "typed": "node-03"} | change
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, given["digest"], given["typed"], {}, OLGA)
    assert refused.value.why == why
    action.refresh_from_db()
    assert action.state == ActionState.PROPOSED


def blocked(site: Lab) -> Action:
    for node in site.changer.read_nodes():
        action = act.propose(site, "drain", node.metadata.name, "look", OLGA)
        blocks = act.plan_of(action).blocks
        if blocks and all(check.waivable_by for check in blocks):
            return action
    raise AssertionError("no node of the rehearsal is blocked")


def test_a_block_stands_until_somebody_who_may_lifts_it(site):
    action = blocked(site)
    for waivers, actor in (({}, ADA), (waived(action), OLGA), (dict.fromkeys(waived(action), " "), ADA)):
        with pytest.raises(Refused) as refused:
            act.confirm(site, action, action.digest, action.target, waivers, actor)
        assert refused.value.why == "blocked"
        assert refused.value.checks
    act.confirm(site, action, action.digest, action.target, waived(action), ADA)
    action.refresh_from_db()
    assert action.state == ActionState.CONFIRMED
    assert {waiver["by"] for waiver in action.waivers} == {"ada"}
    act.stop(action, OLGA)
    assert through(site, action).state == ActionState.STOPPED


def test_two_confirmations_make_one_action(site):
    action = act.propose(site, "cordon", "node-04", "twice", OLGA)
    same = Action.objects.get(pk=action.pk)
    act.confirm(site, action, action.digest, "", {}, OLGA)
    with pytest.raises(Refused):
        act.confirm(site, same, same.digest, "", {}, OLGA)
    other = act.propose(site, "cordon", "node-04", "at the same time", OLGA)
    with pytest.raises(Refused) as refused:
        act.confirm(site, other, other.digest, "", {}, OLGA)
    assert refused.value.checks[0].guard == "alone"
    through(site, action)


def test_a_doubled_message_runs_once(site):
    action = act.propose(site, "cordon", "node-05", "doubled", OLGA)
    act.confirm(site, action, action.digest, "", {}, OLGA)
    assert claims.due(time.time()) == [action.pk]
    with claims.claimed(action.pk, time.time) as first:
        assert first is not None
        assert claims.due(time.time()) == []
        assert running.run(site, action.pk, threading.Event()) is None
    through(site, action)
    assert AuditEntry.objects.filter(action=action.pk, what="cordon-started").count() == 1
    assert running.run(site, action.pk, threading.Event()) is None


def test_a_second_person_has_to_be_another_one_who_may(site):
    site.policy = Policy(four_eyes=("cordon",))
    action = act.propose(site, "cordon", "node-06", "four eyes", ADA)
    act.confirm(site, action, action.digest, "", {}, ADA)
    assert action.state == ActionState.PROPOSED
    for actor, why in ((OLGA, "not-approver"), (ADA, "same-person"), (Actor("bob", "approver", "console"), "console")):
        with pytest.raises(Refused) as refused:
            act.approve(site, action, action.digest, "looks right", actor)
        assert refused.value.why == why
    act.approve(site, action, action.digest, "looks right", Actor("bob", "approver"))
    assert through(site, action).state == ActionState.SUCCEEDED
    assert (action.confirmed_by, action.second_by) == ("ada", "bob")


def test_a_proposal_ends_by_itself(site):
    action = act.propose(site, "cordon", "node-07", "forgotten", OLGA)
    assert act.expire(time.time()) == 0
    assert act.expire(action.expires_at + 1) >= 1
    action.refresh_from_db()
    assert action.state == ActionState.EXPIRED
    with pytest.raises(Refused):
        act.confirm(site, action, action.digest, "", {}, OLGA)


def test_somebody_who_uncordons_in_the_middle_ends_the_drain_at_once(site):
    action = blocked(site)
    act.confirm(site, action, action.digest, action.target, waived(action), ADA)
    stopping = threading.Event()
    stopping.set()  # one step a pass
    running.run(site, action.pk, stopping)
    assert action.steps.get(kind=StepKind.CORDON).state == "done"
    site.changer.change_node(site.changer.read_node(action.target), unschedulable=False, annotations={})
    ended = through(site, action)
    assert (ended.state, ended.outcome["why"]) == (ActionState.FAILED, "uncordoned")
    assert {lane.state for lane in ended.lanes.all()} == {LaneState.LEFT}
    assert ended.outcome["evicted"] == 0


def test_a_read_only_cluster_is_not_touched(site):
    site.actions = False
    action = act.propose(site, "cordon", "node-08", "no", OLGA)
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, "", {}, OLGA)
    assert {check.guard for check in refused.value.checks} == {"cluster-open"}


@pytest.mark.parametrize(("kind", "reason", "why"), [("cordon", "  ", "no-reason"), ("reboot", "x", "unknown-kind")])
def test_what_is_no_proposal(site, kind, reason, why):
    with pytest.raises(Refused) as refused:
        act.propose(site, kind, "node-01", reason, OLGA)
    assert refused.value.why == why
