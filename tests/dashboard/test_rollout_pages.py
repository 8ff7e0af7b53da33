"""The pages about rollouts: how each stands, pods within their bounds, every reason and way out in words, the advice."""

import re
import string
import time

import msgspec
import pytest
from django.utils import translation

from dashboard import crash_logs
from dashboard.panels import (
    revisions,
    rollout,
    rollout_line,
    rollout_pods,
    rollout_reasons,
    rollouts,
    strategies,
    words,
)
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.plurals import Many
from dashboard.panels.rollouts import Choice, Standing
from dashboard.roles import Role
from fleet.act import histories
from fleet.domain import rollout_detail
from fleet.domain.holdups import Cause
from fleet.domain.revisions import Revision, Workload, edit
from fleet.domain.rollout_detail import Detail, Explained
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from fleet.domain.rollouts import Bounds, Remark, Step, Verdict
from fleet.domain.stages import Stage
from fleet.domain.strategy import Doubt, Ground, Kind, advise
from fleet.domain.ways_out import Remedy, Way
from fleet.logs import LastWords
from fleet.ports import PortError
from tests.browser import demo, demo_rollouts
from tests.dashboard.pictures import Writer
from tests.dashboard.test_pages import Page

NOW = demo.NOW
HELD = demo_rollouts.HELD
SNAPSHOT = demo_rollouts.shown(demo.snapshot(NOW), NOW)


def told(value: words.Value) -> str:
    with translation.override("en"):
        return words.plain(value, NOW)


def detail(key: str = HELD, **changed: object) -> Detail:
    found = rollout_detail.detail(SNAPSHOT, key)
    assert found is not None
    return msgspec.structs.replace(found, row=msgspec.structs.replace(found.row, **changed)) if changed else found


# --- Words ---------------------------------------------------------------------------------------------------------------------
def test_every_token_of_the_domain_has_words():
    wanted = {f"{kind}.{cause}" for cause in Cause for kind in ("rollouts.cause", "rollout.cause")}
    wanted |= {f"way.{remedy}{part}" for remedy in Remedy for part in ("", ".does")}
    wanted |= {f"rollouts.state.{one}" for one in Standing} | {f"rollout.tag.{one}" for one in Standing}
    wanted |= {f"rollout.step.{step}" for step in Step if step} | {f"rollout.remark.{remark}" for remark in Remark}
    wanted |= {f"rollouts.stage.{stage}" for stage in Stage if stage is not Stage.ENDED}
    wanted |= {f"rollout.pod.{stage}" for stage in Stage if stage is not Stage.ENDED}
    wanted |= {f"strategy.{kind}" for kind in Kind} | {f"strategy.doubt.{doubt}" for doubt in Doubt}
    assert wanted - MESSAGES.keys() == {"strategy.doubt.stopping"} - MESSAGES.keys()


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("facts", [(), (("gpus", 8), ("container", "server"), ("reason", "X"), ("exit_code", 137),
                                        ("restarts", 4), ("budget", "llm"), ("observed", 2), ("wanted", 3), ("budget_s", 60),
                                        ("old_ready_after_s", 190), ("coming", 1), ("leaving", 2), ("may_go", 3))])  # fmt: skip
def test_every_reason_and_way_can_be_said_with_its_facts_and_without(cause, facts):
    ways = tuple(
        Way(
            remedy,
            "node-16",
            3,
            ("ml/a", "ml/b", "ml/c", "ml/d"),
            ("llm",),
            (("by", "l.moreau"), ("since_at", NOW - 90)),
        )
        for remedy in Remedy
    )
    held = HoldupRow(cause, "bad", 3, "ml/llm-chat-1", NOW - 60, "words <b>", facts)
    (found,) = rollout_reasons.reasons(msgspec.structs.replace(detail(), holdups=(Explained(held, ways),)))
    said = [told(found.title), told(found.notes), told(found.details)]
    for way in found.ways:
        said += [told(way.title), told(way.text), told(way.note), told(way.command)]
    assert not [text for text in said if re.search(r"[{}]", text)]
    assert found.evidence == "words <b>"
    assert [way.node for way in found.ways if way.node] == ["node-16"] * 3
    assert [way.does for way in found.ways if way.does] == ["resume", "uncordon", "undo"]


