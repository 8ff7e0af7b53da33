"""Heat and power trouble that several nodes of one rack have at the same time: one entry about the rack, not one about each node.

Owns what such trouble is, and where nodes stand together. Must not judge a GPU: its findings are there already.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from fleet.domain.attention import Concern, Facts, of_place
from fleet.domain.gpus import DeviceState
from fleet.domain.picture import AttentionRow, GpuRow, NodeRow

RACK: Final = "topology.kubernetes.io/rack"
# What a room does to a GPU, the most urgent first: who looks at power finds out about cooling too.
STRAINS: Final = ("throttle-power-brake", "throttle-hw-thermal", "temperature-margin")
SEVERAL: Final = 2
MOST_NAMES: Final = 6  # in a sentence; the row has all of them


class Strain(Struct, frozen=True):
    """Heat and power trouble on one node."""

    place: str  # "rack/ZONE/RACK"; "zone/ZONE" where no label names the rack
    rules: frozenset[str]
    gpus: int
    since_at: float
    whole: bool  # nothing else degrades any GPU of the node
    pods: int
    held: int


def strain(row: NodeRow, labels: Mapping[str, str], gpus: Iterable[GpuRow]) -> Strain | None:
    """What is the room's fault on a node; None when nothing is, or when nobody knows where the node stands."""
    place = _place(row, labels)
    suffering = [(gpu, found) for gpu in gpus if gpu.state != DeviceState.UNKNOWN and (found := _strains(gpu))]
    if not suffering or not place or row.ready != "True":
        return None
    return Strain(
        place=place,
        rules=frozenset(rule for _, found in suffering for rule, _ in found),
        gpus=len(suffering),
        since_at=min(since_at for _, found in suffering for _, since_at in found),
        whole=all(gpu.reason in STRAINS for gpu in gpus if gpu.state == DeviceState.DEGRADED or gpu.soft),
        pods=row.pods,
        held=sum(resource.allocated for resource in row.resources),
    )


def events(strains: Mapping[str, Strain]) -> dict[str, dict[str, Strain]]:
    """The nodes of each place where several have trouble now, by place and name."""
    found: defaultdict[str, dict[str, Strain]] = defaultdict(dict)
    for name, of_node in sorted(strains.items()):
        found[of_node.place][name] = of_node
    return {place: nodes for place, nodes in found.items() if len(nodes) >= SEVERAL}


def told(events: Mapping[str, Mapping[str, Strain]]) -> Iterator[AttentionRow]:
    """Facts: count (nodes), names (the first of them), more (how many are not named), strained (GPUs), rule; pods, gpus (held)
    of all these nodes."""
    for place, nodes in events.items():
        found = nodes.values()
        facts: Facts = (
            ("pods", sum(node.pods for node in found)),
            ("gpus", sum(node.held for node in found)),
            ("count", len(nodes)),
            ("names", ", ".join(list(nodes)[:MOST_NAMES])),
            ("more", max(0, len(nodes) - MOST_NAMES)),
            ("strained", sum(node.gpus for node in found)),
            ("rule", next(rule for rule in STRAINS if any(rule in node.rules for node in found))),
        )
        yield of_place(Concern.RACK_EVENT, place, min(node.since_at for node in found), facts, tuple(nodes))


def explained(events: Mapping[str, Mapping[str, Strain]]) -> frozenset[str]:
    """Nodes of which the rack's entry says all that degrades their GPUs."""
    return frozenset(name for nodes in events.values() for name, node in nodes.items() if node.whole)


def unexplained(rows: Sequence[AttentionRow]) -> Iterator[AttentionRow]:
    """What is left to tell of such a node."""
    return (row for row in rows if row.kind != Concern.GPU_DEGRADED)


def _place(row: NodeRow, labels: Mapping[str, str]) -> str:
    if rack := labels.get(RACK):
        return f"rack/{row.zone}/{rack}"
    return f"zone/{row.zone}" if row.zone else ""


def _strains(gpu: GpuRow) -> list[tuple[str, float]]:
    return [(f.rule, f.since_at) for f in gpu.findings if f.rule in STRAINS and not f.instance]
