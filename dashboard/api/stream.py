"""Server-Sent Events: what a page's socket gets, for programs.

Owns the frames as events, where a stream begins, and how many there may be. What is sent, and how a slow reader is treated, is
for `feeds` to say: nothing waits for it, it loses its queue and gets a snapshot. Must not block the event loop.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus

import msgspec
from django.contrib.auth.models import User
from django.http import HttpRequest, StreamingHttpResponse

from dashboard import access, consumers
from dashboard.api.answers import Refused
from dashboard.feeds import Farewell, Socket, Watcher
from fleet.domain.changes import Screen, Version, View

VIEWS = f"^({'|'.join(sorted(set(Screen) - {Screen.WALL, Screen.CLUSTERS}))})$"
MOST = 200  # in one process
MOST_EACH = 10  # of one account in one process
COME_AGAIN_S = 2

_open: Counter[int] = Counter()  # streams that run, by account


class Start(msgspec.Struct):
    """The beginning of a frame."""

    t: str
    v: tuple[int, int]


def follow(request: HttpRequest, cluster: str, view: View) -> StreamingHttpResponse:
    """The stream of one view. After a `Last-Event-ID` that is still the newest nothing is repeated. Raises Refused."""
    user = request.user
    if not isinstance(user, User) or _open[user.pk] >= MOST_EACH or _open.total() >= MOST:
        wait = {"Retry-After": "30"}
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, f"At most {MOST_EACH} streams of one account at a time.", wait)
    token = access.token_of(request)
    watcher = Watcher(cluster, token=token.pk) if token else Watcher(cluster, session=request.session.session_key or "")
    socket = Socket(watcher, view, version(request.headers.get("Last-Event-ID", "")))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(_events(socket, user.pk), content_type="text/event-stream", headers=headers)


async def _events(socket: Socket, account: int) -> AsyncIterator[bytes]:
    """Ends with the session or the token that opened it, or when nobody is there any more."""
    hub = consumers.hub()
    _open[account] += 1
    hub.join(socket)
    try:
        yield f"retry: {COME_AGAIN_S * 1000}\n\n".encode()
        while not isinstance(frame := await socket.take(), Farewell):
            yield event(frame)
        yield f"event: bye\ndata: {frame.frame}\n\n".encode()
    finally:
        hub.leave(socket)
        _open[account] -= 1


def event(frame: str) -> bytes:
    """A frame as an event. A pulse has no id, because whoever comes back wants what was missed since the last change."""
    start = msgspec.json.decode(frame, type=Start)
    last = "" if start.t == "pulse" else f"id: {start.v[0]}-{start.v[1]}\n"
    return f"event: {start.t}\n{last}data: {frame}\n\n".encode()


def version(event_id: str) -> Version | None:
    """The version that an event's id names; None for none of ours."""
    found = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", event_id)
    return Version(int(found[1]), int(found[2])) if found else None
