"""View models and words: the same texts as the browser's, complete in every language, safe in HTML."""

import ast
import json
import re
import string
import zoneinfo
from gettext import GNUTranslations
from pathlib import Path

import pytest
from django.utils import timezone, translation

from dashboard.panels import attention, fleet, node, save_ages, wall, words, zoom
from dashboard.panels.checkpoint_patterns import OF_CHECKPOINTS
from dashboard.panels.order import natural
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.plurals import Many
from dashboard.panels.words import Age, say
from dashboard.panels.zoom import TROUBLE, Filter, Zoom
from fleet.domain.attention import Concern
from fleet.domain.kube import Kind
from fleet.domain.picture import CELL_STATES, AttentionRow, FleetRow, NodeRow, PodRow, Resource, Snapshot
from fleet.domain.save_picture import CheckpointRow
from tests.browser import demo
from tests.dashboard import panel_fixtures

ROOT = Path(__file__).resolve().parent.parent.parent
CATALOGUE = ROOT / "frontend" / "locale" / "fr" / "LC_MESSAGES" / "django"
NOW = demo.NOW


@pytest.mark.parametrize("file", panel_fixtures.files())
def test_panels_say_what_the_fixtures_say(file):
    found = (panel_fixtures.FOLDER / file).read_text()
    assert json.loads(panel_fixtures.encoded(panel_fixtures.files()[file])) == json.loads(found)


def test_no_fixture_is_left_over():
    assert {path.name for path in panel_fixtures.FOLDER.iterdir()} == set(panel_fixtures.files())


# --- Words ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("seconds", "english", "french"),
    [
        (-5, "0 s", "0 s"),
        (0.9, "0 s", "0 s"),
        (59.9, "59 s", "59 s"),
        (60, "1 min", "1 min"),
        (3_599, "59 min", "59 min"),
        (3_600, "1 h 00 min", "1 h 00 min"),
        (7_560, "2 h 06 min", "2 h 06 min"),
        (86_399, "23 h 59 min", "23 h 59 min"),
        (86_400, "1 d", "1 j"),
        (8.64e7, "1,000 d", "1\u202f000 j"),
    ],
)
def test_ages(seconds, english, french):
    for language, expected in (("en", english), ("fr", french)):
        with translation.override(language):
            assert words.age(seconds) == expected


@pytest.mark.parametrize(
    ("before_s", "zone", "expected"),
    [
        (0, "UTC", "21:00:00"),
        (0, "Europe/Paris", "22:00:00"),
        (76_000, "UTC", "30 Nov 23:53"),
        (76_000, "Europe/Paris", "00:53:20"),
        (3e7, "UTC", "19 Dec 2024"),
    ],
)
def test_clock_times(before_s, zone, expected):
    with translation.override("en"), timezone.override(zoneinfo.ZoneInfo(zone)):
        assert words.clock(NOW - before_s, NOW) == expected


def test_empty_texts_vanish_and_unknown_is_a_word():
    with translation.override("en"):
        assert words.plain(("a", "", (), say("kpi.one-node"), ("b", "")), NOW) == "a · on one node · b"
        assert words.plain(say("kpi.hole", product=None, node="n"), NOW) == "unknown, on n"


def test_html_escapes_what_clusters_say():
    hostile = '<img src=x onerror=alert(1)>"&'
    with translation.override("en"):
        html = words.html((hostile, say("kpi.hole", product=hostile, node=Age(NOW - 61))), NOW)
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;&quot;&amp;") == 2
    assert html.endswith('on <time datetime="2025-12-01T20:58:59Z" data-live-age="1764622739">1 min</time>')


def test_fractions_of_a_second_are_written_as_the_browser_writes_them():
    assert [words.seconds(at) for at in (5.0, 5.25, 1764622739.125)] == ["5", "5.25", "1764622739.125"]


def test_a_count_chooses_the_form():
    said = {language: [] for language in ("en", "fr")}
    for language, found in said.items():
        with translation.override(language):
            found += [words.plain(say("nodes", n=n), NOW) for n in (0, 1, 2)]
    assert said == {"en": ["0 nodes", "1 node", "2 nodes"], "fr": ["0 nœud", "1 nœud", "2 nœuds"]}


