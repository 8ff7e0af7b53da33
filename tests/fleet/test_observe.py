"""The writer of a picture: when it publishes, how true it says the picture is, how slices follow one another, and how it ends."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from fleet.domain.changes import Delta, Version, diff
from fleet.domain.kube import Bookmark, Changed, Kind, Listed
from fleet.domain.picture import Snapshot
from fleet.live import MemoryPicture, PictureError, Pulse
from fleet.observe import Pace, Probe, Streams, Writer
from tests.fleet.clusters import FakeCluster, node, wait_for

QUICK = Pace(
    tick_s=0.01,
    gather_s=0.02,
    gather_most_s=0.05,
    probe_s=0.03,
    pulse_s=0.05,
    renew_s=0.05,
    lease_s=0.5,
    away_s=0.02,
)


class Recording(MemoryPicture):
    """The memory picture, with everything that was written to it, and a switch that makes it unreachable."""

    def __init__(self) -> None:
        self.notices: list[dict] = []
        super().__init__(lambda notice: self.notices.append(dict(notice)))
        self.published: list[tuple[Version, Delta | None, Snapshot, float]] = []
        self.pulses: list[tuple[Version, Pulse, float]] = []
        self.away: set[str] = set()  # calls that fail

    def publish(self, cluster, version, delta, snapshot):
        self._reach("publish")
        done = super().publish(cluster, version, delta, snapshot)
        if done:
            self.published.append((version, delta, snapshot, time.monotonic()))
        return done

    def pulse(self, cluster, version, pulse):
        self._reach("pulse")
        done = super().pulse(cluster, version, pulse)
        if done:
            self.pulses.append((version, pulse, time.monotonic()))
        return done

    def renew(self, lease):
        self._reach("renew")
        return super().renew(lease)

    def _reach(self, call: str) -> None:
        if call in self.away:
            raise PictureError("nobody is there")


@contextmanager
def running(writer: Writer) -> Iterator[threading.Event]:
    """One slice after another in a thread, until the block ends; the Event stops it sooner. A crash fails the test."""
    stopping, crash = threading.Event(), list[BaseException]()

    def slices() -> None:
        try:
            while writer.run(stopping) and not stopping.is_set():
                pass
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            crash.append(error)

    thread = threading.Thread(target=slices, daemon=True)
    thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        thread.join(3)
    assert not thread.is_alive()
    assert crash == []


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def picture() -> Recording:
    return Recording()


def shown(picture: Recording) -> Snapshot:
    found = picture.read("lab")
    assert found is not None
    return found.snapshot


# Publishing


def test_nothing_is_shown_before_every_kind_was_listed(cluster, picture):
    cluster.held_back = {Kind.EVENT}
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: len(picture.pulses) >= 3)
        assert picture.published == []
        assert picture.read("lab") is None
        assert picture.last_pulse("lab") is not None
        cluster.released.set()
        wait_for(lambda: picture.published)
    version, delta, snapshot, _ = picture.published[0]
    assert (version.n, delta) == (1, None)
    assert set(snapshot.nodes) == {"node-0", "node-1", "node-2"}


def test_a_change_is_a_delta_to_the_next_version(cluster, picture):
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.published)
        cluster.change(node("node-1", unschedulable=True))
        wait_for(lambda: len(picture.published) == 2)
        cluster.delete(node("node-2"))
        wait_for(lambda: len(picture.published) == 3)
    assert [version.n for version, *_ in picture.published] == [1, 2, 3]
    for (_, _, old, _), (_, delta, new, _) in pairwise(picture.published):
        assert delta == diff(old, new)
    assert shown(picture).nodes["node-1"].unschedulable
    assert set(shown(picture).nodes) == {"node-0", "node-1"}


def test_what_no_screen_shows_is_not_published(cluster, picture):
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.published)
        cluster.change(node("node-1"))
        pulses = len(picture.pulses)
        wait_for(lambda: len(picture.pulses) > pulses + 3)
    assert len(picture.published) == 1


def test_changes_that_come_together_are_published_together(cluster, picture):
    pace = Pace(gather_s=0.1, probe_s=0.5)
    with running(Writer(cluster, picture, pace)):
        wait_for(lambda: picture.published)
        began = time.monotonic()
        for i in range(100):
            cluster.change(node(f"node-{i % 3}", unschedulable=i % 2 == 0))
        cluster.change(node("last"))
        wait_for(lambda: "last" in shown(picture).nodes)
    assert len(picture.published) <= 4
    assert picture.published[-1][3] - began < 1.0


def test_a_lone_change_does_not_wait_longer_than_it_has_to(cluster, picture):
    with running(Writer(cluster, picture, Pace(probe_s=0.5))):
        wait_for(lambda: picture.published)
        time.sleep(0.3)
        began = time.monotonic()
        cluster.change(node("node-1", unschedulable=True))
        wait_for(lambda: len(picture.published) == 2)
    assert 0.05 < picture.published[1][3] - began < 0.5


# How true the picture is


def test_pulses_come_and_their_age_stays_small_while_all_is_well(cluster, picture):
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: len(picture.pulses) > 10)
    moments = [moment for _, _, moment in picture.pulses]
    assert max(b - a for a, b in pairwise(moments)) < 1.0
    ages = [pulse.at for _, pulse, _ in picture.pulses]
    assert ages == sorted(ages)
    assert time.time() - ages[-1] < 1.0
    assert picture.pulses[-1][1].trouble == ()


def test_a_dead_server_keeps_its_pulses_and_its_old_age(cluster, picture):
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.published and len(picture.pulses) > 5)
        cluster.dead = True
        for kind in Kind:
            cluster.lose(kind)
        wait_for(lambda: len(picture.pulses[-1][1].trouble) == len(Kind) + 1)
        at, count = picture.pulses[-1][1].at, len(picture.pulses)
        wait_for(lambda: len(picture.pulses) > count + 5)
        assert picture.pulses[-1][1].at == at
        trouble = {what: (reason, since_s) for what, reason, since_s in picture.pulses[-1][1].trouble}
        assert trouble["server"][0] == "refused"
        assert trouble["pods"][0] == "cut off"
        assert 0.0 < trouble["pods"][1] < 5.0


def test_a_lost_stream_stops_the_clock_until_it_is_open_again(cluster, picture):

    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.published and picture.pulses[-1][1].at > 0)
        cluster.lose(Kind.POD, "Forbidden")
        wait_for(lambda: picture.pulses[-1][1].trouble)
        at = picture.pulses[-1][1].at
        assert [entry[:2] for entry in picture.pulses[-1][1].trouble] == [("pods", "Forbidden")]
        count = len(picture.pulses)
        wait_for(lambda: len(picture.pulses) > count + 4)
        assert picture.pulses[-1][1].at == at
        cluster.say(Bookmark(Kind.POD, "100"))
        wait_for(lambda: picture.pulses[-1][1].at > at)
        assert picture.pulses[-1][1].trouble == ()


# Slices


def test_the_next_slice_resumes_every_stream_without_a_list(cluster, picture):
    pace = Pace(**{**QUICK.__dict__, "slice_s": 0.3})
    writer = Writer(cluster, picture, pace)
    with running(writer):
        wait_for(lambda: picture.published)
        version = cluster.change(node("node-1", unschedulable=True))
        wait_for(lambda: len(cluster.followed) >= 3 * len(Kind))
        cluster.change(node("node-1"))
        wait_for(lambda: len(picture.published) == 3)
    again = cluster.followed[len(Kind) : 2 * len(Kind)]
    assert dict(again) == dict.fromkeys(Kind, "100") | {Kind.NODE: version}
    assert {version.epoch for version, *_ in picture.published} == {picture.published[0][0].epoch}
    assert [version.n for version, *_ in picture.published] == [1, 2, 3]


def test_a_slice_takes_as_long_as_it_may_and_gives_the_lease_back(cluster, picture):
    writer = Writer(cluster, picture, Pace(slice_s=0.2, probe_s=0.05))
    began = time.monotonic()
    assert writer.run(threading.Event()) is True
    assert 0.2 <= time.monotonic() - began < 4.0
    assert picture.acquire("lab", "another", 1.0) is not None


def test_asked_to_stop_it_ends_within_a_second(cluster, picture):
    cluster.held_back = {Kind.POD}
    with running(Writer(cluster, picture, Pace())) as stopping:
        wait_for(lambda: picture.pulses)
        began = time.monotonic()
        stopping.set()
        wait_for(lambda: picture.acquire("lab", "another", 1.0))
        assert time.monotonic() - began < 3.0
    assert cluster.closed


def test_streams_are_closed_until_their_threads_have_ended(picture):
    class Stubborn(FakeCluster):
        """The first `close` comes too early for its streams."""

        def follow(self, kind, since, stopping):
            yield from super().follow(kind, since, stopping)
            while self.closed < 5:
                time.sleep(0.005)

    cluster = Stubborn()
    assert Writer(cluster, picture, Pace(slice_s=0.1)).run(threading.Event())
    assert cluster.closed >= 5
    assert not [thread for thread in threading.enumerate() if thread.name.endswith(" lab")]


# Leases


def test_somebody_else_has_the_lease(cluster, picture):
    assert picture.acquire("lab", "another", 5.0)
    assert Writer(cluster, picture, QUICK).run(threading.Event()) is False
    assert cluster.followed == []


def test_a_writer_that_was_overtaken_publishes_nothing_more(cluster, picture):
    """It was paused for longer than its lease (a laptop's lid, a stopped container)."""
    old = Writer(
        cluster,
        picture,
        Pace(**{**QUICK.__dict__, "renew_s": 3600.0, "lease_s": 0.01, "pulse_s": 3600.0, "probe_s": 3600}),
    )
    with running(old):
        wait_for(lambda: picture.published)
        time.sleep(0.02)
        new = picture.acquire("lab", "another", 5.0)
        assert new is not None
        assert new.epoch > old.version.epoch
        cluster.change(node("node-1", unschedulable=True))
        wait_for(lambda: not [t for t in threading.enumerate() if t.name.endswith(" lab")])
    assert len(picture.published) == 1
    assert not shown(picture).nodes["node-1"].unschedulable


def test_losing_the_lease_ends_the_slice(cluster, picture):
    writer = Writer(cluster, picture, Pace(**{**QUICK.__dict__, "lease_s": 0.001, "renew_s": 0.05}))
    results = list[bool]()
    thread = threading.Thread(target=lambda: results.append(writer.run(threading.Event())), daemon=True)
    thread.start()
    wait_for(lambda: picture.acquire("lab", "another", 60.0))
    thread.join(2)
    assert results == [False]


def test_a_new_holder_begins_with_a_whole_picture(cluster, picture):
    assert Writer(cluster, picture, Pace(slice_s=0.2, gather_s=0.01)).run(threading.Event())
    assert Writer(cluster, picture, Pace(slice_s=0.2, gather_s=0.01)).run(threading.Event())
    (first, *_), (second, delta, *_) = picture.published
    assert second.epoch > first.epoch
    assert (second.n, delta) == (1, None)


# Trouble with the picture, and bugs


@pytest.mark.parametrize("calls", [{"publish"}, {"publish", "pulse", "renew"}])
def test_while_the_picture_is_away_watching_goes_on_and_then_all_of_it_is_sent(cluster, picture, calls):
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.published)
        picture.away = calls
        cluster.change(node("node-1", unschedulable=True))
        time.sleep(0.1)
        cluster.change(node("node-7"))
        time.sleep(0.1)
        picture.away = set()
        wait_for(lambda: "node-7" in shown(picture).nodes)
    version, delta, snapshot, _ = picture.published[1]
    assert delta is None, "what the picture holds is unknown after a failed call"
    if calls == {"publish"}:
        assert version.n > 2, "nor is a number that was tried used again"
    assert snapshot.nodes["node-1"].unschedulable


