"""The pages about checkpoints: the least safe first, what would be lost, one workload, a deep check, and what operators note."""

import time

import msgspec
import pytest

from dashboard import celery, checkpoints
from dashboard.panels import checkpoint as panel_of_one
from dashboard.panels import checkpoint_notes
from dashboard.panels import checkpoints as panel
from dashboard.panels.checkpoint_choice import Choice
from dashboard.panels.words import plain
from fleet import live, save_records
from fleet.act import audit
from fleet.domain.checkpoints import Checkpoint, Components, Format, Note, Presence, Sign, State
from fleet.domain.freshness import Freshness, Standing
from fleet.domain.grants import Grant
from fleet.domain.mtbf import Mtbf, estimate
from fleet.domain.picture import NodeRow, PodRow
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.training import Hook, Record, Signal, Training
from fleet.models import AuditEntry
from tests.dashboard.pictures import nodes

NOW = 1_764_622_800.0
WHOLE = ("present",) * 5
FRESH = CheckpointRow(
    "Job/ml/fresh", "ml", "Language", "fresh", "ok", uri="pvc://ml/ckpt/fresh", source="annotation", durability="durable",
    claim="ml/ckpt", target_s=1800.0, save_cost_s=60.0, newest_at=NOW - 600, newest_step=1000, newest_bytes=41_000_000_000,
    components=WHOLE, resumable_at=NOW - 600, resumable_step=1000, lost_since_at=NOW - 660, step_s=2.0,
)  # fmt: skip
STALE = msgspec.structs.replace(
    FRESH, workload="Job/ml/stale", standing="stale", level="warn", newest_at=NOW - 2400, lost_since_at=NOW - 2460,
    resumable_at=None, components=("present", "empty", "absent", "not-applicable", "unknown"),
)  # fmt: skip
NONE = CheckpointRow(
    "Job/ml/none", "ml", standing="none", level="bad", uri="pvc://ml/ckpt/none", lost_since_at=NOW - 7200
)
HIDDEN = CheckpointRow("Job/ml/hidden", "ml", trouble="not-granted", standing="not-granted", uri="pvc://ml/other/x")
DONE = msgspec.structs.replace(FRESH, workload="Job/ml/done", standing="resting", level="", lost_since_at=None)
ROWS = {row.workload: row for row in (FRESH, STALE, NONE, HIDDEN, DONE)}


def picture(rows=ROWS, at=NOW):
    """Each on four GPUs of one node, but for what is done."""
    pods = {
        f"ml/{row.workload[7:]}-{rank}": PodRow("", "ml", f"{row.workload[7:]}-{rank}", "node-01", gpus=2, workload=key)
        for key, row in rows.items()
        for rank in range(2)
        if row.standing != "resting"
    }
    moved = {key: shifted(row, at - NOW) for key, row in rows.items()}
    return msgspec.structs.replace(nodes(1, node_01=NodeRow("node-01", product="H100")), checkpoints=moved, pods=pods)


def shifted(row, by_s):
    times = ("newest_at", "resumable_at", "lost_since_at")
    moved = {name: None if getattr(row, name) is None else getattr(row, name) + by_s for name in times}
    return msgspec.structs.replace(row, **moved)


def said(value) -> str:
    return plain(value, NOW).replace("\xa0", " ")


