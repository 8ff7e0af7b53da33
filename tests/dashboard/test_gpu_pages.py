"""The pages about GPUs and what the API says of the past, over a ledger that is written by hand."""

import csv
import io
import time

import pytest

from dashboard import ledger as book
from fleet import history
from fleet.domain.gpus import NA
from fleet.domain.spans import Sample
from fleet.domain.verdicts import Transition
from tests.browser import demo, demo_gpus, demo_ledger
from tests.dashboard.pictures import Writer

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db]
SESSION_USER_GROUPS = 3
H = 3_600.0
LOST = demo_gpus.uuid("node-12", 6)


@pytest.fixture
def shown(clusters) -> Writer:
    writer = Writer(clusters[0])
    writer.publish(demo.now())
    return writer


@pytest.fixture
def get(as_person, shown):
    client = as_person("viewer")
    return lambda path, **extra: client.get(f"/c/{shown.cluster}/{path}", headers={"accept-language": "en"}, **extra)


@pytest.fixture
def api(as_person, shown):
    client = as_person("viewer")
    return lambda path, **headers: client.get(f"/api/v1/{path}", headers=headers)


@pytest.fixture
def now() -> float:
    return time.time()


def change(gpu: str, at: float, before: str, after: str, **more: object) -> Transition:
    facts: dict[str, object] = {
        "node": "node-12",
        "evidence": {"index": 6, "pci": "0000:1d:00.0", "name": "NVIDIA H100"},
    }
    return Transition(gpu=gpu, at=at, from_state=before, to_state=after, **(facts | more))  # type: ignore[arg-type]


@pytest.fixture
def ledger(shown, now) -> list[Transition]:
    """One GPU that was lost ten hours ago and is still, one that was reset, and one that is gone."""
    told = [
        change(LOST, now - 110 * H, "", "ok"),
        change(LOST, now - 10 * H, "ok", "lost", reason="xid-79"),
        change("GPU-b", now - 100 * H, "", "ok", node="node-13"),
        change("GPU-b", now - 50 * H, "ok", "reset-required", reason="xid-95", node="node-13"),
        change("GPU-b", now - 49 * H, "reset-required", "ok", reason="xid-95", closes="reset", node="node-13"),
        change("GPU-gone", now - 90 * H, "", "ok"),
        change("GPU-gone", now - 80 * H, "ok", "", closes="replaced"),
    ]
    history.record(shown.cluster, told, {"node-12": "NVIDIA-H100-80GB-HBM3", "node-13": "NVIDIA-A100-SXM4-80GB"})
    return told


def test_a_gpus_page_says_verdict_action_evidence_and_story(get, ledger):
    html = get(f"gpus/{LOST}/").content.decode()
    for words in (
        "Xid 79. The driver cannot reach it any more.", "kubectl drain node-12 --ignore-daemonsets", "systemctl reboot",
        "79, GPU has fallen off the bus.", "Healthy → Lost", "16533240126",
    ):  # fmt: skip
        assert words in html, words


def test_a_gpu_that_is_gone_is_found_in_the_ledger(get, ledger):
    response = get("gpus/GPU-gone/")
    html = response.content.decode()
    assert response.status_code == 200
    assert "Nothing reports this GPU now" in html
    assert "ended: the board was replaced" in html
    assert get("gpus/GPU-never/").status_code == 404