def test_a_bug_in_a_stream_is_not_swallowed(picture):
    class Buggy(FakeCluster):
        def follow(self, kind, since, stopping):
            if kind is Kind.JOB:
                raise ZeroDivisionError
            return super().follow(kind, since, stopping)

    with pytest.raises(ZeroDivisionError):
        Writer(Buggy(), picture, QUICK).run(threading.Event())


def test_a_full_queue_holds_the_streams_up_and_loses_nothing(picture):
    cluster = FakeCluster()
    streams = Streams(cluster, Pace(waiting=10))
    for i in range(100):
        cluster.change(node(f"new-{i}"))
    thread = threading.Thread(target=streams.follow, args=(Kind.NODE, None), daemon=True)
    thread.start()
    batches, total = [], 0
    while total < 102:
        batches.append(streams.take(1.0, 0.01))
        total += len(batches[-1])
        assert batches[-1], "nothing came"
    streams.stop.set()
    thread.join(1)
    assert max(map(len, batches)) == 10
    names = [event.object.metadata.name for batch in batches for event in batch if isinstance(event, Changed)]
    assert names == [f"new-{i}" for i in range(100)]


# Known losses, and kinds that may not be read


def test_a_server_that_stops_answering_is_said_at_once(cluster, picture):
    with running(Writer(cluster, picture, Pace(**{**QUICK.__dict__, "pulse_s": 3600.0}))):
        wait_for(lambda: picture.published and picture.pulses[-1][1].at > 0)
        cluster.dead = True
        wait_for(lambda: any(what == "server" for what, *_ in picture.pulses[-1][1].trouble))
        assert picture.pulses[-1][1].loss(time.time()) == "server"
        cluster.dead = False
        wait_for(lambda: not picture.pulses[-1][1].trouble)
        assert picture.pulses[-1][1].loss(time.time()) == ""


