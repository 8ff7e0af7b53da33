"""What the rehearsal's trainers write when they save: which files, in which order, and what tells a trainer that it is whole.

Owns the layouts of six trainers and their names, after tests/data/checkpoints and the trainers' sources. Pure: a state in, the
parts of a save out. When they are written is saving.py's, and where to checkpoint_places.py's.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.simulation.distributed_writer import shards
from fleet.simulation.pickle_writer import Instance, Named
from fleet.simulation.torch_writer import BYTE, Tensor, floats, ordered, safetensors, saved

Object = dict[str, Any]

RATE = 3e-4
MICRO_BATCH = 8
RNG = Tensor((64,), bytes(range(64)), BYTE)


@dataclass(frozen=True)
class State:
    """A training at one step. `began_at`, `ends_at`: when the save of it begins and ends, in seconds since 1970 of the wall."""

    step: int
    ranks: int
    loss: float
    began_at: float
    ends_at: float


@dataclass(frozen=True)
class Part:
    """One thing that a save does: write a file, add to it, or give it or its folder the final name `to`."""

    path: str
    content: bytes = b""
    more: bool = False
    to: str = ""


@dataclass(frozen=True)
class Layout:
    """How one trainer saves. `name` of a step's entry in its folder; `marker`: what is in it once it is whole, "" nothing."""

    name: Callable[[int], str]
    marker: str
    step: re.Pattern[str]
    write: Callable[[State, str], list[Part]]
    tracker: str = ""  # a file beside the entries that names the newest

    def parts(self, state: State) -> list[Part]:
        """In the order in which they are done; the last but a tracker makes it whole."""
        found = self.write(state, self.name(state.step))
        return found + ([Part(self.tracker, str(state.step).encode())] if self.tracker else [])

    def trace(self, step: int) -> list[Part]:
        """All that a trainer looks for when it starts again."""
        return [Part(f"{self.name(step)}/{self.marker}".rstrip("/"))]

    def step_of(self, entry: str) -> int | None:
        match = self.step.fullmatch(entry)
        return int(match[1]) if match else None

    def whole(self, paths: set[str]) -> list[int]:
        """The steps that are whole among the files of its folder, the newest last."""
        entries = {path.partition("/")[0] for path in paths}
        done = (entry for entry in entries if not self.marker or f"{entry}/{self.marker}" in paths)
        return sorted(step for step in map(self.step_of, done) if step is not None)


def in_pieces(path: str, content: bytes) -> list[Part]:
    """A large file: the first part of it, then the rest."""
    half = len(content) * 3 // 5
    return [Part(path, content[:half]), Part(path, content[half:], more=True)]


def at_once(parts: list[Part]) -> list[Part]:
    """The same where no file can be there in part: each is written when the last of it would be."""
    found: list[Part] = []
    for part in parts:
        if part.more:
            before = next(each for each in reversed(found) if each.path == part.path)
            found.remove(before)
            found.append(Part(part.path, before.content + part.content))
        else:
            found.append(part)
    return found


# What they save


def _weights(state: State) -> dict[str, Tensor]:
    return {f"layers.{n}.weight": floats((2 * state.ranks, 8), state.step + n) for n in range(2)}


def _optimizer(state: State) -> Object:
    moments = {
        n: {"step": floats((), state.step), "exp_avg": floats((8,), n), "exp_avg_sq": floats((8,), n + 2)}
        for n in (0, 1)
    }
    return {
        "state": moments,
        "param_groups": [{"lr": RATE, "betas": (0.9, 0.95), "weight_decay": 0.1, "params": [0, 1]}],
    }


def _schedule(state: State) -> Object:
    return {"base_lrs": [RATE], "last_epoch": state.step, "_step_count": state.step + 1, "_last_lr": [RATE]}


# Who saves how


def _torch(state: State, name: str) -> list[Part]:
    """To a temporary name, then renamed, as the reference asks for."""
    content = {
        "model": ordered(_weights(state)),
        "optimizer": _optimizer(state),
        "scheduler": _schedule(state),
        "global_step": state.step,
        "rng_state": RNG,
    }
    temporary = f"{name}.tmp"
    return [*in_pieces(temporary, saved(content, name.partition(".")[0])), Part(temporary, to=name)]


def _lightning(state: State, name: str) -> list[Part]:
    """Made elsewhere and moved: it is there at once, or not at all."""
    content = {
        "epoch": 0,
        "global_step": state.step,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": ordered(_weights(state)),
        "loops": {"fit_loop": {"epoch_progress": {"current": {"processed": state.step}}}},
        "callbacks": {},
        "optimizer_states": [_optimizer(state)],
        "lr_schedulers": [_schedule(state)],
    }
    return [Part(name, saved(content))]


def _hugging_face(state: State, name: str) -> list[Part]:
    rngs = ["rng_state.pth"] if state.ranks == 1 else [f"rng_state_{rank}.pth" for rank in range(state.ranks)]
    arguments = Instance(Named("transformers.training_args", "TrainingArguments"), {"learning_rate": RATE})
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "model_type": "llama", "num_hidden_layers": 2}
    files = [
        Part("config.json", _json(config)),
        *in_pieces("model.safetensors", safetensors(_weights(state), {"format": "pt"})),
        Part("training_args.bin", saved(arguments, "training_args")),
        *in_pieces("optimizer.pt", saved(_optimizer(state), "optimizer")),
        Part("scheduler.pt", saved(_schedule(state), "scheduler")),
        *(Part(rng, saved({"python": (3, (1, 2, 3), None), "cpu": RNG}, rng.partition(".")[0])) for rng in rngs),
        Part("trainer_state.json", _json(_trainer_state(state))),
    ]
    return _inside(name, files)


