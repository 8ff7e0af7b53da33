"""The GPU stores: one contract for memory and Redis, and what only Redis can lose."""

import threading
import uuid

import pytest
from msgspec.structs import replace

from fleet.domain.verdicts import NodeContext, NodeHealth, NodeStanding, Transition
from fleet.live import BEGINNING, Hold, MemoryGpus, Offered, PictureError, Point, Received, Settled, Told, Worker
from fleet.live.gpus import MOST_AGENTS, SERIES_POINTS
from fleet.live.gpus_redis import RedisGpus
from tests.backends import redis_server
from tests.fleet import readings

CLUSTER = "lab {with} braces/and: more"


@pytest.fixture
def stores(request, redis_url):
    """Makes stores of the same keys, as separate as processes where they can be."""
    namespace = f"test:{uuid.uuid4().hex}"
    return lambda **options: RedisGpus(redis_url, namespace, **options)


@pytest.fixture(params=["memory", "redis"])
def store(request, stores):
    return MemoryGpus() if request.param == "memory" else stores()


@pytest.fixture(params=["memory", "redis"])
def small(request, stores):
    """One with room for three readings."""
    return MemoryGpus(most=3) if request.param == "memory" else stores(most=3)


def received(node="n", sequence=1, **changes) -> Received:
    return Received(5.0, readings.reading(node, sequence, **changes))


def health(node="n", read_at=1.0) -> NodeHealth:
    return NodeHealth(node=node, read_at=read_at)


def transition(gpu="g", at=1.0) -> Transition:
    return Transition(node="n", gpu=gpu, at=at, from_state="ok", to_state="lost", reason="xid-79")


def told(node="n", count=8) -> Told:
    return Told(NodeStanding(count=count), {})


# The door's side


def test_readings_come_out_in_order_and_stay_until_they_are_settled(store):
    for node in "abc":
        assert store.offer(CLUSTER, received(node)) is Offered.ACCEPTED
    batch = store.take(CLUSTER, 2)
    assert [Received.__name__ for _ in batch] == ["Received"] * 2
    assert store.waiting(CLUSTER) == 3
    store.settle(CLUSTER, Settled([name for name, _ in batch]))
    assert store.waiting(CLUSTER) == 1
    assert len(store.take(CLUSTER, 10)) == 1
    assert store.take("another", 10) == []


def test_what_comes_out_is_what_went_in(store):
    import msgspec

    given = received(faults=(readings.xid(79, "n", 3, 4.0),))
    store.offer(CLUSTER, given)
    assert msgspec.msgpack.decode(store.take(CLUSTER, 1)[0][1], type=Received) == given


def test_a_full_buffer_takes_no_more_and_forgets_nothing(small):
    for sequence in range(1, 4):
        assert small.offer(CLUSTER, received(sequence=sequence)) is Offered.ACCEPTED
    assert small.offer(CLUSTER, received(sequence=4)) is Offered.FULL
    small.settle(CLUSTER, Settled([small.take(CLUSTER, 1)[0][0]]))
    assert small.offer(CLUSTER, received(sequence=4)) is Offered.ACCEPTED, "it was not taken for a replay"


@pytest.mark.parametrize("sequence", [5, 4, 0])
def test_an_older_reading_of_the_same_agent_is_a_replay(store, sequence):
    store.offer(CLUSTER, received(sequence=5))
    assert store.offer(CLUSTER, received(sequence=sequence)) is Offered.REPLAYED
    assert store.offer(CLUSTER, received(sequence=6)) is Offered.ACCEPTED


def test_another_agent_boot_node_or_cluster_counts_anew(store):
    store.offer(CLUSTER, received(sequence=5))
    for changes in ({"agent": "agent-2"}, {"boot_id": "other"}, {"node": "m"}):
        assert store.offer(CLUSTER, received(**{"sequence": 1, **changes})) is Offered.ACCEPTED
    assert store.offer("another", received(sequence=1)) is Offered.ACCEPTED


def test_agents_that_come_and_go_do_not_pile_up(store):
    for n in range(3 * MOST_AGENTS):
        assert store.offer(CLUSTER, received(agent=f"agent-{n}")) is Offered.ACCEPTED
    assert store.offer(CLUSTER, received(agent=f"agent-{n}")) is Offered.REPLAYED


def test_a_number_that_fits_no_word_is_refused(store):
    with pytest.raises(OverflowError):
        store.offer(CLUSTER, received(count=1 << 70))
    assert store.waiting(CLUSTER) == 0


# The readings worker's side


def test_one_worker_at_a_time(store):
    assert store.hold(CLUSTER, "me", 5.0) is Hold.ANEW
    assert store.hold(CLUSTER, "me", 5.0) is Hold.OURS
    assert store.hold(CLUSTER, "you", 5.0) is Hold.NOT_OURS
    assert store.hold("another", "you", 5.0) is Hold.ANEW
    store.release(CLUSTER, "you")
    assert store.hold(CLUSTER, "me", 5.0) is Hold.OURS, "nobody else can give it away"
    store.release(CLUSTER, "me")
    assert store.hold(CLUSTER, "you", 5.0) is Hold.ANEW


def test_a_hold_runs_out(stores):
    now = [0.0]
    memory = MemoryGpus(lambda: now[0])
    memory.hold(CLUSTER, "me", 5.0)
    now[0] = 5.1
    assert memory.hold(CLUSTER, "you", 5.0) is Hold.ANEW
    assert memory.hold(CLUSTER, "me", 5.0) is Hold.NOT_OURS
    redis = stores()
    redis.hold(CLUSTER, "me", 0.02)
    threading.Event().wait(0.1)
    assert redis.hold(CLUSTER, "me", 5.0) is Hold.ANEW, "who came too late has to look again"


