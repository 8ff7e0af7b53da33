"""What can be wrong with the GPUs of a machine, as annotations of its node tell it: `sim/gpu-3: "off-bus"`, or `sim/gpu` for all.

Owns the words, what the kernel log says when each begins, and what a reboot mends. An annotation holds one or several words;
others mean nothing. Pure: a node in, facts out. What measurements become of it is gpu_machine.py's.
"""

from enum import StrEnum
from typing import Any

Object = dict[str, Any]

ALL = "sim/gpu"  # of the whole machine
ONE = "sim/gpu-"  # + the slot
BOARD = "sim/board-"  # + the slot: which board is in it, counted from 0
DRIVER = "sim/driver"  # a word of DriverTrouble


class Trouble(StrEnum):
    OFF_BUS = "off-bus"  # its handle is lost
    ECC_STORM = "ecc-storm"  # thousands of corrected memory errors a second
    UNCORRECTABLE = (
        "uncorrectable"  # a memory error that took data; a row waits to be remapped, the driver asks for a reset
    )
    REMAP_PENDING = "remap-pending"  # a row waits to be remapped since some earlier error
    REMAPPED = "remapped"  # a row has been remapped
    HOT = "hot"  # at the temperature where its clock is slowed down
    POWER_BRAKE = "power-brake"  # slowed down by the power supply
    HUNG = "hung"  # the driver does not answer for it


class DriverTrouble(StrEnum):
    """Of the driver of a machine: nothing is measured."""

    MISMATCH = "mismatch"  # kernel module and library are of different versions
    ABSENT = "absent"  # not loaded


PROGRAM = "pid={pid}, name=python3"
NOBODY = "pid='<unknown>', name=<unknown>"
# What the kernel log says when it begins: (Xid, text after the prefix); Xid 0: a line without one.
LINES: dict[Trouble, tuple[tuple[int, str], ...]] = {
    Trouble.OFF_BUS: (
        (79, f"{NOBODY}, GPU has fallen off the bus."),
        (0, "GPU has fallen off the bus."),
        (154, f"{NOBODY}, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    ),
    Trouble.ECC_STORM: ((92, f"{NOBODY}, High single-bit ECC error rate"),),
    Trouble.UNCORRECTABLE: (
        (48, f"{PROGRAM}, An uncorrectable double bit error (DBE) has been detected on GPU (06 00)."),
        (63, f"{NOBODY}, Row Remapper: New row (0x00000002eebc4100) marked for remapping, reset gpu to activate."),
        (154, f"{NOBODY}, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ),
}
# What becomes of a word when the machine is booted; what is not here stays.
REBOOTED: dict[Trouble, Trouble | None] = {
    Trouble.OFF_BUS: None,
    Trouble.ECC_STORM: None,
    Trouble.UNCORRECTABLE: Trouble.REMAPPED,
    Trouble.REMAP_PENDING: Trouble.REMAPPED,
    Trouble.HUNG: None,
}
RECOVERY: dict[Trouble, int] = {Trouble.OFF_BUS: 2, Trouble.UNCORRECTABLE: 1}  # NVIDIA's field 230

Troubles = frozenset[Trouble]
KNOWN = {trouble.value: trouble for trouble in Trouble}
DRIVER_WORDS = {trouble.value: trouble for trouble in DriverTrouble}


def _words(text: str) -> Troubles:
    return frozenset(KNOWN[word] for word in text.split() if word in KNOWN)


def _notes(node: Object) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}


def troubles(node: Object, slots: int) -> tuple[Troubles, ...]:
    """What is wrong with the GPU in each slot."""
    notes = _notes(node)
    everywhere = _words(notes.get(ALL, ""))
    return tuple(everywhere | _words(notes.get(f"{ONE}{slot}", "")) for slot in range(slots))


def driver_trouble(node: Object) -> DriverTrouble | None:
    return DRIVER_WORDS.get(_notes(node).get(DRIVER, ""))


def revision(node: Object, slot: int) -> int:
    """Which board is in a slot."""
    said = _notes(node).get(f"{BOARD}{slot}", "0")
    return int(said) if said.isdigit() else 0


def xids(trouble: Trouble) -> list[int]:
    """The Xids that are logged when it begins."""
    return [code for code, _ in LINES.get(trouble, ()) if code]


def need_reset(over: Troubles) -> bool:
    """Whether these are over only because the GPU was reset: what the driver counts has begun anew."""
    return any(xids(trouble) for trouble in over)


def kernel_lines(trouble: Trouble, bus: str, pid: int | None) -> list[str]:
    """What the driver writes when `trouble` begins on the GPU at `bus` ("0000:9d:00"), where `pid` works if anybody does."""
    said = []
    for code, text in LINES.get(trouble, ()):
        words = text.replace(PROGRAM, NOBODY if pid is None else PROGRAM.format(pid=pid))
        said.append(f"NVRM: Xid (PCI:{bus}): {code}, {words}" if code else f"NVRM: GPU {bus}.0: {words}")
    return said


def after_reboot(notes: dict[str, str]) -> dict[str, str | None]:
    """The annotations that a reboot changes, and what they become (None: they go)."""
    changes: dict[str, str | None] = {}
    for key, text in notes.items():
        if key != ALL and not key.startswith(ONE):
            continue
        left = {REBOOTED.get(trouble, trouble) for trouble in _words(text)} - {None}
        said = " ".join(sorted(str(trouble) for trouble in left))
        if said != text:
            changes[key] = said or None
    return changes
