"""Totals of the fleet and of each product, from the rows of the nodes.

Owns the sums and what may be summed: whole GPUs, shares and MIG instances are different things, and no percentage crosses
products. Must not read Kubernetes objects.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from fleet.domain import capacity
from fleet.domain.picture import CELL_STATES, FleetRow, NodeRow, PodRow, ProductRow, Resource
from fleet.domain.pods import by_age


class State(StrEnum):
    """What a node is to new GPU pods."""

    OPEN = "open"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    SILENT = "silent"


class Share(Struct, frozen=True, gc=False):
    """What one resource of a node adds to the totals. Many nodes have equal shares, so sums go over few of them."""

    kind: str  # capacity.kind_of_slot
    resource: str
    product_name: str
    whole: bool
    state: State
    capacity: int
    allocatable: int
    available: int  # allocatable, without failed and unknown
    failed: int
    unknown: int
    allocated: int
    free: int
    overcommit: int


class Standing(Struct, frozen=True, gc=False):
    """What a node adds to the totals besides its shares."""

    ready: bool
    has_gpus: bool
    physical: int | None
    cells: str


Shares = Mapping[Share, Collection[str]]  # → names of the nodes that have it
Standings = Mapping[Standing, Collection[str]]  # → names of the nodes that have it


class Demand(Struct, frozen=True):
    """Pods that want GPUs and have no node, and pods whose GPUs are claimed."""

    pods: int = 0
    oldest: PodRow | None = None
    claims: int = 0


def demand(waiting: Iterable[PodRow], claims: int) -> Demand:
    """`waiting`: pods that want GPUs and have no node; `claims`: how many pods use resource claims."""
    rows = sorted(waiting, key=by_age)
    return Demand(len(rows), rows[0] if rows else None, claims)


def shares(row: NodeRow) -> tuple[Share, ...]:
    state = _state(row)
    return tuple(_share(row, state, resource) for resource in row.resources)


def standing(row: NodeRow) -> Standing:
    return Standing(row.ready == "True", bool(row.resources or row.physical), row.physical, row.cells)


def largest_free(found: Shares, resource: str, product_name: str) -> int:
    """The largest free piece of a resource on one usable node, of a product as labelled ("": any)."""
    pieces = (
        share.free
        for share in found
        if share.state is State.OPEN and share.resource == resource and product_name in {"", share.product_name}
    )
    return max(pieces, default=0)


def fleet_row(nodes: Standings, found: Shares, demand: Demand) -> FleetRow:
    """The totals; `nodes` and `found`: the standings and the shares of all nodes."""
    by_state = {state: {s: n for s, n in found.items() if s.state is state} for state in State}
    ready = {share: names for share, names in found.items() if share.state is not State.SILENT}
    whole = {share: names for share, names in found.items() if share.whole}
    holes, hole_node, hole_product = _holes(whole)
    oldest = demand.oldest
    return FleetRow(
        nodes=sum(map(len, nodes.values())),
        gpu_nodes=sum(len(names) for standing, names in nodes.items() if standing.has_gpus),
        nodes_ready=sum(len(names) for standing, names in nodes.items() if standing.ready),
        physical=_physical(nodes),
        gpus=_sum(found, "capacity"),
        available=_sum(by_state[State.OPEN], "available"),
        cordoned=_sum(by_state[State.CORDONED], "available"),
        tainted=_sum(by_state[State.TAINTED], "available"),
        silent=_sum(by_state[State.SILENT], "capacity"),
        withdrawn=sum((s.capacity - s.allocatable) * len(n) for s, n in ready.items()),
        failed=_sum(ready, "failed"),
        unknown=_sum(ready, "unknown"),
        allocated=_sum(found, "allocated"),
        free=_sum(by_state[State.OPEN], "free"),
        overcommit=_sum(found, "overcommit"),
        largest_hole=holes.largest,
        largest_hole_node=hole_node,
        largest_hole_product=hole_product,
        slots=holes.slots,
        fragmentation=holes.fragmentation if len({share.kind for share in whole}) == 1 else (),
        waiting_pods=demand.pods,
        waiting_since_at=oldest.created_at if oldest else None,
        waiting_gpus=oldest.gpus if oldest else 0,
        waiting_oldest=f"{oldest.namespace}/{oldest.name}" if oldest else "",
        claims=demand.claims,
        cells=_cells(nodes),
    )


def product_rows(found: Shares) -> dict[str, ProductRow]:
    by_kind: defaultdict[str, dict[Share, Collection[str]]] = defaultdict(dict)
    for share, names in found.items():
        by_kind[share.kind][share] = names
    return {kind: _product_row(kind, by_kind[kind]) for kind in sorted(by_kind)}


def _product_row(kind: str, found: Shares) -> ProductRow:
    holes, hole_node, _ = _holes(found)
    return ProductRow(
        product=kind,
        nodes=len({name for names in found.values() for name in names}),
        gpus=_sum(found, "allocatable"),
        available=_sum({s: n for s, n in found.items() if s.state is State.OPEN}, "available"),
        allocated=_sum(found, "allocated"),
        free=holes.free,
        largest_hole=holes.largest,
        largest_hole_node=hole_node,
        slots=holes.slots,
        fragmentation=holes.fragmentation,
    )


def _holes(found: Shares) -> tuple[capacity.Holes, str, str]:
    """The holes of the open nodes, and node and kind of the largest; ties go to the first name."""
    open_shares = {share: names for share, names in found.items() if share.state is State.OPEN}
    holes = capacity.holes((share.free, len(names)) for share, names in open_shares.items())
    at_best = [(min(n), s.kind) for s, n in open_shares.items() if s.free == holes.largest > 0]
    return holes, *min(at_best, default=("", ""))


def _sum(found: Shares, field: str) -> int:
    return sum(getattr(share, field) * len(names) for share, names in found.items())


def _state(row: NodeRow) -> State:
    if row.ready != "True":
        return State.SILENT
    if row.unschedulable:
        return State.CORDONED
    return State.OPEN if row.usable else State.TAINTED


def _share(row: NodeRow, state: State, resource: Resource) -> Share:
    return Share(
        kind=capacity.kind_of_slot(row.product_name, resource),
        resource=resource.name,
        product_name=row.product_name,
        whole=not (resource.shared or resource.mig),
        state=state,
        capacity=max(resource.capacity, resource.allocatable),
        allocatable=resource.allocatable,
        available=max(0, resource.allocatable - resource.failed - resource.unknown),
        failed=resource.failed,
        unknown=resource.unknown,
        allocated=resource.allocated,
        free=resource.free,
        overcommit=resource.overcommit,
    )


def _physical(nodes: Standings) -> int | None:
    """None as soon as one GPU node's count is unknown: a sum of the rest would pass for all."""
    total = 0
    for standing, names in nodes.items():
        if standing.has_gpus and standing.physical is None:
            return None
        total += (standing.physical or 0) * len(names)
    return total


def _cells(nodes: Standings) -> tuple[tuple[str, int], ...]:
    """Every state of the map with its count, 0 included, so that the legend keeps its shape."""
    total = dict.fromkeys(CELL_STATES.values(), 0)
    for standing, names in nodes.items():
        for letter in set(standing.cells):
            total[CELL_STATES[letter]] += standing.cells.count(letter) * len(names)
    return tuple(total.items())
