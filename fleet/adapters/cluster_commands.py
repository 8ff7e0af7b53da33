"""One command in one container, over the API server's exec subresource.

Owns the WebSocket, its channels and how a command's end becomes an answer. Must not choose commands (`cluster_hooks` does), and
gives a command no input.
"""

import ssl
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from fleet.adapters.cluster_kubernetes import ApiServer, Reply
from fleet.adapters.cluster_requests import refused
from fleet.ports import PortError

PROTOCOLS = (Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io"))
STDERR, STATUS = 2, 3
MOST_BYTES = 64 * 1024


class _End(Struct):
    status: str = ""
    message: str = ""
    reason: str = ""


def run(server: ApiServer, path: str, query: Sequence[tuple[str, str]], within_s: float) -> None:
    """Run it to its end. Raises PortError: with the server's `status` when it was refused, `retryable` when nobody knows whether
    it was carried out, `reason` "NonZeroExitCode" when it said no itself."""
    until = time.monotonic() + within_s
    url, headers, settings = server.door(path)
    try:
        with connect(
            f"ws{url.removeprefix('http')}?{urlencode(query)}",
            additional_headers={name: value for name, value in headers.items() if name.lower() == "authorization"},
            subprotocols=PROTOCOLS,
            ssl=_context(settings) if url.startswith("https") else None,
            server_hostname=settings.tls_server_name or None,
            proxy=settings.proxy,
            open_timeout=within_s,
            close_timeout=1,
            max_size=MOST_BYTES,
            compression=None,
        ) as wire:
            end, errors = _end(wire, until)
    except InvalidStatus as error:
        answer = error.response
        raise refused(Reply(answer.status_code, bytes(answer.body or b""))) from None
    except ConnectionRefusedError:
        raise PortError("refused (exec)", retryable=True, reason="refused") from None
    except (OSError, WebSocketException) as error:
        raise PortError(f"cut off ({type(error).__name__})", retryable=True, reason="cut off") from None
    if end.status != "Success":
        raise PortError(f"{end.message} {errors}".strip()[:300], retryable=False, reason=end.reason or "Failure")


def _context(settings: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
    if not settings.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _end(wire: ClientConnection, until: float) -> tuple[_End, str]:
    """What the status channel says at the end, and what the command complained of."""
    errors = b""
    try:
        while (left_s := until - time.monotonic()) > 0:
            frame = wire.recv(timeout=left_s, decode=False)
            if frame[:1] == bytes([STDERR]):
                errors = (errors + frame[1:])[:MOST_BYTES]
            elif frame[:1] == bytes([STATUS]):
                return msgspec.json.decode(frame[1:], type=_End), errors.decode(errors="replace")
    except (TimeoutError, ConnectionClosed, msgspec.DecodeError, msgspec.ValidationError):
        pass
    raise PortError("its end was not told", retryable=True, reason="silent")
