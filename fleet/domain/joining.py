"""Slots and GPUs together: what a node's row says once its GPUs are measured.

Owns the join: cells by GPU, and how many slots failed and unknown GPUs take. Must not judge a GPU, nor know other nodes.

A GPU that a verdict calls failed or unknown is neither available nor free. Its device plugin may have withdrawn the same GPU, so
the two are never added up: only what a verdict takes beyond what is withdrawn is taken away. Degraded GPUs are both.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fleet.domain import gpu_attention, gpu_rows
from fleet.domain.capacity import gpu_name
from fleet.domain.gpus import DeviceState
from fleet.domain.picture import AttentionRow, GpuRow, InstanceRow, NodeRow, Resource
from fleet.domain.verdicts import NodeStanding, usable

UNUSABLE: Final = frozenset("xu")

Rows = Mapping[str, GpuRow]


class Toll(Struct, frozen=True):
    """Slots of one resource that verdicts take, and how many of them no pod holds (None: nobody knows which are held)."""

    failed: int = 0
    unknown: int = 0
    free: int | None = None
    known: int = 0  # GPUs that there are, for a resource of whole ones: more than it has slots when one was lost before


def joined(row: NodeRow, standing: NodeStanding, rows: Rows) -> tuple[NodeRow, list[AttentionRow]]:
    """The row with what its GPUs add to it, and what needs a person about them. `row`: as Kubernetes alone tells of the node."""
    gpus = sorted(rows.values(), key=lambda gpu: (gpu.index, gpu.pci))
    told = gpu_attention.concerns(row, standing, gpus)
    found = _joined(row, standing, gpus, told)
    return found, gpu_attention.of_gpus(found, told)


def _joined(
    row: NodeRow, standing: NodeStanding, gpus: Sequence[GpuRow], told: Sequence[gpu_attention.Told]
) -> NodeRow:
    resources = tuple(_charged(resource, _toll(resource, gpus)) for resource in row.resources)
    return replace(
        row,
        cells=cells(row, resources, gpus),
        physical=_physical(row, standing, gpus),
        resources=resources,
        measured=True,
        silent_since_at=standing.silent_since_at,
        planned=standing.planned,
        unheld_use=standing.unheld_use,
        idle_held=standing.idle_held,
        driver=standing.driver or row.driver,
        cuda=standing.cuda or row.cuda,
        level=gpu_attention.level(row, standing, told, gpus),
        reasons=gpu_attention.reasons(row, told, gpus, planned=bool(standing.planned)),
    )


def cells(row: NodeRow, resources: Sequence[Resource], gpus: Sequence[GpuRow]) -> str:
    """One letter of CELL_STATES per slot. Whole GPUs have one cell each, in the order of their indices; of shares and instances
    Kubernetes does not say which is where, so they are in slot order."""
    if row.ready != "True" or not resources:
        return row.cells
    free = "f" if row.usable else "c"
    return "".join(_whole(r, gpus, free) if _is_whole(r) else _parts(r, free) for r in resources)


def _is_whole(resource: Resource) -> bool:
    return not resource.shared and not resource.mig and resource.name.startswith("nvidia.com/")


def _whole(resource: Resource, gpus: Sequence[GpuRow], free: str) -> str:
    """A GPU that has no slot is shown only where something is wrong with it; a slot without a GPU is unknown."""
    held = _held(gpus, resource.allocated)
    letters = [gpu_rows.cell(gpu, allocated=i in held) for i, gpu in enumerate(gpus)]
    slots = max(resource.capacity, resource.allocatable)
    spare = len(letters) - slots
    withdrawn = slots - resource.allocatable - sum(letter in UNUSABLE for letter in letters)
    for i in reversed(range(len(letters))):
        if letters[i] != "f":
            continue
        if spare > 0:
            letters[i], spare = "c", spare - 1
        elif withdrawn > 0:
            letters[i], withdrawn = "x", withdrawn - 1
        else:
            letters[i] = free
    return "".join(letters) + "u" * (slots - len(letters))


def _held(gpus: Sequence[GpuRow], allocated: int) -> set[int]:
    """Places of the GPUs that pods hold: as the kubelet says, then, up to what pods have asked for, the first that may be."""
    held = {i for i, gpu in enumerate(gpus) if gpu.pods}
    may = [i for i, gpu in enumerate(gpus) if gpu.pods is None or not gpu.pods]
    sure = [i for i in may if usable(gpus[i].state, gpus[i].soft)]
    for i in [*sure, *(i for i in may if i not in sure)]:
        if len(held) >= allocated:
            break
        held.add(i)
    return held


def _parts(resource: Resource, free: str) -> str:
    slots = max(resource.capacity, resource.allocatable)
    busy = min(resource.allocated, resource.allocatable)
    letters = "b" * busy + free * resource.free
    letters += "u" * min(resource.unknown, slots - len(letters))
    return letters + "x" * (slots - len(letters))


def _toll(resource: Resource, gpus: Sequence[GpuRow]) -> Toll:
    """Slots that stand for GPUs and instances which cannot be used, whether or not they are withdrawn as well."""
    if not resource.name.startswith("nvidia.com/"):
        return Toll()
    if resource.mig:
        return _toll_of([(i.state, False, i.pods) for gpu in gpus for i in _instances(resource, gpu)], 1)
    parts = [(gpu.state, gpu.soft, gpu.pods) for gpu in gpus]
    if resource.shared:
        return _toll_of(parts, max(1, max(resource.capacity, resource.allocatable) // max(1, len(gpus))))
    return replace(_toll_of(parts, 1), known=len(gpus))


def _toll_of(parts: Iterable[tuple[str, bool, tuple[str, ...] | None]], each: int) -> Toll:
    bad = [(state, pods) for state, soft, pods in parts if not usable(state, soft)]
    unknown = sum(state == DeviceState.UNKNOWN for state, _ in bad)
    free = None if any(pods is None for _, pods in bad) else each * sum(not pods for _, pods in bad)
    return Toll(each * (len(bad) - unknown), each * unknown, free)


def _charged(resource: Resource, toll: Toll) -> Resource:
    """What is withdrawn is taken from the failed ones first: a plugin withdraws what it finds unhealthy."""
    if not (toll.failed or toll.unknown):
        return resource
    withdrawn = max(0, resource.capacity - resource.allocatable, toll.known - resource.allocatable)
    unknown = min(toll.unknown - min(toll.unknown, max(0, withdrawn - toll.failed)), resource.allocatable)
    failed = min(max(0, toll.failed - withdrawn), resource.allocatable - unknown)
    unfree = failed + unknown if toll.free is None else max(0, toll.free - withdrawn)
    return replace(resource, failed=failed, unknown=unknown, free=max(0, resource.free - min(unfree, failed + unknown)))


def _instances(resource: Resource, gpu: GpuRow) -> list[InstanceRow]:
    """Those of a GPU that the slots of a resource stand for. Profiles are compared by their slices: one source says 7g.79gb
    where another says 7g.80gb."""
    found = gpu_name(resource.name)
    match = found.pattern.fullmatch(resource.name) if found and found.profile else None
    if found is None or match is None:  # the single strategy: all instances are alike
        return list(gpu.instances)
    slices = match[found.profile].partition(".")[0]
    return [instance for instance in gpu.instances if instance.profile.partition(".")[0] == slices]


def _physical(row: NodeRow, standing: NodeStanding, gpus: Sequence[GpuRow]) -> int | None:
    """As many as are known to be in the machine: one that the driver counts no more is there until somebody takes it out."""
    return max(standing.count or 0, len(gpus)) or row.physical
