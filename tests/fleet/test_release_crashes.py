"""Releases when things go wrong in the worst places: between two writes, after an outage, under others' hands. One change on the
cluster, and an end that says what is so."""

import threading
from typing import Any

import pytest
from django.db import connections

from fleet import act
from fleet.act import Actor, Refused, running
from fleet.domain import switching
from fleet.domain.picture import Snapshot
from fleet.domain.plans import ENDED, ActionState, StepKind, StepState
from fleet.domain.policies import BlueGreen, Deadlines, Policy
from fleet.models import Action, ActionStep
from tests.fleet import pictures
from tests.fleet.shelves import NoStores
from tests.fleet.small_cluster import Killed
from tests.fleet.small_releases import BLUE, CHAT, GREEN, SERVICE, SmallReleases
from tests.fleet.test_running import LEASE_S, START, Once

pytestmark = [pytest.mark.django_db(transaction=True)]

OLGA, ADA = Actor("olga", "operator"), Actor("ada", "approver")
TEAL = "Deployment/lab/llm-teal"


class Site(NoStores):
    name, actions = "lab", True

    def __init__(self, **more: Any) -> None:
        self.changer: Any = SmallReleases.made(START, **more)
        deadlines = Deadlines(rollout_s=120, endpoints_s=30)
        self.policy = Policy(deadlines=deadlines, blue_green=BlueGreen(keep_s=0.0))

    def snapshot(self) -> Snapshot:
        return pictures.read(self.changer.nodes, self.changer.now)

    def now(self) -> float:
        return float(self.changer.now)


@pytest.fixture
def site() -> Site:
    return Site()


def planned(site: Site, kind: str, target: str, actor: Actor = OLGA, **options: str) -> Action:
    return act.propose(site, kind, target, "because", actor, site.now, options=options)


def agree(site: Site, action: Action, actor: Actor = OLGA, waivers: dict[str, str] | None = None) -> Action:
    return act.confirm(site, action, action.digest, action.target.rpartition("/")[2], waivers or {}, actor, site.now)


def confirmed(site: Site, kind: str, target: str, **options: str) -> Action:
    action = planned(site, kind, target, **options)
    assert not act.plan_of(action).blocks, act.plan_of(action).blocks
    return agree(site, action)


def one_pass(site: Site, action: Action) -> None:
    running.run(site, action.pk, Once(site), site.now, LEASE_S)
    action.refresh_from_db()


def until(site: Site, action: Action, kind: StepKind | None = None, state: StepState = StepState.DONE) -> Action:
    for _ in range(300):
        one_pass(site, action)
        if action.state in ENDED or (kind and action.steps.get(kind=kind).state == state):
            return action
        site.changer.pass_time(1.0)
    pytest.fail(f"{action} is {action.state}: {[(s.kind, s.state, s.evidence) for s in action.steps.all()]}")


def killed(site: Site, action: Action) -> None:
    """Run until the process dies; another worker may then have the action."""
    with pytest.raises(Killed):
        until(site, action)
    Action.objects.filter(pk=action.pk).update(claimed_by="", claim_until=0.0)
    action.refresh_from_db()


def ended(site: Site, action: Action) -> tuple[str, str]:
    until(site, action)
    return action.state, action.outcome.get("why", "")


def selector(site: Site) -> dict[str, str]:
    return dict(site.changer.services["llm"]["spec"]["selector"])


GREEN_SELECTED = {"app": "llm", "color": "green"}

# Each action, the step that changes the cluster, and that change.
CHANGES = [
    pytest.param("restart", CHAT, {}, f"patch {CHAT}", id="restart"),
    pytest.param("pause", CHAT, {}, f"patch {CHAT}", id="pause"),
    pytest.param("set-image", CHAT, {"image": "repo/llm:2"}, f"patch {CHAT}", id="set-image"),
    pytest.param("scale", CHAT, {"replicas": "3"}, f"patch {CHAT}", id="scale"),
    pytest.param("switch", SERVICE, {}, "select llm app=llm,color=green", id="switch"),
    pytest.param("retire", SERVICE, {}, f"patch {GREEN}", id="retire"),
]


@pytest.mark.db
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "target", "options", "change"), CHANGES)
def test_a_worker_that_dies_at_its_change_changes_it_once(site, when, kind, target, options, change):
    action = confirmed(site, kind, target, **options)
    setattr(site.changer, f"kill_{when}", 0)
    killed(site, action)
    assert site.changer.changes == [change] * (when == "after")
    site.changer.pass_time(1.0)
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.changes == [change]


