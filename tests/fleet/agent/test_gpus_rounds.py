"""Calls into the driver that never return (case T13), and processes that do not behave. No test waits for a clock: it is ours."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleet.adapters.gpus_rounds import DEADLINE_S, GOOD_ROUNDS, MOST_WAITING, PATIENCE_S, Process, Reader
from fleet.domain.gpus import Answer, DriverStatus
from tests.fleet.agent.conftest import NEVER

HANG = {"hang": True}
HALF = DEADLINE_S / 2  # then a GPU is left alone with its process
WHOLE = DEADLINE_S  # then the round is over


class Clock:
    """Stands still, and jumps when one more call was begun which will not return.

    What was said before that call is in the pipe by then; the reader has listened again before it asked for the time so often.
    """

    ASKED = 6

    def __init__(self, driver, hanging: Sequence[str], jumps: Sequence[float]) -> None:
        self.now = 0.0
        self._driver, self._hanging, self._jumps = driver, hanging, list(jumps)
        self._seen = self._asked = 0

    def __call__(self) -> float:
        begun = sum(call in self._hanging for _, call in self._driver.calls())
        self._asked = self._asked + 1 if begun > self._seen else 0
        if self._asked > self.ASKED and self._jumps:
            self._seen, self._asked = self._seen + 1, 0
            self.now += self._jumps.pop(0)
        return self.now


def hang(driver, gpu, call="temperature"):
    driver.change(gpu, **{call: HANG})
    return f"devices.{gpu}.{call}"


def release(driver, gpu, value):
    driver.change(gpu, temperature=value)


def attempts(driver, call):
    return [pid for pid, what in driver.calls() if what == call]


def test_a_call_that_never_returns_costs_its_gpu_and_no_other(driver, readers):
    """T13."""
    clock = Clock(driver, [hang(driver, 3)], [HALF])
    reader = readers(clock=clock)
    for _ in range(5):
        gpus = reader.read(NEVER).gpus
        assert [gpu.answer for gpu in gpus] == [Answer.OK] * 3 + [Answer.HUNG] + [Answer.OK] * 4
        assert [gpu.temperature_c for gpu in gpus] == [31, 32, 33, None, 35, 36, 37, 38]
        assert "did not return" in gpus[3].error
    assert len(attempts(driver, "devices.3.temperature")) == 1  # nothing piles up
    assert len(attempts(driver, "init")) == 2


def test_a_gpu_that_hung_keeps_its_identity(driver, readers):
    """Also one that hung from the start on, and not in the measuring calls alone."""
    clock = Clock(driver, [hang(driver, 3), hang(driver, 5, "handle")], [HALF, HALF])
    reader = readers(clock=clock)
    for gpus in (reader.read(NEVER).gpus, reader.read(NEVER).gpus):
        assert (gpus[3].answer, gpus[3].pci, gpus[3].serial) == (Answer.HUNG, "0000:33:00.0", "1654423000003")
        assert gpus[3].uuid.startswith("GPU-00000003")
        assert (gpus[5].answer, gpus[5].uuid) == (Answer.HUNG, "")


def test_one_that_answers_late_is_read_by_its_own_process_and_then_with_the_others(driver, readers):
    reader = readers(clock=Clock(driver, [hang(driver, 3)], [HALF]))
    assert reader.read(NEVER).gpus[3].answer is Answer.HUNG
    release(driver, 3, 77)
    while (gpus := reader.read(NEVER).gpus)[3].answer is Answer.HUNG:
        assert gpus[4].temperature_c == 35
    assert gpus[3].temperature_c == 77
    for _ in range(GOOD_ROUNDS + 1):
        assert [gpu.answer for gpu in reader.read(NEVER).gpus] == [Answer.OK] * 8
    readings = attempts(driver, "devices.3.power")
    assert readings[1] != readings[-1] == attempts(driver, "devices.4.power")[-1]


def test_a_process_that_waits_for_long_is_replaced_by_one_that_tries_once(driver, readers):
    clock = Clock(driver, [hang(driver, 3)], [HALF, WHOLE, WHOLE])
    reader = readers(clock=clock)
    for attempt in (1, 1, 2, 2, 3):
        assert [gpu.answer for gpu in reader.read(NEVER).gpus].count(Answer.OK) == 7
        assert len(attempts(driver, "devices.3.temperature")) == attempt
        clock.now += PATIENCE_S / 2
    first, second, _ = attempts(driver, "devices.3.temperature")
    for pid in (first, second):
        assert not is_running(pid)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_that_wait_are_few_however_many_gpus_hang(driver, readers):
    calls = [hang(driver, gpu) for gpu in range(8)]
    reader = readers(clock=Clock(driver, calls, [WHOLE] * 20))
    for _ in range(8):
        gpus = reader.read(NEVER).gpus
    assert {gpu.answer for gpu in gpus} <= {Answer.HUNG}
    assert len(attempts(driver, "init")) == MOST_WAITING + 1


def test_processes_that_not_even_sigkill_ends_are_few(driver, readers, monkeypatch):
    """Inside the driver a process may be beyond every signal. Nobody can be put there at will: the system is made to say so."""
    monkeypatch.setattr(Process, "gone", lambda _: False)
    clock = Clock(driver, [hang(driver, 3)], [HALF] + [WHOLE] * 20)
    reader = readers(clock=clock)
    for _ in range(MOST_WAITING + 3):
        gpus = reader.read(NEVER).gpus
        assert [gpu.answer for gpu in gpus] == [Answer.OK] * 3 + [Answer.HUNG] + [Answer.OK] * 4
        clock.now += PATIENCE_S
    assert len(attempts(driver, "devices.3.temperature")) == MOST_WAITING


def test_a_driver_that_does_not_even_start(driver, readers):
    driver.answers["init"] = HANG
    driver.write()
    clock = Clock(driver, ["init"], [WHOLE])
    reader = readers(clock=clock)
    found = reader.read(NEVER)
    assert (found.driver.status, found.gpus) == (DriverStatus.HUNG, ())
    del driver.answers["init"]
    driver.write()
    assert [gpu.answer for gpu in reader.read(NEVER).gpus] == [Answer.OK] * 8
    assert len(attempts(driver, "init")) == 1  # it was not interrupted


def test_a_stopping_agent_does_not_wait_for_the_driver(driver, readers):
    driver.answers["init"] = HANG
    driver.write()
    from threading import Event

    stopping = Event()
    stopping.set()
    assert readers().read(stopping).driver.status is DriverStatus.HUNG


def test_nothing_is_left_behind(driver, readers):
    reader = readers(clock=Clock(driver, [hang(driver, 3)], [HALF]))
    reader.read(NEVER)
    pids = set(attempts(driver, "init"))
    reader.close()
    assert len(pids) == 2
    while any(map(is_running, pids)):  # for ever where one lives on: then the test's own deadline ends it
        time.sleep(0.01)


def test_a_library_that_crashes_costs_the_gpu_that_it_crashed_on(driver, readers):
    """nvitop#139: a lost GPU can take the whole process with it."""
    driver.change(2, power={"crash": True})
    reader = readers()
    for _ in range(3):
        gpus = reader.read(NEVER).gpus
        assert [gpu.answer for gpu in gpus] == [Answer.OK] * 2 + [Answer.ERROR] + [Answer.OK] * 5
        assert gpus[2].error == "the reading process ended with signal 6"
    assert len(attempts(driver, "devices.2.power")) == 1


