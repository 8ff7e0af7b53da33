"""The picture: what is, at display precision, as rows that a screen or a program shows.

Owns the shape of every row that leaves the watch worker. A row holds only what somebody can see: times are absolute (`_at`,
seconds since 1970 of the API server's objects), never ages, so an unchanged cluster makes an unchanged picture. What depends on
history (stream trouble) is not in here; load times and ETA come from the pods that there are.

Three values everywhere: a number, `None` for unknown, and absence of the resource for not applicable.
"""

from collections.abc import Mapping

from msgspec import Struct

from fleet.domain.gpus import Measure
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.rows import Row as Row  # noqa: PLC0414 - offered here too
from fleet.domain.save_picture import CheckpointRow

# One letter per cell of a node, so that a node's map is one short string and one change is one attribute.
# Values are the `data-s` names of the visual language; digits 0-5 are busy with that many fifths of utilisation.
CELL_STATES: Mapping[str, str] = {
    "b": "busy",  # allocated, utilisation not measured
    "f": "free",
    "i": "idle",
    "d": "degraded",
    "x": "failed",
    "m": "draining",
    "c": "cordoned",
    "u": "unknown",
    **{str(u): "busy" for u in range(6)},
}


class Resource(Row, frozen=True):
    """One extended resource that gives GPUs on one node, in slots (whole GPUs, shares or MIG instances)."""

    name: str  # "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu" …
    capacity: int
    allocatable: int
    allocated: int  # Σ effective requests of bound pods that have not finished, terminating ones included
    free: int  # max(0, allocatable - allocated) without failed and unknown ones, whether or not the node is usable
    overcommit: int  # max(0, allocated - allocatable)
    shared: bool = False  # several slots stand for one physical GPU (time slicing, MPS)
    mig: bool = False
    failed: int = 0  # of allocatable: those whose GPU a verdict calls unusable
    unknown: int = 0  # of allocatable: those of whose GPU nothing is known


class Condition(Row, frozen=True):
    type: str
    status: str  # True, False, Unknown
    reason: str = ""
    message: str = ""
    since_at: float | None = None


class NodeRow(Row, frozen=True):
    """One node as the map, the node page and the API show it. Key: node name."""

    name: str
    pool: str = ""
    zone: str = ""
    product: str = ""  # short: "H100"
    product_name: str = ""  # as labelled: "NVIDIA-H100-80GB-HBM3"
    memory_mib: int | None = None  # per GPU, from the label
    cells: str = ""  # one letter of CELL_STATES per slot, in slot order
    level: str = ""  # "", warn, bad, drain, off: data-level of the visual language
    reasons: tuple[str, ...] = ()  # tokens, most urgent first: the attention kinds that concern this node
    usable: bool = True  # Ready, not unschedulable, no untolerated NoSchedule/NoExecute taint
    ready: str = "Unknown"  # status of condition Ready
    unschedulable: bool = False
    cordoned_at: float | None = None
    cordoned_by: str = ""  # field manager that set spec.unschedulable, "" unknown
    taints: tuple[str, ...] = ()  # all of them, as "key=value:Effect"
    closed_by: str = ""  # the first of them that keeps GPU pods away, apart from the one that repeats the cordon
    physical: int | None = None  # GPUs in the machine, apart from slots; None unknown
    resources: tuple[Resource, ...] = ()
    measured: bool = False  # some source reads GPU health on this node
    silent_since_at: float | None = None  # the source's last reading, when it has been silent for too long
    planned: str = ""  # work that somebody has announced on its GPUs: driver-upgrade, mig-change; "" none
    unheld_use: int = 0  # GPUs that a process uses although no pod holds them
    idle_held: int = 0  # GPUs that pods hold and nothing uses
    gpu_workloads: tuple[str, ...] = ()  # names of workloads that hold GPUs here, largest first
    pods: int = 0  # bound and not finished
    conditions: tuple[Condition, ...] = ()
    created_at: float | None = None
    boot_id: str = ""
    kubelet: str = ""
    kernel: str = ""
    os_image: str = ""
    runtime: str = ""
    driver: str = ""
    cuda: str = ""
    machine: str = ""  # instance type or GFD machine
    address: str = ""  # InternalIP


class FindingRow(Row, frozen=True):
    """One reason for a GPU's verdict, with where it was seen. Words are the screens' job: `rule` and `facts` only."""

    rule: str  # token of `health`'s list of rules, or "xid-79"
    source: str  # nvml, kernel-log, dcgm, kubernetes
    state: str  # a DeviceState
    action: str  # a GpuAction
    since_at: float
    seen_at: float  # its own age: evidence does not get younger because other evidence does
    evidence: str = ""  # the log line, or the measurement: "remap_pending = 1"
    facts: tuple[tuple[str, str | int | float | None], ...] = ()
    instance: str = ""  # UUID of the MIG instance that it concerns; "" the whole GPU
    soft: bool = False  # at the next convenience: work may go on


class InstanceRow(Row, frozen=True):
    """One MIG instance of a GPU."""

    uuid: str
    profile: str = ""
    state: str = "ok"
    memory_total_mib: Measure = None
    memory_used_mib: Measure = None
    pods: tuple[str, ...] = ()  # keys of pods that it is assigned to, or that use it


