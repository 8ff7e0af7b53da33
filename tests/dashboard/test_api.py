"""What programs get: answers, problems, ETags and their description."""

import json
import re
import time

import msgspec
import pytest
from django.test import Client

from dashboard import tokens
from dashboard.models import Scope
from fleet.domain.picture import EventRow, GpuRow, LabelsRow, NodeRow, PodRow, WorkloadRow
from tests.browser import demo
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db]


@pytest.fixture
def client(as_person) -> Client:
    return as_person("viewer")


def test_nodes_come_sorted_by_name_with_their_age(client, writer):
    answer = client.get("/api/v1/nodes").json()
    assert [item["name"] for item in answer["items"]] == [f"node-{i:02}" for i in range(1, 25)]
    assert answer["cluster"] == writer.cluster
    assert answer["version"] == [writer.version.epoch, writer.version.n]
    assert 0 <= answer["now"] - answer["at"] < 5
    assert answer["trouble"] == []


def test_a_snapshot_holds_every_table(client, writer):
    answer = client.get("/api/v1/snapshot").json()
    assert {
        "fleet",
        "products",
        "nodes",
        "pods",
        "workloads",
        "attention",
        "labels",
        "events",
        "gpus",
        "rollouts",
        "checkpoints",
    } < set(answer)
    assert answer["checkpoints"] == {}, "nobody has scanned"
    assert answer["fleet"]["gpus"] == 192
    assert answer["nodes"]["node-07"]["cells"] == "ffffffff"


def test_unknown_stays_unknown(client, writer):
    assert client.get("/api/v1/nodes/node-01").json()["node"]["physical"] is None


def test_an_answer_costs_few_queries(client, writer, django_assert_max_num_queries):
    with django_assert_max_num_queries(3):
        client.get("/api/v1/nodes")


def test_one_node(client, writer):
    assert client.get("/api/v1/nodes/node-03").json()["node"]["name"] == "node-03"


def test_a_node_comes_with_its_labels_and_events(client, writer):
    labels = {"node-01": LabelsRow((("pool", "train"),), (("example.org/reason", "fan"),))}
    events = {
        f"default/{name}": EventRow(node, "Node", "", node, reason=name, last_at=at)
        for name, node, at in (("old", "node-01", 1.0), ("new", "node-01", 9.0), ("other", "node-02", 5.0))
    }
    writer.publish(msgspec.structs.replace(nodes(2), labels=labels, events=events))
    answer = client.get("/api/v1/nodes/node-01").json()
    assert answer["labels"] == {"pool": "train"}
    assert answer["annotations"] == {"example.org/reason": "fan"}
    assert [event["reason"] for event in answer["events"]] == ["new", "old"]
    assert client.get("/api/v1/nodes/node-02").json()["labels"] == {}


def problem(response, status: int) -> dict:
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


# Lists


def names(answer) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [item["name"] for item in answer.json()["items"]]


def test_a_list_comes_in_parts_that_lead_to_one_another(client, writer):
    path, found = "/api/v1/nodes?limit=10&q=node", []
    while path:
        answer = client.get(path)
        found += names(answer)
        assert answer.json()["total"] == 24
        link = answer.headers.get("Link", "")
        assert bool(link) == (answer.json()["next"] is not None)
        path = link.removesuffix('>; rel="next"').removeprefix("<")
    assert found == [f"node-{i:02}" for i in range(1, 25)]


def test_a_part_begins_after_a_name_also_when_that_is_gone(client, writer):
    assert names(client.get("/api/v1/nodes?after=node-22x")) == ["node-23", "node-24"]
    assert names(client.get("/api/v1/nodes?after=z")) == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=many", "level=worst", "usable=perhaps", "q=" + "x" * 300]
)
def test_parameters_have_bounds(client, writer, query):
    problem(client.get(f"/api/v1/nodes?{query}"), 422)


