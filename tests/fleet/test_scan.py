"""The scan: from what pods declare and what trainers write to the ledger, the picture and the attention list, with real files."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet import save_records
from fleet.adapters.checkpoints_files import FileStore
from fleet.discovery import BELIEVED_S, Discovery, candidates, life
from fleet.domain import picture
from fleet.domain.checkpoints import State
from fleet.domain.freshness import Report
from fleet.domain.grants import CheckpointRules, Grant
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Changed, Job, Kind, Listed, Pod
from fleet.domain.picture import PodRow, WorkloadRow
from fleet.domain.policies import Policy
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import Life, Record, Source
from fleet.live import MemorySaves
from fleet.models import CheckpointSeen
from fleet.ports import PortError
from fleet.save_records import Remembered
from fleet.scan import DeepChecks, Scanner
from fleet.stores import Stores
from tests.domain import checkpoint_makers as makers
from tests.domain import cluster

MINUTE = 60.0
CLAIM = {"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}
SAVES = {"vigie.dev/checkpoint-uri": "/ckpt/llm", "vigie.dev/checkpoint-interval": "10m"}


class Going:
    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        return False


class Trained:
    """A cluster in which one Job trains, as the API server tells the watcher and whoever reads a pod in full. Time is ours."""

    def __init__(self, shelf: Path) -> None:
        self.shelf, self.now = shelf, cluster.EPOCH_AT
        self.inventory = Inventory()
        for kind in Kind:
            self.inventory.apply(Listed(kind, (), "1"))
        self.full: dict[str, FullPod] = {}
        self.reads = 0
        self.refuses = False
        self.version = 1

    def run(
        self, name: str = "llm", annotations: dict[str, str] | None = None, suspended: bool = False, **more: Any
    ) -> None:
        """The Job and its one pod, as they are from now on."""
        self.version += 1
        of_version = {"resourceVersion": str(self.version)}
        job = {
            "metadata": cluster.meta(name, "ml", **of_version),
            "spec": {"parallelism": 1, "completions": 1, "suspend": suspended},
            "status": {"active": int(not suspended)},
        }
        mounted = cluster.container(8, "trainer", volumeMounts=[{"name": "ckpt", "mountPath": "/ckpt"}])
        made = cluster.pod(
            f"{name}-0",
            "n1",
            8,
            namespace="ml",
            ownerReferences=cluster.owned_by("Job", name),
            annotations=SAVES if annotations is None else annotations,
            spec={"containers": [mounted], "volumes": [CLAIM]},
            **of_version,
            **more,
        )
        self.full[f"ml/{name}-0"] = msgspec.convert(made, FullPod)
        for kind, found in ((Kind.JOB, msgspec.convert(job, Job)), (Kind.POD, msgspec.convert(made, Pod))):
            self.inventory.apply(Changed(kind, found, str(self.version)))

    # fleet.ports.Changer, what discovery asks of it

    def read_pod(self, namespace: str, name: str) -> FullPod | None:
        self.reads += 1
        if self.refuses:
            raise PortError("no", retryable=False, status=403)
        return self.full.get(f"{namespace}/{name}")

    def read_claims(self) -> tuple[Claim, ...]:
        made = {
            "metadata": {"name": "ckpt", "namespace": "ml"},
            "spec": {"volumeName": "pv", "accessModes": ["ReadWriteMany"]},
        }
        return (msgspec.convert(made, Claim),)

    def read_storage(self) -> tuple[Storage, ...]:
        return (msgspec.convert({"metadata": {"name": "pv"}}, Storage),)

    def read_services(self) -> tuple[Any, ...]:
        return ()

    # The trainer

    def write(self, step: int, *names: str, part: float = 1.0) -> None:
        folder = self.shelf / "llm" / f"step-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        whole = {".metadata": makers.distributed(400), "__0_0.distcp": bytes(400), "__1_0.distcp": bytes(400)}
        for name in names or whole:
            content = whole[name]
            (folder / name).write_bytes(content[: int(len(content) * part)])
            os.utime(folder / name, (self.now, self.now))

    def save(self, step: int, takes_s: float = 20.0) -> None:
        """One save that ends now."""
        self.now -= takes_s
        self.write(step, "__0_0.distcp", "__1_0.distcp")
        self.now += takes_s
        self.write(step, ".metadata")


@pytest.fixture
def trained(tmp_path):
    (tmp_path / "claim").mkdir()
    return Trained(tmp_path / "claim")


class Vigie:
    """The scan and the writer's side of it."""

    def __init__(self, trained: Trained, policy: Policy) -> None:
        self.trained, self.live, self.past = (
            trained,
            MemorySaves(lambda: trained.now),
            Remembered("lab", lambda: trained.now),
        )
        self.stores = Stores(policy.store, lambda grant: FileStore(Path(grant.path)), self.past)
        self.discovery = Discovery("lab", trained, policy)
        self.scanner = Scanner("lab", self.discovery, self.stores, self.past, self.live, lambda: trained.now)

    def scan(self) -> Any:
        """A round, and what the picture shows after it."""
        self.scanner.round(self.trained.inventory.snapshot(), Going())
        self.trained.inventory.saves.put(self.live.scan("lab").rows)
        return self.trained.inventory.snapshot().checkpoints.get("Job/ml/llm")

    def concerns(self) -> list[str]:
        return sorted(
            row.kind for row in self.trained.inventory.snapshot().attention.values() if "checkpoint" in row.kind
        )


