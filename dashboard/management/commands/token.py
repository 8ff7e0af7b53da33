"""`manage.py token`: API tokens, made, listed and revoked by whoever can log in to the machine that Vigie runs on."""

import argparse
import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard import access, accounts, clusters, tokens
from dashboard.models import ApiToken, Scope
from dashboard.roles import Role

LONGEST_DAYS = 3650
SCOPES = {
    Scope.READ: "reading",
    Scope.ACT: "reading and acting",
    Scope.REPORT: "reporting what a workload has saved",
}
WORKLOAD = re.compile(r"[A-Za-z]+/[^/\s]+/[^/\s]+")


class Command(BaseCommand):
    help = "Print a new API token of an account, once. The token is all that goes to standard output."
    requires_system_checks = ()  # they would load every page and the API; somebody waits for this

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", nargs="?", help="account that the token acts as")
        parser.add_argument("--name", default="command line", help="what it is for (default: %(default)s)")
        parser.add_argument("--days", type=int, default=90, help="how long it lives (default: %(default)s)")
        parser.add_argument("--cluster", default="", help="only this cluster (default: every one that USER may see)")
        parser.add_argument(
            "--workload", default="", metavar="KIND/NAMESPACE/NAME", help="for scope report: whose saves"
        )
        scopes = ("read", "act", "report")
        parser.add_argument(
            "--scope",
            choices=scopes,
            default="read",
            help="act: also change what USER's role may change; report: nothing but POST /api/v1/checkpoints",
        )
        parser.add_argument("--list", action="store_true", help="list tokens, of USER or of everybody, instead")
        parser.add_argument("--revoke", type=int, metavar="ID", help="end the token with this number instead")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["revoke"] is not None:
            self._revoke(options["revoke"])
        elif options["list"]:
            self._list(options["user"])
        else:
            self._issue(options["user"], options["name"], options["days"], options["cluster"], _bound(options))

    def _issue(self, name: str | None, purpose: str, days: int, cluster: str, bound: tuple[Scope, str]) -> None:
        if name is None:
            raise CommandError("name the account that the token acts as: manage.py token USER")
        if not 1 <= days <= LONGEST_DAYS:
            raise CommandError(f"--days must be between 1 and {LONGEST_DAYS}")
        try:
            user = accounts.find(name)
        except accounts.AccountError as error:
            raise CommandError(str(error)) from error
        role = access.role_of(user, cluster or None)
        if role is None:
            where = f" on cluster {cluster}" if cluster else ""
            raise CommandError(
                f"the account {name} is disabled or has no role{where}, so a token of it could do nothing"
            )
        scope, workload = bound
        if scope is Scope.ACT and role is Role.VIEWER:
            raise CommandError(
                f"the account {name} is a viewer, so a token of it could change nothing; leave out --scope act"
            )
        if cluster and (note := clusters.unwatched(cluster)):
            self.stderr.write(note)
        text, token = tokens.issue(user, purpose, days, cluster=cluster, scope=scope, workload=workload)
        self.stderr.write(
            f"Token {token.pk} of {name} ({role}), good for {SCOPES[scope]} until {token.expires_at:%Y-%m-%d}:"
        )
        self.stdout.write(text)

    def _revoke(self, pk: int) -> None:
        if not tokens.revoke(pk):
            raise CommandError(f"there is no token {pk} that could be revoked")
        self.stderr.write(f"Token {pk} no longer works.")

    def _list(self, name: str | None) -> None:
        found = ApiToken.objects.select_related("user").order_by("pk")
        for token in found.filter(user__username=name) if name else found:
            used = f"last used {token.last_used_at:%Y-%m-%d}" if token.last_used_at else "never used"
            where = " ".join(filter(None, (token.cluster or "every cluster", token.workload)))
            self.stdout.write(
                f"{token.pk}\t{token.user.get_username()}\t{token.name}\t{_state(token)}\t{used}"
                f"\t{SCOPES[Scope(token.scope)]}\t{where}"
            )


def _bound(options: dict[str, Any]) -> tuple[Scope, str]:
    """The scope and the workload that it is bound to. Raises CommandError."""
    scope, workload = Scope(options["scope"]), options["workload"]
    if scope is not Scope.REPORT:
        if workload:
            raise CommandError("--workload is for --scope report")
        return scope, ""
    if not options["cluster"] or not WORKLOAD.fullmatch(workload):
        raise CommandError("--scope report needs --cluster and --workload Kind/namespace/name")
    return scope, workload


def _state(token: ApiToken) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    word = "expired" if token.expires_at <= timezone.now() else "until"
    return f"{word} {token.expires_at:%Y-%m-%d}"
