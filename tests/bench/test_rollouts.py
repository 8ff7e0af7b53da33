"""200 rollouts at once on one page and one socket, beside a few: how long from the API server's event to the socket's message,
and what it costs a browser. Product and rehearsal run as deployed beside each other, and share the cores of this machine.
"""

import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from fleet.simulation.scenarios.hand import path
from tests import machine
from tests.bench import site as sites
from tests.bench.rolled import Heard
from tests.bench.site import CLUSTER, FLEET, Site
from tests.bench.test_read_path import say
from tests.bench.test_thousand_nodes import entered, ms, percentile
from tests.browser.conftest import FLAGS

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROLLOUTS, FEW, REPLICAS = 200, 5, 4
NAMESPACE = "bench"
FLEET_OPTIONS = ("--nodes", "1000")
SETTLED_WITHIN_S = 180.0
QUICK = {"sim/pull-seconds": "0.5", "sim/warmup-seconds": "2", "sim/stop-seconds": "1"}
MERGE = {"content-type": "application/merge-patch+json"}

# What blocked the page for more than 50 ms, and which rows changed.
WATCH_PAGE = """
window.tasks = [];
window.rows = new Set();
new PerformanceObserver((list) => {
  window.tasks.push(...list.getEntries().map((one) => one.duration));
}).observe({ entryTypes: ["longtask"] });
new MutationObserver((records) => {
  for (const { target } of records) window.rows.add(target.closest("[data-key]")?.dataset.key);
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-level"] });
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    with sites.running(tmp_path_factory.mktemp("rollouts"), *FLEET_OPTIONS) as found:
        api = found.rehearsal.client
        api.post(path("namespaces"), json={"metadata": {"name": NAMESPACE}}).raise_for_status()
        for number in range(ROLLOUTS):
            api.post(path("deployments", NAMESPACE), json=deployment(number)).raise_for_status()
        until_through(found)
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=machine.find("chromium"), args=FLAGS)
        yield browser
        browser.close()


def name_of(number: int) -> str:
    return f"server-{number:03d}"


def deployment(number: int) -> dict[str, Any]:
    name = name_of(number)
    container = {"name": "main", "image": "par-prod/bench:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": QUICK},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
    }
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def roll(site: Site, count: int, mark: str) -> None:
    """As `kubectl rollout restart` does it, of one after another as fast as the API server answers."""
    change = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": mark}}}}}
    for number in range(count):
        where = path("deployments", NAMESPACE, name_of(number))
        site.rehearsal.client.patch(where, json=change, headers=MERGE).raise_for_status()


def until_through(site: Site) -> None:
    """As the API server says it."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while missing(site):
        assert time.monotonic() < deadline, f"{missing(site)} rollouts are not through"
        time.sleep(0.5)


def missing(site: Site) -> int:
    found = site.rehearsal.client.get(path("deployments", NAMESPACE)).raise_for_status().json()["items"]
    return sum(not through(one) for one in found)


def through(found: Any) -> bool:
    status = found.get("status", {})
    counts = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
    return status.get("observedGeneration") == found["metadata"]["generation"] and set(counts) == {REPLICAS}


def test_200_rollouts_at_once_are_told_within_a_second(site, chromium):
    page = entered(chromium, site, WATCH_PAGE)
    page.goto(site.product.url + FLEET + "rollouts/")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    time.sleep(3.0)  # until it stands still
    few = rolled(site, FEW, "2026-12-01T11:00:00Z")
    page.evaluate("window.tasks.length = 0; window.rows.clear()")
    many = rolled(site, ROLLOUTS, "2026-12-01T12:00:00Z")
    tasks, changed = page.evaluate("[window.tasks, [...window.rows]]")
    shown = page.locator("[data-live-rows=rollouts] tbody tr").count()
    page.context.close()
    middle, worst = percentile(many.delays, 50), percentile(many.delays, 99)
    note = f"all asked for in {many.asked_s:.0f} s, through in {many.took_s:.0f} s; {many.rate:.0f} changes a second"
    say("rollouts at once", f"{ROLLOUTS}", note)
    say("API server's event → socket's message, p50", ms(middle), f"{len(many.delays)} changes of rollouts")
    say("the same, p99, at most 1 s", ms(worst), f"the last {ms(max(many.delays))}")
    alone = percentile(few.delays, 50)
    say(f"p50: {ROLLOUTS} at once ÷ {FEW}", f"{middle / alone:.1f}×", f"{FEW}: {ms(alone)}")
    say(
        "messages a second on the socket",
        f"{many.frames / many.took_s:.1f}",
        f"{many.characters / many.frames / 1e3:.1f} kB each",
    )
    note = f"{len(tasks)} over 50 ms; {shown} rows\n"
    say("page in Chromium, its longest task, at most 200 ms", f"{max(tasks, default=0):.0f} ms", note)
    assert many.keys <= {*changed}, "the page did not follow"
    assert worst <= 1.0
    assert max(tasks, default=0) <= 200


@dataclass(frozen=True)
class Rolled:
    """`keys`: of the workloads; `delays`: one for each change of one of them, in seconds; `rate`: changes a second of the whole
    cluster, as Vigie hears them; frames and characters of one socket."""

    keys: Collection[str]
    delays: list[float]
    asked_s: float
    took_s: float
    rate: float
    frames: int
    characters: int


def rolled(site: Site, count: int, mark: str) -> Rolled:
    """Roll so many, and listen on both sides until all of them are through and told."""
    command = [sys.executable, "-m", "tests.bench.rolled", str(site.rehearsal.kubeconfig)]
    command += [site.product.url.replace("http", "ws", 1) + "/ws/", site.cookie, CLUSTER, NAMESPACE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "open\n"
        before, began = site.changes(), time.monotonic()
        roll(site, count, mark)
        asked_s = time.monotonic() - began
        until_through(site)
        took_s = time.monotonic() - began
        rate = (site.changes() - before) / took_s
        time.sleep(3.0)  # until the last one is told
        watcher.stdin.close()
        heard = json.loads(watcher.stdout.readline())
    moved = {key: told for key, told in heard["server"].items() if len(told) > 1}
    assert len(moved) == count
    delays = late(moved, heard["page"])
    return Rolled(moved.keys(), delays, asked_s, took_s, rate, heard["frames"], heard["characters"])


def late(server: Heard, page: Heard) -> list[float]:
    """For every state that the API server told, the seconds until the page's socket told it or a later one. The last one of each
    rollout has to be told as it is."""
    found = []
    for key, told in server.items():
        shown = page[key]
        assert shown[-1][1] == told[-1][1], f"{key} ends as {shown[-1][1]}, not as {told[-1][1]}"
        times = [at for at, _ in shown]
        for i, (at, _) in enumerate(told[1:], 1):
            later = [state for _, state in told[i:]]
            when = next(seen for seen, state in shown[bisect_left(times, at) :] if state in later)
            found.append(when - at)
    return found
