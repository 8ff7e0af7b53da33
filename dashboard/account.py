"""The page about oneself: roles, where one is signed in, tokens, and, for approvers, the addresses of walls.

Owns what somebody may end or make there: only what is theirs, and walls only of clusters on which they are an approver.
"""

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from dashboard import access, sessions, tokens, wall
from dashboard.pages import page
from dashboard.roles import Role

WALL_DAYS = (1, 7, 30, 90, 365)


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    user = request.user
    if not isinstance(user, User):
        raise TypeError("the gate lets nobody in without an account")
    if request.method != "POST":
        return _shown(request, user)
    if request.POST.get("do") == "new-wall":
        return _shown(request, user, address=_new_wall(request, user))
    _end(request, user)
    return redirect("account")


def _shown(request: HttpRequest, user: User, address: str = "") -> HttpResponse:
    approves = _approved(request, user)
    roles = access.roles_of(user)
    context: dict[str, Any] = {
        "roles": [(name, roles.on(name)) for name in access.clusters_of(request)],
        "sessions": sessions.entries(user, request.session.session_key),
        "tokens": tokens.living().filter(user=user).order_by("expires_at"),
        "approves": approves,
        "walls": wall.addresses(approves) if approves else [],
        "wall_days": WALL_DAYS,
        "new_address": request.build_absolute_uri(address) if address else "",
    }
    return page(request, "account.html", "", context)


def _approved(request: HttpRequest, user: User) -> list[str]:
    """The clusters on which somebody may make addresses of walls."""
    held = access.roles_of(user)
    return [name for name in access.clusters_of(request) if held.on(name) is Role.APPROVER]


def _new_wall(request: HttpRequest, user: User) -> str:
    """The path of a new address; "" where this person may not make one, or asked for no offered time."""
    cluster, days = request.POST.get("cluster", ""), request.POST.get("days", "")
    if cluster not in _approved(request, user) or days not in map(str, WALL_DAYS):
        return ""
    name = request.POST.get("name", "").strip() or cluster
    return wall.create(name, cluster, int(days), user.get_username()).path


def _end(request: HttpRequest, user: User) -> None:
    """End a session, a token or a wall's address, if it is theirs to end; else nothing happens."""
    number = request.POST.get("id", "")
    pk = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
    match request.POST.get("do"):
        case "end-session":
            current = any(
                entry.id == pk and entry.current for entry in sessions.entries(user, request.session.session_key)
            )
            if sessions.end(user, pk) and current:
                logout(request)
        case "revoke-token":
            if tokens.living().filter(user=user, pk=pk).exists():
                tokens.revoke(pk)
        case "revoke-wall":
            wall.revoke(pk, user.get_username(), _approved(request, user))