@pytest.mark.parametrize(("cause", "option"), [("crash", " --previous"), ("probe", "")])
def test_the_log_is_that_of_the_container_that_failed(cause, option):
    ways = (Way(Remedy.READ_LOG, "ml/llm-chat-1"),)
    held = HoldupRow(cause, "bad", 1, "ml/llm-chat-1")
    (found,) = rollout_reasons.reasons(msgspec.structs.replace(detail(), holdups=(Explained(held, ways),)))
    assert told(found.ways[0].command) == f"kubectl logs -n ml llm-chat-1{option}"


def test_a_pattern_has_no_hole_that_nobody_fills():
    """Counts are named n, so the two forms of a pattern have the same holes."""
    for key, found in MESSAGES.items():
        if key.startswith(("rollout", "way.", "strategy.")) and isinstance(found, Many):
            one, other = (
                {name for _, name, _, _ in string.Formatter().parse(form) if name} for form in (found.one, found.other)
            )
            assert one == other, key


# --- The list ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (RolloutRow("Deployment", verdict=Verdict.FAILED), Standing.HELD),
        (RolloutRow("Deployment", verdict=Verdict.ROLLING, holdups=(HoldupRow("crash", "bad"),)), Standing.HELD),
        (RolloutRow("DaemonSet", holdups=(HoldupRow("crash", "bad"),)), Standing.HELD),  # kubectl calls it done
        (RolloutRow("Deployment", verdict=Verdict.ROLLING, holdups=(HoldupRow("probe", "warn"),)), Standing.WAITS),
        (RolloutRow("Deployment", verdict=Verdict.PAUSED, holdups=(HoldupRow("paused", "note"),)), Standing.PAUSED),
        (RolloutRow("StatefulSet", verdict=Verdict.MANUAL, old=1), Standing.MANUAL),
        (RolloutRow("StatefulSet", verdict=Verdict.MANUAL), Standing.DONE),
        (RolloutRow("Deployment", remarks=("terminating",)), Standing.LEFT),
        (RolloutRow("Deployment"), Standing.DONE),
    ],
)
def test_how_a_rollout_stands(row, expected):
    assert rollouts.standing(row) is expected


def test_those_in_progress_come_first_and_the_longest_held_up_leads():
    names = [row.key.rsplit("/", 1)[-1] for row in rollouts.rows(SNAPSHOT.rollouts, Choice())]
    assert names == ["llm-chat", "graph-rank", "asr-batch", "embed-api", "gateway", "rl-policy", "rl-policy-2", "ocr-api",
                     "dcgm-exporter", "notebooks"]  # fmt: skip
    assert rollouts.moving(SNAPSHOT.rollouts) == 7
    assert told(rollouts.counts(SNAPSHOT.rollouts, Choice(of="held"))) == "3 workloads · 3 in progress · 3 held up"


# --- Pods now ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("was", "version"), [("1", "2"), ("2", "2")])
def test_a_paused_version_that_has_no_pods_yet_leads_from_nothing_to_itself(was, version):
    row = RolloutRow("Deployment", verdict=Verdict.PAUSED, was=was, revision=version, old=2)
    (shown,) = rollouts.rows({"Deployment/ml/llm": row}, Choice())
    assert told(shown.cells["version"]) == ("1 → 2" if was != version else "2")


def test_the_pods_of_the_mock_stand_within_their_bounds():
    """10 wanted, at most 13, at least 8; 8 are available. The one that stops is beside them: it holds its GPU."""
    found = rollout.slots(SNAPSHOT.rollouts[HELD])
    assert [slot for slot, _ in found.slots] == ["old"] * 5 + ["new"] * 3 + ["warm", "pull"] + ["none"] * 3
    assert (found.least.x, found.least.kept, found.most.x) == (pytest.approx(100 * 8 / 13, abs=0.01), True, 100.0)
    assert told(found.least.text) == "8 available, at least 8"
    assert told(found.most.text) == "13 in all, at most 13"
    assert told(found.beside) == "1 more pod stops and holds 1 GPU until its containers end: bounds do not count it."
    assert len(found.stopping) == 1
    assert told(found.told).startswith("5 old, Ready · 3 new, Ready · 1 new, warming up")


def test_a_bound_that_is_not_kept_is_told_apart_and_room_under_the_upper_one_is_shown():
    row = msgspec.structs.replace(SNAPSHOT.rollouts[HELD], available=7, old_stages=(("ready", 4),))
    found = rollout.slots(row)
    assert not found.least.kept
    assert [slot for slot, _ in found.slots].count("empty") == 1


