"""Plans and actions over the API: who may, what is refused and why, and how an action goes."""

import json
import shlex

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from dashboard import tokens
from dashboard.management.commands.plan import lines
from dashboard.models import Scope
from fleet import wiring
from fleet.act import running
from fleet.models import Action
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.dashboard.pictures import well_read

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(nodes=24, pace=0)) as found:
        yield found


@pytest.fixture
def watched(cluster, settings):
    settings.VIGIE_KUBECONFIG = str(cluster.kubeconfig)
    settings.VIGIE_CONTEXTS = ()
    settings.VIGIE_ACTIONS = frozenset({"rehearsal"})
    wiring.site.cache_clear()
    with well_read("rehearsal", [node.metadata.name for node in wiring.site("rehearsal").changer.read_nodes()]):
        yield cluster
    wiring.site("rehearsal").cluster.close()
    wiring.site.cache_clear()


@pytest.fixture
def program(people, watched):
    """A program with a token of this account."""

    def made(name: str, scope: Scope = Scope.ACT) -> Client:
        text, _ = tokens.issue(people[name], "test", 1, scope=scope)
        return Client(headers={"authorization": f"Bearer {text}"})

    return made


def post(client: Client, path: str, body: object, **headers: str):
    return client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json", headers=headers)


CORDON = {"kind": "cordon", "target": "node-02", "reason": "row remap"}


def test_a_workload_is_scaled_over_the_api(program):
    olga, target = program("operator"), "Deployment/web/prompt-gateway"
    before = wiring.site("rehearsal").changer.read_workload(*target.split("/")).replicas
    wanted = {"kind": "scale", "target": target, "reason": "fewer users", "options": {"replicas": str(before - 1)}}
    plan = post(olga, "plans", wanted).json()
    assert [check["guard"] for check in plan["checks"] if check["outcome"] == "BLOCK"] == []
    assert (plan["options"], len(plan["loss"]["pods"])) == ({"replicas": str(before - 1)}, 1)
    assert plan["kubectl"] == [f"kubectl -n web scale deployment/prompt-gateway --replicas={before - 1}"]
    path = f"plans/{plan['id']}/confirm"
    refused = post(olga, path, {"digest": plan["digest"], "typed": "llm-chat"})
    assert refused.status_code == 422
    assert post(olga, path, {"digest": plan["digest"], "typed": "prompt-gateway"}).json()["state"] == "confirmed"
    for _ in range(20):
        running.run(wiring.site("rehearsal"), plan["id"], wiring.stopping)
        ended = olga.get(f"/api/v1/actions/{plan['id']}").json()
        if ended["ended_at"]:
            break
    assert (ended["state"], [step["kind"] for step in ended["steps"]]) == ("succeeded", ["change", "rollout"])
    assert ended["pods"] == []
    odd = post(olga, "plans", {**wanted, "options": {"replica": "1"}})
    assert odd.status_code == 422


def test_a_plan_its_confirmation_and_its_end(program):
    olga = program("operator")
    answer = post(olga, "plans", CORDON)
    assert answer.status_code == 201
    plan = answer.json()
    assert {"id", "digest", "expires_at", "loss", "checks", "steps", "kubectl"} <= plan.keys()
    assert {"guard", "outcome", "reason", "evidence", "remedy", "waivable_by"} <= plan["checks"][0].keys()
    assert {check["outcome"] for check in plan["checks"]} <= {"PASS", "WARN", "BLOCK"}
    assert olga.get(f"/api/v1/plans/{plan['id']}").json() == plan
    confirmed = post(olga, f"plans/{plan['id']}/confirm", {"digest": plan["digest"]})
    assert (confirmed.status_code, confirmed.json()["state"]) == (200, "confirmed")
    running.run(wiring.site("rehearsal"), plan["id"], wiring.stopping)
    shown = program("viewer", Scope.READ).get(f"/api/v1/actions/{plan['id']}").json()
    assert (shown["state"], shown["steps"][0]["state"]) == ("succeeded", "done")
    told = olga.get(f"/api/v1/audit?action={plan['id']}").json()["items"]
    assert [entry["what"] for entry in reversed(told)][:3] == ["proposed", "confirmed", "began"]
    assert {entry["actor"] for entry in told} == {"operator", "vigie"}
    listed = olga.get("/api/v1/actions?target=node-02").json()["items"]
    assert [item["id"] for item in listed] == [plan["id"]]


@pytest.mark.parametrize(
    ("who", "scope", "status"),
    [("viewer", Scope.ACT, 403), ("operator", Scope.READ, 403), ("nobody", Scope.ACT, 403)],
)
def test_who_may_not_propose(program, who, scope, status):
    assert post(program(who, scope), "plans", CORDON).status_code == status
    assert not Action.objects.exists()


def test_a_browsers_session_changes_nothing_over_the_api(as_person, watched):
    assert post(as_person("operator"), "plans", CORDON).status_code == 401


