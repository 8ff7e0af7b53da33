"""Running an action when things go wrong in the worst places: between two writes, after an outage, under others' hands."""

import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fleet import act
from fleet.act import Actor, Refused, audit, claims, evicting, running
from fleet.act.steps import Failed, Work
from fleet.domain import objects
from fleet.domain.actions import CORDONED, REBOOT
from fleet.domain.draining import Cause, Reply
from fleet.domain.picture import Snapshot
from fleet.domain.plans import ActionState, LaneState, StepKind, StepState
from fleet.domain.policies import Deadlines, Freeze, Limits, Policy, policy
from fleet.domain.specs import FullPod
from fleet.models import Action, ActionLane
from fleet.ports import PortError
from tests.domain import cluster
from tests.fleet import pictures
from tests.fleet.shelves import NoStores
from tests.fleet.small_cluster import SmallCluster

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

OLGA, ADA, BOB = Actor("olga", "operator"), Actor("ada", "approver"), Actor("bob", "approver")
START = 1_800_000_000.0
TARGET = "node-0"
LEASE_S = 1e6


class Site(NoStores):
    name, actions = "lab", True

    def __init__(self) -> None:
        self.changer: Any = SmallCluster.made(START, ["web"], nodes=4)
        self.policy = Policy(
            limits=Limits(nodes=9, nodes_per_pool=9, nodes_per_zone=9, nodes_per_rack=9, unusable_share=0.9),
            deadlines=Deadlines(drain_s=120, reboot_s=300, verify_s=60, prove_s=120),
        )

    def snapshot(self) -> Snapshot:
        return pictures.read(self.changer.nodes, self.changer.now)

    def now(self) -> float:
        return self.changer.now


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def maintained(site: Site) -> Action:
    return confirmed(site, "maintain")


def confirmed(site: Site, kind: str, actor: Actor = OLGA, waivers: dict[str, str] | None = None) -> Action:
    action = act.propose(site, kind, TARGET, "because", actor, site.now)
    return act.confirm(site, action, action.digest, TARGET, waivers or {}, actor, site.now)


class Once:
    """A `stopping` that is set from the start: one step a pass. Waits let time pass."""

    def __init__(self, site: Site, passes: bool = False) -> None:
        self._site, self._passes = site, passes

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        self._site.changer.pass_time(max(timeout or 0.0, 0.05))
        return not self._passes


def one_pass(site: Site, action: Action) -> Action:
    running.run(site, action.pk, Once(site), site.now, LEASE_S)
    action.refresh_from_db()
    return action


def until(site: Site, action: Action, kind: StepKind | None = None, state: StepState = StepState.WAITING) -> Action:
    """Run until a step is in a state; without one until the action has ended."""
    for _ in range(400):
        one_pass(site, action)
        if action.state in act.plans.ENDED or (kind and action.steps.get(kind=kind).state == state):
            return action
        site.changer.pass_time(1.0)
    pytest.fail(f"{action} is {action.state}: {[(s.kind, s.state, s.evidence) for s in action.steps.all()]}")


def lanes(action: Action) -> set[str]:
    return {lane.state for lane in action.lanes.all()}


def annotations(site: Site) -> dict[str, str]:
    return site.changer.nodes[TARGET].metadata.annotations


# --- Pods that nobody has planned for ------------------------------------------------------------------------------------------
def test_pods_that_a_drain_has_left_are_still_there_for_whoever_goes_on(site, maintained):
    """A worker that died between the end of a failed drain and the end of its action."""
    site.changer.cordon(TARGET, closed=True)
    maintained.steps.filter(kind=StepKind.CORDON).update(state=StepState.DONE)
    maintained.steps.filter(kind=StepKind.DRAIN).update(state=StepState.FAILED, started_at=START)
    maintained.lanes.update(state=LaneState.LEFT)
    until(site, maintained, StepKind.RELEASE, StepState.SKIPPED)
    assert maintained.state == ActionState.FAILED
    assert REBOOT not in annotations(site)


