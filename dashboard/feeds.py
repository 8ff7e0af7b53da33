"""What one cluster's sockets are sent: frames, one stream per distinct view, a bounded queue per socket.

Owns the frames on the wire and their versions, and how a slow socket is treated. Filtering and encoding happen once per distinct
view, however many look at it. Must not do any I/O: the hub brings changes here, and the consumers carry frames away.

A socket never waits for another. One that does not keep up loses its queue and gets a fresh snapshot when it can take one, so
nothing grows, whatever a browser does.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from msgspec import Raw, Struct
from msgspec.json import encode

from fleet.domain import changes
from fleet.domain.changes import Delta, TableDelta, Version, View
from fleet.domain.picture import Snapshot

log = structlog.get_logger(__name__)

QUEUE_FRAMES = 64  # about six seconds at ten changes a second

Trouble = Sequence[tuple[str, str, float]]  # (kind or "server", reason, for how many seconds)


class Farewell(StrEnum):
    """Why we close a socket. A browser gets the word, then the close code."""

    SIGNED_OUT = "signed-out"
    FORBIDDEN = "forbidden"
    UNKNOWN_CLUSTER = "unknown-cluster"

    @property
    def code(self) -> int:
        return {Farewell.SIGNED_OUT: 4401, Farewell.FORBIDDEN: 4403, Farewell.UNKNOWN_CLUSTER: 4404}[self]

    @property
    def frame(self) -> str:
        return _text({"t": "bye", "reason": self})


class SnapshotFrame(Struct, tag_field="t", tag="snapshot"):
    """Everything that a view shows."""

    v: tuple[int, int]
    at: float
    now: float
    tables: Raw


class DeltaFrame(Struct, tag_field="t", tag="delta"):
    """A change: to be applied by whoever is at `prev` or later, but not at `v` yet."""

    prev: tuple[int, int]
    v: tuple[int, int]
    at: float
    tables: dict[str, TableDelta]


class PulseFrame(Struct, tag_field="t", tag="pulse"):
    """Nothing changed. `v`: what a view that missed nothing has reached."""

    v: tuple[int, int]
    at: float
    now: float
    trouble: Trouble


@dataclass
class Held:
    """One cluster as this process knows it. `at`: when the writer last knew that it is true, in seconds since 1970."""

    snapshot: Snapshot
    version: Version
    at: float
    trouble: Trouble


class Socket:
    """One browser's end: what is still to be sent to it."""

    def __init__(self, session: str, cluster: str, view: View) -> None:
        self.session = session
        self.cluster = cluster
        self.view = view
        self._stream: Stream | None = None
        self._frames: deque[str] = deque()
        self._behind = True  # wants a snapshot before anything else
        self._farewell: Farewell | None = None
        self.dismissed = asyncio.Event()
        self._wake = asyncio.Event()

    @property
    def queued(self) -> int:
        return len(self._frames)

    def attach(self, stream: "Stream") -> None:
        self._stream = stream
        self.restart()

    def restart(self) -> None:
        """Forget what is queued and send a snapshot next."""
        self._frames.clear()
        self._behind = True
        self._wake.set()

    def offer(self, frame: str) -> None:
        """Queue a frame; a socket that is behind gets it as part of its snapshot."""
        if self._behind:
            return
        if len(self._frames) >= QUEUE_FRAMES:
            self.restart()
            return
        self._frames.append(frame)
        self._wake.set()

    def dismiss(self, reason: Farewell) -> None:
        """Say goodbye instead of whatever was to be sent."""
        self._farewell = reason
        self.dismissed.set()
        self._wake.set()

    async def take(self) -> str | Farewell:
        """The next thing to send, waiting for it."""
        while True:
            self._wake.clear()
            if (found := self._next()) is not None:
                return found
            await self._wake.wait()

    def _next(self) -> str | Farewell | None:
        if self._farewell is not None:
            return self._farewell
        if not self._behind:
            return self._frames.popleft() if self._frames else None
        snapshot = self._stream.snapshot() if self._stream is not None else None
        self._behind = snapshot is None
        return snapshot


