"""How one kind is listed and watched, through everything that an API server does on the way.

Owns pages, lines, resourceVersions, pauses, and what an answer means for a stream. Must not know how requests reach the server,
and puts nothing into an event or an error but the server's own words and ours.
"""

import functools
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog
from urllib3 import exceptions

from fleet.domain import kube
from fleet.domain.kube import RESOURCES, Bookmark, Changed, Deleted, Event, Kind, Listed, Lost, Page, Status
from fleet.ports import PortError, Stopping

log = structlog.get_logger(__name__)

T = TypeVar("T")

_JITTER = random.SystemRandom()

LONGEST_MESSAGE = 300  # a 422 quotes the whole object

# What a connection raises; ValueError and AttributeError where the socket was shut down under urllib3's hands.
BREAKS = (exceptions.HTTPError, OSError, ValueError, AttributeError)


@dataclass(frozen=True)
class Patience:
    """Deadlines and pauses in seconds, and the size of a page."""

    connect_s: float = 3.0
    answer_s: float = 15.0  # until the headers of an answer, and between two pieces of a page
    version_s: float = 2.0
    watch_s: tuple[float, float] = (240.0, 300.0)  # the server ends a watch after a time in this range …
    slack_s: float = 15.0  # … and a peer that is silent for this much longer is gone
    silence_s: float = 150.0  # two bookmarks missed: a server sends one every 60 to 75 s
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0  # eleven streams ask twice a second at most; a server that is back is not waited for
    longest_wait_s: float = 120.0  # the most that a server's Retry-After gets
    healthy_s: float = 60.0  # a stream this old was a good one, also without an event
    short_s: float = 1.0  # a watch that ends sooner and brought nothing did not end in order
    credentials_s: float = 10.0  # the least time between two tries to load other ones after a 401
    page: int = 500


class Server(Protocol):
    """What a stream needs of an API server. Every method raises PortError."""

    @property
    def name(self) -> str: ...

    def read(self, path: str, query: Mapping[str, str]) -> bytes:
        """The body of a successful answer."""

    def watch(self, path: str, query: Mapping[str, str], silence_s: float) -> Any:
        """An accepted watch for `lines`: a urllib3 response whose peer may be silent for `silence_s`."""

    def uid(self) -> str:
        """What tells this cluster from every other one; "" when we may not know."""


class ExpiredError(Exception):
    """Only a fresh list helps: the version is too old, or the server is another one."""


class Follower:
    """One kind's stream. `listed_on` remembers from one stream to the next on which cluster each kind was listed."""

    def __init__(
        self,
        server: Server,
        kind: Kind,
        since: str | None,
        stopping: Stopping,
        patience: Patience,
        listed_on: dict[Kind, str],
    ) -> None:
        self._server, self._kind, self._path = server, kind, RESOURCES[kind].path
        self._since, self._stopping = since, stopping
        self._patience, self._pauses = patience, Pauses(patience)
        self._listed_on = listed_on
        self._lists = 0  # since the server last sent an event
        self._trouble = ""  # what the log was told last
        self._log = log.bind(cluster=server.name, kind=kind.value)

    def events(self) -> Iterator[Event]:
        """List unless there is a version to go on from, then watch, for ever."""
        while not self._stopping.is_set():
            try:
                if self._since is None:
                    yield from self._list()
                else:
                    self._check_server(self._since)
                if self._since is not None and not self._stopping.is_set():
                    yield from self._watch(self._since)
            except ExpiredError as error:
                self._since = None
                if self._lists > 1:  # it expires as soon as it is listed: do not ask without end
                    yield from self._pause(PortError(str(error), retryable=True, status=410, reason="Expired"))
                else:  # until it is listed again, nobody knows what we missed
                    yield Lost(self._kind, "Expired", 0.0)
            except PortError as error:
                yield from self._pause(error)

    def _list(self) -> Iterator[Event]:
        """All pages, as of one version. A page that fails is asked for again: its token lives for minutes."""
        self._lists += 1
        uid, objects, version, token = self._server.uid(), list[kube.Object](), "", ""
        while not self._stopping.is_set():
            try:
                page = self._page({"limit": str(self._patience.page)} | ({"continue": token} if token else {}))
            except PortError as error:
                if error.status == 410:
                    raise ExpiredError("the list's continue token is too old") from error
                if not (token and error.retryable):
                    raise
                yield from self._pause(error)
                continue
            if version and page.resource_version != version:
                raise ExpiredError("the list's pages are not of one version")
            objects += page.objects
            version, token = page.resource_version, page.token
            if not token:
                self._since, self._listed_on[self._kind] = version, uid
                yield Listed(self._kind, tuple(objects), version)
                return

    def _page(self, query: Mapping[str, str]) -> Page:
        return decoded(functools.partial(kube.page, self._kind), self._server.read(self._path, query))

    def _check_server(self, since: str) -> None:
        """Before going on from `since`. To a server that was replaced or restored our version may be one of the future: it
        accepts that, and says nothing until the watch ends."""
        uid = self._server.uid()
        if uid and self._listed_on.setdefault(self._kind, uid) not in {uid, ""}:
            raise ExpiredError("the server is another one")
        if _older(self._page({"limit": "1"}).resource_version, since):
            raise ExpiredError("the server's resourceVersion went back")

    def _watch(self, since: str) -> Iterator[Event]:
        """Events after `since` until the server ends the watch in order, as it does every few minutes."""
        began = time.monotonic()
        try:
            with closing(self._open_watch(since)) as response:
                if self._trouble:
                    self._trouble = ""
                    self._log.info("a stream is open again")
                yield Bookmark(self._kind, since)
                for line in lines(response):
                    event = self._event(line)
                    self._since, self._lists = event.resource_version, 0
                    self._pauses.reset()
                    yield event
        except PortError:
            if time.monotonic() - began > self._patience.healthy_s:
                self._pauses.reset()
            raise
        if self._since == since and time.monotonic() - began < self._patience.short_s:
            raise PortError("the watch ended at once", retryable=True, reason="short watch")

    def _open_watch(self, since: str) -> Any:
        watch_s = _JITTER.uniform(*self._patience.watch_s)  # so that not all watches end together
        query = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(max(1, round(watch_s)))
        try:
            return self._server.watch(self._path, query, self._silence_s(watch_s))
        except PortError as error:
            if error.status == 410:
                raise ExpiredError(str(error)) from error
            raise

    def _silence_s(self, watch_s: float) -> float:
        """How long a stream may say nothing. Events are not in the API server's watch cache, so it sends no bookmarks of them."""
        until_end_s = watch_s + self._patience.slack_s
        return until_end_s if self._kind is Kind.EVENT else min(until_end_s, self._patience.silence_s)

    def _event(self, line: bytes) -> Changed | Deleted | Bookmark:
        event = decoded(functools.partial(kube.watch_line, self._kind), line)
        if isinstance(event, Status):
            if event.expired:
                raise ExpiredError(event.message)
            raise refusal(event.code, event)
        if self._since is not None and _older(event.resource_version, self._since):
            raise ExpiredError("the server's resourceVersion went back")
        return event

    def _pause(self, error: PortError) -> Iterator[Event]:
        """Say what happened, and wait. A stream that broke because we are to stop is no trouble."""
        if self._stopping.is_set():
            return
        pause_s = self._pauses.next(error.retry_after_s)
        if error.reason != self._trouble:  # not once per try: a dead server would fill the log
            self._trouble = error.reason
            self._log.warning("a stream broke", reason=error.reason, message=str(error))
        yield Lost(self._kind, error.reason, pause_s)
        self._stopping.wait(pause_s)


