"""Findings of restart readiness as SARIF 2.1.0, which code hosts show beside the lines.

Owns the document's shape (OASIS, sarif-schema-2.1.0). Must not judge nor read files.
"""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from dashboard.panels.readiness import name, sentence, spoken, why
from fleet.domain.readiness import Finding, Rule, Severity

VERSION: Final = "2.1.0"
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def document(findings: Iterable[Finding]) -> dict[str, Any]:
    """One run; every rule is described, whether it found something or not."""
    driver = {"name": "vigie", "rules": [_rule(rule) for rule in Rule]}
    results = [_result(finding) for finding in findings]
    return {"$schema": SCHEMA, "version": VERSION, "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.value,
        "name": rule.name.title().replace("_", ""),
        "shortDescription": {"text": spoken(name(rule))},
        "fullDescription": {"text": spoken(why(rule))},
    }


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.rule.value,
        "ruleIndex": list(Rule).index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": spoken(sentence(finding))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.file)},
                    "region": {"startLine": max(1, finding.line)},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.object, "kind": "object"}],
            }
        ],
        "properties": {"remedy": finding.remedy},
    }