@pytest.mark.parametrize(("kind", "target", "options", "change"), CHANGES)
def test_a_change_that_nobody_answers_is_made_once(site, kind, target, options, change):
    action = confirmed(site, kind, target, **options)
    site.changer.mute = True
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.changes == [change]


@pytest.mark.parametrize(
    ("dies", "left"), [("kill_before", 0), ("kill_after", 0), ("kill_before", 1), ("kill_after", 1)]
)
def test_a_green_side_is_made_once_with_one_budget_wherever_a_worker_dies(site, dies, left):
    action = confirmed(site, "create-green", SERVICE, version="teal", image="repo/llm:2")
    setattr(site.changer, dies, left)
    killed(site, action)
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.changes == ["create Deployment llm-teal", "create PodDisruptionBudget llm-teal"]


def test_an_undo_that_died_after_its_change_knows_it_by_the_template(site):
    done = confirmed(site, "set-image", CHAT, image="repo/llm:2")
    assert ended(site, done)[0] == ActionState.SUCCEEDED
    site.changer.changes.clear()
    action = confirmed(site, "undo", CHAT)
    site.changer.kill_after = 0
    killed(site, action)
    site.changer.pass_time(10.0)  # the old ReplicaSet may have another number by now
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.changes == [f"patch {CHAT}"]
    assert site.changer.read_workload(*CHAT.split("/")).images == {"main": "repo/llm:1"}


@pytest.mark.db
@pytest.mark.parametrize(("kind", "target", "options", "change"), CHANGES)
def test_two_workers_and_a_doubled_message_change_it_once(site, kind, target, options, change):
    """Both have it for a while: the one that slept for too long finds out before its request."""
    action = confirmed(site, kind, target, **options)
    other: list[str] = []
    hear = site.changer._heard

    def meanwhile() -> None:
        if not other:
            other.append("woke")
            Action.objects.filter(pk=action.pk).update(claimed_by="", claim_until=0.0)
            threads = [threading.Thread(target=_run, args=(site, action.pk)) for _ in range(2)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        hear()

    site.changer._heard = meanwhile
    until(site, action)
    assert action.state == ActionState.SUCCEEDED
    assert site.changer.changes == [change]


def _run(site: Site, pk: int) -> None:
    for _ in range(20):
        running.run(site, pk, Once(site), site.now, LEASE_S)
    connections.close_all()


# --- Others, between the confirmation and the change --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "target", "options", "meddle", "why"),
    [
        ("restart", CHAT, {}, lambda c: c.edit_template(CHAT, note="mine"), "changed"),
        ("restart", CHAT, {}, lambda c: c.edit(CHAT, replicas=5), "changed"),
        ("restart", CHAT, {}, lambda c: c.delete(CHAT), "workload-gone"),
        ("restart", CHAT, {}, lambda c: recreate(c, "chat", {"app": "chat"}), "workload-gone"),
        ("scale", CHAT, {"replicas": "3"}, lambda c: c.edit(CHAT, replicas=5), "changed"),
        ("switch", SERVICE, {}, lambda c: c.edit_service(note="mine"), "superseded"),
        ("switch", SERVICE, {}, lambda c: c.edit_service({"app": "llm"}), "superseded"),
        ("switch", SERVICE, {}, lambda c: c.services.pop("llm"), "service-gone"),
        ("switch", SERVICE, {}, lambda c: c.serve("llm", {"app": "llm", "color": "blue"}), "service-gone"),
        ("switch", SERVICE, {}, lambda c: c.delete(GREEN), "workload-gone"),
        ("switch", SERVICE, {}, lambda c: recreate(c, "llm-green", GREEN_SELECTED), "workload-gone"),
        ("switch", SERVICE, {}, lambda c: c.edit_template(GREEN, note="other"), "changed"),
        ("retire", SERVICE, {}, lambda c: c.edit_service(GREEN_SELECTED), "serves-again"),
        ("retire", SERVICE, {}, lambda c: c.serve("grpc", GREEN_SELECTED), "last-one"),
        ("retire", SERVICE, {}, lambda c: c.services.pop("llm"), "service-gone"),
        ("retire", SERVICE, {}, lambda c: c.edit(GREEN, replicas=4), "changed"),
        ("create-green", SERVICE, {"version": "teal"}, lambda c: c.deploy("llm-teal", {"app": "x"}), "exists"),
        ("create-green", SERVICE, {"version": "teal"}, lambda c: c.edit_template(BLUE, note="other"), "changed"),
        ("create-green", SERVICE, {"version": "teal"}, lambda c: c.delete(BLUE), "workload-gone"),
    ],
)
def test_what_others_have_changed_meanwhile_is_left_alone(site, kind, target, options, meddle, why):
    action = confirmed(site, kind, target, **options)
    meddle(site.changer)
    assert ended(site, action) == (ActionState.FAILED, why)
    assert site.changer.changes == []


