"""What the agent costs a GPU node: CPU of a reading of 8 GPUs, the reading process and the agent together."""

import os
import resource
import threading

import msgspec
import pytest

from fleet import agent
from fleet.adapters.gpus_rounds import COMMAND, Reader
from tests.bench.test_read_path import say
from tests.nvml.driver import Driver, libraries  # noqa: F401 - a fixture

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

ROUNDS = 100
TIMES = 6  # the best of: a busy machine makes everything dearer
LIMIT_MS = 5.0
NEVER = threading.Event()


def cpu_s(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def children_s(command, environment, rounds):
    """CPU of the reading processes of so many rounds, their start included."""
    before = cpu_s(resource.RUSAGE_CHILDREN)
    reader = Reader(command, environment, deadline_s=60)
    for _ in range(rounds):
        assert len(reader.read(NEVER).gpus) == 8
    reader.close()
    os.waitpid(-1, 0)  # its CPU counts from then on
    return cpu_s(resource.RUSAGE_CHILDREN) - before


def own_s(node):
    """CPU of this process for so many readings, encoded."""
    before = cpu_s(resource.RUSAGE_SELF)
    for _ in range(ROUNDS):
        msgspec.json.encode(node.read())
    return cpu_s(resource.RUSAGE_SELF) - before


def test_a_reading_of_eight_gpus(libraries, tmp_path, monkeypatch):  # noqa: F811
    driver = Driver(tmp_path)
    for gpu in driver.gpus:
        gpu["processes"] = [{"pid": 1, "used": 2**30}]
    driver.write()
    library = str(libraries.without())
    command = (*COMMAND, library)
    start_s = min(children_s(command, driver.environment(), 1) for _ in range(TIMES))
    all_s = min(children_s(command, driver.environment(), ROUNDS + 1) for _ in range(TIMES))
    process_ms = (all_s - start_s) / ROUNDS * 1000

    monkeypatch.setenv("NVML_FAKE", str(driver.file))
    variables = {"VIGIE_NODE": "n", "VIGIE_NVML_LIBRARY": library, "VIGIE_KMSG": str(tmp_path / "none")}
    node = agent.Node(agent.settings(variables), deadline_s=60)
    encoded = msgspec.json.encode(node.read())
    agent_ms = min(own_s(node) for _ in range(TIMES)) / ROUNDS * 1000
    node.close()

    say("reading process, 8 GPUs with 18 links and a process each", f"{process_ms:.2f} ms", "CPU")
    say("agent: joining, holders, encoding", f"{agent_ms:.2f} ms", f"CPU; {len(encoded)} bytes of JSON")
    say(
        "together",
        f"{process_ms + agent_ms:.2f} ms",
        f"limit {LIMIT_MS:g} ms; a start of the process {start_s * 1000:.0f} ms",
    )
    assert process_ms + agent_ms < LIMIT_MS
