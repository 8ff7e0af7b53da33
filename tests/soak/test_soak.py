"""Maintenance on the whole product, as `make up REDIS=1` runs it, while its processes are killed at random.

Afterwards every action has ended, no pod was evicted by two of them, and the audit chain is as it was written. A killed worker's
action is somebody's again within 15 s.
"""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from fleet.domain.plans import ENDED
from tests import product
from tests.household import until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

MINUTES = float(os.environ.get("SOAK_MINUTES", "5"))
NODES = ("node-11", *(f"node-{number}" for number in range(19, 25)))
VICTIMS = ("actions", "beat", "redis", "watch", "web", "readings")
PAUSE_S = (4.0, 15.0)
AT_ONCE = 2
TAKEN_OVER_S = 15.0
REST_S = 600.0  # what is under way ends within
SPEED = "10"


class Soak:
    """`told`: what became of it, for whoever watches."""

    def __init__(self, vigie: product.Product) -> None:
        self.vigie, self.rng = vigie, random.Random(int(time.time()))
        self.token = self.command("token", "operator", "--scope", "act").strip().splitlines()[-1].strip()
        self.kills: dict[str, int] = {}
        self.taken_over_s: list[float] = []

    def command(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        found = subprocess.run(
            command, cwd=product.ROOT, env=self.vigie.env, check=True, capture_output=True, text=True
        )
        return found.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        ledger = f"file:{self.vigie.state}/rehearsal/vigie.sqlite3?mode=ro"
        with contextlib.closing(sqlite3.connect(ledger, uri=True)) as found:
            return found.execute(query).fetchall()

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """None when the web server is away, or refuses."""
        headers = {"authorization": f"Bearer {self.token}"}
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.request(
                method, f"{self.vigie.url}/api/v1/{path}", headers=headers, json=body or None, timeout=30
            )
            return answer.json() if answer.status_code < 300 else None
        return None

    def running(self) -> list[tuple[int, str]]:
        return self.rows("SELECT id, target FROM vigie_action WHERE state IN ('confirmed', 'running')")

    def begin(self) -> None:
        """Something on a node on which nothing goes on."""
        busy = {target for _, target in self.running()}
        node = self.rng.choice([name for name in NODES if name not in busy])
        kind = self.rng.choice(["drain", "maintain", "uncordon", "uncordon"])
        plan = self.ask("POST", "plans", kind=kind, target=node, reason="soak", cluster="rehearsal")
        if plan and not any(check["outcome"] == "BLOCK" for check in plan["checks"]):
            self.ask("POST", f"plans/{plan['id']}/confirm", digest=plan["digest"], typed=node)

    def kill(self) -> None:
        name = self.rng.choice(VICTIMS)
        pid = self.vigie.children.get(name)
        if pid is None:
            return  # it is being started again
        if name == "actions":  # best while it is at work on something
            with contextlib.suppress(AssertionError):
                until(self.claims, 10)
        claimed = self.claims()
        os.kill(pid, signal.SIGKILL)
        self.kills[name] = self.kills.get(name, 0) + 1
        if name == "actions" and claimed:
            self.taken_over_s.append(self._taken_over(claimed))

    def claims(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, claimed_by FROM vigie_action WHERE state = 'running' AND claimed_by != ''"))

    def _taken_over(self, orphans: dict[int, str]) -> float:
        """How long until none of these is the dead worker's any more."""
        began = time.monotonic()
        until(lambda: not (self.claims().items() & orphans.items()), 60)
        return time.monotonic() - began


@pytest.fixture
def soak(tmp_path) -> Iterator[Soak]:
    with product.running(tmp_path, "--redis") as vigie:
        made = Soak(vigie)
        made.command("scenario", "speed", SPEED)
        yield made


def test_nothing_is_lost_whoever_dies(soak: Soak):
    ends_at = time.monotonic() + MINUTES * 60
    while time.monotonic() < ends_at:
        if len(soak.running()) < AT_ONCE:
            soak.begin()
        time.sleep(soak.rng.uniform(*PAUSE_S))
        soak.kill()
    until(lambda: not soak.running(), REST_S, lambda: soak.rows("SELECT kind, state, evidence FROM vigie_action_step"))
    states = dict(soak.rows("SELECT state, count(*) FROM vigie_action WHERE confirmed_by != '' GROUP BY state"))
    for failed in soak.rows("SELECT kind, target, outcome FROM vigie_action WHERE state = 'failed'"):
        print("\n  failed:", *failed, end="")
    print(f"\n  kills {soak.kills}, actions {states}, orphans taken over after {sorted(soak.taken_over_s)} s")
    assert states
    assert set(states) <= set(ENDED)
    twice = soak.rows(
        "SELECT uid FROM vigie_action_lane WHERE accepted_at IS NOT NULL GROUP BY uid HAVING count(*) > 1"
    )
    assert twice == []
    assert max(soak.taken_over_s, default=0.0) < TAKEN_OVER_S
    assert "all intact" in soak.command("audit", "verify")
