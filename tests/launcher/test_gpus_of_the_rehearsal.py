"""From a kernel-log line to the API: the rehearsal's agents post to a Vigie that knows nothing of them but their tokens."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import product

pytestmark = pytest.mark.timeout(180)

Object = dict[str, Any]
PATIENCE_S = 60.0


class Vigie:
    """A running product, asked over its API."""

    def __init__(self, running: product.Product) -> None:
        self.running = running
        self._token = running.token()

    def gpus(self) -> list[Object]:
        request = urllib.request.Request(f"{self.running.url}/api/v1/gpus?limit=500")
        request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=10) as reply:
            found: list[Object] = json.load(reply)["items"]
            return found

    def until(self, holds: Callable[[list[Object]], bool]) -> list[Object]:
        """The GPUs once `holds` of them."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(found := self.gpus()):
            if time.monotonic() > deadline:
                raise AssertionError([(g["node"], g["index"], g["state"]) for g in found if g["state"] != "ok"])
            time.sleep(0.3)
        return found

    def scenario(self, action: str, name: str) -> None:
        command = [sys.executable, "manage.py", "scenario", action, name]
        subprocess.run(command, cwd=product.ROOT, env=self.running.env, check=True, capture_output=True)


@pytest.fixture(scope="module")
def vigie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vigie]:
    state: Path = tmp_path_factory.mktemp("state")
    with product.running(state) as running:
        yield Vigie(running)


def test_all_are_measured_and_one_waits_for_a_reset(vigie: Vigie) -> None:
    found = vigie.until(lambda gpus: len(gpus) == 192 and all(g["read_at"] for g in gpus))
    assert [(g["node"], g["index"], g["reason"], g["soft"]) for g in found if g["state"] != "ok"] == [
        ("node-10", 6, "remap-pending", True)
    ]
    assert all(g["power_w"] > 0 for g in found)
    training = [g for g in found if any(pod.startswith("training/") for pod in g["pods"])]
    assert training
    assert all(g["utilization_pct"] >= 85 for g in training)


def test_one_that_falls_off_the_bus_is_lost_with_its_reason(vigie: Vigie) -> None:
    def lost(gpus: list[Object]) -> list[Object]:
        return [g for g in gpus if g["state"] == "lost"]

    vigie.scenario("start", "xid-79")
    (gpu,) = lost(vigie.until(lambda gpus: bool(lost(gpus))))
    assert gpu["action"] == "reboot-node"
    rules = {f["rule"]: f for f in gpu["findings"]}
    assert {"xid-79", "off-bus"} <= set(rules)
    assert rules["xid-79"]["source"] == "kernel-log"
    assert gpu["pods"], "its pod holds it still"
    vigie.scenario("stop", "xid-79")
    vigie.until(lambda gpus: not lost(gpus))
