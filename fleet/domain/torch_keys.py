"""What the keys of a saved dictionary prove: the five components and the step, for torch.save and every trainer that uses it.

Owns the table of keys (reference §1.4) and the functions that a checkpoint may name without surprise. Looks at keys near the top
alone: the tree may be endless. Must not read files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Final

from msgspec import structs

from fleet.domain.checkpoints import NOTHING, Components, Content, Format, Note, Presence, Sign
from fleet.domain.pickle_machine import Opaque, Storage, Value

MOST_LOOKED_AT: Final = 4000  # values of one tree
MOST_NAMED: Final = 5


def any_of(*patterns: str) -> re.Pattern[str]:
    """One expression for several patterns as of a shell."""
    return re.compile("|".join(map(translate, patterns)))


STEP_KEYS: Final = ("global_step", "global_steps", "iteration", "step")

_WEIGHTS: Final = any_of("model*", "state_dict", "*_state_dict", "module", "params*", "net*")
_OPTIMIZER: Final = any_of("optim*", "opt_state*")
_SCHEDULE: Final = any_of("*scheduler*", "lr_sched*")
_SCHEDULE_KEYS: Final = ("last_epoch", "_step_count", "num_steps")
_POSITION: Final = any_of(
    *("epoch", *STEP_KEYS, "global_samples", "loops", "train_state"),
    *("*sampler*", "*dataloader*", "consumed*", "batch*"),
)
_RNG: Final = any_of("rng*", "random_state*", "torch_rng*", "cuda_rng*", "*rng_state*")

_NO_WEIGHTS: Final = re.compile(f"{_OPTIMIZER.pattern}|{_SCHEDULE.pattern}|{_RNG.pattern}")

# Functions and classes that checkpoints of the trainers we know are made of. All else is named, not condemned.
_FAMILIAR: Final = any_of(
    *("collections OrderedDict", "collections defaultdict", "collections deque", "collections Counter"),
    *("torch *Storage", "torch Size", "torch device", "torch dtype", "torch Tensor", "torch Generator"),
    *("torch float*", "torch bfloat16", "torch int*", "torch uint*", "torch bool", "torch complex*", "torch half"),
    *("torch.storage *Storage", "torch._utils _rebuild_*", "torch._tensor _rebuild_*", "torch.nn.parameter *Parameter"),
    *("torch.serialization _get_layout", "torch.distributed.checkpoint.* *", "torch.distributed._*tensor* *"),
    *(
        "torch.distributed.tensor.* *",
        "numpy dtype",
        "numpy ndarray",
        "numpy._core.* _reconstruct",
        "numpy.core.* _reconstruct",
    ),
    *("numpy._core.* scalar", "numpy.core.* scalar", "_codecs encode", "builtins set", "builtins frozenset"),
    *("builtins int", "builtins float", "builtins dict", "builtins list", "builtins bytearray", "builtins complex"),
    *("__builtin__ set", "__builtin__ frozenset", "__builtin__ dict", "copyreg _reconstructor", "builtins object"),
    *("pathlib Path", "pathlib PosixPath", "pathlib._local PosixPath", "argparse Namespace", "datetime *"),
    *("megatron.core.* *", "megatron.* *", "deepspeed.* *", "transformers.* *", "accelerate.* *", "lightning.* *"),
    *("pytorch_lightning.* *", "lightning_fabric.* *", "nemo.* *", "torchtitan.* *", "omegaconf.* *"),
)


def of(value: Value) -> Content:
    """Components, step and framework of a saved object."""
    if not isinstance(value, dict):
        return Content(NOTHING if value is None else Components())
    if _are_tensors(value):
        return Content(structs.replace(NOTHING, weights=Presence.PRESENT))
    if "pytorch-lightning_version" in value:
        return structs.replace(_lightning(value), format=Format.LIGHTNING)
    framework = Format.DEEPSPEED if {"ds_version", "ds_config"} & value.keys() else None
    return Content(components(value), step(value), format=framework)


def components(value: Mapping[Value, Value]) -> Components:
    return Components(
        weights=_weights(value),
        optimizer=_fullest(_optimizer(each) for each in _under(value, _OPTIMIZER, _SCHEDULE)),
        schedule=_fullest(_schedule(each) for each in _under(value, _SCHEDULE)),
        position=_fullest(_anything(each) for each in _under(value, _POSITION)),
        rng=_fullest(_anything(each) for each in _under(value, _RNG)),
    )


def step(value: Mapping[Value, Value]) -> int | None:
    """From a scalar near the top: an epoch is no step."""
    held = [value, value.get("train_state"), value.get("trainer_state")]
    for key in STEP_KEYS:
        for each in held:
            found = each.get(key) if isinstance(each, dict) else None
            if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
                return found
    return None


def foreign(globals_: Iterable[str], path: str) -> tuple[Note, ...]:
    """What a pickle names that checkpoints are not made of."""
    found = sorted(name for name in globals_ if not _FAMILIAR.match(name))
    if not found:
        return ()
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (Note(Sign.FOREIGN, path, _printable(", ".join(found[:MOST_NAMED])) + more),)


def holds_tensors(value: Value) -> bool:
    return any(_is_tensor(each) for each in _near(value))


def _lightning(value: Mapping[Value, Value]) -> Content:
    """Its lists: an empty one of schedulers means that none was configured; weights-only files have no list at all."""
    found = components(value)
    for key, name, empty in (
        ("optimizer_states", "optimizer", Presence.EMPTY),
        ("lr_schedulers", "schedule", Presence.NOT_APPLICABLE),
    ):
        listed = value.get(key)
        if isinstance(listed, list):
            judge = _optimizer if name == "optimizer" else _schedule
            presence = _fullest(map(judge, listed[:16])) if listed else empty
            found = structs.replace(found, **{name: presence})
    return Content(found, step(value))


def _under(value: Mapping[Value, Value], wanted: re.Pattern[str], but: re.Pattern[str] | None = None) -> list[Value]:
    found = []
    for key in list(value)[:MOST_LOOKED_AT]:
        name = key.lower()[:100] if isinstance(key, str) else ""
        if wanted.match(name) and not (but and but.match(name)):
            found.append(value[key])
    return found


def _fullest(found: Iterable[Presence]) -> Presence:
    order = [Presence.PRESENT, Presence.EMPTY, Presence.NOT_APPLICABLE, Presence.ABSENT]
    return min(found, key=order.index, default=Presence.ABSENT)


def _weights(value: Mapping[Value, Value]) -> Presence:
    found = _under(value, _WEIGHTS, _NO_WEIGHTS)
    if any(holds_tensors(each) for each in found):
        return Presence.PRESENT
    return Presence.EMPTY if any(each == {} for each in found if isinstance(each, dict)) else Presence.ABSENT


def _optimizer(value: Value) -> Presence:
    if value is None:
        return Presence.ABSENT
    if isinstance(value, list):
        return _fullest(map(_optimizer, value[:16])) if value else Presence.EMPTY
    if isinstance(value, dict) and "state" in value:
        return Presence.PRESENT if value["state"] else Presence.EMPTY
    if isinstance(value, dict) and not holds_tensors(value):
        nested = [each for each in list(value.values())[:16] if isinstance(each, dict) and "state" in each]
        return _fullest(map(_optimizer, nested)) if nested else Presence.EMPTY
    return Presence.PRESENT


def _schedule(value: Value) -> Presence:
    if value is None:
        return Presence.ABSENT
    if isinstance(value, list):
        return _fullest(map(_schedule, value[:16])) if value else Presence.EMPTY
    if isinstance(value, dict):
        return Presence.PRESENT if any(key in value for key in _SCHEDULE_KEYS) else Presence.EMPTY
    return Presence.PRESENT


def _anything(value: Value) -> Presence:
    if value is None:
        return Presence.ABSENT
    return Presence.EMPTY if isinstance(value, dict | list | tuple) and not value else Presence.PRESENT


def _is_tensor(value: Value) -> bool:
    return isinstance(value, Storage) or (isinstance(value, Opaque) and "_rebuild_" in value.name)


def _are_tensors(value: Mapping[Value, Value]) -> bool:
    """Whether it is a state dict by itself."""
    some = [value[key] for key in list(value)[:64]]
    return bool(some) and all(_is_tensor(each) for each in some)


def _near(value: Value) -> Iterator[Value]:
    """The values of a tree, those near the top first, each once, so many and no more."""
    waiting, seen = [value], {id(value)}
    for each in waiting:
        yield each
        inner = list(each.values()) if isinstance(each, dict) else each if isinstance(each, list | tuple) else ()
        for one in inner[: MOST_LOOKED_AT - len(waiting)]:
            if id(one) not in seen:
                seen.add(id(one))
                waiting.append(one)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