def test_many_pods_are_parts_of_a_bar_that_fill_it():
    row = msgspec.structs.replace(
        SNAPSHOT.rollouts[HELD], desired=900, max_pods=1_125, min_available=675, old_stages=(("ready", 600),),
        new_stages=(("placing", 25), ("starting", 100), ("ready", 300)),
    )  # fmt: skip
    found = rollout.slots(row)
    assert found.slots == ()
    assert [part.slot for part in found.parts] == ["old", "new", "start", "none", "empty"]
    assert sum(part.width for part in found.parts) == pytest.approx(100, abs=0.05)
    assert found.parts[-1].x + found.parts[-1].width == pytest.approx(100, abs=0.02)


def test_where_somebody_replaces_pods_there_are_no_bounds():
    found = rollout.slots(SNAPSHOT.rollouts["StatefulSet/ml/rl-policy"])
    assert (found.least, found.most) == (None, None)
    assert told(found.told).endswith("No bounds: somebody replaces its pods.")


def test_the_headline_says_deadline_step_and_end():
    found = rollout.headline(SNAPSHOT.rollouts[HELD], NOW)
    assert (told(found.tag), found.level, told(found.was), told(found.now)) == (
        "Held up for 7 min", "bad", "revision 41", "revision 42",
    )  # fmt: skip
    said = [told(sentence) for sentence in found.sentences]
    assert said[1].startswith("Kubernetes gives up at 21:05:10 (in 5 min) unless a pod gets on; nothing is lost then")
    assert said[2:] == ["kubectl waits: 8 of 10 pods are new.", "It will not get through like this."]
    eta = rollout.headline(SNAPSHOT.rollouts["Deployment/ml/embed-api"], NOW)
    assert told(eta.sentences[-1]) == "Through at about 21:01:01 (in 1 min) · from 2 pods seen"


def test_what_kubectl_calls_done_is_said_with_what_is_left():
    row = msgspec.structs.replace(
        SNAPSHOT.rollouts["Deployment/ml/ocr-api"], remarks=tuple(Remark), available=2, partition=1, old=1
    )
    found = rollout.headline(row, NOW)
    assert told(found.tag) == "Done, and something is left"
    assert told(found.sentences[0]) == "kubectl rollout status calls it done."
    assert "2 pods still stop and hold 8 GPUs." in [told(one) for one in found.remarks]
    assert len(found.remarks) == len(Remark)


def test_gpus_per_pod_before_and_after_with_what_it_comes_to():
    found = {told(fact.name): f"{told(fact.value)}; {told(fact.note)}" for fact in rollout.facts(detail())}
    assert found["GPUs per pod"] == "1 → 8; +70 when done"
    assert found["GPUs held now"] == "46; 5 by old pods · 40 by new pods · 1 by pods that stop"
    assert found["Time to Ready"] == "3 min 10 s; median of 3 new pods seen"
    assert found["maxSurge"] == "3; at most 13 pods"


def test_pods_are_listed_by_side_with_stage_node_gpus_and_trouble():
    old, new = rollout_pods.pods(detail(), "llm-chat")
    assert (told(old.title), old.total, told(new.title), new.total) == ("Revision 41, old", 6, "Revision 42, new", 8)
    waits = next(pod for pod in new.pods if pod.key.endswith("f6cpw"))
    assert (waits.level, waits.name, told(waits.words)) == (
        "bad",
        "…c91e-f6cpw",
        "no node yet · no hole large enough · 8 GPUs",
    )
    assert [pod.level for pod in old.pods] == ["off"] * 5 + ["drain"]
    assert rollout_pods.short("llm-0", "llm") == "…0"
    assert rollout_pods.ranges((0, 1, 2, 5, 7, 8)) == "0–2, 5, 7–8"


def test_too_many_pods_are_counted_and_those_in_trouble_stay_listed():
    found = detail()
    ready = next(line for line in found.pods if line.row.stage == Stage.READY)
    many = msgspec.structs.replace(found, pods=(*(ready,) * 200, *(line for line in found.pods if line.side == "new")))
    _, new = rollout_pods.pods(many, "llm-chat")
    old, _ = rollout_pods.pods(many, "llm-chat")
    assert (old.total, len(old.pods), told(old.more)) == (200, 60, "140 more pods are not listed.")
    assert new.total == 8


