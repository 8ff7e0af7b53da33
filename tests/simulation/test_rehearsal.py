"""The rehearsal over HTTP: the official client on it, and the command from the outside."""

import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config, watch

from fleet.simulation.clock import ManualClock
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.fleet.clusters import wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    with serving(Rehearsal(pace=0)) as served:
        yield served


@pytest.fixture(scope="module")
def core(running: Serving) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(running.kubeconfig), context="rehearsal"))


def test_the_official_client_sees_the_fleet(core: client.CoreV1Api) -> None:
    nodes = core.list_node().items
    assert len(nodes) == 24
    assert sum(int(n.status.capacity["nvidia.com/gpu"]) for n in nodes) == 192
    assert len(core.list_pod_for_all_namespaces(limit=500).items) > 190


def test_a_cordon_shows_on_a_watch_as_two_changes(core: client.CoreV1Api) -> None:
    version = core.list_node(limit=1).metadata.resource_version
    core.patch_node("node-02", {"spec": {"unschedulable": True}})
    told = []
    stream = watch.Watch()
    selected = {"field_selector": "metadata.name=node-02", "resource_version": version, "timeout_seconds": 20}
    for event in stream.stream(core.list_node, **selected):
        spec = event["object"].spec
        told.append((bool(spec.unschedulable), bool(spec.taints)))
        if len(told) == 2:
            stream.stop()
    assert told == [(True, False), (True, True)]
    core.patch_node("node-02", {"spec": {"unschedulable": None}})


def test_the_kubeconfig_is_for_its_owner_only_and_names_the_cluster(running: Serving) -> None:
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    document = yaml.safe_load(running.kubeconfig.read_text())
    assert [c["name"] for c in document["contexts"]] == ["rehearsal"]
    assert document["clusters"][0]["name"] == "rehearsal"
    assert document["clusters"][0]["cluster"]["server"] == running.url
    assert running.url.startswith("https://127.0.0.1:")


def test_a_served_rehearsal_can_live_on_a_manual_clock() -> None:
    clock = ManualClock()
    with serving(Rehearsal(clock=clock, nodes=5, pace=0)) as served:
        before = served.call(lambda: served.rehearsal.store.get("leases", "kube-node-lease", "node-01"))
        served.run(clock.advance(30.0))
        after = served.call(lambda: served.rehearsal.store.get("leases", "kube-node-lease", "node-01"))
    assert before["spec"]["renewTime"] < after["spec"]["renewTime"]


def test_a_taken_port_is_an_error_of_the_caller(running: Serving) -> None:
    port = int(running.url.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"), serving(Rehearsal(nodes=1), port=port):
        pass


def start(home: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "rehearsal", "--home", str(home), *more],
        cwd=ROOT,
        env={**os.environ, "VIGIE_HOME": str(ROOT / ".vigie" / "test")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path, number: int) -> None:
    process = start(tmp_path / "home", "--nodes", "6", "--story", "blue-green")
    try:
        line = first_line(process)
        assert line.startswith("ready https://127.0.0.1:"), process.stderr
        api = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "home" / "kubeconfig")))
        told: queue.Queue[str] = queue.Queue()

        def follow() -> None:
            for event in watch.Watch().stream(api.list_node, timeout_seconds=60, _request_timeout=70):
                told.put(event["type"])
            told.put("end")

        threading.Thread(target=follow, daemon=True).start()
        assert [told.get(timeout=20) for _ in range(6)] == ["ADDED"] * 6
        wait_for(lambda: any(one.metadata.name == "search" for one in api.list_namespaced_service("serving").items), 20)
        asked = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - asked < 4.0  # 2 s of its own, and room for a busy machine
        last = told.get(timeout=10)
        while last != "end":
            last = told.get(timeout=10)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()


@pytest.mark.parametrize("trouble", ["port", "home", "nodes", "story"])
def test_the_command_refuses_in_one_line(tmp_path: Path, trouble: str) -> None:
    (tmp_path / "file").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = {
            "port": (tmp_path, "--port", str(taken.getsockname()[1])),
            "home": (tmp_path / "file" / "home",),
            "nodes": (tmp_path, "--nodes", "0"),
            "story": (tmp_path, "--story", "nobody"),
        }
        process = start(*options[trouble])
        out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    said = {
        "port": "Address already in use",
        "home": "cannot write in",
        "nodes": "--nodes",
        "story": "no scenario 'nobody'",
    }
    assert said[trouble] in err