# --- Every word in every language ----------------------------------------------------------------------------------------------
def entries_of(po: str) -> dict[str, list[str]]:
    """The catalogue's source: message id → translations; ids of plurals are "one\\0other"."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n\s*\n", po):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        fields: dict[str, str] = {}
        name = ""
        for line in lines:
            if match := re.match(r'(msg\w+(?:\[\d\])?) (".*")$', line):
                name = match[1]
                fields[name] = ast.literal_eval(match[2])
            else:
                fields[name] += ast.literal_eval(line)
        if fields:
            key = "\0".join(fields[k] for k in ("msgid", "msgid_plural") if k in fields)
            found[key] = [value for field, value in fields.items() if field.startswith("msgstr")]
    return found


PO = entries_of(CATALOGUE.with_suffix(".po").read_text())


def test_the_compiled_catalogue_is_the_source():
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = GNUTranslations(file)._catalog
    source = {}
    for key, forms in PO.items():
        one = key.split("\0")[0]
        source |= {(one, i): form for i, form in enumerate(forms)} if "\0" in key else {key: forms[0]}
    assert compiled == source


def test_nothing_is_untranslated_or_fuzzy():
    assert [key for key, forms in PO.items() if not all(forms)] == []
    assert "fuzzy" not in CATALOGUE.with_suffix(".po").read_text()


def test_french_marks_stay_on_the_line_of_their_word():
    apart = re.compile(r" [:;?!»](?![/\w])|« ")
    assert [form for forms in PO.values() for form in forms if apart.search(form)] == []


def holes(pattern: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(pattern) if name}


def test_translations_have_the_holes_of_their_originals():
    for found in MESSAGES.values():
        key = f"{found.one}\0{found.other}" if isinstance(found, Many) else found
        for form in PO[key]:
            assert holes(form) == holes(key.split("\0")[-1]), form


def texts_of_templates() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "frontend" / "templates").rglob("*.html"):
        text = path.read_text()
        found |= {a or b for a, b in re.findall(r"""\{% translate (?:"([^"]+)"|'([^']+)') %\}""", text)}
        for block in re.findall(r"\{% blocktranslate[^%]*%\}(.*?)\{% endblocktranslate %\}", text, re.DOTALL):
            found.add(re.sub(r"\{\{ (\w+) \}\}", r"%(\1)s", block))
    return found


def texts_of_modules() -> set[str]:
    """First arguments of the gettext calls under any of their usual names."""
    names = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext"}
    return {
        call.args[0].value
        for path in (ROOT / "dashboard").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names and call.args
        if isinstance(call.args[0], ast.Constant)
    }


def test_every_text_of_a_template_or_a_module_is_translated():
    known = {key.split("\0")[0] for key in PO}
    assert len(texts_of_templates()) > 50
    assert sorted((texts_of_templates() | texts_of_modules()) - known) == []


def test_every_state_and_concern_of_the_domain_has_words():
    needed = {f"{kind}.{state}" for state in CELL_STATES.values() for kind in ("state", "count")}
    needed |= {f"{kind}.{concern}" for concern in Concern for kind in ("attention", "evidence")}
    needed |= {column.title for columns in (node.RESOURCES, node.PODS, node.CONDITIONS) for column in columns}
    needed |= {fact.title for fact in node.facts(NodeRow("n"))}
    needed |= {table.title for table in node.tables(NodeRow("n"), (), {}).values()}
    assert sorted(needed - set(MESSAGES)) == []


NOT_OF_NODES = (
    Concern.WORKLOAD_SHORT, Concern.WORKLOAD_STARTING, Concern.PODS_WAITING, Concern.CLAIMS, Concern.RACK_EVENT,
    Concern.ROLLOUT_HELD, Concern.PODS_HELD_UP, *OF_CHECKPOINTS,
)  # fmt: skip


@pytest.mark.parametrize("concern", [c for c in Concern if c not in NOT_OF_NODES])
@pytest.mark.parametrize("measured_at", [None, NOW])
def test_every_reason_of_a_node_has_words_on_its_card(concern, measured_at):
    row = NodeRow("n", level="off", reasons=(concern.value,), cordoned_at=measured_at)
    with translation.override("en"):
        assert words.plain(fleet.card(row).words, NOW)


