"""The time of the rehearsal cluster: everything in fleet/simulation asks a Clock, never the time module.

Seconds since 1970, as floats. RealClock may run faster than the wall; ManualClock stands still until a test
advances it.
"""

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """What the store and the controllers need of time."""

    def now(self) -> float:
        """Seconds since 1970 in the cluster's time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when `seconds` of the cluster's time have gone by."""
        ...


class RealClock:
    """Starts at the wall's time and runs `speed` times as fast; never steps back, whatever the wall does.

    Until its speed is changed, the rehearsal's clock and the wall's agree at speed 1.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = _checked(speed)
        self._began_at = time.time()
        self._origin_s = time.monotonic()
        self._sleepers: set[asyncio.Future[None]] = set()

    @property
    def speed(self) -> float:
        return self._speed

    def change_speed(self, speed: float) -> None:
        """Go on from now at another speed; whoever sleeps wakes at the right time all the same. ValueError unless > 0."""
        now = self.now()
        self._speed = _checked(speed)
        self._began_at, self._origin_s = now, time.monotonic()
        for sleeper in self._sleepers:
            _wake(sleeper)

    def now(self) -> float:
        return self._began_at + (time.monotonic() - self._origin_s) * self._speed

    async def sleep(self, seconds: float) -> None:
        until, left = self.now() + seconds, seconds
        if left <= 0:
            await asyncio.sleep(0)
        while left > 0:
            await self._rest(left / self._speed)
            left = until - self.now()

    async def _rest(self, real_s: float) -> None:
        """Return after `real_s`, or when the speed changes."""
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(real_s, _wake, sleeper)
        self._sleepers.add(sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            self._sleepers.discard(sleeper)


def _checked(speed: float) -> float:
    if not 0 < speed < float("inf"):
        raise ValueError(f"speed must be positive, not {speed}")
    return speed


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class ManualClock:
    """Time for tests: `advance` wakes the sleepers one after the other, each at its own time.

    Between two of them it lets the event loop run until nobody has asked the clock for QUIET_ROUNDS rounds, so
    that what a sleeper sets off (a write, the watches it wakes, their writes) happens at that sleeper's time.
    """

    QUIET_ROUNDS = 5
    MOST_ROUNDS = 100_000  # a loop that never rests is an error of the code under test: say so instead of hanging

    def __init__(self, start_at: float = 1_790_000_000.0) -> None:
        self._now = start_at
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._asked = 0

    def now(self) -> float:
        self._asked += 1
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._asked += 1
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move time forward by `seconds`, stopping at every sleeper on the way."""
        until = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, future = heapq.heappop(self._sleepers)
            if future.done():  # its task was cancelled
                continue
            self._now = max(self._now, at)
            future.set_result(None)
            await self.settle()
        self._now = until

    async def settle(self) -> None:
        """Let everything happen that can happen without time going by."""
        quiet = 0
        for _ in range(self.MOST_ROUNDS):
            asked = self._asked
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._asked == asked else 0
            if quiet >= self.QUIET_ROUNDS:
                return
        raise RuntimeError("the event loop does not come to rest: something runs without waiting")


def wall(clock: Clock, at: float) -> float:
    """The wall's time at the cluster's time `at`, near now; the same for a clock that is moved by hand."""
    return at - (clock.now() - time.time()) if isinstance(clock, RealClock) else at


def stamp(at: float) -> str:
    """RFC 3339 in whole seconds, as metav1.Time: 2026-09-21T13:46:40Z."""
    return _seconds_stamp(int(at))


@lru_cache(maxsize=4096)
def _seconds_stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at: float) -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime (event times, leases)."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=4096)
def parse_stamp(text: str) -> float:
    """Seconds since 1970 of either form."""
    return datetime.fromisoformat(text).timestamp()
