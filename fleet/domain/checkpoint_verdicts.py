"""From the files of one checkpoint to the verdict on it.

Owns which module judges which format, and what is said of every format alike: its step, its commit moment, what was left out.
Must not know how any format proves itself.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import structs

from fleet.domain import (
    checkpoint_shards,
    checkpoint_trainers,
    checkpoint_trees,
    distributed_checkpoints,
    safetensors_files,
    tensorflow_checkpoints,
    torch_files,
)
from fleet.domain.checkpoint_files import File, Finding, Look, Unreadable, Why, noted, total
from fleet.domain.checkpoint_units import Unit
from fleet.domain.checkpoints import Checkpoint, Content, Format, Moment, Note, Presence, Sign, State, state, unfinished

# What is written last, whose time is therefore the commit's; the first that is there counts.
_MARKERS: Final = {
    Format.TRAINER: (checkpoint_trainers.TRAINER_STATE,),
    Format.MEGATRON: (checkpoint_shards.MEGATRON_MARKER, distributed_checkpoints.METADATA),
    Format.DCP: (distributed_checkpoints.METADATA,),
    Format.TORCHTITAN: (distributed_checkpoints.METADATA, checkpoint_trainers.INDEXES[0]),
    Format.LIGHTNING: (checkpoint_trainers.LIGHTNING_META, distributed_checkpoints.METADATA),
    Format.NEMO: (distributed_checkpoints.METADATA, f"weights/{distributed_checkpoints.METADATA}"),
    Format.ORBAX: (checkpoint_trees.COMMITTED, checkpoint_trees.ROOT_FILE),
}


def judge(unit: Unit, look: Look, *, uploads: bool = False) -> Checkpoint:
    """The verdict, whatever the files hold. Reads within the limits of `look`; raises nothing."""
    try:
        content = _content(unit, look, uploads)
    except (Finding, Unreadable) as error:
        content = Content(notes=(noted(unit.path, error),))
    notes = [*content.notes, *_general(unit)]
    step, more = _step(unit, content)
    notes += more
    found = state(notes, content.components)
    committed_at, moment = _moment(unit, content)
    return Checkpoint(
        unit.path,
        _format(unit, content),
        found,
        step,
        committed_at if found in {State.COMPLETE, State.PARTIAL_STATE, State.INCONSISTENT} else None,
        moment,
        content.components,
        total(unit.files.values()),
        len(unit.files),
        max((file.modified_at for file in unit.files.values()), default=0.0),
        unit.aside,
        tuple(dict.fromkeys(notes)),
        look.read_bytes,
        min((file.modified_at for file in unit.files.values()), default=None),
    )


def _content(unit: Unit, look: Look, uploads: bool) -> Content:
    single = len(unit.files) == 1 and unit.path in {file.path for file in unit.files.values()}
    judges = _DIRECTORIES if not single else {}
    return judges.get(unit.format, _file)(unit, look, uploads)


def _file(unit: Unit, look: Look, _uploads: bool) -> Content:
    """A checkpoint that is one file, or weights with an index."""
    if index := unit.files.get(checkpoint_trainers.INDEXES[0]):
        return safetensors_files.sharded(index, unit.files, look)
    file = next(iter(unit.files.values()))
    try:
        content = _single(unit.format, file, look)
    except (Finding, Unreadable) as error:
        content = Content(notes=(noted(file.path, error),))
    notes = tuple(map(unfinished, content.notes))
    if not notes and content.components.weights is Presence.UNKNOWN:
        notes = (Note(Sign.UNPROVABLE, file.path, "nothing tells what it holds"),)
    return structs.replace(content, notes=notes)


def _single(kind: Format, file: File, look: Look) -> Content:
    if kind is Format.SAFETENSORS:
        return safetensors_files.look_at(file, look)
    return checkpoint_trees.flax(file, look) if kind is Format.FLAX else torch_files.look_at(file, look)


def _tensorflow(unit: Unit, look: Look, _uploads: bool) -> Content:
    index = unit.files.get(f"{unit.name}.index")
    if index is None:
        return Content(notes=(Note(Sign.UNMARKED, detail=f"{unit.name}.index"),))
    return tensorflow_checkpoints.look_at(index, unit.files, look)


_DIRECTORIES: Final[Mapping[Format, Callable[[Unit, Look, bool], Content]]] = {
    Format.TRAINER: lambda unit, look, uploads: checkpoint_trainers.trainer(unit.files, look, uploads=uploads),
    Format.ACCELERATE: lambda unit, look, _: checkpoint_trainers.accelerate(unit.files, look),
    Format.DEEPSPEED: lambda unit, look, _: checkpoint_shards.deepspeed(unit.files, look),
    Format.MEGATRON: lambda unit, look, uploads: checkpoint_shards.megatron(unit.files, look, uploads=uploads),
    Format.ORBAX: lambda unit, look, uploads: checkpoint_trees.orbax(unit.name, unit.files, look, uploads=uploads),
    Format.TORCHTITAN: lambda unit, look, uploads: checkpoint_trainers.torchtitan(unit.files, look, uploads=uploads),
    Format.DCP: lambda unit, look, uploads: distributed_checkpoints.look_at(unit.files, look, uploads=uploads),
    Format.LIGHTNING: lambda unit, look, uploads: checkpoint_trainers.lightning(unit.files, look, uploads=uploads),
    Format.NEMO: lambda unit, look, uploads: checkpoint_trainers.nemo(unit.files, look, uploads=uploads),
    Format.TENSORFLOW: _tensorflow,
}


def _general(unit: Unit) -> Iterator[Note]:
    if unit.temporary:
        yield Note(Sign.TEMPORARY, detail=unit.name[:200])
    if unit.aside:
        yield Note(Sign.ASIDE, detail=unit.name[:200])
    for left in unit.omitted:
        sign = Sign.UNREADABLE if left.why in {Why.DENIED, Why.FAILED} else Sign.OMITTED
        yield Note(sign, left.path, left.why.value)


def _step(unit: Unit, content: Content) -> tuple[int | None, tuple[Note, ...]]:
    """By the name, and by the contents, which have to agree."""
    if unit.step is None or content.step is None or unit.step == content.step:
        return content.step if unit.step is None else unit.step, ()
    return unit.step, (Note(Sign.STEP_DISAGREES, unit.path, f"the name says {unit.step}, the contents {content.step}"),)


def _format(unit: Unit, content: Content) -> Format:
    """Contents tell Lightning from plain torch."""
    return content.format if content.format and unit.format is Format.TORCH else unit.format


def _moment(unit: Unit, content: Content) -> tuple[float, Moment]:
    if content.committed_at is not None:
        return content.committed_at, Moment.EMBEDDED
    newest = max((file.modified_at for file in unit.files.values()), default=0.0)
    marker = _marker(unit)
    if marker is None:
        return newest, Moment.NEWEST
    return marker.modified_at, Moment.MARKER


def _marker(unit: Unit) -> File | None:
    if unit.format is Format.TENSORFLOW:
        return unit.files.get(f"{unit.name}.index")
    return next((unit.files[name] for name in _MARKERS.get(unit.format, ()) if name in unit.files), None)