@pytest.fixture
def policy(trained):
    return Policy(store=(Grant("ml", claim="ckpt", path=str(trained.shelf)),))


@pytest.fixture
def vigie(trained, policy):
    return Vigie(trained, policy)


@pytest.mark.db
@pytest.mark.django_db
def test_a_trainer_saves_falls_behind_dies_in_mid_save_and_comes_back(trained, vigie):
    trained.run()
    trained.now += 5 * MINUTE
    assert vigie.scan().standing == "starting"
    assert vigie.concerns() == []

    trained.save(100)
    row = vigie.scan()
    assert (row.standing, row.newest_step, row.durability, row.source) == ("fresh", 100, "durable", "annotation")
    assert row.newest_uri == "pvc://ml/ckpt/llm/step-100"

    for step in (200, 300):
        trained.now += 10 * MINUTE
        trained.save(step)
        vigie.scan()
    trained.now += 5 * MINUTE
    row = vigie.scan()
    assert (row.standing, row.save_cost_s, row.newest_step) == ("fresh", 20.0, 300)

    trained.now += 6 * MINUTE
    trained.write(400, "__0_0.distcp")  # and it is killed here
    row = vigie.scan()
    assert (row.standing, row.newest_step, row.saving_step, row.saving_bytes) == ("late", 300, 400, 400)
    assert vigie.concerns() == []

    trained.now += 3 * MINUTE
    assert (vigie.scan().standing, vigie.concerns()) == ("stale", ["checkpoint-stale"])
    trained.now += 9 * MINUTE
    row = vigie.scan()
    assert (row.standing, row.abandoned, row.abandoned_bytes, row.saving_bytes) == ("critical", 1, 400, None)
    assert vigie.concerns() == ["checkpoint-critical"]

    trained.save(400)
    row = vigie.scan()
    assert (row.standing, row.newest_step, row.abandoned) == ("fresh", 400, 0)
    assert vigie.concerns() == []
    found = CheckpointSeen.objects.order_by("pk").values_list("step", "state")
    assert list(found) == [(n, "complete") for n in (100, 200, 300)] + [(400, "abandoned"), (400, "complete")]


@pytest.mark.db
@pytest.mark.django_db
def test_a_newest_one_that_contradicts_itself_is_told_and_the_older_one_counts(trained, vigie):
    trained.run()
    trained.now += 20 * MINUTE
    trained.save(100)
    trained.write(200, part=1.0)
    trained.write(200, "__1_0.distcp", part=0.5)
    row = vigie.scan()
    assert (row.standing, row.newest_step, row.broken_step, row.broken_state) == ("fresh", 100, 200, "corrupt")
    assert vigie.concerns() == ["checkpoint-corrupt"]


@pytest.mark.db
@pytest.mark.django_db
def test_a_process_that_comes_anew_writes_nothing_twice(trained, vigie, policy):
    trained.run()
    trained.save(100)
    vigie.scan()
    again = Vigie(trained, policy)
    again.scan()
    assert CheckpointSeen.objects.count() == 1
    assert [save.duration_s for save in save_records.last_saves("lab", "Job/ml/llm")] == [20.0]


@pytest.mark.db
@pytest.mark.django_db
def test_the_time_of_a_save_counts_from_when_it_was_first_seen(trained, vigie):
    """A file that is written on and on has the time of its last byte alone."""
    trained.run()
    trained.write(100, "__0_0.distcp", part=0.5)
    vigie.scan()
    trained.now += 45.0
    trained.write(100)
    vigie.scan()
    assert [save.duration_s for save in save_records.last_saves("lab", "Job/ml/llm")] == [45.0]