def recreate(cluster: SmallReleases, name: str, labels: dict[str, str]) -> None:
    """Another one of that name."""
    cluster.delete(f"Deployment/lab/{name}")
    cluster.deploy(name, labels)
    cluster.settle()


def test_a_budget_of_that_name_over_other_pods_is_left_alone(site):
    action = confirmed(site, "create-green", SERVICE, version="teal")
    site.changer.budgets["llm-teal"] = {
        "metadata": {"name": "llm-teal", "namespace": "lab"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "other"}}},
    }
    assert ended(site, action) == (ActionState.FAILED, "exists")
    assert site.changer.changes == ["create Deployment llm-teal"]


# --- Others, after the change -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "meddle"),
    [
        ("restart", {}, lambda c: c.edit_template(CHAT, note="mine")),
        ("set-image", {"image": "repo/llm:2"}, lambda c: c.edit_template(CHAT, note="mine")),
        ("scale", {"replicas": "3"}, lambda c: c.edit(CHAT, replicas=1)),
    ],
)
def test_a_rollout_that_others_have_overtaken_is_not_called_ours(site, kind, options, meddle):
    action = confirmed(site, kind, CHAT, **options)
    until(site, action, StepKind.CHANGE)
    meddle(site.changer)
    assert ended(site, action) == (ActionState.FAILED, "overtaken")


def test_another_deployment_of_that_name_is_not_the_copy_that_was_made(site):
    action = confirmed(site, "create-green", SERVICE, version="teal")
    until(site, action, StepKind.BUDGET)
    recreate(site.changer, "llm-teal", {"app": "llm", "color": "teal"})
    assert ended(site, action) == (ActionState.FAILED, "workload-gone")


def test_a_selector_that_was_taken_back_after_the_switch_is_told_as_that(site):
    action = confirmed(site, "switch", SERVICE)
    site.changer.stale_slices = True  # no proof yet
    until(site, action, StepKind.SWITCH)
    site.changer.edit_service({"app": "llm", "color": "blue"})
    assert ended(site, action) == (ActionState.FAILED, "overwritten")


def test_a_worker_that_takes_over_tells_its_switch_from_somebody_elses(site):
    action = confirmed(site, "switch", SERVICE)
    site.changer.kill_after = 0
    killed(site, action)
    site.changer.edit_service({"app": "llm", "color": "blue"})
    assert ended(site, action) == (ActionState.FAILED, "overwritten")


def test_a_switch_whose_first_request_comes_through_late_is_no_lost_race(site):
    """Nobody answered; the second request then finds the version that the first one has made."""
    action, select = confirmed(site, "switch", SERVICE), site.changer.select
    read = site.changer.read_selected

    def late(namespace: str, wanted: dict[str, str]) -> object:
        """Between our look at the Service and our request."""
        if action.steps.get(kind=StepKind.SWITCH).state != StepState.TODO and not site.changer.changes:
            service = site.changer.read_service("lab", "llm")
            note = switching.note(service.spec.selector, wanted, START, action.name)
            select(service, GREEN_SELECTED, note)
        return read(namespace, wanted)

    site.changer.read_selected = late
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert len(site.changer.changes) == 1


def test_what_is_retired_has_no_pod_left_when_that_is_said(site):
    action = confirmed(site, "retire", SERVICE)
    until(site, action, StepKind.ROLLOUT, StepState.WAITING)
    site.changer.pass_time(1.0)
    one_pass(site, action)
    assert action.steps.get(kind=StepKind.ROLLOUT).evidence["leaving"] == 2, "kubectl would call it done by now"
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.read_selected("lab", GREEN_SELECTED) == ()


def test_a_paused_one_is_scaled_all_the_same(site):
    site.changer.edit(CHAT, paused=True)
    action = confirmed(site, "scale", CHAT, replicas="3")
    assert ended(site, action) == (ActionState.SUCCEEDED, "")


