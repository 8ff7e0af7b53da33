"""The whole agent: a fake driver, a kernel log, a kubelet and a door around it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from fleet import agent
from fleet.adapters.readings_http import Door
from fleet.agent import BAD_SETTINGS, MOST_FAULTS, MOST_SENT, NO_GPU, READ, Agent, Node
from fleet.domain.gpus import Answer, DriverStatus, FaultKind, Holder, Reading
from tests.fleet.agent import door as doors
from tests.fleet.agent.kubelet import Kubelet
from tests.fleet.agent.kubelet import served as kubelet_served

ROOT = Path(__file__).resolve().parents[3]
UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
XID = "NVRM: Xid (PCI:0000:1b:00): {code}, pid=7, name=python3, Ch {channel}"


@pytest.fixture
def door():
    with doors.served() as served:
        yield served


class Machine:
    """A GPU node in a folder."""

    def __init__(self, folder, driver, library, url):
        self.driver, self.proc, self.kmsg = driver, folder / "proc", folder / "kmsg"
        for pid, name in ((2, "kthreadd"), (7, "python3")):
            (self.proc / str(pid)).mkdir(parents=True)
            (self.proc / str(pid) / "comm").write_text(name + "\n")
        (self.proc / "7" / "cgroup").write_text(f"0::/kubepods/burstable/pod{UID}/{'c' * 64}\n")
        (self.proc / "sys/kernel/random").mkdir(parents=True)
        (self.proc / "sys/kernel/random/boot_id").write_text("boot-1\n")
        os.mkfifo(self.kmsg)
        self._log = os.open(self.kmsg, os.O_RDWR)
        (folder / "token").write_text("token")
        self.variables = {
            "VIGIE_URL": url,
            "VIGIE_NODE": "gpu-07",
            "VIGIE_TOKEN_FILE": str(folder / "token"),
            "VIGIE_NVML_LIBRARY": str(library),
            "VIGIE_PROC": str(self.proc),
            "VIGIE_KMSG": str(self.kmsg),
            "VIGIE_POD_RESOURCES": str(folder / "kubelet.sock"),
            "VIGIE_HEALTH_FILE": str(folder / "alive"),
        }
        self._sequence = 0

    def environment(self):
        inherited = {name: value for name, value in self.driver.environment().items() if not name.startswith("VIGIE_")}
        return {name: value for name, value in inherited.items() if name != "NODE_NAME"} | self.variables

    def says(self, *texts):
        for text in texts:
            self._sequence += 1
            os.write(self._log, f"4,{self._sequence},{1_000_000},-;{text}\n".encode())

    def skips(self, lines):
        """So many were overwritten before anybody read them."""
        self._sequence += lines

    def faults(self, count, code=13):
        self.says(*(XID.format(code=code, channel=f"{number:08x}") for number in range(count)))

    def run(self, *words, **variables):
        environment = self.environment() | variables
        command = [sys.executable, "-m", "fleet.agent", *words]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def close(self):
        os.close(self._log)


@pytest.fixture
def machine(tmp_path, driver, libraries, door):
    made = Machine(tmp_path, driver, libraries.without(), door.url)
    yield made
    made.close()


@pytest.fixture
def node(machine, monkeypatch):
    """The sources in this process; the reading process inherits where the fake driver's answers are."""
    monkeypatch.setenv("NVML_FAKE", str(machine.driver.file))
    made = Node(agent.settings(machine.variables), deadline_s=60)
    yield made
    made.close()


@pytest.fixture
def posting(node, machine, door):
    given = agent.settings(machine.variables)
    return Agent(node, Door(door.url, given.token_file), given.health_file)


def codes(reading):
    return [fault["code"] for fault in reading.get("faults", ())]


# What a reading is


def test_a_reading_joins_driver_log_kubelet_and_processes(machine, node, tmp_path):
    machine.driver.change(3, processes=[{"pid": 7, "used": 1024}])
    machine.says("NVRM: Xid (PCI:0000:33:00): 79, GPU has fallen off the bus.")
    kubelet = Kubelet()
    uuid = machine.driver.gpus[3]["uuid"]
    kubelet.pods = [("llm", "chat-0", "server", "nvidia.com/gpu", [uuid])]
    with kubelet_served(kubelet, tmp_path / "kubelet.sock"):
        before = time.time()
        reading = node.read()
        assert before <= reading.sent_at <= time.time()
    assert (reading.node, reading.boot_id, reading.sequence, reading.source) == ("gpu-07", "boot-1", 1, "nvml")
    assert (reading.status, reading.driver, reading.cuda, reading.count) == (DriverStatus.OK, "550.144.03", "12.4", 8)
    gpu = reading.gpus[3]
    assert gpu.assigned == (Holder("llm", "chat-0", "server"),)
    assert (gpu.processes[0].pid, gpu.processes[0].holder) == (7, Holder(pod_uid=UID))
    (fault,) = reading.faults
    assert (fault.kind, fault.code, fault.pci, fault.sequence) == (FaultKind.XID, 79, "0000:33:00.0", 1)
    assert (reading.lost_lines, reading.lost_faults, reading.log_error) == (0, 0, "")
    assert msgspec.json.decode(msgspec.json.encode(reading), type=Reading) == reading


