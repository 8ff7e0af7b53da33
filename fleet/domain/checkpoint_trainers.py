"""Directories that a trainer's loop writes: Hugging Face's Trainer, Accelerate, Lightning's sharded form, NeMo and torchtitan.

Owns which files make one whole, and which is written last. Sources: transformers 5.24, accelerate 1.15, lightning 2.6, NeMo 3.0,
torchtitan 0.3.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from fleet.domain import checkpoint_shards, distributed_checkpoints, safetensors_files, torch_files
from fleet.domain.checkpoint_files import File, Finding, Look, Unreadable, contradicts, decoded, noted
from fleet.domain.checkpoints import NOTHING, Components, Content, Note, Presence, Sign, unfinished

TRAINER_STATE: Final = "trainer_state.json"
TRAINING: Final = ("optimizer.pt", "scheduler.pt")
WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
INDEXES: Final = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
RNG_OF_RANK: Final = re.compile(r"(?:rng_state_(\d+)\.pth|random_states_(\d+)\.pkl)")
LIGHTNING_META: Final = "meta.pt"
# What of a state too long to take in: its keys are sorted, and the long list of the log comes after these.
_HEAD_BYTES: Final = 65_536
_GLOBAL_STEP: Final = re.compile(rb'^\s{2}"global_step": (\d{1,15}),\s*$', re.MULTILINE)


class _TrainerState(Struct, frozen=True):
    global_step: int


def trainer(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """Hugging Face: the state is written last, but by rank 0, so that other ranks' RNG files may still be on their way."""
    weights = _weights(files, look)
    step, state_notes = _trainer_state(files, look)
    notes = [*weights.notes, *state_notes]
    parts = {name: files[name] for name in (*TRAINING, "scaler.pt", "rng_state.pth") if name in files}
    ranks = {name: file for name, file in files.items() if RNG_OF_RANK.fullmatch(name)}
    notes += torch_files.check_all([*parts.values(), *ranks.values()], look)
    notes += [Note(Sign.UNMARKED, detail=name) for name in _rank_gaps(ranks)]
    rng = bool(ranks) or "rng_state.pth" in files
    found = Components(
        weights=weights.components.weights,
        optimizer=_there("optimizer.pt" in files),
        schedule=_there("scheduler.pt" in files),
        position=_there(step is not None),
        rng=_there(rng),
    )
    content = _sharded_optimizer(Content(found, step, tuple(notes)), files, look, uploads)
    trains = content.components.optimizer is Presence.PRESENT or "scheduler.pt" in files or rng
    if trains:
        content = content.with_(Content(content.components, notes=tuple(_lacking(content.components))))
    return content


def accelerate(files: Mapping[str, File], look: Look) -> Content:
    """`save_state`: nothing marks its end, so that all that shows is files that are not whole."""
    weights = _weights(files, look)
    parts = [file for name, file in files.items() if name in {"optimizer.bin", "scheduler.bin", "scaler.pt"}]
    ranks = {name: file for name, file in files.items() if RNG_OF_RANK.fullmatch(name)}
    checks = torch_files.check_all(parts, look)
    notes = [unfinished(note) for note in checks]
    notes += [Note(Sign.UNMARKED, detail=name) for name in _rank_gaps(ranks)]
    position = any(
        re.fullmatch(r"(?:dl_state_dict|sampler)(?:_\d+)?\.bin|custom_checkpoint_\d+\.pkl", name) for name in files
    )
    found = Components(
        weights=weights.components.weights,
        optimizer=_there("optimizer.bin" in files),
        schedule=_there("scheduler.bin" in files),
        position=_there(position),
        rng=_there(bool(ranks)),
    )
    return Content(found, None, (*weights.notes, *notes))


