"""What is known about a node's GPUs between its readings, and what an assessment hands out: the shapes and their order.

Owns `NodeHealth` (the memory), `Transition` (for the ledger), `NodeStanding` and `Assessed` (for the picture), and which of two
verdicts is worse. Must not look at a reading: `health` does. All times are seconds since 1970 of Vigie's own clock; a node's own
times are shifted by the offset that was measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from fleet.domain.gpus import DeviceState, DriverStatus, Gpu, GpuAction
from fleet.domain.picture import FindingRow, GpuRow

NOT_OWNED: Final = ""  # in a transition: the fleet did not have this GPU before, or has it no longer

Fact = str | int | float | None
Facts = tuple[tuple[str, Fact], ...]

SOFT_RESET: Final = 3  # work may go on until the next convenience: that is degraded, not down
# UNKNOWN hides every state in which a GPU would count as available, and no state in which it is known not to be.
SEVERITY: Final[Mapping[str, int]] = {
    DeviceState.OK: 0,
    DeviceState.APP_FAULT: 1,
    DeviceState.DEGRADED: 2,
    DeviceState.UNKNOWN: 4,
    DeviceState.RESET_REQUIRED: 5,
    DeviceState.REBOOT_REQUIRED: 6,
    DeviceState.HARDWARE_SERVICE: 7,
    DeviceState.LOST: 8,
}
URGENCY: Final[Mapping[str, int]] = {action: rank for rank, action in enumerate(GpuAction)}


class NodeContext(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Kubernetes says about the node: what a reading cannot know."""

    node: str
    gpu_labelled: bool = False  # some label or capacity says that it has NVIDIA GPUs
    physical: int | None = None  # GPUs in the machine by its labels, apart from slots; None where they do not tell
    capacity: int | None = None  # slots of whole GPUs and shares of them; None where MIG instances make them up
    allocatable: int | None = None
    replicas: int = 1  # slots that stand for one GPU (time slicing, MPS)
    upgrade_state: str = ""  # label nvidia.com/gpu-driver-upgrade-state
    upgrade_since_at: float | None = None  # since when it has had this value, if somebody knows
    mig_state: str = ""  # label nvidia.com/mig.config.state
    deploy_paused: str = ""  # value of the nvidia.com/gpu.deploy.* labels that say paused-for-…
    boot_id: str = ""  # of the node's object; a reading's own boot id counts
    product: str = ""  # as labelled


class Window(Struct, frozen=True, array_like=True):
    """Samples of one GPU, one per minute: whether its clocks were held back, and how many memory errors it corrected."""

    begun: int = 0  # minute of the first reading, in minutes since 1970
    minute: int = 0  # the one that is under way
    readings: int = 0  # with a known clock mask in it
    held: tuple[int, int, int, int] = (0, 0, 0, 0)  # of these, by `windows.HOLDS`
    samples: tuple[tuple[int, int], ...] = ()  # (minute, bit set of HOLDS), complete minutes, at most ten
    corrected: int | float | None = None  # volatile counter when the minute began
    corrected_at: float = 0.0
    corrected_per_s: float | None = None  # over the last complete minute


