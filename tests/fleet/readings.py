"""Readings for tests: a node of eight GPUs as its agent measures it, and posting them as it does."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fleet.domain.gpus import Fault, FaultKind, Gpu, Holder, Process, Reading

GIB = 1 << 30


def gpu(node: str, index: int, **changes: Any) -> Gpu:
    """One that works on something; every field that an H100 has."""
    pod = Holder(namespace="ml", pod=f"train-{node}", container="main")
    return replace(
        Gpu(
            uuid=uuid(node, index),
            index=index,
            pci=f"0000:{0x10 + index:02x}:00.0",
            minor=index,
            name="NVIDIA H100 80GB HBM3",
            serial=f"16500{index:08d}",
            utilization_pct=(37 + 11 * index) % 101,
            memory_busy_pct=40,
            encoder_pct=0,
            decoder_pct=0,
            memory_total_bytes=80 * GIB,
            memory_used_bytes=61 * GIB,
            memory_reserved_bytes=600 << 20,
            temperature_c=48 + index,
            memory_temperature_c=60 + index,
            temperature_margin_c=30,
            slowdown_c=90,
            power_w=431.25,
            power_limit_w=700.0,
            energy_j=123456789.5,
            sm_clock_mhz=1755,
            memory_clock_mhz=2619,
            sm_clock_max_mhz=1980,
            clock_reasons=4,
            ecc_enabled=1,
            ecc_pending=1,
            ecc_corrected=0,
            ecc_uncorrected=0,
            ecc_corrected_ever=0,
            ecc_uncorrected_ever=0,
            sram_threshold_exceeded=0,
            retired_pages="n/a",
            retirement_pending="n/a",
            remap_corrected=0,
            remap_uncorrected=0,
            remap_pending=0,
            remap_failure=0,
            nvlinks=18,
            nvlinks_active=18,
            nvlink_errors=0,
            pcie_generation=5,
            pcie_generation_max=5,
            pcie_width=16,
            pcie_width_max=16,
            pcie_replays=0,
            persistence=1,
            mig=0,
            mig_pending=0,
            fabric_state=3,
            fabric_status=0,
            fabric_health=1,
            recovery_action=0,
            processes=(Process(pid=4000 + index, used_bytes=60 * GIB, holder=pod),),
            assigned=(pod,),
        ),
        **changes,
    )


def uuid(node: str, index: int) -> str:
    text = hashlib.md5(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def reading(node: str = "node-0", sequence: int = 1, at: float = 1_800_000_000.0, **changes: Any) -> Reading:
    """`gpus` may be given; eight that work otherwise."""
    return replace(
        Reading(
            node=node,
            boot_id="6f1c0f0e-7d5b-4b0f-9d55-1c1f7c5d1a11",
            agent="agent-1",
            sequence=sequence,
            sent_at=at,
            driver="550.144.03",
            cuda="12.4",
            nvml="12.550.144.03",
            count=8,
            gpus=tuple(gpu(node, index) for index in range(8)),
        ),
        **changes,
    )


def xid(code: int, node: str, index: int, at: float, sequence: int = 100) -> Fault:
    pci = f"0000:{0x10 + index:02x}:00.0"
    text = f"Xid (PCI:{pci[:-2]}): {code}, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    return Fault(kind=FaultKind.XID, at=at, sequence=sequence, pci=pci, code=code, text=text)


def body(found: Reading, *, packed: bool = True) -> bytes:
    encoded = msgspec.json.encode(found)
    return gzip.compress(encoded, 1) if packed else encoded


def token(node: str) -> str:
    return f"token-of-{node}-0123456789abcdef"


def fixed_tokens(path: Path, cluster: str, nodes: list[str]) -> Path:
    """A file of tokens as a site gives them out by hand."""
    lines = (f"{hashlib.sha256(token(node).encode()).hexdigest()} {cluster} {node}" for node in nodes)
    path.write_text("\n".join(lines) + "\n")
    return path
