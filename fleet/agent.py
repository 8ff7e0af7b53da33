"""The Celery worker of a GPU node: reads its GPUs and its kernel log, and posts each reading to Vigie's door. Without Django.

Owns the agent's settings, what goes into a reading, which faults wait until Vigie took them, and the worker. Must not judge a
GPU, and reaches nothing but the driver, the kernel log, the kubelet's socket and the door.

    python -m fleet.agent            read every 5 s and post, until SIGTERM
    python -m fleet.agent --once     print what this machine's GPUs say, and end
"""

import argparse
import logging
import os
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from fleet.adapters.gpus_holders import Holders, PodResources
from fleet.adapters.gpus_kmsg import KernelRecords
from fleet.adapters.gpus_rounds import COMMAND, DEADLINE_S, Reader
from fleet.adapters.readings_http import Door, Verdict
from fleet.domain.gpus import Fault, Reading
from fleet.domain.kernel_log import KernelLog
from fleet.domain.report import report

log = structlog.get_logger(__name__)

EVERY_S: Final = 5.0
FAULT_PAUSE_S: Final = 1.0  # between readings that faults ask for
BURST_S: Final = 0.1  # the driver says several lines about one fault
MOST_FAULTS: Final = 500  # kept while the door does not take them
MOST_SENT: Final = 200  # of them in one reading: about half of what the door takes
ALIVE_S: Final = 60.0  # without a round for so long, the agent itself is stuck: a hung driver costs a round 2 s
FIRST_DEADLINE_S: Final = 10.0  # of --once: without persistence mode a driver wakes its GPUs first
QUIT_S: Final = 1.0

READ: Final = 0
BAD_SETTINGS: Final = 2
NO_GPU: Final = 3

EPILOG = f"""\
exit status: {READ} GPUs were read; {BAD_SETTINGS} the settings are wrong; {NO_GPU} there is no GPU that can be read (--once), or
there was no round of reading for {ALIVE_S:.0f} s (--check).

settings, from the environment:
  VIGIE_URL             where Vigie is: https://vigie.example.org (http to this machine only)
  VIGIE_NODE            name of this node in Kubernetes; else NODE_NAME (--once: else the host's name)
  VIGIE_CLUSTER         the cluster's name in Vigie, where it watches several
  VIGIE_TOKEN_FILE      service-account token for audience "vigie"   [/var/run/secrets/vigie/token]
  VIGIE_CA_FILE         certificate authority of Vigie, when the system does not know it
  VIGIE_NVML_LIBRARY    path of libnvidia-ml.so.1, when the loader does not find it
  VIGIE_PROC            the host's /proc                              [/proc]
  VIGIE_KMSG            the kernel log                                [/dev/kmsg]
  VIGIE_POD_RESOURCES   the kubelet's socket    [/var/lib/kubelet/pod-resources/kubelet.sock]
  VIGIE_HEALTH_FILE     touched after each round, for --check         [{tempfile.gettempdir()}/vigie-agent]
  VIGIE_LOG             "json" for a log that programs read           [console]
"""


class Settings(Struct, frozen=True):
    """What the environment says."""

    url: str
    node: str
    cluster: str
    token_file: Path
    ca_file: Path | None
    library: str
    proc: Path
    kmsg: Path
    pod_resources: Path
    health_file: Path


def settings(environment: Mapping[str, str]) -> Settings:
    """The settings, not yet checked: what is needed depends on what is done."""

    def path(name: str, default: str) -> Path:
        return Path(environment.get(name) or default)

    return Settings(
        url=environment.get("VIGIE_URL", ""),
        node=environment.get("VIGIE_NODE") or environment.get("NODE_NAME", ""),
        cluster=environment.get("VIGIE_CLUSTER", ""),
        token_file=path("VIGIE_TOKEN_FILE", "/var/run/secrets/vigie/token"),
        ca_file=Path(environment["VIGIE_CA_FILE"]) if environment.get("VIGIE_CA_FILE") else None,
        library=environment.get("VIGIE_NVML_LIBRARY", ""),
        proc=path("VIGIE_PROC", "/proc"),
        kmsg=path("VIGIE_KMSG", "/dev/kmsg"),
        pod_resources=path("VIGIE_POD_RESOURCES", "/var/lib/kubelet/pod-resources/kubelet.sock"),
        health_file=path("VIGIE_HEALTH_FILE", f"{tempfile.gettempdir()}/vigie-agent"),
    )