@pytest.mark.db
@pytest.mark.django_db
def test_a_store_whose_clock_was_ahead_makes_nothing_younger_than_it_was_seen(trained, vigie, policy):
    trained.run()
    trained.now += 7 * MINUTE
    trained.save(100)
    trained.now -= 7 * MINUTE
    assert vigie.scan().skew_s == 420.0
    trained.now += 9 * MINUTE
    for each in (vigie, Vigie(trained, policy)):
        row = each.scan()
        assert (row.skew_s, row.standing) == (420.0, "fresh")
        assert each.concerns() == ["checkpoint-skew"]
    trained.now += 3 * MINUTE
    assert vigie.scan().standing == "stale", "it is twelve minutes old at least"
    trained.save(200)
    assert vigie.scan().skew_s == 0


@pytest.mark.db
@pytest.mark.django_db
def test_where_nobody_may_look_and_where_nobody_says(trained, vigie):
    trained.run(annotations={"vigie.dev/checkpoint-uri": "s3://runs/llm"})
    trained.now += 60 * MINUTE
    assert vigie.scan().standing == "not-granted"
    assert vigie.concerns() == ["checkpoint-not-granted"]
    save_records.report("lab", "Job/ml/llm", Report(trained.now - 30, 5, received_at=trained.now - 29), "token llm")
    vigie.past.forget("Job/ml/llm")
    row = vigie.scan()
    assert (row.standing, row.reported_step, row.newest_step) == ("reported", 5, None)
    assert vigie.concerns() == []
    trained.run(annotations={}, uid="another")
    assert vigie.scan().source == "none"
    save_records.note("lab", "Job/ml/llm", Record("/ckpt/llm", interval_s=600.0), "olga", trained.now)
    trained.save(7)
    row = vigie.scan()
    assert (row.standing, row.source, row.newest_step, row.target_s) == ("fresh", "record", 7, 600.0)
    save_records.note("lab", "Job/ml/llm", Record(), "olga", trained.now + 1)
    assert vigie.scan().source == "none"


@pytest.mark.db
@pytest.mark.django_db
def test_a_suspended_job_rests_and_one_that_is_gone_is_forgotten(trained, vigie):
    trained.run()
    trained.save(100)
    vigie.scan()
    trained.now += 60 * MINUTE
    trained.run(suspended=True)
    assert vigie.scan().standing == "resting"
    assert vigie.concerns() == []
    for kind in (Kind.POD, Kind.JOB):
        trained.inventory.apply(Listed(kind, (), "99"))
    assert vigie.scan() is None


@pytest.mark.db
@pytest.mark.django_db
def test_when_nobody_scans_no_good_standing_holds(trained, vigie):
    trained.run()
    trained.save(100)
    vigie.scan()
    trained.inventory.saves.trust(False)
    shown = trained.inventory.snapshot().checkpoints["Job/ml/llm"]
    assert (shown.standing, shown.trouble, shown.newest_step) == ("unknown", "no-scan", 100)
    trained.inventory.saves.trust(True)
    assert trained.inventory.snapshot().checkpoints["Job/ml/llm"].standing == "fresh"


@pytest.mark.django_db
def test_a_deep_check_tells_how_far_it_is_and_what_it_found(trained, vigie):
    trained.run()
    (trained.shelf / "llm").mkdir()
    bad = makers.archive(makers.FULL).replace(bytes(64), b"\x07" * 64, 1)
    (trained.shelf / "llm" / "step_1.pt").write_bytes(bad)
    vigie.scan()
    checks = DeepChecks("lab", vigie.stores, vigie.live, lambda: trained.now)
    done = checks.run("Job/ml/llm", "llm/step_1.pt", "olga", Going())
    assert (done.state, done.result.state, done.asked_by) == ("done", State.CORRUPT, "olga")
    assert vigie.live.checks("lab")[done.key] == done
    assert checks.run("Job/ml/llm", "llm/none.pt", "olga", Going()).error == "gone"
    assert checks.run("Job/ml/other", "x", "olga", Going()).error == "gone"


# Discovery


def test_a_pod_is_read_once_and_again_when_it_is_another_one_or_too_long_ago(trained, policy):
    discovery = Discovery("lab", trained, policy)
    trained.run()

    def found() -> dict:
        return discovery.trainings(trained.inventory.snapshot(), {}, trained.now)

    assert found()["Job/ml/llm"].uri == "pvc://ml/ckpt/llm"
    found()
    assert trained.reads == 1
    trained.run(uid="another")
    found()
    assert trained.reads == 2
    trained.now += BELIEVED_S + 1
    trained.refuses = True
    assert "Job/ml/llm" in found(), "what was read last holds while nothing can be read"
    assert trained.reads == 3


