"""What the totals say of checkpoints: how many train, how many are behind, of how many nobody knows."""

from fleet.domain.freshness import Standing
from fleet.domain.picture import FleetRow
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.scanned import Scanned


def told(*standings: Standing) -> Scanned:
    found = Scanned()
    found.put(
        {f"Job/ml/{i}": CheckpointRow(f"Job/ml/{i}", "ml", standing=one.value) for i, one in enumerate(standings)}
    )
    return found


def test_the_totals_count_what_is_due_and_leave_out_what_rests() -> None:
    found = told(*Standing)
    row = found.joined(FleetRow(gpus=8))
    assert row.gpus == 8
    assert (row.trainings, row.behind, row.unsaved, row.unseen) == (len(Standing) - 1, 3, 2, 3)
    assert told(Standing.RESTING).joined(FleetRow()) == FleetRow()


def test_when_nobody_scans_any_more_what_was_well_is_unseen() -> None:
    found = Scanned()
    rows = (
        CheckpointRow("Job/a", "a", standing="fresh", level="ok"),
        CheckpointRow("Job/b", "b", standing="stale", level="warn"),
    )
    found.put({row.workload: row for row in rows})
    found.trust(False)
    assert (found.joined(FleetRow()).behind, found.joined(FleetRow()).unseen) == (1, 1)
