"""How often somebody may guess a password.

Owns the counting, in the database, so that it holds across processes and restarts. The same for names that exist and names that
do not. Must not check passwords.

Three counts, each of `WINDOW`: of one name from one address, which is what a person meets; of one address whatever the names,
which slows whoever tries many names; of one name whatever the addresses, which slows whoever has many. The last one lets an
attacker keep somebody from signing in, though not from a session that is open: it is high, and the window is short.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from dashboard.models import SignInTries
from dashboard.tokens import digest

LIMIT = 5
LIMIT_ADDRESS = 50
LIMIT_NAME = 100
WINDOW = timedelta(minutes=15)


class TooManyTriesError(Exception):
    """No further try before `wait` has passed."""

    def __init__(self, wait: timedelta) -> None:
        super().__init__(f"wait {wait}")
        self.wait = wait


def begin(username: str, address: str, now: datetime | None = None) -> int:
    """Use up one try and return how many are left. Counted before the password is looked at, so parallel guesses count too.

    Raises TooManyTriesError.
    """
    now = now or timezone.now()
    with transaction.atomic():
        SignInTries.objects.filter(since_at__lte=now - WINDOW).delete()
        return min(_count(key, limit, now) for key, limit in _limits(username, address).items())


def succeed(username: str, address: str) -> None:
    """The password was right: start counting afresh for this name from here; it was no guess, so the others forget it."""
    own, *others = _limits(username, address)
    with transaction.atomic():
        SignInTries.objects.filter(Q(key=own) | Q(key__in=others, tries__lte=1)).delete()
        SignInTries.objects.filter(key__in=others).update(tries=F("tries") - 1)


def _count(key: str, limit: int, now: datetime) -> int:
    SignInTries.objects.get_or_create(key=key, defaults={"since_at": now})
    counted = SignInTries.objects.filter(key=key, tries__lt=limit).update(tries=F("tries") + 1)
    row = SignInTries.objects.filter(key=key).first()
    if row is None:  # somebody with this name and address has just signed in
        return limit - 1
    if not counted:
        raise TooManyTriesError(row.since_at + WINDOW - now)
    return limit - row.tries


def _limits(username: str, address: str) -> dict[str, int]:
    """The counts that a try is part of, and their limits. An address that the server does not know counts for nothing."""
    name = username.casefold()
    found = {digest(f"{name}\0{address}"): LIMIT}
    if address:
        found[digest(f"address\0{address}")] = LIMIT_ADDRESS
    return found | {digest(f"name\0{name}"): LIMIT_NAME}
