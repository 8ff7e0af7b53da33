"""What guards found, as people read it: the finding, its evidence, the remedy, and whether it may be lifted.

Owns which evidence goes where. Must not judge: outcomes, remedies and who may lift a block are the guards'.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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


MANY = 3  # so many pods of which a guard says the same are told in one line


@dataclass(frozen=True, slots=True)
class Each:
    """One of the pods of a finding about many."""

    name: str
    words: Text


@dataclass(frozen=True, slots=True)
class Finding:
    """One check, or the checks about many pods (`each`) that are alike. `lifts`: what the form names to lift it, "" when this
    person may not."""

    level: str
    glyph: str
    title: Text
    why: Text
    remedy: Text
    each: tuple[Each, ...] = ()
    lifts: str = ""
    lifted_by: str = ""  # the role that may, "" nobody
    number: int = 0  # of the waiver on the page
    typed: str = ""  # the reason that was typed for it
    chosen: bool = False

    @property
    def count(self) -> int:
        return max(1, len(self.each))


def finding(check: Check, *more: Check) -> Finding:
    """`more`: further checks that are like it."""
    level, glyph = LEVELS[check.outcome]
    if not more:
        return Finding(level, glyph, title(check), why(check), remedy(check), lifted_by=check.waivable_by)
    alike = (check, *more)
    same = why(check) if len({words.plain(why(one), 0.0) for one in alike}) == 1 else ""
    each = tuple(Each(one.subject, title(one) if same else (title(one), why(one))) for one in alike)
    count = len({one.subject for one in alike})
    return Finding(level, glyph, _of_many(check, count), same, remedy(check), each, lifted_by=check.waivable_by)


def _of_many(check: Check, count: int) -> Text:
    """What a guard says of so many pods: in words of the reason, else of the guard."""
    names = (f"guard.{check.guard}.{check.reason}.many", f"guard.{check.guard}.many", "guard.many")
    return say(next(name for name in names if name in MESSAGES), n=count)


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
    if check.guard in {"placement", "gang", "room"}:
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
    for alike in together(checks):
        match alike[0].outcome:
            case Outcome.BLOCK:
                found.blocks.append(_waivable(alike, role, given or {}, numbers))
            case Outcome.WARN:
                found.warnings.append(finding(*alike))
            case Outcome.PASS:
                found.passed.append(finding(*alike))
    return found


def together(checks: Iterable[Check]) -> list[tuple[Check, ...]]:
    """The checks in their order; those that say the same of many pods stand together."""
    alike: dict[tuple[str, ...], list[Check]] = {}
    for check in checks:
        alike.setdefault(_kind(check), []).append(check)
    return [group for found in alike.values() for group in _split(found)]


def _kind(check: Check) -> tuple[str, ...]:
    return (check.outcome, check.guard, check.reason, check.remedy, check.waivable_by)


def _split(alike: list[Check]) -> list[tuple[Check, ...]]:
    many = alike[0].guard in PODS and len({check.subject for check in alike}) >= MANY
    return [tuple(alike)] if many else [(check,) for check in alike]


def _waivable(
    alike: tuple[Check, ...], role: Role | None, given: Mapping[str, str], numbers: dict[str, int]
) -> Finding:
    check, token = alike[0], _lifts(alike)
    may = bool(check.waivable_by) and role is not None and role.includes(Role(check.waivable_by))
    first = token not in numbers  # several volumes of a pod are lifted together
    number = numbers.setdefault(token, len(numbers))
    typed, chosen = given.get(check.key, ""), check.key in given
    return replace(finding(*alike), lifts=token if may and first else "", number=number, typed=typed, chosen=chosen)


def _lifts(alike: tuple[Check, ...]) -> str:
    """What the form names to lift these checks. No pod's name has a star in it."""
    return alike[0].key if len(alike) == 1 else ":".join(("*", *_kind(alike[0])[1:4]))


def lifted(checks: Iterable[Check], given: Mapping[str, str]) -> dict[str, str]:
    """The waivers that a form gives, by check: what was said of many counts for each of them. A name that the plan does not have
    stays as it is, for the guards to pass over."""
    every = {_lifts(alike): [check.key for check in alike] for alike in together(checks)}
    return {key: why for token, why in given.items() for key in every.get(token, [token])}


def all_liftable(checks: Iterable[Check], role: Role | None) -> bool:
    """Whether this person could lift every block with a reason."""
    blocks = [check for check in checks if check.outcome is Outcome.BLOCK]
    return all(check.waivable_by and role is not None and role.includes(Role(check.waivable_by)) for check in blocks)
