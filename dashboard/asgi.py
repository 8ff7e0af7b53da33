"""Vigie as an ASGI application: pages and API, the door for readings, the socket, start and end.

Owns which protocol goes where. Must not hold behaviour of its own.
"""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
pages = get_asgi_application()  # sets Django up, so it comes before everything that needs models

from dashboard import consumers, door, urls  # noqa: E402


async def lifespan(
    _scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """The hub starts with its first socket; it ends here."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await consumers.hub().stop()
    await send({"type": "lifespan.shutdown.complete"})


async def unknown_socket(
    _scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """A WebSocket at an address that has none: its handshake fails."""
    await receive()
    await send({"type": "websocket.close"})


sockets = URLRouter([*urls.sockets, re_path("", unknown_socket)])  # type: ignore[arg-type]  # ASGI, not views
application = ProtocolTypeRouter({"http": door.beside(pages), "websocket": sockets, "lifespan": lifespan})
