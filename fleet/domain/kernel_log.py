"""Lines of the kernel log that NVIDIA's driver wrote, as faults.

Owns the shapes of these lines; must not judge them (`xid` does) nor read any file. Sources of the shapes: the driver's open
kernel modules (`kernel_rc.c`, `nv.c`) and the Fabric Manager guide for NVSwitches. No text raises, and the work per record is
bounded: what is beyond its first `MOST_LINE` characters is not looked at.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct, structs

from fleet.domain.gpus import Fault, FaultKind, normal_pci

MOST_LINE: Final = 4096  # the kernel cuts its records at about 1,000
MOST_TEXT: Final = 300
MOST_PREFIX: Final = 160
MOST_DISTINCT: Final = 8  # texts of one fault (same GPU, code, process) that are kept apart within one reading

_PCI: Final = r"(?P<pci>(?:[0-9a-f]{1,8}:)?[0-9a-f]{1,4}:[0-9a-f]{1,2}(?:\.[0-7])?)"
_FLAGS: Final = re.ASCII | re.IGNORECASE

_STARTS: Final = ("NVRM: ", "nvidia-nvswitch")
# What the kernel, the log daemon and dmesg put before a message: "<3>", "[ 12.3]", "4,12,99,-;", "Dec  1 02:58:14 n1 kernel:".
_PREFIX_ENDS: Final = (">", "]", ";", "kernel:")

_XID: Final = re.compile(r"NVRM: Xid \((?P<where>[^()]{1,80})\): (?P<code>\d{1,6})(?!\d)[,:]?\s?(?P<rest>.*)", re.ASCII)
_WHERE: Final = re.compile(rf"(?:PCI:)?{_PCI}(?: GPU-I:(?P<gi>\d{{1,3}}))?(?: GPU-CI:(?P<ci>\d{{1,3}}))?", _FLAGS)
_PID: Final = re.compile(r"pid=(\d{1,10})(?!\d)", re.ASCII)
_CAUSE: Final = re.compile(r"caused by previous Xid (\d{1,6})\s*$", re.ASCII)
_RECOVERY: Final = re.compile(
    r"GPU recovery action changed from 0x([0-9a-f]{1,8})\b[^()]{0,4}\([^()]{0,60}\) to 0x([0-9a-f]{1,8})\b", _FLAGS
)
_NVLINK5: Final = re.compile(
    r"(?P<severity>Fatal|Non-?fatal)\s+XC\d\s+i\d\s+Link\s+(?P<link>-?\d{1,4})\s*\((?P<words>[^()]{1,200})\)", _FLAGS
)
_UNIT: Final = re.compile(r"[A-Za-z]\w{0,31}(?:/\w{1,32})?(?: [A-Za-z]\w{0,15})?", re.ASCII)
_NVLINK: Final = re.compile(
    r"NVLink: (?P<severity>fatal|non-?fatal) error detected on link (?P<link>\d{1,4})\s*"
    r"(?:\((?P<words>[^()]{1,200})\))?",
    _FLAGS,
)
_WORD: Final = re.compile(r"0x([0-9a-f]{1,8})\b", _FLAGS)

_SXID: Final = re.compile(
    r"nvidia-nvswitch\d{1,3}: SXid \((?P<where>[^()]{1,80})\): (?P<code>\d{1,6})(?!\d),?\s?(?P<rest>.*)", re.ASCII
)
_SXID_SEVERITY: Final = re.compile(r"(?P<severity>Fatal|Non-?fatal)\b", _FLAGS)
_SXID_LINK: Final = re.compile(r"\bLink (\d{1,4})\b", re.ASCII)
_SXID_CONTINUES: Final = re.compile(r"Data \{|Severity \d", re.ASCII)

_IDENTITY: Final = re.compile(rf"NVRM: GPU at (?:PCI:)?{_PCI}: (?P<uuid>GPU-[0-9a-f-]{{36}})", _FLAGS)
_OFF_BUS: Final = re.compile(rf"NVRM: GPU (?:at )?(?:PCI:)?{_PCI}: GPU has fallen off the bus", _FLAGS)
_NAMED: Final = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}", _FLAGS)
_SILENT: Final = "fallen off the bus and is not responding"
_SILENT_LINES: Final = 2  # that follow the one which names the GPU
_MISMATCH: Final = "NVRM: API mismatch:"
_KERNEL_HAS: Final = "this kernel module has"  # its second line


def printable(text: str) -> str:
    """The text without anything that a terminal or a page could take for more than characters, at most 300 of them."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:MOST_TEXT]
    )


