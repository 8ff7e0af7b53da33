"""Who may do what: roles, the table of everything that is exposed, and the gate that every request passes.

Owns authorisation. Sockets ask the same questions here (`visitors`, `same_origin`, `EXPOSED`) as pages do. Must not hold pages,
and must not let anything through that EXPOSED does not name.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.models import Session
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponseBase
from django.http.request import validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from dashboard import errors, tokens

log = structlog.get_logger(__name__)

REHEARSAL_GROUP = "rehearsal"  # accounts whose passwords everybody knows


class Role(StrEnum):
    """What an account may do. The value is the name of its Django group; a later one includes the earlier ones."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


PUBLIC = "public"

# Every URL name and socket, with the least role that may use it. What is not in here is refused, whatever the URLs say.
EXPOSED: Mapping[str, Role | str] = {
    "healthz": PUBLIC,
    "readyz": PUBLIC,
    "sign-in": PUBLIC,
    "sign-out": PUBLIC,
    "welcome": PUBLIC,
    "set_language": PUBLIC,
    "home": Role.VIEWER,
    "fleet": Role.VIEWER,
    "node": Role.VIEWER,
    "api-v1:snapshot": Role.VIEWER,
    "api-v1:nodes": Role.VIEWER,
    "api-v1:node": Role.VIEWER,
    "api-v1:openapi-json": Role.VIEWER,
    "api-v1:api-root": Role.VIEWER,
    "socket": Role.VIEWER,
}


def role_of(user: User | AnonymousUser) -> Role | None:
    """The highest role of an account; None for nobody, for a disabled account and for one without a role.

    Roles come from groups alone: a superuser of Django has no hidden rights here.
    """
    if not isinstance(user, User) or not user.is_active:
        return None
    return highest_role(group.name for group in user.groups.all())


def highest_role(group_names: Iterable[str]) -> Role | None:
    """The highest role among the names of groups; other groups do not count."""
    held = set(group_names)
    return next((role for role in reversed(Role) if role in held), None)


def may(role: Role | None, name: str) -> bool:
    """Whether somebody with this role may use what EXPOSED calls `name`."""
    least = EXPOSED.get(name)
    if least is None:
        log.error("refused because it is not in access.EXPOSED", name=name)
        return False
    return least == PUBLIC or (role is not None and role.includes(Role(least)))


def rehearsal_accounts() -> list[str]:
    """Names of the active accounts that belong to the rehearsal; there must be none where a real cluster is watched."""
    accounts = User.objects.filter(groups__name=REHEARSAL_GROUP, is_active=True)
    return list(accounts.order_by("username").values_list("username", flat=True))


class Gate:
    """Middleware: lets a request through to its view, sends it to the sign-in page, or refuses it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: object, _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        name = request.resolver_match.view_name if request.resolver_match else ""
        if EXPOSED.get(name) == PUBLIC:
            return None
        api = request.path_info.startswith("/api/")
        token = None
        # Whoever sends a token is judged by it alone, whatever cookie comes along.
        if api and "Authorization" in request.headers:
            token = tokens.recognise(request.headers["Authorization"])
            request.user = token.user if token else AnonymousUser()
        if not isinstance(request.user, User):
            return errors.unauthorised() if api else redirect_to_login(request.get_full_path())
        prefetch_related_objects([request.user], "groups")
        if not may(role_of(request.user), name) or (token and not tokens.covers(token, request.method or "")):
            return errors.forbidden(request)
        return None


@dataclass(frozen=True)
class Visitor:
    """Who stands behind a session."""

    name: str
    role: Role | None


def visitors(session_keys: Collection[str]) -> dict[str, Visitor]:
    """Who is still signed in, by session key. Missing: signed out, expired, disabled, or the password was changed since.

    Three queries for any number of sessions.
    """
    now = timezone.now()
    sessions = Session.objects.filter(session_key__in=session_keys, expire_date__gt=now)
    held = {session.session_key: session.get_decoded() for session in sessions}
    users = User.objects.filter(is_active=True).prefetch_related("groups").in_bulk(_user_ids(held.values()))
    found: dict[str, Visitor] = {}
    for key, session in held.items():
        user = users.get(_user_id(session))
        if user is not None and _still_valid(session, user):
            found[key] = Visitor(user.get_username(), role_of(user))
    return found


def _user_ids(sessions: Iterable[Mapping[str, Any]]) -> set[int]:
    return {_user_id(session) for session in sessions} - {0}


def _user_id(session: Mapping[str, Any]) -> int:
    return int(session.get(SESSION_KEY, 0))


def _still_valid(session: Mapping[str, Any], user: User) -> bool:
    """The check of django.contrib.auth.get_user: the session was made with the password that the account has now."""
    return session.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS and any(
        constant_time_compare(session.get(HASH_SESSION_KEY, ""), known)
        for known in (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    )


def same_origin(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a WebSocket handshake comes from one of our own pages: its Origin is the host that it asks for, and that is ours.

    A browser always sends Origin; a handshake without one has no business with a session cookie.
    """
    lower = [(name.lower(), value.decode("latin-1").lower()) for name, value in headers]
    origins = [value for name, value in lower if name == b"origin"]
    hosts = [value for name, value in lower if name == b"host"]
    if len(origins) != 1 or len(hosts) != 1:
        return False
    try:
        origin, host = urlsplit(origins[0]), urlsplit(f"//{hosts[0]}")
        default = {"http": 80, "https": 443}.get(origin.scheme)
        same = (origin.hostname, origin.port or default) == (host.hostname, host.port or default)
    except ValueError:
        return False
    known = validate_host(hosts[0].rpartition(":")[0] if host.port else hosts[0], settings.ALLOWED_HOSTS)
    secure = origin.scheme == "https" or (origin.scheme == "http" and not settings.VIGIE_SECURE)
    return same and secure and known
