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
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import encode

from fleet.domain import changes
from fleet.domain.changes import Delta, Screen, TableDelta, Version, View
from fleet.domain.picture import Snapshot
from fleet.live import Loss, Pulse

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
    """Everything that a view shows. Frames of a view of several clusters say which one they are about."""

    v: tuple[int, int]
    at: float
    now: float
    tables: Raw
    cluster: str | UnsetType = UNSET


class DeltaFrame(Struct, tag_field="t", tag="delta"):
    """A change: to be applied by whoever is at `prev` or later, but not at `v` yet."""

    prev: tuple[int, int]
    v: tuple[int, int]
    at: float
    tables: dict[str, TableDelta]
    cluster: str | UnsetType = UNSET


class PulseFrame(Struct, tag_field="t", tag="pulse"):
    """Nothing changed. `v`: what a view that missed nothing has reached, [0, 0] before there is a picture.

    `lost`: what is shown is known not to be kept true, whatever its age; `reason` then says why (a `live.Loss`).
    """

    v: tuple[int, int]
    at: float
    now: float
    trouble: Trouble
    lost: bool
    reason: Loss
    cluster: str | UnsetType = UNSET


@dataclass
class Held:
    """One cluster as this process knows it. Seconds since 1970: `at`, when the writer last knew that it is true; `heard_at`, when
    it last said anything."""

    snapshot: Snapshot
    version: Version
    at: float
    trouble: Trouble
    heard_at: float = 0.0

    def loss(self, now: float) -> Loss:
        return Pulse(self.at, tuple(self.trouble), self.heard_at).loss(now)


@dataclass(frozen=True)
class Watcher:
    """By what right a socket looks at a cluster: a session's key, the cookie of a wall's address, or the number of a token."""

    cluster: str
    session: str = ""
    wall: str = ""
    token: int = 0


class Socket:
    """One browser's end of one cluster: what is still to be sent to it."""

    def __init__(self, watcher: Watcher, view: View, have: Version | None = None) -> None:
        self.watcher = watcher
        self.view = view
        self._have = have  # what whoever comes back has seen
        self._stream: Stream | None = None
        self._frames: deque[str] = deque()
        self._behind = True  # wants a snapshot before anything else
        self._beat: str | None = None  # the last pulse, for a socket for which there is no snapshot yet
        self._farewell: Farewell | None = None
        self.dismissed = asyncio.Event()
        self._wake = asyncio.Event()

    @property
    def cluster(self) -> str:
        return self.watcher.cluster

    @property
    def queued(self) -> int:
        return len(self._frames)

    def attach(self, stream: "Stream") -> None:
        self._stream = stream
        if stream.sent is not None:
            self.begin(stream.sent)

    def begin(self, version: Version) -> None:
        """Send a snapshot next, unless `version` is what the other end has already."""
        if version == self._have:
            self._behind, self._have = False, None
        else:
            self.restart()

    def restart(self) -> None:
        """Forget what is queued and send a snapshot next."""
        self._have = None
        self._frames.clear()
        self._behind = True
        self._wake.set()

    def offer(self, frame: str) -> bool:
        """Queue a frame; a socket that is behind gets it as part of its snapshot. False: its queue was full, it starts again."""
        if self._behind:
            return True
        if len(self._frames) >= QUEUE_FRAMES:
            self.restart()
            return False
        self._frames.append(frame)
        self._wake.set()
        return True

    def beat(self, frame: str) -> None:
        """Queue a pulse. Before there is a picture it is all that a page hears."""
        if self._behind:
            self._beat = frame
            self._wake.set()
        else:
            self.offer(frame)

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
        beat, self._beat = self._beat, None
        snapshot = self._stream.snapshot() if self._stream is not None else None
        self._behind = snapshot is None
        return snapshot or beat