def test_a_library_that_crashes_at_once(driver, readers):
    driver.answers["init"] = {"crash": True}
    driver.write()
    found = readers().read(NEVER)
    assert (found.driver.status, found.driver.error) == (DriverStatus.ERROR, "the reading process ended with signal 6")


def test_a_process_that_somebody_ended_is_replaced(driver, readers):
    reader = readers()
    reader.read(NEVER)
    (pid,) = attempts(driver, "init")
    os.kill(pid, signal.SIGKILL)
    while is_running(pid):
        time.sleep(0.01)
    assert [gpu.answer for gpu in reader.read(NEVER).gpus] == [Answer.OK] * 8


def test_gpus_that_come_or_go_are_read_anew(driver, readers):
    """What hung at an index says nothing about the GPU that has the index now."""
    reader = readers(clock=Clock(driver, [hang(driver, 3)], [HALF]))
    assert reader.read(NEVER).gpus[3].answer is Answer.HUNG
    del driver.gpus[3]
    driver.write()
    gpus = reader.read(NEVER).gpus
    assert len(gpus) == 7
    assert [gpu.answer for gpu in reader.read(NEVER).gpus] == [Answer.OK] * 7
    assert reader.read(NEVER).gpus[3].uuid.startswith("GPU-00000004")


@pytest.mark.parametrize("said", ["b'hello, this is no message'", "bytes(64)", "b'\\0\\0\\0\\3xyz'", "b'\\0\\0\\0\\1'"])
def test_a_process_that_says_something_else(said):
    reader = Reader([sys.executable, "-c", f"import sys; sys.stdout.buffer.write({said})"], clock=lambda: 0.0)
    assert reader.read(NEVER).driver.status is DriverStatus.ERROR
    reader.close()