@pytest.mark.parametrize("concern", Concern)
def test_every_concern_can_be_said_with_its_facts(concern):
    row = AttentionRow(concern.value, "warn", 1, "Deployment/ml/x", "n", NOW, panel_fixtures.FACTS[concern])
    entry = attention.entry("k", row)
    for language in panel_fixtures.LANGUAGES:
        with translation.override(language):
            assert words.plain(entry.title, NOW)
            assert not re.search(r"[{}]|\.\.|\s\.", words.plain(entry.evidence, NOW))


# --- Order, filters and health --------------------------------------------------------------------------------------------------
def test_names_sort_as_a_person_counts():
    names = ["node-10", "node-9", "node-2", "node-02", "a", "node", "node-1b", "node-1a2", "node-1a10", "10", "9"]
    expected = ["9", "10", "a", "node", "node-1a2", "node-1a10", "node-1b", "node-02", "node-2", "node-9", "node-10"]
    assert sorted(names, key=natural) == expected


def test_most_urgent_first_then_oldest_and_unknown_age_last():
    rows = {
        key: AttentionRow(Concern.CLAIMS, "note", rank, subject, since_at=since, facts=(("pods", 1),))
        for key, rank, since, subject in (
            ("e", 2, NOW - 9, "e"), ("d", 1, None, "d"), ("c", 1, NOW, "c10"), ("b", 1, NOW, "c9"), ("a", 1, NOW - 5, "z"),
        )
    }  # fmt: skip
    assert [entry.key for entry in attention.entries(rows)] == ["a", "b", "c", "d", "e"]


def test_a_broken_stream_comes_before_what_it_may_hide():
    found = attention.entries(demo.attention(), [("pods", "refused", NOW - 3)])
    assert (found[0].key, found[0].level, found[0].since_at, found[0].node) == ("stream:pods", "warn", NOW - 3, "")


EVERY_KIND = [(kind.value, "cut off", NOW - i) for i, kind in enumerate(Kind)]


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ([], []),
        (EVERY_KIND[:2], [("stream:nodes", NOW), ("stream:pods", NOW - 1)]),
        (EVERY_KIND[1:], [(f"stream:{kind}", since) for kind, _, since in EVERY_KIND[1:]]),
        (EVERY_KIND[::-1], [("stream:server", NOW)]),
        ([("pods", "silent", NOW - 9), ("server", "silent", NOW - 7)], [("stream:server", NOW - 7)]),
    ],
    ids=["none", "some", "all but one", "all", "server"],
)
def test_an_outage_of_the_whole_cluster_is_one_entry(trouble, expected):
    assert [(entry.key, entry.since_at) for entry in attention.entries({}, trouble)] == expected


def test_a_kind_that_may_not_be_read_is_no_outage():
    with translation.override("en"):
        (found,) = attention.entries({}, [("events", "Forbidden", NOW)])
        assert words.plain(found.title, NOW) == "Vigie may not read events"


@pytest.mark.parametrize(
    ("filter_", "out"),
    [
        (Filter(), False),
        (Filter(state="busy"), False),
        (Filter(state="failed"), True),
        (Filter(product="H100"), False),
        (Filter(product="L4"), True),
        (Filter(state="busy", product="L4"), True),
        (Filter(pool="train"), False),
        (Filter(pool="infer"), True),
        (Filter(only=TROUBLE), True),
        (Filter(only="nonsense"), False),
    ],
)
def test_filters(filter_, out):
    assert filter_.hides(NodeRow("n", pool="train", product="H100", cells="3f")) is out
    assert bool(filter_) is (filter_ != Filter())
    assert Filter.of(filter_.query()) == filter_


def test_trouble_alone_keeps_what_is_not_normal():
    assert not Filter(only=TROUBLE).hides(NodeRow("n", level="off"))


