"""GPU accounting: what a pod takes, what a node gives, what is free, and in which pieces.

Owns the resource names that count as GPUs and the formulas of effective requests, free, holes and fragmentation. Must not build
rows of whole tables. A pod's size: Kubernetes' component-helpers, resource/helpers.go. Fragmentation: 1 - k·slots_k/F.

A slot is what a pod can ask for: a whole GPU, a share of one, or a MIG instance. Slots of different names are never added up as
if they were the same.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from fleet.domain import machines, picture
from fleet.domain.objects import Container, Node, Pod, PodSpec, Taint, seconds
from fleet.domain.quantities import whole

SIZES = (1, 2, 4, 8)
FINISHED = frozenset({"Succeeded", "Failed"})

MOST_SLOTS = 4096  # of one resource on one node: more is no count of GPUs, and its map would be none

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
CLOSING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
# Besides taints whose key is a GPU resource name (the ExtendedResourceToleration admission plugin tolerates those for every pod
# that asks for the resource): AKS' documented taint of GPU pools, and the customary key that reserves a pool for its tenants.
TOLERATED_TAINTS: Mapping[str, str | None] = {"sku": "gpu", "dedicated": None}  # key → value, None any


class GpuName(Struct, frozen=True):
    """A pattern of extended resource names that count as GPUs, in the order in which a node's slots are shown."""

    pattern: re.Pattern[str]
    shared: bool = False
    partition: bool = False  # a MIG instance or another vendor's partition of a GPU
    profile: int = 0  # group of the pattern that names the partition's profile


GPU_NAMES = (
    GpuName(re.compile(r"nvidia\.com/gpu")),
    GpuName(re.compile(r"nvidia\.com/gpu\.shared"), shared=True),
    GpuName(re.compile(r"nvidia\.com/mig-([^/]+?)\.shared"), shared=True, partition=True, profile=1),
    GpuName(re.compile(r"nvidia\.com/mig-([^/]+)"), partition=True, profile=1),
    GpuName(re.compile(r"amd\.com/gpu")),
    GpuName(re.compile(r"amd\.com/([sdqc]px_nps\d)"), partition=True, profile=1),
    GpuName(re.compile(r"gpu\.intel\.com/(?:i915|xe)")),
    GpuName(re.compile(r"habana\.ai/gaudi")),
)


class Holes(Struct, frozen=True):
    """In which pieces `free` slots lie: the largest on one node, and how many requests of each size find room."""

    free: int
    largest: int
    slots: tuple[tuple[int, int], ...]
    fragmentation: tuple[tuple[int, float | None], ...]


@lru_cache(maxsize=1024)
def gpu_name(resource: str) -> GpuName | None:
    """The pattern that makes `resource` a GPU resource, None for every other resource."""
    return next((name for name in GPU_NAMES if name.pattern.fullmatch(resource)), None)


@lru_cache(maxsize=1024)
def gpu_order(resource: str) -> tuple[int, str]:
    """Sorts GPU resource names: by the table, then by name."""
    found = gpu_name(resource)
    return (GPU_NAMES.index(found) if found else len(GPU_NAMES), resource)


def effective_requests(spec: PodSpec) -> dict[str, int]:
    """GPU slots by resource name that the pod takes on its node for its whole life.

    max(Σ containers + Σ sidecars, max over plain init containers of its own + the sidecars declared before it). Overhead is
    left out: it never holds GPUs.
    """
    total = Counter[str]()
    for container in spec.containers:
        total.update(_requests(container))
    if spec.init_containers:
        sidecars, peak = _initial_requests(spec.init_containers)
        total = (total + sidecars) | peak
    return {name: slots for name, slots in total.items() if slots > 0}


def finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def counted(pod: Pod) -> bool:
    """Whether the pod holds what it asked for: bound and not finished. A terminating pod holds it to the end."""
    return bool(pod.spec.node_name) and not finished(pod)


def waiting(pod: Pod) -> bool:
    """Whether the pod still asks for a node."""
    return not pod.spec.node_name and not finished(pod) and pod.metadata.deletion_timestamp is None


def ready_status(node: Node) -> str:
    """Status of the node's condition Ready: True, False or Unknown (also when there is none)."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "Unknown")


def closing_taints(node: Node) -> tuple[Taint, ...]:
    """Taints that keep GPU pods away.

    The unschedulable taint is left out: it follows `spec.unschedulable` by some 10-30 ms both ways, and the field is the truth.
    """
    return tuple(t for t in _own_taints(node) if t.effect in CLOSING_EFFECTS and not _customarily_tolerated(t))


def taints(node: Node) -> tuple[Taint, ...]:
    """All taints; the unschedulable one comes and goes with the field, so that a cordon is one change."""
    cordon = (Taint(UNSCHEDULABLE_TAINT, effect="NoSchedule"),) if node.spec.unschedulable else ()
    return _own_taints(node) + cordon


def _own_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(t for t in node.spec.taints if t.key != UNSCHEDULABLE_TAINT)


def taint_text(taint: Taint) -> str:
    """As kubectl writes it: "key=value:Effect"."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def usable(node: Node) -> bool:
    """Whether new GPU pods can be placed: Ready, not cordoned, no taint that GPU pods do not customarily tolerate."""
    return ready_status(node) == "True" and not node.spec.unschedulable and not closing_taints(node)


