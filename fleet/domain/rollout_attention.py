"""Rollouts that do not get on by themselves, as what needs a person: one entry per workload, with its reasons and one way out.

Owns which rollouts are told, and their facts. Must not write sentences, nor judge why one is held up: `holdups` does.

An entry takes the place of what would be said of the same pods otherwise: that they wait for GPUs, or that the workload is short.
Where pods of a workload that has one version alone wait for GPUs, and nothing else is wrong, `pods-waiting` says all there is to
say. What containers themselves say is in no fact: anybody may stand before the wall.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleet.domain import machines
from fleet.domain.attention import Concern, Facts, of_workload
from fleet.domain.holdups import Cause, Level
from fleet.domain.picture import AttentionRow, NodeRow, PodRow, WorkloadRow
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from fleet.domain.rollouts import Verdict
from fleet.domain.totals import Shares, largest_free
from fleet.domain.ways_out import HOLES, Way, answer, uncordon

LONGEST = 200  # characters of what Kubernetes says
ENDED = frozenset({Cause.CRASH, Cause.STARTUP_BUDGET})  # their evidence is what a container said

Waiting = Mapping[str, Sequence[PodRow]]  # pods that wait for GPUs by workload, the oldest first


class _Holes:
    """What is free, and what would be: asked once for all pods that want the same, however many rollouts wait for it."""

    def __init__(self, closed: Sequence[NodeRow], shares: Shares) -> None:
        self._closed, self._shares = closed, shares
        self._ways: dict[tuple[object, ...], Way | None] = {}
        self._largest: dict[tuple[str, str], int] = {}

    def uncordon(self, pod: PodRow, short: int) -> Way | None:
        wish = (pod.resources, pod.product, short)
        if wish not in self._ways:
            self._ways[wish] = uncordon(self._closed, pod, short)
        return self._ways[wish]

    def largest(self, pod: PodRow) -> int:
        wish = pod.resources[0][0], pod.product
        if wish not in self._largest:
            self._largest[wish] = largest_free(self._shares, *wish)
        return self._largest[wish]


def is_held(row: RolloutRow) -> bool:
    return row.verdict == Verdict.FAILED or any(one.level == Level.BAD for one in row.holdups)


def of_held(
    rollouts: Iterable[tuple[str, RolloutRow, WorkloadRow]], waiting: Waiting, nodes: Iterable[NodeRow], shares: Shares
) -> Iterator[AttentionRow]:
    """`rollouts`: those of which `is_held` holds, by their keys.

    Facts: causes (joined by commas, the most serious first; "" past its deadline alone), late (1: the deadline has passed), old
    (pods of another version), desired, available, deadline, count (pods that the first cause concerns), remedy and place (a way
    out of it); where no hole is large enough gpus, product, hole; where a container ended container, restarts, code, reason;
    else said (Kubernetes' own words).
    """
    holes = _Holes([node for node in nodes if node.unschedulable], shares)
    for key, row, workload in rollouts:
        pods = waiting.get(key, ())
        if not (pods and _only_waits(row)):
            facts = (*_counted(row), *_told(row, next(iter(pods), None), holes))
            yield of_workload(_concern(row, workload), key, _since_at(row, workload), facts)


def _concern(row: RolloutRow, workload: WorkloadRow) -> Concern:
    """A pod that starts again in a workload at rest is less urgent than a new version that does not come."""
    wants_gpus = max(row.gpus_per_pod, row.gpus_per_old_pod, workload.gpus) > 0
    rolls = row.old > 0 or row.verdict == Verdict.FAILED
    return Concern.ROLLOUT_HELD if wants_gpus and rolls else Concern.PODS_HELD_UP


def _only_waits(row: RolloutRow) -> bool:
    return not row.old and all(Cause(one.cause) in HOLES for one in _serious(row))


def _serious(row: RolloutRow) -> list[HoldupRow]:
    return [one for one in row.holdups if one.level == Level.BAD]


def _since_at(row: RolloutRow, workload: WorkloadRow) -> float | None:
    found = [one.since_at for one in _serious(row) if one.since_at is not None]
    return min(found, default=workload.short_since_at if row.started_at is None else row.started_at)


def _counted(row: RolloutRow) -> Facts:
    return (
        ("causes", ",".join(one.cause for one in _serious(row))),
        ("late", int(row.verdict == Verdict.FAILED)),
        ("old", row.old),
        ("desired", row.desired),
        ("available", row.available),
        ("deadline", row.deadline_at),
    )


def _told(row: RolloutRow, pod: PodRow | None, holes: _Holes) -> Facts:
    """Of the first of its serious reasons. `pod`: its oldest that waits for GPUs."""
    first = next(iter(_serious(row)), None)
    if first is None:
        return ()
    cause = Cause(first.cause)
    way = (holes.uncordon(pod, first.pods) if pod and cause in HOLES else None) or answer(row, first)
    found: Facts = (
        ("count", first.pods),
        ("remedy", way.remedy.value if way else None),
        ("place", way.subject.rpartition("/")[2] if way else None),
    )
    if cause in HOLES and pod is not None and cause is not Cause.UNPLACEABLE:
        product = machines.short_product(pod.product) or None
        return (*found, ("gpus", pod.gpus), ("product", product), ("hole", holes.largest(pod)))
    if cause in ENDED:
        facts = dict(first.facts)
        names = (("container", "container"), ("restarts", "restarts"), ("code", "exit_code"), ("reason", "reason"))
        return (*found, *((name, facts.get(of)) for name, of in names))
    return (*found, ("said", " ".join(first.evidence.split())[:LONGEST]))
