"""The picture stores: one contract for memory and Redis, what only Redis can lose, and the notices."""

import asyncio
import threading
import time

import msgspec
import pytest
import redis
from channels.layers import InMemoryChannelLayer
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import live
from fleet.domain.changes import Version, diff
from fleet.domain.kube import Kind
from fleet.domain.picture import EMPTY, NodeRow, PodRow, Snapshot
from fleet.live import MemoryPicture, PictureError, Pulse
from fleet.live.notices import Notices, pulse_notice
from fleet.live.picture_redis import KEPT_DELTAS, RedisPicture
from fleet.observe import Pace, Writer
from tests.backends import redis_server
from tests.fleet.clusters import FakeCluster, node, wait_for

CLUSTER = "lab {with} braces/and: more"


@pytest.fixture(params=["memory", "redis"])
def picture(request, notified):
    if request.param == "memory":
        return MemoryPicture(notified.send)
    return request.getfixturevalue("redis_pictures")()


def snapshot(**nodes: int) -> Snapshot:
    """Nodes with that many pods."""
    return msgspec.structs.replace(EMPTY, nodes={name: NodeRow(name=name, pods=pods) for name, pods in nodes.items()})


ONE, TWO, THREE = snapshot(a=1), snapshot(a=1, b=2), snapshot(b=3)


def lease(picture, holder="me", ttl_s=5.0):
    found = picture.acquire(CLUSTER, holder, ttl_s)
    assert found is not None
    return found


# Leases


def test_one_holder_at_a_time(picture):
    mine = lease(picture)
    assert picture.acquire(CLUSTER, "you", 5.0) is None
    assert picture.acquire(CLUSTER, "me", 5.0) is None, "not even to the same holder twice"
    assert picture.acquire("another cluster", "you", 5.0) is not None
    picture.release(mine)
    assert picture.acquire(CLUSTER, "you", 5.0) is not None


def test_a_new_holder_has_a_higher_epoch_and_a_returning_one_keeps_its_own(picture):
    first = lease(picture)
    picture.release(first)
    again = lease(picture)
    picture.release(again)
    other = lease(picture, "you")
    picture.release(other)
    back = lease(picture)
    assert first.epoch == again.epoch < other.epoch < back.epoch
    assert abs(first.epoch - time.time()) < 60, "epochs grow even when everything was forgotten"
    assert len({first.token, again.token, other.token, back.token}) == 4


def test_a_lease_runs_out(picture):
    mine = lease(picture, ttl_s=0.05)
    time.sleep(0.1)
    yours = lease(picture, "you")
    assert not picture.renew(mine)
    picture.release(mine)
    assert picture.renew(yours), "a release of what is not ours any more does nothing"


def test_renewing_keeps_it(picture):
    mine = lease(picture, ttl_s=0.3)
    for _ in range(4):
        time.sleep(0.1)
        assert picture.renew(mine)
    assert picture.acquire(CLUSTER, "you", 1.0) is None


def test_a_lease_that_ran_out_and_that_nobody_took_is_ours_again(picture):
    mine = lease(picture, ttl_s=0.03)
    time.sleep(0.06)
    assert picture.renew(mine)


# Publishing and reading


def test_nothing_is_there_before_the_first_snapshot(picture):
    epoch = lease(picture).epoch
    assert picture.read(CLUSTER) is None
    assert picture.last_pulse(CLUSTER) is None
    assert picture.clusters() == []
    picture.pulse(CLUSTER, Version(epoch, 0), Pulse(5.0, (("pods", "Forbidden", 3.0),)))
    assert picture.read(CLUSTER) is None
    assert picture.last_pulse(CLUSTER) == Pulse(5.0, (("pods", "Forbidden", 3.0),))


