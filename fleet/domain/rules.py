"""Rules over what one GPU measured: each is a function, and RULES names it and where it comes from.

Owns the thresholds. Must not remember anything (`findings` does), and knows no log line (`xid` does). A rule answers with a
`Hit`, with None when its measurement shows that all is well, or with CANNOT_TELL: then an open finding stays open, and none
opens.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from fleet.domain import windows, xid
from fleet.domain.gpus import NA, Answer, DeviceState, Gpu, GpuAction, Measure
from fleet.domain.measures import number
from fleet.domain.verdicts import Facts, Window

ECC_STORM_PER_S = 100.0  # 8.6 million corrected errors a day
ECC_CALM_PER_S = 10.0
HELD_SHARE = 6  # tenths of the samples of ten minutes …
CALM_SHARE = 3  # … and how few of them clear it again
COOL_MARGIN_C = 3
LOAD_PCT = 10  # an idle GPU lets its PCIe link go slower to save power
MOST_RETIRED_PAGES = 64
LASTING_S = 60.0
FABRIC_LASTING_S = 300.0
CONFIGURATION_LASTING_S = 600.0

_NO_REMAPPER = re.compile(r"geforce|titan|\b[gr]tx[ -][2-9]0\d\d\b", re.IGNORECASE)


class Silence(Enum):
    CANNOT_TELL = "cannot-tell"


CANNOT_TELL: Final = Silence.CANNOT_TELL


class Hit(Struct, frozen=True, gc=False):
    state: str
    action: str
    evidence: str
    facts: Facts = ()
    soft: bool = False


class Look(Struct, frozen=True, gc=False):
    """What a rule may look at."""

    gpu: Gpu
    window: Window
    rolled: bool  # a minute has just become a sample
    links: int  # most NVLinks that are active on any GPU of this node
    open: frozenset[str]  # rules with an open finding


Told = Hit | None | Silence


class Rule(Struct, frozen=True):
    token: str
    source: str  # where it comes from
    check: Callable[[Look], Told]
    lasting_s: float = 0.0  # how long a hit has to last before it counts


# NVIDIA: "GPU Memory Error Management"


def remap_failure(look: Look) -> Told:
    failure = number(remapped(look.gpu)[3])
    if failure is None:
        return CANNOT_TELL
    return Hit(DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, "remap_failure = 1") if failure > 0 else None


def remap_pending(look: Look) -> Told:
    pending = number(remapped(look.gpu)[2])
    if pending is None:
        return CANNOT_TELL
    if pending <= 0:
        return None
    return Hit(DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, "remap_pending = 1", soft=True)


def remapped_rows(look: Look) -> Told:
    """A note: the count is no criterion for anything."""
    corrected, uncorrected, _, _ = remapped(look.gpu)
    rows = number(uncorrected)
    if rows is None:
        return CANNOT_TELL
    if rows <= 0:
        return None
    facts: Facts = (("corrected", number(corrected)), ("uncorrected", rows))
    return Hit(DeviceState.OK, GpuAction.NONE, f"remap_uncorrected = {rows}", facts)


def retirement_pending(look: Look) -> Told:
    pending = number(look.gpu.retirement_pending)
    if pending is None:
        return CANNOT_TELL
    if pending <= 0:
        return None
    return Hit(DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, "retirement_pending = 1", soft=True)


def retired_pages(look: Look) -> Told:
    pages = number(look.gpu.retired_pages)
    if pages is None:
        return CANNOT_TELL
    if pages < MOST_RETIRED_PAGES:
        return None
    evidence, facts = f"retired_pages = {pages}", (("pages", pages), ("most", MOST_RETIRED_PAGES))
    return Hit(DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, evidence, facts)


def sram_threshold(look: Look) -> Told:
    exceeded = number(look.gpu.sram_threshold_exceeded)
    if exceeded is None:
        return CANNOT_TELL
    if exceeded <= 0:
        return None
    return Hit(DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, "sram_threshold_exceeded = 1")


def ecc_uncorrected(look: Look) -> Told:
    errors = number(look.gpu.ecc_uncorrected)
    if errors is None:
        return CANNOT_TELL
    if errors <= 0:
        return None
    evidence = f"ecc_uncorrected = {errors}"
    return Hit(DeviceState.DEGRADED, GpuAction.RESET_GPU, evidence, (("errors", errors),), soft=True)


def ecc_storm(look: Look) -> Told:
    rate = look.window.corrected_per_s
    if not look.rolled or rate is None:
        return CANNOT_TELL
    if rate < (ECC_CALM_PER_S if "ecc-storm" in look.open else ECC_STORM_PER_S):
        return None
    evidence = f"{rate:.0f} corrected errors a second"
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, evidence, (("per_s", round(rate, 1)),))


# Clocks and temperature


def held(hold: int) -> Callable[[Look], Told]:
    """The rule for one of `windows.HOLDS`: in 6 of 10 one-minute samples, until it is in 3 or fewer."""
    token = windows.HOLDS[hold]

    def check(look: Look) -> Told:
        if not look.rolled:
            return CANNOT_TELL
        hits, samples = windows.share(look.window, hold)
        if samples < windows.LEAST_SAMPLES:
            return CANNOT_TELL
        enough = 10 * hits > CALM_SHARE * samples if token in look.open else 10 * hits >= HELD_SHARE * samples
        if not enough:
            return None
        facts: Facts = (("hits", hits), ("samples", samples))
        return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, f"in {hits} of {samples} one-minute samples", facts)

    return check


def temperature_margin(look: Look) -> Told:
    gpu = look.gpu
    margin = number(gpu.temperature_margin_c)
    if margin is None:
        temperature, limit = number(gpu.temperature_c), number(gpu.slowdown_c)
        if temperature is None or limit is None or limit <= 0:
            return CANNOT_TELL
        margin = float(limit - temperature)
    if margin > 0 and not ("temperature-margin" in look.open and margin < COOL_MARGIN_C):
        return None
    facts: Facts = (("margin_c", margin), ("temperature_c", number(gpu.temperature_c)))
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, f"temperature margin {margin:g} °C", facts)


# Links


def nvlink_inactive(look: Look) -> Told:
    """Compared with the other GPUs of the node: a board without a bridge has all its links inactive, and is fine."""
    links, active = number(look.gpu.nvlinks), number(look.gpu.nvlinks_active)
    if links is None or active is None or look.gpu.mig == 1:
        return CANNOT_TELL
    expected = min(links, look.links)
    if active >= expected:
        return None
    evidence, facts = f"{active} of {links} NVLinks active", (("active", active), ("links", links))
    return Hit(DeviceState.DEGRADED, GpuAction.RESET_GPU, evidence, facts)


def pcie_width(look: Look) -> Told:
    return _under_load(look, "width", look.gpu.pcie_width, look.gpu.pcie_width_max)


def pcie_generation(look: Look) -> Told:
    return _under_load(look, "generation", look.gpu.pcie_generation, look.gpu.pcie_generation_max)


def fabric_unhealthy(look: Look) -> Told:
    health = number(look.gpu.fabric_health)
    if health is None:
        return CANNOT_TELL
    if health == 2:
        return Hit(DeviceState.DEGRADED, GpuAction.RESET_GPU, "fabric_health = 2 (unhealthy)")
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, "fabric_health = 3 (limited)") if health == 3 else None


def fabric_not_ready(look: Look) -> Told:
    """1 not started, 2 in progress: CUDA does not start on such a board. Its status says nothing while no domain is active."""
    state = number(look.gpu.fabric_state)
    if state is None:
        return CANNOT_TELL
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, f"fabric_state = {state}") if state in {1, 2} else None


# What the driver itself asks for


def recovery_action(look: Look) -> Told:
    code = number(look.gpu.recovery_action)
    if code is None:
        return CANNOT_TELL
    if code == 0:
        return None
    state, action = xid.recovery(int(code))
    return Hit(state, action, f"recovery_action = {code}", (("code", code),))


def configuration_pending(look: Look) -> Told:
    """A note: MIG or ECC is set to something that only a reset brings about."""
    gpu = look.gpu
    for name, current, wanted in (("mig", gpu.mig, gpu.mig_pending), ("ecc", gpu.ecc_enabled, gpu.ecc_pending)):
        if number(current) is not None and number(wanted) is not None and current != wanted:
            return Hit(DeviceState.OK, GpuAction.MONITOR, f"{name} = {current}, pending {wanted}", (("what", name),))
    return None


MEMORY_ERRORS = "NVIDIA, GPU Memory Error Management"
CLOCK_EVENTS = "NVIDIA, NVML clock-event reasons; 6 of 10 one-minute samples as gpud counts them"
MEASURED: Final = (
    Rule("remap-failure", f"{MEMORY_ERRORS}: the failure flag is the criterion for a replacement", remap_failure),
    Rule("remap-pending", f"{MEMORY_ERRORS}: a remap takes effect with the next reset, work may go on", remap_pending),
    Rule("remapped-rows", f"{MEMORY_ERRORS}: a count of remapped rows is no fault", remapped_rows),
    Rule("retirement-pending", f"{MEMORY_ERRORS}: page retirement, Volta and older", retirement_pending),
    Rule("retired-pages", f"{MEMORY_ERRORS}: at most 64 pages can be retired", retired_pages),
    Rule("sram-threshold", f"{MEMORY_ERRORS}: SRAM error threshold exceeded", sram_threshold),
    Rule("ecc-uncorrected", "ours: an uncorrected error since the driver was loaded", ecc_uncorrected),
    Rule(
        "ecc-storm",
        "measured, NVSentinel 1748: a storm of corrected errors stalls driver calls; ours: 100/s",
        ecc_storm,
    ),
    *(Rule(token, CLOCK_EVENTS, held(hold)) for hold, token in enumerate(windows.HOLDS)),
    Rule("temperature-margin", "gpud: no margin left to the slowdown limit", temperature_margin),
    Rule(
        "nvlink-inactive",
        "gpud 1085, AKS NVLinkStatusInactive; ours: less than its neighbours",
        nvlink_inactive,
        LASTING_S,
    ),
    Rule("pcie-width", "NVSentinel 890: link down-training; compared under load only", pcie_width, LASTING_S),
    Rule("pcie-generation", "NVSentinel 890: link down-training; compared under load only", pcie_generation, LASTING_S),
    Rule("fabric-unhealthy", "NVIDIA, NVML fabric health summary", fabric_unhealthy, LASTING_S),
    Rule("fabric-not-ready", "NVSentinel 883: Fabric Manager down and unnoticed", fabric_not_ready, FABRIC_LASTING_S),
    Rule("recovery-action", "NVIDIA, NVML field 230", recovery_action),
    Rule(
        "configuration-pending",
        "gpu-operator 668: a MIG change that stays pending",
        configuration_pending,
        CONFIGURATION_LASTING_S,
    ),
)

# What the driver answers instead of measurements: (token, state, action). A hung call or an error says nothing about the GPU.
ANSWERS: Final[Mapping[str, tuple[str, str, str]]] = {
    Answer.LOST: ("gpu-lost", DeviceState.LOST, GpuAction.REBOOT_NODE),
    Answer.RESET_REQUIRED: ("reset-required", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
    Answer.NO_PERMISSION: ("no-permission", DeviceState.UNKNOWN, GpuAction.NONE),
    Answer.POWER: ("power-cable", DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT),
    Answer.HUNG: ("call-hung", DeviceState.UNKNOWN, GpuAction.MONITOR),
    Answer.ERROR: ("no-answer", DeviceState.UNKNOWN, GpuAction.MONITOR),
}


def answered(gpu: Gpu) -> Hit:
    """The finding that an answer other than OK is."""
    _, state, action = ANSWERS[gpu.answer]
    return Hit(state, action, gpu.error[:300] or f"the driver answers: {gpu.answer}")


def remapped(gpu: Gpu) -> tuple[Measure, Measure, Measure, Measure]:
    """(corrected, uncorrected, pending, failure); all N/A on boards without a row remapper, though they answer with zeros."""
    if gpu.ecc_enabled == NA or without_remapper(gpu.name):
        return NA, NA, NA, NA
    return gpu.remap_corrected, gpu.remap_uncorrected, gpu.remap_pending, gpu.remap_failure


@lru_cache(maxsize=256)
def without_remapper(name: str) -> bool:
    return bool(_NO_REMAPPER.search(name))


def _under_load(look: Look, what: str, now: Measure, possible: Measure) -> Told:
    load, current, most = number(look.gpu.utilization_pct), number(now), number(possible)
    if load is None or load < LOAD_PCT or current is None or most is None:
        return CANNOT_TELL
    if current >= most or current <= 0:
        return None if current >= most else CANNOT_TELL
    facts: Facts = (("now", current), ("most", most))
    return Hit(DeviceState.DEGRADED, GpuAction.MONITOR, f"PCIe {what} {current} of {most}", facts)
