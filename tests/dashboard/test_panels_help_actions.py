"""The Help page about maintenance lists what the code has, no more and no less."""

import pytest
from django.utils import translation

from dashboard.panels import help_actions, words
from fleet.domain.guards import GUARDS


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_guard_and_annotation_is_explained(language):
    with translation.override(language):
        for _, entries in help_actions.sections():
            assert all(words.plain(entry.name, 0) and words.plain(entry.meaning, 0) for entry in entries)
    assert [entry.name for entry in help_actions.guards()] == list(GUARDS)
    assert all(label.count("/") == 1 for entry in help_actions.notes() for label in entry.labels)
