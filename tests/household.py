"""Vigie's processes beside a rehearsal in this one: each started, killed and started again by name, as a test wants.

The ledger is read from its file: what a killer looks at is what a process has committed, nothing else.
"""

import contextlib
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from dashboard.launcher import WORKER_OPTIONS
from fleet.domain.changes import Version
from fleet.domain.picture import GpuRow, NodeRow, Snapshot
from fleet.live import Pulse
from fleet.live.picture_redis import RedisPicture
from tests import machine
from tests.backends import free_port
from tests.product import ROOT, environment

Object = dict[str, Any]

CLUSTER = "rehearsal"
PATIENCE_S = 120.0


def until(holds: Callable[[], object], within_s: float = PATIENCE_S, why: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.005)


class Household:
    """`names`: redis, web, worker, beat."""

    def __init__(self, home: Path, kubeconfig: Path, policies: Path | None = None) -> None:
        self.home, self.port, self._redis_port = home, free_port(), free_port()
        self.redis_url = f"redis://127.0.0.1:{self._redis_port}/0"
        self.env = {
            **environment(home),
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "PYTHONUNBUFFERED": "1",
            "REDIS_URL": self.redis_url,
            "VIGIE_ACTIONS": CLUSTER,
            "VIGIE_HOME": str(home),
            "VIGIE_HOSTS": "127.0.0.1",
            "VIGIE_KUBECONFIG": str(kubeconfig),
            "VIGIE_PORT": str(self.port),
            **({"VIGIE_POLICIES": str(policies)} if policies else {}),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = ""

    @property
    def commands(self) -> dict[str, list[str]]:
        python, address = sys.executable, ["--host", "127.0.0.1", "--port", str(self.port)]
        redis = [machine.find("redis-server"), "--bind", "127.0.0.1", "--port", str(self._redis_port)]
        celery = ["-m", "tests.short_leases", "-A", "dashboard.celery"]
        return {
            "redis": [*redis, "--save", "", "--appendonly", "no", "--dir", str(self.home)],
            "web": [python, "-m", "uvicorn", "dashboard.asgi:application", *address, "--no-access-log"],
            "worker": [python, *celery, "worker", "-Q", "actions", *WORKER_OPTIONS],
            "beat": [python, *celery, "beat", "--schedule", str(self.home / "beat"), "--pidfile="],
        }

    # Processes

    def start(self, *names: str) -> None:
        for name in names:
            with (self.home / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    self.commands[name], cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        for name in names:
            port = {"redis": self._redis_port, "web": self.port}.get(name)
            if port is not None:
                until(lambda port=port: _listens(port), why=lambda name=name: self.log(name))

    def kill(self, *names: str) -> None:
        """kill -9."""
        for name in names:
            process = self._processes.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def end(self) -> None:
        self.kill(*[name for name in self._processes if name != "redis"])
        self.kill(*self._processes)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")[-6000:]

    def run(self, *arguments: str) -> str:
        """A command of manage.py; its standard output."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.env, check=True, capture_output=True, text=True).stdout

    # People

    def sign_in(self) -> None:
        self.run("prepare", "--rehearsal-account", "operator")
        found = re.search(r"^\s*(\S{40,})\s*$", self.run("token", "operator", "--scope", "act"), re.MULTILINE)
        assert found
        self._token = found[1]

    def call(self, method: str, path: str, **body: Any) -> Object:
        headers = {"authorization": f"Bearer {self._token}"}
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        answer = httpx.request(method, url, headers=headers, json=body or None, timeout=30)
        assert answer.status_code < 300, answer.text
        found: Object = answer.json()
        return found

    def begin(self, kind: str, target: str, **options: str) -> int:
        """Propose and confirm; the action's number."""
        plan = self.call("POST", "plans", kind=kind, target=target, reason="tried", cluster=CLUSTER, options=options)
        self.call("POST", f"plans/{plan['id']}/confirm", digest=plan["digest"], typed=target)
        return int(plan["id"])

    # The ledger and the picture

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self.home}/vigie.sqlite3?mode=ro", uri=True)) as ledger:
            return ledger.execute(query, values).fetchall()

    def step(self, action: int, kind: str) -> str:
        """The state of one step, "" while there is no such row."""
        found = self.rows("SELECT state FROM vigie_action_step WHERE action_id = ? AND kind = ?", action, kind)
        return found[0][0] if found else ""

    def outcome(self, action: int) -> tuple[str, Object]:
        ((state, outcome),) = self.rows("SELECT state, outcome FROM vigie_action WHERE id = ?", action)
        return state, json.loads(outcome)

    def measure(self, node: str) -> None:
        """What the picture would say with a reading of now: eight sound GPUs that nothing uses."""
        store, now = RedisPicture(self.redis_url, lambda _: None), time.time()
        lease = store.acquire(CLUSTER, f"test at {now}", 60.0)
        assert lease is not None
        gpus = {f"{node}/{i}": GpuRow(node, i, state="ok", read_at=now, users=0) for i in range(8)}
        nodes = {node: NodeRow(node, physical=8, measured=True)}
        store.pulse(CLUSTER, Version(lease.epoch, 0), Pulse(now, said_at=now))
        assert store.publish(CLUSTER, Version(lease.epoch, 1), None, Snapshot({}, {}, nodes, {}, {}, {}, gpus=gpus))
        store.release(lease)


@contextlib.contextmanager
def household(home: Path, kubeconfig: Path, policies: Path | None = None) -> Iterator[Household]:
    """Everything but the worker runs."""
    made = Household(home, kubeconfig, policies)
    try:
        made.start("redis")
        made.sign_in()
        made.start("web", "beat")
        yield made
    finally:
        made.end()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
