"""Stores: what policy grants is read and nothing else is touched, on files and on S3, fresh and within bounds."""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from fleet import wiring
from fleet.adapters.checkpoints_files import FileStore
from fleet.adapters.checkpoints_s3 import ObjectStore
from fleet.domain.checkpoints import Checkpoint, State
from fleet.domain.freshness import Report, Standing
from fleet.domain.grants import Grant
from fleet.domain.save_history import Usual
from fleet.domain.training import Training
from fleet.ports import PortError
from fleet.stores import Stores
from tests.domain import checkpoint_makers as makers

NOW = makers.NOON


class Opened:
    """Opens stores, and remembers which."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []

    def __call__(self, grant: Grant):
        self.grants.append(grant)
        return FileStore(Path(grant.path))


class Past:
    """A workload that has saved before, or has reported."""

    def __init__(self, usual: Usual = Usual(), report: Report | None = None) -> None:  # noqa: B008
        self._usual, self._report = usual, report

    def usual(self, _workload):
        return self._usual

    def report(self, _workload):
        return self._report

    def first_seen(self, _workload, _wanted):
        return {}


def save(root: Path, step: int, at: float = NOW - 60) -> Path:
    folder = root / f"step-{step}"
    folder.mkdir(parents=True)
    for name, content in (
        (".metadata", makers.distributed(400)),
        ("__0_0.distcp", bytes(400)),
        ("__1_0.distcp", bytes(400)),
    ):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (at, at))
    return folder


def training(uri: str, namespace: str = "ml", **more) -> Training:
    return Training(f"Job/{namespace}/llm", namespace, uri, interval_s=600.0, started_at=NOW - 9_000, **more)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "claim").mkdir()
    return tmp_path / "claim"


@pytest.fixture
def opened():
    return Opened()


@pytest.fixture
def stores(root, opened):
    return Stores([Grant("ml", claim="ckpt", path=str(root))], opened)


def look(stores, uri, **more):
    return stores.look(training(uri, **more), NOW, fresh=True)


def test_a_granted_claim_is_read(root, stores):
    save(root / "llm", 100)
    save(root / "other", 900)
    found = look(stores, "pvc://ml/ckpt/llm")
    assert (found.standing, found.newest.step, found.newest.uri) == (Standing.FRESH, 100, "pvc://ml/ckpt/llm/step-100")
    save(root / "llm", 200)
    assert stores.look(training("pvc://ml/ckpt/llm"), NOW, fresh=False).newest.step == 200


def test_a_declared_link_is_the_directory_that_it_leads_to(root, stores):
    save(root / "runs" / "7", 100)
    (root / "llm").symlink_to("runs/7")
    found = look(stores, "pvc://ml/ckpt/llm", pods=4)
    assert (found.newest.uri, found.below, found.shared) == ("pvc://ml/ckpt/llm/step-100", False, False)


def test_one_file_is_its_own_place(root, stores):
    (root / "last.pt").write_bytes(makers.archive(makers.FULL))
    found = look(stores, "pvc://ml/ckpt/last.pt", pods=4)
    assert (found.newest.uri, found.below) == ("pvc://ml/ckpt/last.pt", False)


@pytest.mark.parametrize(
    ("uri", "namespace", "standing", "trouble"),
    [
        ("pvc://ml/other/llm", "ml", Standing.NOT_GRANTED, "not-granted"),
        ("pvc://ml/ckpt/llm", "rl", Standing.NOT_GRANTED, "not-granted"),
        ("pvc://ml/ckpt/../../etc", "ml", Standing.NOT_GRANTED, "not-granted"),
        ("s3://runs/llm", "ml", Standing.NOT_GRANTED, "not-granted"),
        ("file:///etc", "ml", Standing.NOT_GRANTED, "not-granted"),
        ("pod://scratch/llm", "ml", Standing.UNKNOWN, "local"),
        ("host:///data", "ml", Standing.UNKNOWN, "local"),
        ("", "ml", Standing.UNKNOWN, "no-place"),
    ],
)
def test_what_is_not_granted_is_never_tried(stores, opened, uri, namespace, standing, trouble):
    found = look(stores, uri, namespace=namespace)
    assert (found.standing, found.trouble, found.read) == (standing, trouble, False)
    with pytest.raises(PortError):
        list(stores.deep(training(uri, namespace), "step-1"))
    assert opened.grants == []


def test_no_link_leads_out_of_the_store(root, stores, tmp_path):
    """Neither the run's directory, nor a checkpoint, nor a file of one."""
    outside = tmp_path / "outside"
    save(outside, 900)
    (root / "llm").symlink_to(outside)
    found = look(stores, "pvc://ml/ckpt/llm")
    assert (found.standing, found.trouble, found.newest) == (Standing.UNREADABLE, "outside", None)
    assert look(stores, "pvc://ml/ckpt/llm/step-900").newest is None
    inner = save(root / "run", 100)
    (root / "run" / "step-800").symlink_to(outside / "step-900")
    (inner / "__0_0.distcp").unlink()
    (inner / "__0_0.distcp").symlink_to(outside / "step-900" / "__0_0.distcp")
    found = look(stores, "pvc://ml/ckpt/run")
    assert found.newest is None
    assert [each.step for each in found.checkpoints] == [100]


