"""The rehearsal cluster as a whole: its store, its seeded fleet, the machinery and life on it, and its API on a port.

Owns putting them together, starting and stopping. Must not know what any of them does.
"""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fleet.simulation.agents import Agents
from fleet.simulation.auth import Auth
from fleet.simulation.catalogue import BLOCK_NODES, WORKLOADS, Workload
from fleet.simulation.churn import Churn
from fleet.simulation.clock import Clock, RealClock
from fleet.simulation.control import Control
from fleet.simulation.controller import Controller
from fleet.simulation.life import Life
from fleet.simulation.machinery import Machinery
from fleet.simulation.machines import Machines
from fleet.simulation.page import PageServer
from fleet.simulation.posting import Door
from fleet.simulation.scenarios.programme import SCENARIOS
from fleet.simulation.scenarios.stage import Stage
from fleet.simulation.seed import Seed
from fleet.simulation.server import ApiServer
from fleet.simulation.server_faults import ServerFaults
from fleet.simulation.store import Store
from fleet.simulation.trainings import Trainings

T = TypeVar("T")

CONTEXT = "rehearsal"


class Rehearsal:
    """One cluster. Everything runs on the event loop that calls `start`.

    `pods`: fill up to so many with small servers. `pace` 0: nothing happens by itself. `churn`: changes a second that
    are made on top, for measurements (ValueError without such servers). `without`: controllers to leave out.
    """

    def __init__(  # noqa: PLR0913 -- each has its default, and is named where it is given
        self,
        seed: int = 1,
        clock: Clock | None = None,
        nodes: int = BLOCK_NODES,
        pods: int | None = None,
        *,
        pace: float = 1.0,
        churn: float = 0.0,
        without: tuple[type[Controller], ...] = (),
        workloads: tuple[Workload, ...] = WORKLOADS,
    ) -> None:
        self.clock = clock or RealClock()
        self.store = Store(self.clock, seed=seed)
        Seed(self.store, seed, workloads).plant(nodes, pods)
        self.machinery = Machinery(self.store, self.clock, seed, without)
        self.machines = Machines(self.store, seed)
        self.life = Life(self.store, self.clock, seed, pace, workloads)
        self.churn = Churn(self.store, self.clock, seed, churn) if churn > 0 else None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def trainings(self) -> Trainings | None:
        """None where they were left out."""
        found = self.machinery.controllers.get(Trainings)
        return found if isinstance(found, Trainings) else None

    async def start(self) -> None:
        self.machinery.start()
        if self.life.pace > 0:
            self._tasks.append(asyncio.create_task(self.life.run(), name="life"))
        if self.churn is not None:
            self._tasks.append(asyncio.create_task(self.churn.run(), name="churn"))

    async def stop(self) -> None:
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.machinery.stop()

    def check(self) -> None:
        """Raise what any part of it died of."""
        self.machinery.check()
        for task in self._tasks:
            if task.done() and not task.cancelled():
                raise RuntimeError(f"{task.get_name()} has ended") from task.exception()


@dataclass(frozen=True)
class Ports:
    """What a listening cluster offers: its API, its scenarios, and the page to start them from."""

    server: ApiServer
    stage: Stage
    page: PageServer


@contextlib.asynccontextmanager
async def listening(
    rehearsal: Rehearsal, home: Path, port: int = 0, page_port: int = 0, readings_to: str = ""
) -> AsyncIterator[Ports]:
    """Run the cluster with its API and its page on loopback and its kubeconfig at `home`/kubeconfig.

    Claims that trainers save to are folders in `home`/claims. `readings_to`: where the agents of its nodes are told to post;
    nobody posts without it. OSError when a port is taken or the folder cannot be written, ValueError for what is no address, or
    when `home`/claims is somebody else's.
    """
    door = Door(readings_to) if readings_to else None
    home.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 -- once, before anything runs
    if rehearsal.trainings is not None:
        rehearsal.trainings.open(home)
    server = ApiServer(rehearsal.store, rehearsal.machines, rehearsal.trainings)
    faults = ServerFaults(server.app, rehearsal.clock, drop=server.drop_connections)
    stage = Stage(server.app, faults, rehearsal.clock, SCENARIOS)
    page = PageServer(stage)
    server.front = Control(stage, page.link)
    await server.start(port)
    try:
        await page.start(page_port)
        server.write_kubeconfig(home / "kubeconfig", CONTEXT)
        await rehearsal.start()
        async with contextlib.AsyncExitStack() as stack:
            if door is not None:
                await stack.enter_async_context(_posting(rehearsal, server.auth, door))
            yield Ports(server, stage, page)
    finally:
        await stage.close()
        await page.stop()
        await server.stop()
        await rehearsal.stop()


@contextlib.asynccontextmanager
async def _posting(rehearsal: Rehearsal, auth: Auth, door: Door) -> AsyncIterator[None]:
    agents = Agents(rehearsal.store, rehearsal.clock, rehearsal.machines, auth, door.post)
    agents.start()
    try:
        yield
    finally:
        await agents.stop()
        await door.close()
        agents.check()


@dataclass(frozen=True)
class Serving:
    """A cluster that runs in a thread of its own."""

    rehearsal: Rehearsal
    server: ApiServer
    stage: Stage
    page: PageServer
    url: str
    kubeconfig: Path
    loop: asyncio.AbstractEventLoop

    def run(self, work: Awaitable[T], timeout_s: float = 30.0) -> T:
        """Await `work` on the cluster's loop, from any other thread."""

        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(timeout_s)

    def call(self, work: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `work` on the cluster's loop: the store is used from there only."""

        async def called() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(timeout_s)


@contextlib.contextmanager
def serving(rehearsal: Rehearsal, home: Path | None = None, port: int = 0) -> Iterator[Serving]:
    """Run the whole cluster in a background thread, for callers without an event loop."""
    with contextlib.ExitStack() as stack:
        folder = home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rehearsal-")))
        thread = _Thread(rehearsal, folder, port)
        thread.start()
        stack.callback(thread.end)
        yield thread.wait_ready()


class _Thread(threading.Thread):
    def __init__(self, rehearsal: Rehearsal, home: Path, port: int) -> None:
        super().__init__(name="rehearsal", daemon=True)
        self._rehearsal = rehearsal
        self._home = home
        self._port = port
        self._ready = threading.Event()
        self._result: Serving | BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 -- handed to the thread that waits
            self._result = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with listening(self._rehearsal, self._home, self._port) as ports:
            url, kubeconfig = ports.server.url, self._home / "kubeconfig"
            self._result = Serving(self._rehearsal, ports.server, ports.stage, ports.page, url, kubeconfig, self._loop)
            self._ready.set()
            await self._ending.wait()

    def wait_ready(self) -> Serving:
        self._ready.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        assert self._result is not None  # noqa: S101 -- set before _ready
        return self._result

    def end(self) -> None:
        """Stop the cluster and wait for its thread; what it died of, if it did, is raised here."""
        if self._loop is not None and self._ending is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self.join()
        if isinstance(self._result, Serving):
            self._rehearsal.check()
