"""The WebSocket that keeps a page fresh: who may open one, what a browser may say, and how it ends.

Owns the handshake, the frames that come from browsers, and the process's hub. What goes to browsers is made in `feeds`.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from channels.db import DatabaseSyncToAsync
from channels.layers import get_channel_layer
from django.conf import settings
from django.http import parse_cookie
from msgspec import Meta, Struct

from dashboard import access, clusters
from dashboard.feeds import Farewell, Held, Socket
from dashboard.hub import Hub
from fleet.domain.changes import Screen, View

FIRST_FRAME_WITHIN_S = 10.0
GOODBYE_WITHIN_S = 2.0
FRAME_CHARACTERS = 2_048
NOT_UNDERSTOOD = 4400

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Wanted(Struct, forbid_unknown_fields=True):
    """The view that a browser names."""

    screen: Screen
    node: Annotated[str, Meta(max_length=253)] = ""


class Hello(Struct, forbid_unknown_fields=True):
    """A browser's first frame."""

    cluster: Annotated[str, Meta(max_length=253)]
    view: Wanted


class Refetch(Struct, forbid_unknown_fields=True):
    """A browser's only other frame: it has noticed a gap."""

    t: Literal["refetch"]


class ProtocolError(Exception):
    """A browser said something that is not in the protocol."""


class Disconnected(Exception):  # noqa: N818  (an event, not a failure)
    """The browser is gone."""


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application behind `/ws/`."""
    await receive()  # websocket.connect
    if not access.same_origin(scope["headers"]):
        await send({"type": "websocket.close"})  # not accepted yet, so the handshake itself fails, with 403
        return
    await send({"type": "websocket.accept"})
    try:
        await _serve(session_key(scope), receive, send)
    except ProtocolError:
        await send({"type": "websocket.close", "code": NOT_UNDERSTOOD})
    except (Disconnected, OSError):  # a server may tell by OSError that nobody is there any more
        return


async def _serve(session: str, receive: Receive, send: Send) -> None:
    if (refused := (await ended([session])).get(session)) is not None:
        await _part(send, refused)
        return
    try:
        hello = _decode(await asyncio.wait_for(_text(receive), FIRST_FRAME_WITHIN_S), Hello)
    except TimeoutError as error:
        raise ProtocolError("no first frame") from error
    if hello.cluster not in await asyncio.to_thread(clusters.names):
        await _part(send, Farewell.UNKNOWN_CLUSTER)
        return
    await _follow(Socket(session, hello.cluster, View(hello.view.screen, hello.view.node)), receive, send)


async def _follow(socket: Socket, receive: Receive, send: Send) -> None:
    """Carry frames both ways until the browser leaves, says something strange, or we send it away."""
    joined = hub()
    joined.join(socket)
    ways = [asyncio.create_task(way) for way in (_write(socket, send), _read(socket, receive), _overdue(socket))]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        joined.leave(socket)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _write(socket: Socket, send: Send) -> None:
    while not isinstance(found := await socket.take(), Farewell):
        await send({"type": "websocket.send", "text": found})
    await _part(send, found)


async def _read(socket: Socket, receive: Receive) -> None:
    while True:
        _decode(await _text(receive), Refetch)
        socket.restart()


async def _overdue(socket: Socket) -> None:
    """A browser that does not read would keep us from saying goodbye: then it goes without."""
    await socket.dismissed.wait()
    await asyncio.sleep(GOODBYE_WITHIN_S)


async def _part(send: Send, reason: Farewell) -> None:
    await send({"type": "websocket.send", "text": reason.frame})
    await send({"type": "websocket.close", "code": reason.code, "reason": reason.value})


async def _text(receive: Receive) -> str:
    """The next text frame. Raises Disconnected, or ProtocolError for one that no page of ours sends."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise Disconnected
    text = message.get("text")
    if text is None or len(text) > FRAME_CHARACTERS:
        raise ProtocolError("not a short text frame")
    return str(text)


def _decode(text: str, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=wanted)
    except msgspec.DecodeError as error:
        raise ProtocolError(str(error)) from error


def session_key(scope: Scope) -> str:
    """The session that the browser's cookie names, "" for none."""
    cookies = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"cookie"]
    return parse_cookie("; ".join(cookies)).get(settings.SESSION_COOKIE_NAME, "")


async def ended(sessions: Collection[str]) -> Mapping[str, Farewell]:
    """Which of these sessions may not use the socket, and why."""
    found = await DatabaseSyncToAsync(access.visitors, thread_sensitive=False)(sessions)
    return {session: reason for session in sessions if (reason := _refusal(found.get(session))) is not None}


def _refusal(visitor: access.Visitor | None) -> Farewell | None:
    if visitor is None:
        return Farewell.SIGNED_OUT
    return None if access.may(visitor.role, "socket") else Farewell.FORBIDDEN


def read_picture(cluster: str) -> Held | None:
    """One cluster as the picture holds it; blocks."""
    found = clusters.published(cluster)
    return None if found is None else Held(found.snapshot, found.version, found.pulse.at, found.pulse.trouble)


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of this process; of this event loop, which in a process that serves is the same."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(get_channel_layer(), read_picture, ended)
    return _hubs[loop]