class Stream:
    """One distinct view of one cluster, and the sockets that show it."""

    def __init__(self, cluster: str, view: View, held: Callable[[], Held | None], now: Callable[[], float]) -> None:
        self.view = view
        self.sockets: set[Socket] = set()
        self._cluster = cluster if view.screen is Screen.CLUSTERS else UNSET
        self._held = held
        self._now = now
        # Deltas that do not touch the view are not sent, so this may lag behind the picture.
        self.sent: Version | None = None
        self._tables: tuple[Version, Raw] | None = None

    def snapshot(self) -> str | None:
        """The full state as a frame, encoded once per version however many ask; None before there is a picture."""
        held = self._held()
        if held is None:
            return None
        if self._tables is None or self._tables[0] != held.version:
            self._tables = (held.version, Raw(changes.encode(changes.rows(held.snapshot, self.view))))
        at, now = _s(held.at), _s(self._now())
        return _text(SnapshotFrame(_wire(held.version), at, now, self._tables[1], self._cluster))

    def restart(self, held: Held) -> None:
        """The picture jumped: everybody needs all of it."""
        self.sent = held.version
        for socket in self.sockets:
            socket.begin(held.version)

    def change(self, delta: Delta, old: Snapshot, held: Held) -> int:
        """Send what of `delta` this view shows, if anything. Returns how many sockets were too slow for it."""
        part = changes.filtered(delta, self.view, old, held.snapshot)
        if part is None or self.sent is None:
            return 0
        frame = _text(DeltaFrame(_wire(self.sent), _wire(held.version), _s(held.at), part.tables, self._cluster))
        self.sent = held.version
        return sum(not socket.offer(frame) for socket in self.sockets)

    def pulse(self, at: float, trouble: Trouble, loss: Loss) -> None:
        version = _wire(self.sent or Version(0, 0))
        frame = _text(PulseFrame(version, _s(at), _s(self._now()), trouble, bool(loss), loss, self._cluster))
        for socket in self.sockets:
            socket.beat(frame)


class Feed:
    """One cluster: the last known picture and its streams. `stale` asks the hub to read the picture again."""

    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self.streams: dict[View, Stream] = {}
        self.held: Held | None = None
        self.stale = True
        self.pulsed_at = 0.0
        self.slow = 0  # how often a socket was dropped to a fresh snapshot
        self._cluster = cluster
        self._now = now
        self._before: Trouble = ()  # what keeps the first picture away

    def join(self, socket: Socket) -> None:
        stream = self.streams.get(socket.view)
        if stream is None:
            stream = self.streams[socket.view] = Stream(self._cluster, socket.view, lambda: self.held, self._now)
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
            self.held.heard_at = max(self.held.heard_at, held.heard_at)
            return
        self.held = held
        for stream in self.streams.values():
            stream.restart(held)

    def receive(self, message: dict[str, Any]) -> None:
        """A change or a pulse from the writer. One that does not follow from what we have makes the feed stale."""
        version, held = Version(message["epoch"], message["n"]), self.held
        if held is None:
            self._before = message.get("trouble", self._before)
        if held is None or held.version.epoch != version.epoch:
            self.stale = True
            return
        if version < held.version or (version == held.version and message["type"] == "picture.delta"):
            return  # old news: it was in the snapshot that we read
        held.heard_at = self._now()
        if (
            message["type"] == "picture.delta"
            and held.version == Version(version.epoch, version.n - 1)
            and message["delta"]
        ):
            self._change(held, version, message)
        elif message["type"] == "picture.pulse" and held.version == version:
            held.at, held.trouble = message["at"], message["trouble"]
            self.pulse()
        else:
            self.stale = True

    def pulse(self) -> None:
        """Let every page know that we are here, and how old what it shows is."""
        now, held = self._now(), self.held
        self.pulsed_at = now
        at, trouble, loss = (held.at, held.trouble, held.loss(now)) if held else (0.0, self._before, Loss.NO_PICTURE)
        for stream in self.streams.values():
            stream.pulse(at, trouble, loss)

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
        self.slow += sum(stream.change(delta, old, held) for stream in self.streams.values())


def _wire(version: Version) -> tuple[int, int]:
    return (version.epoch, version.n)


def _s(seconds: float) -> float:
    return round(seconds, 3)


def _text(frame: object) -> str:
    return encode(frame).decode()
