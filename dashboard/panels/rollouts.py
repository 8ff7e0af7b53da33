"""The Rollouts page: how far every Deployment, StatefulSet and DaemonSet is with its newest version, those held up first.

Owns which facts of a rollout are shown, and the page's order and filters; the browser says the same
(`frontend/static/js/panels/rollouts.js`). Must not hold wording (rollout_patterns.py) or rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain.holdups import Level
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from fleet.domain.rollouts import Verdict
from fleet.domain.stages import Stage

COLUMNS = (
    Column("workload", small=True, link=True, to_rollout=True),
    Column("state", "state two", small=True, mark=True),
    Column("new-pods", "num", small=True),
    Column("old-pods", "num", small=True),
    Column("version", "num"),
    Column("gpus-held", "num", small=True),
    Column("end", small=True),
)

FOLDED = ("old-pods", "version", "gpus-held", "end")  # left out on a narrow screen when there is nothing to say


class Standing(StrEnum):
    """How a rollout stands for whoever looks, the most urgent first."""

    HELD = "held"  # it does not get on by itself
    WAITS = "waits"  # it may
    ROLLING = "rolling"
    NOT_OBSERVED = "not-observed"
    MANUAL = "manual"
    PAUSED = "paused"
    LEFT = "left"  # kubectl calls it done, and something is left
    DONE = "done"


ORDER = {standing: place for place, standing in enumerate(Standing)}
MOVING = frozenset(Standing) - {Standing.LEFT, Standing.DONE}
TROUBLED = frozenset({Standing.HELD, Standing.WAITS})
# Level and glyph of each.
SIGNS = {
    Standing.HELD: ("bad", "s-hold"),
    Standing.WAITS: ("warn", "s-wait"),
    Standing.ROLLING: ("run", "s-run"),
    Standing.NOT_OBSERVED: ("run", "s-todo"),
    Standing.MANUAL: ("", "s-wait"),
    Standing.PAUSED: ("", "s-off"),
    Standing.LEFT: ("", "s-drain"),
    Standing.DONE: ("", "s-ok"),
}


OF_VERDICTS = {
    Verdict.MANUAL: Standing.MANUAL,
    Verdict.PAUSED: Standing.PAUSED,
    Verdict.NOT_OBSERVED: Standing.NOT_OBSERVED,
}


def standing(row: RolloutRow) -> Standing:
    levels = {holdup.level for holdup in row.holdups}
    if Level.BAD in levels or row.verdict == Verdict.FAILED:
        return Standing.HELD
    if Level.WARN in levels:
        return Standing.WAITS
    if row.verdict == Verdict.DONE:
        return Standing.LEFT if row.remarks else Standing.DONE
    if row.verdict == Verdict.MANUAL and not row.old:
        return Standing.DONE
    return OF_VERDICTS.get(Verdict(row.verdict), Standing.ROLLING)


def held_since_at(row: RolloutRow) -> float | None:
    """Since when the oldest of its serious reasons has held."""
    found = [one.since_at for one in row.holdups if one.level != Level.NOTE and one.since_at is not None]
    return min(found, default=None)


def moving(found: Mapping[str, RolloutRow]) -> int:
    """How many are in progress, for the navigation."""
    return sum(standing(row) in MOVING for row in found.values())


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the rollouts is shown; "" does not narrow. `of`: "moving" or "held"."""

    q: str = ""
    kind: str = ""
    namespace: str = ""
    of: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "").strip() for name in cls.__slots__})

    def shows(self, key: str, row: RolloutRow) -> bool:
        kind, namespace, _ = key.split("/", 2)
        wanted = {"moving": MOVING, "held": TROUBLED}.get(self.of)
        return (
            self.q.lower() in key.lower()
            and self.kind in {"", kind}
            and self.namespace in {"", namespace}
            and (wanted is None or standing(row) in wanted)
        )


def table(found: Mapping[str, RolloutRow], choice: Choice) -> Table:
    return Table("rollouts", COLUMNS, rows(found, choice), "tri")


