"""Bad weather in front of the API server, as a client over a real socket meets it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from fleet.simulation.clock import ManualClock, RealClock
from fleet.simulation.server import ADMIN, READER, ApiServer
from fleet.simulation.server_faults import Fault, ServerFaults, Weather
from fleet.simulation.store import Store
from tests.simulation.test_server import opened

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(Store(RealClock(20.0), seed=1))
    made.front = ServerFaults(made.app, made.app.store.clock, drop=made.drop_connections)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.fixture
async def calling(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    trusting = ssl.create_default_context(cadata=server.ca_pem.decode())
    headers = {"authorization": f"Bearer {server.auth.issue(ADMIN)}"}
    async with httpx.AsyncClient(base_url=server.url, verify=trusting, headers=headers, timeout=10) as made:
        yield made


def faults(server: ApiServer) -> ServerFaults:
    found: ServerFaults = server.front
    return found


async def test_good_weather_lets_everything_pass(server: ApiServer, calling: httpx.AsyncClient) -> None:
    assert (await calling.get(PODS)).status_code == 200
    assert faults(server).met == 0


async def test_too_busy_says_when_to_come_back_and_is_no_budget(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.BUSY, seconds=2)])
    answer = await calling.get(PODS)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.text == "Too many requests, please try again later.\n"
    faults(server).set([])
    assert (await calling.get(PODS)).status_code == 200


async def test_failing_and_refused_credentials(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.FAILING)])
    answer = await calling.post("/api/v1/namespaces/default/pods", json={"metadata": {"name": "a"}})
    assert answer.status_code == 500
    assert answer.json() == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "etcdserver: request timed out", "code": 500,
    }  # fmt: skip
    faults(server).set([Fault(Weather.UNAUTHORIZED)])
    assert (await calling.get(PODS)).json()["reason"] == "Unauthorized"
    assert faults(server).met == 2


async def test_one_kind_may_be_forbidden(server: ApiServer) -> None:
    trusting = ssl.create_default_context(cadata=server.ca_pem.decode())
    headers = {"authorization": f"Bearer {server.auth.issue(READER)}"}
    faults(server).set([Fault(Weather.FORBIDDEN, plural="pods")])
    async with httpx.AsyncClient(base_url=server.url, verify=trusting, headers=headers) as reader:
        assert (await reader.get(NODES)).status_code == 200
        answer = await reader.get(PODS, params={"watch": "true"})
        assert answer.status_code == 403
        wanted = 'pods is forbidden: User "reader" cannot watch resource "pods" in API group "" at the cluster scope'
        assert answer.json()["message"] == wanted


async def test_slow_takes_the_clusters_time(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.SLOW, seconds=4)])
    began = asyncio.get_running_loop().time()
    assert (await calling.get(PODS)).status_code == 200
    assert 0.2 <= asyncio.get_running_loop().time() - began < 5.0


async def test_hanging_ends_with_the_weather(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.HANG)])
    hanging = asyncio.create_task(calling.post("/api/v1/namespaces", json={"metadata": {"name": "late"}}))
    await asyncio.sleep(0.2)
    assert not hanging.done()
    faults(server).set([])
    assert (await hanging).status_code == 201


async def test_bad_weather_may_come_after_some_requests(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.FAILING, plural="nodes", method="GET", after=2)])
    assert [(await calling.get(NODES)).status_code for _ in range(4)] == [200, 200, 500, 500]
    assert (await calling.get(PODS)).status_code == 200


async def test_what_was_carried_out_and_never_answered(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.MUTE, plural="namespaces", method="POST")])
    hanging = asyncio.create_task(calling.post("/api/v1/namespaces", json={"metadata": {"name": "late"}}))
    known: list[str] = []
    while "late" not in known:
        known = [n["metadata"]["name"] for n in (await calling.get("/api/v1/namespaces")).json()["items"]]
    assert not hanging.done()
    faults(server).set([])
    assert (await hanging).status_code == 500
    assert (await calling.get(PODS)).status_code == 200


async def test_a_client_may_give_up_a_hanging_request(server: ApiServer, calling: httpx.AsyncClient) -> None:
    faults(server).set([Fault(Weather.HANG)])
    with pytest.raises(httpx.ReadTimeout):
        await calling.get(PODS, timeout=0.2)


async def test_a_stream_is_cut_in_the_middle_of_a_line(server: ApiServer, calling: httpx.AsyncClient) -> None:
    received = b""

    async def watch() -> None:
        nonlocal received
        async with calling.stream("GET", "/api/v1/namespaces", params={"watch": "true"}) as answer:
            async for chunk in answer.aiter_bytes():
                received += chunk

    watching = asyncio.create_task(watch())
    await opened(server)
    faults(server).set([Fault(Weather.CUT)])
    assert (await calling.get(NODES)).status_code == 200, "only streams are cut"
    server.app.store.create("namespaces", {"metadata": {"name": "late"}}, manager="test")
    with pytest.raises(httpx.RemoteProtocolError):
        await watching
    whole, _, rest = received.rpartition(b"\n")
    assert all(json.loads(line)["type"] == "ADDED" for line in whole.splitlines())
    assert rest.startswith(b'{"type":"ADDED"')
    assert b"}\n" not in rest


async def test_a_restart_drops_then_doubts_then_serves(server: ApiServer, calling: httpx.AsyncClient) -> None:
    version = (await calling.get(NODES)).json()["metadata"]["resourceVersion"]
    restarting = asyncio.create_task(faults(server).restart(20.0))
    await asyncio.sleep(0.05)
    with pytest.raises(httpx.TransportError):
        await calling.get(PODS)
    await restarting
    assert (await calling.get("/readyz")).text == "ok"
    server.app.store.create("nodes", {"metadata": {"name": "a"}}, manager="test")
    answer = await calling.get(NODES, params={"watch": "true", "resourceVersion": str(int(version) - 1)})
    assert answer.json()["object"]["reason"] == "Expired"


async def test_a_share_of_requests_is_met_the_same_way_each_time() -> None:
    app = ApiServer(Store(ManualClock(), seed=1)).app

    async def statuses() -> list[int]:
        weather = ServerFaults(app, app.store.clock, seed=7)
        app.hosts.add("rehearsal")
        weather.set([Fault(Weather.FAILING, 0.5)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(weather), base_url="https://rehearsal") as calling:
            return [(await calling.get("/readyz")).status_code for _ in range(40)]

    first = await statuses()
    assert await statuses() == first
    assert 5 < first.count(500) < 35
