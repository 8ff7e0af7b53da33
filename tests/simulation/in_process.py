"""Calls of the rehearsal's API without a socket: one answer at a time, or a stream whose lines carry the cluster's time.

For replays on a manual clock: nothing here waits for real time. Must not know what is asked for.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fleet.simulation.api import Application
from fleet.simulation.clock import Clock

Object = dict[str, Any]
Message = dict[str, Any]

HOST = "in-process"


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""

    def json(self) -> Any:
        return json.loads(self.content)

    def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.content += message.get("body", b"")


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    def scope(self) -> Object:
        headers = {"host": HOST, **{k.lower(): v for k, v in self.headers.items()}}
        return {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "query_string": urlencode(self.query).encode(),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }


class Stream:
    """An open watch. `events` holds (when it arrived, event); `answer` is complete only when the call was refused."""

    def __init__(self, app: Application, call: Call, clock: Clock) -> None:
        self.events: list[tuple[float, Object]] = []
        self.answer = Answer()
        self._clock = clock
        self._rest = b""
        self._gone = asyncio.Event()
        self._asked = False
        self._call = call
        self._task = asyncio.create_task(app(call.scope(), self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._call.body}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.answer.take(dict(message))
        if self.answer.status != 200:
            return
        *lines, self._rest = (self._rest + self.answer.content).split(b"\n")
        self.answer.content = b""
        now = self._clock.now()
        self.events += [(now, json.loads(line)) for line in lines]

    async def close(self) -> None:
        self._gone.set()
        await self._task


async def answer(app: Application, call: Call) -> Answer:
    """The answer to a call that is no watch."""
    got = Answer()
    asked = False

    async def receive() -> Message:
        nonlocal asked
        if asked:
            return {"type": "http.disconnect"}
        asked = True
        return {"type": "http.request", "body": call.body}

    async def send(message: Any) -> None:
        got.take(dict(message))

    await app(call.scope(), receive, send)
    return got
