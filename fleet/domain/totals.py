"""Totals of the fleet and of each product, from the rows of the nodes.

Owns the sums and what may be summed: whole GPUs, shares and MIG instances are different things, and no percentage crosses
products. Must not read Kubernetes objects.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from fleet.domain import capacity
from fleet.domain.picture import CELL_STATES, FleetRow, NodeRow, PodRow, ProductRow, Resource
from fleet.domain.pods import by_age


class Share(Struct, frozen=True, gc=False):
    """What one resource of one node adds to the totals. `state`: open for new pods, cordoned, tainted or silent."""

    node: str
    kind: str  # capacity.kind_of_slot
    whole: bool
    state: str
    capacity: int
    allocatable: int
    allocated: int
    free: int
    overcommit: int


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


def fleet_row(nodes: Sequence[NodeRow], found: Sequence[Share], demand: Demand) -> FleetRow:
    """The totals; `found`: the shares of all `nodes`."""
    gpu_nodes = [row for row in nodes if row.resources or row.physical]
    whole = [share for share in found if share.whole]
    holes = capacity.holes((s.node, s.free) for s in whole if s.state == "open")
    oldest = demand.oldest
    by_state = _allocatable_by_state(found)
    return FleetRow(
        nodes=len(nodes),
        gpu_nodes=len(gpu_nodes),
        nodes_ready=sum(row.ready == "True" for row in nodes),
        physical=_physical(gpu_nodes),
        gpus=sum(s.capacity for s in found),
        available=by_state["open"],
        cordoned=by_state["cordoned"],
        tainted=by_state["tainted"],
        silent=sum(s.capacity for s in found if s.state == "silent"),
        withdrawn=sum(s.capacity - s.allocatable for s in found if s.state != "silent"),
        allocated=sum(s.allocated for s in found),
        free=sum(s.free for s in found if s.state == "open"),
        overcommit=sum(s.overcommit for s in found),
        largest_hole=holes.largest,
        largest_hole_node=holes.node,
        largest_hole_product=next((s.kind for s in whole if s.node == holes.node and s.free == holes.largest), ""),
        slots=holes.slots,
        fragmentation=holes.fragmentation if len({s.kind for s in whole}) == 1 else (),
        waiting_pods=demand.pods,
        waiting_since_at=oldest.created_at if oldest else None,
        waiting_gpus=oldest.gpus if oldest else 0,
        waiting_oldest=f"{oldest.namespace}/{oldest.name}" if oldest else "",
        claims=demand.claims,
        cells=_cells(nodes),
    )


def product_rows(found: Iterable[Share]) -> dict[str, ProductRow]:
    by_kind: defaultdict[str, list[Share]] = defaultdict(list)
    for share in found:
        by_kind[share.kind].append(share)
    return {kind: _product_row(kind, by_kind[kind]) for kind in sorted(by_kind)}


def _state(row: NodeRow) -> str:
    if row.ready != "True":
        return "silent"
    if row.unschedulable:
        return "cordoned"
    return "open" if row.usable else "tainted"


def _share(row: NodeRow, state: str, resource: Resource) -> Share:
    return Share(
        node=row.name,
        kind=capacity.kind_of_slot(row.product_name, resource),
        whole=not (resource.shared or resource.mig),
        state=state,
        capacity=max(resource.capacity, resource.allocatable),
        allocatable=resource.allocatable,
        allocated=resource.allocated,
        free=resource.free,
        overcommit=resource.overcommit,
    )


def _product_row(kind: str, found: Sequence[Share]) -> ProductRow:
    holes = capacity.holes((s.node, s.free) for s in found if s.state == "open")
    return ProductRow(
        product=kind,
        nodes=len({s.node for s in found}),
        gpus=sum(s.allocatable for s in found),
        available=_allocatable_by_state(found)["open"],
        allocated=sum(s.allocated for s in found),
        free=holes.free,
        largest_hole=holes.largest,
        largest_hole_node=holes.node,
        slots=holes.slots,
        fragmentation=holes.fragmentation,
    )


def _allocatable_by_state(found: Iterable[Share]) -> defaultdict[str, int]:
    total: defaultdict[str, int] = defaultdict(int)
    for share in found:
        total[share.state] += share.allocatable
    return total


def _physical(gpu_nodes: Iterable[NodeRow]) -> int | None:
    """None as soon as one node's count is unknown: a sum of the rest would pass for all."""
    total = 0
    for row in gpu_nodes:
        if row.physical is None:
            return None
        total += row.physical
    return total


def _cells(nodes: Iterable[NodeRow]) -> tuple[tuple[str, int], ...]:
    """Every state of the map with its count, 0 included, so that the legend keeps its shape."""
    letters = "".join(row.cells for row in nodes)
    total = dict.fromkeys(CELL_STATES.values(), 0)
    for letter, state in CELL_STATES.items():
        total[state] += letters.count(letter)
    return tuple(total.items())
