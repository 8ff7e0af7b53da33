"""The registers of an NVLink error line, decoded into one of NVIDIA's buckets.

Owns NVIDIA's two tables: of Xid 144 to 150 (NVLink 5) and of Xid 74 (before it). Must not know faults, GPUs or sites. Source: the
sheets "Xid 144-150 Decode" and "WORKFLOW_NVLINK_ERR" of the same catalogue as `xid_catalogue`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from fleet.domain.xid_catalogue import SUPPORT, SYMPATHETIC, Bucket


class Decoded(Struct, frozen=True):
    """What the registers say."""

    unit: str  # NVIDIA's name; "" for Xid 74
    sub_code: int  # of a link that went down: why
    immediate: Bucket
    investigate: str


class _Unit(Struct, frozen=True):
    """Where an NVLink 5 error came from, and how the line's first word names it.

    Drivers before R575 name it in bits 0 to 9 (`old`), where the two halves of a pipe have one name; later ones in bits 0 to 6
    (`new`). No word of one Xid means two other units.
    """

    xid: int
    name: str
    old: int
    new: int

    def named_by(self, word: int) -> bool:
        return word & 0x3FF == self.old or word & 0x7F == self.new


_UNITS: Final = (
    _Unit(144, "SAW_MVB", 0x021, 1),
    _Unit(145, "RLW_CTRL", 0x062, 3),
    _Unit(145, "RLW_REMAP", 0x082, 4),
    _Unit(145, "RLW_RSPCOL", 0x0A2, 5),
    _Unit(145, "RLW_RXPIPE", 0x0C2, 6),
    _Unit(145, "RLW_SRC_TRACK", 0x0E2, 7),
    _Unit(145, "RLW_TAGSTATE", 0x102, 8),
    _Unit(146, "TLW_CTRL", 0x123, 9),
    _Unit(146, "TLW_RX_PIPE0", 0x143, 10),
    _Unit(146, "TLW_RX_PIPE1", 0x143, 11),
    _Unit(146, "TLW_TX_PIPE0", 0x163, 12),
    _Unit(146, "TLW_TX_PIPE1", 0x163, 13),
    _Unit(147, "TREX", 0x184, 14),
    _Unit(148, "NVLPW", 0x005, 15),
    _Unit(149, "NETIR_INT", 0x006, 24),
    _Unit(149, "NETIR_LINK_DOWN", 0x1C6, 17),
    _Unit(149, "NETIR_BER_EVENT", 0x226, 19),
    _Unit(149, "NETIR_MFDE_EVENT", 0x246, 20),
    _Unit(150, "MSE", 0x000, 0),
)

_Rule = tuple[Bucket, str]
_NOTHING: Final[_Rule] = (Bucket.IGNORE, "IGNORE")
_WATCH: Final[_Rule] = (Bucket.IGNORE, SUPPORT)
_RESET: Final[_Rule] = (Bucket.RESET_GPU, SUPPORT)
_FOLLOW: Final[_Rule] = (Bucket.XID_154_EVAL, SUPPORT)
_CHECK: Final[_Rule] = (Bucket.XID_154_EVAL, "CHECK_NVLINK_FAILURE_FLOW")
_FOLLOW_ONLY: Final[_Rule] = (Bucket.XID_154_EVAL, "IGNORE")
_CABLES: Final[_Rule] = (Bucket.IGNORE, "INVESTIGATE_LINK_SI_AND_CABLES")
_SOFTWARE: Final = 1 << 31  # the bit of a register that software raised, not hardware


def _rows(*rules: tuple[Iterable[int], _Rule]) -> dict[int, _Rule]:
    return {status: rule for statuses, rule in rules for status in statuses}


_TLW_PIPE: Final = _rows(((1,), _NOTHING), ((2, _SOFTWARE), _WATCH), ((4,), _RESET))

# Unit → second word of the line → bucket. One bit each, but for the two NETIR events, whose words are numbers.
_STATUSES: Final[Mapping[str, Mapping[int, _Rule]]] = {
    "SAW_MVB": _rows(((1, 8), _WATCH), ((2, 0x10), _RESET), ((4, 0x20), _NOTHING)),
    "RLW_CTRL": _rows(((_SOFTWARE,), _WATCH)),
    "RLW_REMAP": _rows(
        ((1, 2), _FOLLOW),
        ((4, 8, 0x10, 0x20), _CHECK),
        ((0x40, 0x80), _RESET),
        ((0x100, 0x200), _NOTHING),
        ((_SOFTWARE,), _WATCH),
    ),
    "RLW_RSPCOL": _rows(((1,), _NOTHING), ((2,), _RESET), ((_SOFTWARE,), _WATCH)),
    "RLW_RXPIPE": _rows(((1, 2, 4, 8, _SOFTWARE), _WATCH)),
    "RLW_SRC_TRACK": _rows(((1, 0x10, 0x20), _RESET), ((2,), _NOTHING), ((4, 8), _FOLLOW_ONLY), ((_SOFTWARE,), _WATCH)),
    "RLW_TAGSTATE": _rows(((1, 0x10000), _NOTHING), ((2, 0x20000, 0x100000), _RESET), ((_SOFTWARE,), _WATCH)),
    "TLW_CTRL": _TLW_PIPE,
    "TLW_RX_PIPE0": _TLW_PIPE,
    "TLW_RX_PIPE1": _TLW_PIPE,
    "TLW_TX_PIPE0": _TLW_PIPE,
    "TLW_TX_PIPE1": _TLW_PIPE,
    "TREX": _rows(((1, _SOFTWARE), _WATCH)),
    "NVLPW": _rows(((_SOFTWARE,), _WATCH)),
    "NETIR_BER_EVENT": _rows(((0, 1, 2, 3), _CABLES)),
    "NETIR_MFDE_EVENT": _rows(((1, 4, 5, 7), _RESET), ((3,), _NOTHING)),
}
_WHOLE_NUMBERS: Final = frozenset({"NETIR_BER_EVENT", "NETIR_MFDE_EVENT"})

# Why a link went down (bits 20 to 25 of the first word) → what to look into. All want a reset, but for the two in _LINK_IGNORED.
_LINK_DOWN: Final[Mapping[int, str]] = {
    0: SYMPATHETIC,
    1: "REPORT_ISSUE (if seen >1 per day)",
    **dict.fromkeys((2, 4, 10), "INVESTIGATE_LINK_SI"),
    **dict.fromkeys((15, 17, 22, 38), "INVESTIGATE_SW_USER"),
    **dict.fromkeys((16, 18), "INVESTIGATE_SW_USER_LINK_SI"),
    **dict.fromkeys((21, 32, 33, 34, 35, 36, 37), "INVESTIGATE_PEER_DEVICE"),
    40: "INVESTIGATE_HOST",
    **dict.fromkeys((42, 43), "INVESTIGATE_LINK_SI_AND_CABLES"),
}
_LINK_IGNORED: Final = frozenset({38, 40})

_GRAVITY: Final = (Bucket.IGNORE, Bucket.XID_154_EVAL, Bucket.RESET_GPU)
# Errors of the receive pipe that the hardware may promote to fatal ones: these bits of the first word say that it did.
_PROMOTABLE: Final = 0b111
_PROMOTED_OLD: Final = 1 << 10
_PROMOTED_NEW: Final = 1 << 7


def decode(xid: int, words: Sequence[int], *, fatal: bool | None = None) -> Decoded | None:
    """The row of NVIDIA's table for an Xid of 144 to 150, or None where no row fits.

    `fatal` is what the line itself says; it matters only where NVIDIA says that an error can be promoted. A status of several
    bits is as grave as the gravest of them.
    """
    first, status = (*words[:2], 0, 0)[:2]
    sub_code = first >> 20 & 0x3F
    unit = next((unit for unit in _UNITS if unit.xid == xid and unit.named_by(first)), None) if words else None
    if unit is None:
        return None
    rule = _rule(unit.name, sub_code, status)
    if rule is not None and _promoted(unit, first, status, fatal=fatal):
        rule = _RESET
    return None if rule is None else Decoded(unit.name, sub_code, *rule)


def _rule(unit: str, sub_code: int, status: int) -> _Rule | None:
    if unit == "NETIR_LINK_DOWN":
        immediate = Bucket.IGNORE if sub_code in _LINK_IGNORED else Bucket.RESET_GPU
        return (immediate, _LINK_DOWN[sub_code]) if sub_code in _LINK_DOWN else None
    if sub_code:
        return None
    if unit == "NETIR_INT":
        return Bucket.RESET_GPU, SYMPATHETIC
    if unit == "MSE":
        return _RESET
    known = _STATUSES[unit]
    if unit in _WHOLE_NUMBERS:
        return known.get(status)
    return max((rule for bit, rule in known.items() if bit & status), key=_gravity, default=None)


def _gravity(rule: _Rule) -> int:
    return _GRAVITY.index(rule[0])


def _promoted(unit: _Unit, first: int, status: int, *, fatal: bool | None) -> bool:
    if unit.name != "RLW_RXPIPE" or not status & _PROMOTABLE:
        return False
    bit = _PROMOTED_NEW if first & 0x7F == unit.new else _PROMOTED_OLD
    return bool(first & bit) or fatal is True


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


# Xid 74, by the position of a register in the line. What is in none of them wants a report to NVIDIA, and a reset like the rest.
_HARMLESS: Final = {0: _bits(0, 23, 30), 4: _bits(20, 23, 26, 29)}
_SECONDARY: Final = {0: _bits(1, 20), 3: _bits(16, 17)}
_MECHANICAL: Final = {0: _bits(8, 9, 12, 16, 17, 21, 22, 24, 28)}


def decode_74(words: Sequence[int]) -> Decoded:
    """What the seven registers of an Xid 74 ask for.

    A reset, as NVIDIA says of the code as a whole, unless there is a bit set and every one is known to be harmless, or to come
    with another error that says what to do.
    """
    if any(words) and not _rest(words, _HARMLESS):
        return Decoded("", 0, Bucket.IGNORE, "IGNORE")
    if any(words) and not _rest(words, _HARMLESS, _SECONDARY):
        return Decoded("", 0, Bucket.IGNORE, SYMPATHETIC)
    mechanical = any(word & _MECHANICAL.get(place, 0) for place, word in enumerate(words))
    return Decoded("", 0, Bucket.RESET_GPU, Bucket.CHECK_MECHANICALS if mechanical else SUPPORT)


def _rest(words: Sequence[int], *known: Mapping[int, int]) -> bool:
    """Whether any bit is set that is in none of the masks."""
    return any(word & ~sum(mask.get(place, 0) for mask in known) for place, word in enumerate(words))
