"""The API server on a port: how it starts, how its streams break or end, how it stops."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml

from fleet.simulation.clock import RealClock
from fleet.simulation.server import ADMIN, ApiServer
from fleet.simulation.store import Store


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(Store(RealClock(), seed=1))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def client(server: ApiServer) -> httpx.AsyncClient:
    trusting = ssl.create_default_context(cadata=server.ca_pem.decode())
    headers = {"authorization": f"Bearer {server.auth.issue(ADMIN)}"}
    return httpx.AsyncClient(base_url=server.url, verify=trusting, headers=headers, timeout=10)


async def watched(server: ApiServer, calling: httpx.AsyncClient) -> list[str]:
    """The lines of a watch of namespaces until it ends."""
    lines = []
    async with calling.stream(
        "GET", "/api/v1/namespaces", params={"watch": "true", "timeoutSeconds": "60"}
    ) as response:
        async for line in response.aiter_lines():
            lines.append(line)  # noqa: PERF401 -- a broken stream raises, and what came before does not matter
    return lines


async def opened(server: ApiServer, count: int = 1) -> None:
    for _ in range(500):
        if server.app.open_watches == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.app.open_watches} watches are open, not {count}")


async def test_stopping_ends_streams_cleanly_and_soon(server: ApiServer) -> None:
    async with client(server) as calling:
        watching = asyncio.create_task(watched(server, calling))
        await opened(server)
        began = time.monotonic()
        await server.stop()
        assert len(await watching) == 4
        assert time.monotonic() - began < 5
        with pytest.raises(httpx.ConnectError):
            await calling.get("/version")


async def test_streams_can_be_cut_either_way(server: ApiServer) -> None:
    async with client(server) as calling:
        watching = asyncio.create_task(watched(server, calling))
        await opened(server)
        assert server.app.cut_streams() == 1
        assert len(await watching) == 4
        watching = asyncio.create_task(watched(server, calling))
        await opened(server)
        server.app.restart()
        with pytest.raises(httpx.RemoteProtocolError):
            await watching
        assert (await calling.get("/readyz")).text == "ok"


async def test_a_client_that_goes_is_forgotten(server: ApiServer) -> None:
    async with client(server) as calling:
        watching = asyncio.create_task(watched(server, calling))
        await opened(server)
        watching.cancel()
        await opened(server, 0)


async def test_a_taken_port_is_said_to_be_so(server: ApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        await ApiServer(Store(RealClock())).start(port)


async def test_a_kubeconfig_replaces_a_readable_file(server: ApiServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    server.write_kubeconfig(path)
    assert path.stat().st_mode & 0o777 == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "rehearsal"
    assert document["clusters"][0]["cluster"]["server"] == server.url
    token = document["users"][0]["user"]["token"]
    assert server.auth.user_of(token) == ADMIN
