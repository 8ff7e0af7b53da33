"""The Help page about checkpoints explains every annotation about them, in both languages."""

import pytest
from django.utils import translation

from dashboard.panels import help_checkpoints, words
from fleet.domain.training import FORMAT, HOOK, INTERVAL, URI


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_entry_has_words(language):
    with translation.override(language):
        told = [words.plain(part, 0) for entry in help_checkpoints.entries() for part in (entry.name, entry.meaning)]
    assert all(told)
    assert not any(text.startswith("help.") for text in told)


def test_every_annotation_is_explained():
    labels = {label for entry in help_checkpoints.entries() for label in entry.labels}
    assert {URI, INTERVAL, FORMAT, HOOK} <= labels
