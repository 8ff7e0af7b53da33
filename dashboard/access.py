"""Who may do what: the table of everything that is exposed, and the gate that every request passes.

Owns authorisation. Sockets ask the same questions here (`visitors`, `same_origin`, `EXPOSED`) as pages do. Must not hold pages,
and must not let anything through that EXPOSED does not name. A cluster for which somebody has no role does not exist for them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
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

from dashboard import clusters, errors, roles, sessions, tokens, wall
from dashboard.models import ApiToken, WallAddress
from dashboard.roles import REHEARSAL_GROUP, Roles
from dashboard.roles import Role as Role  # noqa: PLC0414  (for those who name a role beside its rules)

log = structlog.get_logger(__name__)

PUBLIC = "public"

# Every URL name and socket, with the least role that may use it. What is not in here is refused, whatever the URLs say.
EXPOSED: Mapping[str, Role | str] = {
    "healthz": PUBLIC,
    "readyz": PUBLIC,
    "sign-in": PUBLIC,
    "sign-out": PUBLIC,
    "welcome": PUBLIC,
    "set_language": PUBLIC,
    "wall-open": PUBLIC,
    "metrics": Role.VIEWER,
    "home": Role.VIEWER,
    "fleet": Role.VIEWER,
    "node": Role.VIEWER,
    "propose": Role.OPERATOR,
    "propose-release": Role.OPERATOR,
    "actions": Role.VIEWER,
    "actions-export": Role.VIEWER,
    "action": Role.VIEWER,
    "action-confirm": Role.OPERATOR,
    "action-approve": Role.APPROVER,
    "action-stop": Role.OPERATOR,
    "gpu": Role.VIEWER,
    "availability": Role.VIEWER,
    "cadence": Role.VIEWER,
    "checkpoints": Role.VIEWER,
    "checkpoint": Role.VIEWER,
    "checkpoint-check": Role.OPERATOR,
    "checkpoint-note": Role.OPERATOR,
    "readiness": Role.VIEWER,
    "readiness-workload": Role.VIEWER,
    "blue-green": Role.VIEWER,
    "blue-green-pair": Role.VIEWER,
    "rollouts": Role.VIEWER,
    "rollout": Role.VIEWER,
    "workloads": Role.VIEWER,
    "waiting": Role.VIEWER,
    "search": Role.VIEWER,
    "clusters": Role.VIEWER,
    "account": Role.VIEWER,
    "help": Role.VIEWER,
    "wall": Role.VIEWER,
    "api-v1:clusters": Role.VIEWER,
    "api-v1:snapshot": Role.VIEWER,
    "api-v1:nodes": Role.VIEWER,
    "api-v1:node": Role.VIEWER,
    "api-v1:node-pods": Role.VIEWER,
    "api-v1:workloads": Role.VIEWER,
    "api-v1:waiting": Role.VIEWER,
    "api-v1:gpus": Role.VIEWER,
    "api-v1:gpu": Role.VIEWER,
    "api-v1:gpu-history": Role.VIEWER,
    "api-v1:transitions": Role.VIEWER,
    "api-v1:availability": Role.VIEWER,
    "api-v1:cadence": Role.VIEWER,
    "api-v1:checkpoints": Role.VIEWER,
    "api-v1:checkpoint": Role.VIEWER,
    "api-v1:readiness": Role.VIEWER,
    "api-v1:events": Role.VIEWER,
    "api-v1:plans": Role.OPERATOR,
    "api-v1:plan": Role.VIEWER,
    "api-v1:plan-confirm": Role.OPERATOR,
    "api-v1:plan-approve": Role.APPROVER,
    "api-v1:actions": Role.VIEWER,
    "api-v1:action": Role.VIEWER,
    "api-v1:action-events": Role.VIEWER,
    "api-v1:action-stop": Role.OPERATOR,
    "api-v1:audit": Role.VIEWER,
    "api-v1:docs": Role.VIEWER,
    "api-v1:openapi-json": Role.VIEWER,
    "api-v1:api-root": Role.VIEWER,
    "socket": Role.VIEWER,
    "wall-socket": Role.VIEWER,
}

# What the screen on a wall may use with the cookie of its address, which is nobody's account.
WALLS = {"wall", "wall-socket"}


def role_of(user: User | AnonymousUser, cluster: str | None = None) -> Role | None:
    """The role of an account on one cluster, or (None) where it is highest; see `roles_of`."""
    found = roles_of(user)
    return found.highest if cluster is None else found.on(cluster)


def roles_of(user: User | AnonymousUser) -> Roles:
    """What an account may do, and where; nothing for nobody, for a disabled account and for one without a role.

    Roles come from groups alone: a superuser of Django has no hidden rights here.
    """
    if not isinstance(user, User) or not user.is_active:
        return Roles()
    return roles.from_groups(group.name for group in user.groups.all())


def clusters_of(request: HttpRequest) -> list[str]:
    """The configured clusters that whoever sent this request may see, in the order of the kubeconfig."""
    if (address := wall_of(request)) is not None:
        return visible(Roles(by_cluster={address.cluster: Role.VIEWER}))
    if getattr(request, "near", False):
        return clusters.names()
    token = token_of(request)
    return visible(roles_of(request.user), token.cluster if token else "")


def visible(held: Roles, only: str = "") -> list[str]:
    """The configured clusters on which somebody holds a role; of these `only` one, when it is named."""
    return [name for name in clusters.names() if held.on(name) and only in {"", name}]


def token_of(request: HttpRequest) -> ApiToken | None:
    """The token that the gate recognised, if that was how the request came in."""
    return getattr(request, "token", None)


def wall_of(request: HttpRequest) -> WallAddress | None:
    """The wall's address through whose cookie the gate let the request in; None for people and programs."""
    return getattr(request, "wall_address", None)


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
        self, request: HttpRequest, _view: object, _args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        name = request.resolver_match.view_name if request.resolver_match else ""
        try:
            return self._judge(request, name, kwargs.get("cluster"))
        except errors.DATABASE_AWAY as error:
            return errors.database_away(request, error)

    @staticmethod
    def _judge(request: HttpRequest, name: str, cluster: str | None) -> HttpResponseBase | None:
        if EXPOSED.get(name) == PUBLIC or (name in WALLS and _comes_from_wall(request)):
            return None
        if name == "metrics" and _comes_from_near(request):
            return None
        api = name == "metrics" or request.path_info.startswith("/api/")
        # Whoever sends a token is judged by it alone, whatever cookie comes along.
        if api and "Authorization" in request.headers:
            _take_token(request)
        if not isinstance(request.user, User):
            program = api and name != "api-v1:docs"  # a page, which people come to
            return errors.unauthorised() if program else redirect_to_login(request.get_full_path())
        prefetch_related_objects([request.user], "groups")
        refusal = _refusal(request, name, cluster)
        if refusal is None and token_of(request) is None:
            sessions.note(request)
        return refusal


