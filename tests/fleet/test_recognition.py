"""Whose token it is, remembered: for how long, how many, and tokens that a site gave out by hand."""

import base64
import json

from msgspec.structs import replace

from fleet.domain.callers import NODE, Caller, Refusal, Review
from fleet.recognition import BAD_FOR_S, GOOD_FOR_S, Recognition, digest, expiry

ACCOUNT = "vigie:vigie-agent"
GOOD = Review(True, f"system:serviceaccount:{ACCOUNT}", ("vigie",), {NODE: ["n"]})


class Reviews:
    def __init__(self, review: Review = GOOD) -> None:
        self.answer, self.asked = review, 0

    def review(self, token, audience):
        self.asked += 1
        return self.answer

    def node_of_pod(self, namespace, name):
        return ""


class At:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def jwt(**claims) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{part}.signature"


def test_a_good_token_is_remembered_for_a_minute():
    port, clock = Reviews(), At()
    found = Recognition(lambda _: port, ACCOUNT, now=clock)
    assert found.known("c", "t") is None
    assert found.ask("c", "t") == found.known("c", "t") == Caller("n")
    assert found.known("another", "t") is None, "a token is good for its cluster alone"
    clock.now += GOOD_FOR_S
    assert found.known("c", "t") is None


def test_never_longer_than_the_token_itself():
    clock = At()
    found = Recognition(lambda _: Reviews(), ACCOUNT, now=clock)
    token = jwt(exp=clock.now + 5)
    found.ask("c", token)
    clock.now += 6
    assert found.known("c", token) is None


def test_a_bad_token_is_remembered_for_a_moment():
    port, clock = Reviews(replace(GOOD, authenticated=False)), At()
    found = Recognition(lambda _: port, ACCOUNT, now=clock)
    assert isinstance(found.ask("c", "t"), Refusal)
    assert isinstance(found.known("c", "t"), Refusal)
    clock.now += BAD_FOR_S
    assert found.known("c", "t") is None


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("fleet.recognition.MOST", 3)
    found = Recognition(lambda _: Reviews(), ACCOUNT)
    for n in range(5):
        found.ask("c", f"t{n}")
    assert [found.known("c", f"t{n}") is not None for n in range(5)] == [False, False, True, True, True]


def test_what_is_no_token_is_not_sent_to_the_cluster():
    port = Reviews()
    found = Recognition(lambda _: port, ACCOUNT)
    for token in ("", "x" * 20_000, "ä", "a\nb", "\udcff"):
        assert isinstance(found.ask("c", token), Refusal)
    assert port.asked == 0


def test_when_a_token_says_that_it_ends():
    assert expiry(jwt(exp=7)) == 7
    for token in ("", "a.b", "a.b.c", jwt(), jwt(exp="soon"), "a.!!!.c"):
        assert expiry(token) == 0


def test_the_file_of_tokens_is_read_again_when_it_was_written(tmp_path):
    path = tmp_path / "tokens"
    port = Reviews(replace(GOOD, authenticated=False))
    found = Recognition(lambda _: port, ACCOUNT, path)
    assert isinstance(found.ask("c", "one"), Refusal), "there is no file yet"
    path.write_text(f"# tokens\n\n{digest('two')} c m\nnonsense\n{digest('two')} d k\n")
    assert found.ask("c", "two") == Caller("m")
    assert found.ask("d", "two") == Caller("k")
    assert isinstance(found.ask("e", "two"), Refusal)