class Stream:
    """One distinct view of one cluster, and the sockets that show it."""

    def __init__(self, view: View, held: Callable[[], Held | None], now: Callable[[], float]) -> None:
        self.view = view
        self.sockets: set[Socket] = set()
        self._held = held
        self._now = now
        self._sent: Version | None = (
            None  # deltas that do not touch the view are not sent, so this may lag behind the picture
        )
        self._tables: tuple[Version, Raw] | None = None

    def snapshot(self) -> str | None:
        """The full state as a frame, encoded once per version however many ask; None before there is a picture."""
        held = self._held()
        if held is None:
            return None
        if self._tables is None or self._tables[0] != held.version:
            self._tables = (held.version, Raw(changes.encode(changes.rows(held.snapshot, self.view))))
        return _text(SnapshotFrame(_wire(held.version), _s(held.at), _s(self._now()), self._tables[1]))

    def restart(self, held: Held) -> None:
        """The picture jumped: everybody needs all of it."""
        self._sent = held.version
        for socket in self.sockets:
            socket.restart()

    def change(self, delta: Delta, old: Snapshot, held: Held) -> None:
        """Send what of `delta` this view shows, if anything."""
        part = changes.filtered(delta, self.view, old, held.snapshot)
        if part is None or self._sent is None:
            return
        self._broadcast(DeltaFrame(_wire(self._sent), _wire(held.version), _s(held.at), part.tables))
        self._sent = held.version

    def pulse(self, held: Held) -> None:
        if self._sent is not None:
            self._broadcast(PulseFrame(_wire(self._sent), _s(held.at), _s(self._now()), held.trouble))

    def _broadcast(self, frame: Struct) -> None:
        text = _text(frame)
        for socket in self.sockets:
            socket.offer(text)


class Feed:
    """One cluster: the last known picture and its streams. `stale` asks the hub to read the picture again."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.streams: dict[View, Stream] = {}
        self.held: Held | None = None
        self.stale = True
        self.pulsed_at = 0.0
        self._now = now

    def join(self, socket: Socket) -> None:
        stream = self.streams.get(socket.view)
        if stream is None:
            stream = self.streams[socket.view] = Stream(socket.view, lambda: self.held, self._now)
            if self.held is not None:
                stream.restart(self.held)
        stream.sockets.add(socket)
        socket.attach(stream)

    def leave(self, socket: Socket) -> None:
        stream = self.streams.get(socket.view)
        if stream is not None:
            stream.sockets.discard(socket)
            if not stream.sockets:
                del self.streams[socket.view]

    def adopt(self, held: Held) -> None:
        """Take what was read from the picture, unless it is what we have."""
        self.stale = False
        if self.held is not None and self.held.version == held.version:
            self.held.at, self.held.trouble = max(self.held.at, held.at), held.trouble
            return
        self.held = held
        for stream in self.streams.values():
            stream.restart(held)

    def receive(self, message: dict[str, Any]) -> None:
        """A change or a pulse from the writer. One that does not follow from what we have makes the feed stale."""
        version, held = Version(message["epoch"], message["n"]), self.held
        follows = Version(version.epoch, version.n - 1)
        if held is None or held.version.epoch != version.epoch:
            self.stale = True
        elif version < held.version or (version == held.version and message["type"] == "picture.delta"):
            return  # old news: it was in the snapshot that we read
        elif message["type"] == "picture.delta" and held.version == follows and message["delta"]:
            self._change(held, version, message)
        elif message["type"] == "picture.pulse" and held.version == version:
            held.at, held.trouble = message["at"], message["trouble"]
            self.pulse()
        else:
            self.stale = True

    def pulse(self) -> None:
        """Let every page know that we are here, and how old what it shows is."""
        if self.held is not None:
            self.pulsed_at = self._now()
            for stream in self.streams.values():
                stream.pulse(self.held)

    def _change(self, held: Held, version: Version, message: dict[str, Any]) -> None:
        try:
            delta = changes.decode(message["delta"])
            snapshot = changes.apply(held.snapshot, delta)
        except ValueError:
            log.exception("a delta does not fit; the picture is read again", version=_wire(version))
            self.stale = True
            return
        old = held.snapshot
        held.snapshot, held.version, held.at = snapshot, version, max(held.at, message["at"])
        for stream in self.streams.values():
            stream.change(delta, old, held)


def _wire(version: Version) -> tuple[int, int]:
    return (version.epoch, version.n)


def _s(seconds: float) -> float:
    return round(seconds, 3)


def _text(frame: object) -> str:
    return encode(frame).decode()
