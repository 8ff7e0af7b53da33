"""`manage.py prepare`: the database and the first accounts, before anything serves. Called by the launcher."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from dashboard import access, accounts
from dashboard.roles import Role
from fleet import wiring


class Command(BaseCommand):
    help = "Migrate the database, make or refuse the rehearsal's accounts, and offer a link for the first account."

    requires_system_checks = ()  # the tests run them; here they would only cost start-up time

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--rehearsal-account",
            action="append",
            default=[],
            choices=[role.value for role in Role],
            help="make sure of an account of this role whose name is its password; may be repeated",
        )

    def handle(self, *_args: Any, rehearsal_account: list[str], **_options: Any) -> None:
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except DatabaseError as error:
            raise CommandError(f"the database cannot be used: {str(error).splitlines()[0]}") from error
        self._check_policies()
        if not rehearsal_account:
            self._check_clusters()
        found = access.rehearsal_accounts()
        if found and not rehearsal_account:
            names = ", ".join(found)
            raise CommandError(
                f"this database has the rehearsal's accounts ({names}), whose passwords are public; "
                "use another home, or disable them with `manage.py user disable`"
            )
        for name in rehearsal_account:
            if name not in found:
                accounts.add(name, Role(name), name, rehearsal=True)
        self.stdout.write(json.dumps({"link": "" if rehearsal_account else accounts.first_link()}))

    @staticmethod
    def _check_policies() -> None:
        """A mistake in the policy file is told before anything runs that would be bound by it, with its line."""
        try:
            wiring.policies()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error

    @staticmethod
    def _check_clusters() -> None:
        """A kubeconfig that names no cluster is said here, once, and not by every process that reads it."""
        try:
            names = wiring.sites()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        if settings.VIGIE_KUBECONFIG and not names:
            raise CommandError(f"the kubeconfig {settings.VIGIE_KUBECONFIG} has no context")