def lightning(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """A sharded strategy's directory: DCP, and `meta.pt` for everything that is no tensor."""
    content = distributed_checkpoints.look_at(files, look, uploads=uploads)
    if LIGHTNING_META not in files:
        return structs.replace(content, notes=(*content.notes, Note(Sign.UNMARKED, detail=LIGHTNING_META)))
    meta = torch_files.look_at(files[LIGHTNING_META], look)
    return Content(content.components.over(meta.components), meta.step, (*content.notes, *meta.notes))


def nemo(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """Its directory holds a distributed checkpoint, at its top or in `weights/`."""
    inner = within(files, "weights/") or files
    return distributed_checkpoints.look_at(inner, look, uploads=uploads)


def torchtitan(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """A distributed checkpoint, or, exported, Hugging Face's index. Model parameters stand at the top."""
    index = next((files[name] for name in INDEXES if name in files), None)
    if index and distributed_checkpoints.METADATA not in files:
        return safetensors_files.sharded(index, files, look)
    return distributed_checkpoints.look_at(files, look, uploads=uploads)


def within(files: Mapping[str, File], folder: str) -> dict[str, File]:
    return {path.removeprefix(folder): file for path, file in files.items() if path.startswith(folder)}


def _there(present: bool) -> Presence:
    return Presence.PRESENT if present else Presence.ABSENT


def _weights(files: Mapping[str, File], look: Look) -> Content:
    """Of one file, of shards with an index, or of a distributed directory."""
    for name in INDEXES:
        if name in files and name.endswith("safetensors.index.json"):
            return safetensors_files.sharded(files[name], files, look)
        if name in files:
            return _torch_shards(files[name], files, look)
    for name in WEIGHTS:
        if name in files:
            return Content(
                structs.replace(NOTHING, weights=Presence.PRESENT), notes=torch_files.check(files[name], look)
            )
    return Content(NOTHING)


def _torch_shards(index: File, files: Mapping[str, File], look: Look) -> Content:
    try:
        names = sorted(safetensors_files.shard_names(index, look))
    except (Finding, Unreadable) as error:
        return Content(NOTHING, notes=(noted(index.path, error),))
    missing = [Note(Sign.MISSING, detail=name[:200]) for name in names if name not in files]
    notes = torch_files.check_all([files[name] for name in names if name in files], look)
    return Content(structs.replace(NOTHING, weights=Presence.PRESENT), notes=(*missing, *notes))


def _trainer_state(files: Mapping[str, File], look: Look) -> tuple[int | None, tuple[Note, ...]]:
    file = files.get(TRAINER_STATE)
    if file is None:
        return None, (Note(Sign.UNMARKED, detail=TRAINER_STATE),)
    try:
        if not look.read(file, max(0, file.size_bytes - 16), min(16, file.size_bytes)).rstrip().endswith(b"}"):
            return None, (Note(Sign.UNMARKED, file.path, "it has no end"),)
        return _global_step(file, look), ()
    except (Finding, Unreadable) as error:
        return None, (noted(file.path, error),)


def _global_step(file: File, look: Look) -> int:
    if file.size_bytes <= look.limits.part_bytes // 4:
        return decoded(look.all_of(file), _TrainerState, look).global_step
    match = _GLOBAL_STEP.search(look.read(file, 0, _HEAD_BYTES))
    if not match:
        raise contradicts("no global_step where it belongs")
    return int(match[1])


def _sharded_optimizer(content: Content, files: Mapping[str, File], look: Look, uploads: bool) -> Content:
    """DeepSpeed or FSDP inside: their own directories hold what the Trainer's files do not."""
    for folder in sorted({path.split("/")[0] for path in files if "/" in path}):
        inner = within(files, folder + "/")
        if re.fullmatch(r"global_step\d+", folder):
            content = content.with_(structs.replace(checkpoint_shards.deepspeed(inner, look), step=None))
        elif match := re.fullmatch(r"(pytorch_model_fsdp|optimizer)_\d+", folder):
            found = distributed_checkpoints.look_at(inner, look, uploads=uploads)
            part = "weights" if match[1] == "pytorch_model_fsdp" else "optimizer"
            held = structs.replace(NOTHING, **{part: Presence.PRESENT})
            content = content.with_(Content(held, notes=found.notes))
    return content


def _lacking(found: Components) -> Iterable[Note]:
    """With any of the three that only training needs, the others must be there as well."""
    for part, name in (("weights", WEIGHTS[0]), ("optimizer", "optimizer.pt"), ("schedule", "scheduler.pt")):
        if getattr(found, part) is Presence.ABSENT:
            yield Note(Sign.MISSING, detail=name)
    if found.rng is Presence.ABSENT:
        yield Note(Sign.MISSING, detail="rng_state.pth")


def _rank_gaps(ranks: Mapping[str, File]) -> list[str]:
    """Names that are missing between rank 0 and the highest."""
    there: dict[int, str] = {}
    for name in ranks:
        if match := RNG_OF_RANK.fullmatch(name):
            there[int(match[1] or match[2])] = name
    if not there or max(there) > 4 * len(ranks) + 1000:
        return [f"{max(there) + 1 - len(there)} of {max(there) + 1} ranks"] if there else []
    form = re.sub(r"\d+", "{}", next(iter(there.values())))
    return [form.format(rank) for rank in range(max(there)) if rank not in there][:5]
