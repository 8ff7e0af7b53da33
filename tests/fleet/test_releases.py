"""Actions on workloads and Services against the rehearsal over HTTP: propose, confirm, run, and what the ledger tells of them."""

import threading

import pytest
from django.db import connections

from fleet import act
from fleet.act import Refused, audit
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain import revisions, switching
from fleet.domain.plans import ActionState, StepKind, StepState
from fleet.domain.pods import is_ready
from fleet.domain.policies import BlueGreen, Policy, policy
from fleet.models import Action, AuditEntry
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.scenarios.stage import State
from tests.fleet.clusters import wait_for
from tests.fleet.test_act import ADA, OLGA, Lab, through
from tests.fleet.test_cluster_workloads import write

pytestmark = [pytest.mark.django_db(transaction=True)]

SEARCH = "Service/serving/search"
BLUE, GREEN = "Deployment/serving/search-blue", "Deployment/serving/search-green"
CHAT = "Deployment/inference/llm-chat"


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(clock=RealClock(20.0), pace=0)) as found:
        found.run(found.stage.start("blue-green"))
        wait_for(lambda: found.stage.performance("blue-green").state is State.STANDING, 60)
        yield found


@pytest.fixture
def site(cluster):
    connection = KubernetesCluster("rehearsal", str(cluster.kubeconfig))
    yield Lab(KubernetesChanges(connection.server), policy=Policy(blue_green=BlueGreen(keep_s=0.0)))
    connection.close()


def proposed(site: Lab, kind: str, target: str, **options: str) -> Action:
    return act.propose(
        site, kind, target, "because", OLGA, options={n.replace("_", "-"): v for n, v in options.items()}
    )


def done(site: Lab, kind: str, target: str, **options: str) -> Action:
    action = proposed(site, kind, target, **options)
    blocks = act.plan_of(action).blocks
    assert not blocks, blocks
    act.confirm(site, action, action.digest, target.rpartition("/")[2], {}, OLGA)
    ended = through(site, action)
    assert ended.state == ActionState.SUCCEEDED, (ended.outcome, [(s.kind, s.evidence) for s in ended.steps.all()])
    return ended


def reasons(action: Action) -> set[tuple[str, str]]:
    return {(check.guard, check.reason) for check in act.plan_of(action).blocks}


def selector(site: Lab) -> dict[str, str]:
    return dict(site.changer.read_service("serving", "search").spec.selector)


def colours(site: Lab) -> list[str]:
    by_uid = {
        pod.metadata.uid: pod.metadata.labels.get("colour", "") for pod in site.changer.read_pods(namespace="serving")
    }
    return sorted(by_uid[uid] for uid in switching.served(site.changer.read_slices("serving", "search")).ready)


def told(action: Action) -> list[str]:
    return list(AuditEntry.objects.filter(action=action.pk).order_by("number").values_list("what", flat=True))


def workload(site: Lab, key: str) -> revisions.Workload:
    return site.changer.read_workload(*key.split("/"))


def test_a_switch_tests_writes_and_proves_and_the_way_back_restores_the_exact_selector(site):
    was = selector(site)
    action = done(site, "switch", SEARCH)
    plan = act.plan_of(action)
    facts = dict(plan.steps[1].facts)
    assert (facts["before"], facts["after"]) == ("search-blue 2", "search-green 2")
    assert [(s.kind, s.state) for s in action.steps.all()] == [
        (StepKind.SMOKE, StepState.DONE),
        (StepKind.SWITCH, StepState.DONE),
        (StepKind.ENDPOINTS, StepState.DONE),
    ]
    assert action.steps.get(kind=StepKind.SMOKE).evidence["passed"] == 2
    assert action.steps.get(kind=StepKind.ENDPOINTS).evidence == {"right": 2, "wrong": 0}
    assert colours(site) == ["green", "green"]
    assert switching.way_back(site.changer.read_service("serving", "search")).action == action.name
    assert "resourceVersion" in plan.kubectl[0]
    back = done(site, "way-back", SEARCH)
    assert selector(site) == was
    assert colours(site) == ["blue", "blue"]
    assert told(back)[:3] == ["proposed", "confirmed", "began"]
    assert audit.verify().broken is None


