"""What the rehearsal's dcgm-exporter pods answer: the page of a real exporter about the GPUs of their node.

Owns the page: the exporter's default metrics, and the quirks that a scraper has to cope with. Its Xid gauge is the last one that
this exporter has seen; a GPU that is lost, or does not answer, has no series; with MIG what is of the whole GPU comes once for
each instance. Must not measure anything: `machines` does.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fleet.domain.gpus import Answer, FaultKind, Gpu, Holder, Instance, Measure
from fleet.domain.xid import line_faults
from fleet.simulation.gpu_boards import MIB
from fleet.simulation.gpu_machine import Machine
from fleet.simulation.machines import Machines
from fleet.simulation.programs import Container, PlainProgram, Programs

Object = dict[str, Any]
Labels = dict[str, str]
Series = tuple[Labels, Gpu, Instance | None]

IMAGE: Final = "dcgm-exporter"
NOT_SUPPORTED: Final = 9223372036854775794
WINDOW_S: Final = 300.0  # of the counter of Xids

# Metric, type, and the field of a GPU that it shows.
METRICS: Final[tuple[tuple[str, str, str], ...]] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "sm_clock_mhz"),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "memory_clock_mhz"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "memory_temperature_c"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "temperature_c"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "power_w"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "energy_j"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "pcie_replays"),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "utilization_pct"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "memory_busy_pct"),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", "encoder_pct"),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", "decoder_pct"),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "ecc_corrected"),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "ecc_uncorrected"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "remap_uncorrected"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "remap_corrected"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "remap_failure"),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "remap_pending"),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "clock_reasons"),
)
# Hidden from a GPU that is cut; DCGM leaves those out, and says of what a board has not that it is not supported.
HIDDEN: Final = ("utilization_pct", "memory_busy_pct", "encoder_pct", "decoder_pct")


class DcgmExporter(PlainProgram):
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def metrics(self, container: Container) -> str:
        node = container.pod["spec"].get("nodeName", "")
        machine = self._machines.get(node)
        gpus = [gpu for gpu in self._machines.gpus(node) if gpu.answer is Answer.OK]
        if machine is None or not gpus:
            return ""
        series = [found for gpu in gpus for found in _series(gpu, node, machine.driver)]
        return "".join((*_measured(series), *_memory(series), *_xids(series, machine, container)))


def register(programs: Programs, machines: Machines) -> None:
    programs.register(IMAGE, DcgmExporter(machines))


def _series(gpu: Gpu, node: str, driver: str) -> Iterator[Series]:
    """What the exporter makes series of: a whole GPU, or each of its instances."""
    labels = {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": f"0000{gpu.pci.upper()}",
        "device": f"nvidia{gpu.index}",
        "modelName": gpu.name,
    }
    rest = {"Hostname": node, "DCGM_FI_DRIVER_VERSION": driver}
    if not gpu.instances:
        yield labels | rest | _pod(gpu.assigned or ()), gpu, None
    for instance in gpu.instances:
        part = {"GPU_I_PROFILE": instance.profile, "GPU_I_ID": str(instance.gi)}
        yield labels | part | rest | _pod(instance.assigned), gpu, instance


def _pod(holders: Iterable[Holder]) -> Labels:
    """One only: without its virtual GPUs the exporter names the last pod that it found."""
    found = next(reversed(tuple(holders)), Holder())
    return {"container": found.container, "namespace": found.namespace, "pod": found.pod}


def _measured(series: list[Series]) -> Iterator[str]:
    for name, kind, of_gpu in METRICS:
        shown = [
            (labels, _shown(of_gpu, getattr(gpu, of_gpu)))
            for labels, gpu, part in series
            if not (part and of_gpu in HIDDEN)
        ]
        yield _family(name, kind, shown)


def _shown(of_gpu: str, value: Measure) -> str:
    if not isinstance(value, int | float):
        return str(NOT_SUPPORTED)
    if of_gpu == "energy_j":
        return str(round(value * 1000))
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _memory(series: list[Series]) -> Iterator[str]:
    """In MiB. An instance's reserve is not told apart."""
    used, free, reserved = [], [], []
    for labels, gpu, part in series:
        of = part or gpu
        total_mib, used_mib = _mib(of.memory_total_bytes), _mib(of.memory_used_bytes)
        reserved_mib = 0 if part else _mib(gpu.memory_reserved_bytes)
        used.append((labels, str(used_mib)))
        free.append((labels, str(total_mib - used_mib - reserved_mib)))
        reserved.append((labels, str(reserved_mib)))
    yield _family("DCGM_FI_DEV_FB_FREE", "gauge", free)
    yield _family("DCGM_FI_DEV_FB_USED", "gauge", used)
    yield _family("DCGM_FI_DEV_FB_RESERVED", "gauge", reserved)


def _mib(value: Measure) -> int:
    return int(value) // MIB if isinstance(value, int | float) else 0


def _xids(series: list[Series], machine: Machine, container: Container) -> Iterator[str]:
    """Of those that came while this exporter ran."""
    lines = ((line.sequence, line.at, line.text) for line in machine.log if line.at >= container.started_at)
    faults = [fault for fault in line_faults(lines) if fault.kind is FaultKind.XID]
    last, counts = [], []
    for labels, gpu, _ in series:
        of_gpu = [fault for fault in faults if fault.pci == gpu.pci]
        code = of_gpu[-1].code if of_gpu else 0
        last.append((labels | {"err_code": str(code), "err_msg": of_gpu[-1].text if of_gpu else "No Error"}, str(code)))
        for each in dict.fromkeys(fault.code for fault in of_gpu):
            recent = sum(f.repeated for f in of_gpu if f.code == each and f.at > container.now - WINDOW_S)
            window = {"window_size_in_ms": str(round(WINDOW_S * 1000)), "xid": str(each)}
            counts.append((labels | window, str(recent)))
    yield _family("DCGM_FI_DEV_XID_ERRORS", "gauge", last)
    if counts:
        yield _family("DCGM_EXP_XID_ERRORS_COUNT", "gauge", counts)


def _family(name: str, kind: str, samples: Iterable[tuple[Labels, str]]) -> str:
    lines = (f"{name}{{{','.join(_label(*label) for label in labels.items())}}} {value}\n" for labels, value in samples)
    return f"# HELP {name} {name}\n# TYPE {name} {kind}\n{''.join(lines)}"


def _label(name: str, text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
