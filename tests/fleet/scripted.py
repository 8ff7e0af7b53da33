"""An API server made of raw sockets, which says exactly the bytes that a test wants, when it wants, over TLS or not."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import trustme
import yaml

UID = "11111111-1111-1111-1111-111111111111"
TOKEN = "a-token-that-nobody-may-see"


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def watch(self) -> bool:
        return self.query.get("watch") == "true"


Wire = Iterable[bytes]  # pieces that are sent one by one; the connection closes after the last one


class Scripted:
    """Serves until closed, a thread per connection and one request per connection. `requests` holds what was asked, in order."""

    def __init__(self, answer: Callable[[Request], Wire], *, tls: bool = False) -> None:
        self.requests: list[Request] = []
        self.over = threading.Event()  # for answers that wait
        self._answer = answer
        self._authority = trustme.CA() if tls else None
        self._context = self._tls_context()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def kubeconfig(self, folder: Path, name: str = "scripted") -> str:
        cluster: dict[str, Any] = {"server": self.url}
        if self._authority:
            authority = folder / "ca.pem"
            self._authority.cert_pem.write_to_path(str(authority))
            cluster["certificate-authority"] = str(authority)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": TOKEN}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def asked(self, *, watch: bool) -> list[Request]:
        """Lists or watches of a kind, without what is asked to know the server again."""
        found = [r for r in self.requests if r.path.split("/")[-1] not in {"version", "kube-system"}]
        return [r for r in found if r.watch == watch and r.query.get("limit") != "1"]

    def close(self) -> None:
        self.over.set()
        for opened in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        self._thread.join(5)

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)
        return context

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                opened, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(opened,), daemon=True).start()

    def _serve(self, opened: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context:
                opened = self._context.wrap_socket(opened, server_side=True)
            self._open.append(opened)
            with opened:
                request = _read(opened)
                if request is None:
                    return
                self.requests.append(request)
                for piece in self._answer(request):
                    opened.sendall(piece)


def _read(opened: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := opened.recv(65536)):
            return None
        data += piece
    first, *rest = data.split(b"\r\n\r\n")[0].decode().split("\r\n")
    target = urlsplit(first.split(" ")[1])
    headers = dict(line.lower().split(": ", 1) for line in rest)
    return Request(target.path, dict(parse_qsl(target.query)), headers | {"x-raw": "\n".join(rest)})


# Answers


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Wire:
    """A whole JSON answer (or bytes as they are)."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status} Whatever",
        f"Content-Length: {len(content)}",
        "Content-Type: application/json",
    ]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ["\r\n".join([*lines, "Connection: close", "", ""]).encode() + content]


def failure(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    found = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code,
    }
    return found | ({"reason": reason} if reason else {}) | ({"details": details} if details else {})


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def line(event_type: str, item: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": event_type, "object": item}).encode() + b"\n"


def stream(*events: bytes, end: bytes = END) -> Wire:
    """A watch, one chunk per line, that ends in order unless `end` says otherwise."""
    return [STREAM, *(chunk(event) for event in events), end]


def silence(server: Scripted, *before: bytes) -> Iterator[bytes]:
    """Say that much and then nothing more."""
    yield from before
    server.over.wait(30)


def item(name: str, version: int | str, kind: str = "Pod", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "fleet", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata} | fields


def page(items: list[dict[str, Any]], version: int | str, token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}


def namespace(uid: str = UID) -> dict[str, Any]:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": uid}}


@dataclass
class Script:
    """Answers in the order given; the last list and identity are repeated, after the last watch there is silence."""

    lists: list[Wire] = field(default_factory=lambda: [reply(page([], 1))])
    watches: list[Wire] = field(default_factory=list)
    now: list[Wire] = field(
        default_factory=list
    )  # what a list of one item says; else a version that is newer than every other
    uids: list[str] = field(default_factory=lambda: [UID])
    server: Scripted | None = None

    def __call__(self, request: Request) -> Wire:
        if request.path.endswith("/kube-system"):
            return reply(namespace(_next(self.uids)))
        if request.query.get("limit") == "1":
            return _next(self.now) if self.now else reply(page([], 10**12))
        if request.watch:
            if self.watches:
                return self.watches.pop(0)
            assert self.server is not None
            return silence(self.server, STREAM)
        return _next(self.lists)


def _next(found: list[Any]) -> Any:
    return found.pop(0) if len(found) > 1 else found[0]
