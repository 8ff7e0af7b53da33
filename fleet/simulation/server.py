"""The API server on a port: TLS with an authority of its own, tokens, kubeconfigs, start and stop.

Owns the socket and the uvicorn server inside the caller's event loop; binds to loopback only. Must not answer requests.
"""

import asyncio
import base64
import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trustme
import uvicorn
import yaml

from fleet.simulation.api import Application
from fleet.simulation.auth import Auth, User
from fleet.simulation.bootstrap_roles import AUTHENTICATED, MASTERS
from fleet.simulation.machines import Machines
from fleet.simulation.store import Store
from fleet.simulation.trainings import Trainings

ADDRESS = "127.0.0.1"
STOP_WITHIN_S = 2
WRITE_S = 0.01  # what a write of an eviction takes, as recorded: others may come in between
LAST_WORDS_S = 0.5  # for answers under way when the server stops
ADMIN = User("admin", (MASTERS, AUTHENTICATED))
READER = User("reader", ("fleet-readers", AUTHENTICATED))


def loopback(port: int) -> socket.socket:
    """A socket that is bound to loopback (0: any free port); OSError when the port is taken."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
    except OSError:
        listener.close()
        raise
    return listener


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to whoever runs the cluster."""
        yield


class ApiServer:
    """Serves one Store. `start` and `stop` run on the loop that also changes the store."""

    def __init__(self, store: Store, machines: Machines | None = None, trainings: Trainings | None = None) -> None:
        self.auth = Auth(store)
        self.app = Application(store, self.auth, (), WRITE_S, machines, trainings)
        self.front: Any = self.app  # what requests meet first: an ASGI application, `app` or one around it
        self.url = ""
        self._authority = trustme.CA()
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def ca_pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    async def start(self, port: int = 0) -> str:
        """Listen on loopback (0: any free port) and return the URL; OSError when the port is taken."""
        listener = loopback(port)
        taken = listener.getsockname()[1]
        self.app.hosts |= {f"{ADDRESS}:{taken}", f"localhost:{taken}"}
        self.url = f"https://{ADDRESS}:{taken}"
        self._server = _Uvicorn(self._config())
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise OSError("the API server ended while starting")
            await asyncio.sleep(0.005)
        return self.url

    def _config(self) -> uvicorn.Config:
        config = uvicorn.Config(
            self.front,
            http="httptools",
            ws="websockets-sansio",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="critical",  # the application logs its own errors; uvicorn's are streams that we cut
            server_header=False,
            timeout_keep_alive=90,
            timeout_graceful_shutdown=STOP_WITHIN_S,
        )
        config.load()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(ADDRESS, "localhost").configure_cert(context)
        context.set_alpn_protocols(["http/1.1"])
        config.ssl = context
        return config

    async def stop(self) -> None:
        """End all watches cleanly and stop listening."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        loop = asyncio.get_running_loop()
        abort_at = loop.time() + LAST_WORDS_S
        while not self._serving.done():
            self.app.cut_streams()  # again and again: a watch may have been asked for just before
            if loop.time() >= abort_at:
                self.drop_connections()
            await asyncio.wait((self._serving,), timeout=0.02)
        await self._serving
        self._server = self._serving = None

    def drop_connections(self) -> None:
        """As a killed server does. Idle clients do not answer the end of TLS, and asyncio would wait for them long."""
        if self._server is None:
            return
        for connection in list(self._server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    def kubeconfig(self, context: str = "rehearsal", user: User = ADMIN, namespace: str = "default") -> str:
        """A kubeconfig (YAML) with a new token for `user`."""
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(self.ca_pem).decode()}
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": user.name, "user": {"token": self.auth.issue(user)}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user.name, "namespace": namespace}}],
            "current-context": context,
        }
        text: str = yaml.safe_dump(document, sort_keys=False)
        return text

    def write_kubeconfig(self, path: Path, context: str = "rehearsal", user: User = ADMIN) -> None:
        """Readable by its owner only, from the first byte on."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(self.kubeconfig(context, user))
