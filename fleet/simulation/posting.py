"""Posts readings to Vigie's address over HTTP, as an agent on a node does: keep-alive, compressed, one deadline per request.

Owns connections and bytes. Must not know what a reading says, nor when to try again: agents.py does.
"""

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

DEADLINE_S = 10.0
CONNECTIONS = 16  # at most, for all nodes together
LONGEST_ANSWER_BYTES = 65_536
PATH = "/api/v1/readings"
GZIP = 16 + zlib.MAX_WBITS


class UnreachableError(Exception):
    """Nobody answered as an HTTP server does; the text says why."""


@dataclass(frozen=True)
class Answer:
    """`retry_after_s`: None when the server does not say."""

    status: int
    body: bytes = b""
    retry_after_s: float | None = None


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """Vigie's door at a base URL; ValueError for what is no http or https URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"readings go to an http or https address, not to {url!r}")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = f"{parts.path.rstrip('/')}{PATH}"
        self._netloc = parts.netloc.rpartition("@")[2]
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(CONNECTIONS)

    async def post(self, body: bytes, token: str) -> Answer:
        """UnreachableError, also when there is no answer within DEADLINE_S."""
        request = self._request(body, token)
        try:
            async with self._places, asyncio.timeout(DEADLINE_S):
                return await self._exchange(request)
        except TimeoutError:
            raise UnreachableError(f"no answer within {DEADLINE_S:g} s") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise UnreachableError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        while self._idle:
            await _close(self._idle.pop())

    def _request(self, body: bytes, token: str) -> bytes:
        packer = zlib.compressobj(1, zlib.DEFLATED, GZIP)
        packed = packer.compress(body) + packer.flush()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        )
        return head.encode("latin-1") + packed

    async def _exchange(self, request: bytes) -> Answer:
        """On a connection that is open, else on a new one: a server may have closed the old one meanwhile."""
        while self._idle:
            async with self._returned(self._idle.pop()) as connection:
                with contextlib.suppress(OSError, EOFError):
                    return await self._ask(connection, request)
        context = ssl.create_default_context() if self._tls else None
        async with self._returned(await asyncio.open_connection(self._host, self._port, ssl=context)) as connection:
            return await self._ask(connection, request)

    @contextlib.asynccontextmanager
    async def _returned(self, connection: Connection) -> AsyncIterator[Connection]:
        """Keep the connection afterwards if it is still good for another request."""
        kept = False
        try:
            yield connection
            kept = not (connection[0].at_eof() or connection[1].is_closing())
        finally:
            if kept:
                self._idle.append(connection)
            else:
                await _close(connection)

    @staticmethod
    async def _ask(connection: Connection, request: bytes) -> Answer:
        reader, writer = connection
        writer.write(request)
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"no HTTP answer: {lines[0][:40]!r}")
        status = int(rest[:3])
        length = int(headers.get("content-length", "-1"))
        if not 0 <= length <= LONGEST_ANSWER_BYTES or headers.get("connection", "").lower() == "close":
            writer.close()
        body = await reader.readexactly(length) if 0 <= length <= LONGEST_ANSWER_BYTES else b""
        return Answer(status, body, _seconds(headers.get("retry-after", "")))


def _seconds(text: str) -> float | None:
    """A Retry-After that is a number; a date is not read."""
    return float(text) if text.isdigit() else None


async def _close(connection: Connection) -> None:
    connection[1].close()
    with contextlib.suppress(OSError):
        await connection[1].wait_closed()
