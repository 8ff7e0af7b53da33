"""The screen on a wall: one alarm, a few large numbers, the fleet, and what needs attention, readable from five metres.

Owns how much of the picture fits on it. It has no controls and names nobody: the caller passes rows without the names of people.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.panels import attention, fleet
from dashboard.panels.attention import Entry
from dashboard.panels.fleet import Card, KeyNumber, Mark
from dashboard.panels.words import Text, say
from fleet.domain.picture import NodeRow, Snapshot

NUMBERS = ("free", "largest", "waiting", "not-ready", "behind")
MOST_NODES = 36  # up to here each is drawn; beyond, each group is one bar
MOST_GROUPS = 8
MOST_ENTRIES = 3


@dataclass(frozen=True, slots=True)
class WallGroup:
    id: str
    title: Text
    open: Text  # "48 of 48"
    available: int
    total: int
    marks: tuple[Mark, ...]
    cards: list[tuple[str, Card]]  # short name and card; none where there are too many


@dataclass(frozen=True, slots=True)
class Wall:
    alarm: Entry | None
    more: Text
    available: KeyNumber
    total: int
    numbers: list[KeyNumber]
    groups: list[WallGroup]
    all_groups: int
    entries: list[Entry]
    rest: Text


def wall(snapshot: Snapshot, trouble: Iterable[tuple[str, str, float]] = ()) -> Wall:
    alarm, more, entries, rest = told(attention.entries(snapshot.attention, trouble))
    numbers = {number.id: number for number in fleet.key_numbers(snapshot)}
    drawn = groups(list(snapshot.nodes.values()))
    total = snapshot.fleet["fleet"].gpus if "fleet" in snapshot.fleet else 0
    return Wall(
        alarm,
        more,
        numbers["available"],
        total,
        [numbers[name] for name in NUMBERS],
        drawn[:MOST_GROUPS],
        len(drawn),
        entries,
        rest,
    )


def told(found: Sequence[Entry]) -> tuple[Entry | None, Text, list[Entry], Text]:
    """The most urgent failure, how many more there are, what else is listed, and how much is not."""
    bad = [entry for entry in found if entry.level == "bad"]
    alarm = bad[0] if bad else None
    others = [entry for entry in found if entry is not alarm]
    more = say("wall.more", n=len(bad) - 1) if len(bad) > 1 else ""
    rest = len(others) - MOST_ENTRIES
    return alarm, more, others[:MOST_ENTRIES], say("wall.rest", n=rest) if rest > 0 else ""


def groups(nodes: Sequence[NodeRow]) -> list[WallGroup]:
    drawn = len(nodes) <= MOST_NODES
    return [_group(group, drawn) for group in fleet.groups(nodes)]


def _group(group: fleet.Group, drawn: bool) -> WallGroup:
    total = sum(len(node.cells) for node in group.nodes)
    available = fleet.available(group.nodes)
    names = short_names([node.name for node in group.nodes])
    products = {node.product for node in group.nodes if node.product}
    title = (group.title, products.pop() if len(products) == 1 else "")
    cards = [(name, fleet.card(node)) for name, node in zip(names, group.nodes, strict=True)] if drawn else []
    return WallGroup(group.id, title, of(available, total), available, total, group.marks, cards)


def of(available: int, total: int) -> Text:
    return say("wall.of", available=available, total=total)


def short_names(names: Sequence[str]) -> list[str]:
    """Without what all of them begin and end with, cut where words end: node-01, node-02 → 01, 02."""
    if len(names) < 2:
        return list(names)
    head = re.sub(r"[^-._]*$", "", _common(names))
    tail = re.sub(r"^[^-._]*", "", _common([name[::-1] for name in names])[::-1])
    return [name[len(head) : len(name) - len(tail)] or name for name in names]


def _common(names: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(names), max(names)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
