"""The door seen from a node: what is sent, to whom it may be sent, and what an answer means."""

import ssl

import pytest
import trustme

from fleet.adapters.readings_http import MOST_PAUSE_S, PAUSE_S, Answer, Door, Verdict, verdict
from tests.fleet.agent import door as doors

READING = b'{"node": "gpu-07"}'


@pytest.fixture
def door():
    with doors.served() as served:
        yield served


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def test_a_reading_is_posted_with_the_token_of_now(door, token):
    client = Door(door.url + "/", token, "paris")
    assert client.post(READING) == Answer(Verdict.ACCEPTED)
    token.write_text("second")
    client.post(READING)
    client.close()
    assert door.readings == [{"node": "gpu-07"}] * 2
    assert [headers["Authorization"] for headers in door.headers] == ["Bearer first", "Bearer second"]
    first = door.headers[0]
    assert (first["path"], first["Vigie-Cluster"]) == ("/api/v1/readings", "paris")
    assert (first["Content-Encoding"], first["Content-Type"]) == ("gzip", "application/json")


def test_the_cluster_may_be_left_out(door, token):
    Door(door.url, token).post(READING)
    assert "Vigie-Cluster" not in door.headers[0]


@pytest.mark.parametrize(
    ("status", "retry_after", "expected", "pause_s"),
    [
        (202, "", Verdict.ACCEPTED, 0),
        (400, "", Verdict.BROKEN, 0),
        (413, "", Verdict.BROKEN, 0),
        (415, "", Verdict.BROKEN, 0),
        (401, "", Verdict.REFUSED, 0),
        (403, "", Verdict.REFUSED, 0),
        (404, "", Verdict.REFUSED, 0),
        (409, "", Verdict.ACCEPTED, 0),
        (301, "", Verdict.REFUSED, 0),
        (500, "", Verdict.REFUSED, 0),
        (429, "7", Verdict.WAIT, 7),
        (503, "0.5", Verdict.WAIT, PAUSE_S),
        (503, "", Verdict.WAIT, PAUSE_S),
        (503, "Wed, 02 Dec 2026 10:00:00 GMT", Verdict.WAIT, PAUSE_S),
        (503, "nan", Verdict.WAIT, PAUSE_S),
        (503, "99999", Verdict.WAIT, MOST_PAUSE_S),
        (429, "-3", Verdict.WAIT, 0),
        (502, "", Verdict.WAIT, PAUSE_S),
    ],
)
def test_what_an_answer_means(status, retry_after, expected, pause_s):
    found = verdict(status, b'{"title": "no"}', retry_after)
    assert (found.verdict, found.pause_s) == (expected, pause_s)
    assert found.words == ("" if status == 202 else f'{status}: {{"title": "no"}}')


def test_a_redirection_does_not_carry_the_token_away(door, token):
    door.answers = [(307, {"Location": "http://127.0.0.1:1/"}, b"")]
    assert Door(door.url, token).post(READING).verdict is Verdict.REFUSED
    assert len(door.readings) == 1


def test_nobody_is_there(token):
    found = Door("http://127.0.0.1:1", token).post(READING)
    assert found.verdict is Verdict.UNREACHABLE
    assert "first" not in found.words


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a\nb"])
def test_a_token_that_cannot_be_used(door, token, content):
    token.unlink()
    if content is not None:
        token.write_bytes(content)
    found = Door(door.url, token).post(READING)
    assert found.verdict in {Verdict.REFUSED, Verdict.UNREACHABLE}
    assert door.readings == []


def test_whom_tls_trusts(token, tmp_path):
    """A certificate of nobody that we know is refused before the token leaves."""
    ours, other = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ours.pem")
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("localhost").configure_cert(tls)
    with doors.served(tls) as door:
        for ca_file in (None, tmp_path / "other.pem"):
            assert Door(door.url, token, ca_file=ca_file).post(READING).verdict is Verdict.UNREACHABLE
        assert door.readings == []
        assert Door(door.url, token, ca_file=tmp_path / "ours.pem").post(READING).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("vigie.example.org", "looks like https://"),
        ("ftp://vigie.example.org", "looks like https://"),
        ("https://", "looks like https://"),
        ("http://vigie.example.org", "use https"),
        ("https://someone:secret@vigie.example.org", "must not hold"),
        ("https://vigie.example.org/?a=1", "must not hold"),
    ],
)
def test_addresses_that_readings_are_not_sent_to(token, url, words):
    with pytest.raises(ValueError, match=words):
        Door(url, token)


def test_a_certificate_file_that_is_none(token, tmp_path):
    for path in (token, tmp_path / "none"):
        with pytest.raises(ValueError, match="cannot read certificates"):
            Door("https://vigie.example.org", token, ca_file=path)
