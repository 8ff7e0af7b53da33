"""Starts, stops and follows the scenarios of one rehearsal.

Owns which of them is on, and what has been told of it. Must not know what any of them does.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.simulation.api import Application
from fleet.simulation.clock import Clock, RealClock
from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.scene import Scene, StoryError
from fleet.simulation.server_faults import ServerFaults

logger = logging.getLogger(__name__)

Object = dict[str, Any]

LINES_KEPT = 30
SPEEDS = (0.1, 100.0)


class State(StrEnum):
    OFF = "off"
    UNFOLDING = "unfolding"
    STANDING = "standing"  # told; what it brought about stays until it is stopped
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class Scenario:
    """A story for operators. `unfolds_s`: how long until all of it can be seen, in the cluster's seconds.

    `passes`: it undoes itself when it has been told. `look` says where in the fleet or in Vigie to look.
    """

    name: str
    title: str
    description: str
    look: str
    unfolds_s: float
    play: Callable[[Scene], Awaitable[None]]
    passes: bool = False


@dataclass
class Performance:
    """`lines`: when and what happened, oldest first."""

    state: State = State.OFF
    started_at: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)
    scene: Scene | None = None
    task: asyncio.Task[None] | None = None


class StageError(Exception):
    """A scenario cannot be started, stopped or found; the text says why. `missing`: there is no such scenario."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class Stage:
    """All scenarios of a cluster; used on its event loop only."""

    def __init__(self, app: Application, faults: ServerFaults, clock: Clock, scenarios: Iterable[Scenario]) -> None:
        self.app = app
        self.faults = faults
        self.clock = clock
        self.scenarios = {s.name: s for s in scenarios}
        self._performances = {name: Performance() for name in self.scenarios}

    # Speed

    @property
    def speed(self) -> float:
        """1 for a clock that has none."""
        return self.clock.speed if isinstance(self.clock, RealClock) else 1.0

    def change_speed(self, speed: float) -> None:
        """StageError outside SPEEDS or when the clock is not a real one."""
        if not SPEEDS[0] <= speed <= SPEEDS[1]:
            raise StageError(f"a speed lies between {SPEEDS[0]:g} and {SPEEDS[1]:g}, not at {speed:g}")
        if not isinstance(self.clock, RealClock):
            raise StageError("this rehearsal's clock is moved by hand")
        self.clock.change_speed(speed)

    # Scenarios

    def performance(self, name: str) -> Performance:
        """StageError when there is no such scenario."""
        if name not in self.scenarios:
            raise StageError(f"there is no scenario {name!r}", missing=True)
        return self._performances[name]

    async def start(self, name: str) -> None:
        """Begin to unfold it; StageError when it is on already."""
        performance = self.performance(name)
        if performance.state is not State.OFF:
            raise StageError(f"{name} is {performance.state} already; stop it first")
        performance.state, performance.started_at = State.UNFOLDING, self.clock.now()
        performance.lines.clear()
        performance.scene = Scene(self.app, self.faults, self.clock, lambda line: self._tell(performance, line))
        performance.task = asyncio.create_task(self._play(self.scenarios[name], performance), name=f"scenario {name}")

    async def stop(self, name: str) -> None:
        """Put everything back; returns when it is. StageError when it is not on."""
        performance = self.performance(name)
        if performance.state in {State.OFF, State.STOPPING} or performance.scene is None:
            raise StageError(f"{name} is {performance.state}")
        performance.state = State.STOPPING
        await _ended(performance.task)
        await self._undo(performance)

    async def close(self) -> None:
        """End all stories without undoing them: the cluster ends too."""
        for performance in self._performances.values():
            await _ended(performance.task)

    def _tell(self, performance: Performance, line: str) -> None:
        performance.lines.append((self.clock.now(), line))
        del performance.lines[:-LINES_KEPT]
        if performance.scene is not None and performance.scene.standing and performance.state is State.UNFOLDING:
            performance.state = State.STANDING

    async def _play(self, scenario: Scenario, performance: Performance) -> None:
        assert performance.scene is not None  # noqa: S101 -- set by start
        try:
            await scenario.play(performance.scene)
        except (ApiError, StoryError) as error:
            self._tell(performance, f"Could not go on: {error}")
            performance.state = State.FAILED
        except Exception as error:
            logger.exception("scenario %s failed", scenario.name)
            self._tell(performance, f"Failed: {error}")
            performance.state = State.FAILED
        else:
            performance.state = State.STANDING
            if scenario.passes:
                await self._undo(performance)

    async def _undo(self, performance: Performance) -> None:
        assert performance.scene is not None  # noqa: S101 -- set by start
        for trouble in await performance.scene.undo():
            self._tell(performance, f"Could not be undone: {trouble}")
        self._tell(performance, "Over: everything is as it was.")
        performance.scene = performance.task = None
        performance.state = State.OFF


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
