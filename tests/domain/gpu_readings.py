"""Readings of a node with eight healthy GPUs, and a node's memory that takes them in one after the other."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fleet.domain.gpus import NA, Fault, Gpu, Holder, Process, Reading
from fleet.domain.health import Assessed, NodeContext, NodeHealth, Transition, assess, silent
from fleet.domain.kernel_log import line_faults
from fleet.domain.picture import GpuRow

NODE = "node-11"
START_AT = 1_700_000_040.0  # the beginning of a minute
CONTEXT = NodeContext(node=NODE, gpu_labelled=True, physical=8, capacity=8, allocatable=8, boot_id="boot-1")
HEALTHY: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "utilization_pct": 80,
    "memory_total_bytes": 85_520_809_984,
    "memory_used_bytes": 60_000_000_000,
    "memory_reserved_bytes": 595_000_000,
    "temperature_c": 55,
    "temperature_margin_c": 30,
    "power_w": 500.0,
    "power_limit_w": 700.0,
    "energy_j": 1_000_000,
    "clock_reasons": 0x4,
    "ecc_enabled": 1,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remap_corrected": 0,
    "remap_uncorrected": 0,
    "remap_pending": 0,
    "remap_failure": 0,
    "retired_pages": NA,
    "nvlinks": 18,
    "nvlinks_active": 18,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "fabric_state": 3,
    "fabric_health": 1,
    "mig": 0,
    "recovery_action": 0,
    "assigned": (Holder("train", "llm-0"),),
    "processes": (Process(pid=7, used_bytes=60_000_000_000, holder=Holder("train", "llm-0")),),
}


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def pci(index: int) -> str:
    return f"0000:{index + 0x10:02x}:00.0"


def gpu(board: int = 0, **values: Any) -> Gpu:
    return Gpu(**({"uuid": uuid(board), "index": board, "pci": pci(board)} | HEALTHY | values))


def eight(**by_index: dict[str, Any]) -> tuple[Gpu, ...]:
    """Eight GPUs; `gpu3={"temperature_c": 90}` says what is different."""
    return tuple(gpu(index, **by_index.get(f"gpu{index}", {})) for index in range(8))


def xid_line(index: int, rest: str, *, where: str = "") -> str:
    """A line of the kernel log about one GPU."""
    return f"NVRM: Xid (PCI:{pci(index).removesuffix('.0')}{where}): {rest}"


class Told:
    """What a node's readings come to. Each reading comes 5 s after the one before, unless `after_s` says otherwise."""

    def __init__(self, context: NodeContext = CONTEXT, boot_id: str = "boot-1", agent: str = "agent-1") -> None:
        self.context = context
        self.boot_id = boot_id
        self.agent = agent
        self.now = START_AT
        self.sequence = 0
        self.lines = 0
        self.health: NodeHealth | None = None
        self.transitions: list[Transition] = []
        self.last: Assessed | None = None

    def reads(
        self, gpus: Iterable[Gpu] | None = None, *, lines: Sequence[str] = (), after_s: float = 5.0, **values: Any
    ) -> Assessed:
        self.now += after_s
        self.sequence += 1
        listed = tuple(eight() if gpus is None else gpus)
        records = [(self.lines + place, self.now, line) for place, line in enumerate(lines)]
        self.lines += len(lines)
        faults = tuple(line_faults(records)) + tuple(values.pop("faults", ()))
        fields: dict[str, Any] = {
            "node": NODE,
            "boot_id": self.boot_id,
            "agent": self.agent,
            "sequence": self.sequence,
            "sent_at": self.now,
            "driver": "570.148.08",
            "count": len(listed),
        }
        return self.takes(Reading(gpus=listed, faults=faults, **(fields | values)))

    def takes(self, reading: Reading) -> Assessed:
        """As the door gets it: over the wire, and the memory through its store."""
        reading = msgspec.json.decode(msgspec.json.encode(reading), type=Reading)
        memory = self.health and msgspec.msgpack.decode(msgspec.msgpack.encode(self.health), type=NodeHealth)
        return self._kept(assess(memory, reading, self.context, self.now))

    def waits(self, seconds: float) -> Assessed:
        self.now += seconds
        assert self.health is not None
        return self._kept(silent(self.health, self.context, self.now))

    def reboots(self) -> None:
        self.boot_id += "'"
        self.agent += "'"
        self.sequence = 0
        self.lines = 0

    def row(self, index: int = 0) -> GpuRow:
        assert self.last is not None
        return self.last.rows[uuid(index)]

    def states(self) -> list[str]:
        assert self.last is not None
        return [row.state for row in sorted(self.last.rows.values(), key=lambda row: row.index)]

    def rules(self, index: int = 0) -> list[str]:
        return [finding.rule for finding in self.row(index).findings]

    def concerns(self) -> list[str]:
        assert self.last is not None
        return [finding.rule for finding in self.last.standing.findings]

    def of(self, index: int) -> list[Transition]:
        return [transition for transition in self.transitions if transition.gpu == uuid(index)]

    def _kept(self, assessed: Assessed) -> Assessed:
        self.health, self.last = assessed.health, assessed
        self.transitions += assessed.transitions
        return assessed


def dcgm_fault(code: int, index: int, at: float) -> Fault:
    return Fault(kind="xid", source="dcgm", at=at, uuid=uuid(index), pci=pci(index), code=code)  # type: ignore[arg-type]
