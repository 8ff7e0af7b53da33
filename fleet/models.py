"""The ledger: what happened to machines. It survives everything.

Owns rows, not rules. Transitions are append-only: a trigger refuses UPDATE and DELETE in both databases. History (minutes, hours)
is packed, one row per node, and pruned; `history` packs, reads and prunes.
"""

from typing import ClassVar

from django.db import models

NAME_LENGTH = 253  # of a node, by Kubernetes; a cluster is named by its context


class HealthTransition(models.Model):
    """Something happened to a GPU: its state changed, or (both states alike) a finding came or went: see `verdicts`."""

    cluster = models.CharField(max_length=NAME_LENGTH)
    node = models.CharField(max_length=NAME_LENGTH)
    gpu = models.CharField(max_length=300)  # UUID, or "node/pci" while the driver does not say it
    product = models.CharField(max_length=100)  # short: "H100"
    at = models.DateTimeField()
    from_state = models.CharField(max_length=20, blank=True)  # "": the fleet did not have it before
    to_state = models.CharField(max_length=20, blank=True)  # "": the fleet has it no longer
    soft = models.BooleanField(default=False)
    reason = models.CharField(max_length=60, blank=True)
    action = models.CharField(max_length=20)
    evidence = models.JSONField(default=dict)
    boot_id = models.CharField(max_length=64, blank=True)
    planned = models.BooleanField(default=False)
    closes = models.CharField(max_length=20, blank=True)
    instance = models.CharField(max_length=100, blank=True)  # of the finding: UUID of a MIG instance

    class Meta:
        db_table = "vigie_health_transition"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "at"], name="vigie_transition_time"),
            models.Index(fields=["cluster", "gpu", "at"], name="vigie_transition_gpu"),
            models.Index(fields=["cluster", "node", "at"], name="vigie_transition_node"),
        ]
        # A worker that was killed assesses the same readings again, with the same result: it is written once.
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "node", "gpu", "at", "from_state", "to_state", "reason", "closes", "instance"],
                name="vigie_transition_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.gpu}: {self.from_state or 'nothing'} to {self.to_state or 'nothing'}"


class GpuLineup(models.Model):
    """The GPUs of one node in one order, so that a packed row need not name them."""

    id = models.AutoField(primary_key=True)
    cluster = models.CharField(max_length=NAME_LENGTH)
    node = models.CharField(max_length=NAME_LENGTH)
    keys = models.JSONField()  # of GpuRows
    digest = models.CharField(max_length=64)  # of the keys

    class Meta:
        db_table = "vigie_gpu_lineup"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "node", "digest"], name="vigie_lineup_once")
        ]

    def __str__(self) -> str:
        return f"{len(self.keys)} GPUs of {self.node}"


class Packed(models.Model):
    """What all GPUs of one node did in one span of time, packed. `span`: its number since 1970."""

    pk = models.CompositePrimaryKey("lineup", "span")
    lineup = models.ForeignKey(GpuLineup, on_delete=models.CASCADE, db_index=False, related_name="+")
    span = models.IntegerField()
    packed = models.BinaryField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.span} of lineup {self.lineup_id}"


class GpuMinute(Packed):
    """One minute; kept for a week."""

    class Meta:
        db_table = "vigie_gpu_minute"


class GpuHour(Packed):
    """One hour, made of its minutes; kept for 90 days."""

    class Meta:
        db_table = "vigie_gpu_hour"
