"""The pages about actions against a running rehearsal: what a form does, what a page shows, and who may press what."""

import csv
import io
import json
import re
import time

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from dashboard import accounts
from dashboard.access import Role
from fleet import act, wiring
from fleet.act import Actor, audit, histories, running
from fleet.domain.plans import ENDED, ActionState
from fleet.models import Action, AuditEntry, AuditHead
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.dashboard.pictures import well_read

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

HERE = "/c/rehearsal/"
SPEED = 10.0  # servers of models need a minute to come up again


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(nodes=24, clock=RealClock(SPEED), pace=0)) as found:
        yield found


@pytest.fixture
def site(cluster, settings):
    settings.VIGIE_KUBECONFIG = str(cluster.kubeconfig)
    settings.VIGIE_CONTEXTS = ()
    settings.VIGIE_ACTIONS = frozenset({"rehearsal"})
    wiring.site.cache_clear()
    found = wiring.site("rehearsal")
    with well_read("rehearsal", [node.metadata.name for node in found.changer.read_nodes()]):
        yield found
    wiring.site("rehearsal").cluster.close()
    wiring.site.cache_clear()


@pytest.fixture
def four_eyes(site, settings, tmp_path):
    """A policy that asks for a second person for cordons."""
    path = tmp_path / "policies.toml"
    path.write_text('four_eyes = ["cordon"]\n')
    settings.VIGIE_POLICIES = str(path)
    for known in (wiring.policies, wiring.site):
        known.cache_clear()
    yield
    wiring.policies.cache_clear()


def propose(browser: Client, kind: str, node: str, reason: str = "row remap"):
    return browser.post(f"{HERE}nodes/{node}/do/{kind}/", {"reason": reason}, follow=True)


