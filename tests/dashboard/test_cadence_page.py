"""The page about how often to save: a form that works by itself, answers from what is entered or from the ledger."""

import time
from urllib.parse import parse_qsl, urlsplit

import pytest

from fleet import history, save_records
from fleet.domain.checkpoints import Checkpoint, Format, State
from fleet.domain.verdicts import Transition
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db]
H = 3_600.0
LESSON = "?save_cost=3m&mtbf=24h&interval=30m+2h&horizon=40h&grace=60s"


@pytest.fixture
def cluster(clusters) -> str:
    writer = Writer(clusters[0])
    writer.publish(nodes(1))
    return writer.cluster


@pytest.fixture
def get(as_person, cluster):
    client = as_person("viewer")

    def page(query: str = "", lang: str = "en", path: str = "cadence/") -> str:
        response = client.get(f"/c/{cluster}/{path}{query}", headers={"accept-language": lang})
        assert response.status_code == 200
        return response.content.decode().replace("\u00a0", " ")

    return page


@pytest.fixture
def observed(cluster) -> None:
    """A GPU that was up for 400 hours with one failure of a minute."""
    now = time.time()
    told = [
        Transition(gpu="GPU-a", node="node-01", at=now - 400 * H, from_state="", to_state="ok"),
        Transition(gpu="GPU-a", node="node-01", at=now - 200 * H, from_state="ok", to_state="lost", reason="xid-79"),
        Transition(
            gpu="GPU-a", node="node-01", at=now - 200 * H + 60, from_state="lost", to_state="ok", closes="reset"
        ),
    ]
    history.record(cluster, told, {})


def test_the_availability_page_leads_here_and_back(get, cluster):
    assert f'href="/c/{cluster}/cadence/"' in get(path="availability/")
    assert f'href="/c/{cluster}/availability/"' in get()


def test_nothing_entered_is_a_form_and_an_example(get):
    html = get()
    assert 'name="save_cost"' in html
    assert LESSON.replace("&", "&amp;") in html
    assert "the ledger knows no time in which a GPU was up" in html
    assert 'class="kpis' not in html


def test_the_lessons_run(get):
    html = get(LESSON)
    for words in (
        "Save every 1 h 31 min.", "√(2 × 3 min × 24 h) = 1 h 33 min", "saved at the end, saves extend the run", "43 h 57 min",
        "9.88 %", "too long by 2 min 30 s", "best, 1 h 31 min: 6.74 %", 'value="30m 2h"', "as entered",
    ):  # fmt: skip
        assert words in html, words


def test_the_lessons_run_in_french(get):
    html = get(LESSON, "fr")
    for words in (
        "Sauvegarder toutes les 1 h 31 min.",
        "9,88 %",
        "comme A, sans sauvegarde à la fin",
        "Surcoût selon l’intervalle",
    ):
        assert words in html, words


def test_the_ledgers_failures_with_window_and_uncertainty(get, observed):
    html = get("?save_cost=3m&gpus=8&window=90d")
    for words in (
        "On 8 GPUs it fails every 50 h",
        "95 % sure",
        "1 failure in 400 GPU-h up",
        "last 90 d",
        'placeholder="50h"',
    ):
        assert words in html, words
    assert "from the ledger" in html


def test_what_is_wrong_is_said_and_stays_in_the_form(get):
    html = get("?save_cost=%3Cb%3E&mtbf=24h")
    assert 'value="&lt;b&gt;"' in html
    assert 'aria-invalid="true" aria-describedby="save_cost-e"' in html
    assert "is not a duration" in html
    assert 'class="kpis' not in html


def test_what_programs_get_is_one_click_away_and_the_same(get, as_person):
    html = get(LESSON + "&interval=1h")
    link = html.split('href="/api/v1/cadence?')[1].split('"')[0].replace("&amp;", "&")
    assert [value for name, value in parse_qsl(link) if name == "interval_s"] == ["1800", "7200", "3600"]
    found = as_person("viewer").get("/api/v1/cadence?" + link).json()
    assert [one["interval_s"] for one in found["overheads"]][1:] == [1_800, 3_600, 7_200]
    assert urlsplit(link).scheme == ""


def test_the_page_asks_few_questions(as_person, cluster, observed, django_assert_max_num_queries):
    client = as_person("viewer")
    with django_assert_max_num_queries(8):
        client.get(f"/c/{cluster}/cadence/{LESSON}")


@pytest.fixture
def saved(cluster) -> str:
    """A workload that was seen to save every 10 minutes, for 40 s each time."""
    found = [
        (Checkpoint(f"step-{n}", Format.DCP, State.COMPLETE, n, time.time() - 3_000 + n * 600), 40.0) for n in range(4)
    ]
    save_records.see(cluster, "Job/ml/llm", "pvc://ml/ckpt", found, time.time())
    return "Job/ml/llm"


def test_a_workload_whose_saves_were_seen_says_how_long_one_takes(get, saved):
    html = get(f"?workload={saved}&mtbf=24h")
    assert "measured: median of the last 4 saves of Job/ml/llm" in html
    assert "<option selected>Job/ml/llm</option>" in html
    assert "save_cost_s=40" in html, "the same question to the API"
    assert "as entered" in html
    assert "median of the last" not in get(f"?workload={saved}&mtbf=24h&save_cost=3m")
    assert "nobody has seen how long a save of this workload takes" in get("?workload=Job/ml/other&mtbf=24h")
