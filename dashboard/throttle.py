"""How often somebody may guess a password.

Owns the counting, in the database, so that it holds across processes and restarts. The same for names that exist and names that
do not. Must not check passwords.
"""

from datetime import datetime, timedelta

from django.db.models import F
from django.utils import timezone

from dashboard.models import SignInTries
from dashboard.tokens import digest

LIMIT = 5
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
    key = _key(username, address)
    SignInTries.objects.filter(since_at__lte=now - WINDOW).delete()
    SignInTries.objects.get_or_create(key=key, defaults={"since_at": now})
    counted = SignInTries.objects.filter(key=key, tries__lt=LIMIT).update(tries=F("tries") + 1)
    row = SignInTries.objects.filter(key=key).first()
    if row is None:  # somebody with this name and address has just signed in
        return LIMIT - 1
    if not counted:
        raise TooManyTriesError(row.since_at + WINDOW - now)
    return LIMIT - row.tries


def succeed(username: str, address: str) -> None:
    """The password was right: start counting afresh."""
    SignInTries.objects.filter(key=_key(username, address)).delete()


def _key(username: str, address: str) -> str:
    return digest(f"{username.casefold()}\0{address}")