def test_a_link_to_another_run_of_the_store_is_followed(root, stores):
    save(root / "run-7", 100)
    (root / "current").symlink_to("run-7")
    found = look(stores, "pvc://ml/ckpt/current")
    assert (found.newest.step, found.newest.uri) == (100, "pvc://ml/ckpt/current/step-100")


def test_a_run_that_has_not_saved_has_nothing_and_one_that_has_lost_it_cannot_be_read(root, stores, opened):
    assert look(stores, "pvc://ml/ckpt/llm").standing is Standing.NONE
    before = Stores([Grant("ml", claim="ckpt", path=str(root))], opened, Past(Usual(saves=3)))
    found = look(before, "pvc://ml/ckpt/llm")
    assert (found.standing, found.trouble) == (Standing.UNREADABLE, "gone"), "somebody has unmounted it, or worse"
    unmounted = Stores([Grant("ml", claim="ckpt", path=str(root / "missing"))], opened)
    assert (look(unmounted, "pvc://ml/ckpt").standing, look(unmounted, "pvc://ml/ckpt").trouble) == (
        Standing.UNREADABLE,
        "gone",
    )


def test_a_report_stands_in_where_nothing_can_be_read_and_nowhere_else(root, opened):
    report = Report(NOW - 30, 777, received_at=NOW - 29)
    stores = Stores([Grant("ml", claim="ckpt", path=str(root))], opened, Past(report=report))
    found = look(stores, "gs://elsewhere/llm")
    assert (found.standing, found.report, found.newest) == (Standing.REPORTED, report, None)
    save(root / "llm", 5, NOW - 9_000)
    found = look(stores, "pvc://ml/ckpt/llm")
    assert (found.standing, found.newest.step, found.report) == (Standing.CRITICAL, 5, report)


class Hanging:
    """A mount that answers when it is let go."""

    name = "nfs"

    def __init__(self, root: Path) -> None:
        self.let_go = threading.Event()
        self.hangs = True
        self.calls = 0
        self._store = FileStore(root)

    def list(self, path, most):
        self.calls += 1
        if self.hangs:
            self.let_go.wait(30)
        return self._store.list(path, most)

    def read(self, file, offset, length):
        return self._store.read(file, offset, length)


def test_a_store_that_hangs_holds_nobody_up_and_is_not_asked_again_by_the_scan(root):
    save(root / "llm", 100)
    nfs = Hanging(root)
    stores = Stores([Grant("ml", claim="ckpt", path="/mnt")], lambda _: nfs)
    llm, other = training("pvc://ml/ckpt/llm"), training("pvc://ml/ckpt/other")
    try:
        found = stores.look(llm, NOW, fresh=True, within_s=0.05)
        assert (found.standing, found.trouble) == (Standing.UNREADABLE, "silent")
        assert stores.look(other, NOW, fresh=False, within_s=30).trouble == "silent", "at once"
        assert nfs.calls == 1
        assert stores.look(llm, NOW, fresh=True, within_s=0.05).trouble == "silent", "one call at a time"
        assert nfs.calls == 1
    finally:
        nfs.hangs = False
        nfs.let_go.set()
    assert stores.look(llm, NOW, fresh=True, within_s=30).newest.step == 100
    assert stores.look(other, NOW, fresh=False, within_s=30).standing is Standing.NONE


