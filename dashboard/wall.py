"""The screen on a wall: an address that an approver makes, good for one opening, and the cookie that it is exchanged for.

Owns who may see the wall without an account: what holds the cookie sees one view of one cluster, and no API, no other page and no
name of a person. Both secrets are stored as digests, expire, and end together. Must not know what the wall shows.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import errors, goodbyes, tokens
from dashboard.models import WallAddress

log = structlog.get_logger(__name__)

COOKIE_PATH = "/wall/"
LONGEST_DAYS = 400  # what browsers allow a cookie at most


@dataclass(frozen=True)
class NewAddress:
    """`path` is the secret: it is shown once and cannot be found out again."""

    address: WallAddress
    path: str


def create(name: str, cluster: str, days: int, made_by: str, now: datetime | None = None) -> NewAddress:
    """An address for one screen. The caller has checked that `made_by` is an approver on `cluster`. Raises ValueError."""
    if not 1 <= days <= LONGEST_DAYS:
        raise ValueError(f"an address lives between 1 and {LONGEST_DAYS} days")
    now, text = now or timezone.now(), tokens.secret()
    address = WallAddress.objects.create(
        name=name[:100],
        cluster=cluster,
        digest=tokens.digest(text),
        made_by=made_by,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    log.info("a wall's address was made", wall=address.pk, cluster=cluster, by=made_by, days=days)
    return NewAddress(address, reverse("wall-open", args=[text]))


def addresses(clusters: list[str], now: datetime | None = None) -> list[WallAddress]:
    """The addresses of these clusters that are neither revoked nor expired, the newest first."""
    living = WallAddress.objects.filter(revoked_at=None, expires_at__gt=now or timezone.now())
    return list(living.filter(cluster__in=clusters).order_by("-created_at"))


def revoke(pk: int, by: str, clusters: list[str], now: datetime | None = None) -> bool:
    """End an address of one of these clusters and whatever it was exchanged for; its sockets close within seconds."""
    found = WallAddress.objects.filter(pk=pk, revoked_at=None, cluster__in=clusters)
    if not found.update(revoked_at=now or timezone.now()):
        return False
    log.info("a wall's address was revoked", wall=pk, by=by)
    goodbyes.announce()
    return True


def exchange(text: str, now: datetime | None = None) -> tuple[str, WallAddress] | None:
    """The cookie for the secret of an address that was never opened, and the address; None for every other text.

    Of two that open it at the same time, one gets the cookie.
    """
    now, cookie = now or timezone.now(), tokens.secret()
    fresh = WallAddress.objects.filter(digest=tokens.digest(text), opened_at=None, revoked_at=None, expires_at__gt=now)
    if not fresh.update(opened_at=now, cookie_digest=tokens.digest(cookie)):
        return None
    address = WallAddress.objects.get(digest=tokens.digest(text))
    log.info("a wall was opened", wall=address.pk, cluster=address.cluster)
    return cookie, address


def recognise(cookie: str, now: datetime | None = None) -> WallAddress | None:
    """The address behind a cookie, while it is neither revoked nor expired."""
    return living([cookie], now).get(cookie) if cookie else None


def living(cookies: list[str], now: datetime | None = None) -> dict[str, WallAddress]:
    """The addresses behind these cookies, without those that have ended. One query."""
    by_digest = {tokens.digest(cookie): cookie for cookie in cookies}
    found = WallAddress.objects.filter(
        cookie_digest__in=by_digest, revoked_at=None, expires_at__gt=now or timezone.now()
    )
    return {by_digest[address.cookie_digest or ""]: address for address in found}


@require_safe
def open_address(request: HttpRequest, secret: str) -> HttpResponse:
    """`/wall/<secret>/`: take the secret, give the cookie, and go on to the wall. Its own screen may come again."""
    response = _opened(request, secret)
    # The address is a secret until it was opened: it goes nowhere, not even to our own pages.
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _opened(request: HttpRequest, secret: str) -> HttpResponse:
    known = recognise(request.COOKIES.get(settings.VIGIE_WALL_COOKIE, ""))
    if known is not None and known.digest == tokens.digest(secret):
        return redirect("wall")
    # Programs that only look at links must not use one up.
    looks_only = request.method == "HEAD" or "prefetch" in request.headers.get("Sec-Purpose", "")
    found = None if looks_only else exchange(secret)
    if found is None:
        return errors.spent_wall(request)
    cookie, address = found
    response = redirect("wall")
    response.set_cookie(
        settings.VIGIE_WALL_COOKIE,
        cookie,
        expires=address.expires_at,
        path=COOKIE_PATH,
        secure=settings.VIGIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response
