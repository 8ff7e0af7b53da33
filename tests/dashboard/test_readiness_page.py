"""The pages and the API of restart readiness against a running rehearsal, in both languages, and when it is silent."""

import copy
from pathlib import Path

import pytest
import yaml

from fleet import wiring
from fleet.domain.documents import quantities_as_text
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.django_db]
HERE = "/c/rehearsal/readiness/"
TRADUCTION = f"{HERE}Deployment/lesson/traduction/"
PLURALS = {"Deployment": "deployments", "Service": "services", "PodDisruptionBudget": "poddisruptionbudgets"}


def lesson() -> list[dict]:
    """The lesson's manifest with what its text says around it; its team says how long loading and draining take."""
    found = []
    for name in ("lesson", "lesson-around"):
        found += yaml.safe_load_all(Path(f"tests/data/readiness/{name}.yaml").read_text())
    found[0]["spec"]["template"]["metadata"]["annotations"] = {
        "vigie.dev/load-time": "5m",
        "vigie.dev/drain-time": "70s",
    }
    found[1]["spec"]["ports"] = [{"port": 80, "targetPort": 8080}]
    return quantities_as_text(found)  # as the API server keeps them


@pytest.fixture(scope="module")
def rehearsal():
    with serving(Rehearsal(nodes=2, pace=0)) as found:
        store = found.rehearsal.store

        def plant() -> None:
            store.create("namespaces", {"metadata": {"name": "lesson"}}, manager="test")
            for one in copy.deepcopy(lesson()):
                one["metadata"]["namespace"] = "lesson"
                store.create(PLURALS[one["kind"]], one, manager="test")

        found.call(plant)
        yield found


@pytest.fixture
def cluster(rehearsal, settings):
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(rehearsal.kubeconfig), ()
    for known in (wiring.manifests, wiring.restarts):
        known.cache_clear()
    writer = Writer("rehearsal")
    writer.publish(nodes(2))
    yield "rehearsal"
    writer.release()
    for known in (wiring.manifests, wiring.restarts):
        known.cache_clear()


@pytest.fixture
def get(as_person, cluster):
    client = as_person("viewer")

    def page(path: str = HERE, lang: str = "en", status: int = 200) -> str:
        response = client.get(path, headers={"accept-language": lang})
        assert response.status_code == status
        return response.content.decode().replace("\u00a0", " ")

    return page


def test_the_page_lists_findings_by_workload_and_narrows_them(get):
    html = get(f"{HERE}?namespace=lesson")
    for words in (
        f'href="{TRADUCTION}"',
        "Service traduction chooses by the label version (now green), which these pods do not have.",
        "The startup probe guarantees modele 4 min 50 s, not 5 min. Its team says that loading takes 5 min.",
        "SIGTERM leaves modele 55 s; its requests in flight need 1 min 10 s.",
        "2 errors · 3 warnings · 2 notes",
        'href="/c/rehearsal/workloads/"',
    ):
        assert words in html, words
    only = get(f"{HERE}?namespace=lesson&rule=R25")
    assert "Nothing keeps its 4 replicas on different nodes." in only
    assert "One node’s drain or failure may take all of them." in only
    assert "label version" not in only
    assert "No workload matches." in get(f"{HERE}?namespace=lesson&rule=R12")
    assert "4 réplicas sur des nœuds différents" in get(f"{HERE}?namespace=lesson", "fr")


def test_a_workload_has_its_lines_of_a_stop_and_a_start(get):
    html = get(TRADUCTION)
    assert html.count('<svg class="chart"') == 2
    for words in (
        "modele: SIGTERM after 5 s, SIGKILL after 1 min. · 55 s until SIGKILL · 15 s too short",
        "modele: restarted after 4 min 50 s to 5 min if it does not come up.",
        "5 min, as the team says",
        "every 10 s, waits 1 s for an answer",
        "failureThreshold: 31",
        "PodDisruptionBudget/lesson/traduction",
    ):
        assert words in html, words
    assert "style=" not in html
    get(f"{HERE}Deployment/lesson/nothing/", status=404)


def test_programs_get_the_same_with_facts_and_remedies(as_person, cluster):
    client = as_person("viewer")
    found = client.get("/api/v1/readiness?object=Deployment/lesson/traduction&severity=error").json()
    assert (found["cluster"], found["unread"], found["next"]) == ("rehearsal", [], None)
    assert [one["rule"] for one in found["items"]] == ["R08", "R30"]
    assert found["items"][0]["facts"] == {
        "container": "modele",
        "left_s": 55,
        "need_s": 70,
        "grace_s": 60,
        "sleep_s": 5,
    }
    assert yaml.safe_load(found["items"][1]["remedy"])["spec"]["template"]["metadata"] == {
        "labels": {"version": "blue"}
    }
    parts = client.get("/api/v1/readiness?namespace=lesson&limit=3")
    assert len(parts.json()["items"]) == 3
    rest = client.get(parts.headers["Link"].split(">")[0].lstrip("<")).json()
    assert {one["message"] for one in rest["items"]}.isdisjoint(one["message"] for one in parts.json()["items"])
    assert client.get("/api/v1/readiness?rule=R99").status_code == 422


def test_a_cluster_that_does_not_answer_is_told(as_person, cluster, settings, tmp_path):
    config = yaml.safe_load(Path(settings.VIGIE_KUBECONFIG).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    settings.VIGIE_KUBECONFIG = str(tmp_path / "kubeconfig")
    wiring.manifests.cache_clear()
    client = as_person("viewer")
    assert "The cluster does not answer" in client.get(HERE).content.decode()
    assert "The cluster does not answer" in client.get(TRADUCTION).content.decode()
    assert client.get("/api/v1/readiness").status_code == 503


def test_the_page_asks_few_questions_of_the_database(as_person, cluster, django_assert_max_num_queries):
    client = as_person("viewer")
    with django_assert_max_num_queries(8):
        client.get(HERE)
