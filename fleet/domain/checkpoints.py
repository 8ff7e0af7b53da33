"""What a checkpoint is: its state, its step, when it was committed, and which of the five components it holds.

Owns the words in which every format's answer is given, and how findings about single files add up to a state. Must not know a
format (its modules are `torch_archives`, `safetensors_files` …) nor how a set of checkpoints is judged (`checkpoint_shelves`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

# A save that wrote nothing for so long, and for three times its usual duration, is taken for abandoned.
ABANDONED_AFTER_S: Final = 600.0
ABANDONED_SAVES: Final = 3.0


class State(StrEnum):
    COMPLETE = "complete"
    IN_PROGRESS = "in-progress"
    ABANDONED = "abandoned"
    CORRUPT = "corrupt"  # what marks it as complete is there, and its contents contradict that
    INCONSISTENT = "inconsistent"  # parts of two saves
    PARTIAL_STATE = "partial-state"  # complete, and not enough to resume from: weights alone
    UNKNOWN = "unknown"


class Presence(StrEnum):
    PRESENT = "present"
    EMPTY = "empty"  # its place is there with nothing in it: plain SGD has no optimizer state
    ABSENT = "absent"
    NOT_APPLICABLE = "not-applicable"  # none was configured
    UNKNOWN = "unknown"


class Format(StrEnum):
    TORCH = "torch"
    TORCH_LEGACY = "torch-legacy"
    DCP = "torch-dcp"
    TRAINER = "hf-trainer"
    LIGHTNING = "lightning"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron-lm"
    NVRX = "nvrx-local"
    ORBAX = "orbax"
    FLAX = "flax"
    TENSORFLOW = "tensorflow"
    NEMO = "nemo"
    TORCHTITAN = "torchtitan"
    SAFETENSORS = "safetensors"


class Sign(StrEnum):
    """One kind of remark about a checkpoint; `Note` says about which file, with which numbers."""

    ENDS_EARLY = "ends-early"  # the file has not all its bytes yet, or any more
    CONTRADICTS = "contradicts"  # the file's contents disagree with each other
    MISSING = "missing"
    UNMARKED = "unmarked"  # what is written last is not there
    TEMPORARY = "temporary"  # it still has the name of an unfinished save
    CHANGED = "changed"  # while it was read
    NEWER_THAN_MARKER = "newer-than-marker"
    REFUSED = "refused"  # it looks made to mislead a reader, and was not read
    LIMIT = "limit"  # it is larger than what a look may read
    UNREADABLE = "unreadable"
    OMITTED = "omitted"  # a link or special file that was left alone
    FOREIGN = "foreign"  # unpickling it would call functions that checkpoints do not need
    UNPROVABLE = "unprovable"  # the format has nothing that proves completeness
    TRAILING = "trailing"  # bytes after the end, which loaders ignore
    STEP_DISAGREES = "step-disagrees"
    ASIDE = "aside"  # its name is not one that a trainer resumes from
    UNCHECKED = "unchecked"  # nothing recorded to check the bytes against
    CHECKSUM = "checksum"  # the bytes are not those that were written


class Note(Struct, frozen=True):
    sign: Sign
    path: str = ""  # relative to the store
    detail: str = ""


def unfinished(note: Note) -> Note:
    """The same where nothing but the end of the file itself marks it as complete: one that ends early is being written."""
    return structs.replace(note, sign=Sign.UNMARKED) if note.sign is Sign.ENDS_EARLY else note


class Components(Struct, frozen=True):
    """The five that a run resumes from."""

    weights: Presence = Presence.UNKNOWN
    optimizer: Presence = Presence.UNKNOWN
    schedule: Presence = Presence.UNKNOWN
    position: Presence = Presence.UNKNOWN
    rng: Presence = Presence.UNKNOWN

    def over(self, other: "Components") -> "Components":
        """What two files of one checkpoint hold together: what is known of either, the fuller of both."""
        pairs = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return Components(*(min(pair, key=_FULLEST.index) for pair in pairs))

    @property
    def resumable(self) -> bool:
        """Weights, optimizer and position. EMPTY counts for the optimizer: plain SGD keeps nothing."""
        held = (Presence.PRESENT, Presence.EMPTY)
        return self.weights is Presence.PRESENT and self.optimizer in held and self.position is Presence.PRESENT


_FULLEST: Final = [Presence.PRESENT, Presence.EMPTY, Presence.NOT_APPLICABLE, Presence.ABSENT, Presence.UNKNOWN]
NOTHING: Final = Components(*[Presence.ABSENT] * 5)
WEIGHTS_ALONE: Final = structs.replace(NOTHING, weights=Presence.PRESENT)


class Moment(StrEnum):
    """Where a commit moment is from, best first."""

    EMBEDDED = "embedded"  # written by the trainer inside
    MARKER = "marker"  # mtime of what is written last
    NEWEST = "newest"  # the newest mtime of its files


class Checkpoint(Struct, frozen=True):
    """One checkpoint as it was found. Times are seconds since 1970."""

    path: str  # relative to the store: a directory, a file, or the prefix of TensorFlow's files
    format: Format
    state: State
    step: int | None = None
    committed_at: float | None = None  # None while it is not complete
    moment: Moment = Moment.NEWEST
    components: Components = Components()
    size_bytes: int = 0
    files: int = 0
    last_byte_at: float = 0.0  # newest mtime of its files
    aside: bool = False  # not one that counts as the newest, whatever its step
    notes: tuple[Note, ...] = ()
    read_bytes: int = 0  # what it cost to find out
    first_byte_at: float | None = None  # oldest mtime of its files

    @property
    def whole(self) -> bool:
        return self.state in {State.COMPLETE, State.PARTIAL_STATE}

    def committed(self, at: float) -> "Checkpoint":
        """With a moment that the trainer wrote down elsewhere."""
        return structs.replace(self, committed_at=at, moment=Moment.EMBEDDED)

    def at(self, now: float, usual_save_s: float = 0.0) -> "Checkpoint":
        """As it is `now`: an unfinished save that has been silent for too long is abandoned."""
        silent_s = now - self.last_byte_at
        if self.state is State.IN_PROGRESS and silent_s > max(ABANDONED_AFTER_S, ABANDONED_SAVES * usual_save_s):
            return structs.replace(self, state=State.ABANDONED)
        return self


class Content(Struct, frozen=True):
    """What one file, or a set of files, says."""

    components: Components = Components()
    step: int | None = None
    notes: tuple[Note, ...] = ()
    format: Format | None = None  # where the contents tell a framework apart
    committed_at: float | None = None

    def with_(self, other: "Content") -> "Content":
        """Both together; where they disagree on a scalar, the first counts."""
        return Content(
            self.components.over(other.components),
            other.step if self.step is None else self.step,
            (*self.notes, *other.notes),
            self.format or other.format,
            other.committed_at if self.committed_at is None else self.committed_at,
        )


# Which notes decide, the first first; without one of them a checkpoint is whole. Where the marker of completeness is lacking, the
# save is in progress whatever its files look like.
_BLIND: Final = {Sign.REFUSED, Sign.LIMIT, Sign.UNREADABLE, Sign.UNPROVABLE}
_BROKEN: Final = {Sign.ENDS_EARLY, Sign.CONTRADICTS, Sign.MISSING, Sign.CHECKSUM}
_UNFINISHED: Final = {Sign.UNMARKED, Sign.TEMPORARY, Sign.CHANGED}


def state(notes: Iterable[Note], components: Components) -> State:
    """What the notes about a checkpoint's files add up to."""
    signs = {note.sign for note in notes}
    if signs & _UNFINISHED:
        return State.IN_PROGRESS
    if signs & _BROKEN:
        return State.CORRUPT
    if Sign.NEWER_THAN_MARKER in signs:
        return State.INCONSISTENT
    if signs & _BLIND:
        return State.UNKNOWN
    lacks = Presence.ABSENT in {components.optimizer, components.weights}
    return State.PARTIAL_STATE if lacks or components.weights is Presence.EMPTY else State.COMPLETE
