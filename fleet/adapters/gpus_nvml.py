"""NVIDIA's NVML: which calls are made, in which order of fall-back, and what its codes mean.

Owns everything that knows the module pynvml. Must not put a GPU together (`gpus_board` does), keep time, start processes or
judge. Any call may block for ever, so only `gpus_process` makes them, in a process of its own.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import pynvml as nv

from fleet.domain.gpus import NA, Answer, DriverStatus, Measure, normal_pci

Handle = Any
Way = Callable[[Handle], Any]
NO_INSTANCE: Final = 0xFFFFFFFF

# This hardware, mode or driver has no such number. An old driver refuses a new structure by its version.
NOT_APPLICABLE: Final = frozenset(
    {
        nv.NVML_ERROR_NOT_SUPPORTED,
        nv.NVML_ERROR_FUNCTION_NOT_FOUND,
        nv.NVML_ERROR_NO_DATA,
        nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        nv.NVML_ERROR_DEPRECATED,
    }
)
# A driver that does not know a field's number calls it an invalid argument.
NO_FIELD: Final = NOT_APPLICABLE | {nv.NVML_ERROR_INVALID_ARGUMENT}

STATUSES: Final = {
    nv.NVML_ERROR_LIBRARY_NOT_FOUND: DriverStatus.NO_LIBRARY,
    nv.NVML_ERROR_DRIVER_NOT_LOADED: DriverStatus.NO_DRIVER,
    nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH: DriverStatus.MISMATCH,
    nv.NVML_ERROR_NO_PERMISSION: DriverStatus.NO_PERMISSION,
}
ANSWERS: Final = {
    nv.NVML_ERROR_GPU_IS_LOST: Answer.LOST,
    nv.NVML_ERROR_RESET_REQUIRED: Answer.RESET_REQUIRED,
    nv.NVML_ERROR_NO_PERMISSION: Answer.NO_PERMISSION,
    nv.NVML_ERROR_INSUFFICIENT_POWER: Answer.POWER,
}

# What a call may end with besides an answer. The mismatch is pynvml's word for a missing symbol, and no NVMLError.
TROUBLES: Final = (nv.NVMLError, nv.NVMLLibraryMismatchError, UnicodeDecodeError, OSError)


def code(trouble: BaseException) -> int | None:
    if isinstance(trouble, nv.NVMLLibraryMismatchError):
        return int(nv.NVML_ERROR_FUNCTION_NOT_FOUND)
    return trouble.value if isinstance(trouble, nv.NVMLError) else None


def words(trouble: BaseException) -> str:
    """What somebody may read: NVML's sentence and its number."""
    try:
        sentence = str(trouble)
    except UnicodeDecodeError:
        sentence = "words that are no text"
    number = code(trouble)
    return sentence if number is None else f"{sentence} ({number})"


# Ways to ask for one or several numbers of a GPU. Each returns as many as the fields that it stands for.


def _memory(handle: Handle) -> tuple[Measure, ...]:
    found = nv.nvmlDeviceGetMemoryInfo(handle, nv.nvmlMemory_v2)
    return found.total, found.reserved, found.used


def _memory_with_reserved(handle: Handle) -> tuple[Measure, ...]:
    found = nv.nvmlDeviceGetMemoryInfo(handle)
    return found.total, NA, found.used


def _utilization(handle: Handle) -> tuple[Measure, ...]:
    found = nv.nvmlDeviceGetUtilizationRates(handle)
    return found.gpu, found.memory


def _ecc(uncorrected: int, ever: int) -> Way:
    return lambda handle: (nv.nvmlDeviceGetTotalEccErrors(handle, uncorrected, ever),)


def _sram(handle: Handle) -> tuple[Measure, ...]:
    status = nv.c_nvmlEccSramErrorStatus_v1_t()
    nv.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return (status.bThresholdExceeded,)


def _retired(handle: Handle) -> tuple[Measure, ...]:
    """Pages retired for many corrected errors, and for uncorrected ones."""
    return (sum(len(nv.nvmlDeviceGetRetiredPages(handle, cause)) for cause in (0, 1)),)


def _fabric(structure: Callable[[], Any], call: str) -> Way:
    def ask(handle: Handle) -> tuple[Measure, ...]:
        found = structure()
        getattr(nv, call)(handle, ctypes.byref(found))
        return found.state, found.status, found.cliqueId, getattr(found, "healthSummary", NA)

    return ask


def _one(name: str, *arguments: int) -> Way:
    """The call whose answer is the number itself."""
    call = getattr(nv, name)
    return lambda handle: (call(handle, *arguments),)


def _thousandth(name: str) -> Way:
    """The call that answers in mW or mJ."""
    call = getattr(nv, name)
    return lambda handle: (call(handle) / 1000,)


Row = tuple[tuple[str, ...], tuple[Way, ...]]

