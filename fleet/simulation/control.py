"""The rehearsal's own switchboard under /rehearsal/ on the API server's port: what `manage.py scenario` talks to.

Owns its JSON and who may use it: holders of an administrator's token. Everything else it passes on to the API server. No
client of a cluster, Vigie included, knows it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from fleet.simulation.api import Message, Receive, Scope, Send
from fleet.simulation.clock import stamp
from fleet.simulation.exchange import Reply, Request, refusal, reply
from fleet.simulation.refusals import ApiError, bad_request
from fleet.simulation.scenarios.stage import Stage, StageError, State
from fleet.simulation.server import ADMIN

Object = dict[str, Any]

ROOT = "/rehearsal/"
LONGEST_BODY_BYTES = 4096


class Control:
    """An ASGI application. `page_link` makes a new link to the rehearsal's page, good once."""

    def __init__(self, stage: Stage, page_link: Callable[[], str]) -> None:
        self.stage = stage
        self._page_link = page_link

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(ROOT):
            await self.stage.faults(scope, receive, send)
            return
        try:
            request = Request.from_scope(dict(scope), await body_of(receive, LONGEST_BODY_BYTES))
            self._check(request)
            answer = await self._answer(request)
        except ApiError as error:
            answer = refusal(error)
        except StageError as error:
            answer = refusal(ApiError(404 if error.missing else 409, "Refused", str(error)))
        await send_reply(send, answer)

    def _check(self, request: Request) -> None:
        app = self.stage.app
        if request.headers.get("host", "") not in app.hosts:
            raise ApiError(421, "MisdirectedRequest", "this is not the host that was asked for")
        user = app.auth.authenticate(request.headers)
        if not set(ADMIN.groups) <= set(user.groups):
            raise ApiError(403, "Forbidden", "the rehearsal's switchboard is for administrators")

    async def _answer(self, request: Request) -> Reply:
        """ApiError 400, 404; StageError."""
        parts = request.path.removeprefix(ROOT).strip("/").split("/")
        match request.method, parts:
            case "GET", ["scenarios"]:
                pass
            case "POST", ["scenarios", name, "start"]:
                await self.stage.start(name)
            case "POST", ["scenarios", name, "stop"]:
                await self.stage.stop(name)
            case "POST", ["speed"]:
                self.stage.change_speed(_speed(request))
            case "POST", ["page"]:
                return reply({"link": self._page_link()})
            case _:
                raise ApiError(404, "NotFound", f"nothing to {request.method} at {request.path}")
        return reply(described(self.stage))


def _speed(request: Request) -> float:
    body = request.decoded()
    found = body.get("speed") if isinstance(body, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise bad_request("speed is to be a number")
    return float(found)


def described(stage: Stage) -> Object:
    """All scenarios and how they stand: what the command prints."""
    shown = []
    for scenario in stage.scenarios.values():
        performance = stage.performance(scenario.name)
        texts = {f: getattr(scenario, f) for f in ("name", "title", "description", "look")}
        lines = [{"at": stamp(at), "text": text} for at, text in performance.lines]
        unfolds_s = scenario.unfolds_s / stage.speed
        shown.append({**texts, "unfolds_s": unfolds_s, "state": performance.state.value, "lines": lines})
    on = sum(s["state"] != State.OFF for s in shown)
    return {"now": stamp(stage.clock.now()), "speed": stage.speed, "on": on, "scenarios": shown}


async def body_of(receive: Receive, longest: int) -> bytes:
    """The whole body; ApiError 413."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunk: bytes = message.get("body", b"")
        body += chunk
        if len(body) > longest:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {longest}")
        if not message.get("more_body"):
            return body


async def send_reply(send: Send, answer: Reply) -> None:
    headers = {"content-type": answer.content_type, "content-length": str(len(answer.body)), **answer.headers}
    headers.setdefault("cache-control", "no-store")
    pairs = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": pairs}
    await send(start)
    await send({"type": "http.response.body", "body": answer.body})


def decoded(body: bytes) -> Object:
    """What the switchboard answered."""
    found: Object = msgspec.json.decode(body)
    return found
