"""One subscription per process: reading after a gap, silence, sessions that end, and a layer that fails."""

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from dashboard import hub as hub_module
from dashboard.feeds import Farewell, Held, Socket, Watcher
from dashboard.hub import Hub
from fleet.domain.changes import Screen, Version, View
from fleet.live import PictureError
from tests.dashboard.pictures import nodes

WITHIN_S = 5


class Layer:
    """A channel layer with one subscriber."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[dict | Exception] = asyncio.Queue()
        self.members: list[str] = []
        self.subscriptions = 0

    async def new_channel(self) -> str:
        self.subscriptions += 1
        return f"channel-{self.subscriptions}"

    async def group_add(self, group: str, channel: str) -> None:
        assert group == "picture"
        if channel not in self.members:
            self.members.append(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self.members.remove(channel)

    async def receive(self, channel: str) -> dict:
        found = await self.queue.get()
        if isinstance(found, Exception):
            raise found
        return found


class World:
    """A hub, and what it stands on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.held: dict[str, Held | Exception | None] = {"paris": Held(nodes(2), Version(1, 1), 990.0, [], 1000.0)}
        self.reads = 0
        self.gate = threading.Event()
        self.gate.set()
        self.ended: dict[str, Farewell] = {}
        self.checks = 0
        self.checking: asyncio.Event | None = None
        self.layer = Layer()
        self.hub = Hub(self.layer, self.read, self.check, lambda: self.now)

    def read(self, cluster: str) -> Held | None:
        self.reads += 1
        assert self.gate.wait(WITHIN_S)
        found = self.held[cluster]
        if isinstance(found, Exception):
            raise found
        return found and Held(found.snapshot, found.version, found.at, found.trouble, found.heard_at)

    async def check(self, watchers):
        self.checks += 1
        if self.checking is not None and self.checks == 1:
            await self.checking.wait()
            raise ConnectionError("database is away")
        return {watcher: self.ended[watcher.session] for watcher in watchers if watcher.session in self.ended}

    def look(self, session: str = "s1", cluster: str = "paris") -> Socket:
        socket = Socket(Watcher(cluster, session), View(Screen.FLEET))
        self.hub.join(socket)
        return socket


@pytest.fixture
async def world():
    found = World()
    yield found
    found.gate.set()
    await found.hub.stop()
    assert found.layer.members == []


