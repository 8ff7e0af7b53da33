"""The files of a store as the judges of checkpoints see them: listed with sizes and times, read in bounded pieces.

Owns what a listing is, how much of it a look may read, and the ways in which reading ends without an answer. Must not know
where the bytes come from: whoever asks for a verdict hands in a `Bytes`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from fleet.domain.checkpoints import Note, Sign


class File(Struct, frozen=True, gc=False):
    """One regular file or object. `modified_at`: seconds since 1970; `version` changes whenever the content does."""

    path: str  # relative to the store, with slashes
    size_bytes: int
    modified_at: float
    version: str = ""
    link: str = ""  # where a symbolic link leads to, relative to the store

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


class Why(StrEnum):
    """Why something in a store was not read."""

    DENIED = "denied"
    GONE = "gone"
    CHANGED = "changed"
    OUTSIDE = "outside"  # a link that leaves the store, or goes round in circles
    LINK = "link"  # a link to a directory: never followed, but a hint
    SPECIAL = "special"  # neither file nor directory
    DEEP = "deep"
    FAILED = "failed"


class Omitted(Struct, frozen=True):
    path: str
    why: Why
    leads_to: str = ""


class Listing(Struct, frozen=True):
    """Every file below one path, sorted by path."""

    files: tuple[File, ...]
    omitted: tuple[Omitted, ...] = ()
    uploads: bool = False  # `modified_at` is when an object was uploaded, not when it was saved


class Unreadable(Exception):  # noqa: N818 -- an outcome of a look, not a fault of the program
    """A file could not be read."""

    def __init__(self, path: str, why: Why, detail: str = "") -> None:
        super().__init__(f"{path}: {why.value} {detail}".rstrip())
        self.path, self.why, self.detail = path, why, detail


class Bytes(Protocol):
    """Ranged reads of listed files."""

    def read(self, file: File, offset: int, length: int) -> bytes:
        """Exactly these bytes of this version of the file. Raises Unreadable; CHANGED when it is no longer that version."""


class Finding(Exception):  # noqa: N818 -- an outcome of a look, not a fault of the program
    """Why a file's content gives no whole answer."""

    def __init__(self, sign: Sign, detail: str) -> None:
        super().__init__(detail)
        self.sign, self.detail = sign, detail


def ends_early(detail: str) -> Finding:
    return Finding(Sign.ENDS_EARLY, detail)


def contradicts(detail: str) -> Finding:
    return Finding(Sign.CONTRADICTS, detail)


def refused(detail: str) -> Finding:
    return Finding(Sign.REFUSED, detail)


def beyond(detail: str) -> Finding:
    return Finding(Sign.LIMIT, detail)


class Limits(Struct, frozen=True):
    """How far a look at one checkpoint goes. All are about hostile or enormous files; ordinary ones stay far below."""

    read_bytes: int = 24_000_000  # of all its files
    reads: int = 8_000
    part_bytes: int = 8_000_000  # of one header, directory or pickle, which has to be in memory at once
    opcodes: int = 600_000  # of all its pickles
    object_bytes: int = 24_000_000  # what one pickle may build, as estimated
    text_bytes: int = 4096  # a longer string or number of a pickle is passed over
    members: int = 60_000  # of one archive


QUICK: Final = Limits()  # under a second and 50 MB whatever the file holds
DEEP: Final = Limits(
    2**62, 2**62, 512_000_000, 60_000_000, 2_000_000_000, 4096, 2_000_000
)  # asked for, and with progress


_SMALL: Final = 32_768  # a file up to this size is read once, as a whole: a call costs more than its bytes


class Look:
    """One look at one checkpoint: reads its files and keeps within the limits."""

    def __init__(self, source: Bytes, limits: Limits = QUICK) -> None:
        self.limits = limits
        self.read_bytes = 0
        self.opcodes = 0
        self._reads = 0
        self._small: File | None = None
        self._content = b""
        self._source = source

    def read(self, file: File, offset: int, length: int) -> bytes:
        """Raises Finding when it would be too much, Unreadable."""
        if file.size_bytes > _SMALL or offset + length > file.size_bytes:
            return self._read(file, offset, length)
        if self._small is not file:
            self._content, self._small = self._read(file, 0, file.size_bytes), file
        return self._content[offset : offset + length]

    def _read(self, file: File, offset: int, length: int) -> bytes:
        if length > self.limits.part_bytes or self.read_bytes + length > self.limits.read_bytes:
            raise beyond(f"needs {length} bytes at once; a look may read {self.limits.read_bytes} in all")
        self._reads += 1
        if self._reads > self.limits.reads:
            raise beyond(f"needs more than {self.limits.reads} reads")
        self.read_bytes += length
        return self._source.read(file, offset, length) if length else b""

    def all_of(self, file: File) -> bytes:
        return self.read(file, 0, file.size_bytes)


T = TypeVar("T")
_VALUE_BYTES: Final = 150  # what a value of JSON costs in memory, on average and with its key


def decoded(data: bytes, kind: type[T], look: Look) -> T:
    """JSON as a value of `kind`. Raises Finding: it is no such JSON, or has so many values that memory would not do."""
    values = sum(map(data.count, (b",", b"[", b"{")))
    if values * _VALUE_BYTES > look.limits.object_bytes:
        raise beyond(f"JSON of {values} values")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise contradicts(f"no JSON as it should be: {error}"[:200]) from None


class Extent(Struct, frozen=True):
    """A stretch of a file that is a file of its own, such as an item of a shard; the whole file as a rule."""

    file: File
    offset: int
    length: int

    def read(self, look: Look, offset: int, length: int) -> bytes:
        """Bytes relative to the extent, no further than its end."""
        length = max(0, min(length, self.length - offset))
        return look.read(self.file, self.offset + offset, length)


def whole(file: File) -> Extent:
    return Extent(file, 0, file.size_bytes)


def noted(path: str, error: Finding | Unreadable) -> Note:
    """What becomes of a file that gave no answer."""
    if isinstance(error, Finding):
        return Note(error.sign, path, error.detail)
    if error.why in {Why.CHANGED, Why.GONE}:
        return Note(Sign.CHANGED, error.path)
    return Note(Sign.UNREADABLE, error.path, error.detail or error.why.value)


def total(files: Iterable[File]) -> int:
    return sum(file.size_bytes for file in files)