def _comes_from_wall(request: HttpRequest) -> bool:
    address = wall.recognise(request.COOKIES.get(settings.VIGIE_WALL_COOKIE, ""))
    request.wall_address = address  # type: ignore[attr-defined]
    return address is not None


def _comes_from_near(request: HttpRequest) -> bool:
    """Whether a scraper asks from a network that needs no token. What came through a proxy does not say where it is from."""
    forwarded = {"Authorization", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip"} & set(
        request.headers
    )
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    near = not forwarded and any(address in ip_network(network) for network in settings.VIGIE_METRICS_FROM)
    request.near = near  # type: ignore[attr-defined]
    return near


def _take_token(request: HttpRequest) -> None:
    token = tokens.recognise(request.headers["Authorization"])
    request.token = token  # type: ignore[attr-defined]
    request.user = token.user if token else AnonymousUser()


def _refusal(request: HttpRequest, name: str, cluster: str | None) -> HttpResponseBase | None:
    held, token = roles_of(request.user), token_of(request)
    if not may(held.highest, name) or (token and not tokens.covers(token, request.method or "", name)):
        return errors.forbidden(request)
    if cluster is None:
        return None
    if cluster not in clusters_of(request):
        return errors.missing(request)
    return None if may(held.on(cluster), name) else errors.forbidden(request)


@dataclass(frozen=True)
class Visitor:
    """Who stands behind a session."""

    name: str
    roles: Roles

    @property
    def role(self) -> Role | None:
        return self.roles.highest


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
            found[key] = Visitor(user.get_username(), roles_of(user))
    return found


def bearers(token_ids: Collection[int]) -> dict[int, Visitor]:
    """Who stands behind these tokens, by their numbers. Missing: revoked, expired, or the account was disabled."""
    found = tokens.living().filter(pk__in=token_ids).prefetch_related("user__groups")
    return {token.pk: Visitor(token.user.get_username(), roles_of(token.user)) for token in found}


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
