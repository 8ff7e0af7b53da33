"""The WebSocket that keeps a page fresh: who may open one, what a browser may say, and how it ends.

Owns the handshake, the frames that come from browsers, and the process's hub. What goes to browsers is made in `feeds`.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import structlog
from channels.db import DatabaseSyncToAsync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError
from django.http import parse_cookie
from msgspec import Meta, Struct

from dashboard import access, clusters, sessions
from dashboard import wall as walls
from dashboard.feeds import Farewell, Held, Socket, Watcher
from dashboard.hub import Hub
from dashboard.models import WallAddress
from fleet.domain.changes import Screen, View

log = structlog.get_logger(__name__)

FIRST_FRAME_WITHIN_S = 10.0
GOODBYE_WITHIN_S = 2.0
FRAME_CHARACTERS = 2_048
NOT_UNDERSTOOD = 4400

T = TypeVar("T")
Q = TypeVar("Q")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Wanted(Struct, forbid_unknown_fields=True):
    """The view that a browser names."""

    screen: Screen
    node: Annotated[str, Meta(max_length=253)] = ""
    workload: Annotated[str, Meta(max_length=520)] = ""  # "Kind/namespace/name"


class Hello(Struct, forbid_unknown_fields=True):
    """A browser's first frame. The screen of all clusters names none."""

    view: Wanted
    cluster: Annotated[str, Meta(max_length=253)] = ""


class Refetch(Struct, forbid_unknown_fields=True):
    """A browser's only other frame: it has noticed a gap, of one cluster where it looks at several."""

    t: Literal["refetch"]
    cluster: Annotated[str, Meta(max_length=253)] = ""


class ProtocolError(Exception):
    """A browser said something that is not in the protocol."""


class Disconnected(Exception):  # noqa: N818  (an event, not a failure)
    """The browser is gone."""


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application behind `/ws/`: for people, by their session."""
    await _open(scope, receive, send, _person)


async def wall(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application behind `/wall/ws/`: the wall's view and no other, by its address's cookie or by a session."""
    await _open(scope, receive, send, _screen)


Identify = Callable[[Scope], Awaitable["Welcome | Farewell"]]


@dataclass(frozen=True)
class Welcome:
    """Who opened a socket, and what they may see on it."""

    watcher: Watcher  # without a cluster yet
    clusters: Sequence[str]
    screens: Collection[Screen] = frozenset(Screen) - {Screen.EVERYTHING}


async def _open(scope: Scope, receive: Receive, send: Send, identify: Identify) -> None:
    await receive()  # websocket.connect
    if not access.same_origin(scope["headers"]):
        await send({"type": "websocket.close"})  # not accepted yet, so the handshake itself fails, with 403
        return
    await send({"type": "websocket.accept"})
    try:
        await _serve(await identify(scope), receive, send)
    except ProtocolError:
        await send({"type": "websocket.close", "code": NOT_UNDERSTOOD})
    except (Disconnected, OSError):  # a server may tell by OSError that nobody is there any more
        return


async def _person(scope: Scope) -> Welcome | Farewell:
    session = cookie(scope, settings.SESSION_COOKIE_NAME)
    found = (await _query(access.visitors, [session])).get(session)
    if found is None or not access.may(found.role, "socket"):
        return Farewell.SIGNED_OUT if found is None else Farewell.FORBIDDEN
    return Welcome(Watcher("", session=session), await asyncio.to_thread(access.visible, found.roles))


async def _screen(scope: Scope) -> Welcome | Farewell:
    secret = cookie(scope, settings.VIGIE_WALL_COOKIE)
    address = await _query(walls.recognise, secret)
    if address is not None:
        return Welcome(Watcher("", wall=secret), [address.cluster], {Screen.WALL})
    found = await _person(scope)
    return found if isinstance(found, Farewell) else replace(found, screens={Screen.WALL})


async def _serve(found: Welcome | Farewell, receive: Receive, send: Send) -> None:
    if isinstance(found, Farewell):
        await _part(send, found)
        return
    try:
        hello = _decode(await asyncio.wait_for(_text(receive), FIRST_FRAME_WITHIN_S), Hello)
    except TimeoutError as error:
        raise ProtocolError("no first frame") from error
    if hello.view.screen not in found.screens:
        raise ProtocolError("not a view of this socket")
    every = hello.view.screen is Screen.CLUSTERS
    known = set(await asyncio.to_thread(clusters.names)) & set(found.clusters)
    names = [name for name in found.clusters if name in known and (every or name == hello.cluster)]
    if not names and not every:
        await _part(send, Farewell.UNKNOWN_CLUSTER)
        return
    view = View(hello.view.screen, hello.view.node, hello.view.workload)
    await _follow([Socket(replace(found.watcher, cluster=name), view) for name in names], receive, send)


