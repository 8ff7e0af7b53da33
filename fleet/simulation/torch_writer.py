"""Small files as torch and safetensors write them, byte by byte: the rehearsal needs neither.

Owns the two containers: torch's stored zip, aligned and with its end record last, and safetensors' header. Must not know which
trainer writes what (checkpoint_layouts.py does). Sources: PyTorch 2.13 inline_container and serialization, safetensors 0.8.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any

from fleet.simulation.pickle_writer import Made, Named, Persistent, pickled

ALIGNED = 64  # bytes: where the contents of a member begin
FLAGS = 0x0808  # UTF-8 names, sizes after the contents
FLOAT, INTEGER, BYTE = "Float", "Long", "Byte"
_ITEM_BYTES = {FLOAT: 4, INTEGER: 8, BYTE: 1}
_IN_SAFETENSORS = {FLOAT: "F32", INTEGER: "I64", BYTE: "U8"}
_ORDERED = Named("collections", "OrderedDict")
_REBUILD = Named("torch._utils", "_rebuild_tensor_v2")


@dataclass(frozen=True)
class Tensor:
    """`data`: little-endian, row by row; ValueError when it does not fill the shape."""

    shape: tuple[int, ...]
    data: bytes
    kind: str = FLOAT

    def __post_init__(self) -> None:
        if len(self.data) != prod(self.shape) * _ITEM_BYTES[self.kind]:
            raise ValueError(f"{len(self.data)} bytes for a tensor of {self.shape}")

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def elements(self) -> int:
        return prod(self.shape)


def floats(shape: tuple[int, ...], seed: int) -> Tensor:
    """A tensor of small numbers that follow from the seed."""
    values = [((seed * 7919 + index * 104_729) % 2003 - 1001) / 4096 for index in range(prod(shape))]
    return Tensor(shape, struct.pack(f"<{len(values)}f", *values))


def ordered(items: dict[str, Any]) -> Made:
    """A state dict is an OrderedDict."""
    return Made(_ORDERED, (), items)


def saved(value: Any, root: str = "archive") -> bytes:
    """The bytes of `torch.save(value)`; `root`: the stem of the file's name, "archive" when saved to memory."""
    storages: list[Tensor] = []
    data = pickled(_with_storages(value, storages))
    members = [("data.pkl", data), (".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")]
    members += [(f"data/{key}", tensor.data) for key, tensor in enumerate(storages)]
    identity = f"{zlib.crc32(data):010d}" * 4
    members += [("version", b"3\n"), (".data/serialization_id", identity.encode())]
    return _archive([(f"{root}/{name}", content) for name, content in members])


def safetensors(tensors: dict[str, Tensor], notes: dict[str, str]) -> bytes:
    at, header, contents = 0, dict[str, Any](__metadata__=notes), []
    for name, tensor in tensors.items():
        ends = at + len(tensor.data)
        header[name] = {
            "dtype": _IN_SAFETENSORS[tensor.kind],
            "shape": list(tensor.shape),
            "data_offsets": [at, ends],
        }
        contents.append(tensor.data)
        at = ends
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + b"".join(contents)


def _with_storages(value: Any, storages: list[Tensor]) -> Any:
    """The value with each tensor as a call that rebuilds it from a storage, which is put aside."""
    match value:
        case Tensor():
            name = ("storage", Named("torch", f"{value.kind}Storage"), str(len(storages)), "cpu", value.elements)
            storages.append(value)
            return Made(_REBUILD, (Persistent(name), 0, value.shape, value.strides, False, Made(_ORDERED)))
        case dict():
            return {key: _with_storages(held, storages) for key, held in value.items()}
        case list():
            return [_with_storages(held, storages) for held in value]
        case Made(items=dict() as items):
            return Made(value.maker, value.arguments, _with_storages(items, storages))
        case _:
            return value


def _archive(members: list[tuple[str, bytes]]) -> bytes:
    body, entries = b"", b""
    for name, content in members:
        at, path, crc = len(body), name.encode(), zlib.crc32(content)
        pad = -(at + 30 + len(path) + 4) % ALIGNED
        extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
        body += struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 0, FLAGS, 0, 0, 0, 0, 0, 0, len(path), len(extra))
        body += path + extra + content
        body += struct.pack("<4sIII", b"PK\x07\x08", crc, len(content), len(content))
        sizes = (crc, len(content), len(content), len(path))
        entries += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 0, 0, FLAGS, 0, 0, 0, *sizes, 0, 0, 0, 0, 0, at)
        entries += path
    return body + entries + _end(len(members), len(entries), len(body))


def _end(number: int, size: int, at: int) -> bytes:
    """Torch writes the 64-bit end record as well, whatever the size."""
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 0x031E, 45, 0, 0, number, number, size, at)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at + size, 1)
    return wide + locator + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, number, number, size, at, 0)
