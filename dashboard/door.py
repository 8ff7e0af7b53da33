"""The door for readings: `POST /api/v1/readings`, beside Django and without its ORM or sessions.

Owns HTTP: what is read, within which bounds, and what is answered. Every refusal is counted by its reason, and the last ones are
named in the log. Must not know what a reading means.

    body         one Reading as JSON, at most 256 KiB, perhaps gzip
    headers      Authorization: Bearer …, Vigie-Cluster: NAME (where several clusters are watched)
    202          accepted
    400 413 415  it cannot be used, and will not be the next time
    401 403      whose token it is, or is not
    409          not after the last reading of this agent
    429 503      come back after Retry-After
"""

import asyncio
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler

from dashboard import clusters
from dashboard.errors import PROBLEM
from fleet import live, wiring
from fleet.domain.callers import Caller, Refusal
from fleet.domain.flaws import flaw
from fleet.domain.gpus import Reading
from fleet.live import Offered, PictureError, Received
from fleet.recognition import Recognition

log = structlog.get_logger(__name__)

PATH: Final = "/api/v1/readings"
MOST_BYTES: Final = 262_144
BODY_WITHIN_S: Final = 5.0
ASK_WITHIN_S: Final = 5.0
MOST_ASKING: Final = 64  # requests that wait for a token review; the next one is told to come back
MOST_OFFERING: Final = 1000  # readings in memory on their way into the buffer
PER_S, BURST = 1.0, 10.0  # readings of one node
MOST_NODES: Final = 20_000
NAMED_EVERY_S: Final = 60.0  # the same refusal of the same node in the log
GZIP: Final = 16 + zlib.MAX_WBITS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_READINGS = msgspec.json.Decoder(Reading)


class RefusedError(Exception):
    """There is no answer but this problem."""

    def __init__(self, status: int, reason: str, detail: str, retry_after_s: int = 0) -> None:
        super().__init__(detail)
        self.status, self.reason, self.detail, self.retry_after_s = status, reason, detail, retry_after_s


class GoneError(Exception):
    """The caller has hung up."""


class Door:
    """An ASGI application for one process. `accepted` and `refused` count what it answered since it began."""

    def __init__(self, recognition: Recognition | None = None) -> None:
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self._given = recognition
        self._asking = self._offering = 0
        self._paces: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._named: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._reviews = ThreadPoolExecutor(8, "token reviews")
        self._offers = ThreadPoolExecutor(4, "readings")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told: dict[str, str] = {}  # what is known so far, for the log
        try:
            await self._take(scope, receive, told)
        except RefusedError as refused:
            self._count(refused, told)
            await _refuse(send, refused)
        except GoneError:
            self.refused[told.get("cluster", ""), "broken-off"] += 1
        else:
            self.accepted[told["cluster"]] += 1
            await _answer(send, HTTPStatus.ACCEPTED, [])

    async def _take(self, scope: Scope, receive: Receive, told: dict[str, str]) -> None:
        """One request from its head to the buffer, the cheapest checks first."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        _check_head(scope["method"], headers)
        cluster = told["cluster"] = _cluster(headers.get(b"vigie-cluster", ""))
        caller = await self._caller(cluster, headers.get(b"authorization", ""))
        told["node"] = caller.node
        self._pace(cluster, caller.node)
        body = await _body(receive)
        packed = headers.get(b"content-encoding", "").strip().lower() == "gzip"
        if self._offering >= MOST_OFFERING:
            raise RefusedError(503, "store", "Readings cannot be kept fast enough now.", 5)
        self._offering += 1
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._offers, _offer, cluster, caller.node, body, packed)
        finally:
            self._offering -= 1

    async def _caller(self, cluster: str, authorization: str) -> Caller:
        """Who calls. Raises RefusedError."""
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise RefusedError(401, "no-token", "Send the agent's token: Authorization: Bearer …")
        recognition = self._given or wiring.recognition()
        verdict = recognition.known(cluster, token) or await self._asked(recognition, cluster, token)
        if isinstance(verdict, Refusal):
            raise RefusedError(verdict.status, verdict.reason, verdict.detail, 5 if verdict.status == 503 else 0)
        return verdict

    async def _asked(self, recognition: Recognition, cluster: str, token: str) -> Caller | Refusal:
        """Reviews run on few threads, so a flood of new tokens cannot take more of us than that."""
        if self._asking >= MOST_ASKING:
            raise RefusedError(503, "unreviewed", "Too many tokens are being reviewed now.", 2)
        self._asking += 1
        try:
            asked = asyncio.get_running_loop().run_in_executor(self._reviews, recognition.ask, cluster, token)
            return await asyncio.wait_for(asked, ASK_WITHIN_S)
        except TimeoutError:
            raise RefusedError(503, "unreviewed", "The cluster takes too long to review the token.", 5) from None
        finally:
            self._asking -= 1

    def _pace(self, cluster: str, node: str) -> None:
        """A node may hand in one reading a second, and ten at once."""
        now, key = time.monotonic(), (cluster, node)
        left, at = self._paces.get(key, (BURST, now))
        left = min(BURST, left + (now - at) * PER_S)
        if left < 1:
            raise RefusedError(429, "too-often", "This node hands in more than a reading a second.", 5)
        self._paces[key] = (left - 1, now)
        self._paces.move_to_end(key)
        if len(self._paces) > MOST_NODES:
            self._paces.popitem(last=False)

    def _count(self, refused: RefusedError, told: dict[str, str]) -> None:
        cluster, node = told.get("cluster", ""), told.get("node", "")
        self.refused[cluster, refused.reason] += 1
        now, key = time.monotonic(), (cluster, node, refused.reason)
        if now - self._named.get(key, -NAMED_EVERY_S) < NAMED_EVERY_S:
            return
        self._named[key] = now
        self._named.move_to_end(key)
        if len(self._named) > MOST_NODES:
            self._named.popitem(last=False)
        log.warning(
            "a reading was refused", cluster=cluster, node=node, reason=refused.reason, words=refused.detail[:300]
        )


door = Door()


def beside(pages: ASGIHandler) -> Application:
    """The door at its path, and everything else as before."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PATH:
            await door(scope, receive, send)
        else:
            await pages(scope, receive, send)  # type: ignore[arg-type]  # the same protocol in other words

    return application


