"""The API about checkpoints: the list, one workload, and reports of trainers by a token that may do nothing else."""

import json
import time

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard import tokens
from dashboard.api import checkpoints as api
from dashboard.models import ApiToken, Scope
from fleet import live, save_records
from fleet.domain.save_picture import CheckpointRow
from tests.dashboard.pictures import nodes
from tests.dashboard.test_checkpoints_page import CHECKPOINT, picture, seen

pytestmark = pytest.mark.db
SAID = {
    "committed_at": 1_764_622_800.5,
    "step": 1000,
    "size_bytes": 41_000,
    "duration_s": 12.5,
    "uri": "s3://b/run/1000",
}


@pytest.fixture
def reporting(people, writer):
    """A client of the trainer of Job/ml/llm."""
    api._paces.clear()
    text, _ = tokens.issue(
        people["viewer"], "llm", 9, cluster=writer.cluster, scope=Scope.REPORT, workload="Job/ml/llm"
    )
    return Client(headers={"authorization": f"Bearer {text}"})


def send(client, body, **more):
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return client.post("/api/v1/checkpoints", text, content_type="application/json", **more)


def test_the_list_by_standing(client, as_person, writer):
    writer.publish(picture(at=time.time()))
    viewer = as_person("viewer")
    found = viewer.get("/api/v1/checkpoints?standing=stale").json()
    assert [row["workload"] for row in found["items"]] == ["Job/ml/stale"]
    assert viewer.get("/api/v1/checkpoints?standing=odd").status_code == 422
    assert viewer.get("/api/v1/checkpoints").json()["total"] == 5


def test_one_with_what_it_would_lose(as_person, writer):
    writer.publish(picture(at=time.time()))
    live.saves().publish(writer.cluster, live.Scan("x", 1.0), {"Job/ml/fresh": seen("Job/ml/fresh", CHECKPOINT)})
    viewer = as_person("viewer")
    found = viewer.get("/api/v1/checkpoints/Job/ml/fresh").json()
    assert found["would_lose"]["seconds"] == pytest.approx(660, abs=30)
    assert found["would_lose"]["gpu_hours"] == pytest.approx(4 * 660 / 3600, abs=0.05)
    assert [one["path"] for one in found["checkpoints"]] == ["fresh/step-1000"]
    unknown = viewer.get("/api/v1/checkpoints/Job/ml/hidden").json()
    assert unknown["would_lose"] == {"seconds": None, "gpu_hours": None, "steps": None, "nothing": False}
    assert viewer.get("/api/v1/checkpoints/Job/ml/nobody").status_code == 404


def test_a_report_is_kept_as_reported(reporting, writer):
    answer = send(reporting, SAID)
    assert (answer.status_code, answer.json()["workload"]) == (201, "Job/ml/llm")
    kept = save_records.last_report(writer.cluster, "Job/ml/llm")
    assert (kept.at, kept.step, kept.size_bytes, kept.duration_s) == (1_764_622_800.5, 1000, 41_000, 12.5)
    assert kept.received_at == pytest.approx(time.time(), abs=60)


def test_its_token_does_nothing_else(reporting, writer):
    writer.publish(msgspec.structs.replace(nodes(1), checkpoints={"Job/ml/llm": CheckpointRow("Job/ml/llm", "ml")}))
    for path in ("checkpoints", "checkpoints/Job/ml/llm", "snapshot", "audit"):
        assert reporting.get(f"/api/v1/{path}").status_code == 403
    assert reporting.post("/api/v1/plans", "{}", content_type="application/json").status_code == 403
    assert reporting.get("/metrics").status_code == 403


def test_nobody_else_reports(people, as_person, writer):
    assert send(as_person("approver"), SAID).status_code in {401, 403}, "a session is for pages"
    for scope in (Scope.READ, Scope.ACT):
        text, _ = tokens.issue(people["approver"], "x", 9, cluster=writer.cluster, scope=scope)
        assert send(Client(headers={"authorization": f"Bearer {text}"}), SAID).status_code == 403
    assert save_records.last_report(writer.cluster, "Job/ml/llm") is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "committed_at"),
        ({**SAID, "step": -1}, 422, "$.step"),
        ({**SAID, "step": 2**70}, 422, "$.step"),
        ({**SAID, "steps": 1}, 422, "steps"),
        ({**SAID, "uri": "a\u0000b"}, 422, "$.uri"),
        ({**SAID, "committed_at": 9e12}, 422, "ahead"),
        ({**SAID, "duration_s": "long"}, 422, "$.duration_s"),
        ("[" * 5_000, 422, "no report"),
        (b"\xff\xfe", 422, "no report"),
        ("x" * 10_001, 413, "at most"),
    ],
)
def test_what_is_no_report_is_refused_with_why(reporting, writer, body, status, words):
    answer = send(reporting, body)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True)
    assert save_records.last_report(writer.cluster, "Job/ml/llm") is None


def test_too_many_reports_are_put_off(reporting, monkeypatch):
    monkeypatch.setattr(api.time, "monotonic", lambda: 1_000.0)
    statuses = [send(reporting, SAID).status_code for _ in range(12)]
    assert statuses == [201] * 10 + [429] * 2


def test_the_command_binds_a_token_to_a_workload(people, writer, capsys):
    call_command("token", "viewer", scope="report", cluster=writer.cluster, workload="Job/ml/llm")
    token = ApiToken.objects.get()
    assert (token.scope, token.cluster, token.workload) == (Scope.REPORT, writer.cluster, "Job/ml/llm")
    call_command("token", list=True)
    assert f"{writer.cluster} Job/ml/llm" in capsys.readouterr().out
    for options in ({"scope": "report", "workload": "Job/ml/llm"}, {"scope": "report", "cluster": writer.cluster}):
        with pytest.raises(CommandError, match="needs --cluster and --workload"):
            call_command("token", "viewer", **options)
    with pytest.raises(CommandError, match="--scope report"):
        call_command("token", "viewer", workload="Job/ml/llm")
