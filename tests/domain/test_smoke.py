"""The smoke test: what may be asked, and what an answer is worth."""

import pytest

from fleet.domain import smoke
from fleet.domain.smoke import Answer, Fault, Request, RequestError

MODELS = b'{"object": "list", "data": [{"id": "llm-chat", "n": 3, "ok": true, "none": null}]}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"path": "models"}', "path"),
        ('{"path": "/a b"}', "path"),
        ('{"path": "/a\\r\\nHost: other"}', "path"),
        ('{"path": "/a\\u0000"}', "path"),
        ('{"path": "/a%0d%0aX-Header: 1"}', "path"),
        ('{"path": "/a%0D%0AX"}', "path"),
        ('{"path": "/a#b"}', "path"),
        ('{"path": "/../../../secrets"}', "path-leads-out"),
        ('{"path": "/a/%2e%2E/b"}', "path-leads-out"),
        ('{"path": "/a%2f..%2fb"}', "path-leads-out"),
        ('{"path": "/.%2e/b"}', "path-leads-out"),
        ('{"path": "/a%5C..%5Cb"}', "path-leads-out"),
        ('{"path": "/a/./b"}', "path-leads-out"),
        ('{"path": "/..?x"}', "path-leads-out"),
        ('{"path": "/a%00"}', "path"),
        ('{"path": "/é"}', "path"),
        ('{"path": "http://10.0.0.1/"}', "path"),
        ('{"path": ""}', "path"),
        ('{"path": "/", "port": 0}', "port"),
        ('{"path": "/", "port": 65536}', "port"),
        ('{"path": "/", "port": "a/b"}', "port"),
        ('{"path": "/", "port": "8000"}', "port"),
        ('{"path": "/", "port": -1}', "port"),
        ('{"path": "/", "port": true}', "unreadable"),
        ('{"path": "/", "status": 99}', "status"),
        ('{"path": "/", "equals": 1}', "equals"),
        ('{"path": "/", "json": "a[x]"}', "json"),
        ('{"path": "/", "json": "$"}', "json"),
        ('{"path": "/", "within_s": 1e999}', "unreadable"),
        ('{"path": "/", "within_s": 0}', "within"),
        ('{"path": "/", "within_s": 31}', "within"),
        ('{"path": "/", "headers": {"Host": "x"}}', "unreadable"),
        ('{"path": "/", "method": "DELETE"}', "unreadable"),
        ("[]", "unreadable"),
        ("", "unreadable"),
    ],
)
def test_what_may_not_be_asked(text: str, why: str) -> None:
    with pytest.raises(RequestError) as refused:
        smoke.request(text)
    assert refused.value.why == why


def test_what_may_be_asked() -> None:
    found = smoke.request('{"path": "/v1/models?a=..", "port": "http", "json": "$.data[0].id", "equals": "llm-chat"}')
    assert (found.port, found.within_s) == ("http", 2.0)
    assert smoke.port_of(found, {"http": 8000}, 9000) == 8000
    assert smoke.port_of(found, {}, 9000) is None
    assert smoke.port_of(Request("/"), {"http": 8000}, 9000) == 9000


@pytest.mark.parametrize(
    ("asked", "answer", "fault"),
    [
        (Request("/"), Answer(200, b"ok", 0.1), ""),
        (Request("/"), Answer(204), ""),
        (Request("/"), Answer(503, b"warming up"), Fault.STATUS),
        (Request("/", status=503), Answer(503), ""),
        (Request("/", status=200), Answer(204), Fault.STATUS),
        (Request("/"), Answer(302), Fault.STATUS),
        (Request("/"), Answer(None, trouble="silent"), Fault.SILENT),
        (Request("/"), Answer(None, trouble="too-long"), Fault.TOO_LONG),
        (Request("/", json="data.²"), Answer(200, MODELS), Fault.NO_VALUE),
        (Request("/", json="data.99999999999999999999"), Answer(200, MODELS), Fault.NO_VALUE),
        (Request("/", json="n", equals="1"), Answer(200, b'{"n": ' + b"1" * 5000 + b"}"), Fault.NOT_JSON),
        (Request("/", within_s=0.5), Answer(200, b"", 0.51), Fault.SLOW),
        (Request("/"), Answer(200, b"x" * (smoke.MOST_BYTES + 1)), Fault.TOO_LONG),
        (Request("/", contains="llm-chat"), Answer(200, MODELS), ""),
        (Request("/", contains="llm-code"), Answer(200, MODELS), Fault.CONTAINS),
        (Request("/", json="data.0.id", equals="llm-chat"), Answer(200, MODELS), ""),
        (Request("/", json="data[0].id", equals="llm-code"), Answer(200, MODELS), Fault.VALUE),
        (Request("/", json="data[0].n", equals="3"), Answer(200, MODELS), ""),
        (Request("/", json="data[0].ok", equals=1), Answer(200, MODELS), Fault.VALUE),
        (Request("/", json="data[0].ok", equals=True), Answer(200, MODELS), ""),
        (Request("/", json="data[1].id"), Answer(200, MODELS), Fault.NO_VALUE),
        (Request("/", json="data[0].none"), Answer(200, MODELS), Fault.NO_VALUE),
        (Request("/", json="data"), Answer(200, b"<html>"), Fault.NOT_JSON),
        (Request("/", json="data"), Answer(200, b"[" * 100_000), Fault.NOT_JSON),
    ],
)
def test_what_an_answer_is_worth(asked: Request, answer: Answer, fault: str) -> None:
    assert smoke.judge("llm-green-1", asked, answer).fault == fault


def test_nobody_asked_is_not_passed() -> None:
    good = smoke.judge("a", Request("/"), Answer(200))
    bad = smoke.judge("b", Request("/", contains="x"), Answer(200, b"a\x1b[31m\nb" * 50))
    assert smoke.whole([good, good])
    assert not smoke.whole([good, bad])
    assert not smoke.whole([])
    assert bad.found.isprintable()
    assert len(bad.found) <= smoke.SHOWN
