"""Archives of `torch.save`: zips whose end record proves that they were written to the end, and legacy chains of pickles.

Owns their structure, what they refer to, and their recorded checksums. Reads the zip by itself: readers made for any zip can be
misled by archives that torch accepts. Must not judge what the keys mean (`torch_keys`). Source: PyTorch's serialization and
inline_container (2.13), the .ZIP application note.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from fleet.domain import pickles
from fleet.domain.checkpoint_files import Extent, Finding, Look, beyond, contradicts, ends_early, refused
from fleet.domain.checkpoints import Note, Sign
from fleet.domain.pickle_machine import Storage, Value
from fleet.domain.pickles import Pickle

LEGACY: Final = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")  # a pickle of the number 0x1950a86a20f9469cfc6c
ZIP: Final = b"PK\x03\x04"

_END: Final = b"PK\x05\x06"
_END64: Final = b"PK\x06\x06"
_END64_AT: Final = b"PK\x06\x07"
_ENTRY: Final = b"PK\x01\x02"
_FIELDS: Final = struct.Struct("<HH4xIIIHHH8xI")  # of an entry, from its flags on
_MAX32: Final = 0xFFFFFFFF  # in a field: see the 64-bit extra field
# Absolute, upwards, or of another system.
_FORBIDDEN: Final = re.compile(r"^/|\\|\0|(^|/)\.\.(/|$)|^.:", re.DOTALL)
_NEAR_END: Final = 1024  # enough unless something follows the archive
_COMMENT: Final = 65_535 + 22
_PIECE: Final = 4_000_000

# Bytes of an element, by the class of its storage.
_ITEM: Final = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Char", "Byte", "Bool", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4", "Untyped"), 1),
    "ComplexDouble": 16,
}


class Member(Struct, frozen=True, gc=False):
    name: str
    size_bytes: int
    crc: int
    header_at: int  # of its local header


class Archive(Struct, frozen=True):
    """A whole archive: its members, where they end, and the one pickle in it."""

    extent: Extent
    members: dict[str, Member]
    root: str  # the folder that all members are in, with a slash
    pickle: Pickle
    trailing_bytes: int

    @property
    def value(self) -> Value:
        return self.pickle.value

    def integer(self, look: Look, storage: Storage) -> int | None:
        """The one number of a storage that holds just one, None unless it is a whole one."""
        member = self.members[f"{self.root}data/{storage.key}"]
        if storage.kind not in {"torch LongStorage", "torch IntStorage"}:
            return None
        content = self.extent.read(look, _content_at(self.extent, look, member), member.size_bytes)
        return int.from_bytes(content, "little", signed=True)

    def notes(self, path: str) -> tuple[Note, ...]:
        """What is odd about it, though it is whole."""
        if not self.trailing_bytes:
            return ()
        return (Note(Sign.TRAILING, path, f"{self.trailing_bytes} bytes"),)


def read(extent: Extent, look: Look) -> Archive:
    """Raises Finding: no end record (it was not written to the end), contradictions, or nothing that may be read."""
    if extent.length == 0:
        raise ends_early("the file is empty")
    count, size, at, trailing = _end(extent, look)
    if count > look.limits.members:
        raise beyond(f"{count} members")
    members = _members(extent.read(look, at, size), count, at)
    root = _root(members)
    archive_pickle = _pickle(extent, look, members[f"{root}data.pkl"])
    archive = Archive(extent, members, root, archive_pickle, trailing)
    _check_storages(archive)
    return archive


def legacy(extent: Extent, look: Look) -> Value:
    """The saved object of a file from before torch 1.6, as far as it can be read. Raises Finding."""
    data = extent.read(look, 0, min(extent.length, look.limits.part_bytes))
    at = len(LEGACY) + 1  # the pickle ends with a stop
    for _ in range(2):  # protocol and machine
        at = pickles.read(data, look, at).end
    return pickles.read(data, look, at).value


def checked(archive: Archive, look: Look) -> Iterator[int | Note]:
    """Compare every member with its checksum: yields bytes as they are read, and a note for each member that differs."""
    path = archive.extent.file.path
    if not any(member.crc for member in archive.members.values()):
        yield Note(Sign.UNCHECKED, path, "CRC not recorded")
        return
    for member in archive.members.values():
        crc, at = 0, _content_at(archive.extent, look, member)
        for offset in range(0, member.size_bytes, _PIECE):
            piece = archive.extent.read(look, at + offset, min(_PIECE, member.size_bytes - offset))
            crc = zlib.crc32(piece, crc)
            yield len(piece)
        if crc != member.crc:
            yield Note(Sign.CHECKSUM, path, member.name.removeprefix(archive.root))


def _end(extent: Extent, look: Look) -> tuple[int, int, int, int]:
    """(members, bytes of the directory, where it begins, bytes after the archive)"""
    for length in (_NEAR_END, _COMMENT):
        length = min(length, extent.length)  # noqa: PLW2901 -- the same, as far as there is one
        tail = extent.read(look, extent.length - length, length)
        place = tail.rfind(_END)
        if place >= 0 and len(tail) - place >= 22:
            return _directory(extent, look, tail, place)
    raise ends_early("no end record: the archive was not written to the end")


def _directory(extent: Extent, look: Look, tail: bytes, place: int) -> tuple[int, int, int, int]:
    count, size, at = struct.unpack_from("<HII", tail, place + 10)
    end_at = extent.length - len(tail) + place
    trailing = len(tail) - place - 22
    if count == 0xFFFF or _MAX32 in {size, at}:
        count, size, at = _directory64(extent, look, end_at)
    if at + size > end_at:
        raise contradicts("the directory of the archive lies outside of it")
    return count, size, at, trailing


def _directory64(extent: Extent, look: Look, end_at: int) -> tuple[int, int, int]:
    locator = extent.read(look, max(0, end_at - 20), 20)
    if not locator.startswith(_END64_AT):
        raise contradicts("the archive lacks its 64-bit end record")
    at = int.from_bytes(locator[8:16], "little")
    record = extent.read(look, at, 56) if at + 56 <= end_at else b""
    if not record.startswith(_END64):
        raise contradicts("the archive lacks its 64-bit end record")
    count, size, begin = struct.unpack_from("<QQQ", record, 32)
    return count, size, begin


def _members(directory: bytes, count: int, content_end: int) -> dict[str, Member]:
    members: dict[str, Member] = {}
    at = 0
    for _ in range(count):
        member, at = _member(directory, at)
        if member.name in members:
            raise refused(f"two members {_shown(member.name)}")
        if member.header_at + 30 + member.size_bytes > content_end:
            raise contradicts(f"{_shown(member.name)} lies outside of the archive")
        members[member.name] = member
    if at != len(directory):
        raise contradicts("the directory of the archive is longer than its entries")
    _check_overlaps(members)
    return members


def _member(directory: bytes, at: int) -> tuple[Member, int]:
    begin = at + 46
    if directory[at : at + 4] != _ENTRY or len(directory) < begin:
        raise contradicts("the directory of the archive is damaged")
    flags, method, crc, packed, size, name_length, extra_length, comment_length, header_at = _FIELDS.unpack_from(
        directory, at + 8
    )
    name = directory[begin : begin + name_length].decode("utf-8", "replace")
    if _MAX32 in {size, packed, header_at}:
        extra = directory[begin + name_length : begin + name_length + extra_length]
        size, packed, header_at = _wide(extra, size, packed, header_at)
    if _FORBIDDEN.search(name):
        raise refused(f"a member is named {_shown(name)}")
    if method or flags & 1 or packed != size:
        raise refused(f"{_shown(name)} is compressed or encrypted, which torch never does")
    return Member(name, size, crc, header_at), begin + name_length + extra_length + comment_length


def _wide(extra: bytes, size: int, packed: int, header_at: int) -> tuple[int, int, int]:
    """The three fields, from the 64-bit extra field where they did not fit."""
    values = [size, packed, header_at]
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            field = extra[at + 4 : at + 4 + length]
            for place, value in enumerate(values):
                if value == _MAX32:
                    values[place] = int.from_bytes(field[:8], "little")
                    field = field[8:]
            break
        at += 4 + length
    return values[0], values[1], values[2]


def _check_overlaps(members: dict[str, Member]) -> None:
    end = 0
    for member in sorted(members.values(), key=lambda member: member.header_at):
        if member.header_at < end:
            raise refused(f"{_shown(member.name)} overlaps another member")
        end = member.header_at + 30 + member.size_bytes


def _root(members: dict[str, Member]) -> str:
    found = [name for name in members if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(found) > 1:
        raise refused("two members data.pkl")
    if not found:
        raise contradicts("the archive has no data.pkl: torch.save did not write it")
    return found[0].removesuffix("data.pkl")


def _content_at(extent: Extent, look: Look, member: Member) -> int:
    header = extent.read(look, member.header_at, 30 + len(member.name.encode()))
    if header[:4] != ZIP or header[30:] != member.name.encode():
        raise contradicts(f"{_shown(member.name)} is not where the directory says")
    extra_length = int.from_bytes(header[28:30], "little")
    at = member.header_at + 30 + len(member.name.encode()) + extra_length
    if at + member.size_bytes > extent.length:
        raise contradicts(f"{_shown(member.name)} lies outside of the archive")
    return at


def _pickle(extent: Extent, look: Look, member: Member) -> Pickle:
    if member.size_bytes > look.limits.part_bytes:
        raise beyond(f"data.pkl has {member.size_bytes} bytes")
    data = extent.read(look, _content_at(extent, look, member), member.size_bytes)
    try:
        return pickles.read(data, look)
    except Finding as error:
        # The archive has its end, so a pickle that stops early is no unfinished one.
        raise contradicts(f"data.pkl: {error.detail}") if error.sign is Sign.ENDS_EARLY else error from None


def _check_storages(archive: Archive) -> None:
    """Every storage that the pickle names has a member of its size."""
    for storage in archive.pickle.storages:
        name = f"{archive.root}data/{storage.key}"
        member = archive.members.get(name)
        if member is None:
            raise contradicts(f"data/{_shown(storage.key)} is missing")
        item = _ITEM.get(storage.kind.rpartition(" ")[2].removesuffix("Storage"))
        if item and member.size_bytes != storage.count * item:
            raise contradicts(
                f"data/{_shown(storage.key)} has {member.size_bytes} bytes, the pickle says {storage.count * item}"
            )


def _shown(name: str) -> str:
    """For a message: what an archive names is not trusted to be printable or short."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:100])
