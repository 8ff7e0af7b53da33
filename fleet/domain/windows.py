"""Samples of a GPU over the last minutes, because one snapshot of a clock mask or a counter proves nothing.

Owns how readings become one sample per minute, and what shares and rates follow from them. A minute without a known value is no
sample: it neither accuses nor clears.
"""

from collections.abc import Mapping
from typing import Final

from fleet.domain.gpus import Gpu
from fleet.domain.measures import number
from fleet.domain.verdicts import Window

MINUTES: Final = 10
LEAST_SAMPLES: Final = 5
# Bits of NVIDIA's clock-event mask that mean trouble, by the hold that they stand for. The umbrella 0x8 comes with 0x40 or 0x80;
# alone it says that hardware holds the clock and not why.
HW_THERMAL, POWER_BRAKE, HW_SLOWDOWN, SW_THERMAL = 0x40, 0x80, 0x08, 0x20
HOLDS: Final = ("throttle-hw-thermal", "throttle-power-brake", "throttle-hw", "throttle-sw-thermal")
TROUBLE: Final = HW_THERMAL | POWER_BRAKE | HW_SLOWDOWN | SW_THERMAL
REASONS: Final[Mapping[int, str]] = {
    0x1: "idle",
    0x2: "app-clocks",
    0x4: "power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "thermal-sw",
    0x40: "thermal-hw",
    0x80: "power-brake",
    0x100: "display",
    0x200: "board-limit",
    0x400: "reliability",
}


def reasons(mask: int) -> tuple[str, ...]:
    """Tokens of a clock-event mask, lowest bit first; a bit that nobody has described is "bit-11"."""
    bits = (1 << n for n in range(min(mask.bit_length(), 64)) if mask > 0 and mask >> n & 1)
    return tuple(REASONS.get(bit) or f"bit-{bit.bit_length() - 1}" for bit in bits)


def holds(mask: int) -> tuple[bool, bool, bool, bool]:
    """Which of HOLDS a mask shows."""
    thermal, brake = bool(mask & HW_THERMAL), bool(mask & POWER_BRAKE)
    return thermal, brake, bool(mask & HW_SLOWDOWN) and not (thermal or brake), bool(mask & SW_THERMAL)


def taken(window: Window, gpu: Gpu, at: float) -> Window:
    """The window with one more reading. When a minute is over it becomes a sample, and a new one begins."""
    minute = int(at // 60)
    if minute != window.minute:
        window = _begun(window, minute, gpu, at)
    mask = number(gpu.clock_reasons)
    if mask is None:
        return window
    held = window.held
    if int(mask) & TROUBLE:
        a, b, c, d = holds(int(mask))
        held = (held[0] + a, held[1] + b, held[2] + c, held[3] + d)
    return Window(
        window.begun,
        window.minute,
        window.readings + 1,
        held,
        window.samples,
        window.corrected,
        window.corrected_at,
        window.corrected_per_s,
    )


def share(window: Window, hold: int) -> tuple[int, int]:
    """(samples that show this hold, samples) of the last ten minutes; (0, 0) until ten minutes have gone by."""
    if window.minute - window.begun < MINUTES:
        return 0, 0
    return sum(bits >> hold & 1 for _, bits in window.samples), len(window.samples)


def _begun(window: Window, minute: int, gpu: Gpu, at: float) -> Window:
    samples = window.samples
    if window.readings:  # a hold counts for a minute when at least half of its readings show it
        bits = sum((2 * count >= window.readings) << hold for hold, count in enumerate(window.held))
        samples = (*samples, (window.minute, bits))
    samples = tuple(sample for sample in samples if minute - MINUTES <= sample[0] < minute)
    corrected = number(gpu.ecc_corrected)
    return Window(
        begun=window.begun or minute,
        minute=minute,
        samples=samples,
        corrected=corrected,
        corrected_at=at,
        corrected_per_s=_rate(window, corrected, at),
    )


def _rate(window: Window, corrected: int | float | None, at: float) -> float | None:
    """None when it is not known: no counter at one end, a counter that was restarted, or a gap."""
    span_s = at - window.corrected_at
    if corrected is None or window.corrected is None or corrected < window.corrected or not 0 < span_s <= 300:
        return None
    return (corrected - window.corrected) / span_s