class TestTheList:
    jobs = panel.jobs(picture(), estimate(2, 7200 * 3600.0), NOW)

    def test_the_least_safe_come_first(self):
        assert [job.name for job in self.jobs] == ["none", "stale", "hidden", "fresh", "done"]

    def test_the_meter_ends_at_two_targets(self):
        late = {job.name: job.meter for job in self.jobs}
        assert (late["stale"].fill, late["stale"].over, late["stale"].now_min, late["stale"].most_min) == (
            50,
            16.7,
            40,
            60,
        )
        assert (late["fresh"].fill, late["fresh"].over) == (16.7, 0)
        assert late["none"] is late["hidden"] is None

    def test_what_is_lost_counts_every_gpu_of_the_gang_and_unknown_is_never_nothing(self):
        told = {job.name: (said(job.lost), said(job.lost_note)) for job in self.jobs}
        assert told["fresh"] == ("11 min", "0.7 GPU-hours · about 330 steps")
        assert told["none"] == ("2 h", "8.0 GPU-hours")
        assert told["hidden"] == ("unknown", "")
        assert told["done"] == ("nothing", "nothing of it runs")

    def test_the_five_parts_differ_in_more_than_colour(self):
        parts = next(job for job in self.jobs if job.name == "stale").parts
        assert [(part.letter, part.has) for part in parts] == [
            ("W", "yes"), ("O", "empty"), ("L", "no"), ("P", "none"), ("R", "unknown")
        ]  # fmt: skip

    def test_the_best_interval_needs_a_measured_save_and_is_a_bound_without_a_failure(self):
        best = {job.name: (said(job.best), said(job.best_note)) for job in self.jobs}
        assert best["fresh"][1] == ""
        assert best["none"] == ("unknown", "no save measured")
        unfailed = panel.job("Job/ml/fresh", FRESH, panel.Holding(4), estimate(0, 7200 * 3600.0), NOW)
        assert said(unfailed.best).endswith("or more")
        assert said(panel.job("Job/ml/fresh", FRESH, panel.Holding(4), Mtbf(0, 0.0), NOW).best) == "unknown"

    def test_a_date_in_the_future_makes_nothing_look_safe(self):
        ahead = msgspec.structs.replace(FRESH, newest_at=NOW + 900, lost_since_at=NOW + 840, skew_s=900.0)
        job = panel.job("Job/ml/fresh", ahead, panel.Holding(4), Mtbf(0, 0.0), NOW)
        assert (job.meter, said(job.lost)) == (None, "unknown")

    def test_the_sum_leaves_out_what_nobody_knows_and_says_so(self):
        total = panel.total(picture(), NOW)
        assert (said(total.tag), total.level) == ("2 of 4 behind target", "bad")
        told = " ".join(said(one) for one in total.sentences)
        assert "2 h 52 min of training in 3 jobs would be done again, 11.5 GPU-hours" in told
        assert "Of 1 job nobody knows what it would lose" in told

    def test_nothing_is_called_safe_that_nobody_has_looked_at(self):
        total = panel.total(picture({"Job/ml/hidden": HIDDEN}), NOW)
        assert (said(total.tag), total.level) == ("none known to be behind target", "off")

    def test_reasons_are_told_with_what_to_do(self):
        row = msgspec.structs.replace(
            STALE, abandoned=2, abandoned_bytes=5_000_000, saving_bytes=10, saving_step=7, tracker="latest", tracker_says="x",
            skew_s=4.0, broken_state="corrupt", broken_file="a.pt", unread=("vigie.dev/checkpoint-interval",), reported_at=NOW,
        )  # fmt: skip
        kinds = [each.kind for each in panel.concerns({row.workload: row, "Job/ml/hidden": HIDDEN})]
        assert {"broken", "conflict", "skew", "abandoned", "annotations", "saving", "not-granted", "reported-too"} <= {
            *kinds
        }
        assert kinds[0] == "broken"
        anybody = msgspec.structs.replace(FRESH, standing="unknown", trouble="shared", lost_since_at=None)
        assert [each.kind for each in panel.concerns({anybody.workload: anybody})] == ["shared"]

    def test_every_standing_has_its_place_and_word(self):
        assert {*panel.ORDER} == {each.value for each in Standing}


def seen(key: str, *found: Checkpoint) -> Freshness:
    return Freshness(Training(key, "ml"), Standing.FRESH, time.time(), read=True, checkpoints=found)