@pytest.mark.db
def test_the_moment_of_a_restart_is_written_only_by_whoever_has_the_action(site):
    """One that has slept would else change the mark by which the other one knows its own restart."""
    action = confirmed(site, "restart", CHAT)
    change = site.changer.change_workload

    def dies(*_: object, **__: object) -> None:
        raise Killed

    site.changer.change_workload = dies
    killed(site, action)
    site.changer.change_workload = change
    step = ActionStep.objects.get(action=action, kind=StepKind.CHANGE)
    at, step.evidence = step.evidence["at"], {}
    site.changer.pass_time(30.0)
    lost = running.Claim(action.pk, "somebody who slept", LEASE_S, site.now)
    with pytest.raises(running.LostClaimError):
        running.PERFORM[StepKind.CHANGE](running.Work(site, action, step, lost, site.now, threading.Event()))
    assert ActionStep.objects.get(pk=step.pk).evidence["at"] == at


# --- The switch ---------------------------------------------------------------------------------------------------------------


def waived(site: Site, action: Action) -> Action:
    return agree(site, action, ADA, {check.key: "tested" for check in act.plan_of(action).blocks})


def test_so_many_ready_pods_as_were_accepted_are_accepted(site):
    """Three of four were shown when somebody lifted that; one of four is another matter."""
    for left, end in ((3, (ActionState.SUCCEEDED, "")), (1, (ActionState.FAILED, "not-ready"))):
        fresh = Site()
        fresh.changer.edit(GREEN, replicas=4)
        fresh.changer.settle()
        fresh.changer.stop_being_ready("llm-green")
        action = waived(fresh, planned(fresh, "switch", SERVICE))
        for _ in range(3 - left):
            fresh.changer.stop_being_ready("llm-green")
        assert ended(fresh, action) == end


def test_a_stray_pod_that_is_not_ready_holds_up_no_way_back_that_was_accepted(site):
    done = confirmed(site, "switch", SERVICE)
    assert ended(site, done)[0] == ActionState.SUCCEEDED
    site.changer.stray("old", {"app": "llm", "color": "blue"}, ready=False)
    action = planned(site, "way-back", SERVICE)
    assert [(c.reason, c.waivable_by) for c in act.plan_of(action).blocks] == [("fewer", "operator")]
    agree(site, action, waivers={c.key: "green is broken" for c in act.plan_of(action).blocks})
    assert ended(site, action) == (ActionState.SUCCEEDED, "")


@pytest.mark.parametrize(
    "was",
    [
        {"color": "blue", "app": "llm"},
        {"app": "llm", "color": "blue", "zz.example/extra": "yes", "a": ""},
    ],
)
def test_the_way_back_restores_the_very_selector(site, was):
    for key in (BLUE, GREEN):
        site.changer.delete(key)
    extra = {name: value for name, value in was.items() if name not in {"app", "color"}}
    for colour in ("blue", "green"):
        site.changer.deploy(f"llm-{colour}", {"app": "llm", "color": colour, "own": colour, **extra})
    site.changer.settle()
    site.changer.edit_service(was)
    assert ended(site, confirmed(site, "switch", SERVICE))[0] == ActionState.SUCCEEDED
    assert selector(site) == {**was, "color": "green"}
    site.changer.edit_service(**{"team.example/note": "labels and notes are no selector"})
    assert ended(site, confirmed(site, "way-back", SERVICE))[0] == ActionState.SUCCEEDED
    assert selector(site) == was


def reasons(action: Action) -> set[tuple[str, str]]:
    return {(check.guard, check.reason) for check in act.plan_of(action).blocks}


def test_a_way_back_leads_to_no_second_one(site):
    """Pressed twice it would send the requests to the side from which somebody has just saved them."""
    assert ended(site, confirmed(site, "switch", SERVICE))[0] == ActionState.SUCCEEDED
    site.changer.pass_time(1.0)
    first, second = planned(site, "way-back", SERVICE), planned(site, "way-back", SERVICE)
    agree(site, first)
    assert ended(site, first)[0] == ActionState.SUCCEEDED
    with pytest.raises(Refused) as refused:
        agree(site, second)
    assert (refused.value.why, refused.value.facts) == ("superseded", {"by": first.name})
    assert reasons(planned(site, "way-back", SERVICE)) == {("sides", "no-way-back")}
    assert selector(site)["color"] == "blue"


def test_a_selector_that_somebody_has_written_since_is_not_taken_back(site):
    assert ended(site, confirmed(site, "switch", SERVICE))[0] == ActionState.SUCCEEDED
    action = planned(site, "way-back", SERVICE)
    site.changer.edit_service({"app": "llm", "color": "green", "canary": "no"})
    with pytest.raises(Refused) as refused:
        agree(site, action)
    assert refused.value.why == "superseded"
    assert reasons(planned(site, "way-back", SERVICE)) == {("sides", "no-way-back")}
