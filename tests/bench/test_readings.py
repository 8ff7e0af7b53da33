"""What readings cost where they arrive: the door and the readings worker with a thousand nodes that report every five seconds.

Real processes: uvicorn, Redis, a Celery worker of queue `readings`. Prints shares of one core, and the bytes of a minute's row.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.domain import spans
from fleet.domain.gpu_rows import row
from fleet.domain.verdicts import GpuHealth
from fleet.live.gpus_redis import RedisGpus
from tests.backends import free_port, redis_server
from tests.fleet import readings
from tests.fleet.clusters import wait_for

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "bench"
NODES = [f"node-{i:04d}" for i in range(1_000)]
EVERY_S = 5.0
MEASURED_S = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


def say(what, value, note=""):
    print(f"\n  {what:<58} {value:>10}  {note}", end="")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.fixture
def site(tmp_path):
    """(port of the door, pids by name, the store)"""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: []\n"
        f"contexts: [{{name: {CLUSTER}, context: {{cluster: x, user: ''}}}}]\n"
    )
    tokens = readings.fixed_tokens(tmp_path / "tokens", CLUSTER, NODES)
    port, processes = free_port(), []
    with redis_server() as url, contextlib.ExitStack() as stack:
        env = {
            **os.environ,
            "REDIS_URL": url,
            "VIGIE_HOME": str(tmp_path / "home"),
            "VIGIE_KUBECONFIG": str(kubeconfig),
            "VIGIE_READING_TOKENS": str(tokens),
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        }
        env.pop("DATABASE_URL", None)
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
        web = ["uvicorn", "dashboard.asgi:application", "--port", str(port), "--no-access-log", "--no-server-header"]
        worker = ["celery", "-A", "dashboard.celery", "worker", "-Q", "readings", "-P", "threads", "-n", "readings@%h"]
        for name, argv in (("door", web), ("worker", [*worker, "--without-gossip", "--without-mingle"])):
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            processes.append(subprocess.Popen([sys.executable, "-m", *argv], cwd=ROOT, env=env, stdout=log, stderr=log))
        try:
            store = RedisGpus(url)
            wait_for(lambda: store.worker(CLUSTER) is not None, 60)
            yield port, {"door": processes[0].pid, "worker": processes[1].pid}, store
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(20)


async def post_all(port: int, rounds: int, begun: int = 0) -> tuple[list[float], int]:
    """Every node once per round, evenly spread; (seconds of each answer, how many were not 202)."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    turns = asyncio.Queue()
    for connection in connections:
        turns.put_nowait(connection)
    took, bad, tasks = [], [], set()
    loop, began = asyncio.get_running_loop(), time.perf_counter()

    async def post(node: str, body: bytes) -> None:
        reader, writer = await turns.get()
        sent = time.perf_counter()
        head = (
            f"POST /api/v1/readings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {readings.token(node)}\r\n"
            f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        took.append(time.perf_counter() - sent)
        if b" 202 " not in answer:
            bad.append(answer)
        turns.put_nowait((reader, writer))

    for n in range(rounds * len(NODES)):
        due = began + n * EVERY_S / len(NODES)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        node, sequence = NODES[n % len(NODES)], begun + n // len(NODES) + 1
        changed = [readings.gpu(node, i, utilization_pct=(sequence * 7 + i * 13) % 101) for i in range(8)]
        body = readings.body(readings.reading(node, sequence, time.time(), gpus=tuple(changed)))
        task = loop.create_task(post(node, body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for _, writer in connections:
        writer.close()
    if bad:
        print(bad[0])
    return took, len(bad)


def test_a_thousand_nodes_every_five_seconds(site):
    port, pids, store = site
    asyncio.run(post_all(port, 1))  # first readings: every node is new, and restored from the ledger
    wait_for(lambda: store.waiting(CLUSTER) == 0, 200)
    time.sleep(2)
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    told, began = store.worker(CLUSTER), time.monotonic()
    took, bad = asyncio.run(post_all(port, int(MEASURED_S / EVERY_S), begun=1))
    wait_for(lambda: store.waiting(CLUSTER) == 0, 200)
    time.sleep(1.5)  # the worker says how it is once a second
    elapsed, worker = time.monotonic() - began, store.worker(CLUSTER)
    count = worker.readings - told.readings
    # Of a core at the promised rate, whatever rate this machine could keep up beside its other work.
    shares = {name: (cpu_s(pid) - before[name]) / count * len(NODES) / EVERY_S for name, pid in pids.items()}
    took.sort()
    assert bad == 0
    assert count == len(NODES) * int(MEASURED_S / EVERY_S)
    say(
        "readings a second, here",
        f"{count / elapsed:.0f}",
        f"{len(readings.body(readings.reading()))} bytes each, packed",
    )
    say(
        "door: share of a core at 200 a second",
        f"{shares['door']:.0%}",
        f"answer: median {took[len(took) // 2] * 1e3:.1f} ms",
    )
    say(
        "worker: share of a core at 200 a second",
        f"{shares['worker']:.0%}",
        f"assessing alone: {(worker.spent_s - told.spent_s) / count * 1e6:.0f} µs each",
    )
    say(
        "slowest hundredth of the answers",
        f"{took[int(len(took) * 0.99)] * 1e3:.0f} ms",
        f"lag of the worker {worker.lag_s:.2f} s",
    )
    assert shares["door"] + shares["worker"] < 1.0
    assert shares["worker"] < 0.5


@pytest.mark.django_db
def test_the_bytes_of_a_minute(settings):
    """As the database counts them, index and all."""
    from django.db import connection

    from fleet import history

    found = readings.reading()
    rows = {
        gpu.uuid: row("n", gpu.uuid, GpuHealth(gpu=gpu, seen_at=1.0, since_at=1.0, read_at=1.0)) for gpu in found.gpus
    }
    gathering = spans.Gathering(0)
    gathering.add(rows)
    samples = gathering.samples()
    count = 20_000
    for first in range(0, count, 1000):
        history.record_minutes(
            "bench", [(f"n-{i % 100}", 30_000_000 + (first + i) // 100, samples) for i in range(1000)]
        )
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size('vigie_gpu_minute')")
        else:
            cursor.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%vigie_gpu_minute%'")
        size = cursor.fetchone()[0]
    each = size / count
    say(
        f"bytes of a row per node and minute ({connection.vendor})",
        f"{each:.0f}",
        f"8,000 GPUs: {each * 1_440_000 / 1e9:.2f} GB a day",
    )
