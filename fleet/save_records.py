"""The ledger's story of checkpoints: saves that were seen, reports of trainers, notes of operators; what is too old goes.

Owns every query of the ledger about checkpoints, and a short memory of their answers for those who ask for one workload after
another. Must not read a store, and judges nothing.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from fleet.domain import save_history
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.freshness import Report
from fleet.domain.save_history import LATEST, Save, Usual
from fleet.domain.training import Record
from fleet.models import CheckpointRecord, CheckpointReport, CheckpointSeen

T = TypeVar("T")

KEPT_S: Final = 90 * 86_400
REMEMBERED_S: Final = 60.0
AT_ONCE: Final = 500

# Seen


def see(cluster: str, workload: str, uri: str, found: Iterable[tuple[Checkpoint, float | None]], now: float) -> None:
    """Append each checkpoint, with how long its save took; one that was seen like this before is left as it is."""
    rows = [_row(cluster, workload, uri, each, duration_s, now) for each, duration_s in found]
    CheckpointSeen.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)


def saves(cluster: str, workload: str, *, since: float, until: float) -> list[Save]:
    """Complete ones that were committed in this time, oldest first."""
    rows = CheckpointSeen.objects.filter(
        cluster=cluster, workload=workload, state=State.COMPLETE, committed_at__gte=since, committed_at__lt=until
    )
    return _saves(rows.order_by("committed_at", "pk").values_list(*_FIELDS))


def last_saves(cluster: str, workload: str, most: int = LATEST) -> list[Save]:
    """The latest by commit, oldest first."""
    rows = CheckpointSeen.objects.filter(
        cluster=cluster, workload=workload, state=State.COMPLETE, committed_at__isnull=False
    )
    return _saves(rows.order_by("-committed_at", "-pk").values_list(*_FIELDS)[:most])[::-1]


def workloads(cluster: str) -> list[str]:
    """Those of which a complete checkpoint was ever seen, sorted."""
    rows = CheckpointSeen.objects.filter(cluster=cluster, state=State.COMPLETE)
    return sorted(rows.order_by().values_list("workload", flat=True).distinct())


def first_seen(cluster: str, workload: str, wanted: Collection[tuple[str, float]]) -> dict[tuple[str, float], float]:
    """When each of these checkpoints, by path and commit, was found for the first time; the others never were."""
    rows = CheckpointSeen.objects.filter(cluster=cluster, workload=workload, committed_at__in=[at for _, at in wanted])
    found: dict[tuple[str, float], float] = {}
    for row in rows.order_by("-seen_at"):
        if row.committed_at is not None and (row.path, row.committed_at) in wanted:
            found[row.path, row.committed_at] = row.seen_at
    return found


_FIELDS: Final = ("committed_at", "step", "duration_s", "size_bytes", "path")


def _saves(rows: Iterable[tuple[float, int | None, float | None, int, str]]) -> list[Save]:
    return [Save(*row) for row in rows]


def _row(
    cluster: str, workload: str, uri: str, found: Checkpoint, duration_s: float | None, now: float
) -> CheckpointSeen:
    identity = (cluster, workload, uri, found.path, found.step, found.state.value, found.committed_at)
    return CheckpointSeen(
        cluster=cluster,
        workload=workload,
        uri=_clean(uri),
        path=_clean(found.path),
        step=found.step,
        state=found.state.value,
        committed_at=found.committed_at,
        duration_s=duration_s,
        size_bytes=found.size_bytes,
        seen_at=now,
        digest=hashlib.sha256(msgspec.json.encode(identity)).hexdigest(),
    )


def _clean(text: str) -> str:
    """PostgreSQL takes no NUL in a text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


# Reported


