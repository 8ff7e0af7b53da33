"""Says of a directory of checkpoints which are complete, what each holds, and how old the newest is. Changes nothing."""

import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from django.core.management.base import BaseCommand

from fleet import wiring
from fleet.domain.checkpoint_shelves import Shelf
from fleet.domain.checkpoints import Checkpoint, Note, Presence, Sign, State
from fleet.ports import PortError
from fleet.saves import Progress, Survey

RESUMABLE, NOT_RESUMABLE, NO_ANSWER = 0, 1, 2
PROGRESS_EVERY_S: Final = 2.0

SAYS: Final = {
    Sign.ENDS_EARLY: "ends early: {detail}",
    Sign.CONTRADICTS: "contradicts itself: {detail}",
    Sign.MISSING: "missing: {detail}",
    Sign.UNMARKED: "not finished: {detail}",
    Sign.TEMPORARY: "has the name of an unfinished save: {detail}",
    Sign.CHANGED: "changed while it was read",
    Sign.NEWER_THAN_MARKER: "newer than the metadata by {detail}: two saves in one directory",
    Sign.REFUSED: "SUSPICIOUS, not read: {detail}",
    Sign.LIMIT: "too large to judge: {detail}",
    Sign.UNREADABLE: "cannot be read: {detail}",
    Sign.OMITTED: "left out: {detail}",
    Sign.FOREIGN: "SUSPICIOUS: unpickling it would use {detail}",
    Sign.UNPROVABLE: "completeness cannot be proven: {detail}",
    Sign.TRAILING: "{detail} after the end, which loaders ignore",
    Sign.STEP_DISAGREES: "{detail}",
    Sign.ASIDE: "no trainer resumes from this name",
    Sign.UNCHECKED: "deep check: {detail}",
    Sign.CHECKSUM: "deep check: not what was written: {detail}",
}
LETTERS: Final = {
    Presence.PRESENT: "yes",
    Presence.EMPTY: "empty",
    Presence.ABSENT: "no",
    Presence.NOT_APPLICABLE: "n/a",
    Presence.UNKNOWN: "?",
}


class Command(BaseCommand):
    help = (
        "Judge the checkpoints below a path or an s3:// address without unpickling anything. Exit 0: one that a run can resume "
        "from is complete. 1: none is, or a deep check found damage. 2: no answer (unreadable, or far too many files)."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("place", metavar="PATH-or-s3-URI", help="a checkpoint, or a directory that holds some")
        parser.add_argument("--deep", action="store_true", help="also compare every byte with the recorded checksums")
        parser.add_argument("--json", action="store_true", help="for programs")

    def handle(self, *args: Any, place: str, deep: bool, json: bool, **options: Any) -> None:  # noqa: ARG002
        try:
            store, path = wiring.checkpoints(place)
            survey = Survey(store, path, name=Path(place).absolute().name)
            shelves = survey.shelves()
        except PortError as error:
            self._refuse(str(error))
        checked = [self._deep(survey, found) for shelf in shelves for found in shelf.checkpoints] if deep else []
        if json:
            self.stdout.write(msgspec.json.encode({"shelves": shelves, "deep": checked}).decode())
        else:
            self.stdout.write("\n".join(report(shelves, checked)))
        damaged = any(found.state is State.CORRUPT for found in checked)
        if damaged or not any(shelf.newest_resumable for shelf in shelves):
            raise SystemExit(NOT_RESUMABLE)

    def _refuse(self, why: str) -> NoReturn:
        self.stderr.write(f"checkpoint: {why}")
        raise SystemExit(NO_ANSWER)

    def _deep(self, survey: Survey, checkpoint: Checkpoint) -> Checkpoint:
        told_at = time.monotonic()
        found = checkpoint
        for each in survey.deep(checkpoint):
            if isinstance(each, Progress):
                if time.monotonic() - told_at > PROGRESS_EVERY_S:
                    told_at = time.monotonic()
                    percent = 100 * each.done_bytes // max(1, each.total_bytes)
                    self.stderr.write(f"{checkpoint.path or '.'}: {percent} %")
            else:
                found = each
        return found


def report(shelves: tuple[Shelf, ...], checked: list[Checkpoint]) -> list[str]:
    """As text, for a person."""
    if not shelves:
        return ["No checkpoint of a known format."]
    lines: list[str] = []
    for shelf in shelves:
        lines += _shelf(shelf)
    if checked:
        lines.append("Deep check:")
        lines += [f"  {_name(found)}: {found.state.value}" for found in checked]
        lines += [f"    {_note(note)}" for found in checked for note in found.notes if note.sign in _DEEP]
    return lines


_DEEP: Final = {Sign.CHECKSUM, Sign.UNCHECKED}


def _shelf(shelf: Shelf) -> list[str]:
    lines = [f"{shelf.path or '.'}: {len(shelf.checkpoints)} found"]
    if shelf.newest and shelf.age:
        skew = f", clock skew +{_span(shelf.age.skew_s)}" if shelf.age.skew_s else ""
        lines.append(
            f"  newest complete: {_name(shelf.newest)}, age {_span(shelf.age.age_s)}{skew}, {_when(shelf.newest)}"
        )
    else:
        lines.append("  newest complete: none")
    if shelf.newest_resumable is not shelf.newest:
        lines.append(f"  newest to resume from: {_name(shelf.newest_resumable) if shelf.newest_resumable else 'none'}")
    for conflict in shelf.conflicts:
        found = conflict.found.value if conflict.found else "not there"
        lines.append(f"  {conflict.tracker.path} says {conflict.tracker.says} ({found}): rolled back?")
    for found_ in reversed(shelf.checkpoints):
        lines += _checkpoint(found_)
    return lines


def _checkpoint(found: Checkpoint) -> list[str]:
    step = "-" if found.step is None else f"{found.step}"
    held = msgspec.structs.asdict(found.components)
    components = ", ".join(f"{name} {LETTERS[presence]}" for name, presence in held.items())
    lines = [
        f"  {step:>9}  {found.state.value:<13} {found.format.value:<12} {_size(found.size_bytes):>9}  {_name(found)}"
    ]
    lines.append(f"             {components}")
    return lines + [f"             ! {_note(note)}" for note in found.notes]


def _note(note: Note) -> str:
    said = SAYS[note.sign].format(detail=note.detail)
    return f"{note.path}: {said}" if note.path else said


def _name(found: Checkpoint) -> str:
    step = "" if found.step is None else f"step {found.step}, "
    return f"{step}{found.path or '.'}"


def _when(found: Checkpoint) -> str:
    at = datetime.fromtimestamp(found.committed_at or 0.0, UTC)
    return f"committed {at:%Y-%m-%d %H:%M:%S} UTC (by its {found.moment.value} time)"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _size(size_bytes: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