def test_what_policy_trusts_is_marked_and_servers_are_left_out(trained):
    policy = Policy(checkpoints=CheckpointRules(reported=("Job/ml/llm",)))
    trained.run(annotations={})
    trained.run("web", annotations={"vigie.dev/role": "serving"})
    found = Discovery("lab", trained, policy).trainings(trained.inventory.snapshot(), {}, trained.now)
    assert {key: (each.source, each.durability.value) for key, each in found.items()} == {
        "Job/ml/llm": (Source.NONE, "reported")
    }


@pytest.mark.parametrize(
    ("row", "status", "expected"),
    [
        (WorkloadRow("Job", "ml", "x", desired=1), "Running", Life.ACTIVE),
        (WorkloadRow("Job", "ml", "x", desired=1), "CrashLoopBackOff", Life.ACTIVE),
        (WorkloadRow("Job", "ml", "x", desired=0), "Completed", Life.FINISHED),
        (WorkloadRow("Job", "ml", "x", desired=0, paused=True), "Running", Life.SUSPENDED),
        (WorkloadRow("StatefulSet", "ml", "x", desired=0), "Running", Life.SUSPENDED),
        (WorkloadRow("PyTorchJob", "ml", "x"), "Completed", Life.FINISHED),
        (None, "Completed", Life.FINISHED),
        (None, "Running", Life.ACTIVE),
    ],
)
def test_whether_anything_is_due(row, status, expected):
    assert life(row, [PodRow("u", "ml", "x-0", "n1", status)]) is expected


def test_who_might_train():
    pods = {
        "ml/b": PodRow("1", "ml", "b", "n1", "Running", gpus=1, workload="Job/ml/x"),
        "ml/a": PodRow("2", "ml", "a", "n1", "Completed", gpus=1, workload="Job/ml/x"),
        "ml/c": PodRow("3", "ml", "c", "", "Pending", gpus=1, workload="Job/ml/x"),
        "ml/solo": PodRow("4", "ml", "solo", "n1", "Running", gpus=1),
        "ml/cpu": PodRow("5", "ml", "cpu", "n1", "Running"),
        "ml/tuner": PodRow("8", "ml", "tuner", "n1", "Running", saves=True),
        "ml/master": PodRow("6", "ml", "master", "n1", "Running", workload="PyTorchJob/ml/y", owner_kind="PyTorchJob"),
        "sys/d": PodRow("7", "sys", "d", "n1", "Running", gpus=1, daemon=True, workload="DaemonSet/sys/d"),
    }
    found = candidates(msgspec.structs.replace(picture.EMPTY, pods=pods))
    assert {key: [row.name for row in rows] for key, rows in found.items()} == {
        "Job/ml/x": ["b", "c", "a"],
        "Pod/ml/solo": ["solo"],
        "Pod/ml/tuner": ["tuner"],
        "PyTorchJob/ml/y": ["master"],
    }


# The ledger


@pytest.mark.db
@pytest.mark.django_db
def test_what_is_remembered_and_what_is_too_old_goes(trained, vigie):
    trained.run()
    for step in (1, 2, 3):
        trained.save(step)
        vigie.scan()
        trained.now += 10 * MINUTE
    first = cluster.EPOCH_AT
    times = [save.at for save in save_records.saves("lab", "Job/ml/llm", since=first, until=first + 20 * MINUTE)]
    assert times == [first, first + 10 * MINUTE]
    assert save_records.workloads("lab") == ["Job/ml/llm"]
    assert vigie.past.usual("Job/ml/llm").interval_s == 600.0
    assert save_records.saves("other", "Job/ml/llm", since=0, until=1e12) == []
    save_records.report("lab", "Job/ml/llm", Report(first, 1, received_at=first), "t")
    save_records.note("lab", "Job/ml/llm", Record("/x"), "olga", first)
    assert save_records.prune(first + save_records.KEPT_S + 1) == 2, "one that was seen, one report"
    assert len(save_records.last_saves("lab", "Job/ml/llm")) == 2
    assert save_records.notes("lab") == {"Job/ml/llm": Record("/x")}


@pytest.mark.db
@pytest.mark.django_db
def test_odd_names_can_be_written_down(trained, vigie):
    save_records.report("lab", "Job/ml/llm", Report(1.0, None, 10**15, None, "a\0b", 2.0), "token")
    assert save_records.last_report("lab", "Job/ml/llm") == Report(1.0, None, 10**15, None, "a\ufffdb", 2.0)
