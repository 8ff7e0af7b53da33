"""Every format of the reference, §1.1, §1.2 and §1.4: real checkpoints of the real libraries, and each rule that they can break.

The real ones are in tests/data/checkpoints, with the program that made them. What is laid out by hand says so there.
"""

from pathlib import Path

import pytest

from fleet.domain.checkpoint_files import Look, Omitted, Why
from fleet.domain.checkpoint_shelves import shelf, trackers
from fleet.domain.checkpoint_units import step_of
from fleet.domain.checkpoints import Format, Moment, State
from tests.domain import checkpoint_makers as makers
from tests.domain.checkpoint_makers import NOON, Made, signs

REAL = Path(__file__).resolve().parents[1] / "data" / "checkpoints"
COMPLETE, PARTIAL, SAVING, CORRUPT, UNKNOWN = (
    *(State.COMPLETE, State.PARTIAL_STATE),
    *(State.IN_PROGRESS, State.CORRUPT, State.UNKNOWN),
)


def real(folder: str, below: str = "") -> Made:
    """A directory of real files, all as old as each other; `below`: put into a directory of this name."""
    made = Made()
    for path in sorted((REAL / folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            made.put(f"{below}{path.relative_to(REAL / folder)}", path.read_bytes())
    return made


def one(folder: str, path: str):
    return real(folder).judged()[path]


def short(found) -> str:
    """The components as five letters: Present, Empty, Absent, Not applicable, ? unknown."""
    letters = {"present": "P", "empty": "E", "absent": "A", "not-applicable": "N", "unknown": "?"}
    held = found.components
    five = (held.weights, held.optimizer, held.schedule, held.position, held.rng)
    return "".join(letters[each.value] for each in five)


@pytest.mark.parametrize(
    ("folder", "path", "kind", "state", "step", "components"),
    [
        ("torch", "full.pt", Format.TORCH, COMPLETE, 1234, "PPPPP"),
        ("torch", "no-crc.pt", Format.TORCH, COMPLETE, 1234, "PPPPP"),
        ("torch", "sgd.pt", Format.TORCH, COMPLETE, 7, "PEAPA"),
        ("torch", "weights.pt", Format.TORCH, PARTIAL, None, "PAAAA"),
        ("torch", "legacy.pt", Format.TORCH_LEGACY, UNKNOWN, 1234, "PPPPP"),
        ("dcp", "step-5", Format.TORCHTITAN, COMPLETE, 5, "PPPPA"),
        ("trainer/full", "checkpoint-4", Format.TRAINER, COMPLETE, 4, "PPPPP"),
        ("trainer/weights", "checkpoint-4", Format.TRAINER, PARTIAL, 4, "PAAPA"),
        ("lightning", "epoch=0-step=4.ckpt", Format.LIGHTNING, COMPLETE, 4, "PPNPA"),
        ("lightning", "weights-only.ckpt", Format.LIGHTNING, PARTIAL, 4, "PAAPA"),
        ("accelerate", "checkpoints/checkpoint_0", Format.ACCELERATE, COMPLETE, None, "PPPAP"),
        ("orbax", "run_100", Format.ORBAX, COMPLETE, 100, "PPPPP"),
        ("flax", "checkpoint_40", Format.FLAX, COMPLETE, 40, "PPPPA"),
        ("tensorflow", "ckpt-1", Format.TENSORFLOW, COMPLETE, 77, "PPPPA"),
        ("safetensors", "small.safetensors", Format.SAFETENSORS, PARTIAL, None, "PAAAA"),
        ("safetensors", "empty.safetensors", Format.SAFETENSORS, PARTIAL, None, "EAAAA"),
        ("safetensors", "sharded", Format.SAFETENSORS, PARTIAL, None, "PAAAA"),
    ],
)
def test_real_ones(folder, path, kind, state, step, components):
    found = one(folder, path)
    assert (found.format, found.state, found.step, short(found)) == (kind, state, step, components)


def test_real_ones_name_nothing_strange():
    for folder in ("torch", "dcp", "trainer", "lightning", "accelerate", "ranks"):
        for path, found in real(folder).judged().items():
            assert "foreign" not in signs(found), (path, found.notes)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("torch", "full.pt"),
        ("lightning", "epoch=0-step=4.ckpt"),
        ("flax", "checkpoint_40"),
        ("safetensors", "small.safetensors"),
    ],
)
def test_a_single_file_that_is_cut_is_not_finished(folder, path, share):
    made = real(folder)
    made.contents[path] = made.contents[path][: int(len(made.contents[path]) * share)]
    assert made.judged()[path].state is SAVING