# --- Over time -----------------------------------------------------------------------------------------------------------------
def test_the_line_ends_now_and_knows_its_deadline():
    found = rollout_line.line(detail(), NOW)
    assert found is not None
    texts = [told(mark.text) for mark in found.marks]
    assert texts[:2] == ["now", "deadline"]
    assert texts[2].startswith("no change since")
    now = found.marks[0].x
    assert max(bar.x + bar.width for bar in found.bars) == pytest.approx(now, abs=0.02)
    assert found.marks[1].x > now
    assert all(0 <= bar.y <= found.base and bar.y + bar.height <= found.base + 0.11 for bar in found.bars)
    assert {told(level.text) for level in found.levels} == {"at most 13", "at least 8"}


def test_without_a_new_pod_there_is_no_line():
    assert rollout_line.line(detail("StatefulSet/ml/rl-policy"), NOW) is None


# --- The last words of what crashes --------------------------------------------------------------------------------------------
class _Logs:
    def __init__(self, answer: bytes | int) -> None:
        self.answer, self.asked = answer, []

    def last_words(self, namespace: str, pod: str, container: str, lines: int) -> bytes:
        self.asked.append((namespace, pod, container, lines))
        if isinstance(self.answer, int):
            raise PortError("no", retryable=False, status=self.answer)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "lines", "why"),
    [
        (b"loading\nHF_TOKEN=hunter2\n", ("loading", "HF_TOKEN=•••"), ""),
        (b"", (), "Its last run wrote nothing."),
        (
            403,
            (),
            "Vigie’s account may not read logs in this namespace (pods/log): deploy/logs/ of Vigie has the role.",
        ),
        (400, (), "No log of an earlier run is left."),
        (500, (), "The API server did not answer in time."),
    ],
)
def test_an_operator_sees_what_a_container_wrote_before_it_ended(monkeypatch, answer, lines, why):
    logs = _Logs(answer)
    known = LastWords(lambda _: logs)
    monkeypatch.setattr(crash_logs.wiring, "last_words", lambda: known)
    crash = HoldupRow("crash", "bad", 1, "ml/llm-1", facts=(("container", "server"),))
    row = RolloutRow("Deployment", holdups=(HoldupRow("quota", "bad"), crash))
    assert crash_logs.said("c", row, Role.VIEWER, asked=True) is None
    assert crash_logs.said("c", RolloutRow("Deployment"), Role.OPERATOR, asked=True) is None
    offered = crash_logs.said("c", row, Role.OPERATOR, asked=False)
    assert (offered.asked, logs.asked) == (False, [])
    found = crash_logs.said("c", row, Role.APPROVER, asked=True)
    assert (found.cause, found.lines, told(found.why)) == ("crash", lines, why)
    crash_logs.said("c", row, Role.OPERATOR, asked=True)
    assert logs.asked == [("ml", "llm-1", "server", 20)] * (2 if answer == 500 else 1)


# --- Revisions -----------------------------------------------------------------------------------------------------------------
def _template(image: str, **env: str) -> dict:
    named = [{"name": name, "value": value} for name, value in env.items()]
    return {
        "metadata": {},
        "spec": {"containers": [{"name": "server", "image": image, **({"env": named} if env else {})}]},
    }


def _history(**metadata) -> histories.History:
    raw = {"metadata": {"name": "llm-chat", "namespace": "ml", **metadata}, "spec": {"template": _template("llm:42")}}
    past = [
        Revision(number, f"llm-chat-{holder}", "", _template(f"llm:{number}", API_TOKEN="x" * number), (f"llm:{number}",),
                 "2026-12-01T19:00:00Z", cause, number == 42)
        for number, holder, cause in ((42, "c91e", ""), (41, "7d4b", "CR-7 <b>"), (40, "0000", ""))
    ]  # fmt: skip
    workload = Workload("Deployment", raw)
    return histories.History(workload, tuple(past), edit(workload))


def test_revisions_say_what_runs_who_did_it_and_what_an_undo_changes():
    pods = [pod for pod in SNAPSHOT.pods.values() if pod.workload == HELD]
    found, written = _history(), histories.Written(7, "set-image", "rita", NOW - 60)
    now, was, kept = revisions.lines(found, {found.revisions[0].digest: written}, SNAPSHOT.rollouts[HELD], pods)
    assert (told(now.state), told(now.by), now.action, now.changes) == (
        "rolling out · 8 pods, 3 Ready", "image set by rita", 7, (),
    )  # fmt: skip
    assert (told(was.state), told(was.by), was.cause) == ("serves, 5 pods", "nobody is named", "CR-7 <b>")
    assert (told(kept.state), told(kept.count)) == ("no pod, kept for an undo", "3 values differ")
    assert {change.path: (change.before, change.after) for change in kept.changes} == {
        "containers[server].image": ("llm:42", "llm:40"),
        "containers[server].env[API_TOKEN].name": (None, "API_TOKEN"),
        "containers[server].env[API_TOKEN].value": (None, "•••"),
    }
    entry = {"manager": "helm", "time": "2026-12-01T19:05:00Z", "fieldsV1": {"f:spec": {"f:template": {}}}}
    (first, *_) = revisions.lines(_history(managedFields=[entry]), {}, SNAPSHOT.rollouts[HELD], pods)
    assert (told(first.by), first.at) == ("written with helm", words.Clock(1_796_151_900.0))