def test_sequences_grow_and_every_start_is_another_agent(machine, node):
    first, second = node.read(), node.read()
    assert (first.sequence, second.sequence, first.agent) == (1, 2, second.agent)
    other = Node(agent.settings(machine.variables))
    assert other.read().agent != first.agent
    other.close()


def test_a_log_that_cannot_be_read_is_said(machine):
    given = agent.settings(machine.variables | {"VIGIE_KMSG": "/nowhere/kmsg"})
    node = Node(given)
    assert node.read().log_error == "/nowhere/kmsg: No such file or directory"
    node.wait_for_lines(0)  # does not raise
    node.close()


def test_a_sentence_in_two_readings_is_one_fault(machine, node):
    machine.says("NVRM: The NVIDIA GPU 0000:18:00.0")
    assert node.read().faults == ()
    machine.says(
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert [fault.kind for fault in node.read().faults] == [FaultKind.OFF_BUS]


# On its way


def test_faults_are_said_until_the_door_took_them(machine, posting, door):
    door.answers = [(401, {}, b""), (500, {}, b""), (202, {}, b"")]
    machine.faults(1, code=79)
    for _ in range(4):
        posting.round()
    assert [codes(reading) for reading in door.readings] == [[79], [79], [79], []]
    assert [reading["sequence"] for reading in door.readings] == [1, 2, 3, 4]


def test_a_fault_that_comes_while_a_reading_is_on_its_way_is_in_the_next(machine, node):
    machine.faults(1, code=79)
    reading = node.read()
    machine.faults(1, code=48)
    node.listen()
    node.accepted(reading)
    assert [fault.code for fault in node.read().faults] == [48]


def test_a_full_door_is_left_alone_for_as_long_as_it_says(machine, posting, door):
    door.answers = [(503, {"Retry-After": "200"}, b"")]
    machine.faults(1)
    for _ in range(3):
        posting.round()
    assert len(door.readings) == 1


def test_a_reading_that_the_door_cannot_use_takes_its_faults_with_it(machine, posting, door):
    """Else one fault that it does not understand would keep every reading from it."""
    door.answers = [(400, {}, b"")]
    machine.faults(3)
    for _ in range(3):
        posting.round()
    assert [len(codes(reading)) for reading in door.readings] == [3, 0, 0]
    assert [reading.get("lost_faults", 0) for reading in door.readings] == [0, 3, 0]


def test_a_reading_that_came_twice_is_there_and_its_faults_are_not_sent_for_ever(machine, posting, door):
    """A proxy sends again what it had no answer for in time; the door takes the first and says 409 to the second."""
    door.answers = [(409, {}, b"accepted before")]
    machine.faults(2)
    for _ in range(2):
        posting.round()
    assert [len(codes(reading)) for reading in door.readings] == [2, 0]
    assert [reading.get("lost_faults", 0) for reading in door.readings] == [0, 0], "nothing was lost"


def test_only_so_many_faults_wait_and_the_oldest_go_first(machine, node):
    texts = [f"NVRM: Xid (PCI:0000:1b:00): {code}, pid={code}, name=x, text" for code in range(1, MOST_FAULTS + 21)]
    machine.says(*texts)
    reading = node.read()
    assert len(reading.faults) == MOST_SENT
    assert (reading.faults[0].code, reading.lost_faults) == (21, 20)
    node.accepted(reading)
    rest = node.read()
    assert (rest.faults[0].code, rest.lost_faults) == (21 + MOST_SENT, 0)
    assert len(msgspec.json.encode(reading)) < 256 * 1024


def test_lost_lines_are_said_until_the_door_took_them(machine, posting, door):
    machine.says("x")
    posting.round()
    machine.skips(5)
    machine.says("y")
    door.answers = [(500, {}, b"")]
    for _ in range(3):
        posting.round()
    assert [reading.get("lost_lines", 0) for reading in door.readings] == [0, 5, 5, 0]


# The program


def test_once_for_people(machine):
    machine.driver.change(2, handle={"error": 15})
    machine.says("NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.")
    done = machine.run("--once")
    assert (done.returncode, done.stderr) == (READ, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "gpu-07 · driver 550.144.03 · CUDA 12.4 · NVML 12.550.144.03 · boot boot-1"
    cells = [
        "0",
        "GPU-00000000-6d3c-22ed-0ec8-d3b864870b8b",
        "0000:1b:00.0",
        "NVIDIA H100 80GB HBM3",
        "0 %",
        "5/81559 MiB",
        "31 °C",
        "71/700 W",
        "0/0",
        "0+0",
        "18/18",
        "ok",
    ]
    assert re.split(r"  +", lines[2]) == cells
    assert lines[4].endswith("lost: GPU is lost (15)")
    assert "xid 79" in lines[-1]
    assert "fallen off the bus" in lines[-1]


def test_once_for_programs(machine):
    done = machine.run("--once", "--json")
    reading = msgspec.json.decode(done.stdout, type=Reading)
    assert (done.returncode, len(reading.gpus), reading.gpus[0].answer) == (READ, 8, Answer.OK)


@pytest.mark.parametrize(
    ("code", "words"),
    [(9, "driver is not loaded"), (18, "different versions"), (4, "no permission"), (999, "answers with an error")],
)
def test_once_says_why_there_is_no_gpu(machine, code, words):
    machine.driver.answers["init"] = {"error": code}
    machine.driver.write()
    done = machine.run("--once")
    assert done.returncode == NO_GPU
    assert words in done.stdout
    assert f"({code})" in done.stdout


def test_once_without_a_library(machine):
    done = machine.run("--once", VIGIE_NVML_LIBRARY="/nowhere/libnvidia-ml.so.1")
    assert done.returncode == NO_GPU
    assert "libnvidia-ml.so.1 is not on this machine" in done.stdout


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"VIGIE_URL": ""}, "VIGIE_URL is not set"),
        ({"VIGIE_URL": "http://vigie.example.org"}, "use https"),
        ({"VIGIE_NODE": ""}, "VIGIE_NODE is not set"),
        (
            {"VIGIE_URL": "https://vigie.example.org", "VIGIE_CA_FILE": "/nowhere/ca.pem"},
            "cannot read certificates from /nowhere/ca.pem",
        ),
        ({"VIGIE_HEALTH_FILE": "/nowhere/alive"}, "VIGIE_HEALTH_FILE /nowhere/alive cannot be written"),
    ],
)
def test_wrong_settings_are_one_line(machine, variables, words):
    done = machine.run(**variables)
    assert done.returncode == BAD_SETTINGS
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_health_check_fails_only_when_the_agent_stands_still(machine):
    assert machine.run("--check").returncode == NO_GPU
    alive = Path(machine.variables["VIGIE_HEALTH_FILE"])
    alive.touch()
    assert machine.run("--check").returncode == READ
    os.utime(alive, (0, 0))
    assert machine.run("--check").returncode == NO_GPU


