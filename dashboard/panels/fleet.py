"""The Fleet page: key numbers, legend, groups of nodes and the card of one node.

Owns which facts of the picture are shown where and in which order. Must not hold wording (patterns.py) or rules about machines.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dashboard.panels.order import natural
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.picture import CELL_STATES, FleetRow, NodeRow, ProductRow, Snapshot

# The order of the legend; the first ones are always shown, the others while some GPU is in that state.
STATES = ("busy", "free", "idle", "degraded", "failed", "draining", "cordoned", "unknown")
ALWAYS = ("busy", "free", "cordoned", "unknown")
GLYPHS = {"warn": "s-warn", "bad": "s-bad", "drain": "s-drain", "off": "s-off"}
SILENT = ("node-unreachable", "readings-silent", "gpu-unknown")  # nobody knows how its GPUs are
# The states that a group names beside its sentence, most urgent first, with level and glyph.
MARKS = {
    "failed": ("bad", "s-bad"),
    "degraded": ("warn", "s-warn"),
    "draining": ("drain", "s-drain"),
    "unknown": ("off", "s-unknown"),
    "cordoned": ("off", "s-off"),
}


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One cell of the key numbers. `level` colours and adds a glyph; `node`, if given, is where its title leads."""

    id: str
    value: Value
    unit: Text = ""
    note: Text = ""
    level: str = ""
    node: str = ""

    @property
    def glyph(self) -> str:
        return GLYPHS.get(self.level, "")


@dataclass(frozen=True, slots=True)
class Card:
    """One node on the map."""

    name: str
    product: str
    level: str
    glyph: str
    cells: str  # one letter of CELL_STATES per slot
    words: Text
    free: Text
    label: Text  # for those who cannot see the cells


