"""Which workloads of a cluster train, and what they declare: from the picture's pods, and one pod of each read in full.

Owns which pod speaks for its workload and how long what was read of it is believed. Must not judge what counts as training
(`domain.training` does) nor read a store.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import structlog
from msgspec import Struct, structs

from fleet.domain import training
from fleet.domain.facts import Actor, Facts, Owner, trains
from fleet.domain.objects import Service
from fleet.domain.picture import PodRow, Snapshot, WorkloadRow
from fleet.domain.policies import Policy
from fleet.domain.save_sites import Volumes
from fleet.domain.specs import FullPod
from fleet.domain.training import Life, Record, Training
from fleet.ports import Changer, PortError

log = structlog.get_logger(__name__)

T = TypeVar("T")

BELIEVED_S: Final = 300.0  # annotations of a running pod may change; nothing else that counts here does
AT_ONCE: Final = 8
MOST_READ: Final = 1_000  # pods in one round; the others come in the next one
ENDED: Final = frozenset({"Completed", "Succeeded", "Failed", "Evicted"})  # words of pods that do nothing any more


class _Speaker(Struct, frozen=True):
    """The pod that speaks for its workload, as it was read."""

    pod: FullPod
    read_at: float


class Discovery:
    """Of one cluster. Keeps what it has read. One call at a time."""

    def __init__(self, cluster: str, changer: Changer, policy: Policy) -> None:
        self._cluster, self._changer, self._policy = cluster, changer, policy
        self._speakers: dict[str, _Speaker] = {}
        self._volumes = Volumes()
        self._services: tuple[Service, ...] | None = None
        self._around_at = float("-inf")

    def trainings(self, snapshot: Snapshot, records: Mapping[str, Record], now: float) -> dict[str, Training]:
        """By workload, sorted. A workload of which no pod can be read yet is left out."""
        groups = candidates(snapshot)
        kept = {key: speaker for key, speaker in self._speakers.items() if key in groups or key in snapshot.workloads}
        asked = {key: rows[0] for key, rows in groups.items() if _is_due(kept.get(key), rows, now)}
        self._speakers = kept | self._read(dict(list(asked.items())[:MOST_READ]), now)
        if asked or now - self._around_at > BELIEVED_S:
            self._look_around(now)
        found: dict[str, Training] = {}
        for key, speaker in sorted(self._speakers.items()):
            row, pods = snapshot.workloads.get(key), groups.get(key, [])
            if self._trains(speaker.pod, key, row, now):
                found[key] = self._declared(speaker.pod, key, records, row, pods)
        return found

    def _read(self, asked: Mapping[str, PodRow], now: float) -> dict[str, _Speaker]:
        if not asked:
            return {}
        with ThreadPoolExecutor(min(AT_ONCE, len(asked)), "discovery") as pool:
            pods = pool.map(
                lambda row: self._tried(lambda: self._changer.read_pod(row.namespace, row.name)), asked.values()
            )
            return {key: _Speaker(pod, now) for key, pod in zip(asked, pods, strict=True) if pod is not None}

    def _look_around(self, now: float) -> None:
        """Claims, volumes and services: where they may not be read, what is behind a claim is unknown."""
        claims, storage = self._tried(self._changer.read_claims), self._tried(self._changer.read_storage)
        self._volumes = Volumes(
            None if claims is None else {claim.key: claim for claim in claims},
            None if storage is None else {volume.key: volume for volume in storage},
        )
        self._services, self._around_at = self._tried(self._changer.read_services), now

    def _tried(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except PortError as error:
            log.warning("something about training cannot be read", cluster=self._cluster, reason=str(error))
            return None

    def _trains(self, pod: FullPod, key: str, row: WorkloadRow | None, now: float) -> bool:
        """By the rule of decisions."""
        owner = Owner(key, row.kind, row.name) if row is not None else None
        facts = Facts(
            cluster=self._cluster,
            kind="",
            target="",
            actor=Actor("vigie", "viewer"),
            now=now,
            read_at=now,
            policy=self._policy,
            actions_allowed=False,
            services=self._services,
            owners={pod.metadata.uid: owner} if owner else {},
        )
        return trains(facts, pod)

    def _declared(
        self, pod: FullPod, key: str, records: Mapping[str, Record], row: WorkloadRow | None, pods: list[PodRow]
    ) -> Training:
        reported = key in self._policy.checkpoints.reported
        active = [each for each in pods if _is_active(each)]
        begun = [each.bound_at for each in active if each.bound_at is not None]
        created = row.created_at if row is not None else pods[0].created_at if pods else None
        return structs.replace(
            training.training(pod, key, records, self._volumes, reported=reported),
            life=life(row, pods),
            team=(row.team if row is not None else "") or (pods[0].team if pods else ""),
            started_at=created if created is not None else min(begun, default=None),
            running_since_at=max(begun, default=None),
            pods=max(1, len(active)),
        )


def candidates(snapshot: Snapshot) -> dict[str, list[PodRow]]:
    """Pods that might train, by workload; the one that speaks for it first."""
    groups: defaultdict[str, list[PodRow]] = defaultdict(list)
    for row in snapshot.pods.values():
        if (row.gpus or row.saves or row.owner_kind in training.KINDS) and not (row.daemon or row.mirror):
            groups[row.workload or f"Pod/{row.namespace}/{row.name}"].append(row)
    return {key: sorted(rows, key=_voice) for key, rows in groups.items()}


def life(row: WorkloadRow | None, pods: Iterable[PodRow]) -> Life:
    """Whether anything is due from a workload. A Job that wants no pods and is not suspended is through."""
    if row is not None and row.paused:
        return Life.SUSPENDED
    if row is not None and row.desired == 0:
        return Life.FINISHED if row.kind == "Job" else Life.SUSPENDED
    return Life.ACTIVE if any(map(_is_active, pods)) else Life.FINISHED


def _voice(row: PodRow) -> tuple[bool, bool, str]:
    return not _is_active(row), not row.node, row.name


def _is_active(row: PodRow) -> bool:
    return row.status not in ENDED and row.terminating_at is None


def _is_due(known: _Speaker | None, rows: list[PodRow], now: float) -> bool:
    if known is None or known.pod.metadata.uid not in {row.uid for row in rows}:
        return True
    return now - known.read_at > BELIEVED_S
