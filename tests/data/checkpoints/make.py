"""Makes small real checkpoints with the real libraries. Run by hand, in a virtual environment of its own:

    python -m venv /tmp/makers && /tmp/makers/bin/pip install -r tests/data/checkpoints/requirements.txt
    /tmp/makers/bin/python tests/data/checkpoints/make.py

Neither Vigie nor its tests need any of these libraries: the results are committed beside this file, and `versions.json` says what
made them. Laid out by hand, since their makers want several GPUs or cannot be installed beside the others: DeepSpeed, NeMo, NVRx,
Megatron-LM and torchtitan. Their files are real ones of torch with the keys that these trainers write (`ranks/`, `dcp/`), after
their sources; tests/domain/test_checkpoint_formats.py puts them into directories.
"""

import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
HERE = Path(__file__).resolve().parent
LIBRARIES = (
    *("torch", "transformers", "accelerate", "lightning", "safetensors"),
    *("orbax-checkpoint", "flax", "jax", "tensorflow-cpu", "numpy"),
)


def trained(optimizer="AdamW"):
    import torch

    torch.manual_seed(1)
    model = torch.nn.Linear(6, 4)
    made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(made, 2)
    for _ in range(3):
        model(torch.randn(2, 6)).square().sum().backward()
        made.step()
        schedule.step()
    return model, made, schedule


def torch_files(into: Path) -> None:
    import torch

    model, optimizer, schedule = trained()
    full = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": schedule.state_dict(),
        "epoch": 3,
        "global_step": 1234,
        "rng": torch.get_rng_state()[:64].clone(),
    }
    torch.save(full, into / "full.pt")
    torch.save(model.state_dict(), into / "weights.pt")
    torch.save(full, into / "legacy.pt", _use_new_zipfile_serialization=False)
    plain, sgd, _ = trained("SGD")
    torch.save({"model": plain.state_dict(), "optimizer": sgd.state_dict(), "step": 7}, into / "sgd.pt")
    torch.serialization.set_crc32_options(False)
    torch.save(full, into / "no-crc.pt")
    torch.serialization.set_crc32_options(True)


def distributed(into: Path) -> None:
    import torch.distributed.checkpoint as dcp

    model, optimizer, schedule = trained()
    state = {
        "model": model.state_dict(),
        "optim": optimizer.state_dict(),
        "lr_scheduler": {"last_epoch": schedule.last_epoch},
        "train_state": {"step": 5},
        "dataloader": {"pos": 3},
    }
    dcp.save(state, checkpoint_id=into / "step-5")


def ranks(into: Path) -> None:
    """Files of one rank with the keys of DeepSpeed and Megatron-LM; see the head of this file."""
    import torch

    model, optimizer, schedule = trained()
    torch.save(
        {
            "module": model.state_dict(),
            "optimizer": None,
            "lr_scheduler": schedule.state_dict(),
            "global_steps": 100,
            "global_samples": 800,
            "skipped_steps": 0,
            "dp_world_size": 2,
            "mp_world_size": 1,
            "ds_version": "0.19.8",
            "ds_config": {},
        },
        into / "deepspeed_model_states.pt",
    )
    torch.save(
        {"optimizer_state_dict": optimizer.state_dict(), "ds_version": "0.19.8"}, into / "deepspeed_optim_states.pt"
    )
    torch.save(
        {
            "iteration": 123,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "opt_param_scheduler": {"num_steps": 123},
            "rng_state": [{"torch_rng_state": torch.get_rng_state()[:16].clone()}],
            "args": Namespace(consumed_train_samples=984, tensor_model_parallel_size=1),
        },
        into / "megatron_model_optim_rng.pt",
    )


def trainer(into: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(8)]

    def train(where: Path, **more):
        arguments = TrainingArguments(
            str(where), max_steps=4, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, **more
        )
        Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data).train()

    train(into / "full")
    train(into / "weights", save_only_model=True)
    shutil.rmtree(into / "weights" / "checkpoint-2")


def lightning(into: Path) -> None:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Small(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, 4)

        def training_step(self, batch, _):
            return self.layer(batch).square().sum()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    save = ModelCheckpoint(dirpath=into, every_n_train_steps=2, save_top_k=-1, save_last="link")
    made = Trainer(max_steps=4, accelerator="cpu", logger=False, callbacks=[save], enable_progress_bar=False)
    made.fit(Small(), torch.utils.data.DataLoader(torch.randn(8, 6), batch_size=2))
    made.save_checkpoint(into / "weights-only.ckpt", weights_only=True)


def accelerate(into: Path) -> None:
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    project = ProjectConfiguration(str(into), automatic_checkpoint_naming=True)
    made = Accelerator(cpu=True, project_config=project)
    made.prepare(*trained())
    made.save_state()


def orbax(into: Path) -> None:
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    tree = {
        "params": {"w": jnp.ones((4, 4)), "b": jnp.zeros(4)},
        "opt_state": {"count": jnp.array(3), "mu": {"w": jnp.ones((4, 4))}},
        "step": jnp.array(100),
        "rng": jnp.array([0, 1]),
    }
    with ocp.CheckpointManager(into.absolute(), options=ocp.CheckpointManagerOptions(step_prefix="run")) as manager:
        manager.save(100, args=ocp.args.Composite(state=ocp.args.StandardSave(tree)))
        manager.wait_until_finished()


def flax(into: Path) -> None:
    import numpy as np
    from flax import serialization

    tree = {
        "params": {"w": np.ones((4, 4), "float32")},
        "opt_state": {"0": {"count": np.array(3), "mu": {"w": np.ones((4, 4), "float32")}}},
        "step": 40,
    }
    (into / "checkpoint_40").write_bytes(serialization.to_bytes(tree))


def tensorflow(into: Path) -> None:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
    optimizer = tf.keras.optimizers.Adam()
    model.compile(optimizer, "mse")
    model.fit(tf.ones((4, 4)), tf.ones((4, 3)), verbose=0)
    made = tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(77, dtype=tf.int64))
    tf.train.CheckpointManager(made, str(into), max_to_keep=2).save()


def safetensors(into: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"w": torch.ones(4, 4), "b": torch.zeros(4, dtype=torch.bfloat16)}, into / "small.safetensors")
    save_file({}, into / "empty.safetensors")
    shards = into / "sharded"
    shards.mkdir()
    for number, name in enumerate("wb", 1):
        save_file({name: torch.ones(4, 4)}, shards / f"model-0000{number}-of-00002.safetensors")
    weight_map = {name: f"model-0000{number}-of-00002.safetensors" for number, name in enumerate("wb", 1)}
    index = {"metadata": {"total_size": 128}, "weight_map": weight_map}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))


MAKERS = {
    "torch": torch_files,
    "dcp": distributed,
    "ranks": ranks,
    "trainer": trainer,
    "lightning": lightning,
    "accelerate": accelerate,
    "orbax": orbax,
    "flax": flax,
    "tensorflow": tensorflow,
    "safetensors": safetensors,
}


def main() -> int:
    for name, make in MAKERS.items():
        into = HERE / name
        shutil.rmtree(into, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)  # what is saved may name where
            made = Path(name)
            made.mkdir()
            make(made)
            shutil.copytree(made, into, symlinks=True)
    versions = {library: importlib.metadata.version(library) for library in LIBRARIES}
    versions["python"] = sys.version.split()[0]
    (HERE / "versions.json").write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
