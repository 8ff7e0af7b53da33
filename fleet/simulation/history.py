"""The objects of one resource and their latest changes: the storage and the watch cache in one.

Owns order, versions and waiting. Must not know what an object means; whoever writes decides that.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from fleet.simulation.refusals import expired

Object = dict[str, Any]
TOO_OLD_LIST = "The resourceVersion for the provided list is too old."


class Record:
    """One version of one object. Its JSON is made once, whoever asks for it and however often."""

    __slots__ = ("_raw", "object", "version")

    def __init__(self, obj: Object, version: int) -> None:
        self.object = obj
        self.version = version
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        if self._raw is None:
            self._raw = msgspec.json.encode(self.object)
        return self._raw

    def copy(self) -> Object:
        """A copy that may be changed."""
        copied: Object = msgspec.json.decode(self.raw)
        return copied


class Change:
    """One event. `record` is the object after it (for DELETED: its last state with the version of the deletion)."""

    __slots__ = ("before", "key", "record", "type")

    def __init__(self, kind: str, key: str, record: Record, before: Record | None) -> None:
        self.type = kind
        self.key = key
        self.record = record
        self.before = before

    @property
    def object(self) -> Object:
        return self.record.object

    @property
    def previous(self) -> Object | None:
        return self.before.object if self.before else None

    @property
    def resource_version(self) -> int:
        return self.record.version


def _release(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class Shelf:
    """All objects of one resource by key ("namespace/name" or "name"), sorted, with a bounded window of changes.

    `floor` is the version since which the window is complete; a watch from below it is too old.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []
        self.floor = 0
        self._capacity = capacity
        self._changes: list[Change] = []
        self._versions: list[int] = []
        self._dropped = 0  # how many changes have left the window: positions count from the very first
        self._waiters: set[asyncio.Future[None]] = set()

    def put(self, kind: str, key: str, record: Record) -> Change:
        """Store `record` under `key` (or remove the key, when `kind` is DELETED) and tell the watchers."""
        before = self.records.get(key)
        if kind == "DELETED":
            del self.records[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if before is None:
                insort(self.keys, key)
            self.records[key] = record
        change = Change(kind, key, record, before)
        self._remember(change)
        return change

    def _remember(self, change: Change) -> None:
        self._changes.append(change)
        self._versions.append(change.record.version)
        if len(self._changes) >= 2 * self._capacity:
            self.floor = self._versions[self._capacity - 1]
            del self._changes[: self._capacity], self._versions[: self._capacity]
            self._dropped += self._capacity
        self.wake()

    def wake(self) -> None:
        for waiter in self._waiters:
            _release(waiter)
        self._waiters.clear()

    def forget(self, version: int) -> None:
        """Empty the window, as a restart does: versions below `version` become too old."""
        self._dropped += len(self._changes)
        self._changes.clear()
        self._versions.clear()
        self.floor = max(self.floor, version)
        self.wake()

    @property
    def end(self) -> int:
        return self._dropped + len(self._changes)

    def position(self, since: int) -> int:
        """Where the changes after version `since` begin; ApiError 410 when some of them are gone."""
        if since < self.floor:
            raise expired(f"too old resource version: {since} ({self.floor})")
        return self._dropped + bisect_right(self._versions, since)

    def at(self, position: int) -> list[Change] | None:
        """The changes from `position` on; None when the window has moved past it."""
        if position < self._dropped:
            return None
        return self._changes[position - self._dropped :]

    def range(self, prefix: str, after: str = "") -> Iterator[tuple[str, Record]]:
        """The records whose key begins with `prefix`, in order, those after key `after` only."""
        start = bisect_right(self.keys, after) if after else bisect_left(self.keys, prefix)
        for index in range(start, len(self.keys)):
            key = self.keys[index]
            if not key.startswith(prefix):
                return
            yield key, self.records[key]

    def count(self, prefix: str, after: str) -> int:
        """How many keys begin with `prefix` and come after `after`."""
        end = bisect_left(self.keys, prefix + "\U0010ffff") if prefix else len(self.keys)
        return end - bisect_right(self.keys, after)

    def as_of(self, version: int) -> "Frozen":
        """The objects as they were at `version`; ApiError 410 when the window no longer reaches back."""
        if version < self.floor:
            raise expired(TOO_OLD_LIST)
        undone: dict[str, Record | None] = {}
        first = bisect_right(self._versions, version)
        for change in self._changes[first:]:
            undone.setdefault(change.key, change.before)
        return Frozen(self, undone)

    async def wait(self, position: int, timeout_s: float | None = None) -> None:
        """Return at once if there is something at `position`, else at the next change, `wake` or the timeout."""
        if position < self.end:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(max(0.0, timeout_s), _release, waiter) if timeout_s is not None else None
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()


class Frozen:
    """A shelf as it was: the present one with the later changes undone."""

    def __init__(self, shelf: Shelf, undone: dict[str, Record | None]) -> None:
        self._shelf = shelf
        self._undone = undone

    def range(self, prefix: str, after: str = "") -> Iterator[tuple[str, Record]]:
        if not self._undone:
            yield from self._shelf.range(prefix, after)
            return
        present = {k for k, _ in self._shelf.range(prefix, after)}
        past = {k for k in self._undone if k.startswith(prefix) and k > after}
        for key in sorted(present | past):
            record = self._undone[key] if key in self._undone else self._shelf.records[key]
            if record is not None:
                yield key, record

    def count(self, prefix: str, after: str) -> int:
        if not self._undone:
            return self._shelf.count(prefix, after)
        return sum(1 for _ in self.range(prefix, after))


class Subscription:
    """An endless, ordered stream of changes. Too slow a reader gets ApiError 410, as a watch does."""

    def __init__(self, shelf: Shelf, since: int) -> None:
        self._shelf = shelf
        self._since = since
        self._position = shelf.position(since)
        self._closed = False

    def take(self) -> list[Change]:
        """The changes that have come since the last call, without waiting."""
        changes = self._shelf.at(self._position)
        if changes is None:
            raise expired(f"too old resource version: {self._since} ({self._shelf.floor})")
        self._position += len(changes)
        if changes and changes[0].resource_version <= self._since:  # subscribed from a version yet to come
            changes = [c for c in changes if c.resource_version > self._since]
        if changes:
            self._since = changes[-1].resource_version
        return changes

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return when `take` may give something, the subscription was closed or the time is up (real seconds)."""
        if not self._closed:
            await self._shelf.wait(self._position, timeout_s)

    def close(self) -> None:
        self._closed = True
        self._shelf.wake()

    async def __aiter__(self) -> AsyncIterator[Change]:
        while not self._closed:
            for change in self.take():
                yield change
            await self.wait()
