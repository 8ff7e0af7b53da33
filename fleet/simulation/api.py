"""The API server: one ASGI application that speaks the Kubernetes API over a Store.

Owns the way of a request: Host, caller, rights, handler, answer; and the open watches. Must not know what a resource
means; reading.py, watching.py, writing.py and subresources.py do.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from dataclasses import replace
from typing import Any, Literal

import structlog

from fleet.simulation import discovery, exporters, model_servers, reading, reviews, subresources, trainers, writing
from fleet.simulation.auth import Attempt, Auth, User, refused
from fleet.simulation.bootstrap_roles import MASTERS
from fleet.simulation.eviction import Evictions
from fleet.simulation.exchange import Reply, Request, Target, refusal, reply, target_of, text
from fleet.simulation.machines import Machines
from fleet.simulation.pod_access import PodAccess
from fleet.simulation.pod_exec import Exec
from fleet.simulation.programs import Programs
from fleet.simulation.refusals import ApiError, bad_request
from fleet.simulation.store import Store
from fleet.simulation.trainings import Trainings
from fleet.simulation.watching import Watch

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# A starting server first knows no roles (403 for whoever is no master), then is not ready yet, then ready.
Phase = Literal["starting", "unready", "ready"]
LARGEST_BODY_BYTES = 3 * 1024 * 1024
ENDPOINTS_DEPRECATED = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
NOT_FOUND = "404 page not found\n"

log = structlog.get_logger()


class BrokenStreamError(Exception):
    """Raised out of the application to leave an answer unfinished, as a killed server does."""


class Application:
    """The ASGI application. `hosts` are the names (host:port) that it answers to; `write_s` what a write takes.

    `machines`: what the nodes are, for containers that look at them. `trainings`: what trainers do, where they do anything.
    """

    def __init__(
        self,
        store: Store,
        auth: Auth,
        hosts: Iterable[str],
        write_s: float = 0.0,
        machines: Machines | None = None,
        trainings: Trainings | None = None,
    ) -> None:
        self.store = store
        self.machines = machines or Machines(store)
        self.evictions = Evictions(store, write_s)
        self.programs = Programs()
        model_servers.register(self.programs)
        if trainings is not None:
            trainers.register(self.programs, trainings)
        exporters.register(self.programs, self.machines)
        self.access = PodAccess(store, self.programs)
        self.auth = auth
        self.hosts = set(hosts)
        self.phase: Phase = "ready"
        self._watches: set[Watch] = set()

    # For whoever runs or tests the cluster

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def cut_streams(self, *, broken: bool = False) -> int:
        """End every open watch, cleanly or in the middle; returns how many there were."""
        for watch in self._watches:
            watch.stop(broken=broken)
        return len(self._watches)

    def restart(self) -> None:
        """What clients see of a restart: watches break off and versions from before are too old."""
        self.cut_streams(broken=True)
        self.store.expire()

    # One request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            request = Request.from_scope(dict(scope), await _body(receive))
            await self._handle(request, receive, sending)
        except ApiError as error:
            await _send(send, refusal(error))
        except BrokenStreamError:
            raise
        except Exception as error:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if not begun:
                failed = ApiError(500, "InternalError", f"Internal error occurred: {error}", {})
                await _send(send, refusal(failed))
            raise

    async def _handle(self, request: Request, receive: Receive, send: Send) -> None:
        if request.headers.get("host", "") not in self.hosts:
            await _send(send, text("Misdirected Request\n", 421))
            return
        target = target_of(request.path)
        attempt = _attempt(request, target)
        user = self._permitted(request, target, attempt)
        if target is not None and attempt.verb == "watch":
            await self._watch(Watch(self.store, request, target, _time()), receive, send)
            return
        answer = await self._answer(request, target, user)
        if answer.more is None:
            await _send(send, answer, request.warnings)
        else:
            await _send_on(send, receive, answer, answer.more)

    def _permitted(self, request: Request, target: Target | None, attempt: Attempt) -> User:
        """For whom the request is made; ApiError 401, 403."""
        resource = target.resource if target else None
        user = self.auth.impersonated(self.auth.authenticate(request.headers), request.headers, attempt)
        if self.phase == "starting" and MASTERS not in user.groups:
            raise refused(user, attempt, resource)
        self.auth.check(user, attempt, resource)
        return user

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket: only commands in containers have one, and they need the right to create besides that to get."""
        await receive()  # the wish to connect
        try:
            request = Request.from_scope({**scope, "method": "GET"}, b"")
            target = self._exec_target(request)
            attempt = _attempt(request, target)
            user = self._permitted(request, target, attempt)
            self.auth.check(user, replace(attempt, verb="create"), target.resource)
            command = Exec(self.access, target, scope["query_string"].decode("latin-1"), scope["subprotocols"])
        except ApiError as error:
            await _refuse_socket(send, refusal(error))
        else:
            await command.serve(receive, send)

    def _exec_target(self, request: Request) -> Target:
        target = target_of(request.path)
        if request.headers.get("host", "") not in self.hosts or target is None or target.subresource != "exec":
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        return target

    async def _answer(self, request: Request, target: Target | None, user: User) -> Reply:
        if target is None:
            return self._document(request)
        if target.resource.plural == "endpoints":
            request.warnings.append(ENDPOINTS_DEPRECATED)
        _check_method(request, target)
        if target.resource.plural in reviews.REVIEWS:
            body = request.decoded() or {}
            if not isinstance(body, dict):
                raise bad_request("the object provided is unrecognized")
            resource, now = target.resource, self.store.clock.now()
            return reply(reviews.answer(self.auth, user, resource.plural, resource.kind, body, now), 201)
        if target.subresource not in {"", "status"}:
            return await self._subresource(request, target)
        return await self._object(request, target)

    async def _subresource(self, request: Request, target: Target) -> Reply:
        match target.resource.plural, target.subresource:
            case "pods", "eviction":
                return await self.evictions.evict(request, target)
            case "pods" | "services", "proxy":
                return await self.access.proxy(request, target)
            case "pods", "log":
                return self.access.log(request, target)
            case "pods", "exec" | "attach" | "portforward":
                raise bad_request("Upgrade request required")
            case _:
                return subresources.answer(self.store, self.auth, request, target)

    def _document(self, request: Request) -> Reply:
        """A path that names no object."""
        if request.method not in {"GET", "HEAD"}:
            raise subresources.method_not_allowed()
        address = request.headers.get("host", "")
        return discovery.answer(request, address, ready=self.phase == "ready") or text(NOT_FOUND, 404)

    async def _object(self, request: Request, target: Target) -> Reply:
        if request.method == "GET" and not target.name:
            return await reading.list_objects(self.store, request, target)
        handler = _HANDLERS.get((request.method, bool(target.name)))
        if handler is None:
            raise subresources.method_not_allowed()
        return handler(self.store, request, target)

    async def _watch(self, watch: Watch, receive: Receive, send: Send) -> None:
        """Stream until the watch ends, the client goes, or somebody cuts it."""
        self._watches.add(watch)
        gone = asyncio.create_task(_until_gone(receive, watch))
        try:
            await send(_start(200, "application/json", {}))
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            async for chunk in watch.lines():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if watch.broken:
                raise BrokenStreamError
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._watches.discard(watch)