def test_a_failed_step_and_its_action_end_in_one_transaction(site, maintained, monkeypatch):
    site.changer.cordon(TARGET, closed=False)
    one_pass(site, maintained)
    site.changer.cordon(TARGET, closed=False)

    def dies(*_args: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        until(site, maintained)
    assert not maintained.steps.filter(state=StepState.FAILED).exists()


def newcomer(site: Site, name: str = "late-0") -> None:
    made = cluster.pod(name, TARGET, 1, uid=name, labels={"app": "late"})
    made["metadata"]["ownerReferences"] = cluster.owned_by("Deployment", "late")
    site.changer.pods[name] = msgspec.convert(made, FullPod)
    site.changer.ready_at[name] = 0.0


def test_a_pod_that_came_before_the_cordon_stops_the_drain_before_anybody_has_to_go(site):
    action = confirmed(site, "drain")
    newcomer(site)
    until(site, action)
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "new-pods")
    assert site.changer.accepted == []


def test_a_pod_that_came_after_the_drain_is_not_rebooted(site, maintained):
    shown = site.snapshot
    site.snapshot = lambda: newcomer(site) or shown()  # it comes while the GPUs are being freed
    until(site, maintained)
    assert maintained.steps.get(kind=StepKind.DRAIN).state == StepState.DONE
    assert (maintained.state, maintained.outcome["why"]) == (ActionState.FAILED, "new-pods")
    assert REBOOT not in annotations(site)


def test_gone_is_what_a_list_says_not_a_conflict(site):
    """409 is also what the server says when a budget or a pod was written at the same moment."""
    action, evict = confirmed(site, "drain"), site.changer.evict
    once = [Reply(409, "Conflict")]
    site.changer.evict = lambda *args, dry_run: evict(*args, dry_run=dry_run) if dry_run or not once else once.pop()
    until(site, action, StepKind.DRAIN, StepState.DONE)
    assert not once
    assert {lane.uid for lane in action.lanes.all()} == set(site.changer.accepted)


# --- A reboot that nobody waits for any more -----------------------------------------------------------------------------------
def test_a_node_that_somebody_has_opened_is_not_rebooted(site, maintained):
    until(site, maintained, StepKind.REBOOT)
    assert annotations(site)[REBOOT] == maintained.name
    site.changer.nodes[TARGET] = opened(site.changer.nodes[TARGET])
    until(site, maintained)
    assert (maintained.state, maintained.outcome["why"]) == (ActionState.FAILED, "uncordoned")
    assert REBOOT not in annotations(site)


def opened(node: objects.Node) -> objects.Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False))


def test_a_reboot_that_has_not_come_in_time_is_not_wanted_any_more(site, maintained):
    until(site, maintained, StepKind.REBOOT)
    site.changer.pass_time(301)
    until(site, maintained)
    assert (maintained.state, maintained.outcome["why"]) == (ActionState.FAILED, "deadline")
    assert REBOOT not in annotations(site)


def test_pods_are_seen_back_while_the_reboot_is_waited_for(site, maintained):
    until(site, maintained, StepKind.REBOOT)
    for _ in range(30):
        site.changer.pass_time(5.0)
        one_pass(site, maintained)
    rebooted_at = site.now()
    site.changer.reboot(TARGET)
    until(site, maintained)
    assert maintained.state == ActionState.SUCCEEDED
    assert all(lane.replaced_at < rebooted_at for lane in maintained.lanes.all())


def test_a_reboot_that_has_come_is_not_asked_for_twice(site, maintained):
    until(site, maintained, StepKind.REBOOT)
    site.changer.reboot(TARGET)
    until(site, maintained, StepKind.REBOOT, StepState.DONE)
    assert REBOOT not in annotations(site)


def test_a_reboot_before_it_was_asked_for_is_another_one(site, maintained):
    site.changer.reboot(TARGET)
    until(site, maintained, StepKind.REBOOT)
    assert maintained.state == ActionState.RUNNING
    assert annotations(site)[REBOOT] == maintained.name


def test_a_stop_ends_when_the_reboot_is_withdrawn(site, maintained):
    until(site, maintained, StepKind.REBOOT)
    act.stop(maintained, OLGA, site.now)
    site.changer.away = True
    one_pass(site, maintained)
    assert maintained.state == ActionState.RUNNING, "somebody would reboot it after the end"
    site.changer.away = False
    until(site, maintained)
    assert maintained.state == ActionState.STOPPED
    assert REBOOT not in annotations(site)


