"""The kernel log, record by record, from /dev/kmsg.

Owns sequence numbers, lost records and the clock of the log. Must not know what a line means (`fleet.domain.kernel_log` does).
Format: Documentation/ABI/testing/dev-kmsg of Linux.
"""

import errno
import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

RECORD_BYTES: Final = 16_384  # more than the longest record; a shorter buffer makes the kernel refuse
MOST_RECORDS: Final = 50_000  # at once; the default log holds about 3,000
US: Final = 1e-6

# Who is of interest. What is tested on bytes first, because a busy log has thousands of other lines.
WORDS: Final = (b"NVRM", b"nvidia-nvswitch")

_PREFIX: Final = re.compile(rb"(\d{1,10}),(\d{1,19}),(\d{1,19}),[^;\n]{0,200};")


class Stretch(Struct, frozen=True):
    """What was read at once."""

    lines: list[tuple[int, float, str]]  # sequence, seconds since 1970, text; only of NVIDIA's modules
    lost: int = 0  # records that were overwritten before they were read
    error: str = ""  # why nothing can be read; "" when it can


def boot_offset_s() -> float:
    """Seconds since 1970 at the moment that the kernel's monotonic clock calls 0, by the clocks of now."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


class KernelRecords:
    """A place in the log: the first read starts with the oldest record there is."""

    def __init__(
        self,
        path: Path,
        offset_s: Callable[[], float] = boot_offset_s,
        take: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._path = path
        self._offset_s = offset_s
        self._take = take
        self._file: int | None = None
        self._next: int | None = None  # sequence that comes next; None before the first record
        self._tail = b""

    def read(self) -> Stretch:
        """Every record that came since; does not wait. An error closes the log, and the next read opens it again."""
        lost, lines = 0, []
        try:
            records = self._records()
        except OSError as error:
            self.close()
            return Stretch([], error=f"{self._path}: {error.strerror}")
        offset_s = self._offset_s()
        for record in records:
            if not (prefix := _PREFIX.match(record)):
                continue  # a property of the record before it, or no record at all
            sequence = int(prefix[2])
            if self._next is not None and sequence < self._next:
                continue  # opened again, the log begins with what is known
            lost += sequence - self._next if self._next is not None else 0
            self._next = sequence + 1
            if any(word in record for word in WORDS):
                text = record[prefix.end() :].decode(errors="replace")
                lines.append((sequence, offset_s + int(prefix[3]) * US, text))
        return Stretch(lines, lost)

    def wait(self, timeout_s: float) -> bool:
        """Whether there is something to read, waiting up to `timeout_s`. Raises OSError, also where nobody writes any more."""
        poll = select.poll()
        poll.register(self._opened(), select.POLLIN)
        ready = poll.poll(timeout_s * 1000)
        if ready and not ready[0][1] & select.POLLIN:
            raise BrokenPipeError(errno.EPIPE, "nobody writes")
        return bool(ready)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._tail = None, b""

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self._file

    def _records(self) -> list[bytes]:
        """Whole lines. The device gives one record a read; a file or a pipe may cut them anywhere."""
        pieces = [self._tail]
        for _ in range(MOST_RECORDS):
            try:
                piece = self._take(self._opened(), RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # overwritten before we came; the next read gives the oldest that is left
            if not piece:  # a writer that went away may have left half a record; the next one begins with a whole one
                pieces.append(b"\n")
                break
            pieces.append(piece)
        *whole, self._tail = b"".join(pieces).split(b"\n")
        self._tail = self._tail[-RECORD_BYTES:]
        return whole
