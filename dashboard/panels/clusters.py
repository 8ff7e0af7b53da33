"""The page of all clusters: one card each, with what can be used and what needs a person.

Owns which numbers stand for a cluster. Must not sum clusters: a GPU in one is no help in another.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.panels import attention, fleet
from dashboard.panels.fleet import KeyNumber
from dashboard.panels.words import Text, say
from fleet.domain.picture import EMPTY, AttentionRow, FleetRow

NUMBERS = ("available", "free", "largest", "waiting", "not-ready")


@dataclass(frozen=True, slots=True)
class ClusterCard:
    name: str
    numbers: list[KeyNumber]
    size: Text
    level: str  # of the most urgent entry
    glyph: str
    words: Text  # how many entries, and the most urgent one


def card(name: str, totals: Mapping[str, FleetRow], rows: Mapping[str, AttentionRow]) -> ClusterCard:
    snapshot = type(EMPTY)(dict(totals), {}, {}, {}, {}, dict(rows))
    numbers = {number.id: number for number in fleet.key_numbers(snapshot)}
    found = attention.entries(rows)
    first = found[0] if found else None
    words: Text = (say("clusters.attention", n=len(found)), first.title) if first else say("clusters.calm")
    return ClusterCard(
        name,
        [numbers[one] for one in NUMBERS],
        fleet.map_size(totals.get("fleet", FleetRow())),
        first.level if first else "",
        first.glyph if first else "s-info",
        words,
    )