# --- Before a new version ------------------------------------------------------------------------------------------------------
def test_the_advice_names_the_first_strategy_that_gets_through():
    ground = Ground(replicas=2, gpus=1, old_gpus=1, free={"n1": 1, "n2": 0}, old={"n1": 1, "n2": 1}, load_s=60, stop_s=30,
                    present=Bounds(1, 0, 3, 2))  # fmt: skip
    found = strategies.advised(advise(ground))
    assert told(found.sentence).startswith("One more fits best")
    assert told(found.room) == "1 new pod finds a place right now, the largest hole is 1."
    assert [(offer.kind, offer.level, offer.best) for offer in found.offers] == [
        ("blue-green", "bad", False), ("surge-one", "ok", True), ("replace-one", "ok", False), ("present", "ok", False),
    ]  # fmt: skip
    assert [told(doubt) for doubt in found.offers[0].doubts] == ["1 GPU more has to be free, in pieces of a whole pod"]


def test_where_nothing_fits_it_says_so_and_nothing_serving_is_said_once():
    ground = Ground(replicas=1, gpus=8, old_gpus=0, free={}, old={})
    found = strategies.advised(advise(ground))
    assert told(found.sentence) == "None gets through with the GPUs that are free now."
    replace = next(offer for offer in found.offers if offer.kind == Kind.REPLACE_ONE)
    assert "nothing serves meanwhile" in [told(doubt) for doubt in replace.doubts]
    assert "fewer than wanted serve meanwhile" not in [told(doubt) for doubt in replace.doubts]


# --- Over HTTP -----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def get(db, clusters, as_person):
    writer, now = Writer(clusters[0]), time.time()
    writer.publish(demo_rollouts.shown(demo.now(), now))

    def get(path: str, who: str = "viewer") -> str:
        answer = as_person(who).get(f"/c/{writer.cluster}/{path}")
        return f"{answer.status_code} {answer.content.decode()}"

    return get


def test_the_list_leads_to_each_rollout_and_the_navigation_counts(get):
    html = get("rollouts/?of=held")
    assert re.search(r'<a href="/c/[^"]+/rollouts/Deployment/ml/llm-chat/">', html)
    assert "asr-batch" in html
    assert "notebooks" not in html.split("<tbody")[1].split("</tbody>")[0]
    assert re.search(r'data-live-told="moving">7</span>', html)


def test_a_page_says_what_a_viewer_needs_and_its_live_part_is_the_same_markup(get):
    html = get("rollouts/Deployment/ml/llm-chat/")
    page = Page(html)
    assert (page.open, [found for found, count in page.ids.items() if count > 1]) == ([], [])
    for text in (
        "Held up for",
        "3 new pods need 8 GPUs each on one node",
        "23 Insufficient nvidia.com/gpu. &lt;b&gt;",
        "Pods now",
    ):
        assert text in html, text
    part = get("rollouts/Deployment/ml/llm-chat/?part=live")
    assert part.startswith('200 <div class="stack rollout" data-live-rollout>')
    assert "<html" not in part
    assert "/do/uncordon/" not in html


def test_a_count_of_gpus_may_be_asked_about_and_nonsense_may_not(get):
    asked = get("rollouts/Deployment/ml/llm-chat/?gpus=1")
    assert re.search(r'name="gpus" value="1"', asked)
    for nonsense in ("-1", "x", "9" * 5_000, "2000"):
        assert re.search(r'name="gpus" value="8"', get(f"rollouts/Deployment/ml/llm-chat/?gpus={nonsense}"))


def test_what_is_not_there_is_said(get):
    assert get("rollouts/Deployment/ml/nobody/").startswith("404")
    assert "No rollout of this name" in get("rollouts/Deployment/ml/nobody/")
