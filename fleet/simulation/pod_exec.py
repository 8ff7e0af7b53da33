"""Commands in containers: the exec subresource over WebSocket, in the sub-protocols v4 and v5.channel.k8s.io.

Owns the channels and the status at the end. Must not decide rights, nor know what a command does; programs.py does.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from fleet.simulation.exchange import Target
from fleet.simulation.pod_access import PodAccess, chosen_container
from fleet.simulation.programs import Container, NoSuchCommandError, Ran
from fleet.simulation.refusals import ApiError, bad_request

Object = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
FRAME_BYTES = 32 * 1024
MOST_STDIN_BYTES = 1024 * 1024
NORMAL = 1000


class Exec:
    """One command in one container: checked first (ApiError 400, 404, 500), then run over an accepted socket."""

    def __init__(self, access: PodAccess, target: Target, query_string: str, protocols: list[str]) -> None:
        pairs = parse_qsl(query_string, keep_blank_values=True)
        self._command = tuple(v for k, v in pairs if k == "command")
        self._options = dict(pairs)
        self._access = access
        self.protocol = next((p for p in PROTOCOLS if p in protocols), "")
        self._container = self._find(target)

    def _find(self, target: Target) -> Container:
        pod = self._access.store.get("pods", target.namespace, target.name)
        if not self.protocol:
            raise bad_request("unable to upgrade: no supported protocol was offered")
        if not self._command:
            raise bad_request("you must specify at least one command for the container")
        phase = pod["status"].get("phase")
        if phase in {"Succeeded", "Failed"}:
            raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        name = chosen_container(pod, self._options.get("container", ""))
        self._access.check_reachable(pod, f"exec/{target.namespace}/{target.name}/{name}")
        container = self._access.running(pod, name)
        if container is None:
            why = f'unable to upgrade connection: container not found ("{name}")'
            raise ApiError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})
        return container

    def _wants(self, stream: str) -> bool:
        return self._options.get(stream, "false") in {"true", "1"}

    async def serve(self, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "subprotocol": self.protocol})
        stdin = await self._stdin(receive) if self._wants("stdin") else b""
        program = self._access.programs.of(self._container.spec)
        try:
            ran = await program.run(self._container, self._command, stdin)
        except NoSuchCommandError as missing:
            await self._write(send, STATUS, json.dumps(_not_found(str(missing))).encode())
        else:
            if self._wants("stdout"):
                await self._write(send, STDOUT, ran.stdout)
            if self._wants("stderr"):
                await self._write(send, STDERR, ran.stderr)
            await self._write(send, STATUS, json.dumps(_status(ran)).encode())
        await send({"type": "websocket.close", "code": NORMAL})

    async def _stdin(self, receive: Receive) -> bytes:
        """Everything up to the client's end of input (v5), its going away, or the most that is taken."""
        taken = b""
        while len(taken) < MOST_STDIN_BYTES:
            message = await receive()
            frame = message.get("bytes") or b""
            if message["type"] != "websocket.receive" or frame[:1] == bytes([CLOSE]):
                break
            if frame[:1] == bytes([STDIN]):
                taken += frame[1:]
        return taken

    @staticmethod
    async def _write(send: Send, channel: int, content: bytes) -> None:
        for start in range(0, len(content), FRAME_BYTES):
            await send({"type": "websocket.send", "bytes": bytes([channel]) + content[start : start + FRAME_BYTES]})


def _status(ran: Ran) -> Object:
    if not ran.exit_code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {ran.exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(ran.exit_code)}]},
    }


def _not_found(command: str) -> Object:
    why = (
        "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec failed: "
        f'exec failed: unable to start container process: exec: "{command}": executable file not found in $PATH: unknown'
    )
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    }
