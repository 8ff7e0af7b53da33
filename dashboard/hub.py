"""The hub: one per web process; hears every change once and hands each cluster's feed what concerns it.

Owns the single subscription to the channel layer, reading the picture again after a gap, and closing the sockets of sessions that
ended. Must not touch the database or the API server itself; reading the picture goes through a thread.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

import structlog

from dashboard.feeds import Farewell, Feed, Held, Socket, Watcher
from dashboard.goodbyes import PEOPLE
from fleet.live import GROUP, PictureError

log = structlog.get_logger(__name__)

PULSE_AFTER_S = 1.0  # of the writer's silence; with the tick a page hears something at least every two seconds
TICK_S = 1.0
CHECK_PEOPLE_EVERY_S = 5.0  # a right that ended closes its sockets within seconds, also where nobody announces it
CHECK_WITHIN_S = 10.0
RETRY_AFTER_S = 2.0
STOP_WITHIN_S = 1.0
CANCEL_AGAIN_S = 0.1
WAITING_MESSAGES = 1000  # kept while the picture is read; more of them make the read worthless anyway


class Layer(Protocol):
    """The part of a channel layer that one subscription needs."""

    async def new_channel(self) -> str: ...
    async def group_add(self, group: str, channel: str) -> None: ...
    async def group_discard(self, group: str, channel: str) -> None: ...
    async def receive(self, channel: str) -> dict[str, Any]: ...


Read = Callable[[str], Held | None]  # blocking; None before the first snapshot
Check = Callable[[Collection[Watcher]], Awaitable[Mapping[Watcher, Farewell]]]  # → those who may look no more, and why


class Hub:
    """All sockets of one process, on one event loop. Starts with the first socket."""

    def __init__(self, layer: Layer, read: Read, check: Check, now: Callable[[], float] = time.time) -> None:
        self._layer = layer
        self._read = read
        self._check = check
        self._now = now
        self._feeds: dict[str, Feed] = {}
        self._sockets: set[Socket] = set()
        self._reading: dict[str, list[dict[str, Any]]] = {}  # cluster → messages that arrived while its picture is read
        self._tasks: set[asyncio.Task[None]] = set()
        self._channel = ""
        self._checked_at = now()
        self._checking = self._check_again = False
        self._slow = 0  # of feeds that nobody looks at any more

    @property
    def watched(self) -> dict[str, int]:
        """Number of sockets by cluster."""
        return dict(Counter(socket.cluster for socket in list(self._sockets)))

    @property
    def slow(self) -> int:
        """How often a socket did not keep up and was dropped to a fresh snapshot."""
        return self._slow + sum(feed.slow for feed in list(self._feeds.values()))

    @property
    def queued(self) -> int:
        """Frames that wait to be sent, in the longest queue."""
        return max((socket.queued for socket in list(self._sockets)), default=0)

    def join(self, socket: Socket) -> None:
        """Send this socket a snapshot, then every change of its view, until it leaves."""
        if not self._tasks:
            self._start(self._listen())
            self._start(self._tick())
        self._sockets.add(socket)
        feed = self._feeds.get(socket.cluster)
        if feed is None:
            feed = self._feeds[socket.cluster] = Feed(socket.cluster, self._now)
        feed.join(socket)
        self._refresh_if_stale(socket.cluster, feed)

    def leave(self, socket: Socket) -> None:
        self._sockets.discard(socket)
        feed = self._feeds.get(socket.cluster)
        if feed is not None:
            feed.leave(socket)
            if not feed.streams:
                self._slow += feed.slow
                del self._feeds[socket.cluster]

    async def stop(self) -> None:
        """End the subscription; sockets are the server's to close."""
        while self._tasks:
            # More than once where it must be: a cancellation that meets Redis' answer is swallowed (wait_for of Python 3.11).
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=CANCEL_AGAIN_S)
        if self._channel:
            try:
                await asyncio.wait_for(self._layer.group_discard(GROUP, self._channel), STOP_WITHIN_S)
            except Exception as error:  # noqa: BLE001  (whatever a layer raises that has stopped before us)
                log.warning("the channel layer was gone before us", reason=repr(error))
            self._channel = ""

    def receive(self, message: dict[str, Any]) -> None:
        """One message of the group: for a cluster that nobody looks at it is nothing."""
        if message["type"] == PEOPLE:
            self._look_at_people()
            return
        cluster = message["cluster"]
        feed = self._feeds.get(cluster)
        if feed is None:
            return
        if (waiting := self._reading.get(cluster)) is not None:
            if len(waiting) < WAITING_MESSAGES:
                waiting.append(message)
            return
        feed.receive(message)
        self._refresh_if_stale(cluster, feed)

    async def check_people(self) -> None:
        """Close the sockets of everybody who has signed out, was disabled or lost the role since, and of revoked walls."""
        ended = await self._check({socket.watcher for socket in self._sockets})
        for socket in self._sockets:
            if socket.watcher in ended:
                socket.dismiss(ended[socket.watcher])

    async def tick(self) -> None:
        """What happens without a message: pulses while the writer is silent, another look at the picture where it is missing,
        and at the sessions. Nothing here that waits may hold the pulses up."""
        self._refresh_all()
        for feed in self._feeds.values():
            if self._now() - feed.pulsed_at >= PULSE_AFTER_S:
                feed.pulse()
        if self._now() - self._checked_at >= CHECK_PEOPLE_EVERY_S:
            self._look_at_people()
        if self._channel:
            await self._layer.group_add(GROUP, self._channel)  # the in-memory layer forgets members after a while

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        """Hear the group for ever. After a failure what was missed is read."""
        while True:
            try:
                # Kept through failures: a layer holds on to what it was asked for, so asking anew each time would pile up there.
                self._channel = self._channel or await self._layer.new_channel()
                await self._layer.group_add(GROUP, self._channel)
                self._refresh_all()
                while True:
                    self.receive(await self._layer.receive(self._channel))
            except Exception:
                log.exception("the channel layer failed; trying again", after_s=RETRY_AFTER_S)
            for feed in self._feeds.values():
                feed.stale = True
            await asyncio.sleep(RETRY_AFTER_S)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.tick()
            except Exception:
                log.exception("the hub's tick failed; the next one tries again")

    def _look_at_people(self) -> None:
        """One look at a time; whoever asks for one meanwhile gets another one after it."""
        self._checked_at, self._check_again = self._now(), True
        if not self._checking and self._tasks:
            self._checking = True
            self._start(self._check_quietly())

    async def _check_quietly(self) -> None:
        while self._check_again:
            self._check_again = False
            try:
                await asyncio.wait_for(self.check_people(), CHECK_WITHIN_S)
            except Exception:
                log.exception("who may look cannot be checked; trying again", after_s=CHECK_PEOPLE_EVERY_S)
        self._checking = False

    def _refresh_all(self) -> None:
        for cluster, feed in self._feeds.items():
            self._refresh_if_stale(cluster, feed)

    def _refresh_if_stale(self, cluster: str, feed: Feed) -> None:
        if feed.stale and cluster not in self._reading:
            self._reading[cluster] = []
            self._start(self._refresh(cluster))

    async def _refresh(self, cluster: str) -> None:
        """Read the picture, then apply what arrived meanwhile; still stale when there is none, or when it could not be read."""
        held = None
        try:
            held = await asyncio.to_thread(self._read, cluster)
        except PictureError as error:
            log.warning("the picture cannot be read; the next tick tries again", cluster=cluster, reason=str(error))
        except Exception:
            log.exception("reading the picture failed; the next tick tries again", cluster=cluster)
        finally:
            waiting = self._reading.pop(cluster)
        feed = self._feeds.get(cluster)
        if held is None or feed is None:
            return
        feed.adopt(held)
        for message in waiting:
            feed.receive(message)
        self._refresh_if_stale(cluster, feed)