# Directories: what each lacks, has damaged, or has too much of, and what that makes of it.

CHANGES = [
    # Hugging Face's Trainer
    ("trainer/full", "checkpoint-4", "-trainer_state.json", SAVING, "unmarked"),
    ("trainer/full", "checkpoint-4", "%trainer_state.json", SAVING, "unmarked"),
    ("trainer/full", "checkpoint-4", "%model.safetensors", CORRUPT, "ends-early"),
    ("trainer/full", "checkpoint-4", "%optimizer.pt", CORRUPT, "ends-early"),
    ("trainer/full", "checkpoint-4", "-optimizer.pt", CORRUPT, "missing"),
    ("trainer/full", "checkpoint-4", "-model.safetensors", CORRUPT, "missing"),
    ("trainer/full", "checkpoint-4", "-scheduler.pt", CORRUPT, "missing"),
    ("trainer/full", "checkpoint-4", "-rng_state.pth", CORRUPT, "missing"),
    ("trainer/full", "checkpoint-4", "%rng_state.pth", CORRUPT, "ends-early"),
    # PyTorch's distributed checkpoints
    ("dcp", "step-5", "-.metadata", SAVING, "unmarked"),
    ("dcp", "step-5", "%.metadata", CORRUPT, "contradicts"),
    ("dcp", "step-5", "%__0_0.distcp", CORRUPT, "contradicts"),
    ("dcp", "step-5", "-__0_0.distcp", CORRUPT, "missing"),
    # Orbax
    ("orbax", "run_100", "-commit_success.txt", COMPLETE, None),  # the moment inside proves it
    ("orbax", "run_100", "-state/_METADATA", COMPLETE, None),
    ("orbax", "run_100", "%_CHECKPOINT_METADATA", CORRUPT, "contradicts"),
    # TensorFlow
    ("tensorflow", "ckpt-1", "-ckpt-1.index", SAVING, "unmarked"),
    ("tensorflow", "ckpt-1", "%ckpt-1.index", CORRUPT, "ends-early"),
    ("tensorflow", "ckpt-1", "-ckpt-1.data-00000-of-00001", CORRUPT, "missing"),
    ("tensorflow", "ckpt-1", "%ckpt-1.data-00000-of-00001", CORRUPT, "contradicts"),
    # safetensors with an index
    ("safetensors", "sharded", "-model-00002-of-00002.safetensors", CORRUPT, "missing"),
    ("safetensors", "sharded", "%model-00002-of-00002.safetensors", CORRUPT, "ends-early"),
    # Accelerate, which marks nothing
    ("accelerate", "checkpoints/checkpoint_0", "%optimizer.bin", SAVING, "unmarked"),
]


