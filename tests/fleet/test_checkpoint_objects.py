"""Checkpoints in an object store: moto's server speaks S3 over HTTP."""

import uuid

import pytest
from django.core.management import call_command
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from fleet.adapters.checkpoints_s3 import ObjectStore
from fleet.domain.checkpoint_files import Why
from fleet.domain.checkpoints import State
from fleet.ports import PortError
from fleet.saves import Survey
from tests.domain import checkpoint_makers as makers

CREDENTIALS = ("AKIDEXAMPLE", "not-a-secret")


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint):
    name = f"runs-{uuid.uuid4().hex[:8]}"
    backend().create_bucket(name, "us-east-1")
    return name


def backend():
    """The server's own side: quicker than a thousand requests."""
    return s3_backends[ACCOUNT]["aws"]


@pytest.fixture
def store(endpoint, bucket):
    return lambda prefix="": ObjectStore(bucket, prefix, endpoint, CREDENTIALS)


@pytest.fixture
def put(bucket):
    return lambda path, content: backend().put_object(bucket, path, content)


def reason(call, *arguments) -> str:
    with pytest.raises(PortError) as caught:
        call(*arguments)
    assert "not-a-secret" not in str(caught.value)
    return caught.value.reason


def test_objects_below_a_prefix(put, store):
    put("team/run/step-1/a", b"12345")
    put("team/run2/b", b"")
    listing = store("team/run").list("", 10)
    (file,) = listing.files
    assert (file.path, file.size_bytes, listing.uploads) == ("step-1/a", 5, True)
    assert store("team/run").read(file, 1, 3) == b"234"
    assert store().list("team/run/step-1/a", 10).files[0].size_bytes == 5


def test_pages(put, store):
    for number in range(1005):
        put(f"p/{number:04}", b"")
    assert len(store().list("p", 2000).files) == 1005
    assert reason(store().list, "p", 1004) == "too-many"


def test_another_version_is_never_read(put, store, bucket):
    put("x.pt", b"12345")
    (file,) = store().list("", 10).files
    put("x.pt", b"67890")
    assert reason(store().read, file, 0, 5) == "changed"
    backend().delete_object(bucket, "x.pt")
    assert reason(store().read, file, 0, 5) == "gone"


def test_keys_that_are_no_paths_are_left_out(put, store):
    for key in ("a//b", "a/../b", "folder/"):
        put(key, b"")
    listing = store().list("", 10)
    assert listing.files == ()
    assert {(left.path, left.why) for left in listing.omitted} == {("a//b", Why.OUTSIDE), ("a/../b", Why.OUTSIDE)}
    assert reason(store().list, "../other", 10) == "outside"


def test_what_is_not_there(store, endpoint):
    assert reason(store().list, "nothing", 10) == "gone"
    assert reason(ObjectStore("no-such-bucket", "", endpoint, CREDENTIALS).list, "", 10) == "gone"


def test_nobody_listens():
    made = ObjectStore("runs", "", "http://127.0.0.1:9", CREDENTIALS)
    assert reason(made.list, "", 10) == "silent"


def test_without_a_key_it_is_said_where_to_put_one(endpoint, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PortError, match="AWS_ACCESS_KEY_ID") as refused:
        ObjectStore("runs", "", endpoint).list("", 10)
    assert refused.value.reason == "denied"


def test_a_checkpoint_is_judged_by_ranged_reads(put, store):
    put("run/step-7/.metadata", makers.distributed(400))
    put("run/step-7/__0_0.distcp", bytes(400))
    put("run/step-7/__1_0.distcp", bytes(400))
    put("run/step-9/__0_0.distcp", bytes(400))
    survey = Survey(store(), "run")
    (shelf,) = survey.shelves()
    assert {c.step: c.state for c in shelf.checkpoints} == {7: State.COMPLETE, 9: State.IN_PROGRESS}
    assert shelf.newest.step == 7
    survey.shelves()
    assert survey.read_bytes == 0


def test_a_copied_orbax_directory_without_its_commit_file_is_not_complete(put, store):
    """google/orbax #394: where there is no rename, a final name proves nothing."""
    put("run/100/state/_METADATA", b'{"tree_metadata": {}}')
    put("run/100/state/manifest.ocdbt", b"x")
    (shelf,) = Survey(store(), "run").shelves()
    assert shelf.checkpoints[0].state is State.IN_PROGRESS
    put("run/100/commit_success.txt", b"")
    assert Survey(store(), "run").shelves()[0].checkpoints[0].state is State.COMPLETE


def test_the_command_takes_an_address(put, bucket, endpoint, monkeypatch, capsys):
    """With endpoint and credentials from where the AWS tools look for them."""
    for name, value in (("ENDPOINT_URL", endpoint), ("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(f"AWS_{name}", value)
    put("run/full.pt", makers.archive())
    call_command("checkpoint", f"s3://{bucket}/run")
    assert "newest complete: step 1234, run/full.pt" in capsys.readouterr().out
    call_command("checkpoint", f"s3://{bucket}/run/full.pt", "--deep")
    assert "run/full.pt: complete" in capsys.readouterr().out
    for address, code in ((f"s3://{bucket}/nothing", 2), ("s3://", 2)):
        with pytest.raises(SystemExit) as left:
            call_command("checkpoint", address)
        assert left.value.code == code
