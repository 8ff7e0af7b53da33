"""`manage.py audit verify`: whether the chain of audit entries is as it was written. Reads the ledger itself."""

import argparse
import csv
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.act import audit
from fleet.models import AuditEntry

WHY = {
    "changed": "its content is not what was sealed",
    "missing": "it is missing",
    "unsealed": "it does not seal the entry before it",
    "head": "the end of the chain is not the last entry",
}
COLUMNS = ("number", "at", "cluster", "actor", "via", "what", "action", "kind", "target", "facts", "previous", "hash")


class Command(BaseCommand):
    help = "Verify the audit chain, or export it. `verify` exits 1 and names the first broken entry."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("way", choices=("verify", "export"))
        parser.add_argument(
            "--format", choices=("json", "csv"), default="json", help="of the export (default: %(default)s)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["way"] == "export":
            self._export(options["format"])
            return
        found = audit.verify()
        if found.broken is not None:
            raise CommandError(f"entry #{found.broken}: {WHY[found.why]}; {found.entries} entries before it are intact")
        self.stdout.write(f"{found.entries} entries, all intact. Head: {found.head}")

    def _export(self, form: str) -> None:
        rows = AuditEntry.objects.order_by("number").values(*COLUMNS).iterator(chunk_size=500)
        if form == "json":
            for row in rows:
                self.stdout.write(json.dumps(row))
            return
        writer = csv.writer(self.stdout)
        writer.writerow(COLUMNS)
        for row in rows:
            plain = [row[name] for name in COLUMNS[:-3]]
            writer.writerow([*plain, json.dumps(row["facts"]), row["previous"], row["hash"]])