# --- Outages and deadlines ------------------------------------------------------------------------------------------------------
def test_after_its_deadline_nobody_is_asked_to_go(site):
    action = confirmed(site, "drain")
    until(site, action, StepKind.CORDON, StepState.DONE)
    before = list(site.changer.accepted)
    action.steps.filter(kind=StepKind.DRAIN).update(
        state=StepState.WAITING, started_at=START, deadline_at=site.now() - 3600
    )
    action.lanes.update(state=LaneState.QUEUED)
    until(site, action)
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "deadline")
    assert site.changer.accepted == before


def test_a_server_that_wants_to_be_left_alone_for_days_does_not_hide_the_deadline(site):
    action = confirmed(site, "cordon")

    def throttled(_name: str) -> None:
        raise PortError("later", retryable=True, status=429, retry_after_s=900_000.0)

    site.changer.read_node = throttled
    one_pass(site, action)
    assert action.due_at <= START + 120


def test_a_cluster_that_was_closed_to_vigie_is_left_alone(site):
    action = confirmed(site, "drain")
    site.actions = False
    until(site, action)
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "read-only")
    assert not site.changer.nodes[TARGET].spec.unschedulable


def test_a_drain_that_cannot_end_asks_nobody_else(site):
    """The first pod's server says no for good; the others would lose their work for nothing."""
    site.changer = SmallCluster.made(START, ["a", "b"], nodes=4)
    action, evict = confirmed(site, "drain"), site.changer.evict
    first = action.lanes.order_by("place")[0]

    def evicting_(namespace: str, name: str, uid: str, *, dry_run: bool) -> Reply:
        if uid == first.uid:
            return Reply(403, "Forbidden", "a webhook says no")
        if not dry_run:
            return evict(namespace, name, uid, dry_run=False)
        return Reply(429, "TooManyRequests", "", (Cause("DisruptionBudget", "not now"),))

    site.changer.evict = evicting_
    one_pass(site, action)
    site.changer.evict = lambda *args, dry_run: evict(*args, dry_run=dry_run)
    until(site, action)
    assert action.outcome["why"] == "pods-refused"
    assert site.changer.accepted == []


def test_a_freeze_does_not_keep_anybody_from_closing_a_node(site):
    action = act.propose(site, "cordon", TARGET, "it burns", OLGA, site.now)
    site.policy = msgspec.structs.replace(site.policy, freeze=(freeze(),))
    act.confirm(site, action, action.digest, "", {}, OLGA, site.now)
    until(site, action)
    assert action.state == ActionState.SUCCEEDED


def freeze() -> Freeze:
    return Freeze(datetime.fromtimestamp(START - 9, UTC), datetime.fromtimestamp(START + 9_000, UTC), "quarter's end")


# --- Waivers --------------------------------------------------------------------------------------------------------------------
def test_what_lifts_nothing_now_lifts_nothing_later(site):
    """An operator's word about a freeze and a pod that asks for nothing yet."""
    uid = next(uid for uid, pod in site.changer.pods.items() if pod.spec.node_name == TARGET)
    given = {f"window:{TARGET}": "just in case", f"undisturbed:lab/{uid}": "just in case"}
    action = confirmed(site, "drain", OLGA, given)
    assert action.waivers == []
    site.policy = msgspec.structs.replace(site.policy, freeze=(freeze(),))
    until(site, action)
    assert action.outcome["why"] == "frozen"


def test_a_waiver_of_a_closed_window_is_none_of_a_freeze(site):
    closed = policy('[[window]]\nfrom = 00:00:00\nto = 00:00:01\ndays = ["mon"]\n').window
    site.policy = msgspec.structs.replace(site.policy, window=closed)
    action = confirmed(site, "drain", ADA, {f"window:{TARGET}": "the vendor is here"})
    site.policy = msgspec.structs.replace(site.policy, freeze=(freeze(),))
    until(site, action)
    assert action.outcome["why"] == "frozen"


def test_what_was_not_shown_is_not_lifted_by_its_name(site):
    closed = policy('[[window]]\nfrom = 00:00:00\nto = 00:00:01\ndays = ["mon"]\n').window
    site.policy = msgspec.structs.replace(site.policy, window=closed)
    action = act.propose(site, "drain", TARGET, "because", ADA, site.now)
    site.policy = msgspec.structs.replace(site.policy, freeze=(freeze(),))
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, TARGET, {f"window:{TARGET}": "the vendor is here"}, ADA, site.now)
    assert [check.reason for check in refused.value.checks] == ["frozen"]


