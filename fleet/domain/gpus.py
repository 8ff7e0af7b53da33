"""A GPU node's reading: what one source measured of all GPUs of one machine at one moment.

Owns the wire format between every source (the agent, the exporter's scraper, the rehearsal's machines) and Vigie, and the words
for how a GPU is. Must not know NVML, DCGM or Kubernetes, and judges nothing: `xid` and `health` do.

Three values everywhere: a number; `NA`, not applicable: this hardware, mode or driver has no such number; `None`, unknown: it
should be there, but the call failed or never returned.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

NA: Final = "n/a"
Whole = Annotated[
    int, Meta(ge=-(2**63), le=2**63 - 1)
]  # what every store of it can hold; a reading with more is broken
Measure = Whole | float | Literal["n/a"] | None


class DeviceState(StrEnum):
    """How a GPU is, best first. `UNKNOWN` never overrides a worse known state and never counts as healthy."""

    OK = "ok"
    APP_FAULT = "app-fault"  # a program failed on it; the GPU is fine
    DEGRADED = "degraded"
    RESET_REQUIRED = "reset-required"
    REBOOT_REQUIRED = "reboot-required"
    HARDWARE_SERVICE = "hardware-service"
    LOST = "lost"
    UNKNOWN = "unknown"


class GpuAction(StrEnum):
    """What somebody should do about a GPU, mildest first; the most severe of all findings wins."""

    NONE = "none"
    MONITOR = "monitor"
    RESTART_APP = "restart-app"
    RECOVER_IMEX = "recover-imex"  # of the NVLink domain, not of this node's GPU
    DRAIN_PEERS = "drain-peers"  # jobs that use its NVLink peers have to go; the GPU itself is not broken
    RESET_GPU = "reset-gpu"
    DRAIN_AND_RESET = "drain-and-reset"
    RESET_BUS = "reset-bus"
    REBOOT_NODE = "reboot-node"
    CONTACT_SUPPORT = "contact-support"


class Answer(StrEnum):
    """What the driver said when it was asked for one GPU."""

    OK = "ok"
    LOST = "lost"
    RESET_REQUIRED = "reset-required"
    NO_PERMISSION = "no-permission"
    POWER = "insufficient-power"
    HUNG = "hung"  # a call did not return before the deadline
    ERROR = "error"  # anything else; `Gpu.error` has its words


class DriverStatus(StrEnum):
    """What the source found before any GPU."""

    OK = "ok"
    NO_LIBRARY = "no-library"  # the driver's library is not on this machine, or not in this container
    NO_DRIVER = "no-driver"
    MISMATCH = "mismatch"  # library and kernel module are of different versions
    NO_PERMISSION = "no-permission"
    HUNG = "hung"
    ERROR = "error"


class Holder(Struct, frozen=True, omit_defaults=True):
    """A container that a GPU or an instance is assigned to (`assigned`), or whose process uses it.

    The kubelet names pods and not their UIDs; a process's control group has the UID and no name: one of the two is "".
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""


class Process(Struct, frozen=True, omit_defaults=True):
    """A process with a context on a GPU. Its command line is nobody's business and is not read."""

    pid: Whole  # as the host counts
    used_bytes: Measure = None
    holder: Holder | None = None  # None: in no pod, or not known to be in one
    instance: str = ""  # UUID of the MIG instance


class Instance(Struct, frozen=True, omit_defaults=True):
    """A MIG instance."""

    uuid: str
    profile: str = ""  # "1g.10gb"
    gi: Whole | None = None
    ci: Whole | None = None
    memory_total_bytes: Measure = None
    memory_used_bytes: Measure = None
    assigned: tuple[Holder, ...] = ()


