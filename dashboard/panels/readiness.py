"""Restart readiness in words: findings by workload, the badge of a workload, and what the list can be narrowed to.

Owns how findings are shown, grouped and filtered. Must not hold wording (readiness_patterns.py) or rules (the domain's).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from dashboard.panels.cadence import length
from dashboard.panels.fleet import KeyNumber
from dashboard.panels.order import natural
from dashboard.panels.words import Text, Value, plain, say
from fleet.domain.readiness import Finding, Report, Rule, Severity, Subject

LEVELS: Final = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: ""}
GLYPHS: Final = {Severity.ERROR: "s-bad", Severity.WARNING: "s-warn", Severity.INFO: "s-info"}
RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}
NOUNS: Final = {  # facts that are told with what they count
    "pods": "pods",
    "replicas": "readiness.replicas",
    "surge": "pods",
    "slots": "pods",
    "gpus": "gpus",
    "nodes": "nodes",
}
EVERYTHING: Final = "all"
PART: Final = 50  # workloads on one page


@dataclass(frozen=True, slots=True)
class Told:
    """One finding. `where`: the object that it is about, where that is not the workload itself."""

    rule: str
    severity: str
    level: str
    glyph: str
    name: Text
    sentence: Text
    why: Text
    where: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Group:
    """One workload with its findings, the worst first."""

    kind: str
    namespace: str
    name: str
    gpus: int
    level: str
    badge: Text
    findings: tuple[Told, ...]

    @property
    def id(self) -> str:
        return f"w-{self.kind}-{self.namespace}-{self.name}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the findings is shown; "" does not narrow. `of`: EVERYTHING also shows workloads without GPUs."""

    rule: str = ""
    severity: str = ""
    namespace: str = ""
    q: str = ""
    of: str = ""
    part: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "").strip()[:253] for name in cls.__slots__})

    def shows(self, subject: Subject) -> bool:
        manifest = subject.manifest
        return (
            (self.of == EVERYTHING or bool(subject.gpus))
            and self.namespace in {"", manifest.namespace}
            and self.q.lower() in manifest.key.lower()
        )

    def takes(self, finding: Finding) -> bool:
        return self.rule in {"", finding.rule.value} and self.severity in {"", finding.severity.value}

    @property
    def narrows(self) -> bool:
        return bool(self.rule or self.severity)


def sentence(finding: Finding) -> Text:
    """What is wrong, in the reader's language."""
    key = f"readiness.{finding.rule.value}" + (f".{finding.case}" if finding.case else "")
    return say(key, **{name: _fact(name, value) for name, value in finding.facts.items()})


def _fact(name: str, value: str | float) -> Value:
    if isinstance(value, str):
        return value
    if name.endswith("_s"):
        return length(value)
    return say(NOUNS[name], n=int(value)) if name in NOUNS else int(value)


def name(rule: Rule) -> Text:
    return say(f"readiness-name.{rule.value}")


def why(rule: Rule) -> Text:
    return say(f"readiness-why.{rule.value}")


def badge(findings: Iterable[Finding]) -> Text:
    """How a workload is, in a few words: "1 error · 2 warnings", "nothing found"."""
    found = list(findings)
    counts = {severity: sum(one.severity is severity for one in found) for severity in Severity}
    told = [say(f"readiness.{severity.value}s", n=n) for severity, n in counts.items() if n]
    return tuple(told) or say("readiness.nothing")


def level(findings: Iterable[Finding]) -> str:
    worst = min((RANK[one.severity] for one in findings), default=None)
    return "ok" if worst is None else LEVELS[tuple(Severity)[worst]]


def told(finding: Finding, key: str) -> Told:
    return Told(
        finding.rule.value,
        finding.severity.value,
        LEVELS[finding.severity],
        GLYPHS[finding.severity],
        name(finding.rule),
        sentence(finding),
        why(finding.rule),
        "" if finding.object == key else finding.object.replace("//", "/"),
        finding.remedy,
    )


def group(subject: Subject, findings: Iterable[Finding]) -> Group:
    manifest = subject.manifest
    found = sorted(findings, key=lambda one: (RANK[one.severity], one.rule))
    return Group(
        manifest.kind,
        manifest.namespace,
        manifest.object.metadata.name,
        sum(subject.gpus.values()),
        level(found),
        badge(found),
        tuple(told(one, manifest.key) for one in found),
    )


def groups(report: Report, choice: Choice) -> list[Group]:
    """Workloads that are shown, those with errors first; narrowed by rule or severity, those that have such a finding."""
    own = report.by_workload()
    shown = [subject for subject in report.subjects if choice.shows(subject)]
    found = [group(one, filter(choice.takes, own[one.manifest.key])) for one in shown]
    if choice.narrows:
        found = [one for one in found if one.findings]
    order = {"bad": 0, "warn": 1, "": 2, "ok": 3}
    return sorted(found, key=lambda one: (order[one.level], natural(one.name), one.namespace))


def part(found: Sequence[Group], choice: Choice) -> tuple[Sequence[Group], int, int]:
    """One page of them, its number from 1, and how many pages there are."""
    pages = max(1, -(-len(found) // PART))
    number = min(pages, max(1, int(choice.part))) if choice.part.isdecimal() and len(choice.part) < 7 else 1
    return found[(number - 1) * PART : number * PART], number, pages


def numbers(found: Sequence[Group], choice: Choice) -> list[KeyNumber]:
    """Findings by severity, each once though several workloads share a budget; and the workloads without any."""
    told_ = {(one.severity, one.rule, one.where or each.id) for each in found for one in each.findings}
    counts = {severity: sum(one[0] == severity.value for one in told_) for severity in Severity}
    having = {s: sum(any(one.severity == s.value for one in each.findings) for each in found) for s in Severity}
    numbered = [
        KeyNumber(s.value, n, note=say("readiness.of-workloads", n=having[s]), level=LEVELS[s] if n else "")
        for s, n in counts.items()
    ]
    if choice.narrows:
        return numbered
    clean = sum(not each.findings for each in found)
    return [*numbered, KeyNumber("clean", clean, note=say("readiness.of-all", n=len(found)))]


def rules(report: Report) -> list[Rule]:
    """Those that found something."""
    return sorted({one.rule for one in report.findings})


def namespaces(report: Report) -> list[str]:
    return sorted({one.manifest.namespace for one in report.subjects}, key=natural)


def spoken(text: Text) -> str:
    """Without markup, for programs and terminals."""
    return plain(text, 0)
