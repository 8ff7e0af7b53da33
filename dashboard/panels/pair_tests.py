"""The smoke test of a blue/green pair: what is asked of the new side, and how it ended the last times.

Owns which of the ledger's evidence is told. Must not judge an answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dashboard.panels import checks
from dashboard.panels.checks import Finding
from dashboard.panels.measures import known
from dashboard.panels.pair import Fact
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.words import Clock, Text, say
from fleet.act.sides import Opened
from fleet.domain import smoke
from fleet.domain.plans import StepState
from fleet.domain.releases import Release
from fleet.domain.smoke import Request

MOST = 5  # of the last tests
STATES = {
    StepState.DONE: ("ok", "s-ok", "done"),
    StepState.FAILED: ("bad", "s-bad", "failed"),
    StepState.SKIPPED: ("off", "s-off", "skipped"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """`facts`: the request; `wrong`: why there is none that could be sent."""

    origin: Text
    facts: list[Fact]
    wrong: list[Finding]


def asked(opened: Opened) -> Asked | None:
    """Of the first side that could serve; None when there is none."""
    one = next((found for found in opened.prospects if found.kind == "switch"), None)
    if one is None:
        return None
    request = one.release.asked
    if not isinstance(request, Request):
        return Asked("", [], [checks.finding(check) for check in one.checks if check.guard == "smoke"])
    return Asked(_origin(one.release), list(_request(request)), [])


def _origin(release: Release) -> Text:
    side = release.to.name if release.to else ""
    if release.service is not None and smoke.DECLARED in release.service.metadata.annotations:
        return say("pair.ask.service")
    template = (release.workload.template.get("metadata") or {}) if release.workload else {}
    on_pods = smoke.DECLARED in (template.get("annotations") or {})
    return say("pair.ask.pods" if on_pods else "pair.ask.probe", side=side)


def _request(found: Request) -> Iterable[Fact]:
    port = say("pair.ask.first-port") if found.port is None else say("pair.ask.port", port=str(found.port))
    yield Fact(say("pair.fact.request"), f"GET {found.path}", port)
    status = (
        say("pair.expects.success") if found.status is None else say("pair.expects.status", status=str(found.status))
    )
    yield Fact(say("pair.fact.expects"), status, _content(found))
    tenths = round(found.within_s * 10)
    yield Fact(say("pair.fact.within"), say("pair.within", whole=tenths // 10, tenth=tenths % 10))


def _content(found: Request) -> Text:
    told: list[Text] = []
    if found.contains:
        told.append(say("pair.expects.contains", text=found.contains))
    if found.json and found.equals is None:
        told.append(say("pair.expects.value", path=found.json))
    elif found.json:
        told.append(say("pair.expects.equals", path=found.json, value=str(found.equals)))
    return tuple(told)


@dataclass(frozen=True, slots=True)
class Tested:
    """One test of an action. `passed`: of how many pods; `faults`: pod by pod."""

    number: int
    action: str
    side: str
    at: Text
    passed: Text
    slowest: Text
    level: str
    glyph: str
    word: Text
    faults: list[Text]


def tested(rows: Iterable[Any]) -> list[Tested]:
    """`rows`: smoke steps of the ledger, newest first, each with its action and that action's steps."""
    return [_tested(row) for row in rows]


def _tested(row: Any) -> Tested:
    level, glyph, word = STATES.get(row.state, ("run", "s-run", "now"))
    found, at = row.evidence, row.done_at or row.started_at
    asked = found.get("answered", found.get("pods"))  # as steps of before have it
    slowest = round(float(found["slowest_s"]) * 1_000) if known(found.get("slowest_s")) and asked else None
    return Tested(
        number=row.action.pk,
        action=row.action.name,
        side=next(
            (str(step.facts["side"]) for step in row.action.steps.all() if step.facts.get("side")), ""
        ).rpartition("/")[2],
        at="" if at is None else Clock(float(int(at))),  # type: ignore[arg-type]
        passed=say("pair.of", have=int(found["passed"]), want=int(asked)) if known(asked) else "–",
        slowest="–" if slowest is None else say("pair.ms", n=slowest),
        level=level,
        glyph=glyph,
        word=say(f"pair.test.{word}"),
        faults=[_fault(one, row.facts) for one in found.get("faults") or ()],
    )


def _fault(one: Any, facts: Any) -> Text:
    key, values = f"guard.smoke.{one['fault']}", {"subject": one["pod"], "path": facts.get("path") or ""}
    if key not in MESSAGES:
        return (one["pod"], one["fault"])
    why = f"{key}.why"
    status = one.get("status")
    found = (
        say(why, found=one.get("found") or "", status=None if status is None else str(status))
        if why in MESSAGES
        else ""
    )
    return (say(key, **values), found)
