"""What may never happen, whatever comes in which order: people, crashes, a server that is away, and somebody else's hands."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fleet import act
from fleet.act import Actor, Refused, audit, running
from fleet.domain.actions import CORDONED, SAVE_FIRST
from fleet.domain.picture import Snapshot
from fleet.domain.plans import ENDED, ActionState, LaneState, StepKind, StepState
from fleet.domain.policies import Deadlines, Limits, Policy
from fleet.models import Action, AuditEntry
from tests.fleet import pictures
from tests.fleet.shelves import OneStore
from tests.fleet.small_cluster import Killed, SmallCluster

pytestmark = [pytest.mark.django_db, pytest.mark.db, pytest.mark.timeout(400)]

OLGA = Actor("olga", "operator")
START = 1_800_000_000.0
NODES = st.sampled_from(["node-0", "node-1", "node-2", "node-3"])
KINDS = st.sampled_from(["drain", "maintain", "drain", "maintain", "cordon", "uncordon"])
LEASE_S = 8.0  # of a worker that is dead
LIVE_LEASE_S = 1e6  # time passes in jumps here, so a living worker could not renew


class Clockwork:
    """A `stopping` whose waits let time pass in the cluster; never set."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._cluster = cluster

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        self._cluster.pass_time(max(timeout or 0.0, 0.05))
        return False


class Site(OneStore):
    """The cluster as an action gets it."""

    name = "lab"
    actions = True
    policy = Policy(
        limits=Limits(nodes=9, nodes_per_pool=9, nodes_per_zone=9, nodes_per_rack=9, unusable_share=0.9),
        deadlines=Deadlines(drain_s=120, reboot_s=300, verify_s=60, prove_s=120, save_s=60),
    )

    def __init__(self, changer: SmallCluster) -> None:
        super().__init__(changer.shelf)
        self.changer = changer

    def snapshot(self) -> Snapshot:
        return pictures.read(self.changer.nodes, self.changer.now)