async def hear(socket: Socket) -> dict | Farewell:
    frame = await asyncio.wait_for(socket.take(), WITHIN_S)
    return frame if isinstance(frame, Farewell) else json.loads(frame)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(int(WITHIN_S / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen in time")


def pulse(version: Version, at: float = 995.0, cluster: str = "paris") -> dict:
    head = {"type": "picture.pulse", "cluster": cluster, "epoch": version.epoch, "n": version.n}
    return head | {"at": at, "trouble": []}


async def test_many_sockets_are_one_subscription_and_one_read(world):
    sockets = [world.look() for _ in range(50)]
    for socket in sockets:
        assert (await hear(socket))["t"] == "snapshot"
    assert (world.layer.subscriptions, world.reads) == (1, 1)


async def test_a_gap_is_read_and_everybody_gets_the_whole(world):
    socket = world.look()
    await hear(socket)
    world.held["paris"] = Held(nodes(3), Version(1, 7), 995.0, [])
    world.layer.queue.put_nowait(pulse(Version(1, 7)))
    frame = await hear(socket)
    assert (frame["t"], frame["v"], len(frame["tables"]["nodes"])) == ("snapshot", [1, 7], 3)


async def test_notices_that_arrive_while_the_picture_is_read_are_not_lost(world):
    world.gate.clear()
    socket = world.look()
    await until(lambda: world.reads == 1)
    world.hub.receive(pulse(Version(1, 1), at=999.0))
    world.gate.set()
    assert (await hear(socket))["at"] == 999.0


async def test_a_gap_in_what_arrived_while_reading_is_read_at_once(world):
    world.gate.clear()
    socket = world.look()
    await until(lambda: world.reads == 1)
    world.hub.receive(pulse(Version(1, 2)))
    world.gate.set()
    await until(lambda: world.reads == 2)
    assert (await hear(socket))["t"] == "snapshot"


async def test_a_cluster_without_a_picture_is_asked_about_again(world):
    there, world.held["paris"] = world.held["paris"], None
    socket = world.look()
    await until(lambda: world.reads == 1)
    world.held["paris"] = there
    await world.hub.tick()
    assert (await hear(socket))["reason"] == "no-picture"
    assert (await hear(socket))["t"] == "snapshot"


@pytest.mark.parametrize("failure", [PictureError("store is away"), KeyError("a mistake of ours")])
async def test_a_store_that_fails_is_asked_again_and_what_is_known_stays(failure, world):
    socket = world.look()
    await hear(socket)
    there, world.held["paris"] = world.held["paris"], failure
    world.layer.queue.put_nowait(pulse(Version(1, 9)))
    await until(lambda: world.reads == 2)
    world.now += 2
    await world.hub.tick()
    frame = await hear(socket)
    assert (frame["v"], frame["at"], frame["now"], frame["lost"]) == ([1, 1], 990.0, 1002.0, False)
    world.held["paris"] = Held(there.snapshot, Version(1, 9), 1001.0, [])
    await until(lambda: world.reads >= 3)
    await world.hub.tick()
    assert (await hear(socket))["v"] == [1, 9]


async def test_a_silent_writer_is_told_by_an_age_that_grows(world):
    socket = world.look()
    await hear(socket)
    for now in (1001.0, 1002.0):
        world.now = now
        await world.hub.tick()
        frame = await hear(socket)
        assert (frame["t"], frame["at"], frame["now"]) == ("pulse", 990.0, now)


async def test_no_second_pulse_right_after_the_writers(world):
    socket = world.look()
    await hear(socket)
    world.hub.receive(pulse(Version(1, 1)))
    world.now += 0.5
    await world.hub.tick()
    assert socket.queued == 1


async def test_a_session_that_ended_closes_its_sockets_within_30_s_and_no_other(world):
    ended, other = [world.look("gone"), world.look("gone")], world.look("stays")
    world.ended["gone"] = Farewell.SIGNED_OUT
    waited_s = 0.0
    while not ended[0].dismissed.is_set():
        waited_s += hub_module.TICK_S
        world.now += hub_module.TICK_S
        assert waited_s <= 30
        await world.hub.tick()
        await asyncio.sleep(0)
    assert [await hear(socket) for socket in ended] == [Farewell.SIGNED_OUT] * 2
    assert not other.dismissed.is_set()
    assert world.checks == 1


async def test_whoever_is_announced_to_have_ended_is_looked_at_now(world):
    ended = world.look("gone")
    await hear(ended)
    world.ended["gone"] = Farewell.SIGNED_OUT
    for _ in range(5):
        world.layer.queue.put_nowait({"type": "people.changed"})
    await until(ended.dismissed.is_set)
    assert world.checks <= 2, "five hints are one look, or two when some came during it"


async def test_sessions_that_cannot_be_checked_hold_no_pulse_up_and_are_checked_again(world):
    socket = world.look("gone")
    await hear(socket)
    world.checking = asyncio.Event()
    world.now += 10
    await world.hub.tick()
    assert (await hear(socket))["t"] == "pulse"
    world.now += 10
    world.ended["gone"] = Farewell.SIGNED_OUT
    await world.hub.tick()
    world.checking.set()
    await until(socket.dismissed.is_set)


async def test_clusters_do_not_wait_for_each_other(world):
    world.held["rome"] = Held(nodes(1), Version(3, 3), 990.0, [])
    paris = world.look()
    await hear(paris)
    world.gate.clear()
    rome = world.look(cluster="rome")
    await until(lambda: world.reads == 2)
    world.hub.receive(pulse(Version(1, 1)))
    assert (await hear(paris))["t"] == "pulse"
    world.gate.set()
    assert (await hear(rome))["v"] == [3, 3]


async def test_a_layer_that_failed_is_subscribed_to_again_and_what_was_missed_is_read(world, monkeypatch):
    monkeypatch.setattr(hub_module, "RETRY_AFTER_S", 0.01)
    socket = world.look()
    await hear(socket)
    world.held["paris"] = Held(nodes(3), Version(1, 2), 995.0, [])
    world.layer.queue.put_nowait(ConnectionError("layer is away"))
    frame = await hear(socket)
    assert (frame["t"], frame["v"]) == ("snapshot", [1, 2])
    assert world.layer.subscriptions == 1


async def test_a_cluster_that_nobody_looks_at_costs_nothing(world):
    socket = world.look()
    await hear(socket)
    world.hub.leave(socket)
    world.hub.receive(pulse(Version(1, 9)))
    world.hub.receive(pulse(Version(1, 9), cluster="elsewhere"))
    await world.hub.tick()
    assert world.reads == 1


async def test_whoever_comes_back_while_the_last_read_still_runs_is_served(world):
    world.gate.clear()
    first = world.look()
    await until(lambda: world.reads == 1)
    world.hub.leave(first)
    second = world.look()
    world.gate.set()
    assert (await hear(second))["t"] == "snapshot"