@pytest.mark.db
def test_two_operators_press_switch_within_a_second(site):
    first, second = proposed(site, "switch", SEARCH), proposed(site, "switch", SEARCH)
    start, ends = threading.Barrier(2), {}

    def press(action: Action, actor: act.Actor) -> None:
        start.wait()
        try:
            ends[action.pk] = act.confirm(site, action, action.digest, "search", {}, actor).state
        except Refused as refused:
            ends[action.pk] = refused.why
        finally:
            connections.close_all()

    both = [threading.Thread(target=press, args=pair) for pair in ((first, OLGA), (second, ADA))]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(ends.values()) == [ActionState.CONFIRMED, "superseded"]
    winner, loser = sorted((first, second), key=lambda action: ends[action.pk] == "superseded")
    through(site, winner)
    winner.refresh_from_db()
    loser.refresh_from_db()
    assert (winner.state, loser.state) == (ActionState.SUCCEEDED, ActionState.REFUSED)
    assert loser.outcome == {"why": "superseded", "by": winner.name}
    assert [what for action in (winner, loser) for what in told(action) if what in {"succeeded", "superseded"}] == [
        "succeeded",
        "superseded",
    ]
    done(site, "way-back", SEARCH)


def test_a_plan_for_another_version_of_the_service_is_void(site):
    action = proposed(site, "switch", SEARCH)
    service = site.changer.read_service("serving", "search")
    site.changer.select(service, service.spec.selector, {"team.example/note": "edited"})
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, "search", {}, OLGA)
    assert (refused.value.why, refused.value.facts) == ("superseded", {"by": ""})
    late = proposed(site, "switch", SEARCH)
    act.confirm(site, late, late.digest, "search", {}, OLGA)
    site.changer.select(
        site.changer.read_service("serving", "search"), service.spec.selector, {"team.example/note": None}
    )
    ended = through(site, late)
    assert (ended.state, ended.outcome["why"]) == (ActionState.FAILED, "superseded")
    assert colours(site) == ["blue", "blue"]


def test_a_green_pod_that_loses_ready_between_preview_and_click_is_refused(cluster, site):
    action = proposed(site, "switch", SEARCH)
    late = proposed(site, "switch", SEARCH)
    act.confirm(site, late, late.digest, "search", {}, OLGA)
    name = next(pod.metadata.name for pod in of(site, "green"))
    hang(cluster, site, name, "0.1", ready=1)
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, "search", {}, OLGA)
    assert refused.value.why == "superseded"  # the other one is about to switch
    ended = through(site, late)
    assert (ended.state, ended.outcome["why"]) == (ActionState.FAILED, "not-ready")
    # Somebody who may lift it says so, and that is written down.
    again = proposed(site, "switch", SEARCH)
    assert reasons(again) == {("sides", "fewer")}
    waivers = {check.key: "blue is broken" for check in act.plan_of(again).blocks}
    for given, actor in ((waivers, OLGA), ({}, ADA)):
        with pytest.raises(Refused) as refused:
            act.confirm(site, again, again.digest, "search", given, actor)
        assert [(check.guard, check.reason) for check in refused.value.checks] == [("sides", "fewer")]
    act.confirm(site, again, again.digest, "search", waivers, ADA)
    assert through(site, again).state == ActionState.SUCCEEDED
    assert colours(site) == ["green"]
    done(site, "way-back", SEARCH)
    hang(cluster, site, name, None, ready=2)


def of(site: Lab, colour: str) -> list:
    return [pod for pod in site.changer.read_pods(namespace="serving") if pod.metadata.labels.get("colour") == colour]