class GpuHealth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one GPU."""

    gpu: Gpu  # its last good reading; of one that never answered, what little it said
    read_at: float | None = None  # of that reading; None: never
    seen_at: float  # when the source last listed it, whatever it answered
    state: str = DeviceState.UNKNOWN
    action: str = GpuAction.NONE
    soft: bool = False
    planned: bool = False
    since_at: float  # in this state
    findings: tuple[FindingRow, ...] = ()  # the deciding one first
    pending: tuple[tuple[str, float], ...] = ()  # conditions that do not count yet: (rule, since when)
    window: Window = Window()
    unused_since_at: float | None = None
    stranger_since_at: float | None = None  # used by a process in no pod while no pod holds it
    hung: int = 0  # readings in a row in which a call did not return


class Heard(Struct, frozen=True, array_like=True):
    """How far a source has been heard, so that what is older can be told."""

    source: str
    agent: str
    sequence: int
    read_at: float


class NodeHealth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one node between its readings."""

    node: str
    boot_id: str = ""
    source: str = ""  # whose reading counted last
    heard: tuple[Heard, ...] = ()  # newest last, at most `health.MOST_AGENTS`
    read_at: float = 0.0  # last reading that counted
    told_at: float = 0.0  # of the last assessment, silence included: transitions never go back behind it
    silent_since_at: float | None = None
    delays: tuple[float, ...] = ()  # of the last readings: our clock less the node's
    status: str = DriverStatus.OK
    error: str = ""
    driver: str = ""
    cuda: str = ""
    count: int | None = None
    gpus: Mapping[str, GpuHealth] = {}  # by UUID, or by "node/…" while the driver does not say it
    findings: tuple[FindingRow, ...] = ()  # about the node as a whole
    pending: tuple[tuple[str, float], ...] = ()
    log_sequence: int = -1  # last line of this boot's kernel log that was taken in
    lost_lines: int = 0  # of this boot's kernel log, never seen
    log_error: str = ""
    hung: int = 0  # readings in a row in which the driver as a whole did not return
    work: tuple[str, float] = ("", 0.0)  # what is announced, as Kubernetes says it, and since when
    planned: str = ""
    planned_since_at: float | None = None


class Transition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something happened to a GPU: a row of the ledger. Its state changed, or (both states alike) a finding came or went."""

    node: str
    gpu: str  # key of its GpuRow
    at: float
    from_state: str  # a DeviceState, or NOT_OWNED
    to_state: str
    soft: bool = False  # of `to_state`: work may go on
    reason: str = ""  # rule
    action: str = GpuAction.NONE
    evidence: dict[str, Fact] = {}
    boot_id: str = ""
    planned: bool = False  # of `to_state`: announced work
    closes: str = ""  # how the finding `reason` ended: reboot, reset, replaced, cleared, expired, named, removed


class NodeStanding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node's own part of the verdict: what its NodeRow and its attention rows need."""

    gpu_node: bool = True  # False: no driver, no label, no GPU ever seen
    measured: bool = False
    source: str = ""
    read_at: float | None = None
    silent_since_at: float | None = None
    planned: str = ""  # driver-upgrade, mig-change; "" none
    planned_since_at: float | None = None
    driver_status: str = DriverStatus.OK
    driver: str = ""
    cuda: str = ""
    count: int | None = None  # GPUs that the driver counts
    known: int = 0  # GPUs of the inventory, whether or not they answer
    unheld_use: int = 0
    idle_held: int = 0
    clock_offset_s: float | None = None  # our clock less the node's, transport included; None: not known yet
    findings: tuple[
        FindingRow, ...
    ] = ()  # about the node as a whole, by rule; since_at, evidence and facts as for a GPU


class Assessed(Struct, frozen=True):
    health: NodeHealth
    transitions: tuple[Transition, ...]
    rows: dict[str, GpuRow]
    standing: NodeStanding


def severity(state: str, soft: bool = False) -> int:
    return SOFT_RESET if soft and state == DeviceState.RESET_REQUIRED else SEVERITY[state]


def usable(state: str, soft: bool = False) -> bool:
    """Whether a GPU in this state is available. Unknown never is."""
    return severity(state, soft) <= SOFT_RESET


def known(state: str) -> bool:
    return state not in {DeviceState.UNKNOWN, NOT_OWNED}


def ordered(findings: Iterable[FindingRow]) -> tuple[FindingRow, ...]:
    """The deciding one first: worst state, then most urgent action, then the oldest."""
    return tuple(
        sorted(findings, key=lambda f: (-severity(f.state, f.soft), -URGENCY[f.action], f.since_at, f.rule, f.instance))
    )


def urgent(findings: Sequence[FindingRow]) -> str:
    """The most severe action of all findings, whichever of them decides the state."""
    return max((f.action for f in findings), key=URGENCY.__getitem__, default=GpuAction.NONE)
