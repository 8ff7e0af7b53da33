"""The metrics of dcgm-exporter that are read: by every name they have had, with their units and bounds.

Owns names, units and what DCGM writes in place of a number. Must not know GPUs. Names: dcgm_fields of DCGM, old and newest; those
in lower case are of the exporter before it had fields' names. DCGM_FI_DEV_GPU_UTIL_RATIO is left out: whether it is a ratio or a
percentage is not documented.
"""

from math import isfinite
from typing import Final

from msgspec import Struct

from fleet.domain.gpus import NA, Measure
from fleet.domain.measures import MIB

# go-dcgm's blanks: not found, not supported, not permitted … One of 64 bits is 9223372036854775792 or more, but whoever passed it
# on as a float has rounded it; no measurement comes near.
BLANK_INT32: Final = (2147483632, 2147483636)
BLANK_FP64: Final = (140737488355328, 140737488355332)
BLANK_INT64: Final = 9.2e18

LONGEST_NUMBER: Final = 40
MOST: Final = 2.0**60  # what is summed or scaled has to fit into 64 bits


class Metric(Struct, frozen=True):
    """`key`: the field of `Gpu` or a part of one; a value outside of `least` to `most` is no measurement."""

    key: str
    scale: float = 1.0
    least: float = 0.0
    most: float = MOST


def _metrics() -> dict[str, Metric]:
    percent, celsius, flag = (1.0, 0.0, 100.0), (1.0, -300.0, 1000.0), (1.0, 0.0, 1.0)
    mebibytes = (MIB, 0.0, MOST / MIB)
    table: dict[str, tuple[tuple[float, ...], str]] = {
        "utilization_pct": (percent, "GPU_UTIL gpu_utilization"),
        "graphics_pct": ((100.0, 0.0, 1.0), "PROF_GR_ENGINE_ACTIVE"),
        "memory_busy_pct": (percent, "MEM_COPY_UTIL mem_copy_utilization"),
        "encoder_pct": (percent, "ENC_UTIL enc_utilization"),
        "decoder_pct": (percent, "DEC_UTIL dec_utilization"),
        "memory_total_bytes": (mebibytes, "FB_TOTAL"),
        "memory_used_bytes": (mebibytes, "FB_USED fb_used"),
        "memory_free_bytes": (mebibytes, "FB_FREE fb_free"),
        "memory_reserved_bytes": (mebibytes, "FB_RESERVED"),
        "temperature_c": (celsius, "GPU_TEMP GPU_TEMP_CELSIUS gpu_temp"),
        "memory_temperature_c": (celsius, "MEMORY_TEMP MEMORY_TEMP_CELSIUS memory_temp"),
        "temperature_margin_c": (celsius, "GPU_TEMP_LIMIT GPU_TEMP_MARGIN_CELSIUS"),
        "slowdown_c": (celsius, "SLOWDOWN_TEMP GPU_TEMP_SLOWDOWN_CELSIUS"),
        "power_w": ((), "POWER_USAGE BOARD_POWER_WATTS power_usage"),
        "power_limit_w": ((), "ENFORCED_POWER_LIMIT BOARD_POWER_LIMIT_ENFORCED_WATTS"),
        "energy_j": ((0.001,), "TOTAL_ENERGY_CONSUMPTION total_energy_consumption"),
        "sm_clock_mhz": ((), "SM_CLOCK sm_clock"),
        "memory_clock_mhz": ((), "MEM_CLOCK memory_clock"),
        "sm_clock_max_mhz": ((), "MAX_SM_CLOCK"),
        "clock_reasons": ((), "CLOCK_THROTTLE_REASONS CLOCKS_EVENT_REASONS clock_throttle_reasons"),
        "ecc_enabled": (flag, "ECC_CURRENT ECC_MODE"),
        "ecc_pending": (flag, "ECC_PENDING"),
        "ecc_corrected": ((), "ECC_SBE_VOL_TOTAL ecc_sbe_volatile_total"),
        "ecc_uncorrected": ((), "ECC_DBE_VOL_TOTAL ecc_dbe_volatile_total"),
        "ecc_corrected_ever": ((), "ECC_SBE_AGG_TOTAL ecc_sbe_aggregate_total"),
        "ecc_uncorrected_ever": ((), "ECC_DBE_AGG_TOTAL ecc_dbe_aggregate_total"),
        "sram_threshold_exceeded": (flag, "THRESHOLD_SRM SRAM_EXCEEDED"),
        "retired_corrected": ((), "RETIRED_SBE PAGE_RETIRED_SBE_TOTAL retired_pages_sbe"),
        "retired_uncorrected": ((), "RETIRED_DBE PAGE_RETIRED_DBE_TOTAL retired_pages_dbe"),
        "retirement_pending": ((), "RETIRED_PENDING PAGE_RETIRED_PENDING retired_pages_pending"),
        "remap_corrected": ((), "CORRECTABLE_REMAPPED_ROWS ROW_REMAP_CORRECTABLE_TOTAL"),
        "remap_uncorrected": ((), "UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_UNCORRECTABLE_TOTAL"),
        "remap_pending": ((), "ROW_REMAP_PENDING"),
        "remap_failure": ((), "ROW_REMAP_FAILURE ROW_REMAP_FAILED"),
        "nvlink_flits": (
            (),
            "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_FLIT_ERROR_TOTAL nvlink_flit_crc_error_count_total",
        ),
        "nvlink_data": (
            (),
            "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_TOTAL nvlink_data_crc_error_count_total",
        ),
        "nvlink_replays": (
            (),
            "NVLINK_REPLAY_ERROR_COUNT_TOTAL NVLINK_REPLAY_ERROR_TOTAL nvlink_replay_error_count_total",
        ),
        "nvlink_recoveries": (
            (),
            "NVLINK_RECOVERY_ERROR_COUNT_TOTAL NVLINK_RECOVERY_ERROR_TOTAL nvlink_recovery_error_count_total",
        ),
        "pcie_generation": ((), "PCIE_LINK_GEN"),
        "pcie_generation_max": ((), "PCIE_MAX_LINK_GEN"),
        "pcie_width": ((), "PCIE_LINK_WIDTH"),
        "pcie_width_max": ((), "PCIE_MAX_LINK_WIDTH"),
        "pcie_replays": ((), "PCIE_REPLAY_COUNTER PCIE_REPLAY_TOTAL pcie_replay_counter"),
        "persistence": (flag, "PERSISTENCE_MODE GPU_PERSISTENCE_MODE"),
        "mig": (flag, "MIG_MODE"),
        # DCGM's status is NVML's state up to 3; what it adds (failed, unrecognised) is an error of the exporter's own call.
        "fabric_state": ((1.0, 0.0, 3.0), "FABRIC_MANAGER_STATUS"),
        "fabric_health": ((1.0, 0.0, 3.0), "FABRIC_HEALTH_SUMMARY"),
        "fabric_clique": ((), "FABRIC_CLIQUE_ID"),
    }
    return {full(name): Metric(key, *bounds) for key, (bounds, names) in table.items() for name in names.split()}