# Asked every time. Where there are several ways, the next one is tried when the driver does not have the one before.
CHANGING: Final[tuple[Row, ...]] = (
    (("utilization_pct", "memory_busy_pct"), (_utilization,)),
    (("encoder_pct",), (lambda handle: nv.nvmlDeviceGetEncoderUtilization(handle)[:1],)),
    (("decoder_pct",), (lambda handle: nv.nvmlDeviceGetDecoderUtilization(handle)[:1],)),
    (("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes"), (_memory, _memory_with_reserved)),
    (("temperature_c",), (_one("nvmlDeviceGetTemperatureV", 0), _one("nvmlDeviceGetTemperature", 0))),
    (("temperature_margin_c",), (_one("nvmlDeviceGetMarginTemperature"),)),
    (("power_w",), (_thousandth("nvmlDeviceGetPowerUsage"),)),
    (("power_limit_w",), (_thousandth("nvmlDeviceGetEnforcedPowerLimit"),)),
    (("energy_j",), (_thousandth("nvmlDeviceGetTotalEnergyConsumption"),)),
    (("sm_clock_mhz",), (_one("nvmlDeviceGetClockInfo", nv.NVML_CLOCK_SM),)),
    (("memory_clock_mhz",), (_one("nvmlDeviceGetClockInfo", nv.NVML_CLOCK_MEM),)),
    (
        ("clock_reasons",),
        (_one("nvmlDeviceGetCurrentClocksEventReasons"), _one("nvmlDeviceGetCurrentClocksThrottleReasons")),
    ),
    (("ecc_enabled", "ecc_pending"), (nv.nvmlDeviceGetEccMode,)),
    (("ecc_corrected",), (_ecc(0, 0),)),
    (("ecc_uncorrected",), (_ecc(1, 0),)),
    (("ecc_corrected_ever",), (_ecc(0, 1),)),
    (("ecc_uncorrected_ever",), (_ecc(1, 1),)),
    (("sram_threshold_exceeded",), (_sram,)),
    (("retired_pages",), (_retired,)),
    (("retirement_pending",), (_one("nvmlDeviceGetRetiredPagesPendingStatus"),)),
    (("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failure"), (nv.nvmlDeviceGetRemappedRows,)),
    (("pcie_generation",), (_one("nvmlDeviceGetCurrPcieLinkGeneration"),)),
    (("pcie_width",), (_one("nvmlDeviceGetCurrPcieLinkWidth"),)),
    (("pcie_replays",), (_one("nvmlDeviceGetPcieReplayCounter"),)),
    (("persistence",), (_one("nvmlDeviceGetPersistenceMode"),)),
    (("mig", "mig_pending"), (nv.nvmlDeviceGetMigMode,)),
    (
        ("fabric_state", "fabric_status", "fabric_clique", "fabric_health"),
        (
            _fabric(nv.c_nvmlGpuFabricInfo_v3_t, "nvmlDeviceGetGpuFabricInfoV"),
            _fabric(nv.c_nvmlGpuFabricInfo_v2_t, "nvmlDeviceGetGpuFabricInfoV"),
            _fabric(nv.c_nvmlGpuFabricInfo_t, "nvmlDeviceGetGpuFabricInfo"),
        ),
    ),
)

# Asked once for each GPU: they belong to the board and the driver.
LASTING: Final[tuple[Row, ...]] = (
    (("name",), (_one("nvmlDeviceGetName"),)),
    (("serial",), (_one("nvmlDeviceGetSerial"),)),
    (("minor",), (_one("nvmlDeviceGetMinorNumber"),)),
    (("pci",), (lambda handle: (normal_pci(nv.nvmlDeviceGetPciInfo(handle).busId),),)),
    (("slowdown_c",), (_one("nvmlDeviceGetTemperatureThreshold", nv.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),)),
    (("sm_clock_max_mhz",), (_one("nvmlDeviceGetMaxClockInfo", nv.NVML_CLOCK_SM),)),
    (("pcie_generation_max",), (_one("nvmlDeviceGetMaxPcieLinkGeneration"),)),
    (("pcie_width_max",), (_one("nvmlDeviceGetMaxPcieLinkWidth"),)),
)
NO_TEXT: Final = {"name": "", "serial": "", "minor": None, "pci": ""}  # these have no N/A

