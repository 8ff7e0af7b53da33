"""The revisions of a workload: what each runs, since when and by whom, how many pods it has, and what going back would change.

Owns which facts of a revision are shown. Must not hold wording (rollout_patterns.py) or rules, nor make up who did something: the
ledger, the annotation for it and the API server's own note of the present template tell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dashboard.panels.rollouts import MOVING, standing
from dashboard.panels.words import Clock, Text, Value, say
from fleet.act.histories import History, Written
from fleet.domain.picture import PodRow
from fleet.domain.revisions import Difference, Revision, differences
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.stages import Stage

LONGEST_IMAGE = 60  # characters; the end of one says which it is


@dataclass(frozen=True, slots=True)
class Line:
    """`changes`: what an undo to it would change in the template; () for the present one. `action`: the number of ours that made
    it; None: none is known."""

    number: int
    current: bool
    level: str
    glyph: str
    state: Text
    images: tuple[tuple[str, str], ...]  # as shown, and whole
    at: Value
    by: Text
    cause: str
    action: int | None
    changes: tuple[Difference, ...]
    count: Text


def lines(found: History, written: Mapping[str, Written], row: RolloutRow, pods: Iterable[PodRow]) -> list[Line]:
    """The newest first. `pods`: those of the workload."""
    alive = [pod for pod in pods if pod.stage not in {Stage.ENDED, Stage.STOPPING}]
    return [_line(found, one, written.get(one.digest), row, alive) for one in found.revisions]


def _line(found: History, one: Revision, by: Written | None, row: RolloutRow, pods: Iterable[PodRow]) -> Line:
    mine = [pod for pod in pods if pod.template and one.holder in {pod.template, f"{_name(found)}-{pod.template}"}]
    level, glyph, state = _state(one, row, len(mine), sum(pod.stage == Stage.READY for pod in mine))
    changes = () if one.current else differences(found.workload.template, one.template)
    return Line(
        number=one.number,
        current=one.current,
        level=level,
        glyph=glyph,
        state=state,
        images=tuple((_short(image), image) for image in one.images),
        at=_when(found, one, by),
        by=_by(found, one, by),
        cause=one.cause,
        action=by.number if by else None,
        changes=changes,
        count=say("revision.changes", n=len(changes)) if changes else "",
    )


def _name(found: History) -> str:
    return found.workload.key.rpartition("/")[2]


def _state(one: Revision, row: RolloutRow, pods: int, ready: int) -> tuple[str, str, Text]:
    """Level, glyph and words."""
    if one.current and standing(row) in MOVING:
        return "run", "s-run", (say("revision.rolling"), say("revision.pods", n=pods, ready=ready))
    if ready:
        return "ok", "s-ok", say("revision.serves", n=ready)
    if pods:
        return "warn", "s-warn", say("revision.pods", n=pods, ready=0)
    return "off", "s-off", say("revision.wanted") if one.current else say("revision.kept")


def _short(image: str) -> str:
    """Without the registry's path where it is long: the name and its tag or digest say which it is."""
    return image if len(image) <= LONGEST_IMAGE else f"…{image[-LONGEST_IMAGE:]}"


def _when(found: History, one: Revision, by: Written | None) -> Value:
    """When the template was last written; the holder of one that came back is older."""
    if by is not None:
        return Clock(float(int(by.at)))
    told = found.edit.at if one.current and found.edit else ""
    return _clock(max(told, one.created_at))


def _clock(text: str) -> Value:
    try:
        return Clock(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


def _by(found: History, one: Revision, by: Written | None) -> Text:
    if by is not None:
        return say(f"revision.did.{by.kind}", by=by.by)
    if one.current and found.edit is not None:
        return say("revision.with", manager=found.edit.manager)
    return say("revision.by-unknown")