CHECKPOINT = Checkpoint(
    "fresh/step-1000", Format.DCP, State.COMPLETE, 1000, NOW, components=Components(*[Presence.PRESENT] * 5),
    size_bytes=1000, files=3, notes=(Note(Sign.ASIDE, "fresh/step-1000/x"),),
)  # fmt: skip
ONE = "/c/{cluster}/checkpoints/Job/ml/fresh/"


@pytest.mark.db
class TestPages:
    @pytest.fixture(autouse=True)
    def shown(self, writer):
        now = time.time()
        writer.publish(picture(at=now))
        found = {"Job/ml/fresh": seen("Job/ml/fresh", CHECKPOINT)}
        live.saves().publish(writer.cluster, live.Scan("one", now, 0.1, ROWS), found)
        checkpoints._observed.clear()

    def test_the_list_and_its_live_part(self, as_person, writer):
        viewer = as_person("viewer")
        page = viewer.get(f"/c/{writer.cluster}/checkpoints/").content.decode()
        part = viewer.get(f"/c/{writer.cluster}/checkpoints/?part=live").content.decode()
        assert 'data-behaviour="follow"' in page
        assert "2 of 4 behind target" in page
        assert "<html" not in part
        assert 'data-follow="checkpoints"' in part
        assert "workload=Job%2Fml%2Ffresh&amp;gpus=4&amp;interval=30m" in part, "the cadence page, filled in"

    def test_the_list_narrowed(self, as_person, writer):
        person, address = as_person("viewer"), f"/c/{writer.cluster}/checkpoints/"
        page = person.get(f"{address}?show=behind&part=live").content.decode()
        assert 'data-key="Job/ml/stale"' in page
        assert 'data-key="Job/ml/fresh"' not in page
        assert "No job matches." in person.get(f"{address}?q=nobody").content.decode()

    def test_one_workload(self, as_person, writer):
        page = as_person("viewer").get(ONE.format(cluster=writer.cluster)).content.decode()
        assert "pvc://ml/ckpt/fresh" in page
        assert "its name is none that a trainer goes on from" in page
        assert "Read every byte" not in page, "that takes an operator"
        assert as_person("viewer").get(f"/c/{writer.cluster}/checkpoints/Job/ml/nobody/").status_code == 404

    def test_a_deep_check_is_asked_for_and_shows_how_far_it_is(self, as_person, writer, monkeypatch):
        asked = []
        monkeypatch.setattr(celery, "check_soon", lambda *args: asked.append(args) or True)
        operator, one = as_person("operator"), ONE.format(cluster=writer.cluster)
        assert "Read every byte" in operator.get(one).content.decode()
        assert operator.post(f"{one}check/", {"path": "../etc"}).status_code == 404
        assert operator.post(f"{one}check/", {"path": "fresh/step-1000"}).status_code == 302
        assert asked == [(writer.cluster, "Job/ml/fresh", "fresh/step-1000", "operator")]
        page = operator.get(one).content.decode()
        assert '<progress max="100" value="0"' in page
        assert "begun by operator" in page
        monkeypatch.setattr(celery, "check_soon", lambda *_: False)
        assert operator.post(f"{one}check/", {"path": "fresh/step-1000"}).status_code == 503

    def test_a_note_is_kept_audited_shown_and_taken_back(self, as_person, writer):
        operator, one = as_person("operator"), ONE.format(cluster=writer.cluster)
        form = {"uri": "/checkpoints/run-1", "format": "lightning", "interval": "30m"}
        assert operator.post(f"{one}note/", form).status_code == 302
        assert save_records.notes(writer.cluster)["Job/ml/fresh"] == Record("/checkpoints/run-1", "lightning", 1800.0)
        entry = AuditEntry.objects.get(what="noted-checkpoints")
        assert (entry.actor, entry.target, entry.facts["interval_s"]) == ("operator", "Job/ml/fresh", 1800)
        assert audit.verify().broken is None
        page = operator.get(one).content.decode()
        assert 'value="/checkpoints/run-1"' in page
        assert operator.post(f"{one}note/", {}).status_code == 302
        assert "Job/ml/fresh" not in save_records.notes(writer.cluster)

    def test_a_note_that_makes_no_sense_is_told_at_its_field_and_not_kept(self, as_person, writer):
        operator, one = as_person("operator"), ONE.format(cluster=writer.cluster)
        refused = operator.post(f"{one}note/", {"uri": "s3://elsewhere/x", "interval": "soon"})
        page = refused.content.decode()
        assert refused.status_code == 422
        assert 'aria-describedby="uri-e"' in page
        assert 'aria-describedby="interval-e"' in page
        assert 'value="s3://elsewhere/x"' in page
        assert 'data-behaviour="follow"' not in page, "what was typed stays"
        assert save_records.notes(writer.cluster) == {}
        assert as_person("viewer").post(f"{one}note/", {"uri": "/x"}).status_code == 403


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("/checkpoints/run", ""),
        ("s3://bucket/ml/run", ""),
        ("s3://bucket/mlx", "ckpt.form.not-granted"),
        ("pvc://ml/other", "ckpt.form.not-granted"),
        ("/checkpoints/../etc", "ckpt.form.place"),
        ("checkpoints", "ckpt.form.place"),
        ("http://metadata/x", "ckpt.form.place"),
        ("/a\nb", "ckpt.form.place"),
    ],
)
def test_what_may_be_noted_is_what_the_policy_covers(uri, wrong):
    granted = (Grant(namespace="ml", bucket="s3://bucket/ml"),)
    record, errors = checkpoint_notes.checked(checkpoint_notes.Typed(uri), "ml", granted)
    assert (errors["uri"].key if errors else "") == wrong
    assert record.uri == uri


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ({}, {"fresh", "stale", "none", "hidden", "done"}),
        ({"show": "behind"}, {"stale", "none"}),
        ({"show": "unseen"}, {"hidden"}),
        ({"show": "well"}, {"fresh"}),
        ({"show": "resting"}, {"done"}),
        ({"show": "no such thing"}, {"fresh", "stale", "none", "hidden", "done"}),
        ({"q": " NONE "}, {"none"}),
        ({"team": "Language", "show": "behind"}, {"stale"}),
        ({"namespace": "web"}, set()),
    ],
)
def test_the_page_shows_what_is_asked_for(query, kept):
    assert {key.rpartition("/")[2] for key in Choice.of_query(query).of(ROWS)} == kept


