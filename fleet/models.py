"""The ledger: what happened to machines. It survives everything.

Owns rows, not rules. Transitions and audit entries are append-only: a trigger refuses UPDATE and DELETE in both databases.
History (minutes, hours) is packed, one row per node, and pruned; `history` packs, reads and prunes. Actions, their steps and
lanes change by compare-and-swap, each change with an audit entry; `act` does that. Times of actions are seconds since 1970.
What was seen and said of checkpoints is added, never changed, and pruned; `save_records` does that.
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


class Action(models.Model):
    """Something that somebody asked Vigie to do to a cluster. The row is the queue: a message about it is only a hint."""

    cluster = models.CharField(max_length=NAME_LENGTH)
    kind = models.CharField(max_length=20)
    target = models.CharField(max_length=NAME_LENGTH)
    target_uid = models.CharField(max_length=64, blank=True)
    pool = models.CharField(max_length=NAME_LENGTH, blank=True)
    zone = models.CharField(max_length=NAME_LENGTH, blank=True)
    rack = models.CharField(max_length=NAME_LENGTH, blank=True)
    reason = models.TextField(blank=True)
    state = models.CharField(max_length=20)  # an ActionState
    plan = models.JSONField()  # a Plan
    digest = models.CharField(max_length=64)
    waivers = models.JSONField(default=list)
    needs_second = models.BooleanField(default=False)
    proposed_by = models.CharField(max_length=150)
    proposed_via = models.CharField(max_length=20)
    proposed_at = models.FloatField()
    expires_at = models.FloatField()  # unless it is confirmed by then; after that, unless it has begun by then
    confirmed_by = models.CharField(max_length=150, blank=True)
    confirmed_via = models.CharField(max_length=20, blank=True)
    confirmed_at = models.FloatField(null=True)
    second_by = models.CharField(max_length=150, blank=True)
    second_at = models.FloatField(null=True)
    started_at = models.FloatField(null=True)
    ended_at = models.FloatField(null=True)
    stop_by = models.CharField(max_length=150, blank=True)  # who has asked to stop it
    stop_at = models.FloatField(null=True)
    claimed_by = models.CharField(max_length=64, blank=True)  # the worker that runs it now
    claim_until = models.FloatField(default=0.0)
    due_at = models.FloatField(null=True)  # when it has to be looked at again; null: nothing is to be done
    outcome = models.JSONField(default=dict)  # why it ended so, and what was really lost

    class Meta:
        db_table = "vigie_action"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "-proposed_at"], name="vigie_action_newest"),
            models.Index(fields=["cluster", "target", "state"], name="vigie_action_target"),
            models.Index(fields=["due_at"], name="vigie_action_due"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.kind} {self.target}"

    @property
    def name(self) -> str:
        """What people call it: "M-0412"."""
        return f"M-{self.pk:04}"


class ActionStep(models.Model):
    """One step of an action: "started" before its port call, "done" with evidence after it."""

    action = models.ForeignKey(Action, on_delete=models.CASCADE, related_name="steps")
    position = models.IntegerField()
    kind = models.CharField(max_length=20)  # a StepKind
    subject = models.CharField(max_length=NAME_LENGTH)
    state = models.CharField(max_length=20)  # a StepState
    facts = models.JSONField(default=dict)  # of the plan
    evidence = models.JSONField(default=dict)
    tries = models.IntegerField(default=0)
    started_at = models.FloatField(null=True)
    deadline_at = models.FloatField(null=True)
    done_at = models.FloatField(null=True)

    class Meta:
        db_table = "vigie_action_step"
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["action", "position"], name="vigie_step_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}: {self.state}"


class ActionLane(models.Model):
    """One pod on its way off a node."""

    action = models.ForeignKey(Action, on_delete=models.CASCADE, related_name="lanes")
    uid = models.CharField(max_length=64)
    namespace = models.CharField(max_length=NAME_LENGTH)
    name = models.CharField(max_length=NAME_LENGTH)
    place = models.IntegerField()  # in the plan's order
    state = models.CharField(max_length=20)  # a LaneState
    tries = models.IntegerField(default=0)
    retry_at = models.FloatField(default=0.0)
    reason = models.CharField(max_length=40, blank=True)  # a draining.Meaning that holds it
    facts = models.JSONField(default=dict)  # budget, needs, has, message, grace_until …
    accepted_at = models.FloatField(null=True)
    gone_at = models.FloatField(null=True)
    replaced_at = models.FloatField(null=True)

    class Meta:
        db_table = "vigie_action_lane"
        ordering: ClassVar = ["place"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["action", "uid"], name="vigie_lane_once")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}: {self.state}"


class AuditEntry(models.Model):
    """Who did what, why and on which facts. Append-only; `hash` seals this entry and, through `previous`, all before it."""

    number = models.BigIntegerField(primary_key=True)  # 1, 2, 3 … without a gap
    at = models.FloatField()
    cluster = models.CharField(max_length=NAME_LENGTH, blank=True)
    actor = models.CharField(max_length=150)
    via = models.CharField(max_length=20)  # web, api, console; vigie for what it did itself
    what = models.CharField(max_length=60)
    action = models.BigIntegerField(null=True)  # no foreign key: an entry outlives everything
    kind = models.CharField(max_length=20, blank=True)
    target = models.CharField(max_length=NAME_LENGTH, blank=True)
    facts = models.JSONField(default=dict)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "vigie_audit_entry"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "-number"], name="vigie_audit_newest"),
            models.Index(fields=["action"], name="vigie_audit_action"),
        ]

    def __str__(self) -> str:
        return f"#{self.number} {self.what}"


class AuditHead(models.Model):
    """The end of the chain, in one row: locking it makes appending one after the other, and a cut tail shows."""

    number = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")

    class Meta:
        db_table = "vigie_audit_head"

    def __str__(self) -> str:
        return f"{self.number} entries"


class CheckpointSeen(models.Model):
    """A checkpoint as a scan found it, once for each state that it was found in. Times are seconds since 1970."""

    cluster = models.CharField(max_length=NAME_LENGTH)
    workload = models.CharField(max_length=600)  # its key in the picture
    uri = models.TextField()  # where the workload saves
    path = models.TextField()  # in the store
    step = models.BigIntegerField(null=True)
    state = models.CharField(max_length=20)  # a checkpoints.State
    committed_at = models.FloatField(null=True)  # null: it never was
    duration_s = models.FloatField(null=True)  # null: its files do not tell
    size_bytes = models.BigIntegerField(default=0)
    seen_at = models.FloatField()
    digest = models.CharField(max_length=64, unique=True)  # of all that makes it one finding: it is written once

    class Meta:
        db_table = "vigie_checkpoint_seen"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "workload", "-committed_at"], name="vigie_checkpoint_newest"),
            models.Index(fields=["seen_at"], name="vigie_checkpoint_seen_at"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} step {self.step}: {self.state}"


class CheckpointReport(models.Model):
    """What a trainer says of its own save. `received_at` is ours, `committed_at` its own."""

    cluster = models.CharField(max_length=NAME_LENGTH)
    workload = models.CharField(max_length=600)
    committed_at = models.FloatField()
    step = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(default=0)
    duration_s = models.FloatField(null=True)
    uri = models.TextField(blank=True)
    received_at = models.FloatField()
    sent_by = models.CharField(max_length=150)

    class Meta:
        db_table = "vigie_checkpoint_report"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "workload", "-received_at"], name="vigie_report_newest"),
            models.Index(fields=["received_at"], name="vigie_report_received"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} step {self.step}"


class CheckpointRecord(models.Model):
    """What an operator has noted of a workload that declares nothing: the newest row counts, an empty one takes it back."""

    cluster = models.CharField(max_length=NAME_LENGTH)
    workload = models.CharField(max_length=600)
    uri = models.TextField(blank=True)  # a path in its container, or an address
    format = models.CharField(max_length=40, blank=True)
    interval_s = models.FloatField(null=True)
    noted_by = models.CharField(max_length=150)
    noted_at = models.FloatField()

    class Meta:
        db_table = "vigie_checkpoint_record"
        indexes: ClassVar = [
            models.Index(fields=["cluster", "workload", "-noted_at"], name="vigie_record_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.workload}: {self.uri or 'nothing'}"
