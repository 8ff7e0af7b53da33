"""Checkpoints of JAX: Orbax directories, and the single msgpack file of Flax before them.

Owns their two ways of being complete (a final name, a commit file) and what the key names prove. Sources: orbax-checkpoint 0.12,
flax 0.12.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Raw, Struct

from fleet.domain.checkpoint_files import (
    File,
    Finding,
    Look,
    Unreadable,
    beyond,
    contradicts,
    decoded,
    ends_early,
    noted,
)
from fleet.domain.checkpoints import Components, Content, Note, Presence, Sign

TEMPORARY: Final = ".orbax-checkpoint-tmp"
ROOT_FILE: Final = "_CHECKPOINT_METADATA"
TREE: Final = "_METADATA"
COMMITTED: Final = "commit_success.txt"
STEP: Final = re.compile(r"(?:[A-Za-z][\w.-]*_)?(?P<step>\d+)")
MOST_KEYS: Final = 20_000

_JSON_AS_STRING: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def orbax(name: str, files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """A step's directory; `files` by their path inside of it."""
    content = _root(files, look)
    notes = [*content.notes]
    if TEMPORARY in name:
        notes.append(Note(Sign.TEMPORARY, detail=name[:200]))
    elif content.committed_at is None and COMMITTED not in files and (uploads or ROOT_FILE in files):
        # In an object store a name is final from its first byte on: only the commit file, or the moment inside, proves the end.
        notes.append(Note(Sign.UNMARKED, detail=COMMITTED))
    keys: list[tuple[str, ...]] = []
    for path, file in sorted(files.items()):
        if path == TREE or path.endswith("/" + TREE):
            found, more = _tree(file, look)
            keys += found
            notes += more
            folder = path.removesuffix(TREE)
            if found and not any(other.startswith(folder) and _is_content(other[len(folder) :]) for other in files):
                notes.append(Note(Sign.MISSING, detail=f"{folder}manifest.ocdbt"))
    items = {path.split("/")[0] for path in files if "/" in path}
    notes += [Note(Sign.MISSING, detail=item) for item in sorted(_handlers(files, look) - items)]
    return Content(
        _tree_components(keys, items) if keys else Components(), None, tuple(notes), None, content.committed_at
    )


def flax(file: File, look: Look) -> Content:
    """A msgpack file, whose values are passed over: that they end with the file proves that it is whole."""
    try:
        keys = sorted(set(_Msgpack(file, look).keys()))
    except (Finding, Unreadable) as error:
        return Content(notes=(noted(file.path, error),))
    return Content(_tree_components(keys, set()))


def _is_content(path: str) -> bool:
    """Of a tree: with OCDBT its manifest, else a folder or zarr file of each leaf."""
    return path not in {TREE, COMMITTED, "_sharding", "array_metadatas"} and "ocdbt.process_" not in path


class _Root(Struct, frozen=True):
    item_handlers: dict[str, Raw] | Raw | None = None
    commit_timestamp_nsecs: int | None = None


class _Key(Struct, frozen=True):
    key: str | int = ""


class _Leaf(Struct, frozen=True):
    key_metadata: list[_Key] = []


class _Tree(Struct, frozen=True):
    tree_metadata: dict[str, _Leaf]


def _root(files: Mapping[str, File], look: Look) -> Content:
    """The commit moment that Orbax wrote inside."""
    file = files.get(ROOT_FILE)
    if file is None:
        return Content()
    try:
        moment = decoded(look.all_of(file), _Root, look).commit_timestamp_nsecs
    except (Finding, Unreadable) as error:
        return Content(notes=(noted(file.path, error),))
    if not moment or moment < 0:
        return Content(notes=(Note(Sign.UNMARKED, file.path, "commit_timestamp_nsecs"),))
    return Content(committed_at=moment / 1e9)


def _handlers(files: Mapping[str, File], look: Look) -> set[str]:
    """The items that the root file names; what is wrong with it is said elsewhere."""
    try:
        handlers = decoded(look.all_of(files[ROOT_FILE]), _Root, look).item_handlers if ROOT_FILE in files else None
    except (Finding, Unreadable):
        return set()
    return set(handlers) if isinstance(handlers, dict) else set()


def _tree(file: File, look: Look) -> tuple[list[tuple[str, ...]], list[Note]]:
    try:
        leaves = decoded(look.all_of(file), _Tree, look).tree_metadata
    except (Finding, Unreadable) as error:
        return [], [noted(file.path, error)]
    return [_names(text, leaf) for text, leaf in list(leaves.items())[:MOST_KEYS]], []


