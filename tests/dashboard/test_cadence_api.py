"""What programs are told about how often to save, with a time between failures that they give, or from a ledger by hand."""

import time

import pytest
from django.test import Client

from fleet import history, save_records
from fleet.domain.checkpoints import Checkpoint, Format, State
from fleet.domain.verdicts import Transition
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db]
H = 3_600.0
LESSON = "save_cost_s=180&mtbf_s=86400&interval_s=1800&interval_s=7200&horizon_s=144000&grace_s=60"


@pytest.fixture
def client(as_person) -> Client:
    return as_person("viewer")


@pytest.fixture
def cluster(clusters) -> str:
    writer = Writer(clusters[0])
    writer.publish(nodes(1))
    return writer.cluster


def lived(cluster: str, gpu: str, hours: float, failures: int = 0) -> None:
    """A GPU that was up for so long until now, but for so many resets of a minute."""
    now = time.time()
    told = [Transition(gpu=gpu, node="node-01", at=now - hours * H, from_state="", to_state="ok")]
    for i in range(failures):
        at = now - (i + 1) * hours * H / (failures + 1)
        told.append(Transition(gpu=gpu, node="node-01", at=at, from_state="ok", to_state="lost", reason="xid-79"))
        told.append(Transition(gpu=gpu, node="node-01", at=at + 60, from_state="lost", to_state="ok", closes="reset"))
    history.record(cluster, sorted(told, key=lambda one: one.at), {})


def test_the_lessons_run(client, cluster):
    found = client.get(f"/api/v1/cadence?{LESSON}").json()
    assert (found["cluster"], found["observed"], found["mtbf_s"]) == (cluster, None, 86_400)
    assert found["young_s"] / 60 == pytest.approx(92.95, abs=0.01)
    assert found["optimum_s"] / 60 == pytest.approx(90.96, abs=0.01)
    assert [one["interval_s"] for one in found["overheads"]] == [found["optimum_s"], 1_800, 7_200]
    assert [one["most_wall_s"] for one in found["losses"]][1:] == [1_980, 7_380]
    assert [(one["convention"], one["saves"]) for one in found["savings"]] == [
        ("A", 80), ("B", 79), ("C", 72), ("A", 20), ("B", 19), ("C", 19),
    ]  # fmt: skip
    assert [one["of_work_pct"] for one in found["savings"]][:2] == [10.0, 9.88]
    assert found["break_evens"][0]["exponential_s"] / 60 == pytest.approx(649.98, abs=0.01)
    assert found["fits"][-1] == {"notice": "grace", "lead_s": 60, "fits": False, "spare_s": -120}


def test_the_ledgers_time_between_failures_is_divided_by_the_gpus_of_the_run(client, cluster):
    lived(cluster, "GPU-a", 400, failures=3)
    lived(cluster, "GPU-b", 600)
    found = client.get("/api/v1/cadence?save_cost_s=180&gpus=8").json()
    observed = found["observed"]
    assert observed["failures"] == 3
    assert observed["observed_s"] / H == pytest.approx(1_000, abs=0.2)
    assert found["mtbf_s"] == observed["mean_s"]
    assert observed["mean_s"] / H == pytest.approx(1_000 / 3 / 8, rel=0.001)
    assert observed["least_s"] < observed["mean_s"] < observed["most_s"]


def test_without_a_failure_the_bound_is_planned_with(client, cluster):
    lived(cluster, "GPU-a", 300)
    found = client.get("/api/v1/cadence?save_cost_s=180").json()
    assert (found["observed"]["mean_s"], found["observed"]["most_s"]) == (None, None)
    assert found["mtbf_s"] / H == pytest.approx(100, rel=0.001)


def test_a_window_of_the_ledger(client, cluster):
    lived(cluster, "GPU-a", 1_000, failures=9)
    week, month = (client.get(f"/api/v1/cadence?save_cost_s=180&window={w}").json() for w in ("7d", "30d"))
    assert week["observed"]["failures"] == 1
    assert month["observed"]["failures"] == 7
    assert month["until"] - month["since"] == 30 * 86_400


def test_a_ledger_that_knows_nothing_says_so(client, cluster):
    response = client.get("/api/v1/cadence?save_cost_s=180")
    assert response.status_code == 422
    assert response.headers["Content-Type"].startswith("application/problem+json")
    assert "`mtbf_s` is needed" in response.json()["detail"]


@pytest.mark.parametrize("query", [
    "", "save_cost_s=0&mtbf_s=1", "save_cost_s=nan&mtbf_s=1", "save_cost_s=inf&mtbf_s=1", "save_cost_s=5m&mtbf_s=1",
    "save_cost_s=1&mtbf_s=-1", "save_cost_s=1&mtbf_s=1&gpus=0", "save_cost_s=1&mtbf_s=1&interval_s=0",
    "save_cost_s=1&mtbf_s=1&interval_s=nan", "save_cost_s=1&mtbf_s=1" + "&interval_s=5" * 13, "save_cost_s=1&mtbf_s=1&window=1y",
])  # fmt: skip
def test_what_is_out_of_bounds_is_a_problem(client, cluster, query):
    response = client.get(f"/api/v1/cadence?{query}")
    assert response.status_code == 422
    assert response.headers["Content-Type"].startswith("application/problem+json")


def test_what_practically_never_ends_is_null(client, cluster):
    found = client.get("/api/v1/cadence?save_cost_s=1&mtbf_s=1&interval_s=1e6").json()
    assert found["overheads"][1]["overhead"] is None


def test_another_clusters_ledger_is_not_told(client, cluster, clusters):
    lived(clusters[1], "GPU-a", 300)
    assert client.get("/api/v1/cadence?save_cost_s=180").status_code == 422


def test_the_saves_of_a_workload_say_how_long_one_takes(client, cluster):
    found = [(Checkpoint("step-1", Format.DCP, State.COMPLETE, 1, time.time() - 60), 40.0)]
    save_records.see(cluster, "Job/ml/llm", "s3://runs/ml", found, time.time())
    answer = client.get("/api/v1/cadence?workload=Job/ml/llm&mtbf_s=86400")
    assert answer.json()["save_cost_s"] == 40.0
    refused = client.get("/api/v1/cadence?workload=Job/ml/other&mtbf_s=86400")
    assert (refused.status_code, "`save_cost_s` is needed" in refused.json()["detail"]) == (422, True)
