"""The page of one workload's checkpoints: each with its state, notes and deep check; the story of its saves; what was noted.

Owns which fact stands where, and the geometry of the story. Must not hold wording (checkpoint_page_patterns.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from dashboard.panels import measures
from dashboard.panels.cadence import length
from dashboard.panels.checkpoints import HAS, PARTS, Part
from dashboard.panels.order import natural
from dashboard.panels.words import Clock, Text, Value, say
from fleet.domain import save_history, save_steps
from fleet.domain.checkpoint_shelves import order
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.freshness import Freshness
from fleet.domain.picture import PodRow
from fleet.domain.save_history import Save
from fleet.live import DeepCheck

STATES: Final = {
    State.COMPLETE: ("ok", "s-ok"),
    State.IN_PROGRESS: ("run", "s-run"),
    State.ABANDONED: ("warn", "s-warn"),
    State.CORRUPT: ("bad", "s-bad"),
    State.INCONSISTENT: ("bad", "s-bad"),
    State.PARTIAL_STATE: ("warn", "s-warn"),
    State.UNKNOWN: ("off", "s-unknown"),
}
CHECKABLE: Final = {State.COMPLETE, State.PARTIAL_STATE, State.CORRUPT, State.INCONSISTENT, State.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Line:
    """One checkpoint. `check`: how its deep check gets on; `share` of it in percent while it runs, None before there is one."""

    path: str
    name: str
    step: Value
    level: str
    glyph: str
    state: Text
    at: Value
    size: Value
    files: Text
    format: str
    parts: tuple[Part, ...]
    parts_told: Text
    notes: tuple[Text, ...]
    check: Text
    check_level: str
    share: int | None
    checkable: bool


def lines(found: Freshness, checks: Mapping[str, DeepCheck]) -> list[Line]:
    """The newest first."""
    newest = sorted(found.checkpoints, key=order, reverse=True)
    return [_line(each, checks.get(f"{found.training.workload} {each.path}")) for each in newest]


def _line(found: Checkpoint, check: DeepCheck | None) -> Line:
    level, glyph = STATES[found.state]
    parts = tuple(
        Part(letter, HAS[held], say(f"ckpt.part-{HAS[held]}", part=say(f"ckpt.part.{name}")))
        for (letter, name), held in zip(PARTS, structs.astuple(found.components), strict=True)
    )
    running = check is not None and check.state == "running"
    return Line(
        path=found.path,
        name=found.path.rpartition("/")[2] or found.path,
        step=say("ckpt.no-step") if found.step is None else found.step,
        level=level,
        glyph=glyph,
        state=say(f"ckpt.state.{found.state}"),
        at=Clock(float(int(found.committed_at))) if found.committed_at is not None else "–",
        size=measures.size(found.size_bytes),
        files=say("ckpt.files", n=found.files),
        format=found.format.value,
        parts=parts,
        parts_told=tuple(part.words for part in parts),
        notes=tuple(_note(note.sign.value, note.path, found.path) for note in found.notes),
        check=_check(check),
        check_level=_check_level(check),
        share=_share(check) if check is not None and running else None,
        checkable=found.state in CHECKABLE and not running,
    )


def _note(sign: str, path: str, of: str) -> Text:
    inner = path.removeprefix(of).strip("/")
    return (inner, say(f"ckpt.sign.{sign}")) if inner else say(f"ckpt.sign.{sign}")


def _share(check: DeepCheck) -> int:
    return min(100, int(100 * check.done_bytes / check.total_bytes)) if check.total_bytes else 0


def _check(check: DeepCheck | None) -> Text:
    if check is None:
        return ""
    if check.state == "running":
        done = say(
            "ckpt.check.running", done=measures.size(check.done_bytes), total=measures.size(check.total_bytes or None)
        )
        return (done, say("ckpt.check.begun", by=check.asked_by) if check.asked_by else "")
    at = Clock(float(int(check.said_at)))
    if check.result is None:
        return say("ckpt.check.failed", at=at, why=check.error)
    return say("ckpt.check.done", at=at, what=say(f"ckpt.state.{check.result.state}"))


def _check_level(check: DeepCheck | None) -> str:
    if check is None:
        return ""
    if check.state == "running":
        return "run"
    return "bad" if check.result is None else STATES[check.result.state][0]


def by_hand(key: str, pods: Mapping[str, PodRow], found: Freshness | None) -> str:
    """What somebody would type to have it save now, at its first rank that runs; "" when it declares no way, or nothing runs."""
    hook = found.training.hook if found is not None else None
    running = [name for name, row in pods.items() if (row.workload or f"Pod/{name}") == key and row.status == "Running"]
    if hook is None or not running:
        return ""
    namespace, _, name = min(running, key=natural).partition("/")
    return save_steps.command(namespace, name, hook)


# The story of its saves


@dataclass(frozen=True, slots=True)
class Bar:
    """One save: from 0 to 1000 along, from the top in percent of 92."""

    x: float
    y: float
    height: float
    words: Text


@dataclass(frozen=True, slots=True)
class Story:
    """One quantity of the last saves, oldest first. `told`: for those who do not see it."""

    id: str
    title: Text
    told: Text
    most: Text
    bars: tuple[Bar, ...]
    width: float


TOP, HIGH = 6.0, 80.0
LEAST_BARS: Final = 24  # so that few are no wider than they should be


def stories(saves: Sequence[Save]) -> list[Story]:
    between = save_history.intervals(saves)
    return [
        _story("interval", [(each.at, each.interval_s) for each in between], length),
        _story("duration", [(save.at, save.duration_s) for save in saves if save.duration_s is not None], length),
        _story("size", [(save.at, float(save.size_bytes)) for save in saves], _size),
    ]


def _size(count: float) -> Text:
    return measures.size(count) or ""


def _story(name: str, found: Sequence[tuple[float, float]], spell: Callable[[float], Text]) -> Story:
    title = say(f"ckpt.plot.{name}")
    if not found:
        return Story(name, title, say("ckpt.plot.none"), "", (), 0.0)
    values = [value for _, value in found]
    most = max(values) or 1.0
    pitch = 1000 / max(len(found), LEAST_BARS)
    bars = tuple(_bar(i * pitch, at, value / most, spell(value)) for i, (at, value) in enumerate(found))
    least, last = spell(min(values)), spell(values[-1])
    told = last if least == spell(most) else say("ckpt.plot.told", least=least, most=spell(most), last=last)
    return Story(name, title, told, spell(max(values)), bars, round(pitch * 0.7, 1))


def _bar(x: float, at: float, share: float, words: Text) -> Bar:
    return Bar(round(x, 1), round(TOP + HIGH * (1 - share), 1), round(HIGH * share, 1), (Clock(float(int(at))), words))
