"""How true a picture is: what makes it so, what stops the clock, and which kinds may be left out."""

import pytest

from fleet.domain.kube import Bookmark, Kind, Listed, Lost
from fleet.domain.truth import FORBIDDEN_FOR_S, NEEDED, Truth


def opened(*without: Kind) -> Truth:
    """Every stream but some was listed and opened at 100, and the server answered what it was asked at 101."""
    truth = Truth()
    truth.begin(99.0)
    for kind in Kind:
        if kind not in without:
            truth.hear(Listed(kind, (), "1"), 100.0)
            truth.hear(Bookmark(kind, "1"), 100.0)
    truth.learn(101.0, None)
    return truth


def lose(truth: Truth, kind: Kind, reason: str, now: float) -> None:
    truth.hear(Lost(kind, reason, 0.0), now)


def test_it_needs_every_stream_open_before_the_question_was_asked() -> None:
    truth = Truth()
    truth.begin(50.0)
    for kind in Kind:
        assert not truth.learn(100.0, None)
        truth.hear(Bookmark(kind, "1"), 99.0 if kind is not Kind.EVENT else 101.0)
    assert not truth.learn(100.0, None)
    assert truth.at == 50.0
    assert truth.learn(102.0, None)
    assert not truth.learn(102.0, None), "nothing new"
    assert truth.at == 102.0


def test_a_list_alone_opens_no_stream() -> None:
    truth = opened(Kind.JOB)
    truth.hear(Listed(Kind.JOB, (), "1"), 100.0)
    assert truth.at == 99.0


def test_a_stream_in_trouble_stops_the_clock_until_it_is_open_again() -> None:
    truth = opened()
    lose(truth, Kind.POD, "cut off", 110.0)
    assert not truth.learn(120.0, None)
    assert truth.trouble(130.0) == (("pods", "cut off", 20.0),)
    truth.hear(Bookmark(Kind.POD, "7"), 131.0)
    assert truth.learn(132.0, None)
    assert truth.trouble(133.0) == ()


def test_while_a_kind_is_listed_again_it_is_in_trouble() -> None:
    """After 410 we do not know what we missed: an object may have gone, or be another one of the same name."""
    truth = opened()
    lose(truth, Kind.POD, "Expired", 110.0)
    truth.hear(Listed(Kind.POD, (), "9"), 115.0)
    assert truth.trouble(116.0) == (("pods", "Expired", 6.0),)
    assert not truth.learn(116.0, None)
    truth.hear(Bookmark(Kind.POD, "9"), 117.0)
    assert truth.learn(118.0, None)


def test_trouble_is_counted_from_its_beginning_whatever_it_becomes() -> None:
    truth = opened()
    lose(truth, Kind.POD, "silent", 110.0)
    lose(truth, Kind.POD, "refused", 120.0)
    assert truth.trouble(130.0) == (("pods", "refused", 20.0),)


def test_the_servers_own_failure_is_news_once() -> None:
    truth = opened()
    before = truth.causes
    truth.learn(101.0, ("silent", 110.0))
    assert truth.causes - before == {("server", "silent")}
    assert truth.trouble(112.0) == (("server", "silent", 2.0),)
    truth.learn(115.0, None)
    assert truth.causes == before
    assert truth.at == 115.0


def test_a_kind_that_was_never_readable_is_left_out_at_once() -> None:
    truth = opened(Kind.SERVICE)
    lose(truth, Kind.SERVICE, "Forbidden", 100.0)
    assert list(truth.hide(100.0)) == [Kind.SERVICE]
    assert list(truth.hide(100.0)) == [], "once"
    assert truth.learn(102.0, None)
    assert truth.trouble(103.0) == (("services", "Forbidden", 3.0),), "it is named"
    truth.hear(Listed(Kind.SERVICE, (), "5"), 110.0)
    assert not truth.learn(111.0, None), "it counts again"


def test_one_that_we_could_read_is_left_out_when_that_is_for_good() -> None:
    truth = opened()
    lose(truth, Kind.SERVICE, "cut off", 50.0)
    lose(truth, Kind.SERVICE, "Forbidden", 110.0)
    lose(truth, Kind.SERVICE, "Forbidden", 120.0)
    assert list(truth.hide(110.0 + FORBIDDEN_FOR_S - 1)) == []
    assert not truth.learn(139.0, None), "until then the picture gets old"
    assert list(truth.hide(110.0 + FORBIDDEN_FOR_S)) == [Kind.SERVICE]
    assert truth.learn(141.0, None)


@pytest.mark.parametrize("kind", sorted(NEEDED))
def test_nodes_and_pods_are_never_left_out(kind: Kind) -> None:
    truth = opened(kind)
    lose(truth, kind, "Forbidden", 100.0)
    assert list(truth.hide(10_000.0)) == []
    assert not truth.learn(10_000.0, None)


def test_what_is_not_forbidden_is_never_left_out() -> None:
    truth = opened(Kind.SERVICE)
    lose(truth, Kind.SERVICE, "Unauthorized", 100.0)
    assert list(truth.hide(10_000.0)) == []


def test_a_new_slice_opens_its_streams_anew_and_keeps_what_was_true() -> None:
    truth = opened()
    truth.begin(200.0)
    assert truth.at == 101.0
    assert not truth.learn(201.0, None)
