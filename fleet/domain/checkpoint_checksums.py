"""The deep check: every byte of a checkpoint against the checksums that were saved with it.

Owns which formats recorded any, and tells how far it has come. It reads everything, so it is asked for and never part of a look.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from fleet.domain import distributed_checkpoints, torch_archives
from fleet.domain.checkpoint_files import Extent, File, Finding, Look, Unreadable, decoded, noted, whole
from fleet.domain.checkpoint_units import Unit
from fleet.domain.checkpoints import Note, Sign

INTEGRITY: Final = "integrity.json"
_PIECE: Final = 4_000_000


def check(unit: Unit, look: Look) -> Iterator[int | Note]:
    """Bytes as they are read, and a note for whatever differs, cannot be read, or has no checksum."""
    covered = False
    for part in _parts(unit, look):
        if isinstance(part, Note):
            yield part
            continue
        try:
            for found in part:
                covered = covered or isinstance(found, int)
                yield found
        except (Finding, Unreadable) as error:
            yield noted(unit.path, error)
    if not covered:
        yield Note(Sign.UNCHECKED, unit.path, "no checksum recorded")


def _parts(unit: Unit, look: Look) -> Iterator[Iterator[int | Note] | Note]:
    files = unit.files
    if INTEGRITY in files:
        yield _digests(unit, look)
        return
    if distributed_checkpoints.METADATA in files:
        try:
            for extent in distributed_checkpoints.items(files, look):
                yield _archive(extent, look)
        except (Finding, Unreadable) as error:
            yield noted(unit.path, error)
    for file in files.values():
        if file.name.endswith((".pt", ".pth", ".ckpt", ".bin")):
            yield _torch(file, look)


def _torch(file: File, look: Look) -> Iterator[int | Note]:
    if look.read(file, 0, min(4, file.size_bytes)) == torch_archives.ZIP:
        yield from _archive(whole(file), look)
    else:
        yield Note(Sign.UNCHECKED, file.path, "no checksum recorded")


def _archive(extent: Extent, look: Look) -> Iterator[int | Note]:
    try:
        yield from torch_archives.checked(torch_archives.read(extent, look), look)
    except (Finding, Unreadable) as error:
        yield noted(extent.file.path, error)


def _digests(unit: Unit, look: Look) -> Iterator[int | Note]:
    """Megatron-LM's SHA-256 of every file, by name."""
    recorded = decoded(look.all_of(unit.files[INTEGRITY]), dict[str, msgspec.Raw], look)
    digests = {name: _digest(bytes(raw), look) for name, raw in recorded.items()}
    if isinstance(raw := recorded.get("files"), msgspec.Raw):
        digests = {name: _digest(bytes(each), look) for name, each in _table(bytes(raw), look).items()}
    for name, digest in digests.items():
        if not digest:
            continue
        if name not in unit.files:
            yield Note(Sign.MISSING, detail=name[:200])
            continue
        found = hashlib.sha256()
        yield from _hashed(unit.files[name], look, found)
        if found.hexdigest() != digest:
            yield Note(Sign.CHECKSUM, unit.files[name].path, "SHA-256")


def _table(data: bytes, look: Look) -> dict[str, msgspec.Raw]:
    return decoded(data, dict[str, msgspec.Raw], look)


def _digest(data: bytes, look: Look) -> str:
    """A digest in hexadecimal, alone or as the field `sha256`; "" for anything else."""
    text = decoded(data, str, look) if data.startswith(b'"') else ""
    if data.startswith(b"{"):
        field = _table(data, look).get("sha256")
        text = decoded(bytes(field), str, look) if field and bytes(field).startswith(b'"') else ""
    text = text.removeprefix("sha256:").lower()
    return text if len(text) == 64 and set(text) <= set("0123456789abcdef") else ""


def _hashed(file: File, look: Look, into: "hashlib._Hash") -> Iterator[int]:
    for offset in range(0, file.size_bytes, _PIECE):
        piece = look.read(file, offset, min(_PIECE, file.size_bytes - offset))
        into.update(piece)
        yield len(piece)
