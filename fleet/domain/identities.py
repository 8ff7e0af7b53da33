"""Which GPU of a reading is which of those that are known.

Owns identity: the UUID; while the driver does not say it, the PCI address, then the place in the list within one boot. An index
is a label and identifies nothing across a reboot. Must not judge.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from fleet.domain.gpus import Fault, Gpu, Reading
from fleet.domain.verdicts import GpuHealth, NodeHealth


class Identified(Struct, frozen=True):
    gpus: dict[str, Gpu]  # by key
    replaced: dict[str, str]  # key of a board that is gone: key of the one in its place
    named: dict[str, str]  # provisional key: the key that its GPU has now


def provisional(key: str) -> bool:
    """Whether a key stands for a GPU whose UUID nobody has said yet."""
    return "/" in key


def identified(past: NodeHealth, reading: Reading) -> Identified:
    gpus: dict[str, Gpu] = {}
    nameless = []
    for gpu in reading.gpus:
        namesake = gpus.get(gpu.uuid)
        if gpu.uuid and namesake is None:
            gpus[gpu.uuid] = gpu
        elif namesake is None or gpu.pci not in {
            "",
            namesake.pci,
        }:  # two addresses are two boards, whatever they call themselves
            nameless.append(gpu)
    for gpu in nameless:
        key = _key(past, reading, gpu, gpus, alone=len(nameless) == 1)
        if key not in gpus:
            gpus[key] = gpu
    if gpus.keys() == past.gpus.keys():
        return Identified(gpus, {}, {})
    return Identified(gpus, *_successors(past, gpus))


def of_fault(fault: Fault, gpus: Mapping[str, Gpu]) -> str | None:
    """The key of the GPU that a fault is about; None when none is known by its UUID or address."""
    if fault.uuid in gpus:
        return fault.uuid
    return next((key for key, gpu in gpus.items() if fault.pci and gpu.pci == fault.pci), None)


def _key(past: NodeHealth, reading: Reading, gpu: Gpu, taken: Collection[str], *, alone: bool) -> str:
    """Of a GPU that has no UUID of its own in this reading."""
    free = {key: health for key, health in past.gpus.items() if key not in taken}
    if gpu.pci:
        known = (key for key, health in free.items() if health.gpu.pci == gpu.pci)
        return next(known, f"{reading.node}/{gpu.pci}")
    if past.boot_id == reading.boot_id:
        known = (key for key, health in free.items() if health.gpu.index == gpu.index)
        return next(known, f"{reading.node}/{gpu.index}")
    # Only one does not say its name, and only one is not accounted for.
    return next(iter(free)) if alone and len(free) == 1 else f"{reading.node}/{gpu.index}"


def _successors(past: NodeHealth, gpus: Mapping[str, Gpu]) -> tuple[dict[str, str], dict[str, str]]:
    """A new UUID where another one was: a provisional key gets its name, a board was replaced."""
    at = {gpu.pci: key for key, gpu in gpus.items() if gpu.pci and key not in past.gpus}
    replaced: dict[str, str] = {}
    named: dict[str, str] = {}
    for key, health in _away(past.gpus, gpus):
        successor = at.get(health.gpu.pci) if health.gpu.pci else None
        if successor is None or provisional(successor):
            continue
        (named if provisional(key) else replaced)[key] = successor
    return replaced, named


def _away(past: Mapping[str, GpuHealth], gpus: Collection[str]) -> Iterable[tuple[str, GpuHealth]]:
    return ((key, health) for key, health in past.items() if key not in gpus)
