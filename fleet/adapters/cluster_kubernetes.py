"""A Kubernetes cluster, read over its HTTP API.

Owns the connection: configuration, credentials and transport come from the official client, whose API classes and Watch
stay unused. Must not decide what an answer means for a stream (`cluster_streams` does), and never puts a credential into a
log or an error.
"""

import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kubernetes import client, config
from kubernetes.utils.keepalive import tcp_keepalive_socket_options
from msgspec import Struct
from msgspec.json import Decoder
from urllib3 import Timeout, connection, connectionpool, exceptions

from fleet.adapters.cluster_streams import BREAKS, Follower, Patience, broken, decoded, refusal
from fleet.domain import kube
from fleet.domain.kube import Event, Kind, Status
from fleet.ports import PortError, Stopping

LONGEST_ERROR_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024
JSON = "application/json"


class Reply(Struct, frozen=True):
    """An answer of the API server. `retry_after`: the header as it is, "" none."""

    status: int
    body: bytes
    retry_after: str = ""


class KubernetesCluster:
    """`fleet.ports.Cluster` for the context `name` of a kubeconfig, or for the cluster that this pod runs in (no kubeconfig)."""

    def __init__(self, name: str, kubeconfig: str | None, patience: Patience | None = None) -> None:
        self.name = name
        self._patience = patience or Patience()
        self.server = ApiServer(name, kubeconfig, self._patience)
        self._listed_on: dict[Kind, str] = {}

    def version(self) -> str:
        """`gitVersion` of the server, asked with a deadline of 2 s. Raises PortError."""
        return decoded(_VERSION.decode, self.server.read("/version", within_s=self._patience.version_s)).git_version

    def follow(self, kind: Kind, since: str | None, stopping: Stopping) -> Iterator[Event]:
        """See `fleet.ports.Cluster`."""
        return Follower(self.server, kind, since, stopping, self._patience, self._listed_on).events()

    def close(self) -> None:
        """See `fleet.ports.Cluster`."""
        self.server.wake()


class _Version(Struct, rename="camel"):
    git_version: str = ""


class _Identity(Struct, frozen=True):
    uid: str = ""


class _Namespace(Struct, frozen=True):
    metadata: _Identity = _Identity()


_VERSION = Decoder(_Version)
_NAMESPACE = Decoder(_Namespace)


