"""The program that asks the driver, because a call into it may never return.

Owns the order of a round: driver, GPUs by index, end. Must not keep time or restart anything: `gpus_rounds` starts it, waits for
it and gives up on it.

    python -m fleet.adapters.gpus_process [LIBRARY]      asks come in on standard input, answers leave on standard output
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator

from fleet.adapters import gpus_nvml as nvml
from fleet.adapters.gpus_board import Boards
from fleet.adapters.gpus_pipe import LENGTH_BYTES, Ask, Done, Driver, Measured, Message, Met, asked, framed
from fleet.domain.gpus import DriverStatus


def serve(library: str | None, say: Callable[[Message], None]) -> None:
    """Answer until nobody asks any more, or until the driver has to be talked to anew."""
    started, boards, versions = False, Boards(lambda gpu: say(Met(gpu))), ("", "", "")
    for ask in _asks():
        try:
            if not started:
                nvml.start(library)
                started, versions = True, nvml.versions()
            count = nvml.count()
        except nvml.TROUBLES as trouble:
            say(Driver(nvml.status_of(trouble), nvml.words(trouble), *versions))
            return
        say(Driver(DriverStatus.OK, "", *versions, count))
        for index in ask.indices(count):
            say(Measured(boards.read(index)))
        say(Done())


def _asks() -> Iterator[Ask]:
    while length := sys.stdin.buffer.read(LENGTH_BYTES):
        yield asked(sys.stdin.buffer.read(int.from_bytes(length, "big")))


def _speaker() -> Callable[[Message], None]:
    """Says each message at once: whoever waits sees from it which GPU does not answer.

    What a library prints goes to the log and not between the messages.
    """
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(message: Message) -> None:
        os.write(out, framed(message))

    return say


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; the agent ends us by closing the pipe
    serve(sys.argv[1] if len(sys.argv) > 1 else None, _speaker())