class GpuRow(Row, frozen=True):
    """One physical GPU as its source measured it, rounded as screens show it. Key: its UUID; "node/pci" while the driver does
    not say the UUID. `read_at` changes with every reading, so only views of its own node carry this table."""

    node: str
    index: int
    uuid: str = ""
    pci: str = ""
    name: str = ""
    serial: str = ""
    state: str = "unknown"  # a DeviceState
    action: str = "none"  # a GpuAction
    reason: str = ""  # rule of the finding that decides; "" ok
    level: str = ""  # "", warn, bad, off
    soft: bool = False
    since_at: float | None = None  # since when it has been in this state
    read_at: float | None = None  # its last good reading
    findings: tuple[FindingRow, ...] = ()  # the deciding one first
    utilization_pct: Measure = None
    memory_used_mib: Measure = None  # apart from what the driver reserves, if it can tell
    memory_total_mib: Measure = None
    memory_reserved_mib: Measure = None  # NA: `memory_used_mib` includes it
    temperature_c: Measure = None
    memory_temperature_c: Measure = None
    power_w: Measure = None
    power_limit_w: Measure = None
    sm_clock_mhz: Measure = None
    clock_reasons: tuple[str, ...] = ()  # tokens: idle, power-cap, thermal-hw …
    ecc_corrected: Measure = None
    ecc_uncorrected: Measure = None
    remap: tuple[Measure, Measure, Measure, Measure] = (
        None,
        None,
        None,
        None,
    )  # corrected, uncorrected, pending, failure
    nvlinks: tuple[Measure, Measure] = (None, None)  # active, all
    pcie: tuple[Measure, Measure] = (None, None)  # generation, width
    pods: tuple[str, ...] | None = None  # keys of the pods that it is assigned to; None: not known
    users: int | None = None  # processes that use it; None: not known
    strangers: int = 0  # those of them that are in no pod
    idle_since_at: float | None = None  # assigned, and not used since
    instances: tuple[InstanceRow, ...] = ()


class PodRow(Row, frozen=True):
    """One pod that holds GPUs, wants GPUs, or is bound to a node. Key: "namespace/name"."""

    uid: str
    namespace: str
    name: str
    node: str = ""  # "" not bound
    status: str = ""  # the word kubectl shows: Running, Pending, ContainerCreating, CrashLoopBackOff, Terminating …
    level: str = ""  # "", ok, warn, bad, drain
    ready: int = 0
    containers: int = 0
    restarts: int = 0
    gpus: int = 0  # Σ effective GPU slots over all GPU resources
    resources: tuple[tuple[str, int], ...] = ()  # (resource name, slots), sorted by name
    product: str = ""  # GPU product, as labelled, that its node selector asks for; "" any
    workload: str = ""  # key of its WorkloadRow, "" none
    owner_kind: str = ""  # kind of the top owner: Deployment, StatefulSet, DaemonSet, Job, ReplicaSet, Node …
    owner_name: str = ""
    team: str = ""
    budgets: tuple[str, ...] = ()  # names of PodDisruptionBudgets in its namespace that select it
    grace_s: int | None = None
    empty_dir: bool = False
    saves: bool = False  # its annotations say that it trains
    daemon: bool = False
    mirror: bool = False
    claims: int = 0  # resource claims (DRA): not counted in gpus
    waiting_reason: str = ""  # PodScheduled False: its reason
    waiting_message: str = ""
    created_at: float | None = None
    bound_at: float | None = None
    terminating_at: float | None = None  # deletionTimestamp: the end of its grace, in the future at first
    stage: str = ""  # a `stages.Stage`
    template: str = ""  # hash of the template that it was made from; "" its controller has no versions
    ready_at: float | None = None  # since when it has been Ready; None while it is not


class WorkloadRow(Row, frozen=True):
    """A top owner of pods. Key: "Kind/namespace/name"."""

    kind: str
    namespace: str
    name: str
    team: str = ""
    desired: int | None = None
    current: int = 0
    updated: int | None = None
    ready: int = 0
    available: int | None = None
    gpus_per_pod: int = 0
    gpus: int = 0  # slots held by its bound, unfinished pods
    starting: int = 0  # its bound pods that are not Ready yet and have had no trouble
    progressing: bool = (
        False  # its controller is at work: a rollout under a deadline, or a change that it has not seen yet
    )
    short_since_at: float | None = (
        None  # since when it has lacked pods, as far as objects tell; None while it lacks none
    )
    revision: str = ""
    paused: bool = False
    budgets: tuple[str, ...] = ()
    created_at: float | None = None


class ProductRow(Row, frozen=True):
    """Totals of the slots of one kind: whole GPUs of a product ("H100"), its shares ("H100 shared") or its MIG instances of one
    profile ("H100 1g.10gb"). Never summed with another product as a percentage. Key: product."""

    product: str
    nodes: int = 0
    gpus: int = 0  # allocatable slots on all its nodes
    available: int = 0
    allocated: int = 0
    free: int = 0  # on usable nodes
    largest_hole: int = 0
    largest_hole_node: str = ""
    slots: tuple[tuple[int, int], ...] = ()  # (size k, Σ ⌊free_i / k⌋) for k in 1, 2, 4, 8
    fragmentation: tuple[tuple[int, float | None], ...] = ()  # (k, 1 - k·slots_k/free); None when nothing is free


