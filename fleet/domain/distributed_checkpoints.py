"""PyTorch's distributed checkpoints (DCP): a directory of shards, and a `.metadata` that its coordinator renames into place last.

Owns the rules by which metadata and shards must agree. Must not know whose directory it is (torchtitan, Megatron-LM, FSDP …).
Source: torch.distributed.checkpoint 2.13.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from fleet.domain import pickles, torch_archives, torch_keys
from fleet.domain.checkpoint_files import Extent, File, Finding, Look, Unreadable, contradicts, noted
from fleet.domain.checkpoints import Components, Content, Note, Presence, Sign
from fleet.domain.pickle_machine import Opaque, Value

METADATA: Final = ".metadata"
METADATA_OF_RANK: Final = re.compile(r"__\d+\.metadata")
UNFINISHED: Final = re.compile(r"(__\d+)?\.metadata\.tmp")
SHARD: Final = re.compile(r"__\d+_\d+\.distcp")
# A shard that is newer than the metadata by more than this was written after it: by the next save into the same directory.
TOLERANCE_S: Final = 60.0
MOST_MISSING: Final = 5

_POSITION: Final = torch_keys.any_of(
    "train_state.*",
    "*dataloader*",
    "*sampler*",
    "*consumed*",
    *torch_keys.STEP_KEYS,
    "epoch",
    "*.global_step",
)
_STEP: Final = ("train_state.step", *torch_keys.STEP_KEYS, *(f"*.{key}" for key in ("global_step", "iteration")))


class Piece(Struct, frozen=True):
    """Where one item, or one chunk of a tensor, lies."""

    key: str
    offsets: tuple[int, ...]  # of the chunk
    path: str
    offset: int
    length: int


class Metadata(Struct, frozen=True):
    tensors: Mapping[str, tuple[tuple[int, ...], ...]]  # key → offsets of its chunks
    items: frozenset[str]  # keys of everything else
    pieces: tuple[Piece, ...]


def look_at(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """What a directory holds; `files` by their path inside of it. The notes say whether it is whole."""
    markers = [file for name, file in files.items() if name == METADATA or METADATA_OF_RANK.fullmatch(name)]
    pending = [Note(Sign.TEMPORARY, file.path) for name, file in files.items() if UNFINISHED.fullmatch(name)]
    if not markers:
        return Content(notes=(Note(Sign.UNMARKED, detail=METADATA), *pending))
    content = Content()
    for marker in sorted(markers, key=lambda file: file.path):
        content = content.with_(_one(marker, files, look, uploads))
    return content


def _one(marker: File, files: Mapping[str, File], look: Look, uploads: bool) -> Content:
    try:
        pickle = pickles.read(look.all_of(marker), look)
        metadata = parse(pickle.value)
    except Finding as error:
        ended = Finding(Sign.CONTRADICTS, error.detail) if error.sign is Sign.ENDS_EARLY else error
        return Content(notes=(noted(marker.path, ended),))
    except Unreadable as error:
        return Content(notes=(noted(marker.path, error),))
    notes = [*torch_keys.foreign(pickle.globals, marker.path), *_disagreements(metadata, files, marker.path)]
    if not uploads:
        notes += _newer(metadata, files, marker)
    step, more = (None, ()) if any(note.sign in _WRONG for note in notes) else _step(metadata, files, look)
    return Content(components(metadata), step, (*notes, *more))


_WRONG: Final = {Sign.CONTRADICTS, Sign.MISSING}


def parse(value: Value) -> Metadata:
    """The part of a pickled `Metadata` that proves something. Raises Finding when it is another object."""
    if not isinstance(value, Opaque) or not value.name.endswith(" Metadata"):
        raise contradicts("no Metadata of torch.distributed.checkpoint")
    kinds, stored = value.field("state_dict_metadata"), value.field("storage_data")
    if not isinstance(kinds, dict) or not isinstance(stored, dict):
        raise contradicts("the metadata names no keys or no shards")
    tensors = {str(key): _chunks(kind) for key, kind in kinds.items() if _named(kind, "TensorStorageMetadata")}
    items = frozenset(str(key) for key in kinds if key not in tensors)
    return Metadata(tensors, items, tuple(_piece(index, where) for index, where in stored.items()))


def components(metadata: Metadata) -> Components:
    """By the flat names of what was saved."""
    keys = [*metadata.tensors, *metadata.items]
    optimizer = [key for key in keys if key.split(".")[0].startswith("optim") or key.startswith("opt_state")]
    schedule = [key for key in keys if "scheduler" in key.split(".")[0]]
    apart = {*optimizer, *schedule}
    rng = [key for key in keys if "rng" in re.split(r"[._/]", key.lower())]
    position = [key for key in keys if _POSITION.match(key)]
    weights = [key for key in metadata.tensors if key not in apart and key not in rng and key not in position]
    state = [key for key in optimizer if ".state." in key or key in metadata.tensors]
    return Components(
        weights=_held(weights),
        optimizer=Presence.EMPTY if optimizer and not state else _held(state),
        schedule=_held(schedule),
        position=_held(position),
        rng=_held(rng),
    )


def items(files: Mapping[str, File], look: Look) -> Iterator[Extent]:
    """The archive of each piece, for a check of its checksums. Raises Finding, Unreadable."""
    metadata = parse(pickles.read(look.all_of(files[METADATA]), look).value)
    for piece in metadata.pieces:
        yield Extent(files[piece.path], piece.offset, piece.length)


def _held(keys: Iterable[str]) -> Presence:
    return Presence.PRESENT if any(True for _ in keys) else Presence.ABSENT


def _named(value: Value, name: str) -> bool:
    return isinstance(value, Opaque) and value.name.endswith(f" {name}")


def _chunks(kind: Opaque) -> tuple[tuple[int, ...], ...]:
    chunks = kind.field("chunks")
    if not isinstance(chunks, list):
        return ()
    return tuple(_size(chunk.field("offsets")) for chunk in chunks if isinstance(chunk, Opaque))


def _size(value: Value) -> tuple[int, ...]:
    """A torch.Size, or the plain tuple in it."""
    if isinstance(value, Opaque) and isinstance(value.args, tuple) and value.args:
        value = value.args[0]
    if isinstance(value, list | tuple) and all(isinstance(each, int) for each in value):
        return tuple(value)
    return ()


def _piece(index: Value, where: Value) -> Piece:
    if not isinstance(index, Opaque) or not isinstance(where, Opaque):
        raise contradicts("the metadata does not say where an item lies")
    found = Piece(
        str(index.field("fqn")),
        _size(index.field("offset")),
        where.field("relative_path"),
        where.field("offset"),
        where.field("length"),
    )
    whole_numbers = isinstance(found.offset, int) and isinstance(found.length, int)
    if not isinstance(found.path, str) or not whole_numbers or found.offset < 0 or found.length < 0:
        raise contradicts("the metadata does not say where an item lies")
    return found


def _disagreements(metadata: Metadata, files: Mapping[str, File], marker: str) -> Iterator[Note]:
    """Each shard must be there and end where its last item ends; each chunk of each tensor must lie somewhere."""
    ends: dict[str, int] = {}
    for piece in metadata.pieces:
        ends[piece.path] = max(ends.get(piece.path, 0), piece.offset + piece.length)
    for path, end in sorted(ends.items()):
        if path not in files:
            yield Note(Sign.MISSING, detail=path[:200])
        elif files[path].size_bytes != end:
            yield Note(
                Sign.CONTRADICTS, files[path].path, f"has {files[path].size_bytes} bytes, the metadata says {end}"
            )
    stored = {(piece.key, piece.offsets) for piece in metadata.pieces}
    stored_keys = {piece.key for piece in metadata.pieces}
    missing = [key for key, chunks in metadata.tensors.items() if any((key, chunk) not in stored for chunk in chunks)]
    missing += [key for key in metadata.items if key not in stored_keys]
    for key in sorted(missing)[:MOST_MISSING]:
        yield Note(Sign.CONTRADICTS, marker, f"nothing stores all of {key[:200]}")


def _newer(metadata: Metadata, files: Mapping[str, File], marker: File) -> Iterator[Note]:
    for path in sorted({piece.path for piece in metadata.pieces} & files.keys()):
        late_s = files[path].modified_at - marker.modified_at
        if late_s > TOLERANCE_S:
            yield Note(Sign.NEWER_THAN_MARKER, files[path].path, f"{late_s:.0f} s")


def _step(metadata: Metadata, files: Mapping[str, File], look: Look) -> tuple[int | None, tuple[Note, ...]]:
    """From the item that holds it: a small archive of its own inside a shard, or a tensor of one number."""
    for pattern in _STEP:
        for piece in metadata.pieces:
            if fnmatchcase(piece.key, pattern) and not piece.key.startswith("optim"):
                try:
                    return _number(Extent(files[piece.path], piece.offset, piece.length), look), ()
                except (Finding, Unreadable) as error:
                    return None, (noted(files[piece.path].path, error),)
    return None, ()


def _number(extent: Extent, look: Look) -> int | None:
    archive = torch_archives.read(extent, look)
    value = archive.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if len(archive.pickle.storages) == 1 and archive.pickle.storages[0].count == 1:
        return archive.integer(look, archive.pickle.storages[0])
    return None
