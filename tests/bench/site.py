"""Vigie as deployed beside a large rehearsal cluster: web, watch worker and beat as processes on Redis, and somebody signed in.

Owns starting it once for a module of measurements, and the one change that they measure with: a GPU of one node gets a pod or
loses it.
"""

import contextlib
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from fleet.simulation.scenarios.hand import path
from tests import product
from tests.backends import redis_server
from tests.bench.rehearsed import LARGE, Rehearsal, rehearsing
from tests.product import Product

CLUSTER = "rehearsal"
FLEET = f"/c/{CLUSTER}/"
PASSWORD = "a password of some length"
READY_WITHIN_S = 120.0
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Site:
    """`web`: an HTTP client that is signed in as a viewer."""

    rehearsal: Rehearsal
    product: Product
    web: httpx.Client

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.web.cookies.items())

    def changes(self) -> float:
        """How many events of the API server the watch worker has heard."""
        text = self.web.get("/metrics").text
        return float(re.search(r"^vigie_watch_events_total\S* (\S+)$", text, re.MULTILINE).group(1))

    def cells(self) -> dict[str, str]:
        """Node → its cells, of nodes on which a pod may be put."""
        answer = self.web.get("/api/v1/nodes", params={"cluster": CLUSTER, "usable": "true", "limit": "1000"})
        return {row["name"]: row["cells"] for row in answer.raise_for_status().json()["items"]}

    def peak_mb(self, process: str) -> float:
        """The most memory that it has held so far."""
        status = Path(f"/proc/{self.product.children[process]}/status").read_text()
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE).group(1)) * 1024 / 1e6


@dataclass
class Slot:
    """The first free GPU of a node with more than one: a pod there changes this one cell."""

    api: httpx.Client
    node: str
    pod: str = ""

    def flip(self) -> "Flip":
        """Give it to a pod that is bound to the node from its beginning, or take it back, at once."""
        before = time.time()
        if self.pod:
            pod_name, state, self.pod = self.pod, "free", ""
            where = path("pods", "default", pod_name)
            self.api.request("DELETE", where, json={"gracePeriodSeconds": 0}).raise_for_status()
        else:
            pod_name, state = f"bench-{next(NUMBERS)}", "busy"
            self.api.post(path("pods", "default"), json=pod(pod_name, self.node)).raise_for_status()
            self.pod = pod_name
        return Flip(self.node, pod_name, state, before, time.time())


@dataclass(frozen=True)
class Flip:
    """One change: what the page calls the cell after it, the request's beginning and when its answer was there (seconds since
    1970)."""

    node: str
    pod: str
    state: str
    sent_at: float
    acknowledged_at: float

    def shown_by(self, holders: Collection[str]) -> bool:
        """Whether those who hold GPUs on the node are as they are after the change."""
        return (self.pod in holders) == (self.state == "busy")


def slots(site: Site) -> list[Slot]:
    """Of nodes with room that nobody in the cluster is about to take: the pods that wait there want whole nodes."""
    found = [node for node, cells in site.cells().items() if re.fullmatch("b+ff+", cells)]
    return [Slot(site.rehearsal.client, node) for node in sorted(found)]


def pod(name: str, node: str) -> dict[str, Any]:
    container = {"name": "main", "image": "par-prod/bench:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def running(folder: Path, *options: str) -> Iterator[Site]:
    """1,000 nodes and 30,000 pods at 100 changes a second, unless other options of the rehearsal are given; all of them shown and
    somebody signed in."""
    with (
        rehearsing(folder / "rehearsal", *(options or LARGE)) as rehearsal,
        redis_server() as redis,
        product.running(folder / "state", "--kubeconfig", str(rehearsal.kubeconfig), "--redis-url", redis) as vigie,
        httpx.Client(base_url=vigie.url, timeout=60) as web,
    ):
        sign_in(vigie, web)
        until_ready(web)
        yield Site(rehearsal, vigie, web)


def sign_in(vigie: Product, web: httpx.Client) -> None:
    command = [sys.executable, "manage.py", "user", "add", "vera", "--role", "viewer", "--password-stdin"]
    subprocess.run(command, cwd=product.ROOT, env=vigie.env, input=PASSWORD, text=True, check=True, capture_output=True)
    form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', web.get("/login/").text).group(1)
    data = {"csrfmiddlewaretoken": form, "username": "vera", "password": PASSWORD}
    answer = web.post("/login/", data=data, headers={"origin": vigie.url})
    assert answer.status_code == 302, answer.text


def until_ready(web: httpx.Client) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while (answer := web.get("/readyz")).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.2)
