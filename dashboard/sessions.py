"""Where somebody is signed in: a list that they can read, and an end to each of its entries.

Owns the rows beside Django's sessions. Must not decide who may sign in, nor hold anything of a session's content.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from dashboard import goodbyes
from dashboard.models import SignedIn

log = structlog.get_logger(__name__)

SEEN_TO = timedelta(minutes=5)
_NOTED = "noted_at"  # in the session itself, so that most requests need no query to know that nothing is to be written


@dataclass(frozen=True)
class Entry:
    """One place where somebody is signed in. `browser` is "" when it did not say. `current`: the one that asks."""

    id: int
    browser: str
    started_at: datetime
    seen_at: datetime
    current: bool


def begin(request: HttpRequest, user: User, now: datetime | None = None) -> None:
    """Somebody has just signed in: from now on their list has this session."""
    now = now or timezone.now()
    sweep(now)
    request.session[_NOTED] = now.timestamp()
    words = {"user": user, "browser": browser(request.headers.get("User-Agent", "")), "started_at": now, "seen_at": now}
    SignedIn.objects.update_or_create(session_key=request.session.session_key or "", defaults=words)


def note(request: HttpRequest, now: datetime | None = None) -> None:
    """Remember that this session was just used; to five minutes."""
    now = now or timezone.now()
    if request.session.get(_NOTED, now.timestamp()) <= (now - SEEN_TO).timestamp():
        request.session[_NOTED] = now.timestamp()
        seen([request.session.session_key or ""], now)


def seen(keys: Collection[str], now: datetime | None = None) -> None:
    """Sessions whose pages are open: they are in use although they ask for nothing."""
    now = now or timezone.now()
    stale = SignedIn.objects.filter(session_key__in=keys, seen_at__lt=now - SEEN_TO)
    if found := list(stale.values_list("pk", flat=True)):
        SignedIn.objects.filter(pk__in=found).update(seen_at=now)


def entries(user: User, current_key: str | None = None, now: datetime | None = None) -> list[Entry]:
    """Where `user` is signed in now, the session that asks first, then the last seen."""
    kept = Session.objects.filter(expire_date__gt=now or timezone.now()).values("session_key")
    rows = SignedIn.objects.filter(user=user, session_key__in=kept).order_by("-seen_at")
    found = [Entry(r.pk, r.browser, r.started_at, r.seen_at, r.session_key == current_key) for r in rows]
    return sorted(found, key=lambda entry: not entry.current)


def end(user: User, entry_id: int) -> bool:
    """Sign `user` out there; its pages close at once. False when it is not one of theirs."""
    with transaction.atomic():
        row = SignedIn.objects.filter(pk=entry_id, user=user).first()
        if row is None:
            return False
        forget(row.session_key)
        Session.objects.filter(session_key=row.session_key).delete()
    log.info("a session was ended", user=user.get_username(), session=entry_id)
    return True


def end_all(user: User) -> None:
    """Sign `user` out everywhere."""
    for entry in entries(user):
        end(user, entry.id)


def forget(session_key: str | None) -> None:
    """A session has ended: no list shows it, and no page that it opened stays open."""
    SignedIn.objects.filter(session_key=session_key or "").delete()
    goodbyes.announce()


def sweep(now: datetime | None = None) -> None:
    """Remove what has expired; called when somebody signs in, so that neither table grows for ever."""
    Session.objects.filter(expire_date__lte=now or timezone.now()).delete()
    SignedIn.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()


# In this order: Edge and Opera also say Chrome, Chrome also says Safari, Android also says Linux.
_BROWSERS = (
    ("Edge", r"\bEdg(?:e|A|iOS)?/"),
    ("Opera", r"\bOPR/"),
    ("Firefox", r"\b(?:Firefox|FxiOS)/"),
    ("Chrome", r"\b(?:Chrome|Chromium|CriOS)/"),
    ("Safari", r"\bSafari/"),
)
_SYSTEMS = (
    ("Android", r"\bAndroid\b"),
    ("iOS", r"\b(?:iPhone|iPad)\b"),
    ("Windows", r"\bWindows\b"),
    ("macOS", r"\bMac OS X\b"),
    ("Linux", r"\bLinux\b"),
)


def browser(user_agent: str) -> str:
    """Which browser and system a User-Agent names, in words like "Firefox, Linux"; "" when it names neither."""
    found = (next((word for word, sign in table if re.search(sign, user_agent)), "") for table in (_BROWSERS, _SYSTEMS))
    return ", ".join(filter(None, found))