NODES = {
    "node_01": NodeRow(name="node-01", pool="train", zone="a", product="H100", ready="True"),
    "node_02": NodeRow(name="node-02", pool="train", zone="b", product="A100", level="bad", usable=False),
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pool=train", ["node-01", "node-02"]),
        ("pool=train&zone=b", ["node-02"]),
        ("product=H100", ["node-01"]),
        ("level=bad", ["node-02"]),
        ("pool=train&level=ok", ["node-01"]),
        ("usable=false", ["node-02"]),
        ("q=NODE-01", ["node-01"]),
        ("pool=none", []),
    ],
)
def test_nodes_by_what_they_are(client, writer, query, expected):
    writer.publish(nodes(4, **NODES))
    answer = client.get(f"/api/v1/nodes?{query}")
    assert names(answer) == expected
    assert answer.json()["total"] == len(expected)


def lab(writer) -> None:
    """A bound pod and its workload, a waiting one, and one that wants no GPU."""
    bound = PodRow("u1", "ml", "train-0", node="node-01", gpus=8, workload="Job/ml/train")
    waiting = PodRow("u2", "lab", "big-0", gpus=8, waiting_reason="Unschedulable")
    plain = PodRow("u3", "lab", "web-0")
    train = WorkloadRow("Job", "ml", "train", team="vision", gpus_per_pod=8, gpus=8)
    web = WorkloadRow("Deployment", "lab", "web")
    pods = {f"{pod.namespace}/{pod.name}": pod for pod in (bound, waiting, plain)}
    workloads = {f"{w.kind}/{w.namespace}/{w.name}": w for w in (train, web)}
    writer.publish(msgspec.structs.replace(nodes(2), pods=pods, workloads=workloads))


def test_pods_of_a_node(client, writer):
    lab(writer)
    assert names(client.get("/api/v1/nodes/node-01/pods")) == ["train-0"]
    assert names(client.get("/api/v1/nodes/node-02/pods")) == []
    problem(client.get("/api/v1/nodes/node-99/pods"), 404)


def test_pods_that_wait_for_gpus(client, writer):
    lab(writer)
    (item,) = client.get("/api/v1/waiting").json()["items"]
    assert (item["name"], item["waiting_reason"], item["gpus"]) == ("big-0", "Unschedulable", 8)
    assert names(client.get("/api/v1/waiting?namespace=ml")) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["web", "train"]),
        ("gpus=true", ["train"]),
        ("gpus=false", ["web"]),
        ("kind=Job", ["train"]),
        ("q=WE", ["web"]),
        ("namespace=lab", ["web"]),
        ("team=vision", ["train"]),
        ("team=vision&kind=Deployment", []),
    ],
)
def test_workloads(client, writer, query, expected):
    lab(writer)
    assert names(client.get(f"/api/v1/workloads?{query}")) == expected


def test_every_cluster_with_its_totals(client, writer, clusters):
    first, second = client.get("/api/v1/clusters").json()["items"]
    assert (first["name"], first["fleet"]["gpus"], first["lost"]) == (clusters[0], 192, "")
    assert second == {"name": clusters[1], "at": None, "lost": "no-picture", "fleet": None}


def test_a_picture_that_is_not_kept_true_says_so(client, writer):
    etag = client.get("/api/v1/nodes").headers["ETag"]
    writer.pulse(trouble=(("server", "silent", 4.0),))
    answer = client.get("/api/v1/nodes", headers={"if-none-match": etag})
    assert answer.json()["lost"] == "server"


def test_the_reference_page_lists_every_operation_and_needs_no_script(client, writer):
    html = client.get("/api/v1/docs").content.decode()
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}</code>" in html
    for shape in ("NodeRow", "PodRow", "Problem", "SnapshotAnswer", "Proposal"):
        assert f'id="{shape}"' in html
        assert f'href="#{shape}"' in html
    assert "at most 1000" in html
    assert "<style" not in html
    assert "onclick" not in html


# Problems


def test_what_does_not_exist_is_a_problem(client, writer):
    assert "node-99" in problem(client.get("/api/v1/nodes/node-99"), 404)["detail"]
    assert "nowhere" in problem(client.get("/api/v1/nodes?cluster=nowhere"), 404)["detail"]
    problem(client.get("/api/v1/never"), 404)
    problem(client.get("/api/v1/"), 404)
    problem(Client().get("/api/v1/nodes"), 401)