def test_an_operator_of_another_cluster_may_not(program, people):
    people["nobody"].groups.add(Group.objects.get_or_create(name="operator:elsewhere")[0])
    people["nobody"].groups.add(Group.objects.get_or_create(name="viewer:rehearsal")[0])
    answer = post(program("nobody"), "plans", CORDON)
    assert answer.status_code == 403
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**CORDON, "kind": "reboot"}, 422),
        ({**CORDON, "reason": ""}, 422),
        ({**CORDON, "options": {"force": "true"}}, 422),
        ({**CORDON, "cluster": "elsewhere"}, 404),
        ({"kind": "cordon"}, 422),
        ({**CORDON, "kind": "drain", "target": ""}, 422),
    ],
)
def test_what_is_no_plan(program, body, status):
    answer = post(program("operator"), "plans", body)
    assert answer.status_code == status
    assert answer["content-type"] == "application/problem+json"


def test_a_plan_as_text_ends_with_the_command_that_does_it(program):
    olga = program("operator")
    plain = post(olga, "plans", CORDON).json()
    assert lines(plain)[-1].endswith(f" act confirm {plain['id']} --digest {plain['digest']}")
    lifted = post(program("approver"), "plans", {**CORDON, "kind": "drain", "target": "node-01"}).json()
    words = shlex.split(lines(lifted)[-1])
    assert words[words.index("--typed") + 1] == "node-01"
    keys = [check["key"] for check in lifted["checks"] if check["outcome"] == "BLOCK"]
    assert keys, "a trainer that nobody can read"
    assert [word.removesuffix("=WHY") for word in words if word.endswith("=WHY")] == keys
    missing = post(olga, "plans", {**CORDON, "target": "node-77"}).json()
    assert lines(missing)[-1].endswith("blocks it: target-known")


@pytest.mark.parametrize("option", ["replicas", "=4", ""])
def test_an_option_without_a_value_is_told_and_not_dropped(option, monkeypatch):
    monkeypatch.setenv("VIGIE_TOKEN", "x")
    with pytest.raises(CommandError, match="--option takes NAME=VALUE") as caught:
        call_command("plan", "scale", "Deployment/web/gateway", "--option", option)
    assert caught.value.returncode == 2


def test_a_refusal_names_the_checks_and_the_way_out(program):
    olga = program("operator")
    plan = post(olga, "plans", {**CORDON, "kind": "drain", "target": "node-77"}).json()
    answer = post(olga, f"plans/{plan['id']}/confirm", {"digest": plan["digest"], "typed": "node-77"})
    assert (answer.status_code, answer.json()["why"]) == (409, "blocked")
    check = next(check for check in answer.json()["checks"] if check["guard"] == "target-known")
    assert check["remedy"] == "check-name"
    wrong = post(olga, f"plans/{plan['id']}/confirm", {"digest": "0", "typed": "node-77"})
    assert (wrong.status_code, wrong.json()["why"]) == (409, "other-plan")


def test_somebody_at_a_console_is_recorded_as_such(program):
    answer = post(program("operator"), "plans", CORDON, **{"vigie-console-user": "night shift"})
    action = Action.objects.get(pk=answer.json()["id"])
    assert (action.proposed_by, action.proposed_via) == ("operator as night shift", "console")


def test_a_stop_and_an_action_that_is_not_there(program):
    olga = program("operator")
    plan = post(olga, "plans", CORDON).json()
    assert post(olga, f"actions/{plan['id']}/stop", {}).json()["state"] == "refused"
    assert post(olga, f"actions/{plan['id']}/stop", {}).status_code == 409
    assert post(olga, "actions/99999/stop", {}).status_code == 404
    assert olga.get("/api/v1/actions/99999").status_code == 404


def test_an_end_is_the_end_of_its_events(program):
    olga = program("operator")
    plan = post(olga, "plans", CORDON).json()
    post(olga, f"actions/{plan['id']}/stop", {})
    events = b"".join(olga.get(f"/api/v1/actions/{plan['id']}/events"))
    assert events.startswith(b"event: action\ndata: ")
    assert events.count(b"event: ") == 1


def test_an_action_of_a_cluster_that_is_not_theirs_does_not_exist(program, people):
    """Whatever is asked of it: seeing, confirming, approving, stopping."""
    plan = post(program("operator"), "plans", CORDON).json()
    people["viewer"].groups.set([Group.objects.get_or_create(name="approver:elsewhere")[0]])
    stranger = program("viewer")
    for path in (f"plans/{plan['id']}", f"actions/{plan['id']}", f"actions/{plan['id']}/events"):
        assert stranger.get(f"/api/v1/{path}").status_code == 404
    body = {"digest": plan["digest"], "reason": "because"}
    for path in (f"plans/{plan['id']}/confirm", f"plans/{plan['id']}/approve", f"actions/{plan['id']}/stop"):
        assert post(stranger, path, body).status_code == 404
