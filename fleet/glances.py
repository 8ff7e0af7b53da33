"""What was read of a cluster a moment ago, kept for some seconds, so that many who look at a page cost one reading.

Owns that memory, and that only one reading of a thing is under way at a time. Must not know what is read.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Glance(Generic[T]):
    """`at`: when it was read, seconds since 1970; None: not yet. `askers`: who look at it now."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.askers = 0
        self.at: float | None = None
        self.found: T


class Glances(Generic[T]):
    """By key; what is older than `kept_s` is forgotten, so that keys which nobody asks for any more cost nothing."""

    def __init__(self, kept_s: float, now: Callable[[], float] = time.time) -> None:
        self._kept_s, self._now = kept_s, now
        self._lock = threading.Lock()
        self._known: dict[str, _Glance[T]] = {}

    def look(self, key: str, read: Callable[[], T]) -> T:
        """At most `kept_s` old. Whoever asks while it is being read waits for that. What `read` raises is not kept."""
        with self._lock:
            self._forget()
            glance = self._known.setdefault(key, _Glance())
            glance.askers += 1
        try:
            with glance.lock:
                if not self._fresh(glance):
                    glance.found = read()
                    glance.at = self._now()
                return glance.found
        finally:
            with self._lock:
                glance.askers -= 1

    def _fresh(self, glance: _Glance[T]) -> bool:
        """A clock that was set back makes nothing fresh."""
        return glance.at is not None and 0 <= self._now() - glance.at <= self._kept_s

    def _forget(self) -> None:
        """One that is being read is kept: those who wait for it must not read it again."""
        gone = [key for key, one in self._known.items() if not one.askers and not self._fresh(one)]
        for key in gone:
            del self._known[key]