def test_a_fresh_look_begins_after_it_was_asked_for(root):
    """Also while another one goes on, which may have listed before."""
    nfs = Hanging(root)
    stores = Stores([Grant("ml", claim="ckpt", path="/mnt")], lambda _: nfs)
    llm = training("pvc://ml/ckpt/llm")
    scan = threading.Thread(target=stores.look, args=(llm, NOW), kwargs={"fresh": False, "within_s": 30}, daemon=True)
    scan.start()
    while not nfs.calls:
        time.sleep(0.001)
    save(root / "llm", 100)
    threading.Timer(0.05, nfs.let_go.set).start()
    assert stores.look(llm, NOW, fresh=True, within_s=30).newest.step == 100
    assert nfs.calls == 2
    scan.join(30)


def test_a_deep_check_of_a_granted_store(root, stores):
    folder = root / "llm"
    folder.mkdir()
    whole = makers.archive(makers.FULL)
    (folder / "step_1.pt").write_bytes(whole)
    (folder / "step_2.pt").write_bytes(whole.replace(bytes(64), b"\x07" * 64, 1))
    llm = training("pvc://ml/ckpt/llm")
    ends = [[*stores.deep(llm, f"llm/step_{n}.pt")][-1] for n in (1, 2)]
    assert [(isinstance(end, Checkpoint), end.state) for end in ends] == [(True, State.COMPLETE), (True, State.CORRUPT)]
    with pytest.raises(PortError, match="no such checkpoint"):
        list(stores.deep(llm, "llm/step_3.pt"))


# S3


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket():
    name = f"runs-{uuid.uuid4().hex[:8]}"
    s3_backends[ACCOUNT]["aws"].create_bucket(name, "us-east-1")
    return name


def put(bucket: str, path: str, content: bytes) -> None:
    s3_backends[ACCOUNT]["aws"].put_object(bucket, path, content)


def test_a_granted_prefix_of_a_bucket_is_read_and_what_is_beside_it_is_not(endpoint, bucket):
    for prefix, step in (("ml/llm", 100), ("mlx/llm", 900)):
        for name, content in (
            (".metadata", makers.distributed(400)),
            ("__0_0.distcp", bytes(400)),
            ("__1_0.distcp", bytes(400)),
        ):
            put(bucket, f"{prefix}/step-{step}/{name}", content)
    grant = Grant("ml", bucket=f"s3://{bucket}/ml", endpoint=endpoint, credential="team")
    stores = Stores([grant], lambda found: ObjectStore(*found.where, found.endpoint, ("AKIDEXAMPLE", "not-a-secret")))
    found = stores.look(training(f"s3://{bucket}/ml/llm"), time.time(), fresh=True, within_s=30)
    assert (found.standing, found.newest.step) == (Standing.FRESH, 100)
    assert stores.look(training(f"s3://{bucket}/mlx/llm"), NOW, fresh=True).trouble == "not-granted"
    found = stores.look(training(f"s3://{bucket}/ml/new"), NOW, fresh=True, within_s=30)
    assert (found.standing, found.newest) == (Standing.NONE, None)


def test_keys_come_from_their_own_file_by_name(tmp_path, settings, endpoint, bucket, forget_wiring):
    keys, policy = tmp_path / "keys.toml", tmp_path / "policy.toml"
    policy.write_text(
        f'[[store]]\nnamespace = "ml"\nbucket = "s3://{bucket}"\nendpoint = "{endpoint}"\ncredential = "team"\n'
    )
    settings.VIGIE_POLICIES, settings.VIGIE_CREDENTIALS = str(policy), str(keys)
    keys.write_text('[other]\naccess_key = "a"\nsecret_key = "not-a-secret"\n')
    with pytest.raises(ImproperlyConfigured, match="no entry team"):
        wiring.stores("lab")
    wiring.credentials.cache_clear()
    keys.write_text("team = 'not-a-secret'\n")
    with pytest.raises(ImproperlyConfigured) as caught:
        wiring.credentials()
    assert "not-a-secret" not in str(caught.value)
    keys.write_text('[team]\naccess_key = "a"\nsecret_key = "not-a-secret"\n')
    assert wiring.credentials() == {"team": ("a", "not-a-secret")}


@pytest.fixture
def forget_wiring(settings, monkeypatch):
    """A process that has read no settings yet."""
    monkeypatch.setattr(wiring, "sites", lambda: ["lab"])
    cached = (wiring.policies, wiring.credentials, wiring.stores, wiring.remembered)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()