class Gpu(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One physical GPU. Identity is the UUID; `index` is a label that changes with a reboot."""

    uuid: str = ""  # "" when the driver would not say: then `pci` is all that is known
    index: Whole
    pci: str = ""  # normalised by `normal_pci`: "0000:8d:00.0"
    minor: Whole | None = None
    name: str = ""
    serial: str = ""
    answer: Answer = Answer.OK
    error: str = ""
    utilization_pct: Measure = None  # share of the last sample period with at least one kernel running
    memory_busy_pct: Measure = None  # share of time that memory was read or written; not how full it is
    encoder_pct: Measure = None
    decoder_pct: Measure = None
    memory_total_bytes: Measure = None
    memory_used_bytes: Measure = None
    memory_reserved_bytes: Measure = (
        None  # NA where the driver cannot tell it apart: `memory_used_bytes` includes it then
    )
    temperature_c: Measure = None
    memory_temperature_c: Measure = None
    temperature_margin_c: Measure = None  # to the slowdown limit; may be negative
    slowdown_c: Measure = None
    power_w: Measure = None
    power_limit_w: Measure = None
    energy_j: Measure = None  # since the driver was loaded
    sm_clock_mhz: Measure = None
    memory_clock_mhz: Measure = None
    sm_clock_max_mhz: Measure = None
    clock_reasons: Measure = None  # NVIDIA's bit mask of why the clock is not higher
    ecc_enabled: Measure = None  # 0 or 1
    ecc_pending: Measure = None
    ecc_corrected: Measure = None  # volatile: since the driver was loaded
    ecc_uncorrected: Measure = None
    ecc_corrected_ever: Measure = None  # aggregate: over the life of the board
    ecc_uncorrected_ever: Measure = None
    sram_threshold_exceeded: Measure = None
    retired_pages: Measure = None  # Volta and older
    retirement_pending: Measure = None
    remap_corrected: Measure = None  # rows remapped because of corrected errors, Ampere and newer
    remap_uncorrected: Measure = None
    remap_pending: Measure = None
    remap_failure: Measure = None
    nvlinks: Measure = None  # links that there are
    nvlinks_active: Measure = None
    nvlink_errors: Measure = None  # sum of the error counters of all links
    pcie_generation: Measure = None
    pcie_generation_max: Measure = None
    pcie_width: Measure = None
    pcie_width_max: Measure = None
    pcie_replays: Measure = None
    persistence: Measure = None
    mig: Measure = None  # 0 or 1
    mig_pending: Measure = None
    fabric_state: Measure = None  # 0 not applicable, 1 not started, 2 in progress, 3 completed
    fabric_status: Measure = None
    fabric_health: Measure = None  # 1 healthy, 2 unhealthy, 3 limited
    fabric_clique: Measure = None
    recovery_action: Measure = None  # NVIDIA's field 230
    processes: tuple[Process, ...] | None = None  # None: not known
    assigned: tuple[Holder, ...] | None = None  # by the kubelet, as a whole or shared; None: not known
    advertised: bool | None = None  # whether the device plugin offers it, or an instance of it; None: not known
    instances: tuple[Instance, ...] = ()


class FaultKind(StrEnum):
    XID = "xid"
    SXID = "sxid"  # of an NVSwitch
    OFF_BUS = "off-bus"  # "has fallen off the bus" without an Xid
    MISMATCH = "api-mismatch"


class Fault(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that a driver reported once, as a kernel-log line or an exporter's counter tells it."""

    kind: FaultKind
    source: Literal["kernel-log", "dcgm"] = "kernel-log"
    at: float  # seconds since 1970, of the node's clock
    sequence: Whole | None = None  # of the kernel log: (boot id, sequence) names the line
    pci: str = ""  # normalised; "" when the line does not say
    uuid: str = ""
    code: Whole | None = None
    gi: Whole | None = None  # MIG GPU instance
    ci: Whole | None = None
    pid: Whole | None = None  # who happened to call, not necessarily the culprit
    caused_by: Whole | None = None  # the Xid that this one says it follows from
    fatal: bool | None = None  # where the line says so (SXid, NVLink 5)
    link: Whole | None = None  # NVLink of the line; None: no link
    unit: str = ""  # NVLink 5 unit: "RLW_REMAP"
    words: tuple[Whole, ...] = ()  # NVLink 5 status words
    recovery: tuple[Whole, Whole] | None = None  # Xid 154: from, to
    text: str = ""  # the line without its prefix, at most 300 characters, printable
    repeated: Whole = 1  # the same again within this reading


class Reading(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All measurements of one node at one time. `sequence` grows within `(boot_id, agent)`; an older one is a replay."""

    node: str
    boot_id: str
    agent: str  # a new one with each start of the source
    sequence: Whole
    sent_at: float  # seconds since 1970, of the node's clock
    source: Literal["nvml", "dcgm"] = "nvml"
    status: DriverStatus = DriverStatus.OK
    error: str = ""
    driver: str = ""
    cuda: str = ""
    nvml: str = ""
    count: Whole | None = None  # devices that the driver counts, those without permission included; None unknown
    gpus: tuple[Gpu, ...] = ()
    faults: tuple[Fault, ...] = ()  # since the reading before
    lost_lines: Whole = 0  # lines of the kernel log that were overwritten before they were read
    lost_faults: Whole = 0  # faults that the source had to forget before Vigie took them
    log_error: str = ""  # why the kernel log cannot be read: then no fault is no news; "" when it can


def normal_pci(address: str) -> str:
    """A PCI address as everybody writes it, in one form: domain:bus:device.function, lower case, domain of at least four digits.

    "00000000:8D:00.0", "0000:8d:00" and "8d:00.0" are all "0000:8d:00.0". "" for what is no PCI address.
    """
    parts = address.strip().split(":")
    if len(parts) == 2:
        parts = ["0", *parts]
    if len(parts) != 3:
        return ""
    device, _, function = parts[2].partition(".")
    try:
        numbers = [int(part, 16) for part in (parts[0], parts[1], device, function or "0")]
    except ValueError:
        return ""
    return f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}.{numbers[3]:x}"
