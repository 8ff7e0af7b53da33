"""Saving first as people and programs ask for it, with the rehearsal's trainers and what they really save."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from dashboard import tokens
from dashboard.management.commands.plan import lines
from dashboard.models import Scope
from fleet import wiring
from fleet.domain.plans import StepKind
from fleet.models import Action
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.dashboard.pictures import well_read

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

LLAMA = "StatefulSet/training/llama-sft-70b"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with serving(Rehearsal(nodes=24, pace=0), tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def granted(cluster, settings, tmp_path):
    """A site that grants the claim of most trainers."""
    policies, shelf = tmp_path / "policies.toml", cluster.kubeconfig.parent / "claims" / "training" / "checkpoints"
    policies.write_text(f'[[store]]\nnamespace = "training"\nclaim = "checkpoints"\npath = "{shelf}"\n')
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(cluster.kubeconfig), ()
    settings.VIGIE_ACTIONS, settings.VIGIE_POLICIES = frozenset({"rehearsal"}), str(policies)
    known = (wiring.policies, wiring.site, wiring.stores, wiring.remembered)
    for one in known:
        one.cache_clear()
    with well_read("rehearsal", [node.metadata.name for node in wiring.site("rehearsal").changer.read_nodes()]):
        yield
    wiring.site("rehearsal").cluster.close()
    for one in known:
        one.cache_clear()


@pytest.fixture
def program(people, granted):
    text, _ = tokens.issue(people["operator"], "test", 1, scope=Scope.ACT)
    return Client(headers={"authorization": f"Bearer {text}"})


def planned(program: Client, kind: str = "drain", **options: str):
    body = {"kind": kind, "target": "node-01", "reason": "row remap", "options": options}
    return program.post("/api/v1/plans", json.dumps(body), content_type="application/json")


def test_a_program_asks_for_it(program):
    plain, saving = planned(program).json(), planned(program, save="first").json()
    (pod,) = [pod for pod in saving["loss"]["pods"] if pod["training"] and pod["evicted"]]
    assert pod["hook"] == "http:29500/checkpoint"
    assert pod["saved_step"] > 0
    assert pod["work_s"] == pytest.approx(pod["steps"] * 3.0, rel=0.2, abs=10), "a step in three seconds"
    assert (plain["saves"], plain["options"]) == ([], {})
    assert saving["saves"] == [{"workload": LLAMA, "pod": "training/llama-sft-70b-0", "hook": pod["hook"]}]
    assert [step["kind"] for step in saving["steps"]][:3] == ["cordon", "save", "drain"]
    assert saving["options"] == {"save": "first"}
    assert plain["digest"] != saving["digest"]
    told = "\n".join(lines(saving))
    assert f"Saves first: {LLAMA} (http:29500/checkpoint at training/llama-sft-70b-0)" in told
    assert f"steps {pod['steps']}" in told
    assert "cordon → save → drain" in told


@pytest.mark.parametrize(
    ("kind", "options"), [("cordon", {"save": "first"}), ("drain", {"save": "later"}), ("drain", {"x": "y"})]
)
def test_what_cannot_be_asked_for(program, kind, options):
    assert planned(program, kind, **options).status_code == 422
    assert not Action.objects.exists()


def test_a_person_chooses_it_without_script(as_person, granted):
    olga, ask = as_person("operator"), reverse("propose", args=["rehearsal", "node-01", "drain"])
    assert 'name="save"' in olga.get(ask).content.decode()
    plain = olga.post(ask, {"reason": "row remap"}, follow=True).content.decode()
    assert 'name="save" value="first">' in plain
    saving = olga.post(ask, {"reason": "row remap", "save": "first"}, follow=True).content.decode()
    assert 'name="save" value="first" checked>' in saving
    assert f"Ask {LLAMA} for a checkpoint" in saving
    assert "saves a checkpoint first" in saving
    action = Action.objects.latest("pk")
    assert StepKind.SAVE in [step["kind"] for step in action.plan["steps"]]