def report(cluster: str, workload: str, said: Report, sent_by: str) -> None:
    """Append what a trainer says. Whoever calls knows that the sender may speak for this workload."""
    CheckpointReport.objects.create(
        cluster=cluster,
        workload=workload,
        committed_at=said.at,
        step=said.step,
        size_bytes=said.size_bytes,
        duration_s=said.duration_s,
        uri=_clean(said.uri),
        received_at=said.received_at,
        sent_by=sent_by,
    )


def last_report(cluster: str, workload: str) -> Report | None:
    """The one that came last."""
    rows = CheckpointReport.objects.filter(cluster=cluster, workload=workload).order_by("-received_at", "-pk")
    fields = ("committed_at", "step", "size_bytes", "duration_s", "uri", "received_at")
    row = rows.values_list(*fields).first()
    return Report(*row) if row else None


# Noted


def note(cluster: str, workload: str, record: Record, noted_by: str, now: float) -> None:
    """Append an operator's note. An empty one takes the last one back."""
    CheckpointRecord.objects.create(
        cluster=cluster,
        workload=workload,
        uri=_clean(record.uri),
        format=record.format,
        interval_s=record.interval_s,
        noted_by=noted_by,
        noted_at=now,
    )


def notes(cluster: str) -> dict[str, Record]:
    """The one that counts of each workload."""
    rows = CheckpointRecord.objects.filter(cluster=cluster).order_by("noted_at", "pk")
    found = {row.workload: Record(row.uri, row.format, row.interval_s) for row in rows}
    return {workload: record for workload, record in found.items() if record != Record()}


def noted(cluster: str, workload: str) -> CheckpointRecord | None:
    """The note that counts, with who made it and when; None: there is none, or it was taken back."""
    row = CheckpointRecord.objects.filter(cluster=cluster, workload=workload).order_by("-noted_at", "-pk").first()
    return None if row is None or Record(row.uri, row.format, row.interval_s) == Record() else row


def prune(now: float) -> int:
    """Take away what is too old; how many rows. Operators' notes stay."""
    seen = CheckpointSeen.objects.filter(seen_at__lt=now - KEPT_S).delete()[0]
    return seen + CheckpointReport.objects.filter(received_at__lt=now - KEPT_S).delete()[0]


class Remembered:
    """What the ledger tells of the workloads of one cluster, up to a minute old: `stores.Past`."""

    def __init__(self, cluster: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self._clock = cluster, clock
        self._lock = threading.Lock()
        self._usual: dict[str, tuple[float, Usual]] = {}
        self._reports: dict[str, tuple[float, Report | None]] = {}
        self._first: dict[str, dict[tuple[str, float], float]] = {}

    def usual(self, workload: str) -> Usual:
        return self._known(self._usual, workload, lambda: save_history.usual(last_saves(self._cluster, workload)))

    def report(self, workload: str) -> Report | None:
        return self._known(self._reports, workload, lambda: last_report(self._cluster, workload))

    def first_seen(self, workload: str, wanted: Collection[tuple[str, float]]) -> Mapping[tuple[str, float], float]:
        """Never changes once it is known."""
        with self._lock:
            known = self._first.get(workload, {})
        if not known.keys() >= {*wanted}:
            known = first_seen(self._cluster, workload, wanted)
            with self._lock:
                self._first[workload] = known
        return known

    def forget(self, workload: str) -> None:
        """The ledger has heard something new."""
        with self._lock:
            self._usual.pop(workload, None)
            self._reports.pop(workload, None)

    def keep(self, wanted: Iterable[str]) -> None:
        """Only these: the others are gone."""
        names = {*wanted}
        with self._lock:
            for table in (self._usual, self._reports, self._first):
                for workload in table.keys() - names:
                    del table[workload]

    def _known(self, table: dict[str, tuple[float, T]], workload: str, ask: Callable[[], T]) -> T:
        now = self._clock()
        with self._lock:
            known = table.get(workload)
        if known is not None and now - known[0] < REMEMBERED_S:
            return known[1]
        answer = ask()
        with self._lock:
            table[workload] = (now, answer)
        return answer
