"""What a driver's fault means for a GPU: its state, what to do, and who says so.

Owns the verdict of one fault on its own, and a site's overrides of it. Must not remember anything: which findings are open, what
closes them and which of several counts is for `health`. The shapes of log lines are in `kernel_log`, NVIDIA's facts in
`xid_catalogue` and `nvlink`.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain import nvlink
from fleet.domain.gpus import DeviceState, Fault, FaultKind, GpuAction
from fleet.domain.kernel_log import KernelLog, line_faults
from fleet.domain.xid_catalogue import ENTRIES, SOURCE, Bucket, Entry, Family

__all__ = ["NVIDIA", "Catalogue", "Classed", "KernelLog", "Scope", "catalogue", "classify", "line_faults", "recovery"]

RECOVERY_FIELD: Final = "recovery-action"  # the rule of a finding from NVML's field 230
RECOVERY_RULES: Final = ("xid-154", RECOVERY_FIELD)
SWITCH_SOURCE: Final = "NVIDIA Fabric Manager guide"
DRIVER_SOURCE: Final = "NVIDIA driver"
SITE_SOURCE: Final = "this site"


class Scope(StrEnum):
    """How far a verdict reaches."""

    INSTANCE = "instance"  # the MIG instance that the fault names, and no other
    GPU = "gpu"
    NODE = "node"  # the line does not say which GPU of the node
    DOMAIN = "domain"  # the NVLink domain


class Classed(Struct, frozen=True, kw_only=True):
    """The verdict of one fault."""

    rule: str  # "xid-79", "sxid-20034", "off-bus", "api-mismatch"
    subject: str
    state: DeviceState
    action: GpuAction
    # Opens a finding that stays until a reset, a reboot, a replacement or a clear. Else it is an event, over as soon as said.
    standing: bool = False
    soft: bool = False  # a reset at the next convenience; work may go on until then
    scope: Scope = Scope.GPU
    known: bool = True  # False: "unclassified"; to be shown, never to be acted upon
    immediate: str = ""  # NVIDIA's buckets
    investigate: str = ""
    source: str = SOURCE
    clears: tuple[str, ...] = ()  # rules whose open findings on this GPU are over with it


class Override(Struct, frozen=True):
    """What a site says about an Xid instead of NVIDIA."""

    state: DeviceState
    action: GpuAction


class Catalogue(Struct, frozen=True):
    """NVIDIA's rows and the site's overrides, by code."""

    entries: Mapping[int, Entry]
    overrides: Mapping[int, Override]


NVIDIA: Final = Catalogue(ENTRIES, {})

_CODE: Final = re.compile(r"[1-9]\d{0,5}", re.ASCII)
_CARRIER: Final = 154
_FIELDS: Final = ("state", "action")
# "unknown" is no verdict about a fault that was reported.
_STATES: Final = tuple(state.value for state in DeviceState if state is not DeviceState.UNKNOWN)
_ACTIONS: Final = tuple(action.value for action in GpuAction)


def catalogue(overrides: Mapping[str, object]) -> Catalogue:
    """NVIDIA's catalogue with a site's own verdicts, as its TOML table has them: {"94": {"state": …, "action": …}}.

    Raises ValueError; the sentence names the key and what is allowed there.
    """
    return Catalogue(ENTRIES, {_code(key): _override(key, value) for key, value in overrides.items()})


def _code(key: str) -> int:
    if not _CODE.fullmatch(str(key)):
        raise ValueError(f'{key!r} is not an Xid; allowed: the number of one, such as "94"')
    if int(key) == _CARRIER:
        raise ValueError('"154" cannot be overridden: its text says what to do; allowed: any other Xid')
    return int(key)


def _override(key: str, value: object) -> Override:
    if not isinstance(value, Mapping):
        raise ValueError(  # noqa: TRY004
            f'"{key}" has to be a table; allowed: {", ".join(_FIELDS)}'
        )
    for field in value:
        if field not in _FIELDS:
            raise ValueError(f'"{key}": {field!r} is not known; allowed: {", ".join(_FIELDS)}')
    state = _chosen(key, "state", value.get("state"), _STATES)
    return Override(DeviceState(state), GpuAction(_chosen(key, "action", value.get("action"), _ACTIONS)))


def _chosen(key: str, field: str, value: object, allowed: Iterable[str]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    fault = "is missing" if value is None else f"cannot be {value!r}"
    raise ValueError(f'"{key}": {field} {fault}; allowed: {", ".join(allowed)}')


_STATE_OF: Final[Mapping[Family, DeviceState]] = {
    Family.APP: DeviceState.APP_FAULT,
    Family.MONITOR: DeviceState.OK,
    Family.SYMPTOM: DeviceState.OK,
    Family.SOFTWARE: DeviceState.OK,
    Family.REMAP: DeviceState.OK,
    Family.RESET: DeviceState.RESET_REQUIRED,
    Family.REBOOT: DeviceState.REBOOT_REQUIRED,
    Family.LOST: DeviceState.LOST,
    Family.HARDWARE: DeviceState.HARDWARE_SERVICE,
}
_ACTION_OF: Final[Mapping[Bucket, GpuAction]] = {
    Bucket.IGNORE: GpuAction.MONITOR,
    Bucket.RESTART_APP: GpuAction.RESTART_APP,
    Bucket.RESET_GPU: GpuAction.RESET_GPU,
    Bucket.RESTART_BM: GpuAction.REBOOT_NODE,
    Bucket.RESTART_VM: GpuAction.REBOOT_NODE,
    Bucket.CONTACT_SUPPORT: GpuAction.CONTACT_SUPPORT,
    Bucket.CHECK_MECHANICALS: GpuAction.CONTACT_SUPPORT,
    Bucket.UPDATE_SWFW: GpuAction.MONITOR,
    Bucket.CHECK_UVM: GpuAction.MONITOR,
    Bucket.XID_45: GpuAction.MONITOR,
    Bucket.XID_48: GpuAction.RESET_GPU,
    Bucket.XID_154_EVAL: GpuAction.RESTART_APP,
}
_DECODED_FAMILY: Final[Mapping[Bucket, Family]] = {
    Bucket.IGNORE: Family.MONITOR,
    Bucket.XID_154_EVAL: Family.APP,
    Bucket.RESET_GPU: Family.RESET,
}
_PASSING: Final = (DeviceState.OK, DeviceState.APP_FAULT)

_RECOVERY: Final[Mapping[int, tuple[DeviceState, GpuAction]]] = {
    0: (DeviceState.OK, GpuAction.NONE),
    1: (DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
    2: (DeviceState.REBOOT_REQUIRED, GpuAction.REBOOT_NODE),
    3: (DeviceState.DEGRADED, GpuAction.DRAIN_PEERS),
    4: (DeviceState.RESET_REQUIRED, GpuAction.DRAIN_AND_RESET),
    5: (DeviceState.OK, GpuAction.RECOVER_IMEX),
    6: (DeviceState.RESET_REQUIRED, GpuAction.RESET_BUS),
    7: (DeviceState.REBOOT_REQUIRED, GpuAction.REBOOT_NODE),
}


def recovery(code: int) -> tuple[DeviceState, GpuAction]:
    """State and action for a recovery action as the driver numbers it, in NVML's field 230 and in Xid 154.

    3 asks for the jobs of its NVLink peers to go: the GPU is not broken, but no new work should come to it. 5 is about the NVLink
    domain and says nothing against this GPU. A number that we do not know is unknown and a case for support, never none.
    """
    return _RECOVERY.get(code, (DeviceState.UNKNOWN, GpuAction.CONTACT_SUPPORT))


def classify(fault: Fault, catalogue: Catalogue = NVIDIA) -> Classed:
    """The verdict of one fault by itself; the caller takes the most severe of several.

    Xid 79 and its forms without an Xid are "lost", not "reboot-required": the GPU is away from the bus, which is what a page has
    to say, and a reboot is the action. An Xid 154 replaces the one before it on its GPU, and one to 0 (none) clears what 154 and
    field 230 said, nothing else. A code that nobody listed is shown and watched.
    """
    if fault.kind is FaultKind.SXID:
        return _switch(fault)
    if fault.kind is FaultKind.OFF_BUS:
        return _off_bus(fault)
    if fault.kind is FaultKind.MISMATCH:
        return Classed(
            rule="api-mismatch",
            subject="a program's driver library does not match the kernel module",
            state=DeviceState.OK,
            action=GpuAction.MONITOR,
            scope=Scope.NODE,
            source=DRIVER_SOURCE,
        )
    return _xid(fault, catalogue)


def _xid(fault: Fault, catalogue: Catalogue) -> Classed:
    entry = catalogue.entries.get(fault.code or 0)
    override = catalogue.overrides.get(fault.code or 0)
    if override is not None:
        return _overridden(fault, entry, override)
    if entry is None:
        return _unclassified(fault)
    if entry.family is Family.CARRIER:
        return _carried(fault, entry)
    if entry.family is Family.DECODE:
        entry = _decoded(fault, entry)
    return _by_entry(fault, entry)


def _by_entry(fault: Fault, entry: Entry) -> Classed:
    state = _STATE_OF[entry.family]
    soft = entry.family is Family.REMAP
    return Classed(
        rule=f"xid-{fault.code}",
        subject=entry.subject,
        state=state,
        action=_ACTION_OF[entry.immediate],
        standing=soft or state not in _PASSING,
        soft=soft,
        scope=_scope(fault, state),
        immediate=entry.immediate,
        investigate=entry.investigate,
    )


def _scope(fault: Fault, state: DeviceState) -> Scope:
    """Only an application's fault stays within its MIG instance: all instances share the GPU that has to be reset."""
    if not fault.pci and not fault.uuid:
        return Scope.NODE
    return Scope.INSTANCE if fault.gi is not None and state is DeviceState.APP_FAULT else Scope.GPU