def hang(cluster, site: Lab, name: str, after_s: str | None, ready: int) -> None:
    """A pod answers no probe any more, or does again."""
    hand = cluster.stage.performance("blue-green").scene.hand("team")
    change = {"metadata": {"annotations": {"sim/hang-seconds": after_s}}}
    cluster.run(hand.patch("pods", "serving", name, change))
    wait_for(lambda: sum(map(is_ready, of(site, "green"))) == ready, 20)


def test_a_release_that_answers_wrongly_is_not_switched_to(site):
    wrong = '{"path": "/version", "json": "version", "equals": "3.0"}'
    action = proposed(site, "switch", SEARCH, smoke=wrong)
    found = [check for check in act.plan_of(action).blocks if check.guard == "smoke"]
    assert [(check.reason, dict(check.evidence)["found"], check.waivable_by) for check in found] == [
        ("value", '"2.9"', "approver")
    ] * 2
    assert reasons(proposed(site, "switch", SEARCH, smoke='{"path": "/../x"}')) == {("smoke", "unacceptable")}


def test_the_old_side_is_retired_and_the_way_back_then_asks_for_scale(site):
    site.policy = Policy(blue_green=BlueGreen(keep_s=3600.0))
    assert ("spare", "serves") in reasons(proposed(site, "retire", SEARCH, side="search-blue"))
    done(site, "switch", SEARCH)
    assert reasons(proposed(site, "retire", SEARCH)) == {("spare", "too-early")}
    site.policy = Policy(blue_green=BlueGreen(keep_s=0.0))
    retired = done(site, "retire", SEARCH)
    assert (retired.steps.first().facts["was"], retired.steps.first().subject) == (2, BLUE)
    assert [pod.owner_name for pod in act.plan_of(retired).loss.pods] == ["search-blue"] * 2
    assert workload(site, BLUE).replicas == 0
    assert reasons(proposed(site, "way-back", SEARCH)) == {("sides", "empty")}
    done(site, "scale", BLUE, replicas="2")
    done(site, "way-back", SEARCH)
    assert colours(site) == ["blue", "blue"]


def test_a_green_side_is_made_of_blue_with_its_own_budget(site):
    action = done(site, "create-green", SEARCH, version="teal", image="par-prod/search-server:3.0")
    made = workload(site, "Deployment/serving/search-teal")
    assert [(s.kind, s.state) for s in action.steps.all()] == [
        (StepKind.CREATE, StepState.DONE),
        (StepKind.BUDGET, StepState.DONE),
        (StepKind.ROLLOUT, StepState.DONE),
    ]
    assert (made.images, made.replicas) == ({"server": "par-prod/search-server:3.0"}, 2)
    budgets = [budget.metadata.name for budget in site.changer.read_budgets(namespace="serving")]
    assert "search-teal" in budgets
    assert ("change", "exists") in reasons(proposed(site, "create-green", SEARCH, version="teal"))
    assert ("sides", "which") in reasons(proposed(site, "switch", SEARCH))  # two sides are idle now
    done(site, "switch", SEARCH, side="search-teal")
    assert colours(site) == ["teal", "teal"]
    done(site, "way-back", SEARCH)


def test_a_restart_an_undo_and_an_image_roll_to_their_end(site):
    before = workload(site, CHAT)
    action = done(site, "set-image", GREEN, image="par-prod/search-server:2.10")
    plan = act.plan_of(action)
    assert [(d.path, d.after) for d in plan.differences] == [
        ("containers[server].image", "par-prod/search-server:2.10")
    ]
    assert plan.kubectl[0] == "kubectl -n serving set image deployment/search-green server=par-prod/search-server:2.10"
    undone = done(site, "undo", GREEN)
    assert workload(site, GREEN).images == {"server": "par-prod/search-server:2.9"}
    assert dict(act.plan_of(undone).steps[0].facts)["revision"] == 1
    restarted = done(site, "restart", GREEN)
    assert revisions.RESTARTED in workload(site, GREEN).template["metadata"]["annotations"]
    assert restarted.steps.get(kind=StepKind.ROLLOUT).evidence["have"] == 2
    assert workload(site, CHAT).generation == before.generation


