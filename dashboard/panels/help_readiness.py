"""The Help page about restart readiness: every rule, and the annotations that tell it times.

Owns the order of these sections.
"""

from collections.abc import Iterable

from dashboard.panels.help import Entry
from dashboard.panels.readiness import name, why
from dashboard.panels.words import say
from fleet.domain.readiness import Rule
from fleet.domain.readiness_subjects import DRAIN, LOAD, PULL, SAVE

TIMES = {"load": LOAD, "drain": DRAIN, "save": SAVE, "pull": PULL}


def rules() -> list[Entry]:
    return [Entry((rule.value, name(rule)), why(rule)) for rule in Rule]


def times() -> list[Entry]:
    return [
        Entry(say(f"help.time.{key}"), say(f"help.means.time.{key}"), labels=(label,)) for key, label in TIMES.items()
    ]


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (("restarts", rules()), ("times", times()))
