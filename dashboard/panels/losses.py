"""What a plan would cost: the sum, and pod by pod.

Owns which fact stands in which column. Three values: a number, nothing of that kind, unknown, which is a word and never 0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dashboard.panels import measures
from dashboard.panels.measures import NA, known
from dashboard.panels.words import Clock, Text, Value, say
from fleet.domain.actions import ACTIONS
from fleet.domain.gpus import Measure
from fleet.domain.plans import Loss, PodLoss, Save
from fleet.domain.releases import SCALES


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the sum. `zero`: nothing of that kind is lost."""

    name: str
    value: Value
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a pod's line; `level` where it asks for a look."""

    words: Value
    small: Text = ""
    level: str = ""

    @property
    def nil(self) -> bool:
        return not self.level and self.words == "–"


@dataclass(frozen=True, slots=True)
class Line:
    """What becomes of one pod."""

    uid: str
    name: str
    owner: Text
    level: str
    work: Cell
    requests: Cell
    scratch: Cell
    capacity: Cell
    back: Cell


NOTHING = Cell("–")
AT_ONCE = 8  # lines of pods; a plan has to be read on a phone


def figures(loss: Loss) -> list[Figure]:
    """The sum over all pods that go."""
    return [
        Figure("work", *_sum(loss.work_s, measures.duration(loss.work_s))),
        Figure("requests", *_sum(loss.requests, round(loss.requests) if known(loss.requests) else None)),
        Figure("scratch", *_sum(loss.scratch_bytes, measures.size(loss.scratch_bytes))),
    ]


def _sum(measure: Measure, told: Value) -> tuple[Value, bool]:
    nothing = measure in {NA, 0}
    return (say("act.loss.none"), True) if nothing else (told, False)


def hours(loss: Loss) -> Text:
    """GPU-hours of training, where they are known and not none."""
    if not known(loss.gpu_hours) or not loss.gpu_hours:
        return ""
    return say("act.loss.gpu-hours", hours=measures.decimal(float(loss.gpu_hours)))


def level(loss: Loss) -> str:
    """ok when nothing is lost, warn when something is or nobody knows."""
    parts = (loss.work_s, loss.requests, loss.scratch_bytes)
    return "ok" if all(part in {NA, 0} for part in parts) else "warn"


def unknown(loss: Loss) -> bool:
    return None in {loss.work_s, loss.requests, loss.scratch_bytes}


def lost(loss: Loss) -> Text:
    """What is known to be at stake, in a few words."""
    return tuple(_known(loss))


def _known(loss: Loss) -> Iterator[Text]:
    if known(loss.work_s) and loss.work_s:
        yield say("act.planned.work", work=measures.duration(loss.work_s))
    if known(loss.requests) and loss.requests:
        yield say("act.planned.requests", n=round(loss.requests))
    if known(loss.scratch_bytes) and loss.scratch_bytes:
        yield say("act.planned.scratch", scratch=measures.size(loss.scratch_bytes))


def lines(loss: Loss, saves: Iterable[Save] = (), kind: str = "drain") -> list[Line]:
    """The pods that go, in the order in which they are asked. `saves`: of those that save first; `kind`: of the action."""
    first, back = {uid for save in saves for uid in save.pods}, _else_back(kind)
    found = [_line(pod, saves_first=pod.uid in first) for pod in loss.pods if pod.evicted]
    return found if back is None else [replace(line, back=back) for line in found]


def _else_back(kind: str) -> Cell | None:
    """Where pods come back that their own controller ends: it finds the place, if it wants as many. None: a drain has looked."""
    if ACTIONS[kind].empties:
        return None
    return Cell(say("act.loss.fewer" if kind in SCALES else "act.loss.anywhere"))


def can_save_first(loss: Loss) -> bool:
    """Whether a workload can be asked for a checkpoint before its pods go."""
    return any(pod.hook for pod in loss.pods)


