"""How much of the map is shown, and how closely: filters and zoom, as the address and the person's own choice say.

Owns the names in the address and what they hide. Must not know requests; the caller passes what the address holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from dashboard.panels.order import natural
from fleet.domain.picture import CELL_STATES, NodeRow

CARDS_TO = 60  # nodes: up to here each is a card
DENSE_TO = 2_000  # up to here each is a small tile; beyond, only groups are rows
TROUBLE = "trouble"


class Zoom(StrEnum):
    CARDS = "cards"
    DENSE = "dense"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Filter:
    """What the map is narrowed to; "" does not narrow. `only` is TROUBLE: nodes that are not normal."""

    state: str = ""
    product: str = ""
    pool: str = ""
    only: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "") for name in cls.__slots__})

    def __bool__(self) -> bool:
        return bool(self.state or self.product or self.pool or self.only)

    def query(self) -> dict[str, str]:
        """As it stands in an address."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    def hides(self, node: NodeRow) -> bool:
        return (
            (bool(self.state) and all(CELL_STATES[letter] != self.state for letter in node.cells))
            or (bool(self.product) and self.product != node.product)
            or (bool(self.pool) and self.pool != node.pool)
            or (self.only == TROUBLE and not node.level)
        )


def zoom(nodes: int, chosen: str) -> Zoom:
    """By the number of nodes; what the person chose wins, as far as so many nodes can be shown at all."""
    if nodes > DENSE_TO:
        return Zoom.GROUPS
    if chosen in list(Zoom):
        return Zoom(chosen)
    return Zoom.CARDS if nodes <= CARDS_TO else Zoom.DENSE


def choices(nodes: int) -> list[Zoom]:
    """The zooms that a map of so many nodes offers; one alone is no choice."""
    return [] if nodes > DENSE_TO else [Zoom.CARDS, Zoom.DENSE] if nodes <= CARDS_TO else list(Zoom)


def products(nodes: Iterable[NodeRow]) -> list[str]:
    """The GPU models on the map, for its filter."""
    return sorted({node.product for node in nodes if node.product}, key=natural)


def pools(nodes: Iterable[NodeRow]) -> list[str]:
    return sorted({node.pool for node in nodes if node.pool}, key=natural)
