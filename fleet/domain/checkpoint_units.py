"""Which files below a path are one checkpoint: by names alone, before anything is read.

Owns the names that each format uses, finished and unfinished, and the rule that a name must match as a whole (`old-step-900` is
none that a trainer resumes from). Must not judge: a name proves nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, structs

from fleet.domain import checkpoint_shards, checkpoint_trainers, checkpoint_trees, distributed_checkpoints
from fleet.domain.checkpoint_files import File, Listing, Omitted
from fleet.domain.checkpoints import Format
from fleet.domain.tensorflow_checkpoints import DATA

# Directory of a step, and the format whose habit it is where the contents do not say.
_DIRECTORIES: Final = (
    (re.compile(r"checkpoint-(?P<step>\d+)"), Format.TRAINER),
    (re.compile(r"step-(?P<step>\d+)"), Format.TORCHTITAN),
    (re.compile(r"step_(?P<step>\d+)"), Format.DCP),
    (re.compile(r"global_step(?P<step>\d+)"), Format.DEEPSPEED),
    (re.compile(r"iter_(?P<step>\d{7,})"), Format.MEGATRON),
    (re.compile(r"checkpoint_(?P<save>\d+)"), Format.ACCELERATE),
    (re.compile(r"release"), Format.MEGATRON),
)
_TEMPORARY_DIRECTORY: Final = (
    (re.compile(r"tmp-checkpoint-(?P<step>\d+)"), Format.TRAINER),
    (re.compile(r"(?:[A-Za-z][\w.-]*_)?(?P<step>\d+)\.orbax-checkpoint-tmp.*"), Format.ORBAX),
)
_NAMED_STEP: Final = re.compile(r"(?:^|.*[-_])(?:global_)?step=(?P<step>\d+)(?:[-_.].*|$)")
_NEMO: Final = re.compile(r".*-consumed_samples=[\d.]+(?:-last)?(?:\.ckpt|\.nemo)?")
_NVRX: Final = re.compile(r"iter_(?P<step>\d{7})_\d+_local(?P<dirty>\.dirty)?\.pt")
_FLAX: Final = re.compile(r"(?:[A-Za-z][\w.-]*_)?checkpoint_(?P<step>\d+)")
_TORCH_STEP: Final = re.compile(r"(?:.*[-_.])?(?:step|iter|checkpoint|ckpt)[-_.]?(?P<step>\d+)\.(?:pt|pth|ckpt)")
_HPC: Final = re.compile(r"hpc_ckpt_\d+\.ckpt")
_HIDDEN_STEP: Final = re.compile(r"(?:step|checkpoint|iter|global_step)[-_]?\d+")
_UNFINISHED_ENDS: Final = (".partial", ".incomplete", ".tmp", "_tmp")
# Parts that lie loose beside checkpoints in a trainer's output directory, and are none.
_PARTS: Final = re.compile(
    r"training_args\.bin|optimizer\.(pt|bin)|scheduler\.(pt|bin)|scaler\.pt|rng_state(_\d+)?\.pth|sampler(_\d+)?\.bin|meta\.pt"
    r"|tokenizer.*\.bin|.*-\d{5}-of-\d{5}\.(bin|safetensors)"
)
_BIN: Final = re.compile(r"(pytorch_model|adapter_model).*\.bin(\.\w+)?")
UNFINISHED_MARK: Final = "-unfinished"
MOST_DEEP: Final = 6
MOST_UNITS: Final = 5000


class Unit(Struct, frozen=True):
    """The files of one checkpoint, by their path inside of it."""

    path: str  # relative to the store
    name: str
    format: Format
    files: Mapping[str, File]
    step: int | None = None  # that its name says
    temporary: bool = False  # its name is that of an unfinished save
    aside: bool = False
    omitted: tuple[Omitted, ...] = ()

    @property
    def shelf(self) -> str:
        """The directory that it stands in."""
        return self.path.rpartition("/")[0]

    @property
    def version(self) -> int:
        """The same as long as no file of it changes."""
        return hash((self.omitted, *((path, file.version or file) for path, file in self.files.items())))


class Folder:
    """A directory with what is below it."""

    @classmethod
    def of(cls, listing: Listing, path: str = "") -> "Folder":
        """The tree below `path` of what was listed."""
        top = cls(path)
        inside = len(path) + 1 if path else 0
        known: dict[str, Folder] = {}
        for file in listing.files:
            where, _, name = file.path.rpartition("/")
            folder = known.get(where)
            if folder is None:
                folder = known[where] = top.below(where[inside:])
            folder.files[name] = file
        for left in listing.omitted:
            top.below(left.path.rpartition("/")[0][inside:]).omitted.append(left)
        return top

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.files: dict[str, File] = {}
        self.folders: dict[str, Folder] = {}
        self.omitted: list[Omitted] = []

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def everything(self, prefix: str = "") -> Iterator[tuple[str, File]]:
        for name, file in self.files.items():
            yield prefix + name, file
        for name, folder in self.folders.items():
            yield from folder.everything(f"{prefix}{name}/")

    def left_out(self) -> Iterator[Omitted]:
        yield from self.omitted
        for folder in self.folders.values():
            yield from folder.left_out()

    def below(self, path: str) -> "Folder":
        """The folder at a path relative to this one, made where there is none."""
        folder = self
        for name in filter(None, path.split("/")):
            inner = folder.folders.get(name)
            if inner is None:
                inner = folder.folders[name] = Folder(f"{folder.path}/{name}".lstrip("/"))
            folder = inner
        return folder


def units(top: Folder, name: str = "") -> Iterator[Unit]:
    """The checkpoints below `top`, or `top` itself; `name`: what it is called, where its path does not say."""
    waiting = [(top, top.name or name, 0, _Marks())]
    count = 0
    while waiting:
        folder, called, depth, marks = waiting.pop()
        unit = _directory(folder, called)
        if unit is None:
            marks = _Marks(folder)
        found = [unit] if unit else list(_loose(folder))
        yield from map(marks.on, found[: MOST_UNITS - count])
        count += len(found)
        if unit is None and depth < MOST_DEEP and count < MOST_UNITS:
            inner = sorted((name, below) for name, below in folder.folders.items() if not _is_temporary(below))
            waiting += [(below, below.name, depth + 1, marks) for _, below in reversed(inner)]


class _Marks:
    """NeMo's empty files, each named after a checkpoint beside it that is not finished."""

    def __init__(self, folder: Folder | None = None) -> None:
        names = folder.files if folder else ()
        self._names = {name.removesuffix(UNFINISHED_MARK) for name in names if name.endswith(UNFINISHED_MARK)}

    def on(self, unit: Unit) -> Unit:
        bare = re.sub(r"(\.ckpt|\.nemo|-EMA)+$", "", unit.name)
        return structs.replace(unit, temporary=True) if bare in self._names else unit