def test_what_a_paused_one_refuses(site):
    done(site, "pause", GREEN)
    assert reasons(proposed(site, "restart", GREEN)) == {("change", "paused")}
    assert reasons(proposed(site, "undo", GREEN)) == {("change", "paused")}
    assert reasons(proposed(site, "pause", GREEN)) == {("change", "paused-already")}
    held = done(site, "set-image", GREEN, image="par-prod/search-server:2.9.1")
    assert [s.kind for s in held.steps.all()] == [StepKind.CHANGE]
    done(site, "resume", GREEN)
    assert not workload(site, GREEN).paused


def test_a_spec_that_has_changed_since_it_was_shown_is_not_written_over(site):
    shown = proposed(site, "restart", GREEN)
    late = proposed(site, "restart", GREEN)
    act.confirm(site, late, late.digest, "search-green", {}, OLGA)
    write(site.changer, GREEN.split("/"), lambda found: revisions.scale(found, 3))
    with pytest.raises(Refused) as refused:
        act.confirm(site, shown, shown.digest, "search-green", {}, OLGA)
    assert refused.value.why == "blocked"  # the other restart is under way
    ended = through(site, late)
    assert (ended.state, ended.outcome["why"]) == (ActionState.FAILED, "changed")
    with pytest.raises(Refused) as refused:
        act.confirm(site, shown, shown.digest, "search-green", {}, OLGA)
    assert refused.value.why == "changed"


@pytest.mark.parametrize(
    ("kind", "target", "options", "reason"),
    [
        ("restart", "node-01", {}, ("subject-known", "malformed")),
        ("restart", "Deployment/inference/nobody", {}, ("subject-known", "no-workload")),
        ("switch", "Service/inference/nobody", {}, ("subject-known", "no-service")),
        ("switch", "Service/inference/llm-chat", {}, ("subject-known", "no-pair")),
        ("scale", CHAT, {"replicas": "many"}, ("change", "replicas")),
        ("scale", CHAT, {"replicas": "400"}, ("room", "no-place")),
        ("undo", CHAT, {"revision": "77"}, ("change", "no-revision")),
        ("set-image", CHAT, {"image": "a b"}, ("change", "image")),
    ],
)
def test_what_stands_against_a_release(site, kind, target, options, reason):
    action = proposed(site, kind, target, **options)
    assert reason in reasons(action)
    with pytest.raises(Refused):
        act.confirm(site, action, action.digest, target.rpartition("/")[2], {}, ADA)


def test_an_option_that_a_kind_does_not_have_is_refused(site):
    with pytest.raises(Refused) as refused:
        proposed(site, "restart", CHAT, replicas="3")
    assert refused.value.why == "no-option"


def test_a_viewer_a_frozen_site_and_a_cluster_that_is_closed(site):
    closed = Lab(site.changer, actions=False, policy=site.policy)
    assert ("cluster-open", "read-only") in reasons(proposed(closed, "restart", CHAT))
    frozen = policy("[[freeze]]\nfrom = 2020-01-01T00:00:00Z\nto = 2099-01-01T00:00:00Z\n")
    lab = Lab(site.changer, policy=frozen)
    assert ("freeze", "frozen") in reasons(proposed(lab, "restart", CHAT))
    assert ("freeze", "frozen") not in reasons(proposed(lab, "pause", CHAT))
    seen = act.propose(site, "restart", CHAT, "because", act.Actor("vera", "viewer"))
    assert ("role", "viewer") in reasons(seen)


def test_training_that_would_lose_work_blocks_a_restart(site):
    sets = [c for c in site.changer.read_controllers() if type(c).__name__ == "StatefulSet"]
    name = next(c.key for c in sets if c.metadata.namespace == "training")
    plan = act.plan_of(proposed(site, "restart", f"StatefulSet/{name}"))
    assert any(check.guard == "checkpoint" for check in plan.blocks)
    assert plan.loss.pods
    assert {step.kind for step in plan.steps} == {StepKind.CHANGE, StepKind.ROLLOUT}
