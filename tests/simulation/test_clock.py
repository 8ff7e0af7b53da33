"""Time of the rehearsal cluster."""

import asyncio
import time

import pytest

from fleet.simulation.clock import ManualClock, RealClock, micro_stamp, parse_stamp, stamp


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = ManualClock(start_at=100.0)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in [("late", 9.0), ("early", 1.0), ("middle", 5.0), ("same", 5.0)]:
            group.create_task(sleeper(name, seconds))
        await clock.advance(10.0)
    assert woken == [("early", 101.0), ("middle", 105.0), ("same", 105.0), ("late", 109.0)]
    assert clock.now() == 110.0


async def test_a_sleeper_that_sleeps_again_is_woken_within_one_advance() -> None:
    clock = ManualClock(start_at=0.0)
    ticks: list[float] = []

    async def metronome() -> None:
        for _ in range(3):
            await clock.sleep(2.0)
            ticks.append(clock.now())

    task = asyncio.create_task(metronome())
    await clock.advance(5.0)
    assert ticks == [2.0, 4.0]
    await clock.advance(1.0)
    assert ticks == [2.0, 4.0, 6.0]
    await task


async def test_a_cancelled_sleeper_does_not_stop_time() -> None:
    clock = ManualClock(start_at=0.0)
    task = asyncio.create_task(clock.sleep(1.0))
    await clock.settle()
    task.cancel()
    await clock.advance(3.0)
    assert task.cancelled()
    assert clock.now() == 3.0


async def test_a_loop_that_never_rests_is_named() -> None:
    clock = ManualClock()
    clock.MOST_ROUNDS = 50  # type: ignore[misc]

    async def spin() -> None:
        while True:
            await clock.sleep(0)

    task = asyncio.create_task(spin())
    with pytest.raises(RuntimeError, match="come to rest"):
        await clock.settle()
    task.cancel()


async def test_a_fast_clock_sleeps_shorter_than_it_says() -> None:
    clock = RealClock(speed=100.0)
    began, wall = clock.now(), time.monotonic()
    await clock.sleep(2.0)
    assert clock.now() - began >= 2.0
    assert time.monotonic() - wall < 3.0


def test_a_clock_cannot_stand_or_run_backwards() -> None:
    with pytest.raises(ValueError, match="positive"):
        RealClock(speed=0.0)


def test_stamps_are_those_of_kubernetes() -> None:
    assert stamp(1_790_000_000.987) == "2026-09-21T14:13:20Z"
    assert micro_stamp(1_790_000_000.25) == "2026-09-21T14:13:20.250000Z"
    assert parse_stamp(stamp(1_790_000_000.0)) == 1_790_000_000.0
    assert parse_stamp(micro_stamp(1_790_000_000.25)) == 1_790_000_000.25


async def test_the_speed_of_a_running_clock_can_change_and_sleepers_keep_their_moments() -> None:
    clock = RealClock()
    began = time.monotonic()
    sleeping = asyncio.create_task(clock.sleep(60.0))
    await asyncio.sleep(0.01)
    before = clock.now()
    clock.change_speed(1000.0)
    assert clock.now() - before < 20.0, "it goes on from where it was"
    await sleeping
    assert time.monotonic() - began < 10.0
    assert clock.now() - before >= 59.0
    clock.change_speed(1.0)
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="positive"):
            clock.change_speed(wrong)
    assert clock.speed == 1.0
