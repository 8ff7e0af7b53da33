"""Celery around the writer: what each worker may run, everything in one process, and the processes of a deployment."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from channels_redis.pubsub import RedisPubSubChannelLayer

from dashboard import celery, health
from fleet import live, wiring
from fleet.domain.kube import Kind
from fleet.live.picture_redis import RedisPicture
from fleet.observe import Pace, Writer
from fleet.tasks import watch
from tests.fleet.clusters import wait_for
from tests.fleet.scripted import (
    STREAM,
    Request,
    Script,
    Scripted,
    Wire,
    chunk,
    item,
    line,
    page,
    reply,
    silence,
    stream,
)

START_S = 20.0  # of a process on a busy machine
ROOT = Path(__file__).resolve().parents[2]


class Nodes:
    """An API server with one node, in every kind's list that asks for nodes; watches stay silent after `changes`."""

    def __init__(self, *changes: bytes) -> None:
        self.quiet = Script()
        self.nodes = Script([reply(page([item("node-0", 3, "Node")], 9))], [stream(*changes)] if changes else [])

    def __call__(self, request: Request) -> Wire:
        return (self.nodes if request.path.endswith("/nodes") else self.quiet)(request)

    def serve(self) -> Scripted:
        server = Scripted(self)
        self.quiet.server = self.nodes.server = server
        return server


@pytest.fixture
def clusters(tmp_path, settings, go_on):
    """Two scripted clusters in one kubeconfig, and a process that has not watched yet."""
    servers = {name: Nodes().serve() for name in ("paris", "lab")}
    files = []
    for name, server in servers.items():
        folder = tmp_path / name
        folder.mkdir()
        files.append(yaml.safe_load(Path(server.kubeconfig(folder, name)).read_text()))
    merged = {key: [entry for content in files for entry in content[key]] for key in ("clusters", "users", "contexts")}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"} | merged))
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(tmp_path / "kubeconfig"), ()
    _forget()
    yield servers
    for server in servers.values():
        server.close()
    _forget()


@contextmanager
def in_background() -> Iterator[None]:
    background = celery.Background()
    background.start()
    try:
        yield
    finally:
        background.stop()


def _forget() -> None:
    watch._writers.clear()
    wiring.site.cache_clear()
    live.picture.cache_clear()


def test_everything_runs_in_one_process_and_ends_cleanly(clusters):
    before = set(threading.enumerate())
    background = celery.Background()
    began = time.monotonic()
    background.start()
    wait_for(lambda: live.picture().clusters() == ["lab", "paris"], 10)
    assert time.monotonic() - began < 5.0
    found = live.picture().read("paris")
    assert set(found.snapshot.nodes) == {"fleet/node-0"}
    assert time.time() - found.pulse.at < 5.0
    for server in clusters.values():
        wait_for(lambda server=server: len(server.asked(watch=True)) >= len(Kind))
        assert len(server.asked(watch=False)) == len(Kind)
    began = time.monotonic()
    background.stop()
    assert time.monotonic() - began < 4.0
    left = [t for t in threading.enumerate() if t not in before and t.is_alive() and not t.name.startswith("Thread-")]
    assert [thread.name for thread in left if thread.name != "notices"] == []


def test_a_slice_that_ends_is_followed_by_the_next(clusters):
    watch._writers["lab"] = Writer(wiring.site("lab").cluster, live.picture(), Pace(slice_s=0.8))
    with in_background():
        wait_for(lambda: len(clusters["lab"].asked(watch=True)) >= 3 * len(Kind), 20)
    assert len(clusters["lab"].asked(watch=False)) == len(Kind), "no slice but the first one lists"


def test_a_second_message_for_a_watched_cluster_ends_at_once(clusters):
    with in_background():
        wait_for(lambda: live.picture().clusters() == ["lab", "paris"], 10)
        assert watch.writer("lab").run(threading.Event()) is False
        for _ in range(5):
            celery.app.send_task("fleet.tasks.watch.watch_clusters")
        time.sleep(0.5)
    assert len(clusters["lab"].asked(watch=False)) == len(Kind)


def test_after_a_crash_the_next_slice_lists_again(clusters):
    broken = Writer(wiring.site("lab").cluster, live.picture(), Pace(lease_s=0.2))
    broken.inventory.apply = None
    watch._writers["lab"] = broken
    with pytest.raises(TypeError):
        watch.watch_cluster("lab")
    assert watch.writer("lab") is not broken
    with in_background():
        wait_for(lambda: live.picture().read("lab"), 10)