@pytest.mark.parametrize(
    ("nodes", "chosen", "expected"),
    [
        (0, "", Zoom.CARDS),
        (60, "", Zoom.CARDS),
        (61, "", Zoom.DENSE),
        (60, "dense", Zoom.DENSE),
        (61, "cards", Zoom.CARDS),
        (61, "groups", Zoom.GROUPS),
        (2_000, "nonsense", Zoom.DENSE),
        (2_001, "", Zoom.GROUPS),
        (2_001, "cards", Zoom.GROUPS),
    ],
)
def test_the_zoom_follows_the_count_and_then_the_person(nodes, chosen, expected):
    assert zoom.zoom(nodes, chosen) is expected
    assert not zoom.choices(nodes) or expected in zoom.choices(nodes) or nodes <= zoom.CARDS_TO


def test_a_node_that_nobody_measures_never_shows_the_healthy_tick():
    row = NodeRow("n", cells="bf", usable=True, ready="True")
    assert [(tag.id, tag.glyph) for tag in node.tags(row)] == [("state", "s-info"), ("measured", "s-unknown")]
    assert fleet.measured([row]) is False
    known = NodeRow("n", cells="3f", measured=True)
    assert [(tag.id, tag.glyph) for tag in node.tags(known)] == [("state", "s-ok")]
    assert fleet.measured([known, NodeRow("cpu")]) is True


def test_free_slots_of_a_closed_node_are_not_offered():
    free = (Resource("nvidia.com/gpu", 8, 8, 0, 8, 0),)
    assert fleet.card(NodeRow("n", cells="f" * 8, resources=free)).free
    assert not fleet.card(NodeRow("n", cells="c" * 8, resources=free, usable=False)).free


@pytest.mark.parametrize(
    ("subject", "pods", "english", "french"),
    [
        (
            "ml/evil-pod",
            1,
            "Pod evil-pod waits for GPUs. Needs 8 H100 on one node; the largest free block is 3.",
            "Le pod evil-pod attend des GPU. A besoin de 8 H100 sur un seul nœud ; le plus grand bloc libre est de 3.",
        ),
        (
            "Job/ml/rl",
            1,
            "1 pod of rl waits for GPUs. Needs 8 H100 on one node; the largest free block is 3.",
            "1 pod de rl attend des GPU. A besoin de 8 H100 sur un seul nœud ; le plus grand bloc libre est de 3.",
        ),
        (
            "Job/ml/rl",
            2,
            "2 pods of rl wait for GPUs. Each needs 8 H100 on one node; the largest free block is 3.",
            "2 pods de rl attendent des GPU. Chacun a besoin de 8 H100 sur un seul nœud ; le plus grand bloc libre est de 3.",
        ),
    ],
)
def test_waiting_pods_are_told_by_their_number_and_owner(subject, pods, english, french):
    facts = (("pods", pods), ("gpus", 8), ("product", "H100"), ("hole", 3))
    entry = attention.entry("k", AttentionRow(Concern.PODS_WAITING, "warn", 6, subject, facts=facts))
    for language, expected in (("en", english), ("fr", french)):
        with translation.override(language):
            told = " ".join((words.plain(entry.title, NOW) + ".", words.plain(entry.evidence, NOW)))
        assert told.replace("\u202f", " ").replace("\xa0", " ") == expected


def test_every_entry_has_a_next_action_where_there_is_one():
    found = {entry.key: entry for entry in attention.entries(panel_fixtures.odd().attention)}
    with translation.override("en"):
        told = {key: (entry.page, words.plain(entry.action, NOW)) for key, entry in found.items() if entry.page}
    of_checkpoints = [entry for key, entry in found.items() if key.startswith("checkpoint-")]
    assert of_checkpoints
    assert all(entry.training and entry.action and not entry.page for entry in of_checkpoints)
    assert told == {
        "pods-waiting:K/ns/s-24": ("waiting", "Open waiting pods"),
        "pods-waiting:ns/evil-pod": ("waiting", "Open waiting pods"),
        "pods-waiting:Job/ns/two": ("waiting", "Open waiting pods"),
        "workload-short:K/ns/s-23": ("workloads", "Open n1"),
        "workload-starting:K/ns/s-25": ("workloads", "Open n1"),
    }