class FleetRow(Row, frozen=True):
    """Totals of the cluster. One row with the key "fleet"."""

    nodes: int = 0
    gpu_nodes: int = 0
    nodes_ready: int = 0
    physical: int | None = None  # None when any GPU node's count is unknown
    gpus: int = 0  # Σ capacity slots of GPU nodes
    available: int = 0  # allocatable on usable nodes, without failed and unknown ones
    cordoned: int = 0  # allocatable on Ready nodes that are unschedulable
    tainted: int = 0  # allocatable on Ready, schedulable nodes with a taint that GPU pods do not customarily tolerate
    silent: int = 0  # capacity of nodes that are not Ready
    withdrawn: int = 0  # capacity - allocatable on Ready nodes
    failed: int = 0  # allocatable on Ready nodes, but a verdict calls its GPU unusable
    unknown: int = 0  # allocatable on Ready nodes, but nothing is known of its GPU
    # gpus = available + cordoned + tainted + silent + withdrawn + failed + unknown
    allocated: int = 0
    free: int = 0  # on usable nodes
    overcommit: int = 0
    largest_hole: int = 0  # of whole GPUs, as are the slots: shares and MIG instances have their own product rows
    largest_hole_node: str = ""
    largest_hole_product: str = ""
    slots: tuple[tuple[int, int], ...] = ()
    fragmentation: tuple[
        tuple[int, float | None], ...
    ] = ()  # () with several products: a percentage never crosses products
    waiting_pods: int = 0  # pods that want GPUs and are not bound
    waiting_since_at: float | None = None  # oldest of them
    waiting_gpus: int = 0  # slots that the oldest one needs
    waiting_oldest: str = ""  # its key
    claims: int = 0  # pods that use resource claims (GPUs by DRA not counted)
    cells: tuple[tuple[str, int], ...] = ()  # (state name, count) over the whole map, for the legend
    trainings: int = 0  # workloads that train and do not rest
    behind: int = 0  # of those: a checkpoint is overdue, saving has stopped, or nothing complete is there
    unsaved: int = 0  # of those: not merely overdue
    unseen: int = 0  # of `trainings`: nobody knows how they stand


class AttentionRow(Row, frozen=True):
    """Something that needs a person. Key: "kind:subject". Its words are the screens' job: kind and facts only."""

    kind: str  # a value of `attention.Concern`: node-unreachable, gpus-withdrawn, pods-waiting …
    level: str  # bad, warn, drain; note: good to know, nothing to do
    rank: int  # lower is more urgent; ties by since_at, then subject
    subject: str  # node name, workload or pod key
    node: str = ""
    since_at: float | None = None
    facts: tuple[tuple[str, str | int | float | None], ...] = ()  # (name, value) that the sentence of this kind uses
    nodes: tuple[str, ...] = ()  # of an entry about several nodes: all of them; `node` is "" then


class LabelsRow(Row, frozen=True):
    """What a node's object is labelled with, sorted by name, and its annotations for people. Key: node name."""

    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()  # without what programs keep for themselves (`nodes.NOT_FOR_PEOPLE`)


class EventRow(Row, frozen=True):
    """An Event about a node, about a pod on it, or about a workload that has rollouts; the newest of each. Key: the Event's
    "namespace/name"."""

    node: str  # "" about a workload
    kind: str  # of what it is about: Node, Pod, Deployment, StatefulSet or DaemonSet
    namespace: str
    name: str
    type: str = ""  # Normal, Warning
    reason: str = ""
    message: str = ""
    count: int = 1
    last_at: float | None = None  # in whole seconds
    source: str = ""  # the component that wrote it


class Snapshot(Struct, frozen=True):
    """All rows of one cluster at one moment, by key. Two snapshots of the same cluster state are equal."""

    fleet: dict[str, FleetRow]
    products: dict[str, ProductRow]
    nodes: dict[str, NodeRow]
    pods: dict[str, PodRow]
    workloads: dict[str, WorkloadRow]
    attention: dict[str, AttentionRow]
    labels: dict[str, LabelsRow] = {}
    events: dict[str, EventRow] = {}
    gpus: dict[str, GpuRow] = {}
    rollouts: dict[str, RolloutRow] = {}
    checkpoints: dict[str, CheckpointRow] = {}


TABLES: Mapping[str, type[Row]] = {
    "fleet": FleetRow,
    "products": ProductRow,
    "nodes": NodeRow,
    "pods": PodRow,
    "workloads": WorkloadRow,
    "attention": AttentionRow,
    "labels": LabelsRow,
    "events": EventRow,
    "gpus": GpuRow,
    "rollouts": RolloutRow,
    "checkpoints": CheckpointRow,
}

EMPTY = Snapshot(**{name: {} for name in TABLES})