class Pauses:
    """Exponential back-off with jitter, for one thread."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._failures = patience, 0

    def next(self, wanted_s: float) -> float:
        """Seconds to wait now; at least what the server wanted."""
        bound_s = min(self._patience.first_pause_s * 2.0**self._failures, self._patience.longest_pause_s)
        self._failures = min(self._failures + 1, 16)
        pause_s = bound_s * _JITTER.uniform(0.5, 1.0)  # so that not all streams come back together
        return max(pause_s, min(wanted_s, self._patience.longest_wait_s))

    def reset(self) -> None:
        self._failures = 0


def lines(response: Any) -> Iterator[bytes]:
    """Whole lines of a urllib3 response, however its pieces arrive; never half a one. Raises PortError when it breaks."""
    pieces: list[bytes] = []
    try:
        for piece in _pieces(response):
            *whole, rest = piece.split(b"\n")
            if whole:
                whole[0] = b"".join([*pieces, whole[0]])
                pieces.clear()
            pieces.append(rest)
            yield from (line for line in whole if line.strip())
    except BREAKS as error:
        raise broken(error) from None
    if b"".join(pieces).strip():
        raise PortError("the stream ended in the middle of a line", retryable=True, reason="cut off")


def _pieces(response: Any) -> Iterator[bytes]:
    """What has arrived, as soon as it has."""
    if response.chunked:
        yield from response.read_chunked()
        return
    while piece := response.read1(64 * 1024):
        yield piece


def decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    """Raises PortError where something else than the API answered."""
    try:
        return decode(body)
    except ValueError as error:
        message = f"the answer cannot be read: {error}"[:LONGEST_MESSAGE]
        raise PortError(message, retryable=True, reason="unreadable") from error


def refusal(code: int, status: Status, retry_after: str = "") -> PortError:
    """What the server said instead of what we asked for, in an error response or inside a watch."""
    asked_s = float(retry_after) if retry_after.isdecimal() else float(status.details.retry_after_seconds or 0)
    return PortError(
        (status.message or f"the server answered {code}")[:LONGEST_MESSAGE],
        retryable=code in {408, 429} or code >= 500,
        status=code,
        reason=status.reason or f"HTTP {code}",
        retry_after_s=asked_s,
    )


def broken(error: Exception) -> PortError:
    """A connection that could not be made, or broke, in our words: the error's own may hold a proxy's password."""
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "broken")
    if isinstance(error, exceptions.SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
        word = "certificate"
    return PortError(f"{word} ({type(error).__name__})", retryable=True, reason=word)


_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.NameResolutionError, "unknown host"),
    (exceptions.NewConnectionError, "refused"),
    (exceptions.ConnectTimeoutError, "unreachable"),
    (exceptions.TimeoutError, "silent"),
    (TimeoutError, "silent"),
    (exceptions.SSLError, "cut off"),
    (exceptions.ProxyError, "proxy"),
    (exceptions.ProtocolError, "cut off"),
)


def _older(version: str, than: str) -> bool:
    """resourceVersions of one server are decimal numbers that grow; anything else cannot be compared."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
