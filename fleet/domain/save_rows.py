"""What screens see of a workload's checkpoints: one row each, and what of it needs a person.

Owns how a row is made of a `freshness.Freshness`, and which standings are a concern, with the facts of each sentence. Must not
judge freshness, nor write sentences.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from fleet.domain import durations, last_saves
from fleet.domain.freshness import Freshness, Standing
from fleet.domain.save_picture import CheckpointRow

# data-level of the visual language.
LEVELS: Final = {
    Standing.FRESH: "ok",
    Standing.LATE: "ok",
    Standing.STALE: "warn",
    Standing.CRITICAL: "bad",
    Standing.NONE: "bad",
    Standing.NOT_GRANTED: "off",
    Standing.UNREADABLE: "warn",
    Standing.REPORTED: "ok",
    Standing.UNKNOWN: "off",
    Standing.RESTING: "",
    Standing.STARTING: "",
}
BEHIND: Final = frozenset({Standing.NONE.value, Standing.CRITICAL.value, Standing.STALE.value})
UNSEEN: Final = frozenset({Standing.UNREADABLE.value, Standing.NOT_GRANTED.value, Standing.UNKNOWN.value})
NO_SCAN: Final = "no-scan"  # the trouble of a row when nobody scans any more


def row(found: Freshness) -> CheckpointRow:
    """As screens show it, apart from the moment of the scan, so that nothing changes while nothing happens."""
    training, newest, broken = found.training, found.newest, found.broken
    made = CheckpointRow(
        workload=training.workload,
        namespace=training.namespace,
        team=training.team,
        standing=found.standing.value,
        level=LEVELS[found.standing],
        trouble="shared" if found.shared else found.trouble,
        uri=training.uri,
        place=training.place,
        source=training.source.value,
        durability=training.durability.value,
        volume=training.volume,
        claim=training.claim,
        hook="" if training.hook is None else "signal" if training.hook.signal else "http",
        pods=training.pods,
        format=newest.format.value if newest and newest.format else training.format,
        target_s=_rounded(found.target_s),
        observed=found.observed,
        save_cost_s=_rounded(found.save_cost_s),
        stale_at=_rounded(found.due_at) if not found.skew_s else None,
        abandoned=found.abandoned.count,
        abandoned_bytes=found.abandoned.size_bytes,
        weights_only=found.weights_only,
        skew_s=round(found.skew_s, 1),
        started_at=training.started_at,
        running_since_at=training.running_since_at,
        unread=training.unread,
    )
    if newest is not None:
        made = structs.replace(
            made,
            newest_at=newest.at,
            newest_step=newest.step,
            newest_bytes=newest.size_bytes,
            newest_uri=newest.uri,
            components=tuple(each.value for each in structs.astuple(newest.components)),
        )
    if broken is not None:
        made = structs.replace(
            made,
            broken_state=broken.state.value,
            broken_step=broken.step,
            broken_why=broken.why,
            broken_file=broken.file or broken.path,
            broken_at=broken.seen_at,
        )
    return _with_rest(made, found)


def _with_rest(made: CheckpointRow, found: Freshness) -> CheckpointRow:
    resumable, saving, report, conflict = found.resumable, found.in_flight, found.report, found.conflict
    return structs.replace(
        made,
        resumable_at=resumable.at if resumable else None,
        resumable_step=resumable.step if resumable else None,
        saving_step=saving.step if saving else None,
        saving_bytes=saving.size_bytes if saving else None,
        saving_since_at=saving.started_at if saving else None,
        reported_at=report.at if report else None,
        reported_step=report.step if report else None,
        reported_bytes=report.size_bytes if report else 0,
        lost_since_at=_lost_since(found),
        step_s=_pace(found),
        tracker=conflict.tracker if conflict else "",
        tracker_says=conflict.says if conflict else "",
    )


def _lost_since(found: Freshness) -> float | None:
    """Nothing can be lost of what no longer runs, or not yet."""
    return None if found.standing is Standing.RESTING else found.lost_since_at


def _pace(found: Freshness) -> float | None:
    """To two digits: it moves a little with every save."""
    pace_s = last_saves.pace_s(found)
    return None if pace_s is None else float(f"{pace_s:.2g}")


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def unscanned(found: CheckpointRow) -> CheckpointRow:
    """When nobody scans any more, no standing holds; a bad one stays, since nothing has made it better."""
    if found.level in {"bad", "warn"} or found.standing == Standing.RESTING:
        return found
    return structs.replace(found, standing=Standing.UNKNOWN.value, level="off", trouble=NO_SCAN)


Told = tuple[str, float | None, tuple[tuple[str, str | int | float | None], ...]]


def concerns(found: CheckpointRow) -> Iterator[Told]:
    """(kind of attention, since when, facts): see each. A resting workload has none."""
    if found.standing == Standing.RESTING:
        return
    if kind := _KINDS.get(found.standing):
        yield kind, *_facts(found)
    if found.broken_state:
        yield (
            "checkpoint-corrupt",
            found.broken_at,
            (
                ("state", found.broken_state),
                ("step", found.broken_step),
                ("file", found.broken_file),
                ("older", found.newest_at),
                ("older-step", found.newest_step),
            ),
        )
    if found.skew_s:
        yield "checkpoint-skew", None, (("skew", durations.spelled(found.skew_s)), ("step", found.newest_step))


_KINDS: Final = {
    Standing.STALE.value: "checkpoint-stale",
    Standing.CRITICAL.value: "checkpoint-critical",
    Standing.NONE.value: "checkpoint-none",
    Standing.NOT_GRANTED.value: "checkpoint-not-granted",
    Standing.UNREADABLE.value: "checkpoint-unreadable",
}


def _facts(found: CheckpointRow) -> tuple[float | None, tuple[tuple[str, str | int | float | None], ...]]:
    """Of late ones: since they are stale; at (of the newest, or the report), step, target. Of none: since it started; place,
    abandoned. Else: place, trouble. Durations are spelled out."""
    if found.standing in {Standing.STALE, Standing.CRITICAL}:
        at = found.reported_at if found.newest_at is None else found.newest_at
        step = found.reported_step if found.newest_at is None else found.newest_step
        target = None if found.target_s is None else durations.spelled(found.target_s)
        return found.stale_at, (("at", at), ("step", step), ("target", target))
    if found.standing == Standing.NONE:
        return found.started_at, (("place", found.uri), ("abandoned", found.abandoned))
    return None, (("place", found.uri), ("trouble", found.trouble))