def test_the_worker_posts_and_a_fault_does_not_wait_for_the_next_beat(machine, door):
    running = subprocess.Popen(
        [sys.executable, "-m", "fleet.agent"], cwd=ROOT, env=machine.environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        first = door.wait_for(lambda reading: reading["sequence"])
        assert len(first["gpus"]) == 8
        machine.faults(1, code=79)
        assert codes(door.wait_for(codes)) == [79]
        door.wait_for(lambda reading: reading["sequence"] > 2)  # by the beat
        assert machine.run("--check").returncode == READ
    finally:
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
    assert running.returncode == READ
    assert [line for line in said.splitlines() if "accepted" not in line] == []


def test_the_worker_goes_round_while_the_driver_hangs_and_the_door_is_shut(machine, door):
    machine.driver.answers["init"] = {"hang": True}
    machine.driver.write()
    door.answers = [(500, {}, b"")] * 100
    running = subprocess.Popen(
        [sys.executable, "-m", "fleet.agent"], cwd=ROOT, env=machine.environment(), stderr=subprocess.DEVNULL
    )
    try:
        hung = door.wait_for(lambda reading: reading["sequence"] > 1)
        assert (hung["status"], hung.get("gpus", [])) == ("hung", [])
        assert machine.run("--check").returncode == READ
    finally:
        running.terminate()
        assert running.wait(60) == READ


@pytest.mark.parametrize("settings_module", ["", "dashboard.settings"])
def test_the_agent_loads_no_django(settings_module):
    """In a fresh interpreter, worker and beat included, also where the environment names Django's settings."""
    code = (
        "import sys, threading\n"
        "from fleet import agent\n"
        "class Node:\n"
        "    stopping = threading.Event()\n"
        "    def wait_for_lines(self, timeout_s): self.stopping.wait(timeout_s)\n"
        "    def listen(self): return False\n"
        "class Agent:\n"
        "    def round(self): Node.stopping.set()\n"
        "agent.Worker(Agent(), Node()).run()\n"
        "print(sorted(name for name, module in sys.modules.items() if module and name.split('.')[0] in "
        "{'django', 'channels', 'redis', 'kubernetes', 'pynvml', 'dashboard'}))"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": settings_module}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
