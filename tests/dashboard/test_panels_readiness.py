"""What restart readiness says: every finding of any case has its sentences in both languages; pictures keep in their box."""

import pytest
from django.utils import translation

from dashboard.panels import help_readiness, lifelines, restart_badges, words
from dashboard.panels import readiness as panel
from dashboard.panels.readiness import Choice
from dashboard.panels.tables import Column, Row, Table
from fleet.domain import lifelines as lines
from fleet.domain import readiness
from fleet.domain.readiness import Finding, Load, Rule, Severity
from fleet.domain.readiness_room import Rooms
from tests.domain import readiness_cases
from tests.domain.readiness_cases import good, report
from tests.domain.test_readiness import CASES
from tests.domain.test_readiness_room import GENTLE, deployment, server

LLM = "Deployment/chat/llm"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_rule_and_case_has_its_words(language):
    found = [one for _, _, breaks, _ in CASES for one in report(good(breaks)).findings]
    for changes, nodes in (
        (deployment(3), []),
        (deployment(4), []),
        (deployment(9, strategy=GENTLE.replace("1", "0")), []),
    ):
        found += readiness.live(readiness_cases.manifests(good(changes)), {}, Rooms(nodes)).findings
    measured = {LLM: Load(295.0, 3)}
    found += readiness.live(readiness_cases.manifests(good()), measured, lambda _: None).findings
    with translation.override(language):
        for one in found:
            text = words.plain((panel.sentence(one), panel.why(one.rule), panel.name(one.rule)), 0)
            assert "{" not in text
            assert text.count(" · ") == 2
        for _, entries in help_readiness.sections():
            assert all(words.plain(entry.name, 0) and words.plain(entry.meaning, 0) for entry in entries)
    assert len(help_readiness.rules()) == len(Rule)


def test_badges_and_groups():
    found = report(good("Deployment: {spec: {replicas: 1}}\nPodDisruptionBudget: {spec: {maxUnavailable: 0}}"))
    (group,) = panel.groups(found, Choice())
    assert (words.plain(group.badge, 0), group.level) == ("1 error · 1 warning", "bad")
    assert [one.where for one in group.findings] == ["PodDisruptionBudget/chat/llm", ""]
    (narrowed,) = panel.groups(found, Choice(severity="warning"))
    assert [one.rule for one in narrowed.findings] == ["R24"]
    assert panel.groups(found, Choice(rule="R12")) == []
    assert words.plain(panel.badge([]), 0) == "nothing found"
    (clean,) = panel.groups(report(good()), Choice())
    assert clean.level == "ok"


def drawn(changes: str = "", load: Load | None = None) -> list[lifelines.Picture]:
    told = readiness.live(
        readiness_cases.manifests(good(changes)), {LLM: load} if load else {}, lambda _: None
    ).subjects
    found = lines.lifelines(next(one for one in told if one.manifest.key == LLM))
    return [*lifelines.stops(found), *lifelines.starts(found)]


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        ("", None),
        ("", Load(240.0, 4)),
        ("", Load(900.0, 0)),
        (server("image: 'a:1'", "vigie.dev/save-time: 3h"), None),
        (server("lifecycle: {preStop: {sleep: {seconds: 90}}}"), None),
        (server("lifecycle: null, startupProbe: null, livenessProbe: null"), None),
        (server("lifecycle: {preStop: {httpGet: {port: 1}}}, startupProbe: {failureThreshold: 100000}"), None),
    ],
)
def test_pictures_keep_in_their_box(changes, load):
    for picture in drawn(changes, load):
        for bar in (bar for lane in picture.lanes for bar in lane.bars):
            assert 0 <= bar.x < bar.x + bar.width <= 100.01
            assert bar.y + lifelines.BAR < picture.axis
        assert all(0 <= mark.x <= 100 and mark.y <= picture.height for mark in (*picture.marks, *picture.ticks))
        assert 1 <= len(picture.ticks) <= lifelines.MOST_TICKS + 1
        assert words.plain(picture.told, 0)


def test_what_a_save_lacks_is_drawn_beyond_sigkill():
    (stop, _) = drawn(server("image: 'a:1'", "vigie.dev/save-time: 3m"))
    styles = [bar.style for bar in stop.lanes[2].bars]
    assert styles == ["fill-run", "dots-bad"]
    kill = next(mark for mark in stop.marks if mark.style == "limit")
    assert stop.lanes[2].bars[1].x == kill.x


def test_a_list_says_how_many_findings_a_restart_has_and_what_it_does_not_know():
    def finding(severity: Severity) -> Finding:
        return Finding(next(iter(Rule)), severity, "", 0, "Deployment/ml/a")

    found = {
        "Deployment/ml/a": [finding(one) for one in (Severity.WARNING, Severity.ERROR, Severity.WARNING)],
        "Deployment/ml/b": [],
    }
    rows = [Row(f"Deployment/ml/{name}", "", {"workload": name}, {}, nil=("x",)) for name in "abc"]
    table = restart_badges.joined(Table("rollouts", (Column("workload"),), rows), found)
    assert [column.id for column in table.columns] == ["workload", "restart"]
    with translation.override("en"):
        told = [
            (words.plain(row.cells["restart"], 0), words.plain(row.small["restart"], 0), row.marks["restart"], row.nil)
            for row in table.rows
        ]
    assert told == [
        ("1 error", "2 warnings", "s-bad", ("x",)),
        ("nothing found", "", "", ("x", "restart")),
        ("–", "", "", ("x", "restart")),
    ]
    (unknown, *_) = restart_badges.joined(Table("rollouts", (), rows), None).rows
    assert unknown.cells["restart"] is None