def test_what_is_settled_is_remembered(store):
    store.settle(
        CLUSTER, Settled(healths={"n": health(), "m": health("m")}, transitions=[transition(), transition("h")])
    )
    store.settle(CLUSTER, Settled(healths={"n": health(read_at=2.0)}, transitions=[transition("i")]))
    assert store.remembered(CLUSTER) == {"n": health(read_at=2.0), "m": health("m")}
    assert [found.gpu for found in store.owed(CLUSTER)] == ["g", "h", "i"]
    store.paid(CLUSTER, 2)
    assert store.owed(CLUSTER) == [transition("i")]
    assert store.remembered("another") == {}


def test_a_node_that_is_gone_is_forgotten(store):
    store.settle(CLUSTER, Settled(healths={"n": health()}, points={"n": Point(1.0, {"g": (1, 2, 3, 4)})}))
    store.publish(CLUSTER, {"n": told()})
    cursor, _ = store.changed(CLUSTER, BEGINNING)
    store.forget(CLUSTER, ["n"])
    assert store.remembered(CLUSTER) == {}
    assert store.series(CLUSTER, "n") == {}
    assert store.changed(CLUSTER, cursor)[1] == {"n": None}


def test_the_last_hour_is_bounded_and_in_order(store):
    for at in range(SERIES_POINTS + 5):
        values = {"g": (at % 100, "n/a", None, 7)}
        store.settle(CLUSTER, Settled(points={"n": Point(float(at), values)}))
    found = store.series(CLUSTER, "n")["g"]
    assert len(found["utilization_pct"]) == SERIES_POINTS
    assert found["utilization_pct"][0] == (5.0, 5)
    assert found["temperature_c"][-1] == (float(SERIES_POINTS + 4), "n/a")
    assert found["power_w"][-1][1] is None, "unknown is no number, and no gap either"


# Between worker and writer


def test_the_writer_hears_of_what_changed_since_it_asked(store):
    cursor, found = store.changed(CLUSTER, BEGINNING)
    assert found == {}
    store.publish(CLUSTER, {"n": told(), "m": told()})
    cursor, found = store.changed(CLUSTER, cursor)
    assert found == {"n": told(), "m": told()}
    assert store.changed(CLUSTER, cursor)[1] == {}
    store.publish(CLUSTER, {"n": told(count=7)})
    store.publish(CLUSTER, {"n": told(count=6)})
    assert store.changed(CLUSTER, cursor)[1] == {"n": told(count=6)}
    assert store.changed(CLUSTER, BEGINNING)[1] == {"n": told(count=6), "m": told()}


def test_the_worker_hears_of_nodes_in_the_same_way(store):
    store.describe(CLUSTER, {"n": NodeContext(node="n"), "m": NodeContext(node="m")})
    cursor, found = store.described(CLUSTER, BEGINNING)
    assert set(found) == {"n", "m"}
    store.describe(CLUSTER, {"n": replace(NodeContext(node="n"), capacity=8), "m": None})
    assert store.described(CLUSTER, cursor)[1] == {"n": NodeContext(node="n", capacity=8), "m": None}


def test_the_worker_says_how_it_is(store):
    assert store.worker(CLUSTER) is None
    store.say(CLUSTER, Worker(5.0, readings=3))
    assert store.worker(CLUSTER) == Worker(5.0, readings=3)


# Redis


def test_after_a_flush_readers_hear_everything_again(stores):
    store = stores()
    store.publish(CLUSTER, {"n": told(), "m": told()})
    cursor, _ = store.changed(CLUSTER, BEGINNING)
    for key in store._redis.keys(f"{store._namespace}*"):
        store._redis.delete(key)
    assert store.changed(CLUSTER, cursor)[1] == {}
    store.publish(CLUSTER, {"n": told(count=7)})
    assert store.changed(CLUSTER, cursor)[1] == {"n": told(count=7)}, "whatever number it has"


def test_names_of_nodes_that_are_gone_do_not_pile_up(stores, monkeypatch):
    monkeypatch.setattr("fleet.live.gpus_redis.MOST_GONE", 3)
    store = stores()
    store.publish(CLUSTER, {f"n{i}": told() for i in range(10)})
    store.forget(CLUSTER, [f"n{i}" for i in range(9)])
    assert store._redis.zcard(store.key(CLUSTER, "told:order")) <= 4
    assert store.changed(CLUSTER, BEGINNING)[1] == {"n9": told()}


def test_what_another_version_wrote_is_as_if_it_had_been_forgotten(stores):
    store = stores()
    store.settle(CLUSTER, Settled(healths={"n": health(), "m": health("m")}, transitions=[transition()]))
    store._redis.hset(store.key(CLUSTER, "healths"), "n", b"\x81\xa3old\x01")
    store._redis.lpush(store.key(CLUSTER, "owed"), b"\xc1")
    assert set(store.remembered(CLUSTER)) == {"m"}
    assert store.owed(CLUSTER) == [transition()]


def test_while_redis_is_away_every_call_says_so():
    with redis_server() as url:
        store = RedisGpus(url)
        store.offer(CLUSTER, received())
    for call in (
        lambda: store.offer(CLUSTER, received(sequence=2)),
        lambda: store.take(CLUSTER, 1),
        lambda: store.hold(CLUSTER, "me", 1.0),
        lambda: store.settle(CLUSTER, Settled(["1-1"])),
        lambda: store.publish(CLUSTER, {"n": told()}),
        lambda: store.changed(CLUSTER, BEGINNING),
        lambda: store.series(CLUSTER, "n"),
        lambda: store.worker(CLUSTER),
    ):
        with pytest.raises(PictureError):
            call()