@pytest.mark.parametrize(("folder", "path", "change", "state", "sign"), CHANGES)
def test_a_directory_that_is_not_as_it_was_saved(folder, path, change, state, sign):
    made = real(folder)
    where = change[1:] if folder == "tensorflow" else f"{path}/{change[1:]}"
    content = made.contents.pop(where)
    if change[0] == "%":  # all but its last tenth
        made.put(where, content[: len(content) * 9 // 10])
    found = made.judged()[path]
    assert found.state is state
    assert sign is None or sign in signs(found)


# Hugging Face's Trainer


def trainer() -> Made:
    return real("trainer/full")


def test_the_contents_and_the_name_must_say_the_same_step():
    made = Made()
    for path, content in trainer().contents.items():
        made.put(path.replace("checkpoint-4", "checkpoint-5"), content)
    found = made.judged()["checkpoint-5"]
    assert found.step == 5
    assert "step-disagrees" in signs(found)


def test_the_random_states_of_all_ranks_must_be_there():
    made = trainer()
    state = made.contents.pop("checkpoint-4/rng_state.pth")
    for rank in (0, 1, 3):
        made.put(f"checkpoint-4/rng_state_{rank}.pth", state)
    found = made.judged()["checkpoint-4"]
    assert found.state is SAVING
    assert "rng_state_2.pth" in {note.detail for note in found.notes}
    made.put("checkpoint-4/rng_state_2.pth", state)
    assert made.judged()["checkpoint-4"].state is COMPLETE


def test_a_long_log_is_not_taken_in():
    made = trainer()
    entries = b",\n".join(b'  {"loss": 1.0, "step": %d}' % step for step in range(120_000))
    made.put(
        "checkpoint-4/trainer_state.json",
        b'{\n  "epoch": 1.0,\n  "global_step": 4,\n  "log_history": [' + entries + b"]\n}",
    )
    found = made.judged()["checkpoint-4"]
    assert (found.state, found.step) == (COMPLETE, 4)
    assert found.read_bytes < 200_000


def test_the_old_staging_directory():
    made = real("trainer/full")
    moved = Made()
    for path, content in made.contents.items():
        moved.put(path.replace("checkpoint-4", "tmp-checkpoint-4"), content)
    assert moved.judged()["tmp-checkpoint-4"].state is SAVING


def test_a_checkpoint_of_deepspeed_inside_the_trainer():
    made = trainer()
    for name in ("optimizer.pt", "model.safetensors"):
        del made.contents[f"checkpoint-4/{name}"]
    for path, content in deepspeed().contents.items():
        made.put(f"checkpoint-4/{path}", content)
    found = made.judged()["checkpoint-4"]
    assert (found.format, found.state, found.step) == (Format.TRAINER, COMPLETE, 4)
    del made.contents["checkpoint-4/global_step100/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"]
    assert made.judged()["checkpoint-4"].state is SAVING


def test_a_sharded_one_of_fsdp():
    made = trainer()
    for name in ("optimizer.pt", "model.safetensors"):
        del made.contents[f"checkpoint-4/{name}"]
    for folder in ("pytorch_model_fsdp_0", "optimizer_0"):
        for path, content in real("dcp").contents.items():
            made.put(f"checkpoint-4/{folder}/{path.removeprefix('step-5/')}", content)
    assert made.judged()["checkpoint-4"].state is COMPLETE
    del made.contents["checkpoint-4/optimizer_0/.metadata"]
    assert made.judged()["checkpoint-4"].state is SAVING


def test_an_adapter_is_enough_for_weights():
    made = trainer()
    made.put("checkpoint-4/adapter_model.safetensors", made.contents.pop("checkpoint-4/model.safetensors"))
    assert made.judged()["checkpoint-4"].state is COMPLETE


def test_a_directory_with_loose_files_beside_its_checkpoints_is_none_itself():
    made = trainer()
    for path in ("trainer_state.json", "training_args.bin", "model.safetensors"):
        made.put(path, made.contents[f"checkpoint-4/{path}"])
    assert set(made.judged()) == {"checkpoint-2", "checkpoint-4", "model.safetensors"}


# DeepSpeed and Megatron-LM, laid out by hand


def deepspeed(ranks: int = 2) -> Made:
    made = Made().put(
        "global_step100/mp_rank_00_model_states.pt", (REAL / "ranks/deepspeed_model_states.pt").read_bytes()
    )
    for rank in range(ranks):
        name = f"global_step100/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        made.put(name, (REAL / "ranks/deepspeed_optim_states.pt").read_bytes())
    return made.put("latest", b"global_step100")


def test_deepspeed_needs_every_rank_that_it_says_there_are():
    found = deepspeed().judged()["global_step100"]
    assert (found.format, found.state, found.step, short(found)) == (Format.DEEPSPEED, COMPLETE, 100, "PPPPA")
    found = deepspeed(ranks=1).judged()["global_step100"]
    assert found.state is SAVING
    assert [note.detail for note in found.notes] == ["zero_pp_rank_1_mp_rank_00_optim_states.pt"]


def test_deepspeed_names_its_latest_before_it_is_complete():
    made = deepspeed(ranks=1)
    found = shelf("", made.judged().values(), trackers("", made.listing(), Look(made)), NOON - 3000)
    (conflict,) = found.conflicts
    assert (conflict.tracker.says, conflict.found, found.newest) == ("global_step100", SAVING, None)


def test_deepspeed_that_is_cut_is_still_being_written():
    made = deepspeed()
    path = "global_step100/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
    made.put(path, made.contents[path][:-10])
    assert made.judged()["global_step100"].state is SAVING


def test_deepspeed_zero_3_needs_the_model_of_every_rank():
    """deepspeedai/DeepSpeed #7546"""
    made = deepspeed()
    model = made.contents.pop("global_step100/mp_rank_00_model_states.pt")
    made.put("global_step100/zero_pp_rank_0_mp_rank_00_model_states.pt", model)
    assert made.judged()["global_step100"].state is SAVING
    made.put("global_step100/zero_pp_rank_1_mp_rank_00_model_states.pt", model)
    assert made.judged()["global_step100"].state is COMPLETE


def megatron() -> Made:
    made = real("dcp", "")
    moved = Made()
    for path, content in made.contents.items():
        moved.put(path.replace("step-5", "iter_0000005"), content)
    return moved.put("iter_0000005/metadata.json", b'{"sharded_backend": "torch_dist"}')


def test_megatron_writes_its_metadata_last():
    found = megatron().judged()["iter_0000005"]
    assert (found.format, found.state, found.step) == (Format.MEGATRON, COMPLETE, 5)
    made = megatron()
    del made.contents["iter_0000005/metadata.json"]
    assert made.judged()["iter_0000005"].state is SAVING


def megatron_ranks() -> Made:
    made = Made()
    for rank in ("mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"):
        made.put(f"iter_0000123/{rank}/model_optim_rng.pt", (REAL / "ranks/megatron_model_optim_rng.pt").read_bytes())
    return made


def test_megatron_as_it_was_needs_every_rank():
    found = megatron_ranks().judged()["iter_0000123"]
    assert (found.format, found.state, found.step, short(found)) == (Format.MEGATRON, COMPLETE, 123, "PPPPP")
    made = megatron_ranks()
    del made.contents["iter_0000123/mp_rank_01_000/model_optim_rng.pt"]
    assert made.judged()["iter_0000123"].state is SAVING
    made = megatron_ranks()
    path = "iter_0000123/mp_rank_01_000/model_optim_rng.pt"
    made.put(path, made.contents[path][:-10])
    assert made.judged()["iter_0000123"].state is SAVING


@pytest.mark.parametrize(
    ("text", "says", "step"), [(b"123\n", "123", 123), (b"", "", None), (b"release", "release", None)]
)
def test_megatrons_tracker(text, says, step):
    made = megatron_ranks().put("latest_checkpointed_iteration.txt", text)
    (found,) = trackers("", made.listing(), Look(made))
    assert (found.says, found.step) == (says, step)


def test_nvrx_marks_what_is_unfinished_with_its_name():
    made = (
        Made().put("iter_0000005_3_local.pt", makers.archive()).put("iter_0000006_3_local.dirty.pt", makers.archive())
    )
    found = made.judged()
    assert (found["iter_0000005_3_local.pt"].state, found["iter_0000005_3_local.pt"].step) == (COMPLETE, 5)
    assert found["iter_0000006_3_local.dirty.pt"].state is SAVING


# Orbax, Flax, TensorFlow


@pytest.mark.parametrize(
    "name", ["100.orbax-checkpoint-tmp", "100.orbax-checkpoint-tmp-1700000000", "run_100.orbax-checkpoint-tmp"]
)
def test_orbaxs_temporary_names(name):
    moved = Made()
    for path, content in real("orbax").contents.items():
        moved.put(path.replace("run_100", name), content)
    found = moved.judged()[name]
    assert (found.state, found.step) == (SAVING, 100)


def test_orbax_in_rename_mode_is_complete_by_its_name():
    made = Made().put("100/state/_METADATA", b'{"tree_metadata": {}}').put("100/state/manifest.ocdbt", b"x")
    assert made.one().state is COMPLETE


def test_orbax_without_a_commit_moment_is_not_committed():
    made = real("orbax")
    made.put("run_100/_CHECKPOINT_METADATA", b'{"item_handlers": {"state": "x"}, "commit_timestamp_nsecs": null}')
    assert made.one().state is SAVING


def test_orbax_with_an_item_missing():
    made = real("orbax")
    made.put(
        "run_100/_CHECKPOINT_METADATA", b'{"item_handlers": {"state": "x", "data": "y"}, "commit_timestamp_nsecs": 1}'
    )
    assert made.one().state is CORRUPT


def test_flax_has_a_temporary_name_too():
    assert Made().put("checkpoint_tmp", real("flax").contents["checkpoint_40"]).one().step is None
    assert Made().put("checkpoint_tmp", real("flax").contents["checkpoint_40"]).one().state is SAVING


def test_tensorflows_number_is_no_step_and_its_state_file_knows_the_time():
    made = real("tensorflow")
    (hint,) = trackers("", made.listing(), Look(made))
    assert hint.says == "ckpt-1"
    found = shelf("", made.judged().values(), [hint], NOON)
    assert (found.newest.step, found.newest.moment) == (77, Moment.EMBEDDED)
    assert found.newest.committed_at == hint.times["ckpt-1"]
    assert found.conflicts == ()


def test_tensorflows_temporary_directory():
    made = Made().put("ckpt-2_temp/part-00000-of-00001.data-00000-of-00001", b"x")
    assert made.one().state is SAVING


# Lightning, NeMo


def test_lightnings_links_are_hints():
    made = real("lightning")
    made.omitted = (Omitted("last.ckpt", Why.LINK, "epoch=0-step=2.ckpt"),)
    hints = trackers("", made.listing(), Look(made))
    found = shelf("", made.judged().values(), hints, NOON)
    assert found.newest.step == 4
    assert [conflict.tracker.step for conflict in found.conflicts] == [2]


def test_lightnings_sharded_directory_needs_its_meta():
    made = Made()
    for path, content in real("dcp").contents.items():
        made.put(path.replace("step-5", "epoch=1-step=5.ckpt"), content)
    assert made.one().state is SAVING
    made.put("epoch=1-step=5.ckpt/meta.pt", makers.archive({"global_step": 5, "epoch": 1}, {}))
    found = made.one()
    assert (found.format, found.state, found.step) == (Format.LIGHTNING, COMPLETE, 5)


NEMO = "gpt--val_loss=2.10-step=900-consumed_samples=7200.0-last"


@pytest.mark.parametrize("ending", ["", ".ckpt"])
def test_nemos_mark_beside_it(ending):
    made = Made()
    for path, content in real("dcp").contents.items():
        made.put(path.replace("step-5", f"{NEMO}{ending}/weights"), content)
    found = made.judged()[f"{NEMO}{ending}"]
    assert (found.format, found.state, found.step) == (Format.NEMO, COMPLETE, 900)
    made.put(f"{NEMO}-unfinished", b"")
    assert made.judged()[f"{NEMO}{ending}"].state is SAVING


def test_nemo_as_one_file():
    made = Made().put(f"{NEMO}.ckpt", makers.archive())
    found = made.one()
    assert (found.format, found.state, found.step) == (Format.NEMO, COMPLETE, 900)


# torchtitan, safetensors, and names


def test_torchtitans_last_save_holds_the_model_alone():
    made = Made()
    for path, content in real("safetensors").contents.items():
        if path.startswith("sharded/"):
            made.put(path.replace("sharded", "step-900"), content)
    found = made.judged()["step-900"]
    assert (found.format, found.state, found.step) == (Format.TORCHTITAN, PARTIAL, 900)


@pytest.mark.parametrize("name", ["x.safetensors.partial", "x.safetensors.incomplete", "x.pt.tmp"])
def test_names_of_copies_that_are_not_finished(name):
    content = makers.archive() if ".pt" in name else real("safetensors").contents["small.safetensors"]
    assert Made().put(name, content).one().state is SAVING


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *(("checkpoint-1000", 1000), ("step-5", 5), ("global_step12", 12), ("iter_0000123", 123), ("100", 100)),
        *(("epoch=3-step=400.ckpt", 400), ("iter_0000005_0_local.pt", 5), ("step_12.pt", 12), (NEMO, 900)),
        *(("old-step-900", None), ("step-900.bak", None), ("checkpoint_3", None), ("hpc_ckpt_4.ckpt", None)),
        *(("last.ckpt", None), ("release", None), ("step-" + "9" * 30, None), ("ckpt-7", None)),
    ],
)
def test_only_a_whole_name_says_a_step(name, step):
    assert step_of(name) == step


