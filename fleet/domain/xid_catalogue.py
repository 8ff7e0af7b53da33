"""NVIDIA's Xid codes as data: what a code is about, which of NVIDIA's buckets it is in, and what others make of it.

Owns facts alone, each with its source; must not judge a fault (`xid` does) and knows nothing of sites. Source: NVIDIA's
"Analyzing Xid Errors with the Xid Catalog", for Ampere and newer; the subjects are our own words for NVIDIA's. Codes that NVIDIA
marks as unused on these GPUs are left out, but for 61, and so are those that it lists without a bucket (162 to 172).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

SOURCE: Final = "NVIDIA Xid catalogue"


class Bucket(StrEnum):
    """What NVIDIA says to do at once, in its words."""

    IGNORE = "IGNORE"
    RESTART_APP = "RESTART_APP"
    RESET_GPU = "RESET_GPU"
    RESTART_BM = "RESTART_BM"
    RESTART_VM = "RESTART_VM"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"
    CHECK_MECHANICALS = "CHECK_MECHANICALS"
    UPDATE_SWFW = "UPDATE_SWFW"
    CHECK_UVM = "CHECK_UVM"  # reset if unified memory or vGPU is in use, else ignore
    XID_45 = "WORKFLOW_XID_45"  # follow the other Xid; alone: restart the Fabric Manager
    XID_48 = "WORKFLOW_XID_48"  # reset; with 63 or 64: drain and reset
    NVLINK = "WORKFLOW_NVLINK_ERR"  # decode the registers of the line
    NVLINK5 = "WORKFLOW_NVLINK5_ERR"  # the same since NVLink 5, by another table
    XID_154 = "XID_154"  # do what its text says
    XID_154_EVAL = "XID_154_EVAL"  # an Xid 154 says what to do; without one, restart the application


class Family(StrEnum):
    """What kind of trouble a code is, in our words."""

    APP = "app"
    MONITOR = "monitor"
    SYMPTOM = "symptom"  # of another Xid
    SOFTWARE = "software"
    REMAP = "remap"  # a memory row is replaced at the next reset
    RESET = "reset"
    REBOOT = "reboot"
    LOST = "lost"
    HARDWARE = "hardware"
    DECODE = "decode"  # the line's registers decide
    CARRIER = "carrier"  # the line's text decides


class Entry(Struct, frozen=True):
    """One row of the catalogue."""

    subject: str
    immediate: Bucket
    investigate: str  # NVIDIA's word for what to look into when it comes again; "" where there is none
    family: Family


SUPPORT: Final = "CONTACT_SUPPORT"
SYMPATHETIC: Final = "IGNORE (sympathetic)"  # expected next to another one


def _app(subject: str, investigate: str = SUPPORT) -> Entry:
    return Entry(subject, Bucket.RESTART_APP, investigate, Family.APP)


def _watch(subject: str, investigate: str = SUPPORT) -> Entry:
    return Entry(subject, Bucket.IGNORE, investigate, Family.MONITOR)


def _reset(subject: str, investigate: str = SUPPORT) -> Entry:
    return Entry(subject, Bucket.RESET_GPU, investigate, Family.RESET)


def _broken(subject: str, immediate: Bucket = Bucket.CONTACT_SUPPORT, investigate: str = "") -> Entry:
    return Entry(subject, immediate, investigate, Family.HARDWARE)


def _nvlink5(unit: str) -> Entry:
    return Entry(f"NVLink 5 error in {unit}", Bucket.NVLINK5, Bucket.NVLINK5, Family.DECODE)


# Exceptions of one engine of several, by the engine's number. All stop the application that used it and nothing else.
_COPY_ENGINES: Final = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_DECODERS: Final = (68, 83, 84, 88, 89, 96, 97, 98)
_JPEG_DECODERS: Final = (82, *range(99, 106))

ENTRIES: Final[dict[int, Entry]] = {
    8: _app("GPU stopped processing"),
    11: _app("bad push buffer", "CHECK_APP/CUDA"),
    13: _app("graphics engine exception", "WORKFLOW_XID_13"),
    14: _watch("fake or injected error"),
    25: _app("illegal push buffer", "CHECK_APP/CUDA"),
    31: _app("memory page fault", "WORKFLOW_XID_31"),
    32: _app("bad push buffer stream", "CHECK_APP/CUDA"),
    37: _watch("driver firmware error", "CHECK_APP/CUDA"),
    38: _watch("driver firmware error"),
    43: _watch("channel stopped, usually by the application's own fault"),
    44: _watch("graphics engine fault during a context switch"),
    45: Entry("channel removed after an earlier error", Bucket.XID_45, "alone: RESTART_FM", Family.SYMPTOM),
    46: _reset("GPU stopped processing"),
    48: Entry("double-bit memory error", Bucket.XID_48, Bucket.XID_48, Family.RESET),
    54: _broken("auxiliary power is not connected", Bucket.CHECK_MECHANICALS, SUPPORT),
    60: _app("video processor exception", "INVESTIGATE_SW"),
    61: _broken("breakpoint in the power micro-controller, unused on current parts"),
    62: _reset("micro-controller halted"),
    63: Entry("memory row remapping recorded", Bucket.IGNORE, "IGNORE", Family.REMAP),
    64: _reset("memory row remapping failed"),
    66: _watch("illegal access by the driver", "INVESTIGATE_SW"),
    67: _watch("illegal access by the driver"),
    69: _app("graphics class error", "CHECK_APP/CUDA"),
    74: Entry("NVLink error", Bucket.NVLINK, SUPPORT, Family.DECODE),
    78: Entry("vGPU did not start", Bucket.UPDATE_SWFW, Bucket.UPDATE_SWFW, Family.SOFTWARE),
    79: Entry("fallen off the bus", Bucket.RESTART_BM, SUPPORT, Family.LOST),
    80: _app("corrupted data sent to the GPU", "CHECK_APP/CUDA"),
    86: _app("optical flow engine exception"),
    92: _watch("high rate of single-bit memory errors"),
    93: _watch("limit of InfoROM writes reached"),
    94: _app("contained memory error", SYMPATHETIC),
    95: _reset("uncontained memory error", SYMPATHETIC),
    106: _watch("test message of the board's management bus", "IGNORE"),
    107: _watch("silent test message of the board's management bus", "IGNORE"),
    108: _watch("remote NVLink translation error", "XID_137_FLOW"),
    109: _reset("context switch timed out"),
    110: _reset("security fault", "INVESTIGATE_SW"),
    119: _reset("GPU system processor did not answer in time", "INVESTIGATE_SW"),
    120: _reset("GPU system processor error", "INVESTIGATE_SW"),
    121: _watch("corrected errors on the link to the CPU"),
    136: _reset("NVLink training failed", "INVESTIGATE_LINK_SI"),
    137: Entry("illegal access over NVLink", Bucket.IGNORE, "XID_137_FLOW", Family.APP),
    139: _app("optical flow engine 1 exception"),
    140: _reset("uncorrectable memory error that could not be handled"),
    141: _watch("CUDA fast path error"),
    142: _broken("video encoder 3 error"),
    143: _reset("GPU did not initialise"),
    144: _nvlink5("SAW"),
    145: _nvlink5("RLW"),
    146: _nvlink5("TLW"),
    147: _nvlink5("TREX"),
    148: _nvlink5("NVLPW"),
    149: _nvlink5("NETIR"),
    150: _nvlink5("MSE"),
    151: Entry("key rotation error", Bucket.RESTART_VM, SUPPORT, Family.REBOOT),
    152: _watch("deep-learning accelerator: memory management error"),
    153: _watch("deep-learning accelerator: timeout"),
    154: Entry("recovery action changed", Bucket.XID_154, "about another Xid", Family.CARRIER),
    155: _reset("NVLink taken down by software", "INVESTIGATE_SW_USER"),
    156: _reset("memory resource retired", "IGNORE"),
    157: _watch("no spare left to retire a memory resource"),
    158: _reset("fatal timeout"),
    159: Entry("error on the coherent link", Bucket.CHECK_UVM, "report if alone", Family.SOFTWARE),
    160: _watch("memory channel retired", "INVESTIGATE_SW"),
    161: _watch("memory channel could not be retired", "INVESTIGATE_SW"),
    **{code: _app(f"copy engine {number} exception") for number, code in enumerate(_COPY_ENGINES)},
    **{code: _app(f"video decoder {number} exception") for number, code in enumerate(_VIDEO_DECODERS)},
    **{code: _app(f"JPEG decoder {number} exception") for number, code in enumerate(_JPEG_DECODERS)},
}

# Sources disagree, so a site may override a verdict, and the help shows who says what. "": says nothing. The device plugin's
# and GCM's words follow from their rule (everything outside a list), all others from a row of their own.
AUTHORITIES: Final = ("NVIDIA", "gpud", "NVIDIA device plugin", "EKS", "GKE", "Azure NHC", "imbue", "GCM")
OPINIONS: Final[dict[int, tuple[str, ...]]] = {
    63: ("ignore", "reboot", "unhealthy", "replace", "critical", "fail", "hardware", "not critical"),
    68: ("restart app", "reboot", "skipped", "event", "", "fail", "hardware", "not critical"),
    69: ("restart app", "reboot", "unhealthy", "event", "", "fail", "hardware", "critical"),
    74: ("workflow", "reboot", "unhealthy", "fatal", "", "fail", "hardware", "critical"),
    92: ("ignore", "ignore", "unhealthy", "event", "", "fail", "hardware", "not critical"),
    94: ("restart app", "fatal after 1000", "unhealthy", "event", "", "", "hardware", "critical"),
    109: ("reset GPU", "no action", "skipped", "fatal", "", "", "", "not critical"),
    119: ("reset GPU", "reboot", "unhealthy", "fatal", "critical", "fail", "hardware", "critical"),
    121: ("ignore", "fatal", "unhealthy", "event", "", "", "", "critical"),
    136: ("reset GPU", "no action", "unhealthy", "fatal", "", "", "", "critical"),
    143: ("reset GPU", "inspect hardware", "unhealthy", "fatal", "", "", "", "critical"),
}


def opinions(code: int) -> dict[str, str]:
    """What each source that says something makes of an Xid: {"GKE": "critical", …}; empty where they are not known to differ."""
    return {who: says for who, says in zip(AUTHORITIES, OPINIONS.get(code, ()), strict=False) if says}