def test_what_the_framework_refuses_is_a_problem_too(client, writer, people):
    answer = client.delete("/api/v1/nodes")
    assert problem(answer, 405)["detail"] == "This address takes GET."
    assert answer.headers["Allow"] == "GET"
    text, _ = tokens.issue(people["operator"], "test", 1, scope=Scope.ACT)
    program = Client(headers={"authorization": f"Bearer {text}"})
    problem(program.post("/api/v1/plans", "{bad", content_type="application/json"), 400)


def test_a_parameter_that_cannot_be_is_a_problem_with_its_place(client, writer):
    body = problem(client.get("/api/v1/nodes", {"cluster": "x" * 300}), 422)
    assert body["errors"][0]["in"] == ["query", "cluster"]


def test_each_cluster_answers_for_itself_and_says_when_to_come_again(client, writer, clusters):
    response = client.get("/api/v1/nodes", {"cluster": clusters[1]})
    assert clusters[1] in problem(response, 503)["detail"]
    assert response.headers["Retry-After"] == "1"
    Writer(clusters[1]).publish(nodes(3))
    assert len(client.get("/api/v1/nodes", {"cluster": clusters[1]}).json()["items"]) == 3
    assert len(client.get("/api/v1/nodes", {"cluster": clusters[0]}).json()["items"]) == 24


