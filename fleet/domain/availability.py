"""How much of the time GPUs could be used, how often they failed, and how long that lasted.

Owns the formulas over transitions. Time is divided into four parts that sum to the time that a GPU was ours: up, down, planned
(announced work) and unknown. Unknown is neither up nor down. Must not know where transitions are kept.

An incident begins when a GPU goes down without a plan and ends when it is known to be up again, was replaced or left; unknown or
planned time in between does not end it, though it is counted as what it is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from fleet.domain.gpus import DeviceState
from fleet.domain.verdicts import NOT_OWNED, Transition, usable

RULE_OF_THREE: Final = 3.0  # with no event in a time T, the rate is under 3/T with 95 % confidence


class Incident(Struct, frozen=True):
    """One that is open at the end of the window. Its age is the end of the window less `since_at`."""

    gpu: str
    node: str
    since_at: float  # before the window, perhaps
    reason: str


class Availability(Struct, frozen=True, kw_only=True):
    """Of one GPU or of many, in one window. Times in GPU-seconds."""

    up_s: float = 0.0
    down_s: float = 0.0
    planned_s: float = 0.0
    unknown_s: float = 0.0
    failures: int = 0  # incidents that began in the window
    repairs: int = 0  # incidents that ended in it …
    repair_s: float = 0.0  # … and how long they lasted, from their beginning, in it or before
    open: tuple[Incident, ...] = ()  # oldest first

    @property
    def owned_s(self) -> float:
        return self.up_s + self.down_s + self.planned_s + self.unknown_s

    @property
    def availability(self) -> float | None:
        """up / (up + down); None when it was never known to be either."""
        known_s = self.up_s + self.down_s
        return self.up_s / known_s if known_s > 0 else None

    @property
    def mtbf_s(self) -> float | None:
        """Up time per failure. None without a failure: `mtbf_at_least_s` says what that proves."""
        return self.up_s / self.failures if self.failures else None

    @property
    def mtbf_at_least_s(self) -> float | None:
        """With no failure in `up_s` the mean is over `up_s` / 3, 95 % sure; None where there was a failure, or no up time."""
        return self.up_s / RULE_OF_THREE if not self.failures and self.up_s > 0 else None

    @property
    def mttr_s(self) -> float | None:
        """Mean of the incidents that ended; those still open are in `open`, or this would look better than it is."""
        return self.repair_s / self.repairs if self.repairs else None


def availability(
    transitions: Iterable[Transition],
    start_at: float,
    end_at: float,
    before: Mapping[str, Transition] | None = None,
) -> Availability:
    """Of all GPUs that the transitions name, together; see `each`."""
    return total(each(transitions, start_at, end_at, before).values())


def each(
    transitions: Iterable[Transition],
    start_at: float,
    end_at: float,
    before: Mapping[str, Transition] | None = None,
) -> dict[str, Availability]:
    """By GPU, for the window from `start_at` up to `end_at`, in any order of the transitions.

    What was before the window has to be told for a state to be known at its start: transitions that are older, or `before`, the
    last one of each GPU. Of an incident that began before, only older transitions tell the beginning (`unsettled` says of which
    GPUs they are needed): `before` alone, which may be of a finding that came later, would be taken for it.
    """
    by_gpu: defaultdict[str, list[Transition]] = defaultdict(list)
    for gpu, transition in (before or {}).items():
        by_gpu[gpu].append(transition)
    for transition in transitions:
        by_gpu[transition.gpu].append(transition)
    return {gpu: _of_gpu(sorted(rows, key=_order), start_at, end_at) for gpu, rows in by_gpu.items()}


def unsettled(before: Mapping[str, Transition]) -> list[str]:
    """GPUs of which an incident may be open: those that are ours, and not known to be up."""
    return [gpu for gpu, transition in before.items() if _part(transition) not in {"up", ""}]


def grouped(parts: Mapping[str, Availability], group: Callable[[str], str]) -> dict[str, Availability]:
    """By whatever `group` says of a GPU's key: its node, its product."""
    groups: defaultdict[str, list[Availability]] = defaultdict(list)
    for gpu, part in parts.items():
        groups[group(gpu)].append(part)
    return {name: total(members) for name, members in groups.items()}


def total(parts: Iterable[Availability]) -> Availability:
    parts = list(parts)
    return Availability(
        up_s=sum(part.up_s for part in parts),
        down_s=sum(part.down_s for part in parts),
        planned_s=sum(part.planned_s for part in parts),
        unknown_s=sum(part.unknown_s for part in parts),
        failures=sum(part.failures for part in parts),
        repairs=sum(part.repairs for part in parts),
        repair_s=sum(part.repair_s for part in parts),
        open=tuple(sorted((i for part in parts for i in part.open), key=lambda i: (i.since_at, i.gpu))),
    )


def _order(transition: Transition) -> tuple[float, bool, str, str, str]:
    """By time; of one moment the one that changes the state comes before those that only tell of findings."""
    moved = transition.from_state != transition.to_state
    return transition.at, not moved, transition.to_state, transition.reason, transition.closes


def _part(transition: Transition) -> str:
    if transition.to_state == NOT_OWNED:
        return ""
    if transition.planned:
        return "planned"
    if transition.to_state == DeviceState.UNKNOWN:
        return "unknown"
    return "up" if usable(transition.to_state, transition.soft) else "down"


def _of_gpu(rows: list[Transition], start_at: float, end_at: float) -> Availability:
    """`rows` in order of time. What comes at or after the end of the window does not count."""
    spent = {"up": 0.0, "down": 0.0, "planned": 0.0, "unknown": 0.0, "": 0.0}
    failures, repairs, repair_s = 0, 0, 0.0
    incident: Transition | None = None
    for row, until in _spans(rows, end_at):
        part = _part(row)
        spent[part] += max(0.0, until - max(row.at, start_at))
        if part == "down" and incident is None:
            incident = row
            failures += row.at >= start_at
        elif part in {"up", ""} and incident is not None:
            if row.at >= start_at:
                repairs, repair_s = repairs + 1, repair_s + row.at - incident.at
            incident = None
    return Availability(
        up_s=spent["up"],
        down_s=spent["down"],
        planned_s=spent["planned"],
        unknown_s=spent["unknown"],
        failures=failures,
        repairs=repairs,
        repair_s=repair_s,
        open=(Incident(incident.gpu, incident.node, incident.at, incident.reason),) if incident else (),
    )


def _spans(rows: list[Transition], end_at: float) -> Iterator[tuple[Transition, float]]:
    """Each transition with the time until which its state lasted."""
    rows = [row for row in rows if row.at < end_at]
    for place, row in enumerate(rows):
        yield row, rows[place + 1].at if place + 1 < len(rows) else end_at