def step_of(name: str, kind: Format | None = None) -> int | None:
    """The step that a directory's or file's name says, when all of it is the name of a step; some are in their format alone."""
    if _HPC.fullmatch(name):  # it counts saves
        return None
    orbax = kind is Format.ORBAX or name.isdecimal()
    more = [pattern for pattern, ours in ((checkpoint_trees.STEP, orbax), (_FLAX, kind is Format.FLAX)) if ours]
    directories = (pattern for pattern, _ in (*_DIRECTORIES, *_TEMPORARY_DIRECTORY))
    for pattern in (*more, *directories, _NVRX, _NAMED_STEP, _TORCH_STEP):
        if match := pattern.fullmatch(name):
            return _number(match)
    return None


def _number(match: re.Match[str]) -> int | None:
    found = match.groupdict().get("step")
    return int(found) if found and len(found) <= 18 else None


def _directory(folder: Folder, name: str) -> Unit | None:
    for pattern, temporary in _TEMPORARY_DIRECTORY:
        if pattern.fullmatch(name):
            return _unit(folder, name, temporary, temporary=True)
    habit = next((kind for pattern, kind in _DIRECTORIES if pattern.fullmatch(name)), None)
    if habit is None and any(_is_step(inner) for inner in folder.folders):
        return None  # a directory of checkpoints, whatever lies beside them
    if not folder.files and not folder.folders and not folder.omitted:
        return None
    kind = _by_contents(folder, name) or habit
    return _unit(folder, name, kind) if kind else None


def _unit(folder: Folder, name: str, kind: Format, *, temporary: bool = False) -> Unit:
    step = None if kind is Format.ACCELERATE else step_of(name, kind)
    aside = step is None and not _is_step(name) and bool(_HIDDEN_STEP.search(name))
    omitted = tuple(folder.left_out())
    return Unit(folder.path, name, kind, dict(folder.everything()), step, temporary, aside, omitted)


def _is_step(name: str) -> bool:
    if any(pattern.fullmatch(name) for pattern, _ in (*_DIRECTORIES, *_TEMPORARY_DIRECTORY)):
        return True
    return bool(_NAMED_STEP.fullmatch(name) or _NEMO.fullmatch(name))


def _by_contents(folder: Folder, name: str) -> Format | None:
    return next((kind for kind, tells in _TELLING if tells(folder, name)), None)


def _is_any(pattern: str, names: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for name in names)


def _is_orbax(folder: Folder) -> bool:
    marks = (checkpoint_trees.ROOT_FILE, checkpoint_trees.TREE, checkpoint_trees.COMMITTED)
    if any(mark in folder.files for mark in marks):
        return True
    number = checkpoint_trees.STEP.fullmatch(folder.name)
    return bool(number) and any(checkpoint_trees.TREE in inner.files for inner in folder.folders.values())


def _is_distributed(name: str) -> bool:
    known = (
        distributed_checkpoints.SHARD,
        distributed_checkpoints.UNFINISHED,
        distributed_checkpoints.METADATA_OF_RANK,
    )
    return name == distributed_checkpoints.METADATA or any(pattern.fullmatch(name) for pattern in known)


