"""GPUs of the demo fleet by hand: two nodes that are measured, with one GPU in each state, and one cut into instances."""

from typing import Any

import msgspec

from fleet.domain.attention import LEVELS, RANKS, Concern
from fleet.domain.gpus import NA
from fleet.domain.picture import AttentionRow, FindingRow, GpuRow, InstanceRow, NodeRow, Snapshot

TROUBLED, CUT = 12, 14
CELLS = {TROUBLED: "5541idxu", CUT: "b322211i"}


def uuid(node: str, index: int) -> str:
    return f"GPU-{int(node[-2:]):02x}{index:02x}f087-3c5e-4d1a-9f00-{index:012x}"


def gpus(node: NodeRow, now: float) -> dict[str, GpuRow]:
    number = int(node.name[-2:])
    rows = {TROUBLED: _troubled, CUT: _cut}[number](node, now) if number in (TROUBLED, CUT) else []
    return {row.uuid: row for row in rows}


def _gpu(node: NodeRow, index: int, now: float, **facts: object) -> GpuRow:
    known: dict[str, object] = {
        "pci": f"0000:{index + 0x17:02x}:00.0", "name": "NVIDIA H100 80GB HBM3", "serial": f"16533240{number(node)}{index}",
        "state": "ok", "since_at": now - 700_000, "read_at": now - 2, "utilization_pct": 97, "memory_used_mib": 72_909,
        "memory_total_mib": 81_559, "memory_reserved_mib": 611, "temperature_c": 64 + index, "memory_temperature_c": 78,
        "power_w": 640 + index, "power_limit_w": 700, "sm_clock_mhz": 1_980, "ecc_corrected": 0, "ecc_uncorrected": 0,
        "remap": (0, 0, 0, 0), "nvlinks": (18, 18), "pcie": (5, 16), "pods": ("ml/moe-8x7b-pretrain-12",), "users": 1,
    }  # fmt: skip
    return GpuRow(node=node.name, index=index, uuid=uuid(node.name, index), **(known | facts))  # type: ignore[arg-type]


def number(node: NodeRow) -> int:
    return int(node.name[-2:])


def _troubled(node: NodeRow, now: float) -> list[GpuRow]:
    remap = FindingRow(
        "remap-pending", "nvml", "reset-required", "reset-gpu", now - 1_560, now - 2, "remap_pending = 1", soft=True
    )
    contained = FindingRow("xid-94", "kernel-log", "app-fault", "restart-app", now - 1_560, now - 1_560,
                           "Xid (PCI:0000:1c:00): 94, pid=2503421, name=python3, Ch 00000008")  # fmt: skip
    off = FindingRow("xid-79", "kernel-log", "lost", "reboot-node", now - 724, now - 724,
                     "Xid (PCI:0000:1d:00): 79, GPU has fallen off the bus.")  # fmt: skip
    gone: dict[str, object] = dict.fromkeys(
        ("utilization_pct", "memory_used_mib", "temperature_c", "memory_temperature_c", "power_w", "sm_clock_mhz",
         "ecc_corrected", "ecc_uncorrected"))  # fmt: skip
    return [
        _gpu(node, 0, now),
        _gpu(node, 1, now, utilization_pct=96),
        _gpu(node, 2, now, utilization_pct=83, clock_reasons=("power-cap",)),
        _gpu(node, 3, now, utilization_pct=22, strangers=1, users=2),
        _gpu(node, 4, now, utilization_pct=0, power_w=92, temperature_c=41, clock_reasons=("idle",), idle_since_at=now - 2_400),
        _gpu(node, 5, now, state="reset-required", action="reset-gpu", soft=True, reason="remap-pending", level="warn",
             since_at=now - 1_560, findings=(remap, contained), ecc_uncorrected=1, remap=(0, 1, 1, 0)),
        _gpu(node, 6, now, state="lost", action="reboot-node", reason="xid-79", level="bad", since_at=now - 724,
             read_at=now - 726, findings=(off,), users=None, remap=(None,) * 4, nvlinks=(None, 18), pcie=(None, None), **gone),
        _gpu(node, 7, now, state="unknown", reason="call-hung", level="off", since_at=now - 95, read_at=now - 97, users=None,
             remap=(None,) * 4, **gone),
    ]  # fmt: skip


def _cut(node: NodeRow, now: float) -> list[GpuRow]:
    instances = tuple(
        InstanceRow(f"MIG-{i:08x}-1b2c-5d3e-8f40-a1b2c3d4e5f6", "1g.10gb", "app-fault" if i == 5 else "ok", 9_728, 512 * i,
                    (f"ml/llm-chat-{i}",) if i % 2 else ())
        for i in range(7)
    )  # fmt: skip
    cut = _gpu(node, 0, now, name="NVIDIA A100-SXM4-80GB", utilization_pct=NA, ecc_corrected=NA, ecc_uncorrected=NA,
               remap=(NA,) * 4, memory_total_mib=81_920, memory_reserved_mib=NA, power_limit_w=400, power_w=180,
               instances=instances)  # fmt: skip
    rest = [_gpu(node, i, now, name="NVIDIA A100-SXM4-80GB", power_limit_w=400, power_w=210 + i, pods=("ml/llm-chat-14",),
                 utilization_pct=60 - 5 * i) for i in range(1, 7)]  # fmt: skip
    idle = _gpu(node, 7, now, name="NVIDIA A100-SXM4-80GB", pods=("ml/notebooks-14",), users=0, utilization_pct=0,
                memory_used_mib=4, power_w=60, power_limit_w=400, temperature_c=33, idle_since_at=now - 9_000)  # fmt: skip
    return [cut, *rest, idle]


def attentive(found: Snapshot, now: float) -> Snapshot:
    """The fleet with what needs a person about the troubled node's GPUs."""
    name, held = f"node-{TROUBLED}", (("pods", 3), ("gpus", 8))
    told: tuple[tuple[Any, ...], ...] = (
        (Concern.GPU_LOST, now - 724, ("count", 1), ("indices", "6"), ("rule", "xid-79"), ("action", "reboot-node")),
        (Concern.GPU_UNKNOWN, now - 95, ("count", 1), ("indices", "7"), ("rule", "call-hung"), ("action", "monitor")),
        (
            Concern.GPU_DEGRADED,
            now - 1_560,
            ("count", 1),
            ("indices", "5"),
            ("rule", "remap-pending"),
            ("action", "reset-gpu"),
        ),
        (Concern.GPU_IDLE_HELD, now - 2_400, ("count", 1), ("indices", "4")),
    )
    rows = {
        f"{kind.value}:{name}": AttentionRow(kind.value, LEVELS[kind], RANKS[kind], name, name, since, (*held, *facts))
        for kind, since, *facts in told
    }
    node = msgspec.structs.replace(found.nodes[name], level="bad", reasons=tuple(kind.value for kind, *_ in told))
    ranked = {
        key: msgspec.structs.replace(row, rank=RANKS[Concern(row.kind)])
        for key, row in {**found.attention, **rows}.items()
    }
    attention = dict(sorted(ranked.items(), key=lambda item: item[1].rank))
    return msgspec.structs.replace(found, nodes={**found.nodes, name: node}, attention=attention)
