"""What a reading must not be, however well-formed its JSON: larger, longer or stranger than any machine's.

Owns the bounds that everything behind the door may rely on: identifiers of printable characters that fit their columns, and
numbers that survive rounding and packing. Must not judge what a reading means.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import astuple

from fleet.domain.gpus import Fault, Gpu, Reading

MOST_GPUS: Final = 64
MOST_FAULTS: Final = 1024
MOST_PARTS: Final = 4096  # processes and instances of one GPU
LONGEST_NAME: Final = 253
LONGEST_WORD: Final = 100
LONGEST_ID: Final = 64
LARGEST: Final = 2.0**53  # beyond it a float skips whole numbers, and rounding one makes no machine word
LATEST_AT: Final = 2.0**33  # a clock that says the year 2242 says nothing

_WORDS: Final = (("driver", LONGEST_WORD, 0), ("cuda", LONGEST_WORD, 0), ("nvml", LONGEST_WORD, 0))


def flaw(reading: Reading) -> str:
    """What is wrong with a reading, in words; "" when nothing is."""
    return next(_flaws(reading), "")


def _flaws(reading: Reading) -> Iterator[str]:
    for name, most, least in (("node", LONGEST_NAME, 1), ("boot_id", LONGEST_ID, 1), ("agent", LONGEST_ID, 1), *_WORDS):
        text = getattr(reading, name)
        if not least <= len(text) <= most or not text.isprintable():
            yield f"{name} must be {least} to {most} printable characters"
    if not 0 <= reading.sequence < LARGEST:
        yield "sequence must not be negative, nor above 2^53"
    if not 0 <= reading.sent_at < LATEST_AT:
        yield "sent_at must be seconds since 1970"
    if len(reading.gpus) > MOST_GPUS or len(reading.faults) > MOST_FAULTS:
        yield f"a reading holds at most {MOST_GPUS} GPUs and {MOST_FAULTS} faults"
    parts = [(f"gpus[{i}]", _gpu_flaw(gpu)) for i, gpu in enumerate(reading.gpus)]
    parts += [(f"faults[{i}]", _fault_flaw(fault)) for i, fault in enumerate(reading.faults)]
    yield from (f"{where}: {words}" for where, words in parts if words)


def _gpu_flaw(gpu: Gpu) -> str:
    for text in (gpu.uuid, gpu.pci, gpu.name, gpu.serial):
        if text and (len(text) > LONGEST_WORD or not text.isprintable()):
            return f"uuid, pci, name and serial must be at most {LONGEST_WORD} printable characters"
    if "/" in gpu.uuid:
        return "a uuid holds no slash"
    if len(gpu.processes or ()) > MOST_PARTS or len(gpu.instances) > MOST_PARTS:
        return f"a GPU has at most {MOST_PARTS} processes and instances"
    if not all(-LARGEST < value < LARGEST for value in astuple(gpu) if type(value) is float or type(value) is int):
        return "a number is out of every range"
    return ""


def _fault_flaw(fault: Fault) -> str:
    if not 0 <= fault.at < LATEST_AT:
        return "at must be seconds since 1970"
    texts = (fault.uuid, fault.pci, fault.unit)
    return "" if all(len(text) <= LONGEST_WORD for text in texts) else f"a word of over {LONGEST_WORD} characters"