class ApiServer:
    """Requests to one API server, from any thread. Its client is made at the first one, and anew whenever the kubeconfig was
    written (a broken one is trouble like any other and may be mended) or our credentials are refused, which may be in a file of
    their own or come from a plugin."""

    def __init__(self, name: str, kubeconfig: str | None, patience: Patience) -> None:
        self.name = name
        self._kubeconfig, self._patience = kubeconfig, patience
        self._lock = threading.Lock()
        self._client: client.ApiClient | None = None
        self._made_of: object = None  # the state of the kubeconfig that the client was made of
        self._made_at = 0.0  # of the monotonic clock
        self._sockets = _Sockets()

    def read(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        within_s: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of a successful answer; `within_s` bounds connecting and waiting together. Raises PortError, also for one of
        more than `most_bytes`, or one that did not come whole within `within_s`."""
        began_at = time.monotonic()
        response = self._get(path, query or {}, Timeout(total=within_s) if within_s else self._timeout())
        try:
            if most_bytes is not None and within_s is not None:
                return bounded(response, began_at + within_s, most_bytes)
            body: bytes = response.read() if most_bytes is None else response.read(most_bytes + 1)
        except BREAKS as error:
            raise broken(error) from None
        finally:
            response.release_conn() if most_bytes is None else response.close()
        if most_bytes is not None and len(body) > most_bytes:
            raise _too_long()
        return body

    def ask(self, path: str, *, within_s: float, most_bytes: int) -> Reply:
        """The answer to a GET whatever its status, whole within `within_s`. Sent once. Raises PortError when there is none, or a
        longer one."""
        until = time.monotonic() + within_s
        pools, url, headers = self._request("GET", path, {})
        options = {"timeout": Timeout(total=within_s), "retries": False, "redirect": False, "preload_content": False}
        try:
            response = pools.request("GET", url, headers=headers, **options)
        except BREAKS as error:
            raise broken(error) from None
        try:
            body = bounded(response, until, most_bytes)
        except BREAKS as error:
            raise broken(error) from None
        finally:
            response.close()
        return Reply(response.status, body)

    def watch(self, path: str, query: Mapping[str, str], silence_s: float) -> Any:
        """A urllib3 response. Its headers have to come soon; its peer may then be silent for `silence_s`. Raises PortError."""
        response = self._get(path, query, self._timeout())
        response.connection.wire.settimeout(silence_s)
        return response

    def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = JSON,
        within_s: float,
    ) -> Reply:
        """The server's answer to a request that changes something, whatever its status. Sent once: a request that broke may have
        been carried out, and the caller has to look. Raises PortError when there is no answer."""
        pools, url, headers = self._request(method, path, query or {})
        headers |= {"Content-Type": kind}
        try:
            response = pools.request(
                method, url, body=body, headers=headers, timeout=Timeout(total=within_s), retries=False, redirect=False
            )
        except BREAKS as error:
            raise broken(error) from None
        if response.status == 401:
            self._forget_credentials()
        return Reply(response.status, response.data, response.headers.get("Retry-After", ""))

    def door(self, path: str) -> tuple[str, Mapping[str, str], client.Configuration]:
        """Address, credentials and settings for a connection of another kind than ours. Raises PortError."""
        _, url, headers = self._request("GET", path, {})
        api = self._client
        if api is None:  # another thread has just dropped it
            raise PortError("the credentials are loaded anew", retryable=True, reason="credentials")
        return url, headers, api.configuration

    def uid(self) -> str:
        """The uid of kube-system, which lives and dies with its cluster; "" when we may not read it. Raises PortError."""
        try:
            body = self.read("/api/v1/namespaces/kube-system")
        except PortError as error:
            if error.status in {403, 404}:
                return ""
            raise
        return decoded(_NAMESPACE.decode, body).metadata.uid

    def wake(self) -> None:
        """End whatever waits for this server now."""
        self._sockets.shut_down()

    def _timeout(self) -> Timeout:
        return Timeout(connect=self._patience.connect_s, read=self._patience.answer_s)

    def _get(self, path: str, query: Mapping[str, str], timeout: Timeout) -> Any:
        pools, url, headers = self._request("GET", path, query)
        options = {"timeout": timeout, "retries": False, "redirect": False, "preload_content": False}
        try:
            try:
                response = pools.request("GET", url, headers=headers, **options)
            except exceptions.ProtocolError as error:
                if not isinstance(error.args[-1], ConnectionError):
                    raise
                # The server had closed the idle connection that we took.
                response = pools.request("GET", url, headers=headers, **options)
        except BREAKS as error:
            raise broken(error) from None
        if not 200 <= response.status < 300:
            if response.status == 401:
                self._forget_credentials()
            raise _refused(response)
        return response

    def _forget_credentials(self) -> None:
        """Load them again at the next request; not each time, because a plugin may ask somebody or somewhere."""
        with self._lock:
            if time.monotonic() - self._made_at >= self._patience.credentials_s:
                self._client = None

    def _request(self, method: str, path: str, query: Mapping[str, str]) -> tuple[Any, str, dict[str, str]]:
        """Connection pools, address and headers. May run the kubeconfig's credential plugin, so one thread at a time."""
        with self._lock:
            try:
                api = self._current()
                _, url, headers, *_ = api.param_serialize(
                    method,
                    path,
                    query_params=list(query.items()),
                    header_params={"Accept": "application/json"},
                    auth_settings=["BearerToken"],
                )
            except Exception as error:  # noqa: BLE001 - files and plugins fail in any way, and their words may hold secrets
                message = f"the credentials cannot be loaded ({type(error).__name__})"
                raise PortError(message, retryable=True, reason="credentials") from None
            return api.rest_client.pool_manager, url, headers

    def _current(self) -> client.ApiClient:
        paths = filter(None, (self._kubeconfig or "").split(os.pathsep))
        found = [(s.st_mtime_ns, s.st_size, s.st_ino) for s in map(os.stat, map(os.path.expanduser, paths))]
        if self._client is None or found != self._made_of:
            self._client, self._made_of, self._made_at = self._configure(), found, time.monotonic()
        return self._client

    def _configure(self) -> client.ApiClient:
        settings = client.Configuration()
        if self._kubeconfig is None:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                self._kubeconfig, self.name, client_configuration=settings, persist_config=False
            )
        settings.connection_pool_maxsize = len(Kind) + 5
        # A peer that has vanished is noticed in half a minute, not when the watch should have ended.
        settings.socket_options = tcp_keepalive_socket_options(idle=15, interval=5, count=3)
        api = client.ApiClient(settings)
        api.user_agent = "vigie"
        api.rest_client.pool_manager.pool_classes_by_scheme = _pools(self._sockets)
        return api


def bounded(response: Any, until: float, most_bytes: int) -> bytes:
    """A whole body: urllib3's own deadline begins anew with every piece, so one that drips would never end. `until`: of the
    monotonic clock. Raises PortError, and what a connection raises."""
    wire, body = (
        getattr(response.connection, "wire", None),
        bytearray(),
    )  # whoever has it all has closed or given it back
    while True:
        if (left_s := until - time.monotonic()) <= 0:
            raise PortError("the answer did not come whole in time", retryable=True, reason="silent")
        if wire is not None and wire.fileno() >= 0:
            wire.settimeout(left_s)
        piece = response.read1(PIECE_BYTES)
        if not piece:
            return bytes(body)
        body += piece
        if len(body) > most_bytes:
            raise _too_long()


def _too_long() -> PortError:
    return PortError("the answer is too long", retryable=False, reason="too-long")


def _refused(response: Any) -> PortError:
    """The error of an answer that is not a success."""
    try:
        status = kube.status(response.read(LONGEST_ERROR_BYTES))
    except (*BREAKS, kube.Unreadable):  # a proxy's page, or no body at all: the code says enough
        status = Status()
    finally:
        response.close()
    return refusal(response.status, status, response.headers.get("Retry-After", ""))


class _Sockets:
    """The open sockets of one client. Shutting a socket down wakes the thread that waits for it, closing it does not. (urllib3's
    `HTTPResponse.shutdown` does the same, but only once there is a response.)"""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.add(opened)

    def shut_down(self) -> None:
        with self._lock:
            for opened in list(self._open):
                with suppress(OSError):  # closed already
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)  # beneath TLS, whose state its reader still uses


def _pools(sockets: _Sockets) -> dict[str, type[connectionpool.HTTPConnectionPool]]:
    """urllib3's pools, with connections that make their socket known and keep it as `wire` (http.client forgets it early)."""

    class Plain(connection.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            self.wire = self.sock
            sockets.add(self.wire)

    class Secure(connection.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            self.wire = self.sock
            sockets.add(self.wire)

    class PlainPool(connectionpool.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(connectionpool.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
