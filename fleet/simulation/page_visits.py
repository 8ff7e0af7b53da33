"""Who may use the rehearsal's page: one-time links, sessions, and the tokens of its forms.

Owns secrets in memory. Nothing of it is the cluster's, or Vigie's.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CODE_S = 600.0
SESSION_S = 12 * 3600.0
MOST_SESSIONS = 32


@dataclass(frozen=True)
class Visit:
    """`form_token` has to come back with every form."""

    until: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Visits:
    """`time` gives seconds, from anywhere on."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._codes: dict[str, float] = {}
        self._visits: dict[str, Visit] = {}

    def code(self) -> str:
        """A new code, good once and for CODE_S."""
        self._tidy()
        made = secrets.token_urlsafe(24)
        self._codes[made] = self._now() + CODE_S
        return made

    def redeem(self, code: str) -> str:
        """The key of a new session; empty for a code that is unknown, used or too old."""
        until = self._codes.pop(code, 0.0)
        return self.begin() if until > self._now() else ""

    def begin(self) -> str:
        """The key of a new session; the oldest of too many ends."""
        self._tidy()
        while len(self._visits) >= MOST_SESSIONS:
            self._visits.pop(next(iter(self._visits)))
        key = secrets.token_urlsafe(24)
        self._visits[key] = Visit(self._now() + SESSION_S)
        return key

    def visit(self, key: str) -> Visit | None:
        found = self._visits.get(key)
        return found if found is not None and found.until > self._now() else None

    def end(self, key: str) -> None:
        self._visits.pop(key, None)

    def _tidy(self) -> None:
        now = self._now()
        self._codes = {c: until for c, until in self._codes.items() if until > now}
        self._visits = {k: v for k, v in self._visits.items() if v.until > now}
