"""What the rehearsal cluster costs: the large fleet beside the default one, in the same run.

Prints; asserts only that 1,000 nodes with 30,000 pods and 100 changes a second fit on one core, with a wide margin.
"""

import contextlib
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from fleet.simulation.churn import WATCHED
from fleet.simulation.scenarios.hand import path
from tests.bench.rehearsed import LARGE, rehearsing
from tests.bench.test_read_path import say

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

MEASURED_S = 20.0
PROBES = 40
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Fleet:
    """A rehearsal in a process of its own, watched as Vigie watches it."""

    process: subprocess.Popen[str]
    ready_s: float
    client: httpx.Client
    events: int = 0
    seen: dict[str, float] = field(default_factory=dict)  # probe → when its change came

    def cpu_s(self) -> float:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def watch(self, plural: str) -> None:
        """Count changes until the process ends; note when a probe comes by."""
        version = self.client.get(path(plural), params={"limit": "1"}).json()["metadata"]["resourceVersion"]
        options = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "600"}
        with (
            contextlib.suppress(httpx.TransportError),
            self.client.stream("GET", path(plural), params=options, timeout=None) as stream,
        ):
            for line in stream.iter_lines():
                self.events += 1
                if plural == "nodes" and '"bench/probe":"' in line:
                    value = line.partition('"bench/probe":"')[2].partition('"')[0]
                    self.seen.setdefault(value, time.monotonic())

    def lateness_s(self, node: str) -> list[float]:
        """From the beginning of a PATCH until its change is on the watch, for PROBES probes, sorted."""
        found = []
        for number in range(PROBES):
            value = f"p{number}"
            began = time.monotonic()
            change = {"metadata": {"annotations": {"bench/probe": value}}}
            kind = {"content-type": "application/merge-patch+json"}
            self.client.patch(path("nodes", "", node), json=change, headers=kind).raise_for_status()
            while value not in self.seen and time.monotonic() - began < 30:
                time.sleep(0.001)
            found.append(self.seen[value] - began)
            time.sleep(0.2)
        return sorted(found)


@contextlib.contextmanager
def running(home: Path, *options: str) -> Iterator[Fleet]:
    with rehearsing(home, *options) as rehearsal:
        fleet = Fleet(rehearsal.process, rehearsal.ready_s, rehearsal.client)
        for plural in WATCHED:
            threading.Thread(target=fleet.watch, args=(plural,), daemon=True).start()
        time.sleep(8.0)  # until controllers have looked at everything once
        yield fleet


@dataclass
class Measured:
    ready_s: float
    memory_mib: float
    cores: float
    changes_per_s: float
    lateness_s: list[float]


def measured(home: Path, node: str, *options: str) -> Measured:
    with running(home, *options) as fleet:
        cpu_s, events, began = fleet.cpu_s(), fleet.events, time.monotonic()
        late = fleet.lateness_s(node)
        while time.monotonic() - began < MEASURED_S:
            time.sleep(0.1)
        took_s = time.monotonic() - began
        cores = (fleet.cpu_s() - cpu_s) / took_s
        return Measured(fleet.ready_s, fleet.memory_mib(), cores, (fleet.events - events) / took_s, late)


def test_a_large_fleet_against_the_default_one(tmp_path):
    small = measured(tmp_path / "small", "node-01")
    large = measured(tmp_path / "large", "node-0001", *LARGE)
    middle, worst = statistics.median(large.lateness_s), large.lateness_s[-1]
    say("start: 1,000 nodes ÷ 24", f"{large.ready_s / small.ready_s:.0f}×", f"{large.ready_s:.1f} s")
    say("memory: 1,000 nodes ÷ 24", f"{large.memory_mib / small.memory_mib:.1f}×", f"{large.memory_mib:.0f} MiB")
    say(
        "changes a second on watches, as asked for ÷ seen",
        f"{100 / large.changes_per_s:.2f}×",
        f"{large.changes_per_s:.0f}/s",
    )
    say("cores with these changes", f"{large.cores:.2f}", f"default fleet {small.cores:.2f}")
    ratio = middle / statistics.median(small.lateness_s)
    say(
        "a change until it is on a watch: 1,000 nodes ÷ 24",
        f"{ratio:.1f}×",
        f"{middle * 1e3:.0f} ms, worst {worst * 1e3:.0f}",
    )
    assert large.changes_per_s > 70
    assert large.cores < 0.9
