"""TensorFlow's checkpoints: an index, which is a LevelDB table, and data files that it points into.

Owns the table's structure, as far as keys and places need it, and the text of the `checkpoint` state file. Must not read a tensor
but the step. Sources: LevelDB's table_format, tensor_bundle.proto (TensorFlow 2.21).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from fleet.domain.checkpoint_files import (
    File,
    Finding,
    Look,
    Unreadable,
    beyond,
    contradicts,
    ends_early,
    noted,
    refused,
)
from fleet.domain.checkpoints import Components, Content, Note, Presence, Sign

MAGIC: Final = bytes.fromhex("57fb808b247547db")
DATA: Final = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5})-of-(?P<count>\d{5})")
_FOOTER: Final = 48
_VALUE: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
_INT32, _INT64 = 3, 9  # DataType
_BOOKKEEPING: Final = ("save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH", "step", "global_step")


class Entry(Struct, frozen=True):
    """Where a variable lies."""

    dtype: int
    shard: int
    offset: int
    size_bytes: int


class Named(Struct, frozen=True):
    """What the `checkpoint` state file says. Times in seconds since 1970."""

    latest: str
    times: Mapping[str, float]


def look_at(index: File, data: Mapping[str, File], look: Look) -> Content:
    """`data`: the data files beside it, by name. The notes say what is wrong."""
    try:
        shards, entries = table(index, look)
    except (Finding, Unreadable) as error:
        return Content(notes=(noted(index.path, error),))
    prefix = index.name.removesuffix(".index")
    names = [f"{prefix}.data-{shard:05}-of-{shards:05}" for shard in range(shards)]
    notes = [Note(Sign.MISSING, detail=name) for name in names if name not in data]
    for shard, name in enumerate(names):
        end = max((e.offset + e.size_bytes for e in entries.values() if e.shard == shard), default=0)
        if name in data and data[name].size_bytes < end:
            notes.append(Note(Sign.CONTRADICTS, data[name].path, f"has {data[name].size_bytes} bytes, needs {end}"))
    step, more = (None, ()) if notes else _step(entries, names, data, look)
    return Content(_components(entries), step, (*notes, *more))


def table(index: File, look: Look) -> tuple[int, dict[str, Entry]]:
    """(number of data files, variables by key). Raises Finding, Unreadable."""
    if index.size_bytes < _FOOTER:
        raise ends_early("the index is too short")
    footer = look.read(index, index.size_bytes - _FOOTER, _FOOTER)
    if footer[-8:] != MAGIC:
        raise ends_early("the index does not end as one")
    try:
        return _rows(index, look, footer)
    except IndexError:
        raise contradicts("the index is damaged") from None


def named(text: str) -> Named:
    """The state file; what is not in it stays empty."""
    fields = re.findall(r'^(\w+): (?:"((?:[^"\\]|\\.)*)"|([\d.eE+-]+))\s*$', text[:1_000_000], re.MULTILINE)
    latest = next((value for key, value, _ in fields if key == "model_checkpoint_path"), "")
    paths = [value for key, value, _ in fields if key == "all_model_checkpoint_paths"]
    times = [_time(number) for key, _, number in fields if key == "all_model_checkpoint_timestamps"]
    return Named(latest, dict(zip(paths, times, strict=False)))


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _rows(index: File, look: Look, footer: bytes) -> tuple[int, dict[str, Entry]]:
    at = 0
    for _ in range(2):  # the handle of the meta index
        _, at = _varint(footer, at)
    shards, size = 0, 0
    entries: dict[str, Entry] = {}
    for _, handle in _block(index, look, *_handle(footer, at)):
        for name, value in _block(index, look, *_handle(handle, 0)):
            size += len(name) + 200
            if size > look.limits.object_bytes:
                raise beyond("the index has too many keys")
            if name == b"":
                shards = _fields(value).get(1, 1)
            else:
                entries[name.decode("utf-8", "replace")] = _entry(value)
    if not 0 < shards <= 100_000:
        raise contradicts("the index has no header")
    return shards, entries


def _handle(data: bytes, at: int) -> tuple[int, int]:
    offset, at = _varint(data, at)
    size, _ = _varint(data, at)
    return offset, size


def _block(index: File, look: Look, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys of a block, each written as the part that differs from the one before, and their values."""
    if offset + size + 5 > index.size_bytes:
        raise contradicts("a block of the index lies outside of it")
    data = look.read(index, offset, size + 5)
    if data[size]:
        raise refused("the index is compressed, which TensorFlow does not do")
    restarts = int.from_bytes(data[size - 4 : size], "little")
    end = size - 4 - 4 * restarts
    if end < 0:
        raise contradicts("the index is damaged")
    key, at = b"", 0
    while at < end:
        shared, at = _varint(data, at)
        unshared, at = _varint(data, at)
        length, at = _varint(data, at)
        if shared > len(key) or unshared > look.limits.text_bytes or at + unshared + length > end:
            raise contradicts("the index is damaged")
        key = key[:shared] + data[at : at + unshared]
        if len(key) > look.limits.text_bytes:
            raise contradicts("a key of the index is too long")
        yield key, data[at + unshared : at + unshared + length]
        at += unshared + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise contradicts("the index is damaged")


def _fields(message: bytes) -> dict[int, int]:
    """The plain numbers of a protobuf message; all else is passed over."""
    found: dict[int, int] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                found[tag >> 3], at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                length, at = _varint(message, at)
                at += length
            case 5:
                at += 4
            case _:
                raise contradicts("the index is damaged")
    return found


def _entry(message: bytes) -> Entry:
    fields = _fields(message)
    return Entry(fields.get(1, 0), fields.get(3, 0), fields.get(4, 0), fields.get(5, 0))


def _step(
    entries: Mapping[str, Entry], names: list[str], data: Mapping[str, File], look: Look
) -> tuple[int | None, tuple[Note, ...]]:
    """The variable `step`; the number in the name only counts saves."""
    for key in ("step", "global_step"):
        entry = entries.get(key + _VALUE) or entries.get(key)
        if entry and (entry.dtype, entry.size_bytes) in {(_INT64, 8), (_INT32, 4)} and entry.shard < len(names):
            file = data[names[entry.shard]]
            try:
                return int.from_bytes(look.read(file, entry.offset, entry.size_bytes), "little", signed=True), ()
            except (Finding, Unreadable) as error:
                return None, (noted(file.path, error),)
    return None, ()


def _components(entries: Mapping[str, Entry]) -> Components:
    keys = [key.removesuffix(_VALUE) for key in entries]
    slots = [key for key in keys if ".OPTIMIZER_SLOT" in key or key.split("/")[0].startswith("opt")]
    iterations = [key for key in slots if key.endswith(("/iterations", "/_iterations", "/iter"))]
    rng = [key for key in keys if "rng" in key.lower() or "random" in key.lower()]
    apart = {*slots, *rng}
    # Keras' optimizers hold the variables that they train: what stands there is not written again below the model.
    shared = [key for key in slots if "/_trainable_variables/" in key]
    weights = shared + [key for key in keys if key not in apart and key.split("/")[0] not in _BOOKKEEPING]

    def held(found: list[str]) -> Presence:
        return Presence.PRESENT if found else Presence.ABSENT

    position = [key for key in keys if key.split("/")[0] in {"step", "global_step", "epoch", "iterator"}]
    return Components(
        held(weights), held([key for key in slots if key not in shared]), held(iterations), held(position), held(rng)
    )