# (method, whether the path names an object) → what answers it
_HANDLERS: dict[tuple[str, bool], Callable[[Store, Request, Target], Reply]] = {
    ("GET", True): reading.get,
    ("POST", False): writing.create,
    ("PUT", True): writing.replace,
    ("PATCH", True): writing.change,
    ("DELETE", True): writing.remove,
    ("DELETE", False): writing.remove_all,
}
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _attempt(request: Request, target: Target | None) -> Attempt:
    """What the request tries to do, as RBAC sees it."""
    if target is None:
        return Attempt(_VERBS.get(request.method, request.method.lower()), path=request.path)
    resource = target.resource
    known = {"group": resource.group, "resource": resource.plural, "subresource": target.subresource}
    return Attempt(_verb(request, target), namespace=target.namespace, name=target.name, **known)


def _verb(request: Request, target: Target) -> str:
    if request.method in {"GET", "HEAD"} and not target.name:
        watching = "watch" in request.query and request.flag("watch")
        return "watch" if watching and "watch" in target.resource.verbs else "list"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _check_method(request: Request, target: Target) -> None:
    """ApiError 405 for a verb that the resource or subresource does not have."""
    sub = target.resource.subresource(target.subresource) if target.subresource else None
    verbs = sub.verbs if sub else target.resource.verbs
    if _verb(request, target) not in verbs:
        raise subresources.method_not_allowed()


def _time() -> Callable[[], float]:
    return asyncio.get_running_loop().time


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > LARGEST_BODY_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", {})
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


async def _until_gone(receive: Receive, watch: Watch) -> None:
    await _gone(receive)
    watch.stop()


def _start(status: int, content_type: str, headers: dict[str, str], warnings: Iterable[str] = ()) -> Message:
    pairs = [("content-type", content_type), ("cache-control", "no-cache, private"), *headers.items()]
    pairs += [("warning", f"299 - {_quoted(w)}") for w in warnings]
    encoded = [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in pairs]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def _quoted(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def _send(send: Send, answer: Reply, warnings: Iterable[str] = ()) -> None:
    headers = {**answer.headers, "content-length": str(len(answer.body))}
    await send(_start(answer.status, answer.content_type, headers, warnings))
    await send({"type": "http.response.body", "body": answer.body})


async def _send_on(send: Send, receive: Receive, answer: Reply, more: AsyncIterator[bytes]) -> None:
    """An answer without an end, until there is no more or the client goes."""

    async def written() -> None:
        await send(_start(answer.status, answer.content_type, answer.headers))
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        async for chunk in more:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    writing, gone = asyncio.create_task(written()), asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
        if writing.done():
            writing.result()
    finally:
        gone.cancel()
        writing.cancel()
        await asyncio.wait((writing, gone))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse_socket(send: Send, answer: Reply) -> None:
    headers = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