def _check_head(method: str, headers: dict[bytes, str]) -> None:
    if method != "POST":
        raise RefusedError(405, "method", "Readings are handed in with POST.")
    if settings.VIGIE_SECURE and headers.get(b"x-forwarded-proto", "").strip() != "https":
        raise RefusedError(403, "plain", "A token must not travel in the open: use https.")
    if headers.get(b"content-encoding", "").strip().lower() not in {"", "identity", "gzip"}:
        raise RefusedError(415, "encoding", "The body may be plain or gzip.")
    length = headers.get(b"content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise _too_large()


def _cluster(asked: str) -> str:
    known = clusters.names()
    if asked in known:
        return asked
    if asked or len(known) != 1:
        raise RefusedError(400, "cluster", "Name the cluster in the header Vigie-Cluster, as Vigie calls it.")
    return known[0]


async def _body(receive: Receive) -> bytes:
    """Raises RefusedError when there is more than may be, or it takes too long; GoneError when the caller hangs up."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BYTES:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise RefusedError(408, "slow", f"The body did not come within {BODY_WITHIN_S:g} s.") from None


def _offer(cluster: str, node: str, body: bytes, packed: bool) -> None:
    """Body of a thread: decode, check, hand over. Raises RefusedError."""
    reading = _reading(_unpacked(body) if packed else body)
    if reading.node != node:
        raise RefusedError(403, "other-node", f"The token is of node {node}, the reading of {reading.node[:253]!r}.")
    if words := flaw(reading):
        raise RefusedError(400, "broken", words)
    try:
        offered = live.gpus().offer(cluster, Received(time.time(), reading))
    except OverflowError:
        raise RefusedError(400, "broken", "A number has more than 64 bits.") from None
    except PictureError as error:
        log.warning("readings cannot be kept", cluster=cluster, reason=str(error))
        raise RefusedError(503, "store", "Readings cannot be kept now.", 5) from None
    if offered is Offered.FULL:
        raise RefusedError(429, "full", "Too many readings wait to be assessed.", 10)
    if offered is Offered.REPLAYED:
        raise RefusedError(409, "replayed", "A reading of this agent with this sequence, or a later one, was accepted.")


def _unpacked(body: bytes) -> bytes:
    """What gzip holds, never more than may be. Raises RefusedError."""
    unpacking = zlib.decompressobj(GZIP)
    try:
        found = unpacking.decompress(body, MOST_BYTES + 1)
    except zlib.error:
        raise RefusedError(400, "broken", "The body is not gzip.") from None
    if len(found) > MOST_BYTES:
        raise _too_large()
    if not unpacking.eof or unpacking.unused_data:
        raise RefusedError(400, "broken", "The body is not one whole gzip member.")
    return found


def _reading(body: bytes) -> Reading:
    try:
        return _READINGS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, "broken", f"The body is no reading: {error}"[:500]) from None


def _too_large() -> RefusedError:
    return RefusedError(413, "too-large", f"A reading has at most {MOST_BYTES} bytes, unpacked.")


async def _refuse(send: Send, refused: RefusedError) -> None:
    status = HTTPStatus(refused.status)
    body = msgspec.json.encode(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": refused.detail}
    )
    headers = [(b"content-type", PROBLEM.encode())]
    if refused.retry_after_s:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="vigie readings"'))
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    await _answer(send, status, headers, body)


async def _answer(send: Send, status: HTTPStatus, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
