"""The second half of the read path: readings in, verdicts and transitions out; through restarts, flushes and locked databases."""

import threading
import uuid

import pytest
from django.db import OperationalError

from fleet import history
from fleet.books import Books
from fleet.domain.verdicts import NodeContext
from fleet.domain.xid import classify
from fleet.live import BEGINNING, MemoryGpus, Received
from fleet.live.gpus_redis import RedisGpus
from fleet.observe import Ingest, IngestPace
from tests.backends import redis_server
from tests.fleet import readings

pytestmark = [pytest.mark.db, pytest.mark.django_db]

NOW = 1_800_000_000.0
XID_79 = classify(readings.xid(79, "n", 3, NOW)).state
PACE = IngestPace(every_s=0, tell_s=0, sweep_s=0, renew_s=0)


class Turns:
    """Stops after so many turns."""

    def __init__(self, turns: int = 1) -> None:
        self.left = turns

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0

    def wait(self, timeout: float | None = None) -> bool:
        return False


class Site:
    """One cluster's store, its clock, and the worker that may be replaced by another one."""

    def __init__(self, store) -> None:
        self.store, self.cluster, self.now = store, uuid.uuid4().hex, NOW
        self.cursor = BEGINNING
        self.start()

    def start(self) -> None:
        """A process that knows nothing."""
        books = Books(self.cluster, aside=lambda job: job())
        self.ingest = Ingest(self.cluster, self.store, pace=PACE, now=lambda: self.now, books=books)

    def post(self, *found) -> None:
        for reading in found:
            self.store.offer(self.cluster, Received(self.now, reading))

    def turn(self, turns: int = 2) -> None:
        assert self.ingest.run(Turns(turns))

    def told(self):
        self.cursor, found = self.store.changed(self.cluster, self.cursor)
        return found

    def states(self, node="n") -> list[str]:
        rows = self.told()[node].rows.values()
        return [row.state for row in sorted(rows, key=lambda row: row.index)]

    def ledger(self) -> list[tuple[int, str, str, str]]:
        found = history.transitions(self.cluster, since=0, until=NOW * 2)
        return [(t.evidence.get("index"), t.from_state, t.to_state, t.reason) for t in found]


@pytest.fixture(params=["memory", "redis"])
def site(request):
    if request.param == "memory":
        yield Site(MemoryGpus())
        return
    url = request.getfixturevalue("redis_url")
    yield Site(RedisGpus(url, f"test:{uuid.uuid4().hex}"))


def reading(sequence=1, at=NOW, node="n", **changes):
    return readings.reading(node, sequence, at, **changes)


def lost(sequence=2, at=NOW + 5):
    return reading(sequence, at, faults=(readings.xid(79, "n", 3, at - 0.2),))


def test_a_reading_becomes_rows_and_the_first_transitions(site):
    site.post(reading())
    site.turn()
    told = site.told()["n"]
    assert {row.state for row in told.rows.values()} == {"ok"}
    assert (told.standing.measured, told.standing.count) == (True, 8)
    assert site.ledger() == [(i, "", "ok", "") for i in range(8)]
    assert site.store.waiting(site.cluster) == 0


def test_a_fault_is_told_and_recorded(site):
    site.post(reading())
    site.turn()
    site.post(lost())
    site.turn()
    assert site.states() == ["ok"] * 3 + [XID_79] + ["ok"] * 4
    assert site.ledger()[-1] == (3, "ok", XID_79, "xid-79")


def test_without_news_nothing_is_recorded(site):
    for sequence in range(1, 6):
        site.post(reading(sequence, NOW + 5 * sequence))
        site.now += 5
        site.turn()
    assert len(site.ledger()) == 8
    assert site.store.series(site.cluster, "n")[readings.uuid("n", 0)]["power_w"]


def test_after_a_minute_of_silence_its_gpus_are_unknown(site):
    site.post(reading(), reading(node="m"))
    site.turn()
    site.told()
    site.now += 59
    site.post(reading(2, NOW + 59, node="m"))
    site.turn()
    assert {row.state for row in site.told()["n"].rows.values()} == {"ok"}
    site.now += 2
    site.turn()
    told = site.told()
    assert {row.state for row in told["n"].rows.values()} == {"unknown"}
    assert told["n"].standing.silent_since_at == pytest.approx(NOW)
    assert told["m"].standing.silent_since_at is None
    assert site.ledger()[-1] == (7, "ok", "unknown", "readings-silent")
    site.turn()
    assert len(site.ledger()) == 24, "it is told once"


def test_readings_that_waited_count_before_anybody_is_called_silent(site):
    """The worker was away for ten minutes, the door was not."""
    site.post(reading())
    site.turn()
    site.told()
    site.now += 600
    site.store.offer(site.cluster, Received(site.now - 1, reading(2, site.now - 1)))
    site.start()
    site.turn()
    assert set(site.states()) == {"ok"}
    assert len(site.ledger()) == 8


def test_planned_work_is_no_incident(site):
    site.store.describe(
        site.cluster, {"n": NodeContext(node="n", upgrade_state="pod-restart-required", gpu_labelled=True)}
    )
    site.post(reading(), reading(2, NOW + 5, status="no-driver", count=None, gpus=(), error="driver not loaded"))
    site.turn()
    told = site.told()["n"]
    assert told.standing.planned == "driver-upgrade"
    assert len(told.rows) == 8
    assert all(t.planned for t in history.transitions(site.cluster, since=0, until=NOW * 2) if t.to_state == "unknown")


