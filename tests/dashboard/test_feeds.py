"""What sockets of one cluster are sent: snapshot then deltas, per view, with gaps, and with browsers that are too slow."""

import json

import msgspec
import pytest

from dashboard.feeds import QUEUE_FRAMES, Farewell, Feed, Held, Socket, Watcher
from fleet.domain.changes import Screen, Version, View, diff, encode
from fleet.domain.picture import Snapshot
from tests.dashboard.pictures import nodes, with_pod

FLEET = View(Screen.FLEET)
NODE_2 = View(Screen.NODE, "node-02")
NODE_3 = View(Screen.NODE, "node-03")


class World:
    """A feed, its writer, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.feed = Feed("paris", lambda: self.now)
        self.version = Version(5, 1)
        self.snapshot = nodes(3)

    def adopt(self) -> None:
        self.feed.adopt(Held(self.snapshot, self.version, self.now, [], self.now))

    def look(self, view: View = FLEET) -> Socket:
        socket = Socket(Watcher("paris", "session"), view)
        self.feed.join(socket)
        return socket

    def delta(self, snapshot: Snapshot) -> dict:
        """The notice of the next version; nobody is told."""
        self.version = Version(self.version.epoch, self.version.n + 1)
        found = diff(self.snapshot, snapshot)
        self.snapshot = snapshot
        assert found is not None
        return self.notice("delta", delta=encode(found))

    def notice(self, kind: str, **more: object) -> dict:
        version = self.version
        return {
            "type": f"picture.{kind}",
            "cluster": "paris",
            "epoch": version.epoch,
            "n": version.n,
            "at": self.now,
            **more,
        }

    def change(self, cells: str, node: str = "node-02") -> dict:
        row = msgspec.structs.replace(self.snapshot.nodes[node], cells=cells)
        return self.delta(msgspec.structs.replace(self.snapshot, nodes={**self.snapshot.nodes, node: row}))


@pytest.fixture
def world() -> World:
    found = World()
    found.adopt()
    return found


async def hear(socket: Socket) -> dict:
    frame = await socket.take()
    assert isinstance(frame, str)
    return json.loads(frame)


async def test_a_snapshot_comes_first_then_each_change(world):
    socket = world.look()
    first = await hear(socket)
    assert (first["t"], first["v"], first["at"], first["now"]) == ("snapshot", [5, 1], 1000.0, 1000.0)
    assert set(first["tables"]) == {"fleet", "products", "nodes", "attention"}
    assert first["tables"]["nodes"]["node-02"]["cells"] == "ffffffff"
    world.now += 0.5
    world.feed.receive(world.change("bfffffff"))
    world.feed.receive(world.change("bbffffff"))
    assert await hear(socket) == {
        "t": "delta",
        "prev": [5, 1],
        "v": [5, 2],
        "at": 1000.5,
        "tables": {"nodes": {"groups": [{"ids": ["node-02"], "set": {"cells": ["bfffffff"]}}], "gone": []}},
    }
    second = await hear(socket)
    assert (second["prev"], second["v"]) == ([5, 2], [5, 3])


async def test_the_tables_of_a_later_snapshot_are_the_new_ones_and_its_clock_too(world):
    await hear(world.look())
    world.feed.receive(world.change("bfffffff"))
    world.now += 7
    late = await hear(world.look())
    assert (late["v"], late["now"], late["at"]) == ([5, 2], 1007.0, 1000.0)
    assert late["tables"]["nodes"]["node-02"]["cells"] == "bfffffff"


async def test_a_view_that_a_change_does_not_touch_hears_nothing_and_still_follows(world):
    two, three = world.look(NODE_2), world.look(NODE_3)
    await hear(two), await hear(three)
    world.feed.receive(world.change("bfffffff", "node-02"))
    assert (two.queued, three.queued) == (1, 0)
    world.feed.receive(world.change("bfffffff", "node-03"))
    frame = await hear(three)
    assert (frame["prev"], frame["v"]) == ([5, 1], [5, 3])
    world.feed.receive(world.notice("pulse", trouble=[]))
    assert (await hear(three))["v"] == [5, 3]


async def test_a_pulse_names_the_version_that_the_view_has_reached(world):
    three = world.look(NODE_3)
    await hear(three)
    world.feed.receive(world.change("bfffffff", "node-02"))
    world.now += 1
    world.feed.receive(world.notice("pulse", trouble=[["pods", "timeout", 3.0]]))
    assert await hear(three) == {
        "t": "pulse",
        "v": [5, 1],
        "at": 1001.0,
        "now": 1001.0,
        "trouble": [["pods", "timeout", 3.0]],
        "lost": False,
        "reason": "",
    }


async def test_somebody_who_joins_between_two_changes_of_a_view_can_apply_the_next(world):
    await hear(world.look(NODE_3))
    world.feed.receive(world.change("bfffffff", "node-02"))
    late = world.look(NODE_3)
    mine = (await hear(late))["v"]
    world.feed.receive(world.change("bfffffff", "node-03"))
    frame = await hear(late)
    assert frame["prev"] <= mine < frame["v"]


async def test_a_pod_that_gets_bound_enters_its_nodes_view_whole(world):
    world.feed.receive(world.delta(with_pod(world.snapshot, "train-0", "")))
    socket = world.look(NODE_2)
    assert (await hear(socket))["tables"]["pods"] == {}
    world.feed.receive(world.delta(with_pod(world.snapshot, "train-0", "node-02")))
    group = (await hear(socket))["tables"]["pods"]["groups"][0]
    assert group["ids"] == ["ml/train-0"]
    assert group["set"]["namespace"] == ["ml"]


async def test_one_view_is_encoded_once_for_all_who_look(world):
    sockets = [world.look() for _ in range(3)]
    for socket in sockets:
        await hear(socket)
    world.feed.receive(world.change("bfffffff"))
    frames = [await socket.take() for socket in sockets]
    assert frames[0] is frames[1] is frames[2]


async def test_a_slow_browser_loses_its_queue_and_gets_a_snapshot(world):
    slow, quick = world.look(), world.look()
    await hear(slow), await hear(quick)
    for i in range(QUEUE_FRAMES + 1):
        world.feed.receive(world.change(f"{i:08}"))
        assert (await hear(quick))["t"] == "delta"
        assert slow.queued <= QUEUE_FRAMES
    world.feed.receive(world.change("after..."))
    assert slow.queued == 0
    frame = await hear(slow)
    assert (frame["t"], frame["v"]) == ("snapshot", [5, QUEUE_FRAMES + 3])
    assert frame["tables"]["nodes"]["node-02"]["cells"] == "after..."
    world.feed.receive(world.change("ffffffff"))
    assert (await hear(slow))["prev"] == [5, QUEUE_FRAMES + 3]


async def test_whoever_asks_gets_a_snapshot_instead_of_what_was_queued(world):
    socket = world.look()
    await hear(socket)
    world.feed.receive(world.change("bfffffff"))
    socket.restart()
    frame = await hear(socket)
    assert (frame["t"], frame["v"]) == ("snapshot", [5, 2])
    assert socket.queued == 0


async def test_goodbye_goes_before_everything_that_is_queued(world):
    socket = world.look()
    socket.dismiss(Farewell.SIGNED_OUT)
    assert await socket.take() is Farewell.SIGNED_OUT
    assert json.loads(Farewell.SIGNED_OUT.frame) == {"t": "bye", "reason": "signed-out"}
    assert [reason.code for reason in Farewell] == [4401, 4403, 4404]


def test_old_news_is_no_news(world):
    old = world.change("bfffffff")
    world.adopt()
    world.feed.receive(old)
    world.feed.receive({**old, "n": 1})
    world.feed.receive({**world.notice("pulse", trouble=[]), "n": 1})
    assert not world.feed.stale
    assert world.feed.held.version == Version(5, 2)


@pytest.mark.parametrize("lost", ["delta", "pulse"])
def test_a_gap_is_noticed_at_the_next_notice(lost, world):
    world.change("bfffffff")
    world.feed.receive(world.change("bbffffff") if lost == "delta" else world.notice("pulse", trouble=[]))
    assert world.feed.stale
    assert world.feed.held.version == Version(5, 1)


@pytest.mark.parametrize("epoch", [4, 6])
def test_another_writer_is_read_afresh(epoch, world):
    """A lower epoch too: a store that lost everything may begin again, and what it says is what counts."""
    world.version = Version(epoch, 1)
    world.feed.receive(world.notice("pulse", trouble=[]))
    assert world.feed.stale


def test_a_delta_that_does_not_say_how_makes_us_read(world):
    world.version = Version(5, 2)
    world.feed.receive(world.notice("delta", delta=b""))
    assert world.feed.stale


@pytest.mark.parametrize(
    "delta",
    [b"{", b"[]", b'{"tables":{"nodes":{"groups":[{"ids":["new"],"set":{"cells":["f"]}}],"gone":[]}}}'],
)
def test_a_delta_that_does_not_fit_makes_us_read_and_is_not_shown(delta, world):
    world.look()
    world.version = Version(5, 2)
    world.feed.receive(world.notice("delta", delta=delta))
    assert world.feed.stale
    assert world.feed.held.version == Version(5, 1)


async def test_what_was_read_after_a_gap_goes_to_everybody(world):
    sockets = [world.look(), world.look(NODE_2)]
    for socket in sockets:
        await hear(socket)
    world.change("bfffffff")
    world.version = Version(6, 4)
    world.adopt()
    for socket in sockets:
        frame = await hear(socket)
        assert (frame["t"], frame["v"]) == ("snapshot", [6, 4])
        assert frame["tables"]["nodes"]["node-02"]["cells"] == "bfffffff"


async def test_reading_what_we_have_disturbs_nobody(world):
    socket = world.look()
    await hear(socket)
    world.feed.stale = True
    world.now += 3
    world.adopt()
    assert (socket.queued, world.feed.stale, world.feed.held.at) == (0, False, 1003.0)


def test_nothing_is_kept_of_a_view_that_nobody_shows(world):
    sockets = [world.look(), world.look(), world.look(NODE_2)]
    assert len(world.feed.streams) == 2
    for socket in sockets:
        world.feed.leave(socket)
    assert world.feed.streams == {}


async def test_before_the_first_picture_a_socket_hears_what_is_in_the_way():
    feed = Feed("paris", lambda: 1000.0)
    socket = Socket(Watcher("paris", "session"), FLEET)
    feed.join(socket)
    feed.receive(
        {
            "type": "picture.pulse",
            "cluster": "paris",
            "epoch": 5,
            "n": 0,
            "at": 0.0,
            "trouble": [["pods", "refused", 9.0]],
        }
    )
    feed.pulse()
    feed.pulse()
    frame = await hear(socket)
    assert (frame["t"], frame["v"], frame["trouble"]) == ("pulse", [0, 0], [["pods", "refused", 9.0]])
    assert (frame["lost"], frame["reason"]) == (True, "no-picture")
    assert socket.queued == 0, "only the last pulse counts"
    assert feed.stale
    feed.adopt(Held(nodes(3), Version(5, 1), 1000.0, [], 1000.0))
    assert (await hear(socket))["t"] == "snapshot"


async def lost_at(world: World, after_s: float, **notice: object) -> tuple[bool, str]:
    """What a page hears `after_s` after the writer said its last."""
    socket = world.look()
    await hear(socket)
    world.feed.receive(world.notice("pulse", **({"trouble": []} | notice)))
    await hear(socket)
    world.now += after_s
    world.feed.pulse()
    frame = await hear(socket)
    return frame["lost"], frame["reason"]


@pytest.mark.parametrize(("after_s", "lost"), [(0.1, False), (3.9, False), (4.1, True), (90.0, True)])
async def test_a_writer_that_says_nothing_is_known_to_be_gone(world, after_s, lost):
    assert await lost_at(world, after_s) == (lost, "writer" if lost else "")


async def test_a_server_that_answers_no_probe_is_a_known_loss(world):
    assert await lost_at(world, 1.0, trouble=[["server", "silent", 2.0]]) == (True, "server")


async def test_one_stream_in_trouble_is_not(world):
    assert await lost_at(world, 1.0, trouble=[["pods", "silent", 20.0]]) == (False, "")


async def test_a_picture_that_was_read_is_as_alive_as_its_writer_was(world):
    world.now += 1000
    world.feed.adopt(Held(nodes(4), Version(5, 9), 1000.0, [], 1000.0))
    socket = world.look()
    await hear(socket)
    world.feed.pulse()
    assert (await hear(socket))["reason"] == "writer"


async def test_frames_of_all_clusters_say_which_one_they_are_about(world):
    socket = world.look(View(Screen.CLUSTERS))
    first = await hear(socket)
    assert (first["cluster"], set(first["tables"])) == ("paris", {"fleet", "attention"})
    world.feed.receive(world.delta(nodes(4)))
    assert ((await hear(socket))["cluster"]) == "paris"
    world.feed.pulse()
    assert ((await hear(socket))["cluster"]) == "paris"
    assert "cluster" not in await hear(world.look())
