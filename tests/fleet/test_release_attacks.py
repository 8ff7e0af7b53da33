"""Releases under attack: two hands at once, options and names that make no sense, tests that lead elsewhere, roles."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from fleet import act
from fleet.act import Actor, Refused
from fleet.domain import switching
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Subject
from fleet.domain.plans import ActionState, Outcome, StepKind
from fleet.domain.policies import BlueGreen, Policy
from fleet.domain.smoke import Answer
from fleet.models import Action, AuditEntry
from tests.fleet.small_releases import BLUE, CHAT, GREEN, NAMESPACE, SERVICE
from tests.fleet.test_release_crashes import (
    ADA,
    GREEN_SELECTED,
    OLGA,
    Site,
    agree,
    confirmed,
    ended,
    planned,
    reasons,
    selector,
    waived,
)  # fmt: skip

pytestmark = [pytest.mark.django_db(transaction=True)]

BOB = Actor("bob", "approver")
CHOSEN = {"set-image": {"image": "repo/llm:2"}, "scale": {"replicas": "3"}, "create-green": {"version": "teal"}}
RELEASES = sorted(kind for kind, one in ACTIONS.items() if one.subject is not Subject.NODE)


@pytest.fixture
def site() -> Site:
    return Site()


def ready(site: Site, kind: str, policy: Policy | None = None, actor: Actor = OLGA) -> Action:
    """A proposal of `kind` that nothing but the policy stands against."""
    if kind == "resume":
        site.changer.edit(CHAT, paused=True)
    if kind == "undo":
        site.changer.edit_template(CHAT, note="new")
        site.changer.settle()
    if kind == "way-back":
        assert ended(site, confirmed(site, "switch", SERVICE))[0] == ActionState.SUCCEEDED
        site.changer.changes.clear()
        site.changer.pass_time(1.0)
    site.policy = policy or site.policy
    target = SERVICE if ACTIONS[kind].subject is Subject.SERVICE else CHAT
    return planned(site, kind, target, actor, **CHOSEN.get(kind, {}))


def refused(what: Any) -> str:
    with pytest.raises(Refused) as found:
        what()
    return str(found.value.why)


# --- Who --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", RELEASES)
def test_a_viewer_changes_nothing_and_a_second_person_is_another_one(site, kind):
    seen = ready(site, kind, actor=Actor("vera", "viewer"))
    assert ("role", "viewer") in reasons(seen)
    for who in (Actor("vera", "viewer"), Actor("vera", "operator")):
        if who.role == "viewer":
            assert refused(lambda who=who: agree(site, seen, who)) == "blocked"
    action = ready(Site(), kind)
    assert not action.needs_second
    fresh = Site()
    action = ready(fresh, kind, Policy(four_eyes=(kind,), blue_green=BlueGreen(keep_s=0.0)))
    assert agree(fresh, action).state == ActionState.PROPOSED
    assert fresh.changer.changes == []
    for who, why in (
        (OLGA, "not-approver"),
        (Actor("olga", "approver"), "same-person"),
        (Actor("root", "approver", "console"), "console"),
    ):
        approve = lambda who=who: act.approve(fresh, action, action.digest, "looked", who, fresh.now)  # noqa: E731
        assert refused(approve) == why
    assert act.approve(fresh, action, action.digest, "looked", ADA, fresh.now).state == ActionState.CONFIRMED
    assert ended(fresh, action) == (ActionState.SUCCEEDED, "")
    assert len(fresh.changer.changes) == (2 if kind == "create-green" else 1)


@pytest.mark.db
@pytest.mark.parametrize("kind", ["create-green", "restart", "switch"])
def test_two_clicks_on_one_plan_are_one(site, kind):
    action, ends = ready(site, kind), list[str]()
    start = threading.Barrier(2)

    def press(actor: Actor) -> None:
        start.wait()
        try:
            ends.append(agree(site, Action.objects.get(pk=action.pk), actor).state)
        except Refused as found:
            ends.append(found.why)
        finally:
            connections.close_all()

    both = [threading.Thread(target=press, args=(one,)) for one in (OLGA, ADA)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert min(ends) == ActionState.CONFIRMED
    assert ends[0] != ends[1]
    assert ended(site, Action.objects.get(pk=action.pk)) == (ActionState.SUCCEEDED, "")
    assert len(site.changer.changes) == (2 if kind == "create-green" else 1)
    told = list(AuditEntry.objects.filter(action=action.pk).values_list("what", flat=True))
    assert (told.count("confirmed"), told.count("succeeded")) == (1, 1)


def test_two_who_make_the_same_side_make_one(site):
    first, second = (planned(site, "create-green", SERVICE, version="teal") for _ in range(2))
    agree(site, first)
    assert refused(lambda: agree(site, second)) == "superseded"
    second.refresh_from_db()
    assert (second.state, second.outcome) == (ActionState.REFUSED, {"why": "superseded", "by": first.name})
    assert ended(site, first) == (ActionState.SUCCEEDED, "")
    assert ("change", "exists") in reasons(planned(site, "create-green", SERVICE, version="teal"))


# --- What -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("restart", {"replicas": "0"}, "no-option"),
        ("restart", {"save": "later"}, "no-option"),
        ("pause", {"save": "first"}, "no-option"),
        ("scale", {"Replicas": "3"}, "no-option"),
        ("set-image", {"image": "a" * 901}, "long-option"),
    ],
)
def test_options_that_nobody_offers_are_no_options(site, kind, options, why):
    assert refused(lambda: act.propose(site, kind, CHAT, "because", OLGA, site.now, options)) == why


def test_a_name_that_is_too_long_is_not_cut_to_that_of_another(site):
    long = f"{CHAT}{'t' * 300}"
    assert refused(lambda: planned(site, "restart", long)) == "long-option"


@pytest.mark.parametrize(
    "target",
    ["Deployment/lab/.", "Deployment/lab/..", "Deployment/../chat", "Deployment/lab/chat/scale", "Deployment/lab/Chat",
     "Deployment/lab/chat%2Fscale", "Deployment/lab/chat?x", "Deployment/lab/", "Secret/lab/chat", "Service/lab/llm"],
)  # fmt: skip
def test_a_target_that_is_no_workload_is_asked_for_nowhere(site, target):
    site.changer.read_workload = lambda *_: pytest.fail("it was asked for")
    assert reasons(planned(site, "restart", target)) == {("subject-known", "malformed")}


def test_what_is_scaled_to_nothing_while_a_service_needs_it(site):
    action = planned(site, "scale", CHAT, replicas="0")
    assert [(c.reason, c.waivable_by) for c in act.plan_of(action).blocks] == [("none-left", "approver")]
    assert refused(lambda: agree(site, action, OLGA, {c.key: "x" for c in act.plan_of(action).blocks})) == "blocked"
    waived(site, action)
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert site.changer.read_selected(NAMESPACE, {"app": "chat"}) == ()


def test_one_more_service_that_would_lose_all_was_not_accepted(site):
    action = waived(site, planned(site, "scale", CHAT, replicas="0"))
    site.changer.serve("grpc", {"app": "chat"})
    assert ended(site, action) == (ActionState.FAILED, "last-one")
    assert site.changer.changes == []


def test_an_autoscaler_sets_its_scale(site):
    aim = {"kind": "Deployment", "name": "chat"}
    site.changer.scalers = [{"metadata": {"name": "hpa"}, "spec": {"scaleTargetRef": aim}}]
    assert reasons(planned(site, "scale", CHAT, replicas="3")) == {("scaler", "autoscaled")}
    found = act.plan_of(planned(site, "scale", CHAT, replicas="0")).checks
    assert ("scaler", Outcome.WARN, "disabled") in {(c.guard, c.outcome, c.reason) for c in found}
    site.changer.denied = frozenset({"horizontalpodautoscalers"})
    assert reasons(planned(site, "scale", CHAT, replicas="3")) == set()


def test_what_is_being_deleted_is_left_alone(site):
    action = confirmed(site, "restart", CHAT)
    gone = planned(site, "switch", SERVICE)
    for found in (site.changer.workloads[CHAT], site.changer.services["llm"]):
        found["metadata"]["deletionTimestamp"] = datetime.fromtimestamp(site.now(), UTC).isoformat()
    assert ("subject-known", "going") in reasons(planned(site, "restart", CHAT))
    assert refused(lambda: agree(site, gone)) == "blocked"
    assert ended(site, action) == (ActionState.FAILED, "workload-gone")


# --- Where to ---------------------------------------------------------------------------------------------------------
def test_a_green_pod_that_loses_ready_after_the_preview_is_refused(site):
    action = planned(site, "switch", SERVICE)
    site.changer.stop_being_ready("llm-green")
    assert refused(lambda: agree(site, action)) == "blocked"
    late = Site()
    action = confirmed(late, "switch", SERVICE)
    ask = late.changer.ask_pod

    def answers_its_last(*asked: Any) -> Answer:
        late.changer.stop_being_ready("llm-green")
        return ask(*asked)

    late.changer.ask_pod = answers_its_last
    assert ended(late, action) == (ActionState.FAILED, "not-ready")
    assert (selector(site)["color"], late.changer.changes) == ("blue", [])


def test_a_way_back_to_what_is_gone_or_serves_nobody(site):
    assert ended(site, confirmed(site, "switch", SERVICE))[0] == ActionState.SUCCEEDED
    assert ended(site, confirmed(site, "retire", SERVICE))[0] == ActionState.SUCCEEDED
    assert reasons(planned(site, "way-back", SERVICE)) == {("sides", "empty")}
    site.changer.delete(BLUE)
    assert reasons(planned(site, "way-back", SERVICE)) == {("sides", "alone")}
    assert selector(site) == GREEN_SELECTED


NOTES = ["", "[]", '{"was": 3}', '{"was": {}, "now": {"app": "llm", "color": "blue"}, "at": 1}', "x" * 9000]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_says_nothing_is_no_way_back(site, note):
    site.changer.edit_service(**{switching.WAY_BACK: note})
    assert reasons(planned(site, "way-back", SERVICE)) == {("sides", "no-way-back")}


def test_a_note_that_leads_to_other_pods_is_no_way_back(site):
    """Whoever may write annotations may not write selectors by them."""
    site.changer.stray("evil-0", {"app": "evil"})
    forged = switching.note({"app": "evil"}, selector(site), site.now() - 5, "M-0001")
    site.changer.edit_service(**forged)
    found = act.plan_of(planned(site, "way-back", SERVICE)).blocks
    assert {(c.guard, c.waivable_by) for c in found} == {("sides", "")}


# --- The smoke test ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(302, b""), "status"),
        (Answer(200, b"x" * (1024 * 1024 + 1)), "too-long"),
        (Answer(None, trouble="too-long"), "too-long"),
        (Answer(None, trouble="silent"), "silent"),
        (Answer(200, b"ok", latency_s=2.5), "slow"),
    ],
)
def test_an_answer_that_proves_nothing_is_not_switched_to(site, answer, reason):
    name = next(name for name in site.changer.pods if name.startswith("llm-green"))
    site.changer.answers[name] = answer
    found = act.plan_of(planned(site, "switch", SERVICE)).blocks
    assert [(c.guard, c.reason, c.subject) for c in found] == [("smoke", reason, f"lab/{name}")]


def test_a_side_that_answers_wrongly_between_the_plan_and_the_switch_gets_no_request(site):
    action = confirmed(site, "switch", SERVICE)
    for name in site.changer.pods:
        site.changer.answers[name] = Answer(500, b"broken")
    assert ended(site, action) == (ActionState.FAILED, "smoke-failed")
    assert action.steps.get(kind=StepKind.SMOKE).evidence["passed"] == 0
    assert site.changer.changes == []


@pytest.mark.parametrize(
    "path", ["//../x", "/%2e%2e/x", "/a\\..\\b", "http://10.0.0.1/", "/a%0d%0ab", "/a b", "/" + "a" * 1024]
)
def test_a_path_that_leads_elsewhere_is_asked_of_nobody(site, path):
    site.changer.edit_service(**{"vigie.dev/smoke-test": f'{{"path": "{path}"}}'.replace("\\", "\\\\")})
    assert reasons(planned(site, "switch", SERVICE)) == {("smoke", "unacceptable")}
    assert site.changer.asked == []


def test_a_pod_on_its_nodes_network_is_asked_only_what_it_declares(site):
    """Its other ports are those of the node: a kubelet, etcd."""
    template = site.changer.workloads[GREEN]["spec"]["template"]
    template["spec"]["hostNetwork"] = True
    template["spec"]["containers"][0]["ports"] = [{"containerPort": 8000}]
    site.changer.edit(GREEN, template=template)
    for pod in list(site.changer.pods.values()):
        if pod["metadata"]["name"].startswith("llm-green"):
            pod["spec"] |= template["spec"]
    good, bad = (f'{{"path": "/", "port": {port}}}' for port in (8000, 10250))
    assert reasons(planned(site, "switch", SERVICE, smoke=bad)) == {("smoke", "no-port")}
    assert site.changer.asked == []
    assert reasons(planned(site, "switch", SERVICE, smoke=good)) == set()


def test_another_test_than_was_shown_is_another_plan(site):
    action = planned(site, "switch", SERVICE)
    site.changer.edit_service(**{"vigie.dev/smoke-test": '{"path": "/", "status": 200}'})
    assert refused(lambda: agree(site, action)) == "superseded"