@dataclass(frozen=True, slots=True)
class Mark:
    """How many GPUs of a group are in a state that is not normal."""

    id: str
    level: str
    glyph: str
    words: Text


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one pool in one zone."""

    id: str
    title: Text
    sentence: Text
    nodes: tuple[NodeRow, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class LegendEntry:
    state: str
    count: int
    shown: bool

    @property
    def key(self) -> str:
        return f"state.{self.state}"


def key_numbers(snapshot: Snapshot) -> list[KeyNumber]:
    fleet = snapshot.fleet.get("fleet", FleetRow())
    return [
        _available(fleet),
        _free(fleet, snapshot.products),
        _largest(fleet),
        _room(fleet),
        _fragmentation(fleet, snapshot.products),
        _waiting(fleet),
        _not_ready(fleet),
        _withdrawn(fleet),
        behind(fleet),
    ]


def strip(snapshot: Snapshot) -> list[KeyNumber]:
    """Those of the Fleet page, which has room for eight: the navigation says the last one."""
    return key_numbers(snapshot)[:-1]


def _available(fleet: FleetRow) -> KeyNumber:
    taken = (
        ("count.failed", fleet.failed),
        ("count.unknown", fleet.unknown),
        ("kpi.cordoned", fleet.cordoned),
        ("kpi.silent", fleet.silent),
        ("kpi.withdrawn", fleet.withdrawn),
        ("kpi.tainted", fleet.tainted),
    )
    parts = tuple(say(key, n=n) for key, n in taken if n)
    note = say("kpi.no-gpus") if not fleet.gpus else parts or say("kpi.all-available")
    return KeyNumber("available", fleet.available, say("kpi.of", total=fleet.gpus), note)


def _free(fleet: FleetRow, products: Mapping[str, ProductRow]) -> KeyNumber:
    parts = tuple(
        say("kpi.product", count=row.free, product=row.product)
        for _, row in by_name(products)
        if row.free and row.product
    )
    return KeyNumber("free", fleet.free, note=parts or ("" if fleet.free else say("kpi.none-free")))


def _largest(fleet: FleetRow) -> KeyNumber:
    if not fleet.largest_hole:
        return KeyNumber("largest", 0, note=say("kpi.none-free"))
    place = {"product": fleet.largest_hole_product, "node": fleet.largest_hole_node}
    note = say("kpi.hole", **place) if fleet.largest_hole_product else fleet.largest_hole_node
    return KeyNumber("largest", fleet.largest_hole, say("kpi.one-node"), note, node=fleet.largest_hole_node)


def _room(fleet: FleetRow) -> KeyNumber:
    """Pods of the largest size that fit now; the smaller sizes beside it."""
    if not fleet.slots:
        return KeyNumber("room", 0, note=say("kpi.none-free"))
    *smaller, (size, most) = sorted(fleet.slots)
    note = tuple(say("kpi.room", count=count, size=k) for k, count in reversed(smaller))
    return KeyNumber("room", most, say("kpi.of-size", size=size), note)


def _fragmentation(fleet: FleetRow, products: Mapping[str, ProductRow]) -> KeyNumber:
    """The share of free GPUs that the largest pods cannot use, of the worst product first: products are never mixed."""
    if fleet.fragmentation:
        return _fragmentation_of_one(fleet)
    found = [(row.product, *_largest_size(row.fragmentation)) for _, row in by_name(products)]
    known = [(product, size, share) for product, size, share in found if share is not None]
    if not known:
        return KeyNumber("fragmentation", "–", note=say("kpi.not-applicable"))
    note = tuple(say("kpi.fragmented-product", product=p, percent=_percent(share)) for p, _, share in known)
    _, size, worst = max(known, key=lambda item: item[2])
    return KeyNumber("fragmentation", _percent(worst), say("kpi.for-size", size=size), note)


def _largest_size(shares: Iterable[tuple[int, float | None]]) -> tuple[int, float | None]:
    return max(shares, key=lambda item: item[0], default=(0, None))


def _fragmentation_of_one(fleet: FleetRow) -> KeyNumber:
    known = [(k, share) for k, share in sorted(fleet.fragmentation, key=lambda item: item[0]) if share is not None]
    if not known:
        return KeyNumber("fragmentation", "–", note=say("kpi.not-applicable"))
    *smaller, (size, share) = known
    note = tuple(say("kpi.fragmented", percent=_percent(s), size=k) for k, s in reversed(smaller) if k > 1)
    return KeyNumber("fragmentation", _percent(share), say("kpi.for-size", size=size), note)


def by_name(products: Mapping[str, ProductRow]) -> list[tuple[str, ProductRow]]:
    return sorted(products.items(), key=lambda item: natural(item[0]))


def _percent(share: float) -> Text:
    return say("kpi.percent", n=int(share * 100 + 0.5))


def _waiting(fleet: FleetRow) -> KeyNumber:
    if not fleet.waiting_pods:
        return KeyNumber("waiting", 0, note=say("kpi.no-wait"))
    gpus = say("gpus", n=fleet.waiting_gpus)
    since = fleet.waiting_since_at
    note = say("kpi.oldest-unknown", gpus=gpus) if since is None else say("kpi.oldest", age=Age(since), gpus=gpus)
    return KeyNumber("waiting", fleet.waiting_pods, note=note, level="warn")


def _not_ready(fleet: FleetRow) -> KeyNumber:
    n = fleet.nodes - fleet.nodes_ready
    note = say("kpi.silent-gpus", n=fleet.silent) if n else say("kpi.all-ready")
    return KeyNumber("not-ready", n, say("kpi.of-nodes", n=fleet.nodes), note, level="bad" if n else "")


def behind(fleet: FleetRow) -> KeyNumber:
    """Workloads that train and have not saved when they meant to. Where nobody knows of any, it is no 0."""
    unknown = fleet.trainings > 0 and fleet.unseen == fleet.trainings
    level = "bad" if fleet.unsaved else "warn" if fleet.behind else ""
    note = "" if fleet.behind or unknown else say("kpi.none-behind")
    return KeyNumber(
        "behind", None if unknown else fleet.behind, say("kpi.of-trainings", n=fleet.trainings), note, level=level
    )


def _withdrawn(fleet: FleetRow) -> KeyNumber:
    none = say("kpi.unhealthy") if fleet.withdrawn else say("kpi.none-withdrawn")
    note = say("kpi.over", n=fleet.overcommit) if fleet.overcommit else none
    trouble = fleet.withdrawn or fleet.overcommit
    return KeyNumber("withdrawn", fleet.withdrawn, note=note, level="warn" if trouble else "")


def legend(fleet: FleetRow) -> list[LegendEntry]:
    counts = dict(fleet.cells)
    return [LegendEntry(state, counts.get(state, 0), state in ALWAYS or bool(counts.get(state))) for state in STATES]


def map_size(fleet: FleetRow) -> Text:
    return say("map.size", nodes=say("nodes", n=fleet.nodes), gpus=say("gpus", n=fleet.gpus))


def claims(fleet: FleetRow) -> Text:
    return say("map.claims", n=fleet.claims) if fleet.claims else ""


def measured(nodes: Iterable[NodeRow]) -> bool:
    """Whether GPU health is read on every node of the map that has GPUs."""
    return all(node.measured for node in nodes if node.cells)


def groups(nodes: Iterable[NodeRow]) -> list[Group]:
    """By pool, then zone, then node name, as a person counts: node-2 before node-10."""
    found: dict[tuple[str, str], list[NodeRow]] = {}
    for node in sorted(nodes, key=lambda node: natural(node.name)):
        found.setdefault((node.pool, node.zone), []).append(node)
    order = sorted(found, key=lambda key: (natural(key[0]), natural(key[1])))
    return [_group(pool, zone, tuple(found[pool, zone])) for pool, zone in order]


def _group(pool: str, zone: str, nodes: tuple[NodeRow, ...]) -> Group:
    return Group(group_id(pool, zone), place(pool, zone), group_sentence(nodes), nodes, tuple(marks(nodes)))


def marks(nodes: Iterable[NodeRow]) -> Iterator[Mark]:
    found = Counter[str]()
    for node in nodes:
        found.update(node.cells)
    counts = Counter[str]()
    for letter, n in found.items():
        counts[CELL_STATES[letter]] += n
    for state, (level, glyph) in MARKS.items():
        if counts[state]:
            words = "closed" if state == "cordoned" else state  # by a cordon or by a taint
            yield Mark(state, level, glyph, say(f"count.{words}", n=counts[state]))


def group_id(pool: str, zone: str) -> str:
    """An element id: label values hold no slash and no blank."""
    return re.sub(r"\s", "_", f"g-{pool}/{zone}")


def place(pool: str, zone: str) -> Text:
    if pool and zone:
        return say("group.path", pool=pool, zone=zone)
    return pool or zone or say("group.none")


def group_sentence(nodes: Iterable[NodeRow]) -> Text:
    nodes = tuple(nodes)
    kinds = {(len(node.cells), node.product) for node in nodes}
    total = sum(len(node.cells) for node in nodes)
    slots, product = next(iter(kinds)) if len(kinds) == 1 else (0, "")
    size: Text = say("group.even", n=len(nodes), slots=slots, product=product) if slots and product else ()
    if not size:
        size = (say("nodes", n=len(nodes)), say("gpus", n=total) if total else say("card.none"))
    if not total:
        return size
    free = sum(r.free for node in nodes if node.usable for r in node.resources)
    return (size, say("group.available", available=available(nodes), total=total), say("group.free", n=free))


def available(nodes: Iterable[NodeRow]) -> int:
    """Slots that are allocatable on usable nodes, without those whose GPU failed or is unknown."""
    return sum(r.allocatable - r.failed - r.unknown for node in nodes if node.usable for r in node.resources)


def card(node: NodeRow) -> Card:
    return Card(
        name=node.name,
        product=node.product,
        level=node.level,
        glyph=glyph(node),
        cells=node.cells,
        words=reason(node) if node.level else ", ".join(node.gpu_workloads),
        free=_free_words(node),
        label=_label(node),
    )


def glyph(node: NodeRow) -> str:
    """The mark that goes with the level; a silent node asks, a closed one is struck through."""
    if node.level == "off" and node.reasons[:1] and node.reasons[0] in SILENT:
        return "s-unknown"
    return GLYPHS.get(node.level, "")


def _free_words(node: NodeRow) -> Text:
    free = sum(r.free for r in node.resources)
    return say("card.free", n=free) if free and node.usable and not node.level else ""


def _label(node: NodeRow) -> Text:
    if not node.cells:
        return say("card.alt-none")
    return say("card.alt", gpus=say("gpus", n=len(node.cells)), counts=counts(node))


def counts(node: NodeRow) -> Text:
    """How many of the node's cells are in which state."""
    states = [CELL_STATES[letter] for letter in node.cells]
    return tuple(say(f"count.{cell_word(node, state)}", n=states.count(state)) for state in STATES if state in states)