def test_what_is_published_can_be_read(picture):
    epoch = lease(picture).epoch
    picture.pulse(CLUSTER, Version(epoch, 0), Pulse(5.0))
    assert picture.publish(CLUSTER, Version(epoch, 1), None, ONE)
    assert picture.publish(CLUSTER, Version(epoch, 2), diff(ONE, TWO), TWO)
    found = picture.read(CLUSTER)
    assert (found.snapshot, found.version, found.pulse) == (TWO, Version(epoch, 2), Pulse(5.0))
    assert picture.publish(CLUSTER, Version(epoch, 3), diff(TWO, THREE), THREE)
    assert picture.pulse(CLUSTER, Version(epoch, 3), Pulse(7.0, (("server", "silent", 0.5),)))
    found = picture.read(CLUSTER)
    assert (found.snapshot, found.version) == (THREE, Version(epoch, 3))
    assert found.pulse == Pulse(7.0, (("server", "silent", 0.5),))
    assert picture.clusters() == [CLUSTER]


def test_its_version_is_cheap_to_ask_for(picture):
    assert picture.version(CLUSTER) is None
    epoch = lease(picture).epoch
    picture.publish(CLUSTER, Version(epoch, 1), None, ONE)
    assert picture.version(CLUSTER) == Version(epoch, 1)


def test_an_older_epoch_is_refused(picture):
    old = lease(picture)
    picture.pulse(CLUSTER, Version(old.epoch, 0), Pulse(5.0))
    assert picture.publish(CLUSTER, Version(old.epoch, 1), None, ONE)
    picture.release(old)
    new = lease(picture, "you")
    assert not picture.publish(CLUSTER, Version(old.epoch, 2), diff(ONE, TWO), TWO), "also before the new one publishes"
    assert not picture.pulse(CLUSTER, Version(old.epoch, 2), Pulse(9.0))
    assert picture.read(CLUSTER).snapshot == ONE, "until then the old picture stands"
    assert picture.publish(CLUSTER, Version(new.epoch, 1), None, THREE)
    assert not picture.publish(CLUSTER, Version(old.epoch, 99), None, TWO)
    found = picture.read(CLUSTER)
    assert (found.snapshot, found.version, found.pulse) == (THREE, Version(new.epoch, 1), Pulse(5.0))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_version_that_is_there_already_is_refused(picture, n):
    epoch = lease(picture).epoch
    picture.pulse(CLUSTER, Version(epoch, 0), Pulse(5.0))
    assert picture.publish(CLUSTER, Version(epoch, 2), None, ONE)
    assert not picture.publish(CLUSTER, Version(epoch, n), diff(ONE, TWO), TWO)
    assert picture.read(CLUSTER).snapshot == ONE


def test_a_number_that_was_left_out_is_no_harm(picture):
    epoch = lease(picture).epoch
    picture.pulse(CLUSTER, Version(epoch, 0), Pulse(5.0))
    assert picture.publish(CLUSTER, Version(epoch, 1), None, ONE)
    assert picture.publish(CLUSTER, Version(epoch, 5), diff(TWO, THREE), THREE)
    assert picture.read(CLUSTER).snapshot == THREE


def test_notices(picture, notified):
    epoch = lease(picture).epoch
    picture.pulse(CLUSTER, Version(epoch, 0), Pulse(5.0, (("pods", "Forbidden", 3.0),)))
    picture.publish(CLUSTER, Version(epoch, 1), None, ONE)
    picture.publish(CLUSTER, Version(epoch, 2), diff(ONE, TWO), TWO)
    picture.publish(CLUSTER, Version(epoch, 2), diff(ONE, TWO), TWO)
    head = {"cluster": CLUSTER, "epoch": epoch, "at": 5.0}
    delta = msgspec.json.encode(diff(ONE, TWO))
    assert notified == [
        {"type": "picture.pulse", "n": 0, "trouble": [["pods", "Forbidden", 3.0]], **head},
        {"type": "picture.delta", "n": 1, "delta": b"", **head},
        {"type": "picture.delta", "n": 2, "delta": delta, **head},
    ], "a refused one is not told"


