"""Posting over HTTP: what goes over the line, connections that are kept, and servers that are away, slow or rude."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from fleet.simulation import posting
from fleet.simulation.posting import Door, UnreachableError

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers every request with `answer`; `after` closes a connection after so many."""

    def __init__(self, answer: bytes = ACCEPTED, after: int = 1000) -> None:
        self.answer = answer
        self.after = after
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.first_lines: list[str] = []
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> "Server":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            for _ in range(self.after):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
                self.first_lines.append(first)
                self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
                writer.write(self.answer)
        except EOFError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as made:
        yield made


async def test_what_goes_over_the_line(server: Server) -> None:
    door = Door(f"{server.url}/behind/")
    answer = await door.post(b'{"node":"n0"}', "secret")
    await door.close()
    ((headers, body),) = server.requests
    assert (answer.status, answer.body) == (202, b"ok")
    assert server.first_lines == ["POST /behind/api/v1/readings HTTP/1.1"]
    assert gzip.decompress(body) == b'{"node":"n0"}'
    assert headers["authorization"] == "Bearer secret"
    assert headers["content-encoding"] == "gzip"
    assert headers["host"] == server.url.removeprefix("http://")


async def test_connections_are_kept_and_few(server: Server) -> None:
    door = Door(server.url)
    for _ in range(5):
        await door.post(b"{}", "t")
    assert server.connections == 1
    await asyncio.gather(*(door.post(b"{}", "t") for _ in range(100)))
    assert len(server.requests) == 105
    assert server.connections <= posting.CONNECTIONS
    await door.close()


async def test_a_connection_that_the_server_has_closed_is_no_trouble() -> None:
    async with Server(after=1) as server:
        door = Door(server.url)
        for _ in range(3):
            assert (await door.post(b"{}", "t")).status == 202
        assert server.connections == 3
        await door.close()


async def test_when_to_come_back() -> None:
    busy = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    async with Server(busy) as server:
        door = Door(server.url)
        answer = await door.post(b"{}", "t")
        assert (answer.status, answer.retry_after_s) == (429, 7.0)
        await door.close()


async def test_nobody_there(server: Server) -> None:
    async with Server() as gone:
        door = Door(gone.url)
    with pytest.raises(UnreachableError, match=r"[Cc]onnect"):
        await door.post(b"{}", "t")


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 200_000, b""])
async def test_what_is_no_http_is_nobody(answer: bytes) -> None:
    async with Server(answer, after=1) as server:
        door = Door(server.url)
        with pytest.raises(UnreachableError):
            await door.post(b"{}", "t")
        await door.close()


async def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "DEADLINE_S", 0.05)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(hang, "127.0.0.1", 0)
    door = Door(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    with pytest.raises(UnreachableError, match="no answer within"):
        await door.post(b"{}", "t")
    await door.close()
    listening.close()


async def test_an_answer_without_a_length_ends_its_connection() -> None:
    async with Server(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>") as server:
        door = Door(server.url)
        for _ in range(2):
            assert (await door.post(b"{}", "t")).status == 502
        assert server.connections == 2
        await door.close()


@pytest.mark.parametrize("url", ["", "vigie.example.org", "ftp://x", "http://"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match="http or https"):
        Door(url)
