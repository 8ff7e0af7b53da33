"""One rollout for its own page: pod by pod, what happened when, and ways out of each hold-up.

Owns what a page shows beyond the row, worked out from the picture when somebody looks. Must not remember anything: of pods that
are gone the line shows what Events still tell.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from fleet.domain import rollout_past
from fleet.domain.picture import EventRow, PodRow, Snapshot
from fleet.domain.rollout_past import Scaled
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from fleet.domain.stages import Stage
from fleet.domain.strategy import room
from fleet.domain.ways_out import Way, ways_out


class Side(StrEnum):
    NEW = "new"
    OLD = "old"


class PodLine(Struct, frozen=True):
    """One pod. `gpus`: indices on its node, () not known; `cause`: a `holdups.Cause` of which it is the example, "" none."""

    key: str
    side: Side
    row: PodRow
    gpus: tuple[int, ...] = ()
    cause: str = ""


class What(StrEnum):
    MADE = "made"
    PLACED = "placed"
    READY = "ready"
    STOPPING = "stopping"


class Moment(Struct, frozen=True, order=True):
    at: float
    what: What
    side: Side
    pod: str  # its key


class Point(Struct, frozen=True):
    """Pods at one time, of those that still exist: new ones Ready, new ones not Ready yet, and old ones that serve; and old ones
    that are gone now, as Events tell."""

    at: float
    new_ready: int
    new_other: int
    old_ready: int
    old_gone: int = 0


class Explained(Struct, frozen=True):
    holdup: HoldupRow
    ways: tuple[Way, ...]


class Detail(Struct, frozen=True):
    """`largest`: the largest hole for a new pod, in GPUs; `slots`: how many new pods find a place now. None: it asks for none."""

    row: RolloutRow
    pods: tuple[PodLine, ...]  # old ones first, each side by age
    moments: tuple[Moment, ...]  # in order
    points: tuple[Point, ...]  # in order, one for each time at which something changed
    holdups: tuple[Explained, ...]
    largest: int | None = None
    slots: int | None = None
    happened: tuple[EventRow, ...] = ()  # what Events tell of it, the newest first


def detail(snapshot: Snapshot, key: str) -> Detail | None:
    """Of workload `key`; None when it has no rollouts."""
    row = snapshot.rollouts.get(key)
    if row is None:
        return None
    mine = {name: pod for name, pod in snapshot.pods.items() if pod.workload == key and pod.stage != Stage.ENDED}
    lines = _lines(snapshot, row, mine)
    moments = tuple(sorted(moment for line in lines for moment in _moments(line)))
    happened = rollout_past.happened(snapshot, key)
    newest_set = f"{key.rpartition('/')[2]}-{row.template}"
    free = room(snapshot, [line.row for line in lines if line.side is Side.NEW] or list(mine.values()))
    asks = row.gpus_per_pod > 0
    return Detail(
        row=row,
        pods=lines,
        moments=moments,
        points=tuple(_points(moments, rollout_past.scaled(happened), newest_set)),
        happened=happened,
        holdups=tuple(Explained(holdup, ways_out(snapshot, key, holdup)) for holdup in row.holdups),
        largest=max(free.values(), default=0) if asks else None,
        slots=sum(gpus // row.gpus_per_pod for gpus in free.values()) if asks else None,
    )


def _lines(snapshot: Snapshot, row: RolloutRow, pods: Mapping[str, PodRow]) -> tuple[PodLine, ...]:
    held: defaultdict[str, list[int]] = defaultdict(list)
    nodes = {pod.node for pod in pods.values()}
    for gpu in snapshot.gpus.values():
        for name in (gpu.pods or ()) if gpu.node in nodes else ():
            held[name].append(gpu.index)
    causes = {holdup.pod: holdup.cause for holdup in reversed(row.holdups)}
    found = [
        PodLine(
            key=name,
            side=Side.NEW if pod.template == row.template else Side.OLD,
            row=pod,
            gpus=tuple(sorted(held[name])),
            cause=causes.get(name, ""),
        )
        for name, pod in pods.items()
    ]
    return tuple(sorted(found, key=lambda line: (line.side is Side.NEW, line.row.created_at or 0.0, line.key)))


def _moments(line: PodLine) -> Iterator[Moment]:
    """When a pod was asked to stop is its deletion time less its grace."""
    row = line.row
    asked_at = None if row.terminating_at is None else row.terminating_at - (row.grace_s or 0)
    for at, what in (
        (row.created_at, What.MADE),
        (row.bound_at, What.PLACED),
        (row.ready_at, What.READY),
        (asked_at, What.STOPPING),
    ):
        if at is not None:
            yield Moment(at, what, line.side, line.key)


def _of(by_time: Mapping[float, Iterable[Moment]], what: What) -> set[str]:
    """The pods with such a moment."""
    return {one.pod for found in by_time.values() for one in found if one.what is what}


def _points(moments: Iterable[Moment], steps: Sequence[Scaled], newest_set: str) -> Iterator[Point]:
    by_time: defaultdict[float, list[Moment]] = defaultdict(list, {step.at: [] for step in steps})
    for moment in moments:
        by_time[moment.at].append(moment)
    asked = [at for at, found in by_time.items() for one in found if one.what is What.STOPPING and one.side is Side.OLD]
    # Since when a pod that stops was Ready, nobody tells any more: to draw it as not Ready for all its life would be a lie.
    unsaid = _of(by_time, What.STOPPING) - _of(by_time, What.READY)
    made, ready, stopping = set[str](), set[str](), set[str]()
    side: dict[str, Side] = {}
    for at in sorted(by_time):
        for moment in by_time[at]:
            side[moment.pod] = moment.side
            {What.MADE: made, What.READY: ready, What.STOPPING: stopping}.get(moment.what, set()).add(moment.pod)
        new = {pod for pod in made - stopping - unsaid if side[pod] is Side.NEW}
        old = {pod for pod in ready - stopping if side[pod] is Side.OLD}
        gone = rollout_past.gone(steps, at, newest_set, sum(later > at for later in asked))
        yield Point(at, len(new & ready), len(new - ready), len(old), gone)
