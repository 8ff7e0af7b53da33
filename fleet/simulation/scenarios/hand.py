"""Somebody who uses the cluster's API as people and their tools do: over HTTP, with a token and a name of their own.

Owns making requests of the application in this process, without a socket. Must not reach into the store.
"""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import msgspec

from fleet.simulation.api import Application
from fleet.simulation.refusals import ApiError
from fleet.simulation.resources import RESOURCES
from fleet.simulation.server import ADMIN

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"


class Hand:
    """`name` is the user, `agent` what its tool calls itself: the field manager of what it writes."""

    def __init__(self, app: Application, name: str, agent: str) -> None:
        self.name = name
        self._app = app
        self._agent = agent
        self._token = app.auth.issue(replace(ADMIN, name=name))

    def leave(self) -> None:
        """Its token is worth nothing any more."""
        self._app.auth.revoke(self._token)

    async def get(self, plural: str, namespace: str, name: str) -> Object:
        """ApiError as the server refuses, here and below."""
        return await self._send("GET", path(plural, namespace, name))

    async def create(self, plural: str, obj: Object) -> Object:
        namespace = obj["metadata"].get("namespace", "")
        resource = RESOURCES[plural]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._send("POST", path(plural, namespace), body)

    async def patch(self, plural: str, namespace: str, name: str, change: Object, subresource: str = "") -> Object:
        """A merge patch."""
        return await self._send("PATCH", path(plural, namespace, name, subresource), change, MERGE)

    async def delete(self, plural: str, namespace: str, name: str) -> Object:
        return await self._send("DELETE", path(plural, namespace, name))

    async def evict(self, namespace: str, name: str) -> Object:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        return await self._send("POST", path("pods", namespace, name, "eviction"), body)

    async def ask_pod(self, method: str, namespace: str, name: str, port: int, page: str) -> Object:
        """What the pod answers on one of its ports, through the API server."""
        return await self._send(method, path("pods", namespace, f"{name}:{port}", f"proxy/{page}"))

    async def _send(self, method: str, where: str, body: Object | None = None, kind: str = JSON) -> Object:
        headers = {
            "host": next(iter(self._app.hosts), ""),
            "authorization": f"Bearer {self._token}",
            "user-agent": self._agent,
            "content-type": kind,
            "accept": JSON,
        }
        scope: Object = {
            "type": "http",
            "method": method,
            "path": where,
            "query_string": urlencode({"fieldManager": self._agent}).encode() if body is not None else b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }
        status, answer = await _answer(self._app, scope, b"" if body is None else msgspec.json.encode(body))
        if status >= 400:
            raise ApiError(status, answer.get("reason", ""), answer.get("message", ""), answer.get("details"))
        return answer


async def _answer(app: Application, scope: Object, body: bytes) -> tuple[int, Object]:
    """Run one request through the application."""
    status, chunks = 0, []

    async def receive() -> Object:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            chunks.append(message.get("body", b""))

    await app(scope, receive, send)
    text = b"".join(chunks)
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = {"message": text.decode(errors="replace")}
    return status, found


def path(plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where the API has it: path("pods", "web", "a", "eviction")."""
    resource = RESOURCES[plural]
    root = f"/apis/{resource.api_version}" if resource.group else "/api/v1"
    parts = [root, *(["namespaces", namespace] if namespace else []), resource.plural, name, subresource]
    return "/".join(p for p in parts if p)
