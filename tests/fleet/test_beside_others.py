"""Actions beside others: two confirmations at one moment, a fleet that gets worse meanwhile, a cluster that is gone."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fleet import act
from fleet.act import Actor, Refused, audit
from fleet.domain.actions import REBOOT
from fleet.domain.plans import ActionState, LaneState, StepKind, StepState
from fleet.models import Action
from fleet.tasks.actions import run_action
from tests.fleet.small_cluster import SmallCluster
from tests.fleet.test_running import OLGA, START, TARGET, Site, annotations, confirmed, one_pass, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

ADA = Actor("ada", "approver")


@pytest.fixture
def site() -> Site:
    return Site()


# --- Two confirmations --------------------------------------------------------------------------------------------------------
class Interrupting:
    """A clock at whose `at`th look somebody else does something."""

    def __init__(self, site: Site, at: int, do: Callable[[], Any]) -> None:
        self._site, self._at, self._do, self._looks = site, at, do, 0

    def __call__(self) -> float:
        self._looks += 1
        if self._looks == self._at:
            self._do()
        return self._site.now()


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_two_confirmations_do_not_count_on_the_same_hole(site, at):
    """node-2 has room for one more pod. Each drain alone is safe; both together have one pod too many."""
    site.changer = SmallCluster.made(START, ["web"], nodes=3)
    for _ in range(7):
        site.changer.start("other", "node-2")
    one, two = (act.propose(site, "drain", f"node-{n}", "because", OLGA, site.now) for n in (0, 1))
    assert not act.plan_of(one).blocks + act.plan_of(two).blocks
    clock = Interrupting(site, at, lambda: act.confirm(site, one, one.digest, "node-0", {}, OLGA, site.now))
    with pytest.raises(Refused) as refused:
        act.confirm(site, two, two.digest, "node-1", {}, ADA, clock)
    assert refused.value.why == "blocked"
    assert "placement" in {check.guard for check in refused.value.checks}
    assert list(Action.objects.filter(state=ActionState.CONFIRMED)) == [one]
    assert audit.verify().broken is None


def test_a_confirmation_that_is_overtaken_and_still_safe_goes_on(site):
    one, two = (act.propose(site, "drain", f"node-{n}", "because", OLGA, site.now) for n in (0, 1))
    clock = Interrupting(site, 4, lambda: act.confirm(site, one, one.digest, "node-0", {}, OLGA, site.now))
    act.confirm(site, two, two.digest, "node-1", {}, ADA, clock)
    assert Action.objects.filter(state=ActionState.CONFIRMED).count() == 2
    assert two.steps.count() == 4, "written once"


# --- Brakes -------------------------------------------------------------------------------------------------------------------
def careful(site: Site, **limits: Any) -> None:
    site.policy = replace(site.policy, limits=replace(site.policy.limits, **limits))


def test_a_fleet_that_gets_worse_stops_what_has_not_begun(site):
    careful(site, unusable_share=0.3)
    action = confirmed(site, "drain")
    site.changer.cordon("node-2", closed=True)
    site.changer.cordon("node-3", closed=True)
    assert until(site, action).state == ActionState.FAILED
    assert (action.outcome["why"], action.outcome["reopened"]) == ("braked", True)
    assert [check["guard"] for check in action.outcome["checks"]] == ["breaker"]
    assert site.changer.accepted == []
    assert not site.changer.nodes[TARGET].spec.unschedulable


def test_it_stops_before_the_reboot_as_well(site):
    careful(site, unusable_share=0.3)
    action = confirmed(site, "maintain")
    until(site, action, StepKind.RELEASE)
    site.changer.cordon("node-2", closed=True)
    site.changer.cordon("node-3", closed=True)
    assert until(site, action).state == ActionState.FAILED
    assert (action.outcome["why"], action.outcome["step"]) == ("braked", StepKind.REBOOT)
    assert REBOOT not in annotations(site)
    assert site.changer.nodes[TARGET].spec.unschedulable, "it is empty, and what emptied it is stated"


def test_what_was_waived_is_no_brake(site):
    careful(site, unusable_share=0.3)
    site.changer.cordon("node-2", closed=True)
    site.changer.cordon("node-3", closed=True)
    action = confirmed(site, "drain", ADA, {f"breaker:{TARGET}": "the others are on their way back"})
    assert until(site, action).state == ActionState.SUCCEEDED


def test_a_limit_counts_what_was_there_before(site):
    """Whoever came later had to take the first one into account; the first one is not stopped by it."""
    first = confirmed(site, "drain")
    careful(site, nodes=1)
    second = act.propose(site, "drain", "node-1", "because", ADA, site.now)
    (block,) = act.plan_of(second).blocks
    site.changer.pass_time(1.0)
    act.confirm(site, second, second.digest, "node-1", {block.key: "agreed with olga"}, ADA, site.now)
    assert until(site, first).state == ActionState.SUCCEEDED


def test_the_fleet_is_listed_once_for_each_such_step(site):
    action = confirmed(site, "drain")
    listed, read = [], site.changer.read_nodes
    site.changer.read_nodes = lambda: listed.append(1) or read()
    assert until(site, action).state == ActionState.SUCCEEDED
    assert len(listed) == 1


# --- A cluster that is no longer configured -------------------------------------------------------------------------------------
def test_an_action_whose_cluster_is_gone_ends(site):
    action = confirmed(site, "maintain")
    until(site, action, StepKind.REBOOT)
    run_action(action.pk)
    action.refresh_from_db()
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "no-cluster")
    assert action.outcome["reboot_withdrawn"] is False, "it stands on the node, and may be followed"
    assert action.steps.get(kind=StepKind.REBOOT).state == StepState.FAILED
    assert act.claims.due(site.now() + 10**6) == []
    assert audit.verify().broken is None


def test_one_that_nobody_has_begun_expires(site):
    action = confirmed(site, "drain")
    run_action(action.pk)
    action.refresh_from_db()
    assert (action.state, action.outcome["why"]) == (ActionState.EXPIRED, "no-cluster")
    assert {lane.state for lane in action.lanes.all()} == {LaneState.QUEUED}


def test_one_that_a_worker_has_is_left_to_it(site):
    action = confirmed(site, "drain")
    one_pass(site, action)
    Action.objects.update(claimed_by="another", claim_until=4e9)
    run_action(action.pk)
    action.refresh_from_db()
    assert action.state == ActionState.RUNNING