def through(site, action: Action, within_s: float = 90.0) -> Action:
    """Run an action to its end, as the worker would."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        due_at = running.run(site, action.pk, wiring.stopping)
        action.refresh_from_db()
        if action.state in ENDED:
            return action
        time.sleep(max(0.0, min(0.5, (due_at or 0) - time.time())))
    pytest.fail(f"{action} is still {action.state}")


def planned(site, *, blocked: bool, kind: str = "drain") -> Action:
    """A plan of the rehearsal that nothing blocks, or one with blocks that an approver may all lift."""
    olga = Actor("operator", "operator")
    for node in site.changer.read_nodes():
        found = act.propose(site, kind, node.metadata.name, "look", olga)
        blocks = act.plan_of(found).blocks
        if bool(blocks) is blocked and act.plan_of(found).pods and all(check.waivable_by for check in blocks):
            return found
    raise AssertionError("no node of the rehearsal is like that")


def at(action: Action, way: str = "") -> str:
    return f"{HERE}actions/{action.pk}/{way}"


def text(response) -> str:
    """What is read: without markup and scripts."""
    html = re.sub(r"<script.*?</script>", "", response.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def confirm(browser: Client, action: Action, **more):
    given = {"digest": action.digest, "typed": action.target} | more
    return browser.post(at(action, "confirm/"), given)


def test_a_cordon_is_asked_for_and_done(as_person, site):
    olga = as_person("operator")
    form = olga.get(f"{HERE}nodes/node-02/do/cordon/")
    assert "csrfmiddlewaretoken" in form.content.decode()
    shown = propose(olga, "cordon", "node-02")
    action = Action.objects.get()
    assert shown.redirect_chain == [(at(action), 302)]
    assert (action.state, action.proposed_via, action.confirmed_via) == ("confirmed", "web", "web")
    assert "Cordoning node-02" in text(shown)
    through(site, action)
    done = text(olga.get(at(action)))
    assert "node-02 is cordoned" in done
    assert "row remap" in done
    assert propose(olga, "uncordon", "node-02").status_code == 200
    through(site, Action.objects.latest("pk"))
    assert not site.changer.read_node("node-02").spec.unschedulable


def test_a_workload_is_restarted_by_its_name_from_its_own_pages(as_person, site):
    olga, there = as_person("operator"), f"{HERE}releases/Deployment/inference/rerank-api/do/"
    assert olga.get(f"{there}drain/").status_code == 404
    assert 'name="revision" value="2"' in olga.get(f"{there}undo/?revision=2").content.decode()
    shown = olga.post(f"{there}restart/", {"reason": "new certificates"}, follow=True).content.decode()
    assert 'data-name="rerank-api"' in shown
    assert 'href="/c/rehearsal/rollouts/Deployment/inference/rerank-api/"' in shown
    action = Action.objects.get()
    confirm(olga, action, typed="rerank-api")
    action.refresh_from_db()
    assert (action.kind, action.target, action.state) == (
        "restart", "Deployment/inference/rerank-api", ActionState.CONFIRMED,
    )  # fmt: skip
    through(site, action)
    known = histories.Histories(lambda _: site)
    found = known.of("rehearsal", action.target)
    newest, before = found.revisions[0], found.revisions[1]
    assert (newest.current, before.current, found.edit.manager) == (True, False, "vigie")
    made = histories.written("rehearsal", action.target)
    assert {digest: (one.kind, one.by, one.number) for digest, one in made.items()} == {
        newest.digest: ("restart", "operator", action.pk),
    }
    assert known.of("rehearsal", "Deployment/inference/nobody") is None


def test_what_is_asked_of_no_object_at_all_still_has_a_page(as_person, site):
    actor = Actor("olga", Role.OPERATOR, "api")
    for kind, target in (("restart", "nothing"), ("switch", "Service/inference/rerank-api")):
        action = act.propose(site, kind, target, "because", actor)
        assert as_person("viewer").get(at(action)).status_code == 200


def test_a_reason_is_asked_for(as_person, site):
    answer = propose(as_person("operator"), "cordon", "node-02", " ")
    assert answer.status_code == 422
    assert "Say why" in text(answer)
    assert not Action.objects.exists()
    assert as_person("operator").get(f"{HERE}nodes/node-02/do/reformat/").status_code == 404


def test_a_plan_says_what_would_be_lost_and_a_typed_name_runs_it(as_person, site):
    olga, action = as_person("operator"), planned(site, blocked=False)
    shown = olga.get(at(action))
    said = text(shown)
    for expected in (
        f"Plan: drain {action.target}",
        "What will be lost",
        "Checks",
        "What will happen",
        "kubectl cordon",
    ):
        assert expected in said
    assert f"Type {action.target} to confirm" in re.sub(r" +", " ", said)
    for pod in act.plan_of(action).loss.pods:
        assert pod.name in said
    wrong = confirm(olga, action, typed="node-99")
    assert (wrong.status_code, "not its name" in text(wrong)) == (422, True)
    assert confirm(olga, action, digest="0").status_code == 409
    assert confirm(olga, action).status_code == 302
    action.refresh_from_db()
    assert action.state == ActionState.CONFIRMED
    run = text(olga.get(at(action)))
    assert f"Draining {action.target}" in run
    assert "Promise and proof" in run
    part = olga.get(f"{at(action)}?part=live").content.decode()
    assert part.lstrip().startswith("<div")
    assert 'data-follow="run"' in part
    through(site, action)
    done = text(olga.get(at(action)))
    assert f"{action.target} is empty" in done
    assert "Recovery, pod by pod" in done
    assert 'data-behaviour="follow"' not in olga.get(at(action)).content.decode()


def test_a_viewer_sees_everything_and_may_nothing(as_person, site):
    vera, action = as_person("viewer"), planned(site, blocked=False)
    shown = vera.get(at(action)).content.decode()
    assert 'aria-disabled="true"' in shown
    assert "Takes the role operator" in shown
    assert confirm(vera, action).status_code == 403
    assert vera.post(at(action, "stop/")).status_code == 403
    assert vera.post(f"{HERE}nodes/node-02/do/cordon/", {"reason": "x"}).status_code == 403
    action.refresh_from_db()
    assert action.state == ActionState.PROPOSED


def test_a_block_is_lifted_by_an_approver_with_a_reason(as_person, site):
    olga, ada, action = as_person("operator"), as_person("approver"), planned(site, blocked=True)
    keys = list(dict.fromkeys(check.key for check in act.plan_of(action).blocks))
    seen = olga.get(at(action)).content.decode()
    assert 'name="waive"' not in seen
    assert "An approver may lift this." in seen
    assert "Off until the blocking checks are solved." in seen
    assert ada.get(at(action)).content.decode().count('name="waive"') == len(keys)
    reasons = {f"why:{key}": "asked its team" for key in keys}
    refused = confirm(olga, action, waive=keys, **reasons)
    assert (refused.status_code, "Checks stand against it" in text(refused)) == (409, True)
    bare = confirm(ada, action, waive=keys, **{f"why:{keys[0]}": " "})
    assert (bare.status_code, "A waiver needs a reason" in text(bare)) == (422, True)
    assert f'value="{keys[0]}" form="confirm-form" checked' in bare.content.decode().replace("&amp;", "&")
    assert confirm(ada, action, waive=keys, **reasons).status_code == 302
    action.refresh_from_db()
    assert {waiver["reason"] for waiver in action.waivers} == {"asked its team"}
    stopped = ada.post(at(action, "stop/"), follow=True)
    assert "has asked to stop" in text(stopped)
    through(site, action)
    done = text(ada.get(at(action)))
    assert "approver has stopped it" in done
    assert "asked its team" in done


def test_without_a_token_of_the_form_nothing_happens(people, site):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people["operator"])
    assert browser.post(f"{HERE}nodes/node-02/do/cordon/", {"reason": "x"}).status_code == 403
    assert not Action.objects.exists()


def test_a_plan_that_is_too_old_is_computed_again(as_person, site):
    olga, action = as_person("operator"), planned(site, blocked=False)
    Action.objects.filter(pk=action.pk).update(expires_at=time.time() - 1)
    shown = text(olga.get(at(action)))
    assert "This plan has expired" in shown
    assert confirm(olga, action).status_code == 409
    act.expire(time.time())
    ended = text(olga.get(at(action)))
    assert "Nobody has confirmed it in time" in ended


def test_the_second_person_is_another_approver(as_person, people, four_eyes):
    ada, olga = as_person("approver"), as_person("operator")
    propose(ada, "cordon", "node-03")
    action = Action.objects.get()
    assert (action.state, action.confirmed_by) == ("proposed", "approver")
    mine = text(ada.get(at(action)))
    assert "Confirmed by approver" in mine
    assert "has to be another one" in mine
    assert "has to be an approver" in text(olga.get(at(action)))
    given = {"digest": action.digest, "reason": "agreed"}
    assert olga.post(at(action, "approve/"), given).status_code == 403
    assert ada.post(at(action, "approve/"), given).status_code == 403
    accounts.add("ann", Role.APPROVER, "correct horse battery")
    ann = Client()
    ann.force_login(type(people["viewer"]).objects.get(username="ann"))
    assert "Why you agree" in text(ann.get(at(action)))
    assert ann.post(at(action, "approve/"), given).status_code == 302
    action.refresh_from_db()
    assert (action.state, action.second_by) == ("confirmed", "ann")


def test_an_operator_elsewhere_is_a_viewer_here(people, site):
    people["nobody"].groups.add(Group.objects.get_or_create(name="operator:elsewhere")[0])
    people["nobody"].groups.add(Group.objects.get_or_create(name="viewer:rehearsal")[0])
    browser = Client()
    browser.force_login(people["nobody"])
    assert browser.post(f"{HERE}nodes/node-02/do/cordon/", {"reason": "x"}).status_code == 403


def test_a_cluster_that_vigie_may_not_change_says_so(as_person, site, settings):
    settings.VIGIE_ACTIONS = frozenset()
    form = as_person("operator").get(f"{HERE}nodes/node-02/do/drain/").content.decode()
    assert "VIGIE_ACTIONS does not name it" in form
    assert 'aria-disabled="true"' in form


# The list


@pytest.fixture
def told(as_person, site):
    """Three actions of two people: done, withdrawn, and a plan."""
    olga = as_person("operator")
    propose(olga, "cordon", "node-02", "row remap")
    through(site, Action.objects.latest("pk"))
    ada = Actor("approver", "approver")
    gone = act.propose(site, "drain", "node-03", "new disk", ada)
    act.stop(gone, ada)
    act.propose(site, "drain", "node-04", "=cmd()", ada)
    yield olga
    propose(olga, "uncordon", "node-02")
    through(site, Action.objects.latest("pk"))


def names(response) -> list[str]:
    return re.findall(r"<small>(M-\d+)</small>", response.content.decode())


def test_the_list_and_its_filters(told):
    everything = told.get(f"{HERE}actions/")
    assert len(names(everything)) == 3
    first, second, third = names(everything)
    for query, expected in (
        ("?q=node-03", [second]),
        ("?q=REMAP", [third]),
        (f"?q={first}", [first]),
        ("?who=operator", [third]),
        ("?what=drain", [first, second]),
        ("?outcome=refused", [second]),
        ("?what=drain&who=operator", []),
        ("?since=24h", [first, second, third]),
        ("?what=nonsense&since=x&before=-1", [first, second, third]),
    ):
        assert names(told.get(f"{HERE}actions/{query}")) == expected, query


def test_the_chain_is_checked_when_somebody_asks(told):
    number = AuditEntry.objects.count()
    assert f"{number} entries in the audit" in text(told.get(f"{HERE}actions/"))
    assert f"Chain intact: {number} of {number} entries" in text(told.get(f"{HERE}actions/?check=1"))
    AuditHead.objects.filter(pk=audit.HEAD).update(number=number + 1)
    assert f"Chain broken at entry #{number + 1}" in text(told.get(f"{HERE}actions/?check=1"))
    AuditHead.objects.filter(pk=audit.HEAD).update(number=number)


def test_the_export_holds_what_the_filters_leave(told):
    answer = told.get(f"{HERE}actions/export.json?q=node-03")
    rows = json.loads(b"".join(answer))
    assert [row["what"] for row in rows] == ["proposed", "withdrawn"]
    assert rows[1]["previous"]
    table = list(csv.DictReader(io.StringIO(b"".join(told.get(f"{HERE}actions/export.csv")).decode())))
    assert len(table) == AuditEntry.objects.count()
    assert json.loads(table[-1]["facts"])["reason"] == "=cmd()"
    assert told.get(f"{HERE}actions/export.xml").status_code == 404


def test_older_actions_are_on_the_next_page(as_person, site):
    first = act.propose(site, "cordon", "node-05", "look", Actor("operator", "operator"))
    copies = []
    for n in range(60):
        copy = Action.objects.get(pk=first.pk)
        copy.pk, copy.reason = None, f"look {n}"
        copies.append(copy)
    Action.objects.bulk_create(copies)
    browser = as_person("viewer")
    page = browser.get(f"{HERE}actions/")
    assert len(names(page)) == 50
    older = re.search(r'href="\?(before=\d+)"', page.content.decode())
    rest = names(browser.get(f"{HERE}actions/?{older[1]}"))
    assert len(rest) == 11
    assert not set(rest) & set(names(page))


@pytest.mark.parametrize("path", ["actions/", "actions/{}/", "actions/{}/?part=live"])
def test_pages_ask_few_questions(path, told, django_assert_max_num_queries):
    pk = Action.objects.filter(state="succeeded").latest("pk").pk
    with django_assert_max_num_queries(10):
        assert told.get(HERE + path.format(pk)).status_code == 200


@pytest.mark.parametrize("language", ["en", "fr"])
def test_no_page_has_a_hole(told, language):
    paths = [
        "actions/",
        "nodes/node-02/do/drain/",
        *(f"actions/{pk}/" for pk in Action.objects.values_list("pk", flat=True)),
    ]
    for path in paths:
        html = told.get(HERE + path, headers={"accept-language": language}).content.decode()
        assert not re.search(r"\{\{|\{%|\{\w+\}", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)), path
        assert f'<html lang="{language}">' in html