def full(name: str) -> str:
    """A field's name as a page has it."""
    if name.islower():
        return f"dcgm_{name}"
    return f"DCGM_FI_{name}" if name.startswith("PROF_") else f"DCGM_FI_DEV_{name}"


METRICS: Final = _metrics()
# Whole numbers by their nature; where a page has a fraction, it is no such number.
WHOLE: Final = ("clock_reasons",)


def measure(text: str, metric: Metric) -> Measure:
    """A sample's value. NA where DCGM has none (its blanks, NaN, infinity, words such as "[N/A]"); None for one that is out of
    bounds."""
    value = number(text)
    if value is None:
        return NA
    if not metric.least <= value <= metric.most:
        return None
    scaled = value if metric.scale == 1 else value * metric.scale
    return int(scaled) if float(scaled).is_integer() else scaled


def number(text: str) -> int | float | None:
    """A number that is none of DCGM's blanks."""
    if len(text) > LONGEST_NUMBER or "_" in text or not text.isascii():
        return None
    try:
        value = int(text) if text.isdigit() else float(text)
    except ValueError:
        return None
    if not isfinite(value) or abs(value) >= BLANK_INT64:
        return None
    blank = BLANK_INT32[0] <= value < BLANK_INT32[1] or BLANK_FP64[0] <= value < BLANK_FP64[1]
    return None if blank else value
