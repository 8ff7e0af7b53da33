"""Telling the web processes, through the channel layer, that a picture has changed.

Owns the way from a writer's thread to the channel layer's event loop: the web server's own loop when the process has
one (`attach`), else a background thread's. Must never hold a writer up or fail it: whoever misses a notice sees the gap
at the next one.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import structlog
from channels.layers import get_channel_layer

from fleet.domain.changes import Version
from fleet.live.published import Pulse

GROUP = "picture"
SEND_WITHIN_S = 2.0
MOST_WAITING = 200

log = structlog.get_logger(__name__)


def delta_notice(cluster: str, version: Version, pulse: Pulse | None, delta: bytes) -> dict[str, Any]:
    """`delta`: the JSON that leads from n - 1 to n; empty when the picture is new and has to be read again."""
    at = pulse.at if pulse else 0.0
    head = {"type": "picture.delta", "cluster": cluster, "epoch": version.epoch, "n": version.n}
    return head | {"at": at, "delta": delta}


def pulse_notice(cluster: str, version: Version, pulse: Pulse) -> dict[str, Any]:
    head = {"type": "picture.pulse", "cluster": cluster, "epoch": version.epoch, "n": version.n}
    return head | {"at": pulse.at, "trouble": [list(entry) for entry in pulse.trouble]}


class Notices:
    """Sends to the group "picture" in order, from any thread, without waiting. `failures` counts what was not sent."""

    def __init__(self, layer: Callable[[], Any] = get_channel_layer) -> None:
        self.failures = 0
        self._layer = layer
        self._lock = threading.Lock()
        self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._order = asyncio.Lock()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send on `loop` from now on."""
        with self._lock:
            self._loop, self._order = loop, asyncio.Lock()

    def send(self, notice: Mapping[str, Any]) -> None:
        with self._lock:
            loop, full = self._running_loop(), self._waiting >= MOST_WAITING
            order = self._order
            self._waiting += not full
        if full:
            self._failed("too many notices are waiting")
            return
        sending = self._send(notice, order)
        try:
            asyncio.run_coroutine_threadsafe(sending, loop).add_done_callback(self._done)
        except RuntimeError as error:  # the loop is closed: the web server has stopped before us
            sending.close()
            with self._lock:
                self._waiting -= 1
            self._failed(str(error))

    async def _send(self, notice: Mapping[str, Any], order: asyncio.Lock) -> None:
        layer = self._layer()
        if layer is None:
            raise RuntimeError("no channel layer is configured")
        async with order:
            await asyncio.wait_for(layer.group_send(GROUP, dict(notice)), SEND_WITHIN_S)

    def _done(self, future: "Future[None]") -> None:
        with self._lock:
            self._waiting -= 1
        if future.cancelled():
            self._failed("the event loop has stopped")
        elif error := future.exception():
            self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        self.failures += 1
        log.warning("a notice was not sent", reason=reason, failures=self.failures)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop, self._order = asyncio.new_event_loop(), asyncio.Lock()
            threading.Thread(target=self._loop.run_forever, name="notices", daemon=True).start()
        return self._loop