def _is_sharded(folder: Folder, name: str) -> Format | None:
    """Whose distributed checkpoint it is, if it is one."""
    if not any(map(_is_distributed, folder.files)):
        return None
    if checkpoint_trainers.LIGHTNING_META in folder.files or name.endswith(".ckpt"):
        return Format.LIGHTNING
    if re.fullmatch(r"iter_\d{7,}", name) or checkpoint_shards.MEGATRON_MARKER in folder.files:
        return Format.MEGATRON
    return Format.TORCHTITAN if re.fullmatch(r"step-\d+", name) else Format.DCP


def _is_indexed(folder: Folder) -> bool:
    return checkpoint_trainers.INDEXES[0] in folder.files


def _loose(folder: Folder) -> Iterator[Unit]:
    """Checkpoints that are single files, or files with a common prefix."""
    yield from _tensorflow(folder)
    for name, file in sorted(folder.files.items()):
        bare = name
        for end in _UNFINISHED_ENDS:
            bare = bare.removesuffix(end)
        kind = _of_file(bare if bare != "checkpoint" else name)
        dirty = _NVRX.fullmatch(name)
        if kind and not file.link:
            temporary = bare != name or bool(dirty and dirty["dirty"])
            step = step_of(bare, kind)
            yield Unit(file.path, name, kind, {name: file}, step, temporary)


def _of_file(name: str) -> Format | None:
    if _PARTS.fullmatch(name) or (name.endswith(".bin") and not _BIN.fullmatch(name)):
        return None
    return next((kind for pattern, kind in _FILES if pattern.fullmatch(name)), None)


def _is_temporary(folder: Folder) -> bool:
    """Whether TensorFlow gathers its data files in it."""
    return folder.name.endswith("_temp") and any(name.startswith("part-") for name in folder.files)


def _tensorflow(folder: Folder) -> Iterator[Unit]:
    prefixes: dict[str, dict[str, File]] = {}
    for name, file in folder.files.items():
        match = DATA.fullmatch(name)
        if match:
            prefixes.setdefault(match["prefix"], {})[name] = file
    for name, file in folder.files.items():
        if name.endswith(".index") and (
            name.removesuffix(".index") in prefixes or name.startswith(("ckpt", "model.ckpt"))
        ):
            prefixes.setdefault(name.removesuffix(".index"), {})[name] = file
    for prefix, files in sorted(prefixes.items()):
        yield Unit(f"{folder.path}/{prefix}".lstrip("/"), prefix, Format.TENSORFLOW, files)
    for name, inner in sorted(folder.folders.items()):
        if _is_temporary(inner):
            yield Unit(inner.path, name, Format.TENSORFLOW, inner.files, temporary=True)


# What in a directory tells whose it is, the more particular first.
_TELLING: Final[tuple[tuple[Format, Callable[[Folder, str], bool]], ...]] = (
    (Format.ORBAX, lambda folder, _: _is_orbax(folder)),
    (
        Format.TRAINER,
        lambda folder, _: bool({checkpoint_trainers.TRAINER_STATE, "training_args.bin"} & folder.files.keys()),
    ),
    (Format.DEEPSPEED, lambda folder, _: _is_any(checkpoint_shards.DEEPSPEED_MODEL.pattern, folder.files)),
    (Format.MEGATRON, lambda folder, _: _is_any(checkpoint_shards.MEGATRON_RANK.pattern, folder.folders)),
    (Format.NEMO, lambda _, name: bool(_NEMO.fullmatch(name))),
    (Format.LIGHTNING, lambda folder, name: _is_sharded(folder, name) is Format.LIGHTNING),
    (Format.MEGATRON, lambda folder, name: _is_sharded(folder, name) is Format.MEGATRON),
    (Format.TORCHTITAN, lambda folder, name: _is_sharded(folder, name) is Format.TORCHTITAN),
    (Format.DCP, lambda folder, name: _is_sharded(folder, name) is Format.DCP),
    (Format.ACCELERATE, lambda folder, _: _is_any(r"random_states_\d+\.pkl|optimizer\.bin", folder.files)),
    (Format.TORCHTITAN, lambda folder, name: _is_indexed(folder) and bool(re.fullmatch(r"step-\d+", name))),
    (Format.SAFETENSORS, lambda folder, _: _is_indexed(folder)),
)
_FILES: Final = (
    (re.compile(r".*\.safetensors"), Format.SAFETENSORS),
    (_NVRX, Format.NVRX),
    (_NEMO, Format.NEMO),
    (re.compile(r".*\.nemo"), Format.NEMO),
    (_FLAX, Format.FLAX),
    (re.compile(r"checkpoint_tmp"), Format.FLAX),
    (re.compile(r".*\.(pt|pth|ckpt|bin)"), Format.TORCH),
)
