"""Rounds of reading with a deadline: what the driver says in time, and which GPUs it does not speak of.

Owns the reading processes. One of them reads all GPUs; a GPU that does not answer keeps its process waiting, and the others move
to a new one. A waiting process is left alone for a while, since the driver suffers from being interrupted, then killed and
replaced once; how many there may be is bounded, because a process inside the driver can survive even SIGKILL. Must not know NVML.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

import msgspec
from msgspec import Struct

from fleet.adapters.gpus_pipe import Ask, Driver, Measured, Message, Met, framed, messages
from fleet.domain.gpus import Answer, DriverStatus, Gpu
from fleet.ports import Stopping

DEADLINE_S: Final = 2.0  # of a round
PATIENCE_S: Final = 60.0  # until a process that waits is replaced
RETRY_S: Final = 15.0  # until a driver that refused is asked again
MOST_WAITING: Final = 4  # processes that wait for a GPU, or that SIGKILL did not end
GOOD_ROUNDS: Final = 12  # until a GPU that had not answered is read with the others again
MOST_BYTES: Final = 1 << 18  # taken from a pipe at once
USUAL_S: Final = 0.01  # a round takes that long: to wake up once costs less than to wake up for each GPU
LOOK_S: Final = 0.2  # how soon a round sees that the agent stops
ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = (sys.executable, "-m", "fleet.adapters.gpus_process")


class Round(Struct, frozen=True):
    """What came of one round. GPUs that did not answer in time are in it as `Answer.HUNG`, with the identity that they had."""

    driver: Driver
    gpus: tuple[Gpu, ...] = ()


class Process:
    """One reading process: what it was asked last, and how far it is."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        # A session of its own: the terminal's Ctrl-C is the agent's business.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
            bufsize=0,
            start_new_session=True,
        )
        self._in, self._out = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self.pipe = self._out.fileno()
        os.set_blocking(self.pipe, False)
        self._buffer = bytearray()
        self.busy_since: float | None = None  # monotonic, of its last word; None while it has nothing to do
        self.driver: Driver | None = None  # the head of its answer to the last ask
        self._ahead: list[int] = []  # GPUs that it has not said anything about
        self._asked = Ask()
        self.good_rounds = 0
        self.ended = False
        self.given_up = False

    def ask(self, ask: Ask, now: float) -> None:
        self._asked, self.busy_since, self.driver, self._ahead = ask, now, None, []
        try:
            self._in.write(framed(ask))
        except OSError:
            self.ended = True

    @property
    def reading(self) -> int | None:
        """Index of the GPU that it is asking now; None when it does not ask one."""
        return self._ahead[0] if self._ahead else None

    def hear(self, now: float) -> list[Measured | Met]:
        """What it has said of GPUs since. What is no message ends it: something is wrong with its memory."""
        try:
            if piece := os.read(self.pipe, MOST_BYTES):
                self._buffer += piece
            else:
                self.ended = True
        except BlockingIOError:
            return []
        if self.busy_since is not None and not self.ended:
            self.busy_since = now
        try:
            return [said for message in messages(self._buffer) if (said := self._take(message))]
        except msgspec.DecodeError:
            self._process.kill()
            self.ended = True
            return []

    def _take(self, message: Message) -> Measured | Met | None:
        if isinstance(message, Met):
            return message
        if isinstance(message, Measured):
            self._ahead = [index for index in self._ahead if index > message.gpu.index]
            return message
        if isinstance(message, Driver):
            self.driver, self._ahead = message, self._asked.indices(message.count or 0)
        else:
            self.busy_since, self.good_rounds = None, self.good_rounds + 1
        return None

    def gone(self) -> bool:
        """Whether the system has let go of it."""
        return self._process.poll() is not None

    def end(self) -> str:
        """How it ended, in words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        code = self._process.returncode
        return f"the reading process ended with {'signal' if code and code < 0 else 'status'} {abs(code or 0)}"

    def close(self) -> None:
        """Idle, it ends by itself now that nobody can ask; else it is killed, which the driver may delay for ever."""
        self.given_up = True
        if self.busy_since is not None:
            self._process.kill()
        self._in.close()
        self._out.close()


class Reader:
    """All GPUs of this machine, again and again. One thread at a time."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command, self._environment = command, environment
        self._deadline_s, self._patience_s = deadline_s, patience_s
        self._clock = clock
        self._main: Process | None = None
        self._waiting: dict[int, Process] = {}  # by the index of the GPU that each has to itself
        self._killed: list[Process] = []
        self._known: dict[int, Gpu] = {}
        self._count: int | None = None
        self._refusal: tuple[float, Driver] | None = None  # until when it stands

    def read(self, stopping: Stopping) -> Round:
        """One round; it returns within the deadline, whatever the driver does, and at once when `stopping` is set."""
        now = self._clock()
        self._tidy(now)
        if self._refusal and now < self._refusal[0]:
            return Round(self._refusal[1])
        self._main = self._main or self._another()
        if self._main is None:
            return Round(Driver(DriverStatus.HUNG, f"{len(self._killed)} reading processes do not end"))
        return self._round(self._main, now, stopping)

    def close(self) -> None:
        for process in (self._main, *self._waiting.values()):
            if process:
                process.close()
        self._main, self._waiting = None, {}

    # How a round goes

    def _round(self, first: Process, now: float, stopping: Stopping) -> Round:
        self._refusal = None
        found: dict[int, Gpu] = {}
        self._take(first, now, found)
        if first.busy_since is None:
            found.clear()  # it finished since the last round: that is old. Else it is late, and this round has its answer
        asked = self._ask_all(first, now)
        stopping.wait(USUAL_S)
        while any(p.busy_since is not None and not p.ended for p in asked) and not stopping.is_set():
            left = now + self._deadline_s - self._clock()
            if left <= 0:
                break
            self._hear(asked, min(left, LOOK_S), found)
            if first in asked and self._is_stuck(first):
                asked = [process for process in (*asked, self._move(first)) if process and process is not first]
        return self._concluded(first, found)

    def _ask_all(self, main: Process, now: float) -> list[Process]:
        """Ask everybody who has nothing to do. Whose answers this round waits for: not those that waited before it."""
        asked = [main]
        if main.busy_since is None:
            main.ask(Ask(tuple(self._waiting), self._count), now)
        for index, process in self._waiting.items():
            if process.busy_since is None and not process.ended:
                process.ask(Ask(only=index), now)
                asked.append(process)
        return asked

    def _hear(self, asked: list[Process], wait_s: float, found: dict[int, Gpu]) -> None:
        poll = select.poll()
        by_pipe = {process.pipe: process for process in asked if not process.ended}
        for pipe in by_pipe:
            poll.register(pipe, select.POLLIN)
        for pipe, _ in poll.poll(wait_s * 1000):
            self._take(by_pipe[pipe], self._clock(), found)

    def _take(self, process: Process, now: float, found: dict[int, Gpu]) -> None:
        for said in process.hear(now):
            self._known[said.gpu.index] = said.gpu
            if isinstance(said, Measured):
                found[said.gpu.index] = said.gpu

    def _is_stuck(self, process: Process) -> bool:
        if process.reading is None or process.busy_since is None:
            return False
        return process.ended or self._clock() - process.busy_since >= self._deadline_s / 2

    def _move(self, stuck: Process) -> Process | None:
        """Leave the process alone with the GPU that it asks, and give the others to a new one, if there may be one more."""
        index = stuck.reading
        if index is None or not self._has_room():
            return None
        self._waiting[index], stuck.good_rounds = stuck, 0
        self._main = self._another()
        if self._main and stuck.driver:
            self._main.ask(Ask(tuple(self._waiting), stuck.driver.count), self._clock())
        return self._main

    # What comes of it

    def _concluded(self, first: Process, found: dict[int, Gpu]) -> Round:
        driver = first.driver
        if first is self._main and first.ended:
            self._main = None
            first.close()
            driver = driver or Driver(DriverStatus.ERROR, first.end())
        if driver is None:
            return Round(Driver(DriverStatus.HUNG, f"the driver did not answer within {self._deadline_s:g} s"))
        if driver.status is not DriverStatus.OK or driver.count is None:
            self._refuse(driver)
            return Round(driver)
        if self._count not in {None, driver.count}:
            self._forget()
        self._count = driver.count
        return Round(driver, tuple(found.get(index) or self._silent(index) for index in range(driver.count)))

    def _silent(self, index: int) -> Gpu:
        """A GPU that nothing was heard of, as the one that it was."""
        known, process = self._known.get(index), self._waiting.get(index)
        answer, error = Answer.HUNG, "a call to the driver did not return"
        if process is None:
            error = "not asked in time"
        elif process.ended and not process.given_up:
            answer, error = Answer.ERROR, process.end()
        if known is None:
            return Gpu(index=index, answer=answer, error=error)
        return Gpu(
            uuid=known.uuid,
            index=index,
            pci=known.pci,
            minor=known.minor,
            name=known.name,
            serial=known.serial,
            answer=answer,
            error=error,
        )

    def _refuse(self, driver: Driver) -> None:
        """There is no use in asking again at once: a driver is not installed within a second."""
        self._refusal = (self._clock() + RETRY_S, driver)
        self._forget()

    def _forget(self) -> None:
        """Another driver, or other GPUs: an index does not mean what it meant."""
        for process in self._waiting.values():
            self._give_up(process)
        self._waiting, self._known, self._count = {}, {}, None

    # Processes

    def _tidy(self, now: float) -> None:
        self._killed = [process for process in self._killed if not process.gone()]
        for index, process in list(self._waiting.items()):
            self._hear_late(process, now)
            if process.busy_since is None and process.good_rounds >= GOOD_ROUNDS:
                self._give_up(self._waiting.pop(index))
            elif self._is_overdue(process, now):
                if not process.given_up:
                    self._give_up(process)
                if self._has_room(replacing=1) and (successor := self._another()):
                    self._waiting[index] = successor
        if self._main:
            if self._main.busy_since is None:
                self._main.hear(now)  # it has nothing to say: only whether it is still there
            if self._is_overdue(self._main, now) or self._main.ended:
                self._give_up(self._main)
                self._main = None

    def _hear_late(self, process: Process, now: float) -> None:
        """What was said after its round is old by now; only that it was said counts."""
        if process.busy_since is not None:
            process.good_rounds = -1
        if not process.ended and not process.given_up:
            process.hear(now)

    def _is_overdue(self, process: Process, now: float) -> bool:
        return process.busy_since is not None and now - process.busy_since >= self._patience_s

    def _give_up(self, process: Process) -> None:
        process.close()
        if not process.gone():
            self._killed.append(process)

    def _has_room(self, replacing: int = 0) -> bool:
        return len(self._waiting) - replacing + len(self._killed) < MOST_WAITING

    def _another(self) -> Process | None:
        return Process(self._command, self._environment) if len(self._killed) < MOST_WAITING else None