def test_the_command_asks_the_first_rank_that_runs():
    def pod(name, status="Running", workload="Job/ml/llm"):
        return PodRow("", "ml", name, "node-01", status, workload=workload)

    rows = {
        f"ml/{row.name}": row
        for row in (pod("llm-0", "Failed"), pod("llm-10"), pod("llm-2"), pod("alone", workload=""))
    }
    http, signal = Hook(8080, "/save it"), Hook(signal=Signal.USR1, container="train")
    asked = (("Job/ml/llm", http), ("Pod/ml/alone", signal), ("Job/ml/llm", None), ("Job/ml/gone", http))
    found = [Freshness(Training(key, "ml", hook=hook), Standing.FRESH, NOW) for key, hook in asked]
    said = [panel_of_one.by_hand(one.training.workload, rows, one) for one in found]
    assert said == [
        "kubectl create --raw '/api/v1/namespaces/ml/pods/llm-2:8080/proxy/save it' -f /dev/null",
        "kubectl exec -n ml alone -c train -- kill -USR1 1", "", "",
    ]  # fmt: skip
    assert panel_of_one.by_hand("Job/ml/llm", rows, None) == ""


@pytest.mark.db
def test_before_anybody_has_looked_nothing_is_said_of_who_trains(as_person, writer):
    writer.publish(nodes(1))
    address, person = f"/c/{writer.cluster}/checkpoints/", as_person("viewer")
    assert "Nobody has looked at checkpoints yet" in person.get(address).content.decode()
    live.saves().publish(writer.cluster, live.Scan("one", 0.0), {})
    assert "No workload trains here" in person.get(address).content.decode()
