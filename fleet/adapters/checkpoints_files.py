"""Checkpoints on a mounted file system.

Owns that nothing outside of the root is opened, whatever links say and however the tree changes meanwhile, and that no call
writes: each path is opened from the root downwards, one name at a time, following no link. Must not know any format. A mount that
hangs hangs the caller: run it where that does no harm.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleet.domain.checkpoint_files import File, Listing, Omitted, Why
from fleet.ports import PortError

MOST_DEEP: Final = 16
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe or a device in place of a file must not block the open.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_WHY: Final = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), Why.DENIED),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ESTALE), Why.GONE),
    errno.ELOOP: Why.OUTSIDE,
}


class FileStore:
    """A directory. Raises PortError when it is none."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        try:
            self._root = str(root.resolve(strict=True))
            os.close(os.open(self._root, _DIRECTORY))
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise _trouble(self.name, error) from None

    def list(self, path: str, most: int) -> Listing:
        parts = _parts(path)
        walk = _Walk(self._root, most)
        try:
            with _Opened(self._root, parts[:-1]) as parent:
                if parts and not stat.S_ISDIR(os.lstat(parts[-1], dir_fd=parent).st_mode):
                    walk.take("/".join(parts), os.lstat(parts[-1], dir_fd=parent))
                    return walk.listing()
            walk.everything(parts)
        except OSError as error:
            raise _trouble(path or self.name, error) from None
        return walk.listing()

    def read(self, file: File, offset: int, length: int) -> bytes:
        parts = _parts(file.link or file.path)
        try:
            with _Opened(self._root, parts[:-1]) as parent:
                opened = os.open(parts[-1], _FILE, dir_fd=parent)
            try:
                return _bytes(opened, file, offset, length)
            finally:
                os.close(opened)
        except OSError as error:
            raise _trouble(file.path, error) from None


class _Opened:
    """A directory below the root, reached without following any link."""

    def __init__(self, root: str, parts: list[str]) -> None:
        self._root, self._parts = root, parts
        self._fd = -1

    def __enter__(self) -> int:
        self._fd = os.open(self._root, _DIRECTORY)
        for part in self._parts:
            try:
                inner = os.open(part, _DIRECTORY, dir_fd=self._fd)
            finally:
                os.close(self._fd)
                self._fd = -1
            self._fd = inner
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class _Walk:
    """One listing while it is made."""

    def __init__(self, root: str, most: int) -> None:
        self._root, self._most = root, most
        self._files: list[File] = []
        self._omitted: list[Omitted] = []

    def listing(self) -> Listing:
        self._files.sort(key=lambda file: file.path)
        self._omitted.sort(key=lambda left: left.path)
        return Listing(tuple(self._files), tuple(self._omitted))

    def everything(self, parts: list[str]) -> None:
        """Raises OSError for the first directory only: what is below it can be left out."""
        waiting = [parts]
        while waiting:
            inner = waiting.pop()
            try:
                waiting += self._directory(inner)
            except OSError as error:
                if inner is parts:
                    raise
                self._omit("/".join(inner), _why(error))

    def take(self, path: str, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            self._add(File(path, found.st_size, found.st_mtime, _version(found)))
        elif stat.S_ISLNK(found.st_mode):
            self._link(path)
        else:
            self._omit(path, Why.SPECIAL)

    def _directory(self, parts: list[str]) -> Iterator[list[str]]:
        inner: list[list[str]] = []
        with _Opened(self._root, parts) as opened, os.scandir(opened) as entries:
            for entry in entries:
                here = [*parts, entry.name]
                if not _is_text(entry.name):
                    self._omit("/".join(parts), Why.SPECIAL)
                elif not entry.is_dir(follow_symlinks=False):
                    self._entry(entry, "/".join(here))
                elif len(here) > MOST_DEEP:
                    self._omit("/".join(here), Why.DEEP)
                else:
                    inner.append(here)
                    self._count(len(inner))
        return iter(inner)

    def _entry(self, entry: "os.DirEntry[str]", path: str) -> None:
        try:
            self.take(path, entry.stat(follow_symlinks=False))
        except OSError as error:
            self._omit(path, _why(error))

    def _link(self, path: str) -> None:
        """A link is taken for the file that it leads to, when that is in the store; one to a directory is only named."""
        target = os.path.realpath(f"{self._root}/{path}")
        if not target.startswith(f"{self._root.rstrip('/')}/"):
            return self._omit(path, Why.OUTSIDE)
        inside = target[len(self._root.rstrip("/")) + 1 :]
        try:
            found = os.lstat(target)
        except OSError as error:
            return self._omit(path, _why(error), inside)
        if stat.S_ISREG(found.st_mode):
            return self._add(File(path, found.st_size, found.st_mtime, _version(found), inside))
        return self._omit(path, Why.LINK if stat.S_ISDIR(found.st_mode) else Why.OUTSIDE, inside)

    def _add(self, file: File) -> None:
        self._files.append(file)
        self._count()

    def _omit(self, path: str, why: Why, leads_to: str = "") -> None:
        self._omitted.append(Omitted(path, why, leads_to))
        self._count()

    def _count(self, more: int = 0) -> None:
        if len(self._files) + len(self._omitted) + more > self._most:
            raise PortError(f"more than {self._most} files", retryable=False, reason="too-many")


def _bytes(opened: int, file: File, offset: int, length: int) -> bytes:
    _check_version(opened, file)
    pieces = []
    while length > 0:
        piece = os.pread(opened, length, offset)
        if not piece:
            raise PortError(f"{file.path} became shorter while it was read", retryable=True, reason="changed")
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    _check_version(opened, file)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check_version(opened: int, file: File) -> None:
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode) or _version(found) != file.version:
        raise PortError(f"{file.path} changed since it was listed", retryable=True, reason="changed")


def _version(found: os.stat_result) -> str:
    return f"{found.st_ino}:{found.st_mtime_ns}:{found.st_size}"


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if path.startswith("/") or ".." in parts or "." in parts or "\0" in path:
        raise PortError("the path leaves the store", retryable=False, reason=Why.OUTSIDE.value)
    return parts


def _is_text(name: str) -> bool:
    """Whether a file's name is one that can be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _why(error: BaseException) -> Why:
    return _WHY.get(error.errno or 0, Why.FAILED) if isinstance(error, OSError) else Why.OUTSIDE


def _trouble(path: str, error: BaseException) -> PortError:
    said = error.strerror if isinstance(error, OSError) else "links go round in a circle"
    return PortError(f"{path}: {said}", retryable=False, reason=_why(error).value)
