"""Checkpoints on a file system: what is listed, what is never opened, and what happens when the tree changes meanwhile."""

import os
import tempfile
from pathlib import Path

import pytest

from fleet.adapters.checkpoints_files import FileStore
from fleet.domain.checkpoint_files import Why
from fleet.ports import PortError

MOST = 1000


@pytest.fixture
def store(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.pt").write_bytes(b"secret")
    return FileStore(tmp_path / "root")


@pytest.fixture
def root(tmp_path, store):
    return tmp_path / "root"


def reason(call, *arguments) -> str:
    with pytest.raises(PortError) as caught:
        call(*arguments)
    return caught.value.reason


def left_out(store, path=""):
    return {left.path: (left.why, left.leads_to) for left in store.list(path, MOST).omitted}


def test_files_with_sizes_and_times(store, root):
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "x.pt").write_bytes(b"12345")
    os.utime(root / "a" / "b" / "x.pt", (1000, 2000))
    (file,) = store.list("", MOST).files
    assert (file.path, file.size_bytes, file.modified_at, file.name, file.folder) == (
        "a/b/x.pt",
        5,
        2000,
        "x.pt",
        "a/b",
    )
    assert store.read(file, 1, 3) == b"234"
    assert store.list("a/b/x.pt", MOST).files == (file,)
    assert store.list("a", MOST).files == (file,)


@pytest.mark.parametrize("path", ["..", "a/../..", "/etc", "a/./b", "a\0b"])
def test_no_path_leaves_the_root(store, path):
    assert reason(store.list, path, MOST) == "outside"


def test_no_link_leaves_the_root(store, root):
    (root / "out").symlink_to(root.parent / "secret")
    (root / "key.pt").symlink_to("../secret/key.pt")
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nothing")
    listing = store.list("", MOST)
    assert listing.files == ()
    found = left_out(store)
    assert found["out"] == found["key.pt"] == (Why.OUTSIDE, "")
    assert found["loop"][0] in {Why.OUTSIDE, Why.GONE}
    assert found["gone"][0] is Why.GONE


def test_a_link_inside_is_taken_for_its_file_and_one_to_a_directory_for_a_hint(store, root):
    (root / "step-5").mkdir()
    (root / "step-5" / "x.pt").write_bytes(b"12")
    (root / "last.pt").symlink_to("step-5/x.pt")
    (root / "latest").symlink_to("step-5")
    listing = store.list("", MOST)
    assert [(file.path, file.link) for file in listing.files] == [("last.pt", "step-5/x.pt"), ("step-5/x.pt", "")]
    assert store.read(listing.files[0], 0, 2) == b"12"
    assert left_out(store) == {"latest": (Why.LINK, "step-5")}


def test_a_root_that_is_a_circle_of_links(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert reason(FileStore, tmp_path / "a") == "outside"


def test_a_directory_that_becomes_a_link_after_the_listing(store, root):
    (root / "a").mkdir()
    (root / "a" / "key.pt").write_bytes(b"mine!!")
    (file,) = store.list("", MOST).files
    (root / "a" / "key.pt").unlink()
    (root / "a").rmdir()
    (root / "a").symlink_to(root.parent / "secret")
    assert reason(store.read, file, 0, 6) in {"outside", "gone"}


def test_a_file_that_changes_after_the_listing(store, root):
    (root / "x.pt").write_bytes(b"12345")
    (file,) = store.list("", MOST).files
    with (root / "x.pt").open("ab") as more:
        more.write(b"6")
    assert reason(store.read, file, 0, 5) == "changed"
    (root / "x.pt").unlink()
    assert reason(store.read, file, 0, 5) == "gone"


def test_a_file_that_ends_before_what_is_asked_for(store, root):
    (root / "x.pt").write_bytes(b"12345")
    (file,) = store.list("", MOST).files
    assert reason(store.read, file, 3, 5) == "changed"


def test_pipes_and_sockets_are_left_out_and_block_nobody(store, root):
    os.mkfifo(root / "pipe.pt")
    assert left_out(store) == {"pipe.pt": (Why.SPECIAL, "")}


def test_a_pipe_in_place_of_a_file_blocks_nobody(store, root):
    (root / "x.pt").write_bytes(b"12345")
    (file,) = store.list("", MOST).files
    (root / "x.pt").unlink()
    os.mkfifo(root / "x.pt")
    assert reason(store.read, file, 0, 5) == "changed"


def test_more_files_than_asked_for(store, root):
    for number in range(30):
        (root / f"{number}.pt").write_bytes(b"")
    assert reason(store.list, "", 29) == "too-many"
    assert len(store.list("", 30).files) == 30


def test_more_directories_than_asked_for(store, root):
    for number in range(30):
        (root / f"{number}").mkdir()
    assert reason(store.list, "", 29) == "too-many"


def test_directories_that_are_too_deep(store, root):
    deep = root.joinpath(*"abcdefghijklmnopqrst")
    deep.mkdir(parents=True)
    (deep / "x.pt").write_bytes(b"")
    assert [why for why, _ in left_out(store).values()] == [Why.DEEP]


def test_names_that_are_no_text(store, root):
    (root / os.fsdecode(b"\xff.pt")).write_bytes(b"")
    assert store.list("", MOST).files == ()
    assert [left.why for left in store.list("", MOST).omitted] == [Why.SPECIAL]


def test_what_is_not_there(store, tmp_path):
    assert reason(store.list, "nothing", MOST) == "gone"
    assert reason(FileStore, tmp_path / "nothing") == "gone"
    (tmp_path / "file").write_bytes(b"")
    assert reason(FileStore, tmp_path / "file") == "gone"


@pytest.fixture
def as_nobody():
    """Root may read everything, so that permissions are tried without being root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_permissions_are_named(store, root, request):
    (root / "closed").mkdir()
    (root / "x.pt").write_bytes(b"12345")
    (root / "closed").chmod(0)
    (root / "x.pt").chmod(0)
    ours = Path(tempfile.gettempdir())
    for folder in (root, *(above for above in root.parents if ours in above.parents)):
        folder.chmod(folder.stat().st_mode | 0o755)
    request.getfixturevalue("as_nobody")
    assert left_out(store) == {"closed": (Why.DENIED, "")}
    (file,) = store.list("", MOST).files
    assert reason(store.read, file, 0, 5) == "denied"
    assert reason(store.list, "closed", MOST) == "denied"


def test_nothing_is_written(store, root):
    (root / "x.pt").write_bytes(b"12345")
    os.utime(root / "x.pt", (1000, 2000))
    before = {path: path.stat().st_mtime_ns for path in (root, root / "x.pt")}
    (file,) = store.list("", MOST).files
    store.read(file, 0, 5)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not any(name.startswith(("write", "put", "delete", "remove")) for name in dir(store))