def _overridden(fault: Fault, entry: Entry | None, override: Override) -> Classed:
    return Classed(
        rule=f"xid-{fault.code}",
        subject=entry.subject if entry else "unclassified",
        state=override.state,
        action=override.action,
        standing=override.state not in _PASSING,
        scope=_scope(fault, override.state),
        immediate=entry.immediate if entry else "",
        investigate=entry.investigate if entry else "",
        source=SITE_SOURCE,
    )


def _unclassified(fault: Fault) -> Classed:
    return Classed(
        rule="xid" if fault.code is None else f"xid-{fault.code}",
        subject="unclassified",
        state=DeviceState.OK,
        action=GpuAction.MONITOR,
        scope=_scope(fault, DeviceState.OK),
        known=False,
    )


def _decoded(fault: Fault, entry: Entry) -> Entry:
    """The row with what its registers say in place of "decode".

    Without registers (an exporter gives the number alone) or with some that NVIDIA does not list, the line's own word counts: a
    fatal error wants a reset. Without that word an Xid 74 does as well, as all sources say; one of NVLink 5 is watched, for where
    something has to be done an Xid 154 says so.
    """
    if fault.code == 74:
        decoded: nvlink.Decoded | None = nvlink.decode_74(fault.words)
    else:
        decoded = nvlink.decode(fault.code or 0, fault.words, fatal=fault.fatal)
    if decoded is None:
        immediate = Bucket.RESET_GPU if fault.fatal else Bucket.IGNORE
        return Entry(entry.subject, immediate, entry.investigate, _DECODED_FAMILY[immediate])
    subject = f"{entry.subject}: {decoded.unit}" if decoded.unit else entry.subject
    return Entry(subject, decoded.immediate, decoded.investigate, _DECODED_FAMILY[decoded.immediate])