class Maintenance(RuleBasedStateMachine):
    """A few nodes, a few services, and everything that people and machines do to them."""

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.savepoint()
        self.shelf = tempfile.TemporaryDirectory()
        self.dead = itertools.count(1)

    @initialize(workloads=st.integers(1, 3))
    def begin(self, workloads: int) -> None:
        names, shelf = [f"web{n}" for n in range(workloads)], Path(self.shelf.name)
        self.cluster = SmallCluster.made(START, names, nodes=4, trainers=["llm"], shelf=shelf)
        self.cluster.save("llm")
        self.site, self.stopping = Site(self.cluster), Clockwork(self.cluster)

    def teardown(self) -> None:
        try:
            if hasattr(self, "cluster"):
                self.cluster.away = False
                self.cluster.kill_before = self.cluster.kill_after = -1
                self.everything_ends()
        finally:
            transaction.savepoint_rollback(self.savepoint)
            self.shelf.cleanup()

    def now(self) -> float:
        return self.cluster.now

    def actions(self, *states: ActionState) -> list[Action]:
        return list(Action.objects.filter(state__in=states).order_by("pk"))

    # People

    @rule(kind=KINDS, node=NODES, save=st.booleans())
    def order(self, kind: str, node: str, save: bool) -> None:
        """Propose and confirm at once, and let it begin."""
        first = save and kind in {"drain", "maintain"}
        try:
            action = act.propose(
                self.site, kind, node, "because", OLGA, self.now, dict([SAVE_FIRST]) if first else None
            )
            act.confirm(self.site, action, action.digest, node, {}, OLGA, self.now)
        except Refused as refused:
            self.only(refused, "blocked", "changed", "cluster-away")
        else:
            self.one_pass(action.pk)

    @rule(kind=KINDS, node=NODES)
    def propose(self, kind: str, node: str) -> None:
        try:
            act.propose(self.site, kind, node, "because", OLGA, self.now)
        except Refused as refused:
            self.only(refused, "cluster-away")

    @precondition(lambda _: Action.objects.filter(state=ActionState.PROPOSED).exists())
    @rule(which=st.integers(0, 9))
    def confirm(self, which: int) -> None:
        proposed = self.actions(ActionState.PROPOSED)
        action = proposed[which % len(proposed)]
        try:
            act.confirm(self.site, action, action.digest, action.target, {}, OLGA, self.now)
        except Refused as refused:
            self.only(refused, "blocked", "changed", "expired", "cluster-away")

    def only(self, refused: Refused, *reasons: str) -> None:
        assert refused.why in reasons

    @precondition(lambda _: Action.objects.exclude(state__in=ENDED).exists())
    @rule(which=st.integers(0, 9))
    def stop(self, which: int) -> None:
        found = list(Action.objects.exclude(state__in=ENDED).order_by("pk"))
        act.stop(found[which % len(found)], OLGA, self.now)

    # Machines

    @precondition(lambda _: Action.objects.filter(state__in=["confirmed", "running"]).exists())
    @rule(which=st.integers(0, 9))
    def run(self, which: int) -> None:
        self._run(which)

    def _run(self, which: int) -> None:
        found = self.actions(ActionState.CONFIRMED, ActionState.RUNNING)
        self.one_pass(found[which % len(found)].pk)

    @precondition(lambda _: Action.objects.filter(state__in=["confirmed", "running"]).exists())
    @rule(which=st.integers(0, 9), requests=st.integers(0, 4), before=st.booleans())
    def crash(self, which: int, requests: int, before: bool) -> None:
        """The worker is killed at one of its next requests; what it had claimed stays claimed until the lease runs out."""
        found = self.actions(ActionState.CONFIRMED, ActionState.RUNNING)
        setattr(self.cluster, "kill_before" if before else "kill_after", requests)
        self.one_pass(found[which % len(found)].pk)
        self.cluster.kill_before = self.cluster.kill_after = -1

    def one_pass(self, pk: int) -> None:
        try:
            running.run(self.site, pk, self.stopping, self.now, LIVE_LEASE_S)
        except Killed:
            claim: dict[str, Any] = {"claimed_by": f"dead-{next(self.dead)}", "claim_until": self.now() + LEASE_S}
            Action.objects.filter(pk=pk).update(**claim)

    @rule(seconds=st.sampled_from([0.5, 5.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.pass_time(seconds)
        act.expire(self.now())

    @precondition(lambda _: Action.objects.filter(state__in=["confirmed", "running"]).exists())
    @rule(which=st.integers(0, 9))
    def run_while_the_server_is_away(self, which: int) -> None:
        self.cluster.away = True
        self._run(which)
        self.cluster.away = False

    # Somebody else

    @rule(node=NODES, closed=st.booleans())
    def foreign_cordon(self, node: str, closed: bool) -> None:
        self.cluster.cordon(node, closed)

    @rule(node=NODES)
    def foreign_reboot(self, node: str) -> None:
        self.cluster.reboot(node)

    @rule(save_s=st.sampled_from([-1.0, 0.5, 20.0]), save=st.booleans())
    def trainers_change_their_pace(self, save_s: float, save: bool) -> None:
        """How long a save takes from now on, if it comes to an end at all; and perhaps one as they do all the time."""
        self.cluster.save_s = save_s
        if save:
            self.cluster.save("llm")

    # What never may be otherwise

    @invariant()
    def nobody_is_evicted_twice_or_without_a_plan(self) -> None:
        if not hasattr(self, "cluster"):
            return
        accepted = self.cluster.accepted
        assert len(accepted) == len(set(accepted))
        planned = {uid for action in Action.objects.exclude(confirmed_at=None) for uid in action.plan["pods"]}
        assert set(accepted) <= planned

    @invariant()
    def nobody_goes_before_what_was_promised_is_saved(self) -> None:
        for action in Action.objects.filter(steps__kind=StepKind.SAVE):
            saved = action.steps.get(kind=StepKind.SAVE).state == StepState.DONE
            assert saved or not action.lanes.exclude(accepted_at=None).exists()

    @invariant()
    def each_workload_is_asked_once(self) -> None:
        asked = AuditEntry.objects.filter(what="asked-to-save").count()
        if hasattr(self, "cluster"):
            assert len(self.cluster.asked) <= asked <= Action.objects.filter(steps__kind=StepKind.SAVE).count()

    @invariant()
    def the_chain_is_whole(self) -> None:
        assert audit.verify().broken is None

    @invariant()
    def one_action_at_a_time_on_a_node(self) -> None:
        targets = list(Action.objects.filter(state__in=["confirmed", "running"]).values_list("target", flat=True))
        assert len(targets) == len(set(targets))

    def everything_ends(self) -> None:
        """With a server that answers and workers that live, every action comes to an end that is true."""
        for _ in range(400):
            left = self.actions(ActionState.CONFIRMED, ActionState.RUNNING)
            if not left:
                break
            for action in left:
                self.one_pass(action.pk)
            self.cluster.pass_time(10.0)
        act.expire(self.now() + 1_000)
        assert not Action.objects.exclude(state__in=ENDED).exists()
        for action in Action.objects.filter(state=ActionState.SUCCEEDED, kind__in=["drain", "maintain"]):
            assert not set(action.plan["pods"]) & set(self.cluster.pods)
            assert {lane.state for lane in action.lanes.all()} <= {LaneState.REPLACED}
        for action in Action.objects.filter(state=ActionState.FAILED, outcome__step=StepKind.SAVE):
            node = self.cluster.nodes[action.target]
            assert not node.spec.unschedulable or node.metadata.annotations.get(CORDONED) != action.name
        self.the_chain_is_whole()
        self.nobody_is_evicted_twice_or_without_a_plan()


def test_whatever_happens_in_whatever_order(db):
    class Story(Maintenance):
        pass

    Story.TestCase.settings = settings(
        max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
    )
    story = Story.TestCase()
    story.runTest()
