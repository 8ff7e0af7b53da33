"""`manage.py readiness FILE…`: what of these manifests makes a restart lose work or requests. Asks no cluster."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from django.core.management.base import BaseCommand
from django.utils import translation

from dashboard.panels import sarif
from dashboard.panels.readiness import sentence, spoken, why
from fleet import wiring
from fleet.domain import readiness
from fleet.domain.documents import Unreadable, read
from fleet.domain.manifests import Manifest
from fleet.domain.readiness import Finding, Report, Severity

NOTHING, WARNINGS, ERRORS, UNREADABLE = 0, 1, 2, 3
STDIN: Final = "-"
MOST_BYTES: Final = 4 * 1024 * 1024 + 1  # one more than what the reader refuses


class Command(BaseCommand):
    help = (
        "Judge Kubernetes manifests by the rules of restart readiness (the help page lists them); all files together are one "
        "cluster. Exit 0: nothing, or notes alone. 1: warnings. 2: errors. 3: a file that cannot be read, and no answer."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = argparse.SUPPRESS  # so that an error is one line
        parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON, several documents; - reads stdin")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="for programs: {findings: [...]}")
        form.add_argument("--sarif", action="store_true", help="SARIF 2.1.0, for code hosts")

    def handle(self, *_args: Any, files: list[str], **options: Any) -> None:
        try:
            report = readiness.report([one for name in files for one in self._manifests(name)])
        except Unreadable as error:
            self._refuse(str(error))
        with translation.override("en"):
            self.stdout.write("\n".join(_told(report, options)))
        for doubt in report.doubts:
            self.stderr.write(f"{doubt.file}:{doubt.line}: {doubt.annotation} is no duration and counts as not there")
        worst = {finding.severity for finding in report.findings}
        if code := ERRORS if Severity.ERROR in worst else WARNINGS if Severity.WARNING in worst else NOTHING:
            raise SystemExit(code)

    def _manifests(self, name: str) -> Iterator[Manifest]:
        """Raises Unreadable with the file's name and line in its words."""
        file = "stdin" if name == STDIN else name
        try:
            for document in wiring.documents(file, _content(name)):
                yield from read(document)
        except Unreadable as error:
            raise Unreadable(f"{file}:{error.line}: {error}" if error.line else f"{file}: {error}") from None

    def _refuse(self, why: str) -> NoReturn:
        self.stderr.write(f"readiness: {why}")
        raise SystemExit(UNREADABLE)


def _content(name: str) -> bytes:
    """No more than what shows that a file is too large. Raises Unreadable."""
    if name == STDIN:
        return sys.stdin.buffer.read(MOST_BYTES)
    path = Path(name)
    if path.is_dir():
        raise Unreadable("a directory; name the files in it")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise Unreadable(f"{error.strerror}") from None


def _told(report: Report, options: dict[str, Any]) -> list[str]:
    if options["json"]:
        return [
            json.dumps({"findings": [_plain(finding) for finding in report.findings]}, indent=1, ensure_ascii=False)
        ]
    if options["sarif"]:
        return [json.dumps(sarif.document(report.findings), indent=1, ensure_ascii=False)]
    lines = [line for finding in report.findings for line in _lines(finding)]
    counts = ", ".join(f"{n} {severity.value}{'' if n == 1 else 's'}" for severity, n in report.counts.items() if n)
    workloads = len(report.subjects)
    return [*lines, f"{workloads} workload{'' if workloads == 1 else 's'}: {counts or 'nothing found'}"]


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.value,
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "object": finding.object,
        "message": spoken(sentence(finding)),
        "remedy": finding.remedy,
    }


def _lines(finding: Finding) -> list[str]:
    """A finding where editors find the place, why it matters, and its remedy indented."""
    place = f"{finding.file}:{finding.line}: {finding.severity.value} {finding.rule.value}"
    remedy = [f"    | {line}" for line in finding.remedy.splitlines()]
    return [f"{place} {finding.object}: {spoken(sentence(finding))}", f"    {spoken(why(finding.rule))}", *remedy]