def _carried(fault: Fault, entry: Entry) -> Classed:
    """Xid 154. Where its text cannot be read (an exporter gives the number alone) it is an event: another fault has the cause."""
    state, action = recovery(fault.recovery[1]) if fault.recovery else (DeviceState.OK, GpuAction.MONITOR)
    return Classed(
        rule="xid-154",
        subject=entry.subject,
        state=state,
        action=action,
        standing=action not in (GpuAction.NONE, GpuAction.MONITOR),
        scope=Scope.DOMAIN if action is GpuAction.RECOVER_IMEX else _scope(fault, state),
        immediate=entry.immediate,
        investigate=entry.investigate,
        clears=RECOVERY_RULES if action is GpuAction.NONE else (),
    )


def _off_bus(fault: Fault) -> Classed:
    return Classed(
        rule="off-bus",
        subject="fallen off the bus",
        state=DeviceState.LOST,
        action=GpuAction.REBOOT_NODE,
        standing=True,
        scope=_scope(fault, DeviceState.LOST),
        source=DRIVER_SOURCE,
    )


def _switch(fault: Fault) -> Classed:
    """An NVSwitch's error. A fatal one is over when all GPUs behind it were reset together; which they are it does not say."""
    return Classed(
        rule=f"sxid-{fault.code}",
        subject="fatal NVSwitch error" if fault.fatal else "NVSwitch error",
        state=DeviceState.RESET_REQUIRED if fault.fatal else DeviceState.OK,
        action=GpuAction.DRAIN_AND_RESET if fault.fatal else GpuAction.MONITOR,
        standing=fault.fatal is True,
        scope=Scope.NODE,
        source=SWITCH_SOURCE,
    )
