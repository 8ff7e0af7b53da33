"""Where trainers save: a claim that several nodes mount is a real folder on this machine, a bucket is one where an object store
was named, everything else is only remembered.

Owns the folders and how many of them may be real. Must not know what is written there: training_runs.py does.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from fleet.simulation.clock import Clock, wall

MOST_REAL = 40  # folders that are really written, however large the fleet is
OURS = ".rehearsal"  # marks the folder that is emptied at each start
CLAIMS = "claims"


class Kind(StrEnum):
    CLAIM = "claim"
    BUCKET = "bucket"
    NODE = "node"  # hostPath
    POD = "pod"  # emptyDir, or the container's own file system


@dataclass(frozen=True)
class Place:
    """`root`: namespace/claim, a bucket, a node's or a pod's own name; `path` below it, plain."""

    kind: Kind
    root: str
    path: str


class Folder(Protocol):
    """Paths are relative to it; an entry is what is directly in it. OSError when it cannot be written."""

    visible: bool  # from outside the rehearsal
    grows: bool  # a file can be there in part

    def write(self, path: str, content: bytes, at: float, *, more: bool) -> None:
        """A new file, or, with `more`, further bytes of one, as of the cluster's time `at`."""

    def rename(self, path: str, to: str) -> None: ...

    def remove(self, entry: str) -> None: ...

    def paths(self) -> set[str]:
        """All files."""


class Remembered:
    """Names alone."""

    visible = grows = False

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def write(self, path: str, content: bytes, at: float, *, more: bool) -> None:  # noqa: ARG002 -- as every folder
        self._paths.add(path)

    def rename(self, path: str, to: str) -> None:
        moved = {known for known in self._paths if _is_in(known, path)}
        self._paths -= moved
        self._paths |= {to + known[len(path) :] for known in moved}

    def remove(self, entry: str) -> None:
        self._paths = {known for known in self._paths if not _is_in(known, entry)}

    def paths(self) -> set[str]:
        return set(self._paths)


class Real:
    """A folder of this machine. Files bear the cluster's time, as the wall has it."""

    visible = grows = True

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root = root
        self._clock = clock

    def write(self, path: str, content: bytes, at: float, *, more: bool) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab" if more else "wb") as file:
            file.write(content)
        moment = wall(self._clock, at)
        os.utime(target, (moment, moment))

    def rename(self, path: str, to: str) -> None:
        (self.root / path).rename(self.root / to)

    def remove(self, entry: str) -> None:
        target = self.root / entry
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def paths(self) -> set[str]:
        return {str(found.relative_to(self.root)) for found in self.root.rglob("*") if found.is_file()}


class Places:
    """Real folders are below the one that was opened; before that, and beyond MOST_REAL, all are remembered. `objects`: the
    address of an S3 server, "" there is none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.objects = ""
        self._home: Path | None = None
        self._folders: dict[Place, Folder] = {}

    def open(self, home: Path, roots: Iterable[str] = ()) -> None:
        """Take `home`/claims, emptied, with a folder for each of `roots`. OSError when it cannot be written; ValueError when it
        is somebody else's."""
        claims = home / CLAIMS
        if claims.exists():
            if not (claims / OURS).exists():
                raise ValueError(f"{claims} was not made by the rehearsal: it would be emptied")
            shutil.rmtree(claims)
        claims.mkdir(parents=True)
        (claims / OURS).touch()
        for root in roots:
            (claims / root).mkdir(parents=True)
        self._home = claims

    def folder(self, place: Place) -> Folder:
        if place not in self._folders:
            self._folders[place] = self._made(place)
        return self._folders[place]

    def forget(self, gone: Callable[[Place], bool]) -> None:
        """What was in these is lost."""
        self._folders = {place: folder for place, folder in self._folders.items() if not gone(place)}

    def _made(self, place: Place) -> Folder:
        if sum(folder.visible for folder in self._folders.values()) >= MOST_REAL:
            return Remembered()
        if place.kind is Kind.BUCKET and self.objects:
            from fleet.simulation.checkpoint_buckets import Bucket  # half a second, for what few have

            return Bucket(self.objects, place.root.partition("://")[2], place.path)
        if self._home is None or place.kind is not Kind.CLAIM:
            return Remembered()
        root = self._home / place.root / place.path
        root.mkdir(parents=True, exist_ok=True)
        return Real(root, self._clock)


def _is_in(path: str, entry: str) -> bool:
    return path == entry or path.startswith(f"{entry}/")
