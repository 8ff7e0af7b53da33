"""What guards found, as people read it: the finding, its evidence, the remedy, and whether it may be lifted.

Owns which evidence goes where. Must not judge: outcomes, remedies and who may lift a block are the guards'.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboard.panels import words
from dashboard.panels.measures import duration, size
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.words import Clock, Text, Value, say
from dashboard.roles import Role
from fleet.domain.guards import PODS
from fleet.domain.plans import Check, Outcome

LEVELS = {Outcome.PASS: ("ok", "s-ok"), Outcome.WARN: ("warn", "s-warn"), Outcome.BLOCK: ("bad", "s-bad")}
COUNTS = {"requests": "requests", "checkpoint": "gpus", "gang": "pods"}  # the evidence that chooses singular or plural
UNFIT = "nodes-"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `lifts`: what a waiver of this person would name, "" when they may not lift it."""

    level: str
    glyph: str
    title: Text
    why: Text
    remedy: Text
    lifts: str = ""
    lifted_by: str = ""  # the role that may, "" nobody
    number: int = 0  # of the waiver on the page
    typed: str = ""  # the reason that was typed for it
    chosen: bool = False


def finding(check: Check) -> Finding:
    level, glyph = LEVELS[check.outcome]
    return Finding(level, glyph, title(check), why(check), remedy(check), lifted_by=check.waivable_by)


def title(check: Check) -> Text:
    """The finding in one sentence. A token that has none yet (a plan of another version) is shown as it is."""
    key = f"guard.{check.guard}.{check.reason}" if check.reason else f"guard.{check.guard}"
    return say(key, **_values(check)) if key in MESSAGES else (check.guard, check.reason, check.subject)


def why(check: Check) -> Text:
    """The evidence in a sentence, "" when the finding says it all."""
    key = f"guard.{check.guard}.{check.reason}.why"
    return say(key, **_values(check)) if key in MESSAGES else ""


def remedy(check: Check) -> Text:
    key = f"remedy.{check.remedy}"
    return say(key) if key in MESSAGES else check.remedy


def sentence(check: Check, now: float) -> str:
    """The whole of a check in plain text, for programs."""
    told = [words.plain(text, now) for text in (title(check), why(check), remedy(check))]
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in told if text)


def _values(check: Check) -> dict[str, Value]:
    found = dict(check.evidence)
    values: dict[str, Value] = {name: _value(name, value) for name, value in found.items()}
    values["subject"] = check.subject.rsplit("/", 1)[-1] if check.guard in PODS else check.subject
    count = found.get(COUNTS.get(check.guard, ""))
    values["n"] = int(count) if isinstance(count, int | float) else 2
    if check.guard in {"placement", "gang"}:
        gpus = found.get("gpus")
        values["gpus"] = say("gpus", n=int(gpus)) if isinstance(gpus, int | float) else None
        values["nodes"] = _unfit(found)
    return values


def _value(name: str, value: str | int | float | None) -> Value:
    if name == "bytes":
        return size(value)
    if isinstance(value, int | float):
        if name.endswith("_at"):
            return Clock(float(value))
        return duration(value) if name.endswith("_s") else int(value)
    return value.rstrip(".") if name == "why" and value else value


def _unfit(found: Mapping[str, str | int | float | None]) -> Text:
    """Why the other nodes do not take a pod, the most frequent reason first."""
    told = [
        words.plain(say(f"guard.unfit.{name.removeprefix(UNFIT)}", n=count), 0)
        for name, count in found.items()
        if name.startswith(UNFIT) and isinstance(count, int)
    ]
    return ", ".join(told) or say("guard.unfit.none")


@dataclass(frozen=True, slots=True)
class Findings:
    """All checks of a plan: what blocks, what warns, what passed."""

    blocks: list[Finding]
    warnings: list[Finding]
    passed: list[Finding]


def findings(checks: Iterable[Check], role: Role | None, given: Mapping[str, str] | None = None) -> Findings:
    """`role`: of whoever looks, on this cluster. `given`: the waivers that were typed already, reason by check."""
    found = Findings([], [], [])
    numbers: dict[str, int] = {}
    for check in checks:
        one = finding(check)
        if check.outcome is Outcome.BLOCK:
            may = bool(check.waivable_by) and role is not None and role.includes(Role(check.waivable_by))
            first = check.key not in numbers  # several volumes of a pod are lifted together
            numbers.setdefault(check.key, len(numbers))
            found.blocks.append(
                Finding(
                    one.level,
                    one.glyph,
                    one.title,
                    one.why,
                    one.remedy,
                    lifts=check.key if may and first else "",
                    lifted_by=check.waivable_by,
                    number=numbers[check.key],
                    typed=(given or {}).get(check.key, ""),
                    chosen=check.key in (given or {}),
                )
            )
        else:
            (found.warnings if check.outcome is Outcome.WARN else found.passed).append(one)
    return found


def all_liftable(checks: Iterable[Check], role: Role | None) -> bool:
    """Whether this person could lift every block with a reason."""
    blocks = [check for check in checks if check.outcome is Outcome.BLOCK]
    return all(check.waivable_by and role is not None and role.includes(Role(check.waivable_by)) for check in blocks)
