"""A browser's end of a WebSocket, speaking ASGI to the consumer directly."""

import json
from collections.abc import Callable
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from dashboard import consumers

WITHIN_S = 5


def cookie_of(client: Client) -> str:
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())


class Handshake:
    """One socket. Closing arrives as a message of type websocket.close."""

    def __init__(
        self,
        cookie: str = "",
        origin: str | None = "http://localhost",
        host: str = "localhost",
        application: Callable[..., Any] = consumers.live,
    ) -> None:
        headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        scope = {"type": "websocket", "path": "/ws/", "headers": headers}
        self._peer = ApplicationCommunicator(application, scope)

    async def accepted(self) -> bool:
        await self._peer.send_input({"type": "websocket.connect"})
        return (await self._peer.receive_output(WITHIN_S))["type"] == "websocket.accept"

    async def say(self, frame: dict[str, Any] | str | bytes) -> None:
        """Text and bytes go as they are."""
        part = (
            {"bytes": frame}
            if isinstance(frame, bytes)
            else {"text": frame if isinstance(frame, str) else json.dumps(frame)}
        )
        await self._peer.send_input({"type": "websocket.receive", **part})

    async def hear(self) -> dict[str, Any]:
        """The next frame."""
        message = await self._peer.receive_output(WITHIN_S)
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def hear_a(self, kind: str) -> dict[str, Any]:
        """The next frame of this kind; pulses come whenever they like."""
        while (frame := await self.hear())["t"] == "pulse" != kind:
            pass
        assert frame["t"] == kind, frame
        return frame

    async def closed(self) -> int:
        message = await self._peer.receive_output(WITHIN_S)
        assert message["type"] == "websocket.close", message
        return message["code"]

    async def leave(self) -> None:
        await self._peer.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._peer.wait(WITHIN_S)