class Node:
    """The sources of one machine, put together to readings. Faults stay in it until `accepted` or `forget` lets them go."""

    def __init__(self, given: Settings, deadline_s: float = DEADLINE_S) -> None:
        self.stopping = threading.Event()
        self._name = given.node or socket.gethostname()
        self._proc = given.proc
        self._reader = Reader([*COMMAND, *filter(None, [given.library])], deadline_s=deadline_s)
        self._holders = Holders(given.proc, PodResources(given.pod_resources))
        self._records = KernelRecords(given.kmsg)
        self._log = KernelLog()
        self._listening = threading.Lock()
        self._agent = uuid.uuid4().hex
        self._sequence = 0
        self._faults: list[Fault] = []
        self._lost_lines = self._lost_faults = 0
        self._log_error = ""

    def read(self) -> Reading:
        """One reading of everything; returns within the deadline, and soon when stopping."""
        found = self._reader.read(self.stopping)
        gpus = self._holders.named(found.gpus)
        self.listen()
        self._sequence += 1
        with self._listening:
            return Reading(
                node=self._name,
                boot_id=self._boot_id(),
                agent=self._agent,
                sequence=self._sequence,
                sent_at=time.time(),
                status=found.driver.status,
                error=found.driver.error,
                driver=found.driver.driver,
                cuda=found.driver.cuda,
                nvml=found.driver.nvml,
                count=found.driver.count,
                gpus=gpus,
                faults=tuple(self._faults[:MOST_SENT]),
                lost_lines=self._lost_lines,
                lost_faults=self._lost_faults,
                log_error=self._log_error,
            )

    def listen(self) -> bool:
        """Take what is new in the kernel log; whether a fault was in it."""
        with self._listening:
            stretch = self._records.read()
            faults = self._log.faults(stretch.lines)
            self._faults += faults
            excess = max(0, len(self._faults) - MOST_FAULTS)
            del self._faults[:excess]
            self._lost_faults += excess
            self._lost_lines += stretch.lost
            self._log_error = stretch.error
        return bool(faults)

    def wait_for_lines(self, timeout_s: float) -> None:
        """Until the kernel says something, or the time is up."""
        try:
            self._records.wait(timeout_s)
        except OSError:
            self.stopping.wait(timeout_s)

    def accepted(self, reading: Reading) -> None:
        """Vigie has this reading: its faults and its counts need not be said again."""
        sent = set(map(id, reading.faults))
        with self._listening:
            self._faults = [fault for fault in self._faults if id(fault) not in sent]
            self._lost_lines -= reading.lost_lines
            self._lost_faults -= reading.lost_faults

    def forget(self, reading: Reading) -> None:
        """Vigie will never take this reading: what it carried must not hold up the ones that come."""
        sent = set(map(id, reading.faults))
        with self._listening:
            kept = [fault for fault in self._faults if id(fault) not in sent]
            self._lost_faults += len(self._faults) - len(kept)
            self._faults = kept

    def close(self) -> None:
        self.stopping.set()
        self._reader.close()
        self._holders.close()

    def _boot_id(self) -> str:
        try:
            return (self._proc / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""


class Agent:
    """Readings on their way to the door. One thread at a time."""

    def __init__(self, node: Node, door: Door, health_file: Path) -> None:
        self._node, self._door, self._health_file = node, door, health_file
        self._encode = msgspec.json.Encoder().encode
        self._quiet_until = 0.0  # monotonic
        self._said = ""  # the last trouble, said once

    def round(self) -> None:
        """Read and post. A reading that the door does not take is replaced by the next one."""
        reading = self._node.read()
        self._health_file.touch()
        if time.monotonic() < self._quiet_until or self._node.stopping.is_set():
            return
        answer = self._door.post(self._encode(reading))
        if answer.verdict is Verdict.ACCEPTED:
            self._node.accepted(reading)
        elif answer.verdict is Verdict.BROKEN:
            self._node.forget(reading)
        self._quiet_until = time.monotonic() + answer.pause_s
        self._say(answer.verdict, answer.words)

    def _say(self, verdict: Verdict, words: str) -> None:
        """Each change of outcome once, not every 5 s."""
        if (said := f"{verdict} {words}") != self._said:
            accepted = verdict is Verdict.ACCEPTED
            (log.info if accepted else log.warning)("reading", verdict=str(verdict), words=words)
        self._said = said


class Worker:
    """Celery's worker and beat on an in-process broker: nothing central queues work on this node."""

    def __init__(self, agent: Agent, node: Node) -> None:
        # kombu loads Django for its lazy texts wherever it is installed.
        sys.modules.setdefault("django", None)  # type: ignore[arg-type]
        from celery import Celery, beat
        from celery.worker import WorkController

        self._node = node
        # The fixups would load Django where its settings are named in the environment.
        self._app = Celery("vigie-agent", fixups=[], set_as_current=False)
        self._app.conf.update(
            broker_url="memory://localhost/",
            broker_transport_options={"polling_interval": BURST_S},
            task_ignore_result=True,
            worker_hijack_root_logger=False,
            worker_redirect_stdouts=False,
            beat_schedule={"read": {"task": "read_gpus", "schedule": EVERY_S, "options": {"expires": EVERY_S}}},
        )

        @self._app.task(name="read_gpus")  # type: ignore[untyped-decorator]
        def read_gpus() -> None:
            agent.round()

        self._read_gpus = read_gpus
        # One task at a time, on the worker's own thread: never two readings at once.
        self._worker = WorkController(
            app=self._app, pool="solo", without_gossip=True, without_mingle=True, without_heartbeat=True
        )
        self._beat = beat.Service(self._app, max_interval=EVERY_S, scheduler_cls=beat.Scheduler)

    def run(self) -> None:
        """Until `node.stopping` is set."""
        bodies = (self._worker.start, self._beat.start, self._listen)
        threads = [threading.Thread(target=body, daemon=True) for body in bodies]
        for thread in threads:
            thread.start()
        self._ask()
        self._node.stopping.wait()
        self._beat.stop()
        self._worker.stop()
        for thread in threads:
            thread.join(QUIT_S / len(threads))  # they are daemons: what waits for a network ends with the process

    def _ask(self) -> None:
        self._read_gpus.apply_async(expires=EVERY_S)

    def _listen(self) -> None:
        """A fault does not wait for the next beat."""
        while not self._node.stopping.is_set():
            self._node.wait_for_lines(FAULT_PAUSE_S)
            self._node.stopping.wait(BURST_S)
            if self._node.listen():
                self._ask()
                self._node.stopping.wait(FAULT_PAUSE_S)


def once(given: Settings, *, as_json: bool) -> int:
    node = Node(given, FIRST_DEADLINE_S)
    try:
        reading = node.read()
    finally:
        node.close()
    print(msgspec.json.encode(reading).decode() if as_json else report(reading))  # noqa: T201
    return READ if reading.gpus else NO_GPU


def check(given: Settings) -> int:
    """For a liveness probe: whether the agent goes round. Nothing of the driver or of Vigie makes it fail."""
    try:
        age_s = time.time() - given.health_file.stat().st_mtime
    except OSError:
        return NO_GPU
    return READ if age_s < ALIVE_S else NO_GPU


def serve(given: Settings) -> int:
    """The worker, until SIGTERM or SIGINT. Raises ValueError for settings that cannot work."""
    import signal

    if not given.url:
        raise ValueError("VIGIE_URL is not set; it is where Vigie is, such as https://vigie.example.org")
    if not given.node:
        raise ValueError("VIGIE_NODE is not set; it is the name of this node in Kubernetes")
    try:
        given.health_file.touch()
    except OSError as error:
        raise ValueError(f"VIGIE_HEALTH_FILE {given.health_file} cannot be written: {error.strerror}") from None
    door = Door(given.url, given.token_file, given.cluster, given.ca_file)
    node = Node(given)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.stopping.set())
    try:
        Worker(Agent(node, door, given.health_file), node).run()
    finally:
        node.close()
    return READ


def configure_log() -> None:
    """To standard error, Celery's own words too from warnings on."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    processors: list[Any] = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso")]
    plain = os.environ.get("VIGIE_LOG", "console") == "console"
    last = structlog.dev.ConsoleRenderer(colors=False) if plain else structlog.processors.JSONRenderer()
    structlog.configure([*processors, last], logger_factory=structlog.PrintLoggerFactory(sys.stderr))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fleet.agent",
        description="Reads this node's GPUs and posts them to Vigie.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--once", action="store_true", help="print a report of this machine's GPUs, or why there is none"
    )
    modes.add_argument(
        "--check", action="store_true", help="for a liveness probe: whether the running agent goes round"
    )
    parser.add_argument("--json", action="store_true", help="with --once: the reading, for programs")
    options = parser.parse_args(arguments)
    if options.json and not options.once:
        parser.error("--json goes with --once")
    configure_log()
    given = settings(os.environ)
    try:
        if options.check:
            return check(given)
        return once(given, as_json=options.json) if options.once else serve(given)
    except ValueError as error:
        print(f"vigie-agent: {error}", file=sys.stderr)  # noqa: T201
        return BAD_SETTINGS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