def line_faults(lines: Iterable[tuple[int, float, str]]) -> list[Fault]:
    """The faults of one stretch of a kernel log, each record as (sequence, seconds since 1970, text). See `KernelLog`."""
    return KernelLog().faults(lines)


class KernelLog:
    """What has to be remembered from one record to the next: the UUIDs that the driver named, and a sentence half said.

    The driver names a GPU's UUID once, before its first fault since boot: who reads a log in stretches keeps one of these.
    """

    def __init__(self) -> None:
        self._uuids: dict[str, str] = {}
        self._half = _Half()

    def faults(self, lines: Iterable[tuple[int, float, str]]) -> list[Fault]:
        """The faults of the next records, oldest first.

        The same again within these records raises `repeated` of the first; more than `MOST_DISTINCT` texts of one fault count
        as repeats of the last. Changes of the recovery action (Xid 154) keep their order, for the last one counts.
        """
        stretch = _Stretch()
        for sequence, at, record in lines:
            for message in _messages(record):
                if message.startswith(f"NVRM: {_KERNEL_HAS}"):
                    stretch.complete_mismatch(message)
                elif found := self._read(message):
                    stretch.add(Fault(at=at, sequence=sequence, **found))
        return stretch.faults

    def _read(self, message: str) -> dict[str, Any] | None:
        """The fields of the fault that one message is."""
        found = _xid(message) or _sxid(message) or self._off_bus(message) or _mismatch(message)
        if found is None:
            self._identify(message)
            return None
        found.setdefault("text", printable(message))
        return found | {"uuid": self._uuids.get(found.get("pci", ""), "")}

    def _identify(self, message: str) -> None:
        match = _IDENTITY.match(message)
        if match:
            self._uuids[normal_pci(match["pci"])] = match["uuid"]

    def _off_bus(self, message: str) -> dict[str, Any] | None:
        """A GPU that is gone, said without an Xid: in one line, or in up to three of which the first names the GPU."""
        if match := _OFF_BUS.match(message):
            return {"kind": FaultKind.OFF_BUS, "pci": normal_pci(match["pci"])}
        self._half = self._half.then(message)
        if _SILENT not in self._half.text:
            return None
        said, self._half = self._half, _Half()
        return {"kind": FaultKind.OFF_BUS, "pci": said.pci, "text": printable(said.text)}


class _Half(Struct, frozen=True):
    """A sentence of several lines that has begun."""

    pci: str = ""
    text: str = ""
    lines: int = 0  # that may still belong to it

    def then(self, message: str) -> "_Half":
        """With one more line; a new one where the line begins one, or where nothing was begun."""
        if match := _NAMED.match(message):
            return _Half(normal_pci(match["pci"]), message, _SILENT_LINES)
        if not self.lines:
            return _Half(text=message)
        return _Half(self.pci, f"{self.text} {message.removeprefix('NVRM: ')}", self.lines - 1)


