"""Vigie as people start it: `manage.py up` as a process, with state of its own, on a free port."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.backends import free_port

ROOT = Path(__file__).resolve().parent.parent
READY_WITHIN_S = 60.0


@dataclass
class Product:
    """A running Vigie: where it answers, where its state is, and its process."""

    port: int
    state: Path
    process: "subprocess.Popen[str]"
    output: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "rehearsal" / "kubeconfig"

    @property
    def env(self) -> dict[str, str]:
        """For commands that talk to this instance."""
        return environment(self.state)

    @property
    def children(self) -> dict[str, int]:
        """Name → pid of everything that the launcher runs now, from /proc."""
        return {name_of(pid): pid for pid in descendants(self.process.pid)}

    def token(self, user: str = "viewer") -> str:
        """A new API token, through the command that people use."""
        command = [sys.executable, "manage.py", "token", user]
        out = subprocess.run(command, cwd=ROOT, env=self.env, check=True, capture_output=True, text=True).stdout
        found = re.search(r"^\s*(\S{40,})\s*$", out, re.MULTILINE)
        assert found, out
        return found.group(1)


def environment(state: Path) -> dict[str, str]:
    """The shell of somebody who runs Vigie: nothing of the test session's own settings."""
    ours = ("VIGIE_", "DJANGO_", "REDIS_URL", "DATABASE_URL", "KUBECONFIG")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {"VIGIE_STATE": str(state)}


def launch(state: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "up", *options],
        cwd=ROOT,
        env=environment(state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextlib.contextmanager
def running(state: Path, *options: str) -> Iterator[Product]:
    """Start and wait until it says that it is ready; stop as with Ctrl-C."""
    port = free_port()
    product = Product(port, state, launch(state, "--port", str(port), *options), [])
    try:
        wait_ready(product)
        yield product
    finally:
        stop(product.process)


def wait_ready(product: Product) -> None:
    """Read the output up to the line that closes the start."""
    deadline = time.monotonic() + READY_WITHIN_S
    assert product.process.stdout is not None
    for line in product.process.stdout:
        product.output.append(line.rstrip("\n"))
        if "Ctrl-C stops everything" in line:
            return
        assert time.monotonic() < deadline, product.output
    raise AssertionError("\n".join(product.output))


def stop(process: "subprocess.Popen[str]", number: int = signal.SIGINT) -> float:
    """Returns how long it took, in seconds."""
    begin = time.monotonic()
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if process.stdout is not None:
        process.stdout.close()
    return time.monotonic() - begin


def descendants(pid: int) -> list[int]:
    """Linux: every process under `pid`."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # threads end while we look
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def name_of(pid: int) -> str:
    """What this child does, from its command line."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    line = " ".join(words)
    marks = {
        "manage.py rehearsal": "rehearsal",
        "dashboard.embedded": "vigie",
        "uvicorn": "web",
        "celery beat": "beat",
        "redis-server": "redis",
    }
    for mark, name in marks.items():
        if mark in line or mark in line.replace(" -A dashboard.celery", ""):
            return name
    return words[words.index("-Q") + 1] if "-Q" in words else line
