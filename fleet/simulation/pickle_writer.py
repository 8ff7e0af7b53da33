"""Pickles of objects whose classes are not here: what torch and transformers write, put together opcode by opcode.

Owns the opcodes. Must not know what a checkpoint is; and reads no pickle.
"""

import struct
from dataclasses import dataclass
from typing import Any

OLD, FRAMED = 2, 4  # the protocols of torch.save, and of distributed checkpoints


@dataclass(frozen=True)
class Named:
    """A class or function by its module and name."""

    module: str
    name: str


@dataclass(frozen=True)
class Made:
    """What `maker(*arguments)` returns; `items` are set on it."""

    maker: Named
    arguments: tuple[Any, ...] = ()
    items: dict[Any, Any] | None = None


@dataclass(frozen=True)
class Instance:
    """An object of a class, with its attributes; a tuple for a class that keeps them otherwise."""

    kind: Named
    state: Any


@dataclass(frozen=True)
class Persistent:
    """Something kept outside of the pickle, by what names it."""

    name: tuple[Any, ...]


def pickled(value: Any, protocol: int = OLD) -> bytes:
    """TypeError for a value of a type that checkpoints of ours do not hold."""
    return bytes([0x80, protocol]) + _Writer(protocol).of(value) + b"."


class _Writer:
    def __init__(self, protocol: int) -> None:
        self._framed = protocol >= FRAMED

    def of(self, value: Any) -> bytes:  # noqa: PLR0911 -- one for each type
        match value:
            case None:
                return b"N"
            case bool():
                return b"\x88" if value else b"\x89"
            case int():
                return _integer(value)
            case float():
                return b"G" + struct.pack(">d", value)
            case str():
                return self._text(value)
            case tuple():
                return self._tuple(value)
            case list():
                return b"](" + b"".join(map(self.of, value)) + b"e" if value else b"]"
            case dict():
                return b"}" + self._items(value)
            case _:
                return self._object(value)

    def _object(self, value: Any) -> bytes:
        match value:
            case Named(module, name):
                if self._framed:
                    return self._text(module) + self._text(name) + b"\x93"
                return f"c{module}\n{name}\n".encode()
            case Made(maker, arguments, items):
                return self.of(maker) + self.of(arguments) + b"R" + self._items(items or {})
            case Instance(kind, state):
                return self.of(kind) + b")\x81" + self.of(state) + b"b"
            case Persistent(name):
                return self.of(name) + b"Q"
        raise TypeError(f"{type(value).__name__} is not written here")

    def _text(self, text: str) -> bytes:
        data = text.encode()
        if self._framed and len(data) < 256:
            return b"\x8c" + bytes([len(data)]) + data
        return b"X" + struct.pack("<I", len(data)) + data

    def _tuple(self, value: tuple[Any, ...]) -> bytes:
        parts = b"".join(map(self.of, value))
        short = {0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}
        return parts + short[len(value)] if len(value) in short else b"(" + parts + b"t"

    def _items(self, value: dict[Any, Any]) -> bytes:
        pairs = b"".join(self.of(key) + self.of(held) for key, held in value.items())
        return b"(" + pairs + b"u" if pairs else b""


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if 0 <= value < 65_536:
        return b"M" + struct.pack("<H", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data