def dearest(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """The lines that are shown at once, and the rest of many: what costs most is shown, each part in the order of asking."""
    if len(lines) <= AT_ONCE + 2:
        return lines, []
    order = sorted(range(len(lines)), key=lambda n: (lines[n].work.nil, not lines[n].level, n))
    shown = set(order[:AT_ONCE])
    return [lines[n] for n in sorted(shown)], [line for n, line in enumerate(lines) if n not in shown]


def stays(loss: Loss) -> list[tuple[str, Text]]:
    """The pods that stay, and why."""
    return [
        (f"{pod.namespace}/{pod.name}", say(f"act.loss.stays.{pod.stays_because}"))
        for pod in loss.pods
        if not pod.evicted
    ]


def owner(pod: PodLoss) -> Text:
    gpus = say("gpus", n=pod.gpus) if pod.gpus else say("act.loss.no-gpu")
    return (pod.owner_kind or say("act.loss.no-owner"), gpus, say("node.team", team=pod.team) if pod.team else "")


def _line(pod: PodLoss, *, saves_first: bool = False) -> Line:
    cells = _work(pod, saves_first=saves_first), _requests(pod), _scratch(pod), _capacity(pod), _back(pod)
    worst = "warn" if any(cell.level for cell in cells) else ""
    return Line(pod.uid, f"{pod.namespace}/{pod.name}", owner(pod), worst, *cells)


def _work(pod: PodLoss, *, saves_first: bool) -> Cell:
    """As it is now: what a checkpoint that is still to come will leave of it, nobody knows."""
    if pod.work_s == NA:
        return NOTHING
    steps = say("act.loss.steps", n=int(pod.steps)) if known(pod.steps) else ""
    gang = say("act.loss.gang", n=pod.gang_gpus) if pod.gang_gpus else ""
    first = say("act.loss.saves-first") if saves_first else ""
    small = tuple(text for text in (steps, _saved(pod), gang, first) if text)
    return Cell(measures.duration(pod.work_s), small, "" if pod.work_s == 0 or saves_first else "warn")


def _saved(pod: PodLoss) -> Text:
    if pod.saved_at is not None:
        return say("act.loss.reported" if pod.reported else "act.loss.saved", at=Clock(pod.saved_at))
    return say(f"act.loss.unsaved.{pod.unsaved}") if pod.unsaved else say("act.loss.never-saved")


def _requests(pod: PodLoss) -> Cell:
    if pod.requests == NA:
        return NOTHING
    small = say("act.loss.grace", grace_s=measures.duration(pod.grace_s))
    count: Value = round(pod.requests) if known(pod.requests) else None
    return Cell(count, small, "" if count == 0 else "warn")


def _scratch(pod: PodLoss) -> Cell:
    if not pod.scratch:
        return NOTHING
    missed = [volume for volume in pod.scratch if not (volume.declared or volume.in_memory)]
    told = [measures.size(volume.used_bytes) for volume in pod.scratch]
    notes = tuple(
        say("act.loss.scratch-declared" if volume.declared else "act.loss.scratch-memory")
        for volume in pod.scratch
        if volume.declared or volume.in_memory
    )[:1]
    names = ", ".join(volume.volume for volume in pod.scratch)
    value: Value = told[0] if len(told) == 1 else tuple(text or say("act.loss.unknown") for text in told)
    return Cell(value, (names, *notes), "warn" if missed else "")


def _capacity(pod: PodLoss) -> Cell:
    if pod.available is None and pod.needed is None:
        return NOTHING
    name = "act.loss.capacity-free" if pod.needed is None else "act.loss.capacity"
    told = say(name, available=pod.available, needed=pod.needed)
    return Cell(told, say("act.loss.budgets", budgets=", ".join(pod.budgets)) if pod.budgets else "")


def _back(pod: PodLoss) -> Cell:
    if not pod.owner_kind:
        return Cell(say("act.loss.not-back"), level="warn")
    told: list[Text] = []
    if pod.serving and pod.warm_up_s != NA:
        told.append(say("act.loss.warm-up", warm_up_s=measures.duration(pod.warm_up_s)))
    if pod.caches:
        names = [say("act.loss.sessions") if name == "sessions" else name for name in pod.caches]
        told.append(say("act.loss.caches", caches=tuple(names)))
    return Cell(pod.comes_back_on or say("act.loss.nowhere"), tuple(told), "" if pod.comes_back_on else "warn")