# Redis


rows = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3), max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=6), st.data())
def test_any_reader_sees_exactly_what_was_published(redis_url, steps, data):
    """One that has read before, at any version, and one that reads for the first time."""
    writer, old, new = (RedisPicture(redis_url, lambda _: None, f"test:{time.time_ns()}") for _ in range(3))
    old._namespace = new._namespace = writer._namespace
    epoch = lease(writer).epoch
    writer.pulse(CLUSTER, Version(epoch, 0), Pulse(1.0))
    shown, n = None, 0
    for step in steps:
        now = snapshot(**step)
        pods = {f"x/{name}": PodRow(uid="u", namespace="x", name=name, node="a") for name in step if step[name] > 1}
        now = msgspec.structs.replace(now, pods=pods)
        delta = diff(shown, now) if shown is not None else None
        if delta is None and shown is not None:
            continue
        n += 1
        assert writer.publish(CLUSTER, Version(epoch, n), delta, now)
        shown = now
        if data.draw(st.booleans()):
            assert old.read(CLUSTER).snapshot == now
    for reader in (old, new):
        found = reader.read(CLUSTER)
        assert (found.snapshot, found.version.n) == (shown, n)


def test_readers_catch_up_by_deltas_and_read_anew_when_too_far_behind(redis_pictures):
    writer, reader = redis_pictures(), redis_pictures()
    epoch = lease(writer).epoch
    writer.pulse(CLUSTER, Version(epoch, 0), Pulse(1.0))
    writer.publish(CLUSTER, Version(epoch, 1), None, snapshot(a=0, b=0))
    before = reader.read(CLUSTER).snapshot
    for n in range(2, 5):
        writer.publish(
            CLUSTER,
            Version(epoch, n),
            diff(snapshot(a=n - 2, b=0), snapshot(a=n - 1, b=0)),
            snapshot(a=n - 1, b=0),
        )
    found = reader.read(CLUSTER)
    assert (found.snapshot, found.version.n) == (snapshot(a=3, b=0), 4)
    assert found.snapshot.nodes["b"] is before.nodes["b"], "not read again"
    for n in range(5, 5 + 2 * KEPT_DELTAS):
        writer.publish(
            CLUSTER,
            Version(epoch, n),
            diff(snapshot(a=n - 2, b=0), snapshot(a=n - 1, b=0)),
            snapshot(a=n - 1, b=0),
        )
    found = reader.read(CLUSTER)
    assert (found.snapshot, found.version.n) == (snapshot(a=n - 1, b=0), n)
    assert found.snapshot.nodes["b"] is not before.nodes["b"]
    assert writer._redis.xlen(writer._key(CLUSTER, "deltas")) < 2 * KEPT_DELTAS


def test_after_a_flush_the_picture_comes_back_by_itself(redis_pictures):
    writer, reader = redis_pictures(), redis_pictures()
    mine = lease(writer)
    writer.pulse(CLUSTER, Version(mine.epoch, 0), Pulse(1.0))
    writer.publish(CLUSTER, Version(mine.epoch, 1), None, ONE)
    assert reader.read(CLUSTER).snapshot == ONE
    for key in writer._redis.keys(f"{writer._namespace}*"):
        writer._redis.delete(key)
    assert reader.read(CLUSTER).snapshot == ONE, "the last picture stands until then"
    assert redis_pictures().read(CLUSTER) is None
    assert writer.renew(mine), "the lease is ours as long as nobody took it"
    assert writer.acquire(CLUSTER, "you", 1.0) is None
    assert writer.pulse(CLUSTER, Version(mine.epoch, 1), Pulse(2.0)), "nothing has changed, and it is all there again"
    for found in (reader.read(CLUSTER), redis_pictures().read(CLUSTER)):
        assert (found.snapshot, found.version, found.pulse) == (ONE, Version(mine.epoch, 1), Pulse(2.0))
    assert reader.clusters() == [CLUSTER]
    assert writer.publish(CLUSTER, Version(mine.epoch, 2), diff(ONE, TWO), TWO)
    assert reader.read(CLUSTER).snapshot == TWO