def test_another_process_goes_on_from_what_the_store_holds(site):
    site.post(reading(), lost())
    site.turn()
    before = site.states()
    site.start()
    site.post(reading(3, NOW + 10))
    site.turn()
    assert site.states() == before
    assert len(site.ledger()) == 9


def test_a_worker_that_was_killed_between_two_steps_writes_nothing_twice(site):
    """Assessed and recorded, but not settled: the same readings come again."""
    site.post(reading(), lost())
    batch = site.store.take(site.cluster, 10)
    first = Ingest(
        site.cluster, site.store, pace=PACE, now=lambda: site.now, books=Books(site.cluster, lambda job: job())
    )
    for _, packed in batch:
        first._take_in(packed)
    first.books.write({})
    recorded = site.ledger()
    assert len(recorded) == 9
    site.turn()
    assert site.ledger() == recorded


def test_debts_of_a_killed_worker_are_paid_by_the_next(site, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(history, "record", _locked)
        site.post(reading(), lost())
        site.turn()
    assert site.ledger() == []
    assert len(site.store.owed(site.cluster)) == 9
    site.start()
    site.turn(3)
    assert len(site.ledger()) == 9
    site.turn()
    assert site.store.owed(site.cluster) == []


def test_verdicts_do_not_wait_for_a_locked_ledger(site, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(history, "record", _locked)
        site.post(reading(), lost())
        site.turn()
        assert site.states()[3] != "ok"
        assert site.store.waiting(site.cluster) == 0
    site.ingest.books._write_at = 0.0
    site.turn(3)
    assert len(site.ledger()) == 9
    assert not site.ingest.books.owed


def _locked(*_arguments):
    raise OperationalError("database is locked")


def test_an_xid_survives_when_everything_but_the_ledger_is_lost(site):
    """The GPU answers again, as if nothing had been; its Xid 79 stands until a reboot."""
    site.post(reading(), lost())
    site.turn()
    state = site.states()[3]
    other = Site(MemoryGpus())
    other.cluster, other.now = site.cluster, NOW + 20
    other.start()
    other.post(reading(1, NOW + 20, agent="agent-2"))
    other.turn()
    assert other.states()[3] == state
    other.post(reading(1, NOW + 30, agent="agent-3", boot_id="another boot"))
    other.now += 10
    other.turn()
    assert other.states() == ["ok"] * 8, "and a reboot clears it"


def test_a_reading_that_nobody_can_assess_stops_no_other(site, monkeypatch):
    site.post(reading(), reading(node="m"))
    broken = site.ingest.memory.assess
    monkeypatch.setattr(
        site.ingest.memory.__class__,
        "assess",
        lambda self, received, catalogue: (
            1 / 0 if received.reading.node == "n" else broken.__func__(self, received, catalogue)
        ),
    )
    site.turn()
    assert set(site.told()) == {"m"}
    assert site.store.worker(site.cluster).unreadable == 1
    assert site.store.waiting(site.cluster) == 0


def test_one_drainer_at_a_time(site):
    assert site.store.hold(site.cluster, "somebody else", 60.0)
    assert site.ingest.run(Turns(3)) is False
    site.store.release(site.cluster, "somebody else")
    site.turn()


def test_a_node_that_left_the_cluster_is_forgotten(site):
    site.store.describe(site.cluster, {"n": NodeContext(node="n")})
    site.post(reading())
    site.turn()
    site.told()
    site.store.describe(site.cluster, {"n": None})
    site.turn()
    assert site.told() == {"n": None}
    assert site.store.remembered(site.cluster) == {}


def test_after_a_flush_the_worker_puts_back_what_it_remembers():
    with redis_server() as url:
        site = Site(RedisGpus(url))
        site.post(reading(), lost())
        site.turn()
        before = site.states()
        site.store._redis.flushall()
        site.turn()
        site.cursor = BEGINNING
        assert site.states() == before
        assert set(site.store.remembered(site.cluster)) == {"n"}
        port = int(url.split(":")[-1].split("/")[0])
    assert site.ingest.run(Turns()) is False, "Redis is away"
    with redis_server(port):
        site.post(reading(3, NOW + 10))
        site.turn()
        site.cursor = BEGINNING
        assert site.states() == before, "what happened before Redis went away still counts"
        assert len(site.ledger()) == 9


def test_minutes_are_recorded_when_they_have_ended(site):
    begin = NOW - NOW % 60
    for i in range(13):
        site.now = begin + 5 * i
        site.post(reading(i + 1, site.now))
        site.turn()
    found = history.minutes(site.cluster, "n", begin, begin + 120)
    assert len(found) == 8
    assert [at for at, _ in found[readings.uuid("n", 0)]] == [begin]
    assert found[readings.uuid("n", 0)][0][1].utilization_pct == 37


def test_a_slice_ends_when_it_is_told_to():
    site, stopping = Site(MemoryGpus()), threading.Event()
    done: list[bool] = []
    worker = threading.Thread(target=lambda: done.append(site.ingest.run(stopping)))
    worker.start()
    stopping.set()
    worker.join(5)
    assert done == [True]