async def _follow(sockets: Sequence[Socket], receive: Receive, send: Send) -> None:
    """Carry frames both ways until the browser leaves, says something strange, or we send it away."""
    joined, turn = hub(), asyncio.Lock()
    for socket in sockets:
        joined.join(socket)
    bodies = [_read(sockets, receive), *(_write(s, send, turn) for s in sockets), *(_overdue(s) for s in sockets)]
    ways = [asyncio.create_task(body) for body in bodies]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for socket in sockets:
            joined.leave(socket)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _write(socket: Socket, send: Send, turn: asyncio.Lock) -> None:
    while not isinstance(found := await socket.take(), Farewell):
        async with turn:  # several clusters share one connection
            await send({"type": "websocket.send", "text": found})
    async with turn:
        await _part(send, found)


async def _read(sockets: Sequence[Socket], receive: Receive) -> None:
    while True:
        wanted = _decode(await _text(receive), Refetch)
        for socket in sockets:
            if wanted.cluster in {"", socket.cluster}:
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


def cookie(scope: Scope, name: str) -> str:
    """The value of a browser's cookie, "" for none."""
    cookies = [value.decode("latin-1") for header, value in scope["headers"] if header.lower() == b"cookie"]
    return parse_cookie("; ".join(cookies)).get(name, "")


async def ended(watchers: Collection[Watcher]) -> Mapping[Watcher, Farewell]:
    """Which of these may look no more, and why."""
    found = await _query(_ended, watchers)
    # Beside it: a database that is locked for writing must keep nobody's page open who has lost the right to it.
    noting = asyncio.create_task(_note_seen({w.session for w in watchers if w.session and w not in found}))
    _notes.add(noting)
    noting.add_done_callback(_notes.discard)
    return found


_notes: set[asyncio.Task[None]] = set()


async def _note_seen(keys: Collection[str]) -> None:
    try:
        await _query(sessions.seen, keys)
    except DatabaseError as error:
        log.warning("when sessions were last seen cannot be noted", reason=str(error))


def _ended(watchers: Collection[Watcher]) -> dict[Watcher, Farewell]:
    """A handful of queries for any number."""
    visitors = access.visitors({watcher.session for watcher in watchers if watcher.session})
    screens = walls.living([watcher.wall for watcher in watchers if watcher.wall])
    bearers = access.bearers({watcher.token for watcher in watchers if watcher.token})
    found = {watcher: _refusal(watcher, visitors, screens, bearers) for watcher in watchers}
    return {watcher: reason for watcher, reason in found.items() if reason is not None}


def _refusal(
    watcher: Watcher,
    visitors: Mapping[str, access.Visitor],
    screens: Mapping[str, WallAddress],
    bearers: Mapping[int, access.Visitor],
) -> Farewell | None:
    if watcher.wall:
        return None if watcher.wall in screens else Farewell.SIGNED_OUT
    visitor = bearers.get(watcher.token) if watcher.token else visitors.get(watcher.session)
    if visitor is None:
        return Farewell.SIGNED_OUT
    return None if access.may(visitor.roles.on(watcher.cluster), "socket") else Farewell.FORBIDDEN


async def _query(question: Callable[[Q], T], about: Q) -> T:
    """Ask the database in a thread."""
    found: T = await DatabaseSyncToAsync(question, thread_sensitive=False)(about)
    return found


def read_picture(cluster: str) -> Held | None:
    """One cluster as the picture holds it; blocks."""
    found = clusters.published(cluster)
    if found is None:
        return None
    return Held(found.snapshot, found.version, found.pulse.at, found.pulse.trouble, found.pulse.said_at)


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hubs() -> list[Hub]:
    """Of every event loop of this process."""
    return list(_hubs.values())


def hub() -> Hub:
    """The hub of this process; of this event loop, which in a process that serves is the same."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(get_channel_layer(), read_picture, ended)
    return _hubs[loop]
