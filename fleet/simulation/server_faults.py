"""Bad weather in front of the API server: refusals, delays, silence and broken streams, as real servers and proxies make them.

Owns what clients meet instead of an answer. Must not change the cluster, nor know why the weather is bad.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleet.simulation.api import Application, BrokenStreamError, Message, Receive, Scope, Send
from fleet.simulation.auth import Attempt, refused
from fleet.simulation.clock import Clock
from fleet.simulation.exchange import Reply, Request, refusal, target_of, text
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

BUSY = "Too many requests, please try again later.\n"
BROKEN = "etcdserver: request timed out"


class Weather(StrEnum):
    """What a request meets. DROP: its connection ends without an answer. CUT: a watch ends in the middle of a line. MUTE: it is
    carried out, and nobody is told so; whoever waits for long enough hears of a failure.
    """

    BUSY = "429"
    FAILING = "500"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    SLOW = "slow"
    HANG = "hang"
    DROP = "drop"
    CUT = "cut"
    MUTE = "mute"


@dataclass(frozen=True)
class Fault:
    """`share` of the requests meet it; with `plural` only those for that resource, with `method` only those. `seconds`: how slow,
    or Retry-After. `after`: so many of those that it concerns pass first.
    """

    weather: Weather
    share: float = 1.0
    seconds: float = 1.0
    plural: str = ""
    method: str = ""
    after: int = 0


class ServerFaults:
    """An ASGI application around another: with no faults set, everything passes. `drop` ends all connections at once."""

    def __init__(self, app: Application, clock: Clock, seed: int = 1, drop: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self.drop = drop
        self.clock = clock
        self.met = 0  # requests that met a fault
        self._faults: tuple[Fault, ...] = ()
        self._concerned: list[int] = []  # requests by fault
        self._changed = asyncio.Event()
        self._rng = random.Random(f"{seed}/weather")  # noqa: S311 -- not for secrets

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._faults

    def set(self, faults: Iterable[Fault]) -> None:
        """From now on these and no others; whoever hangs is let go."""
        self._faults = tuple(faults)
        self._concerned = [0] * len(self._faults)
        self._changed.set()
        self._changed = asyncio.Event()

    async def restart(self, down_s: float) -> None:
        """What clients see of a server that is killed and started again; `down_s` of the cluster's time."""
        before = self._faults
        self.app.restart()
        self.drop()
        try:
            self.set((Fault(Weather.DROP),))
            await self.clock.sleep(down_s * 0.7)
            self.app.phase = "starting"
            self.set(before)
            await self.clock.sleep(down_s * 0.1)
            self.app.phase = "unready"
            await self.clock.sleep(down_s * 0.2)
        finally:
            self.app.phase = "ready"
            self.set(before)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        fault = self._met(scope)
        if fault is not None and fault.weather is not Weather.CUT:
            self.met += 1
            passed = await self._suffer(fault, scope, receive, send)
            if passed is None:
                return
            receive = passed
        await self.app(scope, receive, self._cutting(scope, send))

    def _met(self, scope: Scope) -> Fault | None:
        """The first fault that this request meets."""
        if not self._faults:
            return None
        target = target_of(scope["path"])
        for number, fault in enumerate(self._faults):
            concerned = not fault.plural or (target is not None and target.plural == fault.plural)
            if not concerned or fault.method not in {"", scope["method"]}:
                continue
            self._concerned[number] += 1
            if self._concerned[number] > fault.after and self._rng.random() < fault.share:
                return fault
        return None

    async def _suffer(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """What the server may receive of it afterwards; None when it never hears of it."""
        match fault.weather:
            case Weather.SLOW:
                await self.clock.sleep(fault.seconds)
                return receive
            case Weather.HANG:
                return await self._hang(receive)
            case Weather.MUTE:
                await self._carry_out(scope, receive)
                await _send(send, refusal(ApiError(500, "", BROKEN)))
            case Weather.DROP:
                self.drop()
                await _gone(receive)
            case _:
                await _read(receive)
                await _send(send, self._refusal(fault, scope))
        return None

    async def _hang(self, receive: Receive) -> Receive | None:
        """No word until the weather changes (then it goes on) or the client gives up."""
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        changed, gone = asyncio.create_task(self._changed.wait()), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((changed, gone), return_when=asyncio.FIRST_COMPLETED)
            return None if gone.done() else _again(messages, receive)
        finally:
            changed.cancel()
            gone.cancel()

    async def _carry_out(self, scope: Scope, receive: Receive) -> None:
        """As asked, but without a word until the weather changes or the client gives up."""
        changed = self._changed

        async def unheard(_: Message) -> None:
            return

        await self.app(scope, receive, unheard)
        waiting, gone = asyncio.create_task(changed.wait()), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            gone.cancel()

    def _refusal(self, fault: Fault, scope: Scope) -> Reply:
        match fault.weather:
            case Weather.BUSY:
                busy = text(BUSY, 429)
                return Reply(429, busy.body, busy.content_type, {"retry-after": str(max(1, round(fault.seconds)))})
            case Weather.UNAUTHORIZED:
                return refusal(ApiError(401, "Unauthorized", "Unauthorized"))
            case Weather.FORBIDDEN:
                return refusal(self._forbidden(scope))
            case _:
                return refusal(ApiError(500, "", BROKEN))

    def _forbidden(self, scope: Scope) -> ApiError:
        request = Request.from_scope(dict(scope), b"")
        target = target_of(request.path)
        user = self.app.auth.authenticate(request.headers)
        if target is None:
            return refused(user, Attempt(request.method.lower(), path=request.path))
        verb = "get" if target.name else "watch" if request.flag("watch") and "watch" in request.query else "list"
        resource = target.resource
        attempt = Attempt(
            verb, resource.group, resource.plural, target.subresource, namespace=target.namespace, name=target.name
        )
        return refused(user, attempt, resource)

    def _cutting(self, scope: Scope, send: Send) -> Send:
        """Sends on; when a stream is to be cut, half of its next chunk and no more."""

        async def sending(message: Message) -> None:
            streamed = message.get("more_body") and len(message.get("body", b"")) > 1
            fault = self._met(scope) if streamed and self._faults else None
            if fault is None or fault.weather is not Weather.CUT:
                await send(message)
                return
            self.met += 1
            body = message["body"]
            await send({**message, "body": body[: len(body) // 2]})
            raise BrokenStreamError

        return sending


async def _read(receive: Receive) -> None:
    """The whole request, so that the connection can be used again."""
    while (await receive()).get("more_body"):
        pass


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Gives `messages` once more, then what comes."""
    left = iter(messages)

    async def receiving() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return receiving


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, answer: Reply) -> None:
    headers = {"content-type": answer.content_type, "content-length": str(len(answer.body)), **answer.headers}
    pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
    await send({"type": "http.response.body", "body": answer.body})
