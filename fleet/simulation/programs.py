"""What runs inside the rehearsal's containers, for those who speak to them: HTTP, log lines, commands.

Owns the interface, the registry by image, and a plain program for images that have none of their own. Whoever simulates a
workload in more depth registers its program here. Must not touch the store, nor know how a caller reached the container.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from fleet.simulation import podstatus
from fleet.simulation.behaviour import image_name
from fleet.simulation.clock import parse_stamp

Object = dict[str, Any]
Line = tuple[float, str]


@dataclass(frozen=True)
class Container:
    """A container that runs: its pod and its part of the pod's spec as they are now; times of the cluster's clock."""

    pod: Object
    spec: Object
    started_at: float
    now: float

    @property
    def ports(self) -> list[int]:
        return [p["containerPort"] for p in self.spec.get("ports") or ()]


@dataclass(frozen=True)
class Call:
    """An HTTP request as the program hears it; `path` begins with a slash."""

    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""


class NoSuchCommandError(Exception):
    """The container has no such executable; the text is its name."""


class Program(Protocol):
    """What a container of an image does when somebody speaks to it."""

    async def http(self, container: Container, port: int, call: Call) -> Answer | None:
        """None when nothing listens on that port."""

    def log(self, container: Container) -> list[Line]:
        """Everything written since the container started, in order."""

    async def run(self, container: Container, command: tuple[str, ...], stdin: bytes) -> Ran:
        """NoSuchCommandError for what the image does not contain."""


class PlainProgram:
    """Answers probes and metrics on its declared ports, logs its start, and knows the commands of a small shell."""

    async def http(self, container: Container, port: int, call: Call) -> Answer | None:
        if port not in container.ports:
            return None
        match call.path:
            case "/healthz" | "/health" | "/readyz":
                ready = podstatus.is_ready(container.pod)
                return Answer(200, b"ok") if ready else Answer(503, b"warming up")
            case "/metrics":
                return Answer(200, self.metrics(container).encode(), "text/plain; version=0.0.4; charset=utf-8")
            case _:
                return await self.page(container, call)

    async def page(self, container: Container, call: Call) -> Answer:  # noqa: ARG002 -- for programs with pages
        """Any other path."""
        return Answer(404, f"{call.path} not found\n".encode())

    def metrics(self, container: Container) -> str:
        """In the Prometheus text format."""
        name = "process_start_time_seconds"
        return f"# TYPE {name} gauge\n{name} {container.started_at:.3f}\n"

    def log(self, container: Container) -> list[Line]:
        lines = [(container.started_at, f"{container.spec['name']} starting")]
        ready = podstatus.condition(container.pod["status"], "Ready")
        if ready is not None and ready["status"] == "True":
            lines.append((max(container.started_at, parse_stamp(ready["lastTransitionTime"])), "ready"))
        return lines

    async def run(self, container: Container, command: tuple[str, ...], stdin: bytes) -> Ran:
        if command[:2] in {("sh", "-c"), ("/bin/sh", "-c"), ("bash", "-c")} and len(command) > 2:
            command = tuple(shlex.split(command[2]))
        name, *arguments = command
        known = _COMMANDS.get(name.rpartition("/")[2])
        if known is None:
            raise NoSuchCommandError(name)
        return known(container, arguments, stdin)


def _echo(container: Container, arguments: list[str], stdin: bytes) -> Ran:  # noqa: ARG001 -- as every command
    return Ran(stdout=f"{' '.join(arguments)}\n".encode())


def _hostname(container: Container, arguments: list[str], stdin: bytes) -> Ran:  # noqa: ARG001
    return Ran(stdout=f"{container.pod['metadata']['name']}\n".encode())


def _cat(container: Container, arguments: list[str], stdin: bytes) -> Ran:  # noqa: ARG001
    if arguments:
        return Ran(1, stderr=f"cat: {arguments[0]}: No such file or directory\n".encode())
    return Ran(stdout=stdin)


def _date(container: Container, arguments: list[str], stdin: bytes) -> Ran:  # noqa: ARG001
    return Ran(stdout=datetime.fromtimestamp(container.now, UTC).strftime("%a %b %e %H:%M:%S UTC %Y\n").encode())


_COMMANDS: dict[str, Callable[[Container, list[str], bytes], Ran]] = {
    "echo": _echo,
    "hostname": _hostname,
    "cat": _cat,
    "date": _date,
    "true": lambda *_: Ran(),
    "false": lambda *_: Ran(1),
}


class Programs:
    """Image name (without registry and tag) → its program."""

    def __init__(self) -> None:
        self._known: dict[str, Program] = {}
        self._plain: Program = PlainProgram()

    def register(self, image: str, program: Program) -> None:
        self._known[image] = program

    def of(self, container: Object) -> Program:
        return self._known.get(image_name(container["image"]), self._plain)