class _Stretch:
    """The faults of one call, repeats counted."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._places: dict[Fault, list[int]] = {}
        self._recovery: dict[str, tuple[int, int]] = {}

    def add(self, fault: Fault) -> None:
        bare = structs.replace(fault, at=0.0, sequence=None, text="")
        if fault.recovery is not None and self._recovery.get(fault.pci) != fault.recovery:
            self._recovery[fault.pci] = fault.recovery
            self._places.pop(bare, None)  # said before, but something else since
        places = self._places.setdefault(bare, [])
        same = next((place for place in places if _says_again(self.faults[place], fault)), None)
        if same is None and len(places) < MOST_DISTINCT:
            places.append(len(self.faults))
            self.faults.append(fault)
        else:
            place = places[-1] if same is None else same
            self.faults[place] = structs.replace(self.faults[place], repeated=self.faults[place].repeated + 1)

    def complete_mismatch(self, message: str) -> None:
        """Adds its second line to the mismatch that came last."""
        last = self.faults[-1] if self.faults else None
        if last is not None and last.kind is FaultKind.MISMATCH and _KERNEL_HAS not in last.text:
            self.faults[-1] = structs.replace(last, text=printable(f"{last.text} {message.removeprefix('NVRM: ')}"))


def _says_again(earlier: Fault, later: Fault) -> bool:
    if later.kind is FaultKind.MISMATCH:  # whose second line is still to come
        return earlier.text.startswith(later.text)
    return earlier.text == later.text


def _messages(record: str) -> Iterator[str]:
    r"""The driver's messages in a record, without what stands before them. /dev/kmsg writes a line feed as "\x0a"."""
    for line in record[:MOST_LINE].replace("\\x0a", "\n").split("\n"):
        for start in _STARTS:
            prefix, found, rest = line.partition(start)
            if found and _is_prefix(prefix):
                yield start + rest
                break


def _is_prefix(text: str) -> bool:
    """Whether it is one that the kernel, a log daemon or dmesg wrote; else the driver is only quoted."""
    return len(text) <= MOST_PREFIX and (not text.strip() or text.rstrip().endswith(_PREFIX_ENDS))


def _place(where: str) -> dict[str, Any]:
    match = _WHERE.fullmatch(where)
    if match is None:
        return {}
    parts = {"pci": normal_pci(match["pci"])}
    return parts | {part: int(match[part]) for part in ("gi", "ci") if match[part]}


def _xid(message: str) -> dict[str, Any] | None:
    match = _XID.match(message)
    if match is None:
        return None
    code, rest = int(match["code"]), match["rest"]
    found = {"kind": FaultKind.XID, "code": code, **_place(match["where"]), **_detail(code, rest)}
    if pid := _PID.match(rest):
        found["pid"] = int(pid[1])
    if cause := _CAUSE.search(rest[-80:]):
        found["caused_by"] = int(cause[1])
    return found


def _detail(code: int, rest: str) -> dict[str, Any]:
    """What only some codes say. A process's name may hold anything, so none of it is found by counting commas."""
    if code == 154:
        changes = _RECOVERY.findall(rest)
        return {"recovery": (int(changes[-1][0], 16), int(changes[-1][1], 16))} if changes else {}
    if code == 74:
        return _link(_NVLINK.search(rest))
    if 144 <= code <= 150:
        match = _NVLINK5.search(rest)
        return _link(match) | ({"unit": _unit(rest[: match.start()])} if match else {})
    return {}


def _link(match: re.Match[str] | None) -> dict[str, Any]:
    if match is None:
        return {}
    link = int(match["link"])
    return {
        "fatal": _is_fatal(match),
        "link": link if link >= 0 else None,
        "words": tuple(int(word, 16) for word in _WORD.findall(match["words"] or "")),
    }


def _is_fatal(match: re.Match[str]) -> bool:
    return match["severity"].lower() == "fatal"


def _unit(before: str) -> str:
    match = _UNIT.fullmatch(before.rpartition(", ")[2].strip())
    return match[0] if match else ""


def _sxid(message: str) -> dict[str, Any] | None:
    """An NVSwitch's error. The lines of raw data that follow it are no errors of their own."""
    match = _SXID.match(message)
    if match is None or _SXID_CONTINUES.match(match["rest"]):
        return None
    found = {"kind": FaultKind.SXID, "code": int(match["code"]), **_place(match["where"])}
    if severity := _SXID_SEVERITY.match(match["rest"]):
        found["fatal"] = _is_fatal(severity)
    if link := _SXID_LINK.search(match["rest"]):
        found["link"] = int(link[1])
    return found


def _mismatch(message: str) -> dict[str, Any] | None:
    return {"kind": FaultKind.MISMATCH} if message.startswith(_MISMATCH) else None
