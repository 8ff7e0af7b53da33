"""The Help page says everything that exists, and nothing else: it is walked against the code's own tables."""

import re
from pathlib import Path

import pytest
from django.utils import translation

from dashboard.panels import attention, fleet, patterns, wall, words
from dashboard.panels import help as help_panel
from fleet.domain import machines
from fleet.domain.attention import LEVELS, Concern
from fleet.domain.picture import CELL_STATES
from tests.browser import demo
from tests.dashboard import panel_fixtures

ROOT = Path(__file__).resolve().parent.parent.parent
ENTRIES = [entry for _, entries in help_panel.sections() for entry in entries]


def test_every_state_that_a_cell_can_have_is_explained():
    assert {entry.state for entry in help_panel.states()} == set(CELL_STATES.values())


def test_every_concern_is_explained_with_its_level_in_the_order_of_its_rank():
    assert [(entry.name, entry.level) for entry in help_panel.concerns()] == [(c.value, LEVELS[c]) for c in Concern]


def test_every_glyph_of_a_level_is_explained_and_drawn():
    known = {entry.glyph for entry in help_panel.levels()}
    assert {*fleet.GLYPHS.values(), "s-unknown"} <= known
    symbols = (ROOT / "frontend/templates/vigie/symbols.svg").read_text()
    assert [glyph for glyph in known if f'id="{glyph}"' not in symbols] == []


def test_every_table_of_labels_is_on_the_page():
    told = {label for found in help_panel.LABELS.values() for label in found}
    tables = {name: value for name, value in vars(machines).items() if name.isupper() and not name.startswith("_")}
    names = [one for name, value in tables.items() if name not in {"NO_SHARING", "ROLE_PREFIX"}
             for one in ((value,) if isinstance(value, str) else value)]  # fmt: skip
    assert len(names) > 20
    assert sorted(set(names) - told) == []
    assert f"{machines.ROLE_PREFIX}…" in told


def test_every_label_that_the_page_names_is_read_by_the_domain():
    source = "".join(path.read_text() for path in (ROOT / "fleet/domain").glob("*.py"))
    for label in (label for found in help_panel.LABELS.values() for label in found):
        start = re.sub(r"\.(full|major|replicas)$|…$", "", label)
        assert start in source or start == "nvidia.com/gpu", label


@pytest.mark.parametrize("language", panel_fixtures.LANGUAGES)
def test_every_entry_can_be_said(language):
    with translation.override(language):
        assert all(words.plain(entry.name, 0) for entry in ENTRIES)
        assert all(words.plain(entry.meaning, 0) or entry.labels for entry in ENTRIES)


def test_no_sentence_of_help_is_left_over():
    used = {part.key for entry in ENTRIES for part in (entry.name, entry.meaning) if isinstance(part, words.Say)}
    assert {key for key in patterns.HELP if key not in used} == set()


# --- The wall ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["node-01", "node-02"], ["01", "02"]),
        (["ip-10-1.eu.internal", "ip-10-12.eu.internal"], ["1", "12"]),
        (["a", "b"], ["a", "b"]),
        (["only-one"], ["only-one"]),
        (["n-1", "n-1-x"], ["1", "1-x"]),
        ([], []),
    ],
)
def test_names_on_the_wall_leave_out_what_all_share(names, short):
    assert wall.short_names(names) == short


def test_the_wall_alarms_for_failures_only_and_counts_the_rest():
    alarm, _, listed, rest = wall.told(attention.entries(demo.attention()))
    assert alarm is not None
    assert alarm.key == "node-unreachable:node-22"
    assert len(listed) == wall.MOST_ENTRIES
    with translation.override("en"):
        assert words.plain(rest, 0) == "3 more need attention"
    calm = {key: row for key, row in demo.attention().items() if row.level != "bad"}
    assert wall.told(attention.entries(calm))[0] is None


def test_a_large_fleet_is_bars_on_the_wall():
    assert all(group.cards for group in wall.wall(demo.snapshot()).groups)
    assert not any(group.cards for group in wall.wall(demo.large(200)).groups)
