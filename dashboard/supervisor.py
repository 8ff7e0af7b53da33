"""Child processes in sessions of their own: started, logged, restarted with back-off, stopped within a bound.

Owns processes, nothing of what they do. Must not import Django.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import BinaryIO, Self

ROOT = Path(__file__).resolve().parent.parent
STOP_WITHIN_S = 4.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
HEALTHY_AFTER_S = 30.0
TICK_S = 0.1
LOG_LIMIT_BYTES = 10_000_000


class StartError(Exception):
    """A start that cannot go on; the message is one sentence for the person at the terminal."""


@dataclass
class Child:
    """One process: what to run, and how often it has died."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(repr=False)
    stdin: str = field(default="", repr=False)
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    due_at: float | None = None


class Supervisor:
    """Keeps children running until a signal; on leaving the `with` block nothing of them is left."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.children: dict[str, Child] = {}
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def run(self, child: Child) -> None:
        """Start a child that is to live as long as we do."""
        self.children[child.name] = child
        self._spawn(child)

    def complete(self, child: Child) -> str:
        """Run a child to its end and return the last line of its output. Raises StartError with its last words when it fails."""
        self.run(child)
        process = self._process(child)
        while process.poll() is None:
            if self.stopping:
                raise StartError("stopped before it was ready")
            self.pause(0.02)
        del self.children[child.name]
        lines = self.last_lines(child.name, 1)
        if process.returncode:
            raise StartError(
                lines[-1].removeprefix("CommandError: ")
                if lines
                else f"{child.name} ended with status {process.returncode}"
            )
        return lines[-1]

    def wait_line(self, name: str, start: str, within_s: float) -> None:
        """Wait until a child's log has a line that begins with `start`. Raises StartError when it dies or is late."""
        child, deadline = self.children[name], time.monotonic() + within_s
        while not self._has_line(name, start):
            if self.stopping:
                raise StartError("stopped before it was ready")
            if self._process(child).poll() is not None:
                raise StartError(f"{name} did not start: {' '.join(self.last_lines(name, 1))}")
            if time.monotonic() > deadline:
                raise StartError(f"{name} was not ready within {within_s:.0f} s; see {self.log(name)}")
            self.pause(0.02)

    def _has_line(self, name: str, start: str) -> bool:
        """Among all lines: a child that is ready early may have said much since."""
        with self.log(name).open(errors="replace") as log:
            return any(line.startswith(start) for line in log)

    def watch(self, say: Callable[[str], None]) -> None:
        """Until a signal: restart who dies."""
        while not self.stopping:
            self.check(say)
            self.pause(TICK_S)

    def check(self, say: Callable[[str], None]) -> None:
        """One look at every child: name the dead, restart those whose pause is over."""
        now = time.monotonic()
        for child in self.children.values():
            process = self._process(child)
            if child.due_at is None and process.poll() is not None:
                self._mourn(child, process.returncode, now, say)
            elif child.due_at is not None and now >= child.due_at:
                say(f"{child.name} starts again.")
                self._spawn(child)

    def _mourn(self, child: Child, status: int, now: float, say: Callable[[str], None]) -> None:
        if now - child.started_at > HEALTHY_AFTER_S:
            child.pause_s = FIRST_PAUSE_S
        child.due_at = now + child.pause_s
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        say(
            f"{child.name} ended {how}; it starts again in {child.pause_s:.0f} s. Its last words, from {self.log(child.name)}:"
        )
        for line in self.last_lines(child.name, 3):
            say(f"    {line}")
        child.pause_s = min(child.pause_s * 2, LONGEST_PAUSE_S)

    def end(self) -> None:
        """Ask every child's session to stop, wait, then end what is left."""
        alive = [c.process for c in self.children.values() if c.process is not None]
        for process in alive:
            _signal_session(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_S
        for process in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            _signal_session(process, signal.SIGKILL)
            process.wait()
        self.children.clear()

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def last_lines(self, name: str, count: int) -> list[str]:
        with self.log(name).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 8_192))
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-count:]

    def _spawn(self, child: Child) -> None:
        with self._open_log(child) as log:
            try:
                child.process = subprocess.Popen(
                    child.argv,
                    cwd=ROOT,
                    env=child.env,
                    stdin=subprocess.PIPE if child.stdin else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
                )
            except OSError as error:
                raise StartError(f"cannot run {child.argv[0]}: {error.strerror}") from error
        if child.stdin and child.process.stdin is not None:
            child.process.stdin.write(child.stdin.encode())
            child.process.stdin.close()
        child.started_at, child.due_at = time.monotonic(), None

    def _open_log(self, child: Child) -> BinaryIO:
        """A fresh log at our own start; a restarted child goes on in it unless it has grown large."""
        path = self.log(child.name)
        again = child.process is not None and path.stat().st_size < LOG_LIMIT_BYTES
        path.touch(mode=0o600)
        return path.open("ab" if again else "wb")

    @staticmethod
    def _process(child: Child) -> subprocess.Popen[bytes]:
        if child.process is None:
            raise StartError(f"{child.name} was never started")
        return child.process


def _signal_session(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """The child leads its session, so its group holds whatever it started itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Linux: end with us even when we are killed, so that no worker goes on alone (prctl PR_SET_PDEATHSIG = 1)."""
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGTERM)
