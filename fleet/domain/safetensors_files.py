"""safetensors: a length, a JSON header and one buffer that the tensors cover without gap, and the index of several such files.

Owns what makes one valid. Weights alone: nothing else is ever in one. Source: the safetensors format, 0.8.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from fleet.domain.checkpoint_files import (
    File,
    Finding,
    Look,
    Unreadable,
    contradicts,
    decoded,
    ends_early,
    noted,
    refused,
)
from fleet.domain.checkpoints import NOTHING, WEIGHTS_ALONE, Content, Note, Presence, Sign

MOST_HEADER: Final = 100_000_000  # the format's own limit
_BITS: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


class Tensor(Struct, frozen=True, gc=False):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Index(Struct, frozen=True):
    weight_map: dict[str, str]


def look_at(file: File, look: Look) -> Content:
    """Raises Finding, Unreadable."""
    tensors = header(file, look)
    if not tensors:
        return Content(structs.replace(NOTHING, weights=Presence.EMPTY))
    return Content(WEIGHTS_ALONE)


def header(file: File, look: Look) -> Mapping[str, Tensor]:
    """The tensors of a valid file. Raises Finding: it ends early, has bytes too many, or its offsets do not fit."""
    if file.size_bytes < 8:
        raise ends_early(f"has {file.size_bytes} bytes, too few for a header")
    length = int.from_bytes(look.read(file, 0, 8), "little")
    if length > MOST_HEADER:
        raise contradicts(f"its header would have {length} bytes")
    if length > file.size_bytes - 8:
        raise ends_early(f"the header has {length} bytes, the file {file.size_bytes}")
    tensors = _decoded(look.read(file, 8, length), look)
    _check(tensors, file.size_bytes - 8 - length)
    return tensors


def sharded(index: File, files: Mapping[str, File], look: Look) -> Content:
    """An index and its shards; `files` by name in the same folder. The notes say what is wrong."""
    try:
        shards = shard_names(index, look)
    except (Finding, Unreadable) as error:
        return Content(WEIGHTS_ALONE, notes=(noted(index.path, error),))
    notes: list[Note] = []
    for name in sorted(shards):
        if name in files:
            notes += check(files[name], look)
        else:
            notes.append(Note(Sign.MISSING, detail=name[:200]))
    return Content(WEIGHTS_ALONE, notes=tuple(notes))


def shard_names(index: File, look: Look) -> set[str]:
    """Raises Finding, Unreadable."""
    found = decoded(look.all_of(index), _Index, look)
    names = set(found.weight_map.values())
    if any("/" in name or name in {"", ".", ".."} for name in names):
        raise refused("the index names a file outside of its folder")
    return names


def check(file: File, look: Look) -> tuple[Note, ...]:
    """What is wrong with one file."""
    try:
        header(file, look)
    except (Finding, Unreadable) as error:
        return (noted(file.path, error),)
    return ()


def _decoded(data: bytes, look: Look) -> dict[str, Tensor]:
    raw = decoded(data, dict[str, msgspec.Raw], look)
    metadata = raw.pop("__metadata__", None)
    if metadata is not None:
        decoded(bytes(metadata), dict[str, str], look)
    return {name: decoded(bytes(each), Tensor, look) for name, each in raw.items()}


def _check(tensors: Mapping[str, Tensor], buffer_bytes: int) -> None:
    """Offsets must follow each other without gap or overlap, each as long as its shape says, and end with the file."""
    at = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        begin, end = tensor.data_offsets
        if begin != at or end < begin:
            raise contradicts(f"{name[:100]} begins at {begin}, not at {at}")
        bits = _BITS.get(tensor.dtype)
        if min(tensor.shape, default=1) < 0 or (bits and not _fits(tensor, bits)):
            raise contradicts(f"{name[:100]} has {end - begin} bytes, its shape needs others")
        at = end
    if at > buffer_bytes:
        raise ends_early(f"{at - buffer_bytes} bytes are missing at the end")
    if at < buffer_bytes:
        raise contradicts(f"{buffer_bytes - at} bytes more than its tensors")


def _fits(tensor: Tensor, bits: int) -> bool:
    if len(tensor.shape) > 64 or any(each > 2**48 for each in tensor.shape):
        return False
    return math.prod(tensor.shape) * bits == 8 * (tensor.data_offsets[1] - tensor.data_offsets[0])