def cordon(node: Node) -> tuple[str, float | None]:
    """Who set `spec.unschedulable`, by field manager, and when: ("", None) when nobody did or it is not recorded."""
    if not node.spec.unschedulable:
        return "", None
    setters = [entry for entry in node.metadata.managed_fields if entry.fields.spec.unschedulable is not None]
    last = max(setters, key=lambda entry: seconds(entry.time) or 0.0, default=None)
    return (last.manager, seconds(last.time)) if last else ("", None)


def resources(node: Node, requested: Mapping[str, int]) -> tuple[picture.Resource, ...]:
    """The node's GPU resources in slot order; `requested` is the sum over its counted pods, by resource name.

    Names that are all zero are left out: a renamed or withdrawn resource stays in the node's status with "0" for ever.
    """
    names = {*node.status.capacity, *node.status.allocatable, *requested}
    found = (_resource(node, name, requested.get(name, 0)) for name in sorted(filter(gpu_name, names), key=gpu_order))
    return tuple(r for r in found if r.capacity or r.allocatable or r.allocated)


def kind_of_slot(product_name: str, resource: picture.Resource) -> str:
    """What the slots of a resource are, so that only alike are added up: "H100", "H100 1g.10gb", "H100 shared"."""
    found = gpu_name(resource.name)
    match = found.pattern.fullmatch(resource.name) if found and found.profile else None
    profile = match[found.profile] if found and match else machines.mig_profile(product_name)
    product = machines.short_product(product_name) or resource.name
    return " ".join(filter(None, (product, profile, "shared" if resource.shared else "")))


def holes(pieces: Iterable[tuple[int, int]]) -> Holes:
    """What fits into the free slots of usable nodes, given as (free slots on a node, how many nodes have just that)."""
    found = [(free, nodes) for free, nodes in pieces if free > 0]
    total = sum(free * nodes for free, nodes in found)
    slots = tuple((k, sum(free // k * nodes for free, nodes in found)) for k in SIZES)
    return Holes(
        free=total,
        largest=max((free for free, _ in found), default=0),
        slots=slots,
        fragmentation=tuple((k, fragmentation(k, n, total)) for k, n in slots),
    )


def fragmentation(k: int, slots: int, free: int) -> float | None:
    """The part of `free` that requests of size k cannot use, to three decimals; None when nothing is free."""
    return round(1 - k * slots / free, 3) if free else None


def _requests(container: Container) -> dict[str, int]:
    """Limits alone suffice: the API server copies them to the requests that are absent."""
    asked = {**container.resources.limits, **container.resources.requests}
    return {name: _slots(text) for name, text in asked.items() if gpu_name(name)}


def _slots(text: str) -> int:
    """A number of slots. The API server lets anybody who may write a status say 9223372036854775807."""
    return min(max(0, whole(text)), MOST_SLOTS)


def _initial_requests(containers: Iterable[Container]) -> tuple[Counter[str], Counter[str]]:
    """(what the sidecars hold for good, the most that any plain init container needs together with the sidecars before it)."""
    sidecars = Counter[str]()
    peak = Counter[str]()
    for container in containers:
        own = _requests(container)
        if container.restart_policy == "Always":
            sidecars.update(own)
        else:
            peak |= Counter(own) + sidecars
    return sidecars, peak


def _resource(node: Node, name: str, allocated: int) -> picture.Resource:
    capacity = _slots(node.status.capacity.get(name, "0"))
    allocatable = _slots(node.status.allocatable.get(name, "0"))
    found = gpu_name(name)
    single = name == "nvidia.com/gpu" and machines.mig_profile(machines.product_name(node.metadata.labels)) != ""
    return picture.Resource(
        name=name,
        capacity=capacity,
        allocatable=allocatable,
        allocated=allocated,
        free=max(0, allocatable - allocated),
        overcommit=max(0, allocated - allocatable),
        shared=machines.shares(node.metadata.labels, name),
        mig=single or (found is not None and found.partition),
    )


def _customarily_tolerated(taint: Taint) -> bool:
    if gpu_name(taint.key):
        return True
    return taint.key in TOLERATED_TAINTS and TOLERATED_TAINTS[taint.key] in {None, taint.value}