def _trainer_state(state: State) -> Object:
    logged = {"epoch": 0.1, "grad_norm": 0.8, "learning_rate": RATE, "loss": round(state.loss, 4), "step": state.step}
    fixed = {
        "best_metric": None,
        "epoch": 0.1,
        "is_world_process_zero": True,
        "logging_steps": 10,
        "max_steps": 2_000_000,
    }
    return {**fixed, "global_step": state.step, "log_history": [logged], "train_batch_size": MICRO_BATCH}


def _torchtitan(state: State, name: str) -> list[Part]:
    items: Object = dict(_weights(state))
    for key, tensor in _weights(state).items():
        items[f"optimizer.state.{key}.exp_avg"] = tensor
        items[f"optimizer.param_groups.{key}.lr"] = RATE
    items |= {"lr_scheduler.last_epoch": state.step, "train_state.step": state.step}
    items["dataloader.position"] = state.step * MICRO_BATCH * state.ranks
    return _inside(name, _distributed(items, state))


def _megatron(state: State, name: str) -> list[Part]:
    """Shards, their metadata, what all ranks have in common, and at the end `metadata.json`; then the tracker."""
    items: Object = {f"model.decoder.{key}": tensor for key, tensor in _weights(state).items()}
    items |= {f"optimizer.state.exp_avg.decoder.{key}": tensor for key, tensor in _weights(state).items()}
    items["rng_state"] = {"torch_rng_state": RNG}
    names = {"consumed_train_samples": state.step * MICRO_BATCH * state.ranks, "data_parallel_size": state.ranks}
    common = {
        "iteration": state.step,
        "checkpoint_version": 3.0,
        "args": Instance(Named("argparse", "Namespace"), names),
        "opt_param_scheduler": {"max_lr": RATE, "num_steps": state.step},
    }
    backend = {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}
    files = [Part("common.pt", saved(common, "common")), *_distributed(items, state)]
    return _inside(name, [*files, Part("metadata.json", _json(backend))])


def _distributed(items: Object, state: State) -> list[Part]:
    """The coordinator's metadata comes last, under another name first."""
    files, metadata = shards(items, state.ranks)
    written = [part for path, content in files.items() for part in in_pieces(path, content)]
    return [*written, Part(".metadata.tmp", metadata), Part(".metadata.tmp", to=".metadata")]


def _orbax(state: State, name: str) -> list[Part]:
    """One zarr array for each leaf, in a folder that gets its name when all of it is there."""
    temporary = f"{name}.orbax-checkpoint-tmp"
    leaves: dict[tuple[str, ...], Tensor] = {("params", key): tensor for key, tensor in _weights(state).items()}
    leaves |= {("opt_state", "mu", key): tensor for key, tensor in _weights(state).items()}
    leaves |= {
        ("opt_state", "count"): floats((), state.step),
        ("step",): floats((), state.step),
        ("rng",): floats((2,), 7),
    }
    tree = {str(path): _orbax_leaf(path, tensor) for path, tensor in leaves.items()}
    files = [Part("state/_METADATA", _json({"tree_metadata": tree, "use_ocdbt": False, "use_zarr3": False}))]
    for path, tensor in leaves.items():
        files += _zarr(f"state/{'.'.join(path)}", tensor)
    handler = "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler"
    began, ends = (int(at * 1e9) for at in (state.began_at, state.ends_at))
    root = {"item_handlers": {"state": handler}, "metrics": {}, "init_timestamp_nsecs": began, "custom_metadata": {}}
    begun = Part("_CHECKPOINT_METADATA", _json({**root, "commit_timestamp_nsecs": None}))
    ended = Part("_CHECKPOINT_METADATA", _json({**root, "commit_timestamp_nsecs": ends}))
    return [*_inside(temporary, [begun, *files, ended]), Part(temporary, to=name)]


def _orbax_leaf(path: tuple[str, ...], tensor: Tensor) -> Object:
    value = {"value_type": "jax.Array", "skip_deserialize": False, "write_shape": list(tensor.shape)}
    return {"key_metadata": [{"key": key, "key_type": 2} for key in path], "value_metadata": value}


def _zarr(path: str, tensor: Tensor) -> list[Part]:
    shape = list(tensor.shape)
    array = {"chunks": shape, "compressor": None, "dtype": "<f4", "fill_value": None, "filters": None, "order": "C"}
    chunk = ".".join("0" for _ in shape) or "0"
    return [
        Part(f"{path}/.zarray", _json({**array, "shape": shape, "zarr_format": 2})),
        Part(f"{path}/{chunk}", tensor.data),
    ]


def _inside(folder: str, parts: list[Part]) -> list[Part]:
    return [
        Part(f"{folder}/{part.path}", part.content, part.more, f"{folder}/{part.to}" if part.to else "")
        for part in parts
    ]


def _json(value: Object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"


LAYOUTS: dict[str, Layout] = {
    "torch": Layout("step_{:08d}.pt".format, "", re.compile(r"step_(\d{8,})\.pt"), _torch),
    "lightning": Layout("epoch=0-step={}.ckpt".format, "", re.compile(r"epoch=0-step=(\d+)\.ckpt"), _lightning),
    "hf-trainer": Layout("checkpoint-{}".format, "trainer_state.json", re.compile(r"checkpoint-(\d+)"), _hugging_face),
    "torchtitan": Layout("step-{}".format, ".metadata", re.compile(r"step-(\d+)"), _torchtitan),
    "megatron-lm": Layout(
        "iter_{:07d}".format, "metadata.json", re.compile(r"iter_(\d{7,})"), _megatron,
        tracker="latest_checkpointed_iteration.txt",
    ),
    "orbax": Layout("{}".format, "_CHECKPOINT_METADATA", re.compile(r"(\d+)"), _orbax),
}  # fmt: skip