def rows(found: Mapping[str, RolloutRow], choice: Choice) -> list[Row]:
    shown = [(key, row) for key, row in found.items() if choice.shows(key, row)]
    return [_row(key, row) for key, row in sorted(shown, key=lambda item: _order(*item))]


def _order(key: str, row: RolloutRow) -> Any:
    since_at = held_since_at(row)
    return (
        ORDER[standing(row)],
        float("inf") if since_at is None else since_at,
        natural(key.rsplit("/", 1)[-1]),
        natural(key),
    )


def _row(key: str, row: RolloutRow) -> Row:
    kind, namespace, name = key.split("/", 2)
    stands = standing(row)
    level, glyph = SIGNS[stands]
    new, old = dict(row.new_stages), dict(row.old_stages)
    stopping = new.get(Stage.STOPPING, 0) + old.get(Stage.STOPPING, 0)
    cells: dict[str, Value] = {
        "workload": name,
        "state": _state(row, stands),
        "new-pods": say("node.ready-of", ready=row.new, total=row.desired),
        "old-pods": row.old,
        "version": _version(row),
        "gpus-held": row.old_gpus + row.new_gpus + row.terminating_gpus,
        "end": _end(row, stands),
    }
    small: dict[str, Text] = {
        "workload": (namespace, kind),
        "state": _why(row),
        "new-pods": _on_their_way(row.new_stages),
        "old-pods": say("rollouts.stage.stopping", n=stopping) if stopping else "",
        "gpus-held": say("rollouts.stopping-gpus", n=row.terminating_gpus) if row.terminating_gpus else "",
        "end": say("rollouts.deadline", time=Clock(row.deadline_at)) if row.deadline_at is not None else "",
    }
    nil = tuple(name for name in FOLDED if cells[name] in {0, "–"} and not small.get(name))
    return Row(key, level, cells, small, links={"workload": key}, marks={"state": glyph}, nil=nil)


def _state(row: RolloutRow, stands: Standing) -> Text:
    since_at = held_since_at(row)
    if stands in TROUBLED and since_at is not None:
        return say(f"rollouts.state.{stands}-for", age=Age(since_at))
    return say(f"rollouts.state.{stands}")


def _why(row: RolloutRow) -> Text:
    late = say("rollouts.late") if row.verdict == Verdict.FAILED else ""
    return (*causes(row.holdups), late)


def causes(holdups: Iterable[HoldupRow]) -> tuple[Text, ...]:
    return tuple(say(f"rollouts.cause.{one.cause}") for one in holdups)


def _on_their_way(stages: Iterable[tuple[str, int]]) -> Text:
    coming = [(stage, n) for stage, n in stages if stage not in {Stage.READY, Stage.STOPPING}]
    return tuple(say(f"rollouts.stage.{stage}", n=n) for stage, n in coming)


def _version(row: RolloutRow) -> Text:
    if row.was and row.revision and row.was != row.revision:
        return say("rollouts.versions", was=row.was, now=row.revision)
    return row.revision or "–"


def _end(row: RolloutRow, stands: Standing) -> Value:
    """Unknown is said only of what is on its way."""
    if row.eta_at is not None:
        return say("rollouts.eta", time=Clock(row.eta_at))
    return None if stands in {Standing.ROLLING, Standing.WAITS} else "–"


def counts(found: Mapping[str, RolloutRow], choice: Choice) -> Text:
    """How many are shown, are in progress, and are held up."""
    shown = [standing(row) for key, row in found.items() if choice.shows(key, row)]
    held = sum(one in TROUBLED for one in shown)
    return (
        say("rollouts.count", n=len(shown)),
        say("rollouts.moving", n=sum(one in MOVING for one in shown)),
        say("rollouts.held", n=held) if held else "",
    )


def options(found: Iterable[str], part: int) -> list[str]:
    """The values of one filter: part 0 of the keys is the kind, 1 the namespace."""
    return sorted({key.split("/", 2)[part] for key in found}, key=natural)