def test_a_second_person_is_asked_for_by_the_policy_of_the_confirmation(site):
    action = act.propose(site, "drain", TARGET, "because", OLGA, site.now)
    site.policy = msgspec.structs.replace(site.policy, four_eyes=("drain",))
    act.confirm(site, action, action.digest, TARGET, {}, OLGA, site.now)
    assert (action.state, action.needs_second) == (ActionState.PROPOSED, True)
    act.approve(site, action, action.digest, "agreed", BOB, site.now)
    assert action.state == ActionState.CONFIRMED


# --- Several workers, several hands ---------------------------------------------------------------------------------------------
def test_a_stop_counts_though_a_worker_begins_at_the_same_moment(site):
    action = confirmed(site, "drain")
    Action.objects.filter(pk=action.pk).update(state=ActionState.RUNNING)  # after `action` was read
    act.stop(action, OLGA, site.now)
    assert action.stop_by == "olga"


def test_whoever_has_lost_the_action_writes_nothing_about_its_pods(site):
    action = confirmed(site, "drain")
    with claims.claimed(action.pk, site.now, LEASE_S) as claim:
        assert claim is not None
        Action.objects.filter(pk=action.pk).update(claimed_by="another", claim_until=START + LEASE_S)
        step, lane = action.steps.first(), action.lanes.first()
        work = Work(site, action, step, claim, site.now, threading.Event())
        with pytest.raises(claims.LostClaimError):
            evicting._set(work, lane, LaneState.ACCEPTED)
        with pytest.raises(claims.LostClaimError):
            running._settle(work, Failed("asleep"), site.now())
    assert ActionLane.objects.get(pk=lane.pk).state == LaneState.QUEUED
    action.refresh_from_db()
    assert action.state == ActionState.CONFIRMED


def test_a_request_that_was_not_answered_is_not_repeated_while_it_may_be_under_way(site):
    action, evict = confirmed(site, "drain"), site.changer.evict
    asked: list[float] = []

    def silent(*args: str, dry_run: bool) -> Reply:
        if dry_run:
            return evict(*args, dry_run=True)
        asked.append(site.now())
        if len(asked) == 1:
            raise PortError("silent", retryable=True, reason="silent")
        return evict(*args, dry_run=False)

    site.changer.evict = silent
    until(site, action)
    assert action.state == ActionState.SUCCEEDED
    assert asked[1] - asked[0] >= evicting.ANSWERED_WITHIN_S


def test_a_cordon_that_somebody_has_put_over_ours_is_theirs(site):
    confirmed_cordon = confirmed(site, "cordon")
    until(site, confirmed_cordon)
    node = site.changer.nodes[TARGET]
    assert node.metadata.annotations[CORDONED]
    entry = objects.ManagedEntry("kubectl-cordon", None, objects.ManagedFields(objects.ManagedSpec(unschedulable={})))
    meta = msgspec.structs.replace(node.metadata, managed_fields=(entry,))
    site.changer.nodes[TARGET] = msgspec.structs.replace(node, metadata=meta)
    plan = act.plan_of(act.propose(site, "uncordon", TARGET, "done", OLGA, site.now))
    assert {check.guard for check in plan.blocks} == {"cordon-owner"}


def test_an_uncordon_does_not_open_what_was_closed_since(site):
    until(site, confirmed(site, "cordon"))
    action = confirmed(site, "uncordon")
    site.changer.cordon(TARGET, closed=True)  # somebody else, who has taken our note away
    until(site, action)
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "foreign")
    assert site.changer.nodes[TARGET].spec.unschedulable


# --- What the ledger says -------------------------------------------------------------------------------------------------------
def test_a_pod_that_somebody_else_deletes_was_not_evicted_by_us(site):
    action = confirmed(site, "drain")
    uid = action.lanes.first().uid
    pod = site.changer.pods[uid]
    going = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime.fromtimestamp(START + 5, UTC))
    site.changer.pods[uid] = msgspec.structs.replace(pod, metadata=going)
    until(site, action)
    assert (action.state, action.outcome["evicted"]) == (ActionState.SUCCEEDED, 0)