@pytest.mark.parametrize("span", ["1h", "24h", "7d", "<b>"])
def test_lines_of_every_span_from_the_ledger(get, shown, now, span):
    minute = int(now // 60)
    told = [("node-12", minute - back, {LOST: Sample(50, 60, 40, 300, 4_096)}) for back in range(1, 100)]
    history.record_minutes(shown.cluster, told)
    html = get(f"gpus/{LOST}/?span={span}").content.decode().replace("\u00a0", " ")
    assert ("50 % all the time" in html) == (span in {"24h", "7d"})
    assert "span=<b>" not in html


@pytest.mark.parametrize("path", [f"gpus/{LOST}/", "gpus/GPU-gone/", f"gpus/{LOST}/?span=7d", "availability/",
                                  "availability/?by=product&window=90d", "availability/?by=gpu&sort=open"])  # fmt: skip
def test_pages_of_the_ledger_ask_few_questions(get, ledger, path, django_assert_max_num_queries):
    with django_assert_max_num_queries(SESSION_USER_GROUPS + 6):
        assert get(path).status_code == 200


def test_questions_do_not_grow_with_the_fleet(get, shown, now, django_assert_max_num_queries):
    many = [change(f"GPU-{i}", now - 10 * H, "", "ok", node=f"n-{i // 8}") for i in range(800)]
    history.record(shown.cluster, many, {})
    with django_assert_max_num_queries(SESSION_USER_GROUPS + 6):
        html = get("availability/?by=gpu").content.decode()
    assert "1 to 100 of 800" in html


def test_the_availability_page_says_window_unit_and_what_is_open(get, ledger):
    html = get("availability/?by=node&window=7d").content.decode().replace("\u00a0", " ")
    for words in ("last 7 d", "GPU-h", "1 open", "node-12", "node-13", "Xid 79", f"/gpus/{LOST}/"):
        assert words in html, words


def test_the_availability_of_nothing_is_a_sentence(get):
    html = get("availability/").content.decode()
    assert "The ledger knows no GPU in this window." in html
    assert "never known" in html


# --- The API -------------------------------------------------------------------------------------------------------------------
def test_availability_for_programs(api, ledger):
    answer = api("availability?by=gpu&window=7d").json()
    assert answer["until"] - answer["since"] == 7 * 86_400
    items = {item["name"]: item for item in answer["items"]}
    assert next(iter(items)) == LOST, "the worst first"
    assert items[LOST]["failures"] == 1
    assert [one["reason"] for one in items[LOST]["open"]] == ["xid-79"]
    assert items[LOST]["mttr_s"] is None
    assert items["GPU-b"]["mttr_s"] == pytest.approx(H, abs=1)
    assert items["GPU-gone"]["mtbf_at_least_s"] == pytest.approx(10 * H / 3, abs=1)
    by_product = {item["name"]: item["gpus"] for item in api("availability?by=product").json()["items"]}
    assert by_product == {"H100": 2, "A100": 1}


def test_an_incident_from_before_the_window_is_as_old_as_it_is(api, shown, now):
    """Also when the last that was told before the window is of another finding."""
    told = [
        change(LOST, now - 50 * H, "", "ok"),
        change(LOST, now - 40 * H, "ok", "lost", reason="xid-79"),
        change(LOST, now - 30 * H, "lost", "lost", reason="ecc-uncorrected"),
        change("GPU-b", now - 40 * H, "ok", "lost", reason="xid-79"),
        change("GPU-b", now - 30 * H, "lost", "unknown", reason="readings-silent"),
        change("GPU-b", now - 4 * H, "unknown", "ok", reason="xid-79", closes="reboot"),
    ]
    history.record(shown.cluster, told, {})
    items = {item["name"]: item for item in api("availability?by=gpu&window=24h").json()["items"]}
    (open_,) = items[LOST]["open"]
    assert (open_["since_at"], open_["reason"]) == (pytest.approx(now - 40 * H, abs=1), "xid-79")
    assert items["GPU-b"]["mttr_s"] == pytest.approx(36 * H, abs=1), "not knowing does not end it"


def test_a_gpu_that_nothing_happened_to_for_months_was_there_all_the_time(shown, now):
    history.record(shown.cluster, [change(LOST, now - 100 * 24 * H, "", "ok")], {})
    assert book.of_one(shown.cluster, LOST, [], now).up_s == pytest.approx(book.REMEMBERED_S)


def test_availability_as_a_table(api, ledger):
    response = api("availability?by=gpu&format=csv")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(response.content.decode()))}
    assert (rows[LOST]["node"], rows[LOST]["open"], rows[LOST]["mttr_s"]) == ("node-12", "1", "")


def test_no_name_is_a_formula(api, shown, now):
    history.record(shown.cluster, [change("=1+1", now - H, "", "ok")], {})
    assert "\n'=1+1," in api("availability?by=gpu&format=csv").content.decode().replace("\r", "")


def test_an_answer_that_is_known_already_is_not_sent_again(api, ledger):
    for path in ("transitions?since=0&until=10000000", f"gpus/{LOST}/history?since=0&until=10000000"):
        etag = api(path).headers["ETag"]
        assert api(path, **{"if-none-match": etag}).status_code == 304


def test_transitions_come_in_time_and_in_parts(api, ledger):
    found, after = [], ""
    while after is not None:
        answer = api(f"transitions?limit=2&after={after}").json()
        assert answer["total"] == len(ledger)
        found += answer["items"]
        after = answer["next"]
    assert [(one["gpu"], one["to_state"]) for one in found] == [
        (one.gpu, one.to_state) for one in sorted(ledger, key=lambda one: one.at)
    ]
    assert {one["gpu"] for one in api("transitions?node=node-13").json()["items"]} == {"GPU-b"}
    assert len(api(f"transitions?gpu={LOST}").json()["items"]) == 2


def test_history_for_programs_keeps_unknown_and_not_applicable(api, shown, ledger, now):
    minute = int(now // 60)
    history.record_minutes(shown.cluster, [("node-12", minute - 2, {LOST: Sample(None, None, NA, 300, 4_096)})])
    answer = api(f"gpus/{LOST}/history?span=minute").json()
    assert (answer["node"], answer["span_s"]) == ("node-12", 60)
    ((point),) = answer["items"]
    assert point == {"at": 60.0 * (minute - 2), "sample": [None, None, "n/a", 300, 4_096]}
    assert api("gpus/GPU-never/history").status_code == 404


@pytest.mark.parametrize("query", ["since=5&until=5", "since=0&until=99999999", "since=-1", "until=x", "limit=0"])
def test_a_time_has_bounds(api, ledger, query):
    response = api(f"transitions?{query}")
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"


def test_another_clusters_ledger_is_not_told(api, as_person, clusters, ledger):
    assert api(f"transitions?cluster={clusters[1]}").json()["items"] == []
    assert api("transitions?cluster=elsewhere").status_code == 404


def test_the_demo_ledger_is_one(shown, get):
    demo_ledger.write(shown.cluster, shown.snapshot, time.time())
    assert get(f"gpus/{demo_ledger.GONE}/").status_code == 200
    assert "no data for" in get(f"gpus/{demo_gpus.uuid('node-12', 3)}/?span=24h").content.decode()
