"""What the trainings of the picture by hand have saved: one on target, one overdue, one that has stopped, one out of sight."""

from typing import Any

from fleet.domain.save_picture import CheckpointRow

PARTS = ("present", "present", "present", "present", "present")


def saves(now: float) -> dict[str, CheckpointRow]:
    kept: dict[str, Any] = {"namespace": "ml", "durability": "durable", "claim": "ml/ckpt", "components": PARTS}
    rows = (
        CheckpointRow(
            "Deployment/ml/diffusion-xl-ft", standing="fresh", level="ok", uri="pvc://ml/ckpt/xl", target_s=1_200.0,
            newest_at=now - 41, resumable_at=now - 41,
            newest_step=92_334, newest_bytes=312_000_000_000, lost_since_at=now - 60, save_cost_s=95.0,
            format="torch-dcp", **kept,
        ),
        CheckpointRow(
            "Deployment/ml/speech-enc-1b", standing="stale", level="warn", uri="pvc://ml/ckpt/enc", target_s=1_800.0,
            newest_at=now - 2_700, resumable_at=now - 2_700,
            newest_step=48_438, newest_bytes=41_000_000_000, lost_since_at=now - 2_710, **kept,
        ),
        CheckpointRow(
            "Deployment/ml/vision-pretrain-3b", standing="critical", level="bad", uri="/scratch/vision", target_s=1_200.0,
            newest_at=now - 2_500, resumable_at=now - 2_500,
            newest_step=88_400, newest_bytes=36_000_000_000, lost_since_at=now - 2_500, namespace="ml",
            durability="pod", components=PARTS,
        ),
        CheckpointRow("Deployment/ml/graph-rank", "ml", standing="not-granted", trouble="not-granted", uri="s3://search/rank"),
    )  # fmt: skip
    return {row.workload: row for row in rows}
