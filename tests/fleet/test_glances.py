"""What was read a moment ago: one reading for many, forgotten after its time, and none of it after an error."""

import threading

import pytest

from fleet.glances import Glances


class Source:
    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        return self.reads


def test_it_is_read_again_only_when_it_is_old_or_the_clock_was_set_back():
    now, source = [100.0], Source()
    glances = Glances(5.0, lambda: now[0])
    assert [glances.look("a", source), glances.look("a", source), glances.look("b", source)] == [1, 1, 2]
    now[0] += 5.0
    assert glances.look("a", source) == 1
    now[0] += 0.1
    assert glances.look("a", source) == 3
    now[0] -= 60
    assert glances.look("a", source) == 4


def test_what_nobody_asks_for_any_more_is_forgotten():
    now = [0.0]
    glances = Glances(5.0, lambda: now[0])
    for number in range(50):
        now[0] += 10
        glances.look(str(number), Source())
    assert len(glances._known) == 1


def test_an_error_is_raised_and_not_kept():
    glances, source = Glances(5.0, lambda: 0.0), Source()

    def away() -> int:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        glances.look("a", away)
    assert glances.look("a", source) == 1


def test_many_who_ask_at_once_cost_one_reading():
    glances, source = Glances(5.0, lambda: 0.0), Source()
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        assert go_on.wait(20)
        return source()

    found: list[int] = []
    many = [threading.Thread(target=lambda: found.append(glances.look("a", slow))) for _ in range(8)]
    for one in many:
        one.start()
    assert begun.wait(20)
    glances.look("another", source)  # forgets what is old, and leaves alone what is being read
    go_on.set()
    for one in many:
        one.join(20)
    assert found == [2] * 8
