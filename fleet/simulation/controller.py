"""What every controller is: a work queue of keys, one task that works it off, retries with back-off, restart without loss.

Owns queueing, latency and errors. A controller's `sync` compares what is with what should be and writes the difference; it
is called again whenever something that it watches changes, after an error, and for every object after a restart.
"""

import abc
import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fleet.simulation.clock import Clock
from fleet.simulation.history import Change
from fleet.simulation.informer import Informers
from fleet.simulation.recorder import Recorder
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]
Keys = Callable[[Change], Iterable[str]]

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.05
LAST_RETRY_S = 30.0
LASTING = 4  # failures in a row after which somebody should know


class WorkQueue:
    """Keys to work on, each once at a time and not before its moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._waiter: asyncio.Future[None] | None = None
        self._sleeper: asyncio.Task[None] | None = None
        self._sleeps_until = 0.0

    def add(self, key: str, after_s: float = 0.0) -> None:
        """Hand out `key` in `after_s` seconds, or earlier when it was already due earlier."""
        due = self._clock.now() + after_s
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        if self._heap[0][2] == key:
            self._wake()

    def __len__(self) -> int:
        return len(self._due)

    def pop(self) -> str | None:
        """The next key that is due now, or None."""
        while self._heap and (self._heap[0][0] <= self._clock.now() or self._stale()):
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                return key
        return None

    def _stale(self) -> bool:
        due, _, key = self._heap[0]
        return self._due.get(key) != due

    async def wait(self) -> None:
        """Return when a key may be due."""
        if self._heap and self._heap[0][0] <= self._clock.now():
            return
        self._waiter = asyncio.get_running_loop().create_future()
        if self._heap:
            self._sleep_until(self._heap[0][0])
        await self._waiter

    def _sleep_until(self, due: float) -> None:
        """Wake at `due`; a sleeper that wakes then already is kept."""
        if self._sleeper is not None and not self._sleeper.done():
            if self._sleeps_until == due:
                return
            self._sleeper.cancel()
        self._sleeps_until = due
        self._sleeper = asyncio.create_task(self._clock.sleep(due - self._clock.now()))
        self._sleeper.add_done_callback(lambda task: None if task.cancelled() else self._wake())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Wake nobody any more."""
        if self._sleeper is not None:
            self._sleeper.cancel()


@dataclass
class Process:
    """What the controllers of one process share: the store, its cached view, time, chance and the event recorder."""

    store: Store
    clock: Clock
    rng: random.Random
    informers: Informers = field(init=False)
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.informers = Informers(self.store)
        self.recorder = Recorder(self.store, self.clock, self.rng)


class Controller(abc.ABC):
    """One control loop. Subclasses name themselves, what wakes them (`watches`), and write `sync`."""

    name: ClassVar[str]
    manager: ClassVar[str] = "kube-controller-manager"
    primary: ClassVar[str]
    latency_s: ClassVar[tuple[float, float]] = (0.004, 0.012)  # between a change and the work on it, as recorded
    turn: ClassVar[int] = 20  # objects that it looks at before others have their turn: fewer where one takes long

    def __init__(self, process: Process) -> None:
        self.process = process
        self.store = process.store
        self.clock = process.clock
        self.rng = process.rng
        self.informers = process.informers
        self.recorder = process.recorder
        self.queue = WorkQueue(process.clock)
        self._failures: dict[str, int] = {}

    @abc.abstractmethod
    def watches(self) -> dict[str, Keys]:
        """Per watched resource: which keys a change of it concerns."""

    @abc.abstractmethod
    def sync(self, key: str) -> float | None:
        """Bring `key` one step closer to what it should be; seconds after which to look again, or None."""

    def start_keys(self) -> Iterable[str]:
        """What to look at after a (re)start: by default every primary object."""
        self.informers[self.primary].catch_up()
        return list(self.informers[self.primary].objects)

    async def run(self) -> None:
        """Work until cancelled."""
        ends = [self._listen(plural, keys) for plural, keys in self.watches().items()]
        try:
            for key in self.start_keys():
                self.queue.add(key)
            while True:
                await self._work()
                await self.queue.wait()
        finally:
            self.queue.close()
            for end in ends:
                end()

    def delay_s(self, change: Change) -> float:  # noqa: ARG002 -- for those that are slower with some changes
        """How long after a change its keys are worked on."""
        return self.rng.uniform(*self.latency_s)

    def _listen(self, plural: str, keys: Keys) -> Callable[[], None]:
        def handle(change: Change) -> None:
            concerned = list(keys(change))
            after_s = self.delay_s(change) if concerned else 0.0
            for key in concerned:  # all at once and in this order
                self.queue.add(key, after_s)

        return self.informers[plural].on_change(handle)

    async def _work(self) -> None:
        """Everything that is due now, leaving the loop to others in between."""
        for done in itertools.count(1):
            key = self.queue.pop()
            if key is None:
                return
            self._attempt(key)
            if done % self.turn == 0:
                await asyncio.sleep(0)

    def _attempt(self, key: str) -> None:
        try:
            again_s = self.sync(key)
        except ApiError as refusal:
            self._retry(key, refusal)
        except Exception as error:
            logger.exception("%s failed on %s", self.name, key)
            self._retry(key, error)
        else:
            self._failures.pop(key, None)
            if again_s is not None:
                self.queue.add(key, again_s)

    def _retry(self, key: str, error: Exception) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2**failures)
        level = logging.WARNING if failures == LASTING else logging.DEBUG  # conflicts come and go
        logger.log(level, "%s tries %s again in %.2f s: %s", self.name, key, delay_s, error)
        self.queue.add(key, delay_s)