def _names(text: str, leaf: _Leaf) -> tuple[str, ...]:
    """The path of one leaf."""
    if leaf.key_metadata:
        return tuple(str(each.key)[:100] for each in leaf.key_metadata[:16])
    return tuple(one or other for one, other in _JSON_AS_STRING.findall(text[:2000]))


def _tree_components(keys: list[tuple[str, ...]], items: set[str]) -> Components:
    """By names: schedules of JAX are functions of the optimizer's count, and belong to it."""
    lowered = [tuple(part.lower() for part in key) for key in keys if key]
    optimizer = [key for key in lowered if any(part.startswith("opt") for part in key[:2])]
    rng = [
        key for key in lowered if any(part in {"rng", "rngs", "key", "prng", "rng_key", "dropout_rng"} for part in key)
    ]
    step = [key for key in lowered if key[0] in {"step", "epoch", "iteration", "global_step"}]
    apart = {*optimizer, *rng, *step}
    weights = [key for key in lowered if key not in apart]
    data = {"data", "dataset", "iterator", "grain", "dataset_iterator", "data_iter"} & items

    def held(found: object) -> Presence:
        return Presence.PRESENT if found else Presence.ABSENT

    return Components(held(weights), held(optimizer), held(optimizer), held(step or data), held(rng))


class _Msgpack:
    """Walks the keys of a msgpack file by its lengths, without taking in the arrays."""

    MOST_DEEP: Final = 24
    WINDOW: Final = 65_536

    def __init__(self, file: File, look: Look) -> None:
        self.file, self.look = file, look
        self.at = 0
        self._window, self._begin = b"", 0
        self._values = 0

    def keys(self) -> Iterator[tuple[str, ...]]:
        """Paths of the leaves, the two outer names of each. Raises Finding."""
        yield from self._value(())
        if self.at != self.file.size_bytes:
            raise contradicts(f"{self.file.size_bytes - self.at} bytes after its end")

    def _take(self, length: int) -> bytes:
        if self.at + length > self.file.size_bytes:
            raise ends_early(f"{self.at + length - self.file.size_bytes} bytes are missing at the end")
        begin = self.at - self._begin
        if begin < 0 or begin + length > len(self._window):
            wanted = min(max(length, self.WINDOW), self.file.size_bytes - self.at)
            self._window, self._begin = self.look.read(self.file, self.at, wanted), self.at
            begin = 0
        self.at += length
        return self._window[begin : begin + length]

    def _skip(self, length: int) -> None:
        if self.at + length > self.file.size_bytes:
            raise ends_early(f"{self.at + length - self.file.size_bytes} bytes are missing at the end")
        self.at += length

    def _length(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    def _value(self, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        self._values += 1
        if self._values > self.look.limits.members or len(path) > self.MOST_DEEP:
            raise beyond("too many values, or too deep")
        code = self._take(1)[0]
        if 0x80 <= code <= 0x8F or code in {0xDE, 0xDF}:
            count = code & 0x0F if code <= 0x8F else self._length(2 if code == 0xDE else 4)
            for _ in range(count):
                yield from self._value((*path, self._text()))
            return
        if 0x90 <= code <= 0x9F or code in {0xDC, 0xDD}:
            count = code & 0x0F if code <= 0x9F else self._length(2 if code == 0xDC else 4)
            for place in range(count):
                yield from self._value((*path, str(place)))
            return
        self._skip(self._size(code))
        yield path[:2]

    def _text(self) -> str:
        code = self._take(1)[0]
        length = code & 0x1F if 0xA0 <= code <= 0xBF else self._length({0xD9: 1, 0xDA: 2, 0xDB: 4}.get(code, 0))
        if not (0xA0 <= code <= 0xBF or code in {0xD9, 0xDA, 0xDB}) or length > self.look.limits.text_bytes:
            raise contradicts("a key is no text")
        return self._take(length).decode("utf-8", "replace")

    def _size(self, code: int) -> int:
        """Bytes that follow the code of a scalar, a string, bytes or an extension."""
        if code <= 0x7F or code >= 0xE0 or code in {0xC0, 0xC2, 0xC3}:
            return 0
        if 0xA0 <= code <= 0xBF:
            return code & 0x1F
        if code in _FIXED:
            return _FIXED[code]
        if code in _COUNTED:
            width, more = _COUNTED[code]
            return self._length(width) + more
        raise contradicts("it is no msgpack")


_FIXED: Final = {
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xD4: 2,
    0xD5: 3,
    0xD6: 5,
    0xD7: 9,
    0xD8: 17,
}
_COUNTED: Final = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
}
