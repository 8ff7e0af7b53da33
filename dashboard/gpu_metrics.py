"""What `/metrics` says of single GPUs, and of readings on their way in.

Owns these names and labels. A GPU has some twenty series, for a site that keeps its GPUs in Prometheus. Rendered by hand:
a hundred thousand samples are too many for the client library's objects. Numbers only: what is not applicable or unknown has no
sample, and `vigie_gpu_state` says why.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fleet import live
from fleet.domain.gpus import DeviceState, Measure
from fleet.domain.picture import GpuRow, NodeRow, Snapshot
from fleet.live import PictureError

Sample = tuple[str, float]  # labels as text, value

MEASURES: Final[Mapping[str, tuple[str, Callable[[GpuRow], Measure]]]] = {
    "utilization_percent": ("Share of the last sample period with a kernel running", lambda r: r.utilization_pct),
    "memory_used_mib": (
        "Memory in use, without what the driver reserves where it can tell",
        lambda r: r.memory_used_mib,
    ),
    "memory_total_mib": ("Memory of the GPU", lambda r: r.memory_total_mib),
    "temperature_celsius": ("Temperature of the GPU", lambda r: r.temperature_c),
    "memory_temperature_celsius": ("Temperature of its memory", lambda r: r.memory_temperature_c),
    "power_watts": ("Power drawn", lambda r: r.power_w),
    "power_limit_watts": ("Power limit", lambda r: r.power_limit_w),
    "sm_clock_mhz": ("Clock of its multiprocessors", lambda r: r.sm_clock_mhz),
    "ecc_corrected": ("Corrected memory errors since the driver was loaded", lambda r: r.ecc_corrected),
    "ecc_uncorrected": ("Uncorrected memory errors since the driver was loaded", lambda r: r.ecc_uncorrected),
    "remap_corrected": ("Rows remapped for corrected errors", lambda r: r.remap[0]),
    "remap_uncorrected": ("Rows remapped for uncorrected errors", lambda r: r.remap[1]),
    "remap_pending": ("1 while a remap waits for a reset", lambda r: r.remap[2]),
    "remap_failure": ("1 when a remap has failed", lambda r: r.remap[3]),
    "nvlinks_active": ("NVLinks that are up", lambda r: r.nvlinks[0]),
}


def gpus(clusters: Mapping[str, Snapshot]) -> bytes:
    """The text format, for every GPU of these clusters."""
    found = [
        (_labels(cluster, row, snapshot.nodes), row)
        for cluster, snapshot in clusters.items()
        for row in snapshot.gpus.values()
    ]
    parts = [
        _family("gpu_state", "1 for the verdict of this GPU", _states(found)),
        _family(
            "gpu_read_timestamp_seconds", "When it was read last", ((labels, row.read_at) for labels, row in found)
        ),
        _family("gpu_findings", "Open findings about it", ((labels, len(row.findings)) for labels, row in found)),
    ]
    parts += [
        _family(f"gpu_{name}", text, ((labels, value(row)) for labels, row in found))
        for name, (text, value) in MEASURES.items()
    ]
    return "".join(parts).encode()


def readings(clusters: Iterable[str]) -> bytes:
    """How readings fare between the door and the verdict. Counters of the readings worker's process."""
    names = list(clusters)
    waiting, workers = [], []
    for name in names:
        try:
            waiting.append((f'cluster="{_escaped(name)}"', live.gpus().waiting(name)))
            worker = live.gpus().worker(name)
        except PictureError:  # nothing is known, so nothing is said
            continue
        if worker is not None:
            workers.append((f'cluster="{_escaped(name)}"', worker))
    families = (
        ("readings_waiting", "Readings that wait to be assessed", "gauge", waiting),
        (
            "readings_lag_seconds",
            "Age of the oldest reading of the last second",
            "gauge",
            [(labels, worker.lag_s) for labels, worker in workers],
        ),
        (
            "readings_worker_timestamp_seconds",
            "When the worker was heard last",
            "gauge",
            [(labels, worker.said_at) for labels, worker in workers],
        ),
        (
            "readings_assessed_total",
            "Readings assessed",
            "counter",
            [(labels, worker.readings) for labels, worker in workers],
        ),
        (
            "readings_unreadable_total",
            "Readings that could not be assessed",
            "counter",
            [(labels, worker.unreadable) for labels, worker in workers],
        ),
        (
            "readings_assess_seconds_total",
            "Spent on assessing",
            "counter",
            [(labels, worker.spent_s) for labels, worker in workers],
        ),
        (
            "ledger_owed",
            "Transitions that wait for the ledger",
            "gauge",
            [(labels, worker.owed) for labels, worker in workers],
        ),
        (
            "scrapes_total",
            "Answers of GPU exporters, by outcome",
            "counter",
            [
                (f'{labels},outcome="{_escaped(outcome)}"', number)
                for labels, worker in workers
                for outcome, number in sorted(worker.scrapes.items())
            ],
        ),
    )
    return "".join(_family(name, text, samples, kind) for name, text, kind, samples in families).encode()


def _states(found: Iterable[tuple[str, GpuRow]]) -> Iterator[Sample]:
    for labels, row in found:
        yield f'{labels},state="{DeviceState(row.state)}",action="{row.action}",reason="{_escaped(row.reason)}"', 1


def _labels(cluster: str, row: GpuRow, nodes: Mapping[str, NodeRow]) -> str:
    node = nodes.get(row.node)
    parts = {
        "cluster": cluster,
        "node": row.node,
        "gpu": row.uuid or row.pci,
        "index": str(row.index),
        "product": node.product if node else "",
    }
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in parts.items())


def _family(name: str, text: str, samples: Iterable[tuple[str, Measure]], kind: str = "gauge") -> str:
    lines = [f"vigie_{name}{{{labels}}} {value}\n" for labels, value in samples if isinstance(value, int | float)]
    return f"# HELP vigie_{name} {text}\n# TYPE vigie_{name} {kind}\n{''.join(lines)}" if lines else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
