"""The stores of scans: one contract for memory and Redis; and the writer, who takes scans into the picture."""

import time
import uuid
from dataclasses import replace

import pytest
import redis

from fleet.domain import save_rows
from fleet.domain.checkpoints import Checkpoint, Components, Format, Note, Presence, Sign, State
from fleet.domain.found_saves import Broken, Found, InFlight, Left
from fleet.domain.freshness import Freshness, Report, Standing
from fleet.domain.save_history import Usual
from fleet.domain.save_sites import Durability
from fleet.domain.training import Hook, Life, Signal, Source, Training
from fleet.live import DeepCheck, MemoryPicture, MemorySaves, PictureError, Scan
from fleet.live.saves import SCAN_SILENT_S
from fleet.live.saves_redis import RedisSaves
from fleet.observe import Writer
from tests.fleet.clusters import FakeCluster, wait_for
from tests.fleet.test_observe import QUICK, running, shown

CLUSTER = "lab {with} braces/and: more"
LLM = Training(
    "Job/ml/llm", "ml", "pvc://ml/ckpt/llm", "/ckpt/llm", "", 600.0, Source.ARGUMENT, Durability.DURABLE, "v", "ml/ckpt",
    shared=True, hook=Hook(signal=Signal.USR1, container="t"), life=Life.ACTIVE, started_at=1.5, unread=("x",),
)  # fmt: skip
WHOLE = Components(*[Presence.PRESENT] * 5)
KNOWN = Freshness(
    LLM,
    Standing.FRESH,
    100.25,
    read=True,
    newest=Found(90.0, 7, 10**13, WHOLE, "pvc://ml/ckpt/llm/step-7", Format.DCP),
    in_flight=InFlight("llm/step-8", 8, 1, 95.0, 99.0),
    abandoned=Left(1, 5),
    broken=Broken("llm/step-9", 9, State.CORRUPT, "ends-early", "llm/step-9/é"),
    report=Report(80.0, 6),
    usual=Usual(3, 600.0, 20.0, 10**13, 2.0),
    checkpoints=(Checkpoint("llm/step-7", Format.DCP, State.COMPLETE, 7, 90.0, notes=(Note(Sign.OMITTED, "x"),)),),
)


def scan(name: str, at: float = 100.0, *found: Freshness) -> Scan:
    return Scan(name, at, 0.5, {each.training.workload: save_rows.row(each) for each in found})


@pytest.fixture
def namespace():
    return f"test:{uuid.uuid4().hex}"


@pytest.fixture(params=["memory", "redis"])
def store(request, redis_url, namespace):
    return MemorySaves(lambda: 1000.0) if request.param == "memory" else RedisSaves(redis_url, namespace)


def test_nothing_is_known_before_the_first_scan(store):
    assert (store.scan(CLUSTER), store.newer(CLUSTER, ""), store.all_found(CLUSTER)) == (None, None, {})
    assert store.found(CLUSTER, "Job/ml/llm") is None
    assert store.checks(CLUSTER) == {}


def test_a_scan_is_the_whole_truth(store):
    store.publish(CLUSTER, scan("one", 100.0, KNOWN), {"Job/ml/llm": KNOWN})
    assert store.scan(CLUSTER) == scan("one", 100.0, KNOWN)
    assert store.found(CLUSTER, "Job/ml/llm") == KNOWN
    assert store.all_found(CLUSTER) == {"Job/ml/llm": KNOWN}
    assert store.newer(CLUSTER, "one") is None
    assert store.scan("other") is None
    store.publish(CLUSTER, scan("two", 130.0), {})
    assert store.newer(CLUSTER, "one") == scan("two", 130.0)
    assert (store.found(CLUSTER, "Job/ml/llm"), store.all_found(CLUSTER)) == (None, {})


def test_deep_checks_are_told_by_workload_and_path(store):
    running = DeepCheck("Job/ml/llm", "llm/step-7", "running", 990.0, 991.0, "olga", 5, 10)
    other = DeepCheck("Job/ml/llm", "llm/step-8", "failed", 990.0, 991.0, error="denied")
    done = DeepCheck("Job/ml/llm", "llm/step-7", "done", 990.0, 999.0, "olga", 10, 10, KNOWN.checkpoints[0])
    for told in (running, other, done):
        store.tell(CLUSTER, told)
    assert store.checks(CLUSTER) == {done.key: done, other.key: other}


def test_memory_forgets_checks_of_yesterday():
    now = [1000.0]
    store = MemorySaves(lambda: now[0])
    store.tell(CLUSTER, DeepCheck("w", "p", "done", 990.0, 1000.0))
    now[0] += 86_401
    assert store.checks(CLUSTER) == {}


def test_what_another_version_has_written_is_not_there(redis_url, namespace):
    store = RedisSaves(redis_url, namespace)
    store.publish(CLUSTER, scan("one", 100.0, KNOWN), {"Job/ml/llm": KNOWN})
    link = redis.Redis.from_url(redis_url)
    link.set(f"{namespace}:{{{CLUSTER}}}:scan", b"\x93not ours")
    link.hset(f"{namespace}:{{{CLUSTER}}}:found", "Job/ml/llm", b"\x01")
    assert (store.scan(CLUSTER), store.newer(CLUSTER, ""), store.all_found(CLUSTER)) == (None, None, {})
    link.close()


def test_a_store_that_is_away_says_so():
    with pytest.raises(PictureError):
        RedisSaves("redis://127.0.0.1:1/0").scan(CLUSTER)


def test_the_writer_shows_the_last_scan_and_doubts_an_old_one():
    """In its own thread, as it runs; a scan that nobody has followed for minutes is no longer believed."""
    cluster, picture, saves = FakeCluster(), MemoryPicture(lambda _: None), MemorySaves()
    saves.publish("lab", scan("one", time.time(), KNOWN), {"Job/ml/llm": KNOWN})
    with running(Writer(cluster, picture, replace(QUICK, scan_s=0.01), saves=saves)):
        wait_for(lambda: picture.read("lab") and shown(picture).checkpoints)
        assert shown(picture).checkpoints == {"Job/ml/llm": save_rows.row(KNOWN)}
        assert "checkpoint-corrupt:Job/ml/llm" in shown(picture).attention
        saves.publish("lab", scan("old", time.time() - SCAN_SILENT_S - 1, KNOWN), {"Job/ml/llm": KNOWN})
        wait_for(lambda: shown(picture).checkpoints["Job/ml/llm"].trouble == save_rows.NO_SCAN)
