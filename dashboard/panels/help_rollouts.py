"""The Help page about rollouts: how one may stand, the most urgent first; and what blue/green means here.

Owns these sections alone.
"""

from collections.abc import Iterable

from dashboard.panels.help import Entry
from dashboard.panels.rollouts import SIGNS, Standing
from dashboard.panels.words import say


def standings() -> list[Entry]:
    return [
        Entry(say(f"rollout.tag.{one}"), say(f"help.rollout.{one}"), level=SIGNS[one][0], glyph=SIGNS[one][1])
        for one in Standing
    ]


PAIRS = ("pair", "switch", "back", "smoke", "price", "owned")


def pairs() -> list[Entry]:
    return [Entry(say(f"help.name.{one}"), say(f"help.pair.{one}")) for one in PAIRS]


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (("rollouts", standings()), ("pairs", pairs()))
