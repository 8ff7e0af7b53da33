"""Surveys of a store: every directory with its checkpoints, rescans that read only what changed, the deep check, the command."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest
from django.core.management import call_command

from fleet import saves
from fleet.adapters.checkpoints_files import FileStore
from fleet.domain.checkpoints import Sign, State
from fleet.ports import PortError
from fleet.saves import Progress, Survey
from tests.domain import checkpoint_makers as makers

REAL = Path(__file__).resolve().parents[1] / "data" / "checkpoints"


def save(root: Path, step: int, complete: bool = True) -> Path:
    folder = root / f"step-{step}"
    folder.mkdir(parents=True)
    for shard in ("__0_0.distcp", "__1_0.distcp"):
        (folder / shard).write_bytes(bytes(400))
    (folder / (".metadata" if complete else ".metadata.tmp")).write_bytes(makers.distributed(400))
    return folder


@pytest.fixture
def survey(tmp_path):
    return Survey(FileStore(tmp_path))


def states(survey) -> dict:
    return {found.step: found.state for shelf in survey.shelves() for found in shelf.checkpoints}


def test_directories_apart(tmp_path, survey):
    save(tmp_path / "a", 5)
    save(tmp_path / "b" / "checkpoints", 9)
    save(tmp_path / "b" / "checkpoints", 7)
    found = survey.shelves()
    assert [(shelf.path, shelf.newest.step) for shelf in found] == [("a", 5), ("b/checkpoints", 9)]


def test_a_rescan_reads_only_what_changed(tmp_path, survey):
    for step in range(5):
        save(tmp_path, step)
    assert states(survey) == dict.fromkeys(range(5), State.COMPLETE)
    assert (survey.judged, survey.read_bytes > 0) == (5, True)
    survey.shelves()
    assert (survey.judged, survey.read_bytes) == (0, 0)
    (tmp_path / "step-3" / "__0_0.distcp").write_bytes(bytes(100))
    save(tmp_path, 5)
    assert states(survey)[3] is State.CORRUPT
    assert survey.judged == 2
    shutil.rmtree(tmp_path / "step-4")
    assert 4 not in states(survey)


def test_a_save_that_is_killed_leaves_the_older_one(tmp_path, survey):
    save(tmp_path, 5)
    save(tmp_path, 6, complete=False)
    (shelf,) = survey.shelves()
    assert (shelf.newest.step, [c.step for c in shelf.of(State.IN_PROGRESS)]) == (5, [6])
    for path in (tmp_path / "step-6").iterdir():
        os.utime(path, (1000, 1000))
    (shelf,) = survey.shelves()
    assert (shelf.newest.step, [c.step for c in shelf.of(State.ABANDONED)]) == (5, [6])


def test_one_checkpoint_alone(tmp_path):
    save(tmp_path, 5)
    (shelf,) = Survey(FileStore(tmp_path / "step-5"), name="step-5").shelves()
    assert (shelf.newest.step, shelf.newest.path) == (5, "")
    (shelf,) = Survey(FileStore(tmp_path), "step-5").shelves()
    assert (shelf.newest.step, shelf.newest.path) == (5, "step-5")


def test_a_store_that_changes_while_it_is_read(tmp_path):
    """What was being written is judged anew, though it looks the same in the listing."""

    class Busy(FileStore):
        trouble = True

        def read(self, file, offset, length):
            if self.trouble and file.name == ".metadata":
                raise PortError("busy", retryable=True, reason="changed")
            return super().read(file, offset, length)

    save(tmp_path, 5)
    store = Busy(tmp_path)
    survey = Survey(store)
    assert states(survey) == {5: State.IN_PROGRESS}
    store.trouble = False
    assert states(survey) == {5: State.COMPLETE}


def test_far_too_many_files_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(saves, "MOST_FILES", 50)
    for number in range(51):
        (tmp_path / f"{number}.pt").touch()
    with pytest.raises(PortError) as caught:
        Survey(FileStore(tmp_path)).shelves()
    assert caught.value.reason == "too-many"


def deep(survey, path):
    (shelf,) = survey.shelves()
    *progress, found = survey.deep(next(c for c in shelf.checkpoints if c.path == path))
    assert all(isinstance(each, Progress) for each in progress)
    return progress, found


@pytest.mark.parametrize(
    ("folder", "path"), [("torch", "full.pt"), ("dcp", "step-5"), ("lightning", "epoch=0-step=2.ckpt")]
)
def test_a_deep_check_of_what_is_well(folder, path):
    progress, found = deep(Survey(FileStore(REAL / folder)), path)
    assert (found.state, progress[-1].done_bytes > 0) == (State.COMPLETE, True)
    assert progress[-1].done_bytes <= progress[-1].total_bytes


def test_a_deep_check_finds_one_wrong_byte_in_a_shard(tmp_path):
    shutil.copytree(REAL / "dcp", tmp_path / "dcp")
    shard = tmp_path / "dcp" / "step-5" / "__0_0.distcp"
    content = bytearray(shard.read_bytes())
    header = content.index(b"data/0") - 30 - len("archive/")
    assert content[header : header + 4] == b"PK\x03\x04"
    content[header + 30 + sum(struct.unpack_from("<HH", content, header + 26))] ^= 1
    kept = shard.stat()
    shard.write_bytes(content)
    os.utime(shard, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    survey = Survey(FileStore(tmp_path / "dcp"))
    assert states(survey) == {5: State.COMPLETE}
    _, found = deep(survey, "step-5")
    assert found.state is State.CORRUPT
    assert Sign.CHECKSUM in {note.sign for note in found.notes}


def test_a_deep_check_against_megatrons_digests(tmp_path):
    import hashlib

    folder = save(tmp_path, 5)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    (folder / "integrity.json").write_text(json.dumps({"files": digests}))
    survey = Survey(FileStore(tmp_path))
    assert deep(survey, "step-5")[1].state is State.COMPLETE
    (folder / "__1_0.distcp").write_bytes(b"x" * 400)
    assert deep(survey, "step-5")[1].state is State.CORRUPT


def test_a_deep_check_without_anything_to_check_against():
    _, found = deep(Survey(FileStore(REAL / "safetensors")), "small.safetensors")
    assert found.state is State.PARTIAL_STATE
    assert Sign.UNCHECKED in {note.sign for note in found.notes}


# manage.py checkpoint


def command(capsys, *arguments) -> tuple[int, str]:
    try:
        call_command("checkpoint", *map(str, arguments))
    except SystemExit as left:
        code = left.code
    else:
        code = 0
    out, err = capsys.readouterr()
    return code, out + err


def test_the_report_says_what_is_newest(tmp_path, capsys):
    save(tmp_path, 5)
    save(tmp_path, 6, complete=False)
    code, said = command(capsys, tmp_path)
    assert code == 0
    assert "newest complete: step 5" in said
    assert "in-progress" in said


def test_the_exit_code_says_whether_one_can_resume(tmp_path, capsys):
    assert command(capsys, tmp_path)[0] == 1
    save(tmp_path, 6, complete=False)
    assert command(capsys, tmp_path)[0] == 1
    assert command(capsys, tmp_path / "nothing") == (2, f"checkpoint: {tmp_path}/nothing: No such file or directory\n")
    assert command(capsys, REAL / "torch" / "full.pt")[0] == 0
    assert command(capsys, REAL / "torch" / "weights.pt")[0] == 1


def test_json_for_programs(capsys):
    code, said = command(capsys, REAL / "trainer" / "full", "--json", "--deep")
    answer = json.loads(said)
    (shelf,) = answer["shelves"]
    assert (code, shelf["newest"]["step"], shelf["newest"]["components"]["rng"]) == (0, 4, "present")
    assert [found["state"] for found in answer["deep"]] == ["complete", "complete"]


def test_every_sign_has_a_sentence():
    from fleet.management.commands.checkpoint import LETTERS, SAYS

    assert set(SAYS) == set(Sign)
    assert len(LETTERS) == 5


def test_damage_that_only_a_deep_check_sees(tmp_path, capsys):
    data = makers.archive()
    at = data.index(makers.STORAGES["0"]) + 200
    (tmp_path / "a.pt").write_bytes(data[:at] + bytes(100) + data[at + 100 :])
    assert command(capsys, tmp_path)[0] == 0
    code, said = command(capsys, tmp_path, "--deep")
    assert code == 1
    assert "data/0" in said