def test_a_delta_after_a_flush_brings_the_whole_picture(redis_pictures, notified):
    writer = redis_pictures()
    mine = lease(writer)
    writer.pulse(CLUSTER, Version(mine.epoch, 0), Pulse(1.0))
    writer.publish(CLUSTER, Version(mine.epoch, 1), None, ONE)
    for key in writer._redis.keys(f"{writer._namespace}*"):
        writer._redis.delete(key)
    assert writer.publish(CLUSTER, Version(mine.epoch, 2), diff(ONE, TWO), TWO)
    writer.pulse(CLUSTER, Version(mine.epoch, 2), Pulse(2.0))
    assert redis_pictures().read(CLUSTER).snapshot == TWO
    assert notified[-2]["delta"], "whoever had the last version needs the delta alone"


def test_a_holder_that_came_during_the_flush_wins(redis_pictures):
    writer = redis_pictures()
    mine = lease(writer)
    for key in writer._redis.keys(f"{writer._namespace}*"):
        writer._redis.delete(key)
    time.sleep(1.1)  # epochs are seconds when nothing is remembered
    yours = lease(redis_pictures(), "you")
    assert yours.epoch > mine.epoch
    assert not writer.renew(mine)
    assert not writer.publish(CLUSTER, Version(mine.epoch, 1), None, ONE)


def test_many_rows_fit_one_script(redis_pictures):
    writer = redis_pictures()
    epoch = lease(writer).epoch
    pods = {f"x/p{i}": PodRow(uid=f"u{i}", namespace="x", name=f"p{i}") for i in range(30_000)}
    large = msgspec.structs.replace(EMPTY, pods=pods)
    writer.pulse(CLUSTER, Version(epoch, 0), Pulse(1.0))
    assert writer.publish(CLUSTER, Version(epoch, 1), None, large)
    assert redis_pictures().read(CLUSTER).snapshot == large
    assert writer.publish(CLUSTER, Version(epoch, 2), diff(large, EMPTY), EMPTY)
    assert redis_pictures().read(CLUSTER).snapshot == EMPTY


def test_while_redis_is_away_calls_say_so_and_readers_keep_what_they_have(notified):
    with redis_server() as url:
        picture = RedisPicture(url, notified.send)
        mine = lease(picture)
        picture.pulse(CLUSTER, Version(mine.epoch, 0), Pulse(1.0))
        picture.publish(CLUSTER, Version(mine.epoch, 1), None, ONE)
        assert picture.read(CLUSTER).snapshot == ONE
    with pytest.raises(PictureError):
        picture.publish(CLUSTER, Version(mine.epoch, 2), diff(ONE, TWO), TWO)
    for call in (
        lambda: picture.pulse(CLUSTER, Version(mine.epoch, 1), Pulse(2.0)),
        lambda: picture.renew(mine),
    ):
        with pytest.raises(PictureError):
            call()
    with pytest.raises(PictureError):
        picture.read("never read")
    assert picture.read(CLUSTER).snapshot == ONE
    assert len(notified) == 2
    port = int(url.split(":")[-1].split("/")[0])
    with redis_server(port):
        assert picture.renew(mine), "an empty Redis in its place"
        assert picture.publish(CLUSTER, Version(mine.epoch, 3), None, TWO)
        picture.pulse(CLUSTER, Version(mine.epoch, 3), Pulse(3.0))
        assert RedisPicture(url, notified.send).read(CLUSTER).snapshot == TWO