def test_a_cluster_that_hangs_slows_no_other(clusters, settings):
    """Its server takes connections and says nothing, ever."""
    clusters["lab"]._answer = lambda _: silence(clusters["lab"])
    clusters["paris"]._answer = paris = Nodes()
    paris.quiet.server = paris.nodes.server = clusters["paris"]
    change = threading.Event()

    def late() -> Iterator[bytes]:
        yield STREAM
        change.wait(20)
        yield chunk(line("MODIFIED", item("node-0", 12, "Node", spec={"unschedulable": True})))
        clusters["paris"].over.wait(20)

    paris.nodes.watches = [late()]
    picture = live.picture()
    began = time.monotonic()
    with in_background():
        wait_for(lambda: picture.version("paris"), 10)
        assert time.monotonic() - began < 5.0
        wait_for(lambda: any(what == "server" for what, *_ in (picture.last_pulse("lab") or live.Pulse(0)).trouble), 10)
        began = time.monotonic()
        change.set()
        wait_for(lambda: picture.read("paris").snapshot.nodes["fleet/node-0"].unschedulable)
        assert time.monotonic() - began < 4.0
        assert time.time() - picture.read("paris").pulse.at < 5.0
        states = {name: health.state(name) for name in ("paris", "lab")}
        began = time.monotonic()
    assert time.monotonic() - began < 3.0, "it does not hold up the end either"
    assert (states["paris"].picture, states["paris"].lost) == (True, "")
    assert (states["lab"].picture, states["lab"].lost) == (False, "server")


def test_queues_and_schedule_fit_together(clusters):
    assert {"watch", "readings"} <= set(celery.QUEUES)
    assert celery.QUEUES["watch"].threads() == 3, "one per cluster, and one"
    for entry in (celery.SCHEDULE | celery.SCRAPES).values():
        assert entry["options"]["expires"] <= entry["schedule"], "nothing piles up"
    worker = celery.embedded_worker("watch")
    assert (worker.concurrency, worker.prefetch_multiplier) == (3, 1)


# Processes


@pytest.mark.parametrize("queue", list(celery.QUEUES))
def test_a_worker_can_run_the_tasks_of_its_own_queue_alone(queue):
    """In a fresh interpreter: a worker runs whatever it has registered, on whichever queue it comes."""
    code = (
        "import json; from dashboard.celery import app\n"
        f"app.Worker(queues=['{queue}'], pool='threads', quiet=True)\n"
        "print(json.dumps(sorted(name for name in app.tasks if not name.startswith('celery.'))))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    module = celery.QUEUES[queue].tasks
    expected = {
        "watch": [f"{module}.watch_cluster", f"{module}.watch_clusters"],
        "actions": [f"{module}.run_action", f"{module}.sweep"],
        "checkpoints": [f"{module}.deep_check", f"{module}.scan_all", f"{module}.scan_cluster"],
        "readings": [
            f"{module}.{name}"
            for name in ("ingest_all", "ingest_readings", "keep_history", "scrape_all", "scrape_exporters")
        ],
    }
    assert json.loads(out.splitlines()[-1]) == expected[queue]


def test_the_web_server_and_beat_load_no_task():
    code = (
        "import sys, dashboard.celery as c; c.app.finalize()\n"
        "print([m for m in sys.modules if m.startswith(('fleet.tasks.', 'fleet.adapters.', 'kubernetes'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def first_notice(redis_url: str) -> dict:
    """What a web process hears next."""

    async def hear() -> dict:
        layer = RedisPubSubChannelLayer(hosts=[redis_url], prefix="vigie")
        channel = await layer.new_channel()
        await layer.group_add(live.GROUP, channel)
        try:
            return await asyncio.wait_for(layer.receive(channel), 10)
        finally:
            await layer.flush()

    return asyncio.run(hear())


def test_a_deployment_watches_over_redis(clusters, settings, redis_url, tmp_path):
    """A worker and beat as processes of their own; the worker is killed, and its next one goes on."""
    home = tmp_path / "home"
    env = os.environ | {
        "REDIS_URL": redis_url,
        "VIGIE_KUBECONFIG": settings.VIGIE_KUBECONFIG,
        "VIGIE_HOME": str(home),
    }
    env |= {"VIGIE_CONTEXTS": "", "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    run = [sys.executable, "-m", "celery", "-A", "dashboard.celery"]
    worker = [*run, "worker", "-Q", "watch", "-P", "threads", "-n", "watch@%h"]
    picture = RedisPicture(redis_url, lambda _: None)

    def start(argv: list[str]) -> subprocess.Popen:
        log = (tmp_path / f"{argv[5]}.log").open("ab")
        return subprocess.Popen(argv, cwd=ROOT, env=env, stdout=log, stderr=log)

    first, beat = start(worker), start([*run, "beat"])
    second = None
    try:
        wait_for(lambda: picture.read("lab") and picture.read("paris"), START_S)
        assert {first_notice(redis_url)["cluster"] for _ in range(4)} <= {"lab", "paris"}
        version = picture.read("lab").version
        first.kill()
        first.wait()
        second = start(worker)
        wait_for(lambda: picture.read("lab").version.epoch > version.epoch, 15 + START_S)
        assert beat.poll() is None
        assert list(home.glob("beat-schedule*"))
        assert picture._redis.exists("vigie:broker:_kombu.binding.watch")
        began = time.monotonic()
        second.terminate()
        assert second.wait(10) == 0
        assert time.monotonic() - began < 5.0
        beat.terminate()
        assert beat.wait(10) == 0
    finally:
        for process in filter(None, (first, beat, second)):
            process.kill()
            process.wait()