def test_the_order_is_by_number_and_not_by_time_or_text():
    made = Made()
    for step, at in ((500, "11:59"), (1000, "11:00")):
        made.put(f"step-{step}/.metadata", makers.distributed(400), at)
        made.put(f"step-{step}/__0_0.distcp", bytes(400), at).put(f"step-{step}/__1_0.distcp", bytes(400), at)
    assert shelf("", made.judged().values(), (), NOON).newest.step == 1000


def test_shards_that_are_uploads_have_the_time_of_their_upload():
    """An object's time is when it was uploaded, in any order: it does not show that a shard is of the next save."""
    made = Made(uploads=True).put("step-5/.metadata", makers.distributed(400), "11:00")
    made.put("step-5/__0_0.distcp", bytes(400), "11:50").put("step-5/__1_0.distcp", bytes(400), "11:50")
    assert made.one().state is COMPLETE


def test_metadata_of_each_rank_instead_of_one():
    made = (
        Made()
        .put("step-5/__0.metadata", makers.distributed(400, ["__0_0.distcp"]))
        .put("step-5/__0_0.distcp", bytes(400))
    )
    assert made.one().state is COMPLETE


def test_a_chunk_that_nothing_stores():
    pieces = {"model.w": ("__0_0.distcp", 0, 400)}
    made = Made().put("step-5/.metadata", makers.metadata(pieces, ["model.w"], missing=["optim.state.0.m"]))
    found = made.put("step-5/__0_0.distcp", bytes(400)).one()
    assert found.state is CORRUPT
    assert "optim.state.0.m" in found.notes[0].detail
