"""API tokens: made, shown once, recognised, revoked.

Owns what a secret looks like and how its digest is made; one-time links are made the same way. Must not know any page.
"""

import hashlib
import secrets
from datetime import datetime, timedelta

import structlog
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from dashboard import goodbyes
from dashboard.models import ApiToken, Scope

log = structlog.get_logger(__name__)

PREFIX = "vigie_"  # so that secret scanners and people recognise one
REPORTS = "api-v1:checkpoints"
USED_TO = timedelta(minutes=5)


def secret(prefix: str = "") -> str:
    """256 random bits, in characters that are safe in an address."""
    return prefix + secrets.token_urlsafe(32)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def issue(
    user: User,
    name: str,
    days: int,
    now: datetime | None = None,
    *,
    cluster: str = "",
    scope: Scope = Scope.READ,
    workload: str = "",
) -> tuple[str, ApiToken]:
    """A new token with its secret, which is not stored and cannot be shown again. It is for one cluster, or (cluster "") for
    every one that its owner may see. `workload`: whose saves a token of scope REPORT may report."""
    now = now or timezone.now()
    text, end = secret(PREFIX), now + timedelta(days=days)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        digest=digest(text),
        created_at=now,
        expires_at=end,
        cluster=cluster,
        scope=scope,
        workload=workload,
    )
    log.info("a token was made", user=user.get_username(), token=token.pk, cluster=cluster or "every one", days=days)
    return text, token


def revoke(pk: int, now: datetime | None = None) -> bool:
    """False when there is no such token, or it was revoked before."""
    if not ApiToken.objects.filter(pk=pk, revoked_at=None).update(revoked_at=now or timezone.now()):
        return False
    log.info("a token was revoked", token=pk)
    goodbyes.announce()
    return True


def recognise(header: str, now: datetime | None = None) -> ApiToken | None:
    """The token of an Authorization header; None when it is unknown, expired, revoked, or its account is disabled.

    The row is found by the digest, so how long it takes says nothing about a secret.
    """
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not text:
        return None
    now = now or timezone.now()
    token = living(now).filter(digest=digest(text.strip())).first()
    if token is not None and (token.last_used_at is None or token.last_used_at < now - USED_TO):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def living(now: datetime | None = None) -> QuerySet[ApiToken]:
    """Tokens that work, with their accounts."""
    found = ApiToken.objects.filter(revoked_at=None, expires_at__gt=now or timezone.now(), user__is_active=True)
    return found.select_related("user")


def covers(token: ApiToken, method: str, name: str) -> bool:
    """Whether a token's scope allows a request of this HTTP method to what `access.EXPOSED` calls `name`."""
    if token.scope == Scope.REPORT:
        return (method, name) == ("POST", REPORTS)
    return token.scope == Scope.ACT or (token.scope == Scope.READ and method in {"GET", "HEAD", "OPTIONS"})