def test_text_of_the_cluster_fits_into_the_ledger(site):
    node = site.changer.nodes[TARGET]
    notes = {CORDONED: "M-9\x00" + "x" * 1_000_000}
    meta = msgspec.structs.replace(node.metadata, annotations=notes)
    spec = msgspec.structs.replace(node.spec, unschedulable=True)
    site.changer.nodes[TARGET] = site.changer.versioned(msgspec.structs.replace(node, metadata=meta, spec=spec))
    action = confirmed(site, "cordon")
    until(site, action)
    assert action.state == ActionState.SUCCEEDED
    evidence = action.steps.get(kind=StepKind.CORDON).evidence
    assert "\x00" not in evidence["by"]
    assert len(evidence["by"]) < 2_000


def test_text_of_people_fits_into_the_ledger(site):
    action = act.propose(site, "drain", TARGET, "row\x00 remap \ud800", Actor("o" * 400, "operator"), site.now)
    assert action.reason.startswith("row remap")
    assert len(action.proposed_by) == 150
    assert audit.verify().broken is None
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, TARGET, {"window:x": "y" * 5_000}, OLGA, site.now)
    assert refused.value.why == "long-reason"


def test_what_has_nobody_to_bring_it_back_is_gone_and_not_replaced(site):
    newcomer(site, "bare-0")
    bare = site.changer.pods["bare-0"]
    site.changer.pods["bare-0"] = msgspec.structs.replace(
        bare, metadata=msgspec.structs.replace(bare.metadata, owner_references=(), deletion_timestamp=None)
    )
    site.changer.evict = free(site.changer, "bare-0")
    action = act.propose(site, "drain", TARGET, "because", ADA, site.now)
    waivers = {check.key: "its owner agrees" for check in act.plan_of(action).blocks}
    act.confirm(site, action, action.digest, TARGET, waivers, ADA, site.now)
    until(site, action)
    assert action.state == ActionState.SUCCEEDED, action.outcome
    assert action.lanes.get(uid="bare-0").state == LaneState.GONE


def free(changer: SmallCluster, name: str) -> Any:
    """An eviction that no budget is asked about, and after which the pod is gone at once."""
    evict = changer.evict

    def evicting_(namespace: str, asked: str, uid: str, *, dry_run: bool) -> Reply:
        if asked != name:
            return evict(namespace, asked, uid, dry_run=dry_run)
        if not dry_run:
            del changer.pods[uid]
        return Reply(201)

    return evicting_


def test_a_job_that_the_eviction_has_ended_is_no_success(site):
    action = confirmed(site, "drain")
    job = objects.Job(objects.Metadata(name="web", namespace="lab"))
    failed = objects.JobStatus(conditions=(objects.Condition("Failed", "True"),))
    site.changer.read_controllers = lambda: (msgspec.structs.replace(job, status=failed),)
    plan = act.plan_of(action)
    pods = tuple(msgspec.structs.replace(pod, owner_kind="Job", owner_name="web") for pod in plan.loss.pods)
    plan = msgspec.structs.replace(plan, loss=msgspec.structs.replace(plan.loss, pods=pods))
    Action.objects.filter(pk=action.pk).update(plan=msgspec.to_builtins(plan))
    until(site, action)
    assert (action.state, action.outcome["why"]) == (ActionState.FAILED, "workload-failed")
    assert LaneState.REPLACED not in lanes(action)


@pytest.mark.parametrize(("wanted", "brought_back"), [(1, LaneState.REPLACED), (0, LaneState.GONE)])
def test_a_workload_that_wants_fewer_pods_by_now_is_not_waited_for(site, wanted, brought_back):
    action = confirmed(site, "drain")
    read = site.changer.read_controllers

    def scaled_down() -> Any:
        for one in read():
            ready = msgspec.structs.replace(one.status, ready_replicas=wanted)
            yield msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, replicas=wanted), status=ready)

    site.changer.read_controllers = lambda: tuple(scaled_down())
    until(site, action)
    assert action.state == ActionState.SUCCEEDED, action.outcome
    assert lanes(action) == {brought_back}


def test_a_refusal_prints_nothing_that_acts_on_a_terminal(site):
    action = act.propose(site, "drain", TARGET, "because", OLGA, site.now)
    site.changer.evict = lambda *_args, **_more: Reply(403, "Forbidden", "no\x1b[2J\x00 way")
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, TARGET, {}, OLGA, site.now)
    assert [dict(check.evidence)["message"] for check in refused.value.checks] == ["no[2J way"]
