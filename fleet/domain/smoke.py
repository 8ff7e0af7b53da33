"""The smoke test: one GET to a pod, what it has to answer, and the verdict.

Owns how a request is written down, what makes one unacceptable, and how an answer is judged. Must not ask anybody. It travels in
an annotation that whoever may write a Service chooses, and is sent in Vigie's name: only a path and a port, never a host, a
header or a method.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

DECLARED = "vigie.dev/smoke-test"  # on a Service, or on a pod template: a `Request` as JSON

MOST_BYTES = 1024 * 1024
LONGEST_PATH = 1024
LONGEST_TEXT = 1000  # that a body is searched for
MOST_WITHIN_S = 30.0
SHOWN = 120  # characters of what was found instead

_PATH = re.compile(r"/[!-~]*")  # printable ASCII without a space: no line break, no second header
_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6})\]")


class RequestError(ValueError):
    """Why a request is not acceptable. `why`: a token."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """GET `path` on `port` (a number, or the name of a container's port; None the first that is declared). It passes with
    `status` (None any 2xx), a body that contains `contains`, the value `equals` at `json` ("data[0].id"; without `equals` any
    value but null), all within `within_s`."""

    path: str
    port: int | str | None = None
    status: int | None = None
    contains: str = ""
    json: str = ""
    equals: str | int | float | bool | None = None
    within_s: float = 2.0


def request(text: str) -> Request:
    """The request of an annotation or a form. Raises RequestError."""
    try:
        found = msgspec.json.decode(text, type=Request)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise RequestError("unreadable") from None
    return checked(found)


def checked(found: Request) -> Request:
    """The same request. Raises RequestError for one that may not be sent or can tell nothing."""
    why = next(_mistakes(found), "")
    if why:
        raise RequestError(why)
    return found


def _mistakes(found: Request) -> Iterator[str]:
    path = found.path
    if not _PATH.fullmatch(path) or len(path) > LONGEST_PATH or "#" in path or "\\" in path:
        yield "path"
    if _CONTROL.search(path):
        yield "path"
    if _leads_out(path):
        yield "path-leads-out"
    if isinstance(found.port, str) and not _PORT_NAME.fullmatch(found.port):
        yield "port"
    if isinstance(found.port, int) and not (1 <= found.port <= 65535):
        yield "port"
    if found.status is not None and not 100 <= found.status <= 599:
        yield "status"
    if len(found.contains) > LONGEST_TEXT or len(found.json) > LONGEST_TEXT or (found.json and not _steps(found.json)):
        yield "json"
    if found.equals is not None and not found.json:
        yield "equals"
    if not 0 < found.within_s <= MOST_WITHIN_S:
        yield "within"


def _leads_out(path: str) -> bool:
    """Our HTTP client resolves dots, encoded ones as well: such a path would be another one of the API server."""
    plain = re.sub(r"%2e", ".", path.partition("?")[0], flags=re.IGNORECASE)
    parts = re.split(r"/|%2f|%5c", plain, flags=re.IGNORECASE)
    return any(part in {".", ".."} for part in parts)


class Answer(Struct, frozen=True):
    """What came back. `status` None: nothing did, and `trouble` says why; `latency_s`: until the whole body was there."""

    status: int | None
    body: bytes = b""
    latency_s: float = 0.0
    trouble: str = ""


class Fault(StrEnum):
    SILENT = "silent"
    STATUS = "status"
    SLOW = "slow"
    TOO_LONG = "too-long"
    CONTAINS = "contains"
    NOT_JSON = "not-json"
    NO_VALUE = "no-value"
    VALUE = "value"


class Verdict(Struct, frozen=True):
    """How one pod did. `found`: what was there instead of what `fault` misses; `status` None: nothing came."""

    pod: str
    status: int | None
    latency_s: float
    fault: str = ""  # a Fault, "" it passed
    found: str = ""

    @property
    def passed(self) -> bool:
        return not self.fault


def judge(pod: str, asked: Request, answer: Answer) -> Verdict:
    fault, found = _fault(asked, answer)
    shown = "".join(c if c.isprintable() else " " for c in found[:SHOWN])
    return Verdict(pod, answer.status, answer.latency_s, fault, shown)


def _fault(asked: Request, answer: Answer) -> tuple[str, str]:
    status = answer.status
    if status is None:
        return Fault.TOO_LONG if answer.trouble == Fault.TOO_LONG else Fault.SILENT, answer.trouble
    if not (200 <= status < 300 if asked.status is None else status == asked.status):
        return Fault.STATUS, str(status)
    if answer.latency_s > asked.within_s:
        return Fault.SLOW, f"{answer.latency_s:.3f}"
    if len(answer.body) > MOST_BYTES:
        return Fault.TOO_LONG, str(len(answer.body))
    text = answer.body.decode(errors="replace")
    if asked.contains and asked.contains not in text:
        return Fault.CONTAINS, text
    return _json_fault(asked, text) if asked.json else ("", "")


def _json_fault(asked: Request, text: str) -> tuple[str, str]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return Fault.NOT_JSON, text
    found = _at(body, _steps(asked.json))
    if found is None:
        return Fault.NO_VALUE, ""
    return ("", "") if asked.equals is None or _same(found, asked.equals) else (Fault.VALUE, json.dumps(found)[:SHOWN])


def _same(found: Any, wanted: str | float | bool) -> bool:
    """A number in a form is text: "3" is 3 as well. True is not 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return (found is wanted) or str(found).lower() == str(wanted).lower()
    return bool(found == wanted) or (not isinstance(found, dict | list) and str(found) == str(wanted))


def _steps(path: str) -> tuple[str | int, ...]:
    """ "$.data[0].id" as ("data", 0, "id"); () when it is no path."""
    rest, steps = path.removeprefix("$"), list[str | int]()
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return ()
        steps.append(match[1] if match[1] is not None else int(match[2]))
        rest = rest[match.end() :]
    return tuple(steps)


def _at(body: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(body, dict):
            body = body.get(str(step))
        elif isinstance(body, list) and str(step).isdecimal() and int(step) < len(body):
            body = body[int(step)]
        else:
            return None
    return body


def port_of(asked: Request, container_ports: Mapping[str, int], first: int | None) -> int | None:
    """The number of the port to ask: `container_ports` by name. None: the pod has no such port."""
    if isinstance(asked.port, int):
        return asked.port
    return first if asked.port is None else container_ports.get(asked.port)


def whole(verdicts: Sequence[Verdict]) -> bool:
    """Whether every pod passed, and there was one."""
    return bool(verdicts) and all(verdict.passed for verdict in verdicts)
