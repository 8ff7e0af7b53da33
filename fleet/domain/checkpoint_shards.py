"""Directories of one file per rank: DeepSpeed and Megatron-LM.

Owns which files each of them must have. Their trackers are judged elsewhere (`checkpoint_shelves`): DeepSpeed's is written before
the other ranks have finished, so that a tag that it names proves nothing. Sources: DeepSpeed 0.19, Megatron-LM (August 2026).
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import structs

from fleet.domain import distributed_checkpoints, torch_files
from fleet.domain.checkpoint_files import File, Finding, Look, Unreadable, noted
from fleet.domain.checkpoints import Content, Note, Presence, Sign, unfinished
from fleet.domain.pickle_machine import Opaque, Value

DEEPSPEED_MODEL: Final = re.compile(r"(?:zero_pp_rank_(?P<dp>\d+)_)?mp_rank_(?P<mp>\d+)_model_states\.pt")
DEEPSPEED_OPTIMIZER: Final = re.compile(r"(?:bf16_)?zero_pp_rank_(?P<dp>\d+)_mp_rank_(?P<mp>\d+)_optim_states\.pt")
DEEPSPEED_EXPERT: Final = re.compile(r"(?:layer_\d+_)?exp(?:ert|p_rank)_\d+_mp_rank_\d+_\w+_states\.pt")
MEGATRON_RANK: Final = re.compile(r"mp_rank_(?P<tp>\d{2})(?:_(?P<pp>\d{3}))?(?:_(?P<ep>\d{3}))?")
MEGATRON_FILES: Final = ("model_optim_rng.pt", "model_rng.pt", "distrib_optim.pt")
MEGATRON_MARKER: Final = "metadata.json"
MOST_RANKS: Final = 1_000_000


def deepspeed(files: Mapping[str, File], look: Look) -> Content:
    """All `mp × dp` shards must be there and whole: nothing marks a DeepSpeed checkpoint as complete."""
    models = {name: file for name, file in files.items() if DEEPSPEED_MODEL.fullmatch(name)}
    shards = {name: file for name, file in files.items() if DEEPSPEED_OPTIMIZER.fullmatch(name)}
    experts = [file for name, file in files.items() if DEEPSPEED_EXPERT.fullmatch(name) and name not in models]
    if not models:
        return Content(notes=(Note(Sign.UNMARKED, detail="mp_rank_00_model_states.pt"),))
    first, *others = [file for _, file in sorted(models.items())]
    try:
        saved = torch_files.value(first, look).value
    except (Finding, Unreadable) as error:
        return Content(notes=(unfinished(noted(first.path, error)),))
    content = torch_files.look_at(first, look)
    notes = [*content.notes, *map(unfinished, torch_files.check_all([*others, *shards.values(), *experts], look))]
    notes += _missing(saved, models, shards)
    optimizer = Presence.PRESENT if shards else _of(saved, "optimizer")
    found = structs.replace(content.components, optimizer=optimizer, schedule=_of(saved, "lr_scheduler"))
    return structs.replace(content, components=found, notes=tuple(notes))


def megatron(files: Mapping[str, File], look: Look, *, uploads: bool) -> Content:
    """Current (`torch_dist`): metadata and, written last, `metadata.json`. Before: one folder per rank."""
    if any(MEGATRON_RANK.fullmatch(name.split("/")[0]) for name in files):
        return _megatron_ranks(files, look)
    content = distributed_checkpoints.look_at(files, look, uploads=uploads)
    notes = [*content.notes]
    if MEGATRON_MARKER not in files:
        notes.append(Note(Sign.UNMARKED, detail=MEGATRON_MARKER))
    if "common.pt" in files:
        shared = torch_files.look_at(files["common.pt"], look)
        content = content.with_(_common(shared, files["common.pt"], look))
        notes += shared.notes
    return structs.replace(content, notes=tuple(notes))


def _of(saved: Value, key: str) -> Presence:
    """`null` is what DeepSpeed writes when the user keeps it himself."""
    held = saved.get(key) if isinstance(saved, dict) else None
    if held is None:
        return Presence.ABSENT
    return Presence.EMPTY if isinstance(held, dict | list) and not held else Presence.PRESENT


def _missing(saved: Value, models: Mapping[str, File], shards: Mapping[str, File]) -> list[Note]:
    """Ranks without a file. The sizes of the world stand in the first file; without them gaps still show."""
    dp, mp = (_world(saved, key) for key in ("dp_world_size", "mp_world_size"))
    found = [DEEPSPEED_MODEL.fullmatch(name) for name in models]
    zero3 = any(match and match["dp"] is not None for match in found)
    missing = []
    if shards:
        missing += _gaps("zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", dp, mp, shards, DEEPSPEED_OPTIMIZER)
    if zero3:
        missing += _gaps("zero_pp_rank_{}_mp_rank_{:02}_model_states.pt", dp, mp, models, DEEPSPEED_MODEL)
    else:
        missing += _gaps("mp_rank_{1:02}_model_states.pt", 1, mp, models, DEEPSPEED_MODEL)
    return [Note(Sign.UNMARKED, detail=name) for name in missing[:5]]


def _world(saved: Value, key: str) -> int:
    found = saved.get(key) if isinstance(saved, dict) else None
    return found if isinstance(found, int) and 0 < found <= MOST_RANKS else 1


def _gaps(form: str, dp: int, mp: int, files: Mapping[str, File], pattern: re.Pattern[str]) -> list[str]:
    there = set()
    for name in files:
        if match := pattern.fullmatch(name):
            there.add((int(match["dp"] or 0), int(match["mp"])))
    dp = max([dp, *(rank + 1 for rank, _ in there if rank < MOST_RANKS)])
    mp = max([mp, *(rank + 1 for _, rank in there if rank < MOST_RANKS)])
    if dp * mp > MOST_RANKS or dp * mp > 4 * (len(there) + 1000):
        return [f"{dp * mp - len(there)} of {dp * mp} files"]
    return [form.format(d, m) for d in range(dp) for m in range(mp) if (d, m) not in there]


def _megatron_ranks(files: Mapping[str, File], look: Look) -> Content:
    ranks: dict[tuple[int, int, int], set[str]] = {}
    for path in files:
        folder, _, name = path.partition("/")
        match = MEGATRON_RANK.fullmatch(folder)
        if match and name in MEGATRON_FILES:
            rank = (int(match["tp"]), int(match["pp"] or 0), int(match["ep"] or 0))
            ranks.setdefault(rank, set()).add(name)
    if not ranks:
        return Content(notes=(Note(Sign.UNMARKED, detail="model_optim_rng.pt"),))
    states = [file for path, file in sorted(files.items()) if path.rpartition("/")[2] in MEGATRON_FILES]
    first = next((file for file in states if file.name != "distrib_optim.pt"), states[0])
    content = torch_files.look_at(first, look)
    content = content.with_(_common(content, first, look))
    if any(file.name == "distrib_optim.pt" for file in states):
        content = structs.replace(content, components=structs.replace(content.components, optimizer=Presence.PRESENT))
    notes = [unfinished(note) for note in torch_files.check_all(states, look)]
    notes += [Note(Sign.UNMARKED, detail=f"mp_rank {rank}") for rank in _rank_gaps(set(ranks))]
    return structs.replace(content, notes=tuple(dict.fromkeys(notes)))


def _rank_gaps(there: set[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Ranks of the full grid that have no folder."""
    size = [max(rank[axis] for rank in there) + 1 for axis in range(3)]
    if size[0] * size[1] * size[2] > 4 * (len(there) + 1000):
        return [(size[0] - 1, size[1] - 1, size[2] - 1)]
    grid = [(t, p, e) for t in range(size[0]) for p in range(size[1]) for e in range(size[2])]
    return [rank for rank in grid if rank not in there][:5]


def _common(content: Content, file: File, look: Look) -> Content:
    """What Megatron keeps in `args`: how many samples were consumed is the position in the data."""
    try:
        saved = torch_files.value(file, look).value
    except (Finding, Unreadable):
        return Content(content.components, content.step)  # said where the file itself is judged
    args = saved.get("args") if isinstance(saved, dict) else None
    samples = args.field("consumed_train_samples") if isinstance(args, Opaque) else None
    position = Presence.PRESENT if isinstance(samples, int) else content.components.position
    return Content(structs.replace(content.components, position=position), content.step)