def test_a_question_that_hangs_where_no_deadline_reaches_is_a_failure_too():
    """A resolver, for instance."""
    asked, answer = threading.Event(), threading.Event()

    class Hanging(FakeCluster):
        def version(self) -> str:
            asked.set()
            answer.wait(10)
            return "v1.36.2"

    clock, over = [1000.0], threading.Event()
    probe = Probe(Hanging(), Pace(probe_s=0.01), over, lambda: clock[0])
    probe.start()
    assert asked.wait(5)
    assert probe.failure(1002.0) is None
    assert probe.failure(1002.3) == ("silent", 1000.0)
    answer.set()
    wait_for(lambda: probe.answered_at)
    over.set()
    probe.join(5)
    assert probe.failure(clock[0]) is None


def test_a_kind_that_may_not_be_read_is_named_and_the_rest_works(cluster, picture):
    cluster.held_back = {Kind.BUDGET}
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: picture.pulses)
        cluster.lose(Kind.BUDGET, "Forbidden")
        cluster.refused.add(Kind.BUDGET)
        cluster.released.set()
        wait_for(lambda: picture.published)
        at = picture.pulses[-1][1].at
        wait_for(lambda: picture.pulses[-1][1].at > at)
        pulse = picture.pulses[-1][1]
        assert [entry[:2] for entry in pulse.trouble] == [("poddisruptionbudgets", "Forbidden")]
        assert (pulse.hidden, pulse.loss(time.time())) == (["poddisruptionbudgets"], "")
        cluster.change(node("node-1", unschedulable=True))
        wait_for(lambda: shown(picture).nodes["node-1"].unschedulable)
        cluster.say(Listed(Kind.BUDGET, (), "100"))
        cluster.say(Bookmark(Kind.BUDGET, "100"))
        wait_for(lambda: not picture.pulses[-1][1].trouble)


@pytest.mark.parametrize("kind", [Kind.NODE, Kind.POD])
def test_without_nodes_or_pods_there_is_no_picture(cluster, picture, kind):
    """Every number would be wrong: all GPUs free, or none there."""
    cluster.held_back = {kind}
    cluster.refused.add(kind)
    cluster.lose(kind, "Forbidden")
    cluster.released.set()
    with running(Writer(cluster, picture, QUICK)):
        wait_for(lambda: len(picture.pulses) > 5)
    assert picture.published == []
    assert picture.pulses[-1][1].hidden == [kind.value]
