"""Why a workload's checkpoints are not simply well: each reason with its facts, for the page to say what to do.

Owns which facts of a row are a reason. Must not hold wording (checkpoint_page_patterns.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.panels import measures
from dashboard.panels.checkpoint_patterns import TROUBLES
from dashboard.panels.words import Age, Text, say
from fleet.domain import durations
from fleet.domain.freshness import Standing
from fleet.domain.save_picture import CheckpointRow


@dataclass(frozen=True, slots=True)
class Reason:
    """`level`: bad, warn, off (nobody knows), run (it goes on by itself)."""

    kind: str
    level: str
    facts: Text = ""


def reasons(row: CheckpointRow) -> Iterator[Reason]:
    """Of a workload that is finished or suspended only what costs disk."""
    if row.abandoned:
        facts = say("ckpt.fact.abandoned", n=row.abandoned, size=measures.size(row.abandoned_bytes))
        yield Reason("abandoned", "warn", facts)
    if row.standing == Standing.RESTING:
        return
    yield from _unread(row)
    yield from _wrong(row)
    if row.durability in {"pod", "node"}:
        yield Reason(f"dies-with-{row.durability}", "bad" if row.durability == "pod" else "warn", row.place)
    if row.unread:
        yield Reason("annotations", "warn", ", ".join(row.unread))
    if row.saving_bytes is not None:
        yield Reason("saving", "run", _saving(row))
    if row.target_s is None and row.source != "none":
        yield Reason("no-target", "off")


def _unread(row: CheckpointRow) -> Iterator[Reason]:
    """Why no store was read for it."""
    if row.trouble in {"no-place", "local", "no-scan", "shared"}:
        yield Reason(row.trouble, "off", "" if row.trouble == "no-scan" else row.place)
    elif row.trouble == "not-granted":
        yield Reason("not-granted", "off", row.uri)
    elif row.trouble:
        known = row.trouble if row.trouble in TROUBLES else "failed"
        yield Reason("unreadable", "warn", (row.uri, say(f"checkpoint-trouble.{known}")))
    if row.reported_at is not None:
        word = "reported" if row.newest_at is None else "reported-too"
        yield Reason(word, "off", say("ckpt.fact.reported", age=Age(row.reported_at), step=row.reported_step))


def _wrong(row: CheckpointRow) -> Iterator[Reason]:
    if row.standing == Standing.NONE:
        yield Reason("none", "bad", row.uri)
    if row.broken_state:
        state = say(f"checkpoint-state.{row.broken_state}")
        yield Reason("broken", "bad", say("ckpt.fact.broken", step=row.broken_step, what=state, file=row.broken_file))
    if row.newest_at is not None and row.resumable_at != row.newest_at:
        yield Reason("not-resumable", "warn", _resumes(row))
    if row.tracker:
        facts = say("ckpt.fact.tracker", file=row.tracker, says=row.tracker_says, step=row.newest_step)
        yield Reason("conflict", "warn", facts)
    if row.skew_s:
        yield Reason("skew", "warn", say("ckpt.fact.skew", skew=durations.spelled(row.skew_s)))
    if row.weights_only and row.newest_at is None:
        yield Reason("weights-only", "warn", say("ckpt.fact.weights-only", n=row.weights_only))


def _resumes(row: CheckpointRow) -> Text:
    if row.resumable_at is None:
        return say("ckpt.fact.never-resumable")
    return say("ckpt.fact.resumable", step=row.resumable_step, age=Age(row.resumable_at))


def _saving(row: CheckpointRow) -> Text:
    size = measures.size(row.saving_bytes)
    since = say("ckpt.fact.since", age=Age(row.saving_since_at)) if row.saving_since_at is not None else ""
    return (say("ckpt.fact.saving", step=row.saving_step, size=size), since)
