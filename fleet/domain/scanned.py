"""What the scan has told about each workload's checkpoints, between the inventory's snapshots.

Owns the rows, and what they give the totals and the attention list. Must not judge a checkpoint. When nobody scans any more, no
good standing holds.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from fleet.domain import attention, save_rows
from fleet.domain.attention import Concern
from fleet.domain.freshness import Standing
from fleet.domain.picture import AttentionRow, FleetRow
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.tables import Table


class Scanned:
    """Of all workloads of one cluster. `stale`: something has changed since `frozen`."""

    def __init__(self) -> None:
        self.stale = False
        self._table = Table[CheckpointRow]()
        self._told: dict[str, CheckpointRow] = {}
        self._trusted = True

    def put(self, rows: Mapping[str, CheckpointRow]) -> None:
        """All that the last scan has found."""
        self._told = dict(rows)
        self._refresh()

    def trust(self, trusted: bool) -> None:
        """Whether somebody scans."""
        if trusted != self._trusted:
            self._trusted = trusted
            self._refresh()

    def frozen(self) -> dict[str, CheckpointRow]:
        self.stale = False
        return self._table.frozen()

    def joined(self, totals: FleetRow) -> FleetRow:
        """The totals with how many train, and how many of those are behind their target."""
        standings = [row.standing for row in self._table.frozen().values() if row.standing != Standing.RESTING]
        behind = [standing for standing in standings if standing in save_rows.BEHIND]
        return structs.replace(
            totals,
            trainings=len(standings),
            behind=len(behind),
            unsaved=len(behind) - behind.count(Standing.STALE.value),
            unseen=sum(standing in save_rows.UNSEEN for standing in standings),
        )

    def concerns(self) -> Iterator[AttentionRow]:
        for key, row in self._table.frozen().items():
            for kind, since_at, facts in save_rows.concerns(row):
                yield attention.of_workload(Concern(kind), key, since_at, facts)

    def _refresh(self) -> None:
        before = self._table.frozen()
        shown = self._told if self._trusted else {key: save_rows.unscanned(row) for key, row in self._told.items()}
        self._table.replace(dict(sorted(shown.items())))
        self.stale |= self._table.frozen() is not before
