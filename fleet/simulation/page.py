"""The rehearsal's page: scenarios to start and stop, in a browser, on a loopback port of its own.

Owns HTTP: sessions, forms, headers. Works without script, over plain HTTP on loopback, where browsers trust nobody's
certificate but need none. Must not know what a scenario does.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Iterator
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn

from fleet.simulation import page_texts
from fleet.simulation.api import Receive, Scope, Send
from fleet.simulation.control import body_of, described, send_reply
from fleet.simulation.exchange import Reply, Request
from fleet.simulation.page_visits import Visit, Visits
from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.stage import Stage, StageError, State
from fleet.simulation.server import ADDRESS, ADMIN, loopback

Object = dict[str, Any]

COOKIE = "rehearsal_visit"
HTML = "text/html; charset=utf-8"
LONGEST_FORM_BYTES = 4096
POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # so that forms carry their Origin
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Page:
    """An ASGI application for the host names in `hosts`."""

    def __init__(self, stage: Stage, visits: Visits) -> None:
        self.stage = stage
        self.visits = visits
        self.hosts: set[str] = set()
        self._notices: dict[str, str] = {}  # what the next page of a session says first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            request = Request.from_scope(dict(scope), await body_of(receive, LONGEST_FORM_BYTES))
            answer = await self._answer(request)
        except ApiError as error:
            answer = _plain(error.status, error.message)
        await send_reply(send, Reply(answer.status, answer.body, answer.content_type, {**HEADERS, **answer.headers}))

    async def _answer(self, request: Request) -> Reply:
        if request.headers.get("host", "") not in self.hosts:
            return _plain(421, "Misdirected request")
        if request.method in {"GET", "HEAD"}:
            return self._get(request)
        if request.method != "POST":
            return _plain(405, "Only GET and POST")
        return await self._form(request)

    async def _form(self, request: Request) -> Reply:
        origin = request.headers.get("origin", "")
        if origin.removeprefix("http://") not in self.hosts:
            return _plain(403, "This form was not sent from the rehearsal's page")
        fields = {k: v[0] for k, v in parse_qs(request.body.decode("utf-8", "replace")).items()}
        if request.path == "/sign-in":
            return self._sign_in(fields.get("token", ""))
        key, visit = self._visit(request)
        if visit is None:
            return Reply(403, page_texts.sign_in("Your session has ended."), HTML)
        if not secrets.compare_digest(fields.get("form", "").encode(), visit.form_token.encode()):
            return _plain(403, "This form is not from your session: load the page again")
        return await self._post(request.path, fields, key)

    # Reading

    def _get(self, request: Request) -> Reply:
        if request.path == "/page.css":
            return Reply(200, page_texts.STYLE.encode(), "text/css; charset=utf-8")
        if request.path != "/":
            return _plain(404, "There is no such page")
        code = request.query.get("code", "")
        if code:
            return self._redeemed(self.visits.redeem(code))
        key, visit = self._visit(request)
        if visit is None:
            return Reply(200, page_texts.sign_in(), HTML)
        shown = described(self.stage)
        body = page_texts.scenarios(shown, visit.form_token, self._notices.pop(key, ""))
        moving = any(s["state"] in {State.UNFOLDING, State.STOPPING} for s in shown["scenarios"])
        return Reply(200, body, HTML, {"refresh": f"{page_texts.REFRESH_S}; url=/"} if moving else {})

    def _redeemed(self, key: str) -> Reply:
        if not key:
            return Reply(403, page_texts.sign_in("This link has been used already, or is too old."), HTML)
        return _seen_other({"set-cookie": _cookie(key)})

    def _visit(self, request: Request) -> tuple[str, Visit | None]:
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            found = None
        key = found.value if found else ""
        return key, self.visits.visit(key)

    # Writing

    def _sign_in(self, token: str) -> Reply:
        user = self.stage.app.auth.user_of(token.strip())
        if user is None or not set(ADMIN.groups) <= set(user.groups):
            return Reply(403, page_texts.sign_in("This is no administrator's token of this rehearsal."), HTML)
        return _seen_other({"set-cookie": _cookie(self.visits.begin())})

    async def _post(self, path: str, fields: dict[str, str], key: str) -> Reply:
        """Do it, and go back to the page, which says what was refused."""
        try:
            match path.strip("/").split("/"):
                case ["scenarios", name, "start"]:
                    await self.stage.start(name)
                case ["scenarios", name, "stop"]:
                    await self.stage.stop(name)
                case ["speed"]:
                    self.stage.change_speed(_number(fields.get("speed", "")))
                case ["sign-out"]:
                    self.visits.end(key)
                case _:
                    return _plain(404, "There is no such form")
        except StageError as error:
            if error.missing:
                return _plain(404, str(error))
            self._notices[key] = f"Refused: {error}."
        return _seen_other({})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StageError(f"{text!r} is no number") from None


def _cookie(key: str) -> str:
    return f"{COOKIE}={key}; Path=/; HttpOnly; SameSite=Lax"


def _seen_other(headers: dict[str, str]) -> Reply:
    return Reply(303, b"", "text/plain; charset=utf-8", {"location": "/", **headers})


def _plain(status: int, words: str) -> Reply:
    return Reply(status, f"{words}.\n".encode(), "text/plain; charset=utf-8")


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to whoever runs the cluster."""
        yield


class PageServer:
    """The page on a loopback port of its own."""

    def __init__(self, stage: Stage) -> None:
        self.visits = Visits()
        self.page = Page(stage, self.visits)
        self.url = ""
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None

    def link(self) -> str:
        """A new link to the page, good once."""
        return f"{self.url}/?code={quote(self.visits.code())}"

    async def start(self, port: int = 0) -> str:
        """Listen on loopback (0: any free port) and return the URL; OSError when the port is taken."""
        listener = loopback(port)
        taken = listener.getsockname()[1]
        self.page.hosts |= {f"{ADDRESS}:{taken}", f"localhost:{taken}"}
        self.url = f"http://{ADDRESS}:{taken}"
        config = uvicorn.Config(
            self.page, ws="none", lifespan="off", access_log=False, log_config=None, log_level="critical",
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = _Uvicorn(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        return self.url

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        await self._serving
        self._server = self._serving = None