LINK_COUNT, MEMORY_TEMPERATURE, RECOVERY = (
    nv.NVML_FI_DEV_NVLINK_LINK_COUNT,
    nv.NVML_FI_DEV_MEMORY_TEMP,
    nv.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
)
# NVLink up to 4 has totals over all links; NVLink 5 counts other things, link by link.
LINK_TOTALS: Final = (
    nv.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    nv.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    nv.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    nv.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
LINK_COUNTERS: Final = (
    nv.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS,
    nv.NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS,
    nv.NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS,
    nv.NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS,
    nv.NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
    nv.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
)
FIELD_LAYOUT: Final = struct.Struct("@IIqqII8s")  # nvmlFieldValue_t: id, scope, time, latency, type, return code, value
VALUE_LAYOUTS: Final = tuple(struct.Struct(f"@{kind}") for kind in "dILQqiH")  # of the union, by NVML's value type
FIELDS: Final = (MEMORY_TEMPERATURE, LINK_COUNT, RECOVERY, *LINK_TOTALS)


def field_ways(ids: Sequence[Any]) -> tuple[Way, ...]:
    """Ask for field values by number, or by (number, link)."""

    def ask(handle: Handle) -> tuple[Measure, ...]:
        # Read as bytes, which costs a quarter of asking ctypes for each member.
        items = FIELD_LAYOUT.iter_unpack(bytes(nv.nvmlDeviceGetFieldValues(handle, ids)))
        return tuple(_field(kind, result, raw) for _, _, _, _, kind, result, raw in items)

    return (ask,)


def _field(kind: int, result: int, raw: bytes) -> Measure:
    """One field value. After a failure the union holds an old number, so the item's own return code decides."""
    if result:
        return NA if result in NO_FIELD else None
    if kind >= len(VALUE_LAYOUTS):
        return None
    value: int | float = VALUE_LAYOUTS[kind].unpack_from(raw)[0]
    return value


def active_link_ways(links: int) -> tuple[Way, ...]:
    """Ask how many of so many links are active. One without a bridge may be "not supported": it is not active."""

    def ask(handle: Handle) -> tuple[Measure]:
        state, answered, active = ctypes.c_uint(), 0, 0
        # Of the library itself: pynvml's own layer costs more than the call, and there are 18 of them.
        call, out = getattr(nv.nvmlLib, "nvmlDeviceGetNvLinkState", None), ctypes.byref(state)
        if call is None:
            raise nv.NVMLError(nv.NVML_ERROR_FUNCTION_NOT_FOUND)
        for link in range(links):
            result = call(handle, link, out)
            if result and result not in NOT_APPLICABLE:
                raise nv.NVMLError(result)
            answered += not result
            active += not result and state.value
        return (active if answered or not links else NA,)

    return (ask,)


# Processes with a context: those that compute or draw, and clients of MPS, which the first list leaves out. Second: before R525.
PROCESSES: Final[tuple[tuple[Way, ...], ...]] = (
    (nv.nvmlDeviceGetComputeRunningProcesses_v3, nv.nvmlDeviceGetComputeRunningProcesses_v2),
    (nv.nvmlDeviceGetGraphicsRunningProcesses_v3, nv.nvmlDeviceGetGraphicsRunningProcesses_v2),
    (nv.nvmlDeviceGetMPSComputeRunningProcesses_v3, nv.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)

UUID: Final[tuple[Way, ...]] = (nv.nvmlDeviceGetUUID,)

# MIG instances have handles of their own.
INSTANCES_MOST: Final[tuple[Way, ...]] = (nv.nvmlDeviceGetMaxMigDeviceCount,)
INSTANCE: Final[tuple[Row, ...]] = (
    (("gi",), (_one("nvmlDeviceGetGpuInstanceId"),)),
    (("ci",), (_one("nvmlDeviceGetComputeInstanceId"),)),
)
INSTANCE_MEMORY: Final[tuple[Way, ...]] = (_memory, _memory_with_reserved)


def instance_ways(index: int) -> tuple[Way, ...]:
    """Ask for the handle of a MIG instance: (None,) where the place holds none."""

    def handle(gpu: Handle) -> tuple[Handle | None]:
        try:
            return (nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index),)
        except nv.NVMLError as error:
            if error.value == nv.NVML_ERROR_NOT_FOUND:
                return (None,)
            raise

    return (handle,)


def instance_profile(handle: Handle) -> str:
    """ "1g.10gb", from the instance's name ("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), else from its size. Raises one of TROUBLES."""
    _, found, profile = nv.nvmlDeviceGetName(handle).rpartition(" MIG ")
    if found:
        return str(profile)
    size = nv.nvmlDeviceGetAttributes_v2(handle)
    return f"{size.gpuInstanceSliceCount}g.{-(-size.memorySizeMB // 1024)}gb"


# The library itself


def start(library: str | None) -> None:
    """Load the library, `library` in place of the system's, and talk to the driver. Raises one of TROUBLES."""
    if library:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)  # its soname makes the loader use it for pynvml too
    nv.nvmlInit()


def versions() -> tuple[str, str, str]:
    """Of the driver, of the CUDA that it can run, of the library; "" for what it does not tell."""
    return _text(nv.nvmlSystemGetDriverVersion), _cuda(), _text(nv.nvmlSystemGetNVMLVersion)


def count() -> int:
    """Devices that the driver counts, those without permission included. Raises one of TROUBLES."""
    return int(nv.nvmlDeviceGetCount())


def handle_of(index: int) -> Handle:
    """The first call that touches the GPU. Raises one of TROUBLES."""
    return nv.nvmlDeviceGetHandleByIndex(index)


def status_of(trouble: BaseException) -> DriverStatus:
    if isinstance(trouble, OSError):  # the loader did not find or could not use the library that was named
        return DriverStatus.NO_LIBRARY
    return STATUSES.get(code(trouble), DriverStatus.ERROR)


def _text(call: Callable[[], str]) -> str:
    try:
        return str(call())
    except TROUBLES:
        return ""


def _cuda() -> str:
    try:
        number = nv.nvmlSystemGetCudaDriverVersion()
    except TROUBLES:
        return ""
    return f"{number // 1000}.{number % 1000 // 10}"
