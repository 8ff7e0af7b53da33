"""A reading in words, for somebody at the terminal of a GPU node.

Owns the text of `python -m fleet.agent --once`. Must not judge: it says what was measured, and what was not.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from fleet.domain.gpus import NA, DriverStatus, Fault, Gpu, Holder, Measure, Reading

MOST_FAULTS: Final = 20
MIB: Final = 1024**2
UNKNOWN: Final = "?"

_WHY: Final = {
    DriverStatus.NO_LIBRARY: "NVIDIA's library libnvidia-ml.so.1 is not on this machine, or not in this container",
    DriverStatus.NO_DRIVER: "NVIDIA's driver is not loaded",
    DriverStatus.MISMATCH: "NVIDIA's library and kernel module are of different versions: restart this program, or the machine",
    DriverStatus.NO_PERMISSION: "NVIDIA's driver may not be talked to: no permission",
    DriverStatus.HUNG: "NVIDIA's driver does not answer",
    DriverStatus.ERROR: "NVIDIA's driver answers with an error",
}
_COLUMNS: Final = (
    "GPU",
    "UUID",
    "PCI",
    "name",
    "busy",
    "memory",
    "temp",
    "power",
    "ECC now/ever",
    "remap",
    "links",
    "answer",
)


def report(reading: Reading) -> str:
    """Several lines; "?" is a number that could not be read, "n/a" one that this GPU or driver does not have."""
    return "\n".join([*_head(reading), *_table(reading.gpus), *_people(reading.gpus), *_faults(reading)])


def _head(reading: Reading) -> Iterator[str]:
    versions = (("driver", reading.driver), ("CUDA", reading.cuda), ("NVML", reading.nvml))
    known = [f"{name} {version}" for name, version in versions if version]
    yield " · ".join([reading.node, *known, f"boot {reading.boot_id or UNKNOWN}"])
    if why := _WHY.get(reading.status):
        yield f"No GPU can be read: {why}" + (f" ({reading.error})" if reading.error else "")
    elif not reading.gpus:
        yield "The driver knows no GPU."


def _table(gpus: Iterable[Gpu]) -> Iterator[str]:
    rows = [_COLUMNS, *map(_row, gpus)]
    if len(rows) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(gpu: Gpu) -> tuple[str, ...]:
    answer = str(gpu.answer) + (f": {gpu.error}" if gpu.error else "")
    return (
        str(gpu.index),
        gpu.uuid or UNKNOWN,
        gpu.pci or UNKNOWN,
        gpu.name or UNKNOWN,
        _number(gpu.utilization_pct, " %"),
        f"{_mib(gpu.memory_used_bytes)}/{_mib(gpu.memory_total_bytes)} MiB",
        _number(gpu.temperature_c, " °C"),
        f"{_number(gpu.power_w)}/{_number(gpu.power_limit_w)} W",
        f"{_number(gpu.ecc_uncorrected)}/{_number(gpu.ecc_uncorrected_ever)}",
        _remap(gpu),
        f"{_number(gpu.nvlinks_active)}/{_number(gpu.nvlinks)}",
        answer,
    )


def _remap(gpu: Gpu) -> str:
    flags = [word for word, value in (("pending", gpu.remap_pending), ("FAILED", gpu.remap_failure)) if value == 1]
    return "+".join(flags) or f"{_number(gpu.remap_corrected)}+{_number(gpu.remap_uncorrected)}"


def _people(gpus: Iterable[Gpu]) -> Iterator[str]:
    """Who holds and who uses each GPU, and its instances."""
    known = list(gpus)
    if known and all(gpu.assigned is None for gpu in known):
        yield "The kubelet does not say who holds the GPUs."
    for gpu in known:
        label = f"GPU {gpu.index}"
        for holder in gpu.assigned or ():
            yield f"{label}: held by {_holder(holder)}"
        for instance in gpu.instances:
            held = ", ".join(map(_holder, instance.assigned)) or "nobody"
            used, total = _mib(instance.memory_used_bytes), _mib(instance.memory_total_bytes)
            yield f"{label}: instance {instance.profile or UNKNOWN} {instance.uuid} {used}/{total} MiB, held by {held}"
        for process in gpu.processes or ():
            where = f"in {_holder(process.holder)}" if process.holder else "in no pod that is known"
            yield f"{label}: process {process.pid} uses {_mib(process.used_bytes)} MiB, {where}"


def _faults(reading: Reading) -> Iterator[str]:
    if reading.log_error:
        yield f"The kernel log cannot be read ({reading.log_error}): faults since the start are not known."
    if reading.lost_lines:
        yield f"{reading.lost_lines} lines of the kernel log were overwritten before they were read."
    for fault in reading.faults[-MOST_FAULTS:]:
        yield _fault(fault)
    if not reading.faults and not reading.log_error:
        yield "The kernel log holds no fault of a GPU."


def _fault(fault: Fault) -> str:
    at = datetime.fromtimestamp(fault.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    name = str(fault.kind) if fault.code is None else f"{fault.kind} {fault.code}"
    times = f" ({fault.repeated} times)" if fault.repeated > 1 else ""
    return f"{at}  {name}  {fault.pci or UNKNOWN}  {fault.text}{times}"


def _holder(holder: Holder) -> str:
    if holder.pod:
        return f"{holder.namespace}/{holder.pod}" + (f" ({holder.container})" if holder.container else "")
    return f"pod {holder.pod_uid}"


def _number(value: Measure, unit: str = "") -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return NA
    return f"{value:.0f}{unit}"


def _mib(value: Measure) -> str:
    return _number(value / MIB if isinstance(value, int | float) else value)
