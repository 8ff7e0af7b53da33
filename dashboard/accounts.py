"""Accounts: made, given a role, disabled, and the links with which people choose their own password.

Owns the life of an account. What a role allows is `access`'s; what a page shows is not known here.
"""

from datetime import datetime, timedelta

import structlog
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from dashboard import goodbyes, roles, tokens
from dashboard.models import ApiToken, Invitation
from dashboard.roles import REHEARSAL_GROUP, Role

log = structlog.get_logger(__name__)

LONGEST_GROUP_NAME = 150  # Django's
LINK_LIVES = timedelta(hours=24)


class AccountError(Exception):
    """An account could not be made or changed; the message is a sentence for the person who asked."""


def find(name: str) -> User:
    """Raises AccountError when there is no such account."""
    try:
        return User.objects.get(username=name)
    except User.DoesNotExist as error:
        raise AccountError(f"there is no account {name}") from error


def add(name: str, role: Role, password: str | None, *, rehearsal: bool = False, cluster: str = "") -> User:
    """A new account, with its role on one cluster or (cluster "") on every one.

    Without a password nobody can sign in to it until a link was used. The rehearsal's accounts may have weak passwords, and are
    marked, so that they are refused where a real cluster is watched.
    Raises AccountError.
    """
    user = User(username=name)
    try:
        user.full_clean(exclude=["password"])
        if password is not None and not rehearsal:
            validate_password(password, user)
    except ValidationError as error:
        raise AccountError(" ".join(error.messages)) from error
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
            user.groups.set(_groups(_group(role, cluster), *([REHEARSAL_GROUP] if rehearsal else [])))
            Invitation.objects.filter(user=None, used_at=None).delete()  # this was the first account
    except IntegrityError as error:
        raise AccountError(f"there is an account {name} already") from error
    log.info("an account was made", user=name, role=role.value)
    return user


def set_role(user: User, role: Role | None, cluster: str = "") -> None:
    """Exactly this role on one cluster from now on, or (cluster "") everywhere; None takes it away. Other groups stay.

    Raises AccountError.
    """
    wanted = [] if role is None else [_group(role, cluster)]
    held = [g for g in user.groups.all() if (found := roles.parsed(g.name)) is not None and found[1] == cluster]
    with transaction.atomic():
        user.groups.remove(*held)
        user.groups.add(*_groups(*wanted))
        goodbyes.announce()
    log.info("a role was changed", user=user.get_username(), role=role and role.value, cluster=cluster or "every one")


def disable(user: User, now: datetime | None = None) -> None:
    """Nobody signs in as this account any more; its sessions, tokens and links end."""
    now = now or timezone.now()
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(is_active=False)
        ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
        Invitation.objects.filter(user=user, used_at=None).delete()
        goodbyes.announce()
    log.info("an account was disabled", user=user.get_username())


def enable(user: User) -> None:
    """Its sessions that have not expired work again, its tokens do not."""
    User.objects.filter(pk=user.pk).update(is_active=True)
    log.info("an account was enabled", user=user.get_username())


def link(user: User | None, now: datetime | None = None) -> str:
    """The path of a page, good for one use within 24 h, where its holder chooses the password of `user`.

    Without a user: where the first account is made. An earlier link for the same purpose ends.
    """
    now = now or timezone.now()
    text = tokens.secret()
    with transaction.atomic():
        Invitation.objects.filter(Q(user=user) if user else Q(user=None), used_at=None).delete()
        Invitation.objects.create(user=user, digest=tokens.digest(text), created_at=now, expires_at=now + LINK_LIVES)
    return reverse("welcome", args=[text])


def first_link(now: datetime | None = None) -> str:
    """The path where the first account is made; "" when there is an account already."""
    return "" if User.objects.filter(is_active=True).exists() else link(None, now)


def invitation(text: str, now: datetime | None = None) -> Invitation | None:
    """The link behind the text of its address, while it works."""
    live = Invitation.objects.filter(Q(user=None) | Q(user__is_active=True), used_at=None)
    return live.select_related("user").filter(digest=tokens.digest(text), expires_at__gt=now or timezone.now()).first()


def redeem(found: Invitation, password: str, name: str = "", now: datetime | None = None) -> User:
    """Use a link up: set the password of its account, or make the first account, which may do everything.

    Of two people who use it at the same time, one gets it. Raises AccountError.
    """
    with transaction.atomic():
        if not Invitation.objects.filter(pk=found.pk, used_at=None).update(used_at=now or timezone.now()):
            raise AccountError("this link was used already")
        if found.user is None:
            return add(name, Role.APPROVER, password)
        found.user.set_password(password)
        found.user.save(update_fields=["password"])
        goodbyes.announce()
    log.info("a password was changed through a link", user=found.user.get_username())
    return found.user


def _group(role: Role, cluster: str) -> str:
    name = roles.group_name(role, cluster)
    if len(name) > LONGEST_GROUP_NAME:
        raise AccountError(f"the name of cluster {cluster} is too long for a role of its own; give the role everywhere")
    return name


def _groups(*names: str) -> list[Group]:
    return [Group.objects.get_or_create(name=name)[0] for name in names]
