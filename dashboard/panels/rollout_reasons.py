"""Why a rollout is held up, with its evidence, and the ways out of it, the best first.

Owns which facts a reason's sentence uses, and where a way leads. Must not hold wording (rollout_patterns.py) or rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.panels.words import Age, Text, Value, say
from fleet.domain import log_lines
from fleet.domain.holdups import Cause, Level
from fleet.domain.rollout_detail import Detail, Explained
from fleet.domain.rollout_picture import HoldupRow
from fleet.domain.ways_out import Remedy, Way

Facts = Mapping[str, str | int | float | None]
NAMED = 3  # pods by name; the others are counted
GLYPHS = {Level.BAD: "s-bad", Level.WARN: "s-warn", Level.NOTE: "s-info"}
OURS = frozenset({Remedy.UNCORDON, Remedy.RESUME, Remedy.UNDO})
OF_NODES = frozenset({Remedy.UNCORDON, Remedy.LET_GO, Remedy.MOVE})


@dataclass(frozen=True, slots=True)
class Step:
    """A way out. `node`: where it leads, "" the workload itself; `does`: the kind of action that it is, "" none of ours."""

    title: Text
    text: Text
    command: Text = ""
    node: str = ""
    does: str = ""
    note: Text = ""
    revision: str = ""  # that an undo goes back to


@dataclass(frozen=True, slots=True)
class Reason:
    cause: str
    level: str
    glyph: str
    title: Text
    notes: Text  # since when, how it passes, an example
    details: Text
    evidence: str
    ways: tuple[Step, ...]


def reasons(found: Detail) -> list[Reason]:
    return [_reason(found, one) for one in found.holdups]


def _reason(found: Detail, explained: Explained) -> Reason:
    row = explained.holdup
    facts = dict(row.facts)
    since = "" if row.since_at is None else say("rollout.since", age=Age(row.since_at))
    example = say("rollout.example", pod=_name(row.pod)) if row.pods > 1 and row.pod else ""
    return Reason(
        cause=row.cause,
        level=row.level if row.level != Level.NOTE else "",
        glyph=GLYPHS[Level(row.level)],
        title=_title(found, row, facts),
        notes=(say(f"rollout.level.{row.level}"), since, example),
        details=_details(Cause(row.cause), facts),
        evidence=log_lines.hidden(row.evidence),
        ways=tuple(_step(way, found.row.kind, Cause(row.cause)) for way in explained.ways),
    )


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _title(found: Detail, row: HoldupRow, facts: Facts) -> Text:
    gpus = facts.get("gpus")
    values: dict[str, Value] = {
        "n": row.pods,
        "gpus": say("gpus", n=gpus) if isinstance(gpus, int) else None,
        "hole": found.largest,
        "container": _told(facts, "container"),
        "reason": _told(facts, "reason"),
        "code": _told(facts, "exit_code"),
        "restarts": _told(facts, "restarts"),
        "budget": _told(facts, "budget"),
        "observed": _told(facts, "observed"),
        "wanted": _told(facts, "wanted"),
    }
    return say(f"rollout.cause.{row.cause}", **values)


def _told(facts: Facts, name: str) -> Value:
    value = facts.get(name)
    return None if value in {None, ""} else str(value)


def _details(cause: Cause, facts: Facts) -> Text:
    if cause is Cause.STARTUP_BUDGET:
        budget, took = _told(facts, "budget_s"), _told(facts, "old_ready_after_s")
        return (
            say("rollout.budget-s", budget=budget) if budget else "",
            say("rollout.old-took", took=took) if took else "",
        )
    if cause not in {Cause.DEADLOCK, Cause.NO_HOLE}:
        return ""
    moves = tuple(
        say(f"rollout.{pattern}", n=n)
        for pattern, name in (("coming", "coming"), ("leaving", "leaving"), ("may-go", "may_go"))
        if isinstance(n := facts.get(name), int) and n
    )
    return moves or say("rollout.nobody-moves")


def _step(way: Way, kind: str, cause: Cause) -> Step:
    """A way about a pod names it in its command as well; a container whose probe fails runs: it may have none before it."""
    name, namespace = _name(way.subject), way.subject.split("/")[0]
    facts = dict(way.facts)
    values: dict[str, Value] = {
        "n": _serving(facts) if way.remedy is Remedy.UNDO else way.pods,
        "subject": name,
        "namespace": namespace,
        "moved": _moved(way),
        "lowest": _told(facts, "lowest"),
        "kind": kind,
    }
    text: Text = say(f"way.{way.remedy}.does", **values)
    about_log = way.remedy is Remedy.READ_LOG
    if about_log and cause is Cause.PROBE:
        text = f"kubectl logs -n {namespace} {name}"
    return Step(
        title=say(f"way.{way.remedy}", **values),
        text="" if about_log else text,
        command=text if about_log else "",
        node=way.subject if way.remedy in OF_NODES else "",
        does=way.remedy.value if way.remedy in OURS else "",
        revision=way.subject if way.remedy is Remedy.UNDO else "",
        note=_note(way, facts),
    )


def _serving(facts: Facts) -> int:
    found = facts.get("serving")
    return found if isinstance(found, int) else 0


def _moved(way: Way) -> Text:
    names = [_name(key) for key in way.moved]
    few: Text = ", ".join(names[:NAMED])
    return say("list.more", list=few, n=len(names) - NAMED) if len(names) > NAMED else few


def _note(way: Way, facts: Facts) -> Text:
    since_at, by, trouble = facts.get("since_at"), _told(facts, "by"), _told(facts, "trouble")
    return (
        say("way.by", by=by) if by else "",
        say("way.since", age=Age(since_at)) if isinstance(since_at, int | float) else "",
        say("way.trouble", trouble=trouble) if trouble else "",
        say("way.budgets", budgets=", ".join(way.budgets)) if way.budgets else "",
    )
