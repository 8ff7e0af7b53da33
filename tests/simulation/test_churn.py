"""The steady load: it makes as many changes as asked for, and takes nothing but small servers' pods."""

import pytest

from fleet.simulation.churn import PREFIX, Churn
from fleet.simulation.clock import ManualClock
from fleet.simulation.rehearsal import Rehearsal
from fleet.simulation.store import Store


async def test_it_comes_close_to_the_wanted_rate_and_touches_only_small_servers() -> None:
    clock = ManualClock()
    rehearsal = Rehearsal(nodes=24, clock=clock, pods=600, pace=0, churn=40)
    churn = rehearsal.churn
    assert churn is not None
    gone = rehearsal.store.subscribe("pods")
    await rehearsal.start()
    await clock.advance(30.0)
    before = churn.changes()
    await clock.advance(30.0)
    rehearsal.check()
    rate = (churn.changes() - before) / 30.0
    await rehearsal.stop()
    assert 28 < rate < 52
    deleted = {c.key for c in gone.take() if c.type == "DELETED" and not c.key.startswith("batch/")}
    assert deleted
    assert all(key.startswith(PREFIX) for key in deleted)


def test_there_must_be_something_to_replace() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="fill the fleet"):
        Churn(Store(clock, seed=1), clock, 1, 10.0)
