"""What people and Vigie did: the list of actions, its filters, and the log of one action.

Owns filters as they stand in an address, and which entry of the audit says what. Must not ask the database.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dashboard.panels import ends, measures
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.words import Text, say
from fleet.domain.actions import ACTIONS
from fleet.domain.plans import ActionState, StepKind

SINCE_S = {"24h": 86_400, "7d": 604_800, "90d": 7_776_000, "": 0}
LOG_LEVELS = {
    "confirmed": "run", "approved": "run", "began": "drain", "succeeded": "ok", "failed": "bad", "refused": "bad",
    "stopped": "warn", "stop-asked": "warn", "expired": "off", "withdrawn": "off", "reboot-reminder": "warn",
}  # fmt: skip
LONGEST_LOG = 300


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody asked to see; every part "" when they did not say."""

    q: str = ""
    who: str = ""
    what: str = ""
    outcome: str = ""
    since: str = ""
    before: int = 0  # only older ones: for the next part of the list

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "Choice":
        """What makes no sense counts as not said."""
        before = query.get("before", "")
        return cls(
            q=query.get("q", "").strip()[:253],
            who=query.get("who", "").strip()[:150],
            what=query.get("what", "") if query.get("what", "") in ACTIONS else "",
            outcome=query.get("outcome", "") if query.get("outcome", "") in set(ActionState) else "",
            since=query.get("since", "") if query.get("since", "") in SINCE_S else "",
            before=int(before) if before.isascii() and before.isdecimal() and len(before) < 16 else 0,
        )

    def query(self, **changed: Any) -> str:
        """As part of an address, without what was not said."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__} | changed
        return urlencode({name: value for name, value in parts.items() if value})


@dataclass(frozen=True, slots=True)
class Entry:
    """One action in the list."""

    number: int
    name: str
    at: float
    who: str
    title: Text
    reason: str
    planned: Text
    level: str
    glyph: str
    state: Text
    took: Text
    actual: Text
    entry: int  # number and seal of its newest audit entry
    seal: str


def entries(actions: Iterable[Any], seals: Mapping[int, tuple[int, str]]) -> list[Entry]:
    return [_entry(action, *seals.get(action.pk, (0, ""))) for action in actions]


def _entry(action: Any, number: int, seal: str) -> Entry:
    level, glyph, state = ends.tag(action)
    planned, actual = ends.cost(action)
    superseded = action.outcome.get("why") == "superseded"
    reason = ends.why(action) if superseded or action.state in {ActionState.FAILED, ActionState.EXPIRED} else ""
    return Entry(
        number=action.pk,
        name=action.name,
        at=action.proposed_at,
        who=action.confirmed_by or action.proposed_by,
        title=say(f"act.do.{action.kind}", node=action.target),
        reason=action.reason,
        planned=planned,
        level=level,
        glyph=glyph,
        state=state,
        took=_took(action),
        actual=actual or reason,
        entry=number,
        seal=f"{seal[:4]}…{seal[-2:]}" if seal else "",
    )


def _took(action: Any) -> Text:
    if action.started_at is None or action.ended_at is None:
        return ""
    return measures.duration(action.ended_at - action.started_at) or ""


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the log."""

    key: str
    at: float
    level: str
    words: Text


def log(entries: Iterable[Any], lanes: Sequence[Any]) -> list[Told]:
    """The newest first: what the audit says, with what became of each pod."""
    found = [Told(f"#{entry.number}", entry.at, _level(entry.what), told(entry)) for entry in entries]
    for lane in lanes:
        moments = (
            ("accepted", lane.accepted_at, "drain"),
            ("gone", lane.gone_at, "drain"),
            ("back", lane.replaced_at, "ok"),
        )
        found += [
            Told(f"{lane.uid}-{name}", at, level, say(f"act.log.pod-{name}", pod=f"{lane.namespace}/{lane.name}"))
            for name, at, level in moments
            if at is not None
        ]
    return sorted(found, key=lambda one: -one.at)[:LONGEST_LOG]


def _level(what: str) -> str:
    return LOG_LEVELS.get(what, "ok" if what.endswith("-done") else "off")


def told(entry: Any) -> Text:
    """One entry of the audit in a sentence."""
    step, _, way = entry.what.rpartition("-")
    if step in set(StepKind):
        return say(f"act.log.{way}", step=say(f"act.step.{step}"))
    key = f"act.log.{entry.what}"
    if key not in MESSAGES:
        return str(entry.what)
    facts: Mapping[str, Any] = entry.facts
    waivers = facts.get("waivers") or ()
    more = say("act.log.waivers", n=len(waivers)) if waivers else ""
    values = {name: str(facts.get(name, "")) for name in ("reason", "workload", "hook")}
    return say(key, actor=entry.actor, **values), more