def test_the_parts_of_all_gpus_add_up():
    """Every part that a person sees, and what is available, is all there is."""
    parts = {"cordoned": 1, "tainted": 2, "silent": 4, "withdrawn": 8, "failed": 16, "unknown": 32}
    row = FleetRow(gpus=100, available=100 - sum(parts.values()), **parts)
    with translation.override("en"):
        note = words.plain(fleet.key_numbers(Snapshot({"fleet": row}, {}, {}, {}, {}, {}))[0].note, NOW)
    assert sum(map(int, re.findall(r"\d+", note))) == sum(parts.values())
    assert note.startswith("16 failed · 32 unknown · ")


def test_failed_and_unknown_gpus_of_a_group_are_not_available():
    bad = Resource("nvidia.com/gpu", 8, 7, 2, 3, 0, failed=1, unknown=1)
    nodes = [NodeRow(f"n{i}", cells="b" * 8, ready="True", resources=(bad,), usable=i < 2) for i in range(3)]
    with translation.override("en"):
        assert words.plain(fleet.group_sentence(nodes), NOW) == "3 nodes · 24 GPUs · 10 of 24 available · 6 free"
        assert words.plain(wall.groups(nodes)[0].open, NOW) == "10 of 24"
        note = words.plain(node.resources(nodes[0])[0].cells["note"], NOW)
    assert note == "1 withdrawn · 1 failed · 1 unknown"


def test_the_headline_of_a_node_says_once_what_runs_there():
    held, whole = (("pods", 5), ("gpus", 8)), (("rule", "clock-skew"), ("evidence", "+3.0 s"))
    rows = {
        "a": AttentionRow(
            "driver-hung", "bad", 6, "n", "n", None, (*held, ("rule", "driver-hung"), ("evidence", "3 rounds"))
        ),
        "b": AttentionRow("node-tainted", "warn", 20, "n", "n", None, (*held, ("taint", "x:NoSchedule"))),
        "c": AttentionRow("clock-skew", "warn", 19, "n", "n", None, (*held, *whole)),
    }
    with translation.override("en"):
        said = words.plain(attention.summary(rows), NOW)
    assert said.count("pods run there") == 1
    assert said.endswith("x:NoSchedule.  · 5 pods run there, holding 8 GPUs.")


def test_a_rack_and_a_zone_are_called_by_their_names():
    facts = (
        ("pods", 3),
        ("gpus", 16),
        ("count", 7),
        ("names", "n1, n2"),
        ("more", 5),
        ("strained", 9),
        ("rule", "throttle-power-brake"),
    )
    with translation.override("en"):
        for place, title in (("rack/eu-1/B03", "Rack B03"), ("zone/eu-1", "Zone eu-1")):
            entry = attention.entry("k", AttentionRow(Concern.RACK_EVENT, "warn", 9, place, facts=facts))
            assert words.plain(entry.title, NOW) == f"{title} slows 7 nodes"
            assert words.plain(entry.evidence, NOW).startswith(
                "Slowed down by the power brake: 9 GPUs, on n1, n2 and 5 more. Look at"
            )


def test_what_nobody_holds_on_a_closed_node_is_not_free():
    one = (Resource("nvidia.com/gpu", 8, 8, 2, 6, 0),)
    with translation.override("en"):
        told = [
            [words.plain(found.cells[column], NOW) for column in ("free", "note")]
            for usable in (True, False)
            for found in node.resources(NodeRow("n", resources=one, usable=usable))
        ]
    assert told == [["6", ""], ["–", "6 not allocated, closed for new pods"]]


def test_every_reason_of_a_node_has_a_tag_and_a_sentence():
    row = NodeRow("n", cells="bc", level="bad", reasons=("over-committed", "node-tainted"), closed_by="a=b:NoExecute",
                  resources=(Resource("nvidia.com/gpu", 1, 1, 2, 0, 1),), usable=False)  # fmt: skip
    concerns = {
        concern: AttentionRow(concern.value, "bad", rank, "n", "n", facts=panel_fixtures.FACTS[concern])
        for rank, concern in enumerate((Concern.OVER_COMMITTED, Concern.NODE_TAINTED))
    }
    with translation.override("en"):
        tags = [(tag.level, words.plain(tag.words, NOW)) for tag in node.tags(row)]
        told = words.plain(attention.summary(concerns), NOW)
        cells = words.plain(fleet.counts(row), NOW)
    assert tags == [("bad", "1 slot over-committed"), ("off", "Tainted: a=b:NoExecute"), ("off", "health not measured")]
    assert told.startswith("Pods hold 9 amd.com/gpu, and only 8 can be allocated. · maintenance=yes:NoExecute.")
    assert cells == "1 busy · 1 tainted"


