"""Requests straight into the application, without a socket: for the tests of the API's semantics."""

import json
from typing import Any

import httpx

from fleet.simulation.api import Application
from fleet.simulation.auth import Auth, User
from fleet.simulation.bootstrap_roles import AUTHENTICATED, MASTERS
from fleet.simulation.clock import ManualClock
from fleet.simulation.store import Store

Object = dict[str, Any]

HOST = "127.0.0.1:6443"
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Api:
    """A store, the application over it and an admin's token. Calls take query options as keywords."""

    def __init__(self, window: int = 10_000) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, seed=1, window=window)
        self.auth = Auth(self.store)
        self.app = Application(self.store, self.auth, {HOST})
        self.token = self.auth.issue(User("admin", (MASTERS, AUTHENTICATED)))
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url=f"https://{HOST}")

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = JSON,
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> httpx.Response:
        sent = {
            "authorization": f"Bearer {self.token}",
            "content-type": kind,
            "user-agent": "test/1",
            **(headers or {}),
        }
        sent = {k: v for k, v in sent.items() if v}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return await self.client.request(method, path, params=query, headers=sent, content=content)

    async def get(self, path: str, accept: str = JSON, **query: str) -> httpx.Response:
        return await self.call("GET", path, headers={"accept": accept}, **query)

    async def post(self, path: str, body: Object, **query: str) -> httpx.Response:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Object, **query: str) -> httpx.Response:
        return await self.call("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **query: str) -> httpx.Response:
        return await self.call("PATCH", path, body, kind, **query)

    async def delete(self, path: str, body: Object | None = None, **query: str) -> httpx.Response:
        return await self.call("DELETE", path, body, **query)

    def namespace(self, name: str = "test") -> None:
        self.store.create("namespaces", {"metadata": {"name": name}}, manager="test")

    def node(self, name: str, **labels: str) -> Object:
        node = {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"capacity": {"nvidia.com/gpu": "8"}},
        }
        return self.store.create("nodes", node, manager="kubelet")

    def pod(self, name: str, node: str = "", namespace: str = "default", **labels: str) -> Object:
        """A pod; bound when `node` is named."""
        pod = {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [container()]},
        }
        created = self.store.create("pods", pod, manager="test")
        return self.store.bind(namespace, name, node) if node else created


def container(name: str = "main", gpus: int | str = 1) -> Object:
    amounts = {"nvidia.com/gpu": str(gpus)}
    return {"name": name, "image": "sim.io/server:v1", "resources": {"limits": amounts, "requests": amounts}}


def causes(response: httpx.Response) -> list[tuple[str, str]]:
    """(reason, field) of each cause of a refusal."""
    return [(c["reason"], c["field"]) for c in response.json()["details"]["causes"]]