def test_a_writer_survives_a_restart_of_redis():
    """It goes on watching, and what changed meanwhile is in the picture that comes back."""
    cluster, stopping = FakeCluster("lab"), threading.Event()
    with redis_server() as url:
        picture = RedisPicture(url, lambda _: None)
        writer = Writer(cluster, picture, Pace(probe_s=0.1, pulse_s=0.2, renew_s=0.2))
        thread = threading.Thread(target=writer.run, args=(stopping,), daemon=True)
        thread.start()
        wait_for(lambda: picture.read("lab"))
        epoch = writer.version.epoch
    cluster.change(node("node-1", unschedulable=True))
    time.sleep(0.5)
    with redis_server(int(url.split(":")[-1].split("/")[0])):
        wait_for(lambda: RedisPicture(url, lambda _: None).read("lab"))
        found = RedisPicture(url, lambda _: None).read("lab")
        assert found.snapshot.nodes["node-1"].unschedulable
        assert found.version.epoch == epoch, "nobody took its place"
        stopping.set()
        thread.join(3)
        assert picture.acquire("lab", "another", 1.0) is not None
    assert sorted(kind for kind, _ in cluster.followed) == sorted(Kind), "listed once"


# Notices


NOTICE = pulse_notice("lab", Version(7, 1), Pulse(1.0))


class FakeLayer:
    """A channel layer whose `group_send` is what a test wants."""

    def __init__(self, group_send):
        self.group_send = group_send


async def test_a_notice_reaches_the_loop_that_was_attached():
    layer = InMemoryChannelLayer()
    notices = Notices(lambda: layer)
    notices.attach(asyncio.get_running_loop())
    channel = await layer.new_channel()
    await layer.group_add(live.GROUP, channel)
    thread = threading.Thread(target=lambda: [notices.send(NOTICE | {"n": n}) for n in range(50)])
    thread.start()
    found = [await asyncio.wait_for(layer.receive(channel), 5) for _ in range(50)]
    assert [message["n"] for message in found] == list(range(50)), "in order"
    assert found[0] == NOTICE | {"n": 0}
    assert notices.failures == 0


def test_a_worker_process_has_a_loop_of_its_own():
    sent = []

    async def group_send(group, message):
        sent.append((group, message, threading.current_thread().name))

    notices = Notices(lambda: FakeLayer(group_send))
    notices.send(NOTICE)
    notices.send(NOTICE)
    wait_for(lambda: len(sent) == 2)
    assert sent[0] == (live.GROUP, NOTICE, "notices")


def test_a_layer_that_fails_is_counted_and_hurts_nobody():
    async def group_send(group, message):
        raise ConnectionError("redis is away")

    notices = Notices(lambda: FakeLayer(group_send))
    notices.send(NOTICE)
    wait_for(lambda: notices.failures == 1)
    none = Notices(lambda: None)
    none.send(NOTICE)
    wait_for(lambda: none.failures == 1)


def test_a_layer_that_hangs_holds_nobody_up():
    released = threading.Event()

    async def group_send(group, message):
        await asyncio.to_thread(released.wait, 5)

    notices = Notices(lambda: FakeLayer(group_send))
    began = time.monotonic()
    for _ in range(300):
        notices.send(NOTICE)
    assert time.monotonic() - began < 3.0
    assert notices.failures == 100
    released.set()
    wait_for(lambda: notices._waiting == 0)


def test_a_closed_loop_is_counted():
    notices = Notices()
    loop = asyncio.new_event_loop()
    loop.close()
    notices.attach(loop)
    notices.send(NOTICE)
    assert notices.failures == 1


def test_the_settings_choose_the_store(settings, redis_url):
    live.picture.cache_clear()
    try:
        settings.VIGIE_REDIS_URL = ""
        assert isinstance(live.picture(), MemoryPicture)
        assert live.picture() is live.picture()
        live.picture.cache_clear()
        settings.VIGIE_REDIS_URL = redis_url
        assert isinstance(live.picture(), RedisPicture)
    finally:
        live.picture.cache_clear()
    assert redis.Redis.from_url(redis_url).ping()
