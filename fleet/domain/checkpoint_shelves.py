"""The checkpoints of one directory together: the newest that is complete, how old it is, and who says otherwise.

Owns the order (by step, never by time), ages on a clock that may be wrong, and trackers, which are hints and no proof. Must not
look into a checkpoint.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from fleet.domain.checkpoint_files import File, Finding, Listing, Look, Unreadable, Why
from fleet.domain.checkpoint_units import step_of
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.tensorflow_checkpoints import named

TRACKERS: Final = ("latest", "latest_checkpointed_iteration.txt", "checkpoint", "latest.txt", "last_checkpoint")
MOST_TRACKER_BYTES: Final = 1_000_000


class Tracker(Struct, frozen=True):
    """A file or link that names a checkpoint."""

    path: str
    says: str  # what it names; "" when it is empty, as after a crash, or cannot be read
    step: int | None = None
    times: Mapping[str, float] = {}


class Age(Struct, frozen=True):
    """`age_s` is never negative: a commit moment in the future has age 0 and its distance as `skew_s`."""

    age_s: float
    skew_s: float = 0.0


class Conflict(Struct, frozen=True):
    """A tracker that names another checkpoint than the newest complete one."""

    tracker: Tracker
    newest_step: int | None
    found: State | None  # of what it names; None: there is none
    path: str = ""  # of what it names


class Shelf(Struct, frozen=True):
    """Checkpoints in order of their steps, those without one first. `newest` counts complete ones alone."""

    path: str
    checkpoints: tuple[Checkpoint, ...]
    newest: Checkpoint | None
    newest_resumable: Checkpoint | None  # with weights, optimizer and position
    age: Age | None  # of `newest`
    trackers: tuple[Tracker, ...] = ()
    conflicts: tuple[Conflict, ...] = ()

    def of(self, wanted: State) -> tuple[Checkpoint, ...]:
        return tuple(found for found in self.checkpoints if found.state is wanted)


def shelf(
    path: str, found: Iterable[Checkpoint], trackers: Iterable[Tracker], now: float, usual_save_s: float = 0.0
) -> Shelf:
    """`now`: seconds since 1970."""
    trackers = tuple(trackers)
    checkpoints = tuple(sorted((_timed(each, trackers).at(now, usual_save_s) for each in found), key=order))
    eligible = [each for each in checkpoints if each.state is State.COMPLETE and not each.aside]
    newest = eligible[-1] if eligible else None
    resumable = next((each for each in reversed(eligible) if each.components.resumable), None)
    when = age(newest, now) if newest else None
    conflicts = tuple(filter(None, (_conflict(tracker, checkpoints, newest) for tracker in trackers)))
    return Shelf(path, checkpoints, newest, resumable, when, trackers, conflicts)


def order(checkpoint: Checkpoint) -> tuple[int, float, str]:
    """By step; those without one before all others, by their commit moment."""
    step = -1 if checkpoint.step is None else checkpoint.step
    return step, checkpoint.committed_at or 0.0, checkpoint.path


def age(checkpoint: Checkpoint, now: float) -> Age | None:
    if checkpoint.committed_at is None:
        return None
    passed_s = now - checkpoint.committed_at
    return Age(max(0.0, passed_s), max(0.0, -passed_s))


def trackers(path: str, listing: Listing, look: Look) -> tuple[Tracker, ...]:
    """The hints in a directory."""
    found = [
        _tracker(file, look)
        for file in listing.files
        if file.folder == path and file.name in TRACKERS and not file.link
    ]
    links = [(file.path, file.link) for file in listing.files if file.folder == path and file.link]
    links += [(each.path, each.leads_to) for each in listing.omitted if each.why is Why.LINK]
    for where, target in links:
        if where.rpartition("/")[0] == path and (step := step_of(target.rpartition("/")[2])) is not None:
            found.append(Tracker(where, target, step))
        elif where.rpartition("/")[0] == path and where.rpartition("/")[2].startswith(("last", "latest")):
            found.append(Tracker(where, target))
    return tuple(found)


def _tracker(file: File, look: Look) -> Tracker:
    if file.size_bytes > MOST_TRACKER_BYTES:
        return Tracker(file.path, "")
    try:
        text = look.all_of(file).decode("utf-8", "replace")
    except (Finding, Unreadable):
        return Tracker(file.path, "")
    if file.name == "checkpoint":
        state = named(text)
        return Tracker(file.path, state.latest[:200], None, state.times)
    says = "".join(c for c in text.strip()[:200] if c.isprintable())
    digits = re.fullmatch(r"\d{1,18}", says)
    return Tracker(file.path, says, int(digits[0]) if digits else step_of(says.rpartition("/")[2]))


def _timed(checkpoint: Checkpoint, trackers: Iterable[Tracker]) -> Checkpoint:
    """With the moment that TensorFlow's state file gives."""
    name = checkpoint.path.rpartition("/")[2]
    for tracker in trackers:
        for path, at in tracker.times.items():
            if checkpoint.whole and path.rpartition("/")[2] == name and at > 0:
                return checkpoint.committed(at)
    return checkpoint


def _conflict(tracker: Tracker, checkpoints: Iterable[Checkpoint], newest: Checkpoint | None) -> Conflict | None:
    if not tracker.says:
        return None
    name = tracker.says.rstrip("/").rpartition("/")[2]
    named_ = next((each for each in checkpoints if _is_named(each, name, tracker.step)), None)
    if named_ is not None and (named_ is newest or (newest is None and named_.whole)):
        return None
    if named_ is None and tracker.step is not None and newest and newest.step == tracker.step:
        return None
    step = newest.step if newest else None
    return Conflict(tracker, step, named_.state, named_.path) if named_ else Conflict(tracker, step, None)


def _is_named(checkpoint: Checkpoint, name: str, step: int | None) -> bool:
    if checkpoint.path.rpartition("/")[2] == name:
        return True
    return step is not None and checkpoint.step == step and not checkpoint.aside