def test_the_nodes_own_pods_come_last():
    rows = {
        "ml/b": PodRow("1", "ml", "b", gpus=1),
        "ml/a": PodRow("2", "ml", "a"),
        "k/d": PodRow("3", "k", "d", gpus=9, daemon=True),
    }
    assert [row.key for row in node.pods(rows.items(), {})] == ["ml/b", "ml/a", "k/d"]


def test_ready_is_good_when_true_and_every_other_condition_when_false():
    from fleet.domain.picture import Condition

    states = [("Ready", "True", ""), ("Ready", "False", "bad"), ("Ready", "Unknown", "warn"), ("DiskPressure", "False", ""),
              ("DiskPressure", "True", "warn"), ("DiskPressure", "Unknown", "warn")]  # fmt: skip
    for kind, status, level in states:
        assert node.conditions(NodeRow("n", conditions=(Condition(kind, status),)))[0].level == level


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (FleetRow(), ("", "0", "of 0 jobs", "none behind target")),
        (FleetRow(trainings=1, unseen=1), ("", "unknown", "of 1 job", "")),
        (FleetRow(trainings=3, unseen=1), ("", "0", "of 3 jobs", "none behind target")),
        (FleetRow(trainings=3, unseen=2, behind=1), ("warn", "1", "of 3 jobs", "")),
        (FleetRow(trainings=3, behind=2, unsaved=1), ("bad", "2", "of 3 jobs", "")),
    ],
)
def test_nobody_behind_is_no_number_while_nobody_knows(row, said):
    found = fleet.behind(row)
    assert (found.level, *(words.plain(text, NOW) for text in (found.value, found.unit, found.note))) == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, ("", "–", "")),
        (CheckpointRow("J/a/b", "a", standing="fresh", level="ok", newest_at=NOW - 90), ("s-ok", "1 min", "on target")),
        (CheckpointRow("J/a/b", "a", standing="reported", level="ok", reported_at=NOW - 9), ("s-ok", "9 s", "reported")),
        (CheckpointRow("J/a/b", "a", standing="critical", level="bad", newest_at=NOW - 90), ("s-bad", "1 min", "stopped saving")),
        (CheckpointRow("J/a/b", "a", standing="none", level="bad"), ("s-bad", "nothing complete", "")),
        (CheckpointRow("J/a/b", "a", standing="unknown", newest_at=NOW + 90, skew_s=90.0), ("s-unknown", "unknown", "")),
        (CheckpointRow("J/a/b", "a", standing="resting", level="", newest_at=NOW - 90), ("", "1 min", "rests")),
    ],
)  # fmt: skip
def test_the_age_of_a_checkpoint_is_told_with_how_it_stands(row, said):
    glyph, *told = save_ages.cell(row)
    assert (glyph, *(words.plain(text, NOW) for text in told)) == said


def test_a_pod_leads_to_the_checkpoints_of_its_workload_or_its_own():
    rows = {f"ml/{name}": PodRow(name, "ml", name, "n", workload="Job/ml/t" if name == "b" else "") for name in "bac"}
    saves = {key: CheckpointRow(key, "ml", newest_at=NOW) for key in ("Job/ml/t", "Pod/ml/a")}
    found = {row.key: row for row in node.pods(rows.items(), saves)}
    assert [found[key].links for key in rows] == [{"checkpoint": "Job/ml/t"}, {"checkpoint": "Pod/ml/a"}, {}]
    assert "checkpoint" in found["ml/c"].nil


def test_key_numbers_do_not_move():
    ids = [number.id for number in fleet.key_numbers(demo.snapshot())]
    assert ids == [number.id for number in fleet.key_numbers(panel_fixtures.empty())]
    assert [number.id for number in fleet.strip(demo.snapshot())] == ids[:8]
    assert [entry.state for entry in fleet.legend(FleetRow()) if entry.shown] == list(fleet.ALWAYS)
