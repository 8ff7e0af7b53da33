"""`manage.py user`: accounts, made and changed by whoever can log in to the machine that Vigie runs on."""

import argparse
import getpass
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from dashboard import access, accounts, clusters, running
from dashboard.roles import REHEARSAL_GROUP, Role

NO_ROLE = "none"


class Command(BaseCommand):
    help = "Make, list and change the accounts of people."
    requires_system_checks = ()  # they would load every page and the API; somebody waits for this

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True)
        add = what.add_parser("add", help="make an account; asks for its password")
        add.add_argument("name")
        add.add_argument("--role", required=True, choices=[role.value for role in Role])
        how = add.add_mutually_exclusive_group()
        how.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
        how.add_argument("--link", action="store_true", help="no password: print a one-time link to choose one")
        what.add_parser("list", help="every account with its role")
        role = what.add_parser("role", help="give an account another role")
        role.add_argument("name")
        role.add_argument("role", choices=[*(role.value for role in Role), NO_ROLE])
        for parser_ in (add, role):
            parser_.add_argument("--cluster", default="", help="only on this cluster (default: on every one)")
        for word, text in (
            ("link", "print a link, good once within 24 h, to choose a new password"),
            ("disable", "end an account's sessions, tokens and sign-in"),
            ("enable", "let a disabled account sign in again"),
        ):
            what.add_parser(word, help=text).add_argument("name")

    def handle(self, *_args: Any, what: str, **options: Any) -> None:
        if options.get("cluster") and (note := clusters.unwatched(options["cluster"])):
            self.stderr.write(note)
        try:
            getattr(self, f"_{what}")(options)
        except accounts.AccountError as error:
            raise CommandError(str(error)) from error

    def _add(self, options: dict[str, Any]) -> None:
        password = None if options["link"] else _password(from_stdin=options["password_stdin"])
        user = accounts.add(options["name"], Role(options["role"]), password, cluster=options["cluster"])
        self.stderr.write(f"Account {user.username} can sign in as {access.roles_of(user)}.")
        if options["link"]:
            self._print_link(user)

    def _list(self, _options: dict[str, Any]) -> None:
        for user in User.objects.prefetch_related("groups").order_by("username"):
            held = str(access.roles_of(user)) or "no role" if user.is_active else "disabled"
            mark = "\trehearsal" if REHEARSAL_GROUP in {group.name for group in user.groups.all()} else ""
            self.stdout.write(f"{user.username}\t{held}{mark}")

    def _role(self, options: dict[str, Any]) -> None:
        role = None if options["role"] == NO_ROLE else Role(options["role"])
        accounts.set_role(accounts.find(options["name"]), role, options["cluster"])

    def _link(self, options: dict[str, Any]) -> None:
        user = accounts.find(options["name"])
        if not user.is_active:
            raise CommandError(f"the account {user.username} is disabled; enable it first")
        self._print_link(user)

    def _disable(self, options: dict[str, Any]) -> None:
        accounts.disable(accounts.find(options["name"]))

    def _enable(self, options: dict[str, Any]) -> None:
        accounts.enable(accounts.find(options["name"]))

    def _print_link(self, user: User) -> None:
        home = str(settings.VIGIE_HOME)
        found = next((instance for instance in running.read() if instance.home == home), None)
        self.stderr.write("Good once, within 24 h:")
        self.stdout.write((found.address.rstrip("/") if found else "") + accounts.link(user))


def _password(*, from_stdin: bool) -> str:
    """From a pipe, or typed twice; never from the command line, which other accounts of the machine can read."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        raise CommandError("nobody can type a password here: use --password-stdin or --link")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise CommandError("the two passwords differ")
    return password
