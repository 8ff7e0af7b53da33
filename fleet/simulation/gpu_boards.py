"""The GPUs in the machines of the rehearsal as they come from the factory: products with their limits, boards with their names.

Pure data and arithmetic: the same seed, node, slot and revision give the same board. What a board does and what is wrong with
it are told elsewhere.
"""

import hashlib
import math
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fleet.domain.gpus import NA, Measure, normal_pci

Object = dict[str, Any]

MIB = 1024 * 1024
MIG = "sim/mig"  # annotation of a node whose GPUs are cut into instances: the profile
SLICES = 7  # instances of the smallest profile
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True)
class Product:
    """A product as NVML tells of it. Temperatures: `cool_c` idle, `warm_c` at full power, `limit_c` where it slows down.

    `absolute`: the driver gives the limit itself; newer products give only the margin to it. Zero is "has none".
    """

    name: str
    total_mib: int
    reserved_mib: int
    idle_w: float
    limit_w: float
    sm_mhz: int
    memory_mhz: int
    cool_c: float
    warm_c: float
    limit_c: float
    absolute: bool
    memory_sensor: bool
    nvlinks: int
    pcie: int  # generation; x16 all
    fabric: bool
    slice_mib: int  # of a 1g instance
    slice: str
    buses: tuple[int, ...]


PRODUCTS: dict[str, Product] = {
    "gpu-8x-h100": Product(
        "NVIDIA H100 80GB HBM3", 81559, 567, 72, 700, 1980, 2619, 29, 62, 87, absolute=False, memory_sensor=True,
        nvlinks=18, pcie=5, fabric=True, slice_mib=9984, slice="1g.10gb",
        buses=(0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF),
    ),
    "gpu-8x-a100": Product(
        "NVIDIA A100-SXM4-80GB", 81920, 641, 58, 400, 1410, 1593, 30, 64, 89, absolute=True, memory_sensor=True,
        nvlinks=12, pcie=4, fabric=False, slice_mib=9728, slice="1g.10gb",
        buses=(0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD),
    ),
    "gpu-8x-l4": Product(
        "NVIDIA L4", 23034, 438, 13, 72, 2040, 6251, 33, 68, 84, absolute=False, memory_sensor=False,
        nvlinks=0, pcie=4, fabric=False, slice_mib=0, slice="",
        buses=(0x17, 0x31, 0x4B, 0x65, 0x98, 0xB1, 0xCA, 0xE3),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Board:
    """One GPU in one slot. A slot whose board was replaced has a `revision` above 0."""

    product: Product
    node: str
    slot: int
    seed: int = 1
    revision: int = 0

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(f"{self.seed}/{self.node}/{self.slot}/{self.revision}".encode()).digest()

    @cached_property
    def uuid(self) -> str:
        return f"GPU-{uuid.UUID(bytes=self.digest[:16], version=4)}"

    @cached_property
    def serial(self) -> str:
        return f"16{int.from_bytes(self.digest[16:21], 'big') % 10**11:011d}"

    @cached_property
    def pci(self) -> str:
        """That of the slot: it stays when the board is replaced."""
        return normal_pci(f"0:{self.product.buses[self.slot]:x}:0.0")

    @property
    def bus(self) -> str:
        """As the kernel log has it: "0000:9d:00"."""
        return self.pci.partition(".")[0]

    @property
    def total_bytes(self) -> int:
        return self.product.total_mib * MIB

    @property
    def reserved_bytes(self) -> int:
        return self.product.reserved_mib * MIB

    @cached_property
    def _lots(self) -> dict[str, float]:
        return {}

    def lot(self, subject: str) -> float:
        """Between 0 and 1, the same for the same board and subject."""
        if subject not in self._lots:
            digest = hashlib.sha256(self.digest + subject.encode()).digest()
            self._lots[subject] = int.from_bytes(digest[:4], "big") / 0xFFFFFFFF
        return self._lots[subject]

    @cached_property
    def _phases(self) -> tuple[float, float]:
        return self.lot("slow") * math.tau, self.lot("quick") * math.tau

    def noise(self, at: float) -> float:
        """Between -1 and 1, smooth: two waves of 41 s and 13 s with the board's own phases."""
        slow, quick = self._phases
        return 0.6 * math.sin(math.tau * at / 41.0 + slow) + 0.4 * math.sin(math.tau * at / 13.0 + quick)

    def instance_uuid(self, number: int) -> str:
        digest = hashlib.sha256(self.digest + bytes([number])).digest()
        return f"MIG-{uuid.UUID(bytes=digest[:16], version=5)}"

    @cached_property
    def fixed(self) -> dict[str, Any]:
        """The fields of a `Gpu` that nothing changes."""
        product = self.product
        links: Measure = product.nvlinks or NA
        return {
            "uuid": self.uuid,
            "index": self.slot,
            "pci": self.pci,
            "minor": self.slot,
            "name": product.name,
            "serial": self.serial,
            "memory_total_bytes": self.total_bytes,
            "memory_reserved_bytes": self.reserved_bytes,
            "slowdown_c": product.limit_c if product.absolute else NA,
            "power_limit_w": product.limit_w,
            "sm_clock_max_mhz": product.sm_mhz,
            "ecc_enabled": 1,
            "ecc_pending": 1,
            "retired_pages": NA,
            "retirement_pending": NA,
            "nvlinks": links,
            "nvlinks_active": links,
            "nvlink_errors": 0 if product.nvlinks else NA,
            "pcie_generation_max": product.pcie,
            "pcie_width": 16,
            "pcie_width_max": 16,
            "pcie_replays": int(self.lot("replays") * 3),
            "persistence": 1,
            "fabric_state": 3 if product.fabric else NA,
            "fabric_status": 0 if product.fabric else NA,
            "fabric_health": NA,
            "fabric_clique": 0 if product.fabric else NA,
        }


def product_of(node: Object) -> Product | None:
    """What is in a machine of this type; None for a node that is none of the rehearsal's GPU machines."""
    return PRODUCTS.get((node["metadata"].get("labels") or {}).get(INSTANCE_TYPE, ""))