def cell_word(node: NodeRow, state: str) -> str:
    """Closed slots are drawn alike; the word says what closes them."""
    return "tainted" if state == "cordoned" and not node.unschedulable else state


def main_reason(node: NodeRow) -> str:
    """What its level is about: announced work, or its most urgent reason; "" when it has none."""
    announced = node.planned if node.level == "drain" else ""
    return announced or (node.reasons[0] if node.reasons and node.level else "")


def reason(node: NodeRow, token: str = "") -> Text:
    """What is wrong with the node, in a few words: one of its reasons, or its most urgent one."""
    token = token or main_reason(node)
    ready_since = next((c.since_at for c in node.conditions if c.type == "Ready"), None)
    match token:
        case "node-unreachable" | "node-not-ready" if ready_since is not None:
            return say(f"card.{token}", age=Age(ready_since))
        case "cordoned" if node.cordoned_at is not None:
            return say("card.cordoned", age=Age(node.cordoned_at))
        case "node-tainted" if node.closed_by:
            return say("card.node-tainted", taint=node.closed_by)
        case "gpus-withdrawn":
            return say("card.gpus-withdrawn", n=sum(r.capacity - r.allocatable for r in node.resources))
        case "over-committed":
            return say("card.over-committed", n=sum(r.overcommit for r in node.resources))
    return say(f"card.{token}-short")