def test_without_any_cluster_there_is_none(client, settings):
    settings.VIGIE_KUBECONFIG = ""
    problem(client.get("/api/v1/nodes"), 404)


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/snapshot", "/api/v1/nodes/node-01"])
def test_what_did_not_change_is_not_sent_again_but_its_age_is(path, client, writer):
    first = client.get(path)
    writer.pulse(at=time.time() + 1)
    again = client.get(path, headers={"if-none-match": f'"other", {first.headers["ETag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert float(again.headers["Vigie-At"]) > float(first.headers["Vigie-At"])
    assert again.headers["ETag"] == first.headers["ETag"]


def test_a_change_and_trouble_are_sent(client, writer):
    etag = client.get("/api/v1/nodes").headers["ETag"]
    writer.publish(nodes(25))
    changed = client.get("/api/v1/nodes", headers={"if-none-match": etag})
    assert len(changed.json()["items"]) == 25
    writer.pulse(trouble=(("pods", "timeout", 12.0),))
    troubled = client.get("/api/v1/nodes", headers={"if-none-match": changed.headers["ETag"]})
    assert troubled.json()["trouble"] == [["pods", "timeout", 12.0]]


def test_answers_are_for_the_one_who_asked(client, writer):
    headers = client.get("/api/v1/nodes").headers
    assert "private" in headers["Cache-Control"]
    assert {"Cookie", "Authorization"} <= {part.strip() for part in headers["Vary"].split(",")}


def test_the_description_names_every_operation_and_its_answers(client, writer):
    described = client.get("/api/v1/openapi.json").json()
    about_a_cluster = {
        "snapshot",
        "nodes",
        "nodes/{name}",
        "nodes/{name}/pods",
        "workloads",
        "waiting",
        "gpus",
        "gpus/{uuid}",
        "checkpoints",
    }
    of_the_past = {"gpus/{uuid}/history", "transitions", "availability"}
    acting = {"plans", *(f"plans/{{number}}{part}" for part in ("", "/confirm", "/approve"))}
    acting |= {"actions", "audit", *(f"actions/{{number}}{part}" for part in ("", "/stop", "/events"))}
    others = (*about_a_cluster, *of_the_past, *acting, "clusters", "events", "cadence", "readiness")
    others = (*others, "checkpoints/{kind}/{namespace}/{name}")
    assert set(described["paths"]) == {f"/api/v1/{name}" for name in others}
    schemas = described["components"]["schemas"]
    for path in (described["paths"][f"/api/v1/{name}"] for name in about_a_cluster):
        responses = path["get"]["responses"]
        assert {"200", "304", "401", "403", "404", "422", "503"} <= set(responses)
        name = responses["200"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        assert schemas[name]["properties"]["at"]["type"] == "number"
    assert {"Session", "Token"} == set(described["components"]["securitySchemes"])


def test_every_link_within_the_reference_page_leads_somewhere(client, writer):
    page = client.get("/api/v1/docs").content.decode()
    links, ids = (set(re.findall(found, page)) for found in (r'href="#([^"]+)"', r' id="([^"]+)"'))
    assert links <= ids
    assert {"Severity", "NodeRow"} <= links
    assert "one of “error”, “info”, “warning”" in page


def test_every_reference_in_the_description_leads_somewhere(client, writer):
    described = client.get("/api/v1/openapi.json").json()
    schemas = described["components"]["schemas"]
    text = json.dumps(described)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/components/schemas/')[1:]}
    assert references <= set(schemas)
    assert {"NodeRow", "FleetRow", "Problem"} <= references


def test_ready_once_every_cluster_has_a_snapshot(writer, clusters):
    assert Client().get("/healthz").content == b"ok\n"
    before = Client().get("/readyz")
    assert before.status_code == 503
    found = before.json()
    assert (found["ready"], found["clusters"], found["missing"]) == (False, list(clusters), [clusters[1]])
    nothing = {"picture": False, "age_s": None, "lost": "no-picture", "trouble": 0, "hidden": 0}
    assert found["detail"][clusters[1]] == nothing
    good = found["detail"][clusters[0]]
    assert (good["picture"], good["lost"], good["trouble"], good["hidden"]) == (True, "", 0, 0)
    assert 0 <= good["age_s"] < 5
    Writer(clusters[1]).publish(nodes(1))
    after = Client().get("/readyz")
    assert (after.status_code, after.json()["missing"]) == (200, [])


def test_ready_counts_what_is_in_the_way_of_each_cluster(writer, clusters, settings):
    settings.VIGIE_CONTEXTS = (clusters[0],)
    writer.pulse(trouble=(("services", "Forbidden", 90.0), ("pods", "silent", 3.0), ("server", "refused", 2.0)))
    answer = Client().get("/readyz")
    assert answer.status_code == 200, "its pages say what they know"
    found = answer.json()["detail"][writer.cluster]
    assert (found["lost"], found["trouble"], found["hidden"]) == ("server", 2, 1)
    assert b"Forbidden" not in answer.content


def test_not_ready_without_any_cluster(settings):
    settings.VIGIE_KUBECONFIG = ""
    assert Client().get("/readyz").status_code == 503


# GPUs


def measured(writer) -> None:
    rows = {
        f"GPU-{i}": GpuRow(f"node-0{1 + i % 2}", i, f"GPU-{i}", f"0000:0{i}:00.0", state="lost" if i == 3 else "ok")
        for i in range(4)
    }
    writer.publish(demo.replaced(nodes(4, **NODES), gpus=rows))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]),
        ("state=lost", ["GPU-3"]),
        ("node=node-02", ["GPU-1", "GPU-3"]),
        ("product=H100", ["GPU-0", "GPU-2"]),
        ("q=gpu-2", ["GPU-2"]),
        ("q=0000:01", ["GPU-1"]),
        ("limit=1&after=GPU-0", ["GPU-1"]),
    ],
)
def test_gpus_by_what_they_are(client, writer, query, expected):
    measured(writer)
    answer = client.get(f"/api/v1/gpus?{query}")
    assert [item["uuid"] for item in answer.json()["items"]] == expected


def test_one_gpu_and_none(client, writer):
    measured(writer)
    answer = client.get("/api/v1/gpus/GPU-3")
    assert answer.json()["gpu"]["state"] == "lost"
    assert answer.json()["gpu"]["utilization_pct"] is None
    again = client.get("/api/v1/gpus/GPU-3", headers={"if-none-match": answer.headers["ETag"]})
    assert again.status_code == 304
    problem(client.get("/api/v1/gpus/GPU-9"), 404)
    problem(client.get("/api/v1/gpus?state=happy"), 422)
