"""Trainers that save: what is in the store is judged by Vigie's own eyes, what they say over HTTP and by exec by real clients."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from kubernetes import client, config
from kubernetes.stream import stream
from moto.server import ThreadedMotoServer

from fleet.adapters.checkpoints_files import FileStore
from fleet.adapters.checkpoints_s3 import ObjectStore
from fleet.domain.checkpoint_shelves import Shelf
from fleet.domain.checkpoints import Components, Presence, State
from fleet.saves import Survey
from fleet.simulation.bound_volumes import bind
from fleet.simulation.checkpoint_layouts import LAYOUTS
from fleet.simulation.checkpoint_places import MOST_REAL, Kind, Place, Places, Real, Remembered
from fleet.simulation.clock import ManualClock, RealClock
from fleet.simulation.programs import Call, Container
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.trainers import Trainer
from fleet.simulation.training_manifests import share
from fleet.simulation.training_runs import KEPT
from fleet.simulation.trainings import Trainings
from tests.simulation.cluster import Cluster
from tests.simulation.kubectl import Kubectl
from tests.simulation.kubectl import marks as kubectl_marks

Object = dict[str, Any]

STEP_S, EVERY, SAVE_S = 2.0, 50, 20.0
CLAIMED: Object = {"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}


def trainer(kind: str = "hf-trainer", volume: Object | None = CLAIMED, **more: Any) -> Object:
    """A pod template: a step every 2 s, a save of 20 s every 50 steps."""
    notes = {"sim/checkpoint-format": kind, "sim/step-seconds": f"{STEP_S}", "sim/save-seconds": f"{SAVE_S}"}
    container: Object = {
        "name": "main",
        "image": "sim.io/trainer:v1",
        "args": ["train.py", "--checkpoint-dir", "/ckpt/run", f"--checkpoint-every={EVERY}"],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        **more,
    }
    volumes = [volume] if volume else []
    container["volumeMounts"] = [{"name": v["name"], "mountPath": "/ckpt"} for v in volumes]
    return {
        "metadata": {"labels": {"app": "run"}, "annotations": notes},
        "spec": {"containers": [container], "volumes": volumes},
    }


class Lab:
    """One training, "test/run", on a manual clock; its claim is a folder."""

    def __init__(self, home: Path, template: Object, ranks: int = 1) -> None:
        self.cluster = Cluster()
        self.cluster.nodes(2)
        found = self.cluster.machinery.controllers[Trainings]
        assert isinstance(found, Trainings)
        self.trainings = found
        bind(self.cluster.store, share("test", "ckpt"), "test")
        self.trainings.open(home)
        self.claim = home / "claims" / "test" / "ckpt"
        spec = {
            "replicas": ranks,
            "serviceName": "run",
            "selector": {"matchLabels": {"app": "run"}},
            "template": template,
        }
        made = {"metadata": {"name": "run", "namespace": "test"}, "spec": spec}
        self.cluster.store.create("statefulsets", made, manager="test")
        self.began_at = 0.0

    async def __aenter__(self) -> "Lab":
        await self.cluster.__aenter__()
        while not (training := self.trainings.of(self.pod())) or training.run is None:
            await self.cluster.run(0.5)
        self.began_at = training.run.began_at
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cluster.__aexit__(*exc)

    def pod(self, rank: int = 0) -> Object:
        found = [p for p in self.cluster.pods() if p["metadata"]["name"] == f"run-{rank}"]
        return found[0] if found else {"metadata": {"name": "none", "namespace": "test"}}

    async def until(self, after_s: float) -> None:
        """So long after its first start."""
        await self.cluster.run(self.began_at + after_s - self.cluster.clock.now())

    async def kill(self, rank: int = 0) -> None:
        """And wait until all ranks train again."""
        self.cluster.store.delete("pods", "test", f"run-{rank}")
        await self.cluster.run(1.0)
        training = self.trainings.of(self.pod(1 - rank) if rank else self.pod())
        while training is None or training.run is None:
            await self.cluster.run(1.0)
            training = self.trainings.of(self.pod())

    def container(self, rank: int = 0) -> Container:
        pod = self.pod(rank)
        return Container(pod, pod["spec"]["containers"][0], self.began_at, self.cluster.clock.now())

    async def ask(self, method: str, path: str, rank: int = 0) -> tuple[int, Any]:
        answer = await Trainer(self.trainings).http(self.container(rank), 8000, Call(method, path))
        assert answer is not None
        return answer.status, answer.body.decode() if path == "/metrics" else json.loads(answer.body)

    async def measure(self, name: str) -> float:
        _, text = await self.ask("GET", "/metrics")
        found = re.search(rf'^training_{name}{{run="run"}} (\S+)$', text, re.MULTILINE)
        assert found, text
        return float(found[1])

    def shelf(self) -> Shelf:
        """What is in the store, as it looks now."""
        (found,) = Survey(FileStore(self.claim), "run", now=self.cluster.clock.now).shelves()
        return found

    def steps(self, state: State = State.COMPLETE) -> list[int | None]:
        return [each.step for each in self.shelf().of(state)]


YES, NO = Presence.PRESENT, Presence.ABSENT
ALL = Components(YES, YES, YES, YES, YES)
WITHOUT_RNG = Components(YES, YES, YES, YES, NO)
HELD = {**dict.fromkeys(LAYOUTS, ALL), "lightning": WITHOUT_RNG, "torchtitan": WITHOUT_RNG}


@pytest.mark.parametrize("kind", LAYOUTS)
async def test_what_it_saves_is_whole_in_every_format_and_unfinished_until_then(tmp_path: Path, kind: str) -> None:
    async with Lab(tmp_path, trainer(kind), ranks=2) as lab:
        await lab.until(EVERY * STEP_S + 0.6 * SAVE_S)
        assert kind == "lightning" or (lab.steps(), lab.steps(State.IN_PROGRESS)) == ([], [EVERY])
        await lab.until(EVERY * STEP_S + SAVE_S + 0.5)
        found = lab.shelf()
        assert found.newest is not None
        assert (found.newest.step, found.newest.format.value, found.newest.components) == (EVERY, kind, HELD[kind])
        assert found.newest_resumable is found.newest
        assert found.newest.committed_at == pytest.approx(lab.began_at + EVERY * STEP_S + SAVE_S, abs=SAVE_S / 2)
        assert (found.conflicts, found.newest.notes) == ((), ())


async def test_it_keeps_the_newest_and_its_metrics_and_log_tell_of_them(tmp_path: Path) -> None:
    async with Lab(tmp_path, trainer()) as lab:
        await lab.until(6 * EVERY * STEP_S)
        assert lab.steps() == [150, 200, 250]
        assert len(lab.steps()) == KEPT
        assert await lab.measure("step") == 300
        assert await lab.measure("checkpoint_step") == 250
        assert await lab.measure("checkpoint_timestamp_seconds") == pytest.approx(lab.began_at + 520, abs=0.01)
        told = [text for _, text in Trainer(lab.trainings).log(lab.container())]
        assert told[0] == "run: starting from scratch"
        assert "saved checkpoint /ckpt/run/checkpoint-250 in 20.0 s" in told
        assert any(text.startswith("step 300 loss ") for text in told)


async def test_killed_in_a_save_it_goes_on_from_the_older_one_that_is_whole(tmp_path: Path) -> None:
    """What is lost is what had been at stake: the steps since the newest whole checkpoint, on all ranks."""
    async with Lab(tmp_path, trainer(), ranks=2) as lab:
        await lab.until(2 * EVERY * STEP_S + SAVE_S / 2)
        assert lab.steps() == [50]
        at_stake = await lab.measure("step") - 50
        assert (at_stake, lab.steps(State.IN_PROGRESS)) == (55, [100])
        await lab.kill(rank=1)
        assert (lab.steps(), lab.steps(State.IN_PROGRESS)) == ([50], [100])
        assert (await lab.measure("resumed_step"), await lab.measure("lost_steps")) == (50, at_stake)
        told = [text for _, text in Trainer(lab.trainings).log(lab.container())]
        assert "run: resuming from /ckpt/run/checkpoint-50, 55 steps are lost" in told
        await lab.cluster.run(EVERY * STEP_S + SAVE_S + 1)
        assert (lab.steps(), lab.steps(State.IN_PROGRESS)) == ([50, 100], []), "the half-written one is written anew"


async def test_a_training_stands_still_while_one_of_its_ranks_is_missing(tmp_path: Path) -> None:
    async with Lab(tmp_path, trainer(), ranks=2) as lab:
        await lab.until(60.0)
        lab.cluster.store.mutate("nodes", None, "n0", cordoned, manager="test")
        lab.cluster.store.mutate("nodes", None, "n1", cordoned, manager="test")
        lab.cluster.store.delete("pods", "test", "run-1")
        await lab.cluster.run(300.0)
        assert (await lab.measure("running"), await lab.measure("step")) == (0, 30)
        assert (await lab.ask("POST", "/checkpoint"))[0] == 503
        assert Trainer(lab.trainings).log(lab.container())[0][1] == "waiting for the other ranks"


def cordoned(draft: Object) -> None:
    draft["spec"]["unschedulable"] = True


async def test_asked_by_its_hook_it_saves_at_once(tmp_path: Path) -> None:
    async with Lab(tmp_path, trainer()) as lab:
        await lab.until(30.0)
        assert await lab.ask("POST", "/checkpoint") == (202, {"step": 15})
        await lab.cluster.run(SAVE_S / 2)
        assert lab.steps(State.IN_PROGRESS) == [15]
        assert (await lab.ask("POST", "/checkpoint"))[0] == 202, "while it saves: once more after that"
        await lab.cluster.run(SAVE_S / 2 + 0.5)
        assert lab.steps() == [15]
        await lab.cluster.run(SAVE_S + 0.5)
        assert lab.steps() == [15, 25]
        await lab.until(EVERY * STEP_S + SAVE_S + 1)
        assert lab.steps() == [15, 25, 50], "and its own rhythm goes on"


async def test_what_hears_no_hook(tmp_path: Path) -> None:
    async with Lab(tmp_path, trainer(args=["train.py"])) as lab:
        await lab.until(200.0)
        assert (await Trainer(lab.trainings).http(lab.container(), 8000, Call("POST", "/checkpoint"))).status == 404  # type: ignore[union-attr]
        assert await lab.measure("checkpoint_step") == 0
        assert not any(lab.claim.iterdir())


LOST_WITH: list[tuple[Object | None, int]] = [
    ({"name": "ckpt", "emptyDir": {}}, 0),
    (None, 0),  # the container's own file system
    ({"name": "ckpt", "hostPath": {"path": "/mnt/nvme"}}, 50),
]


@pytest.mark.parametrize(("volume", "resumed"), LOST_WITH)
async def test_what_is_saved_lives_as_long_as_what_it_is_saved_on(
    tmp_path: Path, volume: Object | None, resumed: int
) -> None:
    async with Lab(tmp_path, trainer(volume=volume)) as lab:
        await lab.until(150.0)
        assert await lab.measure("checkpoint_step") == EVERY
        lab.cluster.store.mutate("nodes", None, "n1", cordoned, manager="test")  # it comes back where it was
        await lab.kill()
        assert await lab.measure("resumed_step") == resumed
        assert not any(lab.claim.iterdir()), "nothing but claims can be seen from outside"


async def test_a_saver_that_hangs_and_a_slow_store(tmp_path: Path) -> None:
    async with Lab(tmp_path, trainer()) as lab:
        note(lab, "pods", "run-0", "sim/no-saves", "true")
        await lab.until(500.0)
        assert (await lab.ask("POST", "/checkpoint"))[0] == 202
        assert (await lab.measure("step"), await lab.measure("checkpoint_step")) == (250, 0)
        note(lab, "persistentvolumeclaims", "ckpt", "sim/slow", "10")
        note(lab, "pods", "run-0", "sim/no-saves", "false")
        await lab.until(500.0 + 9 * SAVE_S)
        assert lab.steps(State.IN_PROGRESS) == [250]
        await lab.until(500.0 + 10 * SAVE_S + 5)
        assert lab.steps() == [250]


def note(lab: Lab, plural: str, name: str, key: str, value: str) -> None:
    def annotate(draft: Object) -> None:
        draft["metadata"].setdefault("annotations", {})[key] = value

    lab.cluster.store.mutate(plural, "test", name, annotate, manager="test")


def test_only_so_many_folders_are_real_and_only_its_own_is_emptied(tmp_path: Path) -> None:
    places = Places(ManualClock())
    places.open(tmp_path)
    found = [places.folder(Place(Kind.CLAIM, "ns/claim", f"run-{n}")) for n in range(MOST_REAL + 1)]
    assert [isinstance(each, Real) for each in found] == [*[True] * MOST_REAL, False]
    assert isinstance(Places(ManualClock()).folder(Place(Kind.CLAIM, "ns/claim", "x")), Remembered)
    places.open(tmp_path)
    assert list((tmp_path / "claims").iterdir()) == [tmp_path / "claims" / ".rehearsal"]
    other = tmp_path / "other"
    (other / "claims" / "precious").mkdir(parents=True)
    with pytest.raises(ValueError, match="was not made by the rehearsal"):
        places.open(other)
    assert (other / "claims" / "precious").exists()


@pytest.mark.parametrize("kind", ["hf-trainer", "megatron-lm"])
async def test_to_a_bucket_where_an_object_store_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        lab = Lab(tmp_path, trainer(kind, args=["--checkpoint-dir", f"s3://runs-{kind}/run", "--checkpoint-every=50"]))
        host, port = server.get_host_and_port()
        lab.trainings.places.objects = f"http://{host}:{port}"
        boto3.client("s3", endpoint_url=lab.trainings.places.objects).create_bucket(Bucket=f"runs-{kind}")
        store = ObjectStore(f"runs-{kind}", "", lab.trainings.places.objects, ("AKIDEXAMPLE", "not-a-secret"))
        async with lab:
            await lab.until(EVERY * STEP_S + 0.6 * SAVE_S)
            (shelf,) = Survey(store, "run").shelves()
            assert (shelf.newest, len(shelf.of(State.IN_PROGRESS))) == (None, 1)
            await lab.until(5 * EVERY * STEP_S)
            (shelf,) = Survey(store, "run").shelves()
            assert [each.step for each in shelf.of(State.COMPLETE)] == [100, 150, 200]
            await lab.kill()
            assert await lab.measure("resumed_step") == 200
    finally:
        server.stop()


# Over the wire


def core(kubeconfig: Path) -> client.CoreV1Api:
    found = config.new_client_from_config(str(kubeconfig), context="rehearsal")  # type: ignore[no-untyped-call]
    return client.CoreV1Api(found)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The default fleet, 50 times as fast, with its claims in a folder; its home is the kubeconfig's."""
    home = tmp_path_factory.mktemp("fleet")
    with serving(Rehearsal(clock=RealClock(50.0), pace=0), home) as served:
        yield served


def wait(holds: Callable[[], Any]) -> Any:
    """What it holds, once it does."""
    for _ in range(600):
        if found := holds():
            return found
        asyncio.run(asyncio.sleep(0.05))
    return pytest.fail("it has not come to hold")


def newest(fleet: Serving, run: str) -> int:
    """By Vigie's own survey of the folder."""
    folder = fleet.kubeconfig.parent / "claims" / "training" / "checkpoints"
    shelves = Survey(FileStore(folder), run).shelves()
    return int(shelves[0].newest.step or 0) if shelves and shelves[0].newest else 0


def test_the_seeded_fleet_has_been_saving_for_long(fleet: Serving) -> None:
    for run in ("llama-sft-70b", "moe-8x7b-pretrain", "protein-fold-ft"):
        assert newest(fleet, run) > 10_000
    claims = {str(p.relative_to(fleet.kubeconfig.parent)) for p in (fleet.kubeconfig.parent / "claims").glob("*/*/*")}
    assert claims == {
        "claims/training/checkpoints/llama-sft-70b",
        "claims/training/checkpoints/moe-8x7b-pretrain",
        "claims/training/checkpoints/protein-fold-ft",
        "claims/training/imaging-checkpoints/diffusion-xl-ft",
    }


def test_the_official_client_signals_by_exec(fleet: Serving) -> None:
    api, before = core(fleet.kubeconfig), newest(fleet, "moe-8x7b-pretrain")
    ran = stream(
        api.connect_get_namespaced_pod_exec, "moe-8x7b-pretrain-1", "training", container="main",
        command=["kill", "-USR1", "1"], stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False,
    )  # fmt: skip
    ran.run_forever(timeout=20)
    assert (ran.returncode, ran.read_all()) == (0, "")
    assert wait(lambda: newest(fleet, "moe-8x7b-pretrain") > before)


def test_the_official_client_posts_to_the_hook_through_the_proxy(fleet: Serving) -> None:
    api, before = core(fleet.kubeconfig), newest(fleet, "llama-sft-70b")
    _, status, _ = api.connect_post_namespaced_pod_proxy_with_path_with_http_info(
        "llama-sft-70b-2:29500", "training", "checkpoint"
    )
    assert status == 202
    assert wait(lambda: newest(fleet, "llama-sft-70b") > before)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["kill", "-s", "USR1", "1"], 0, ""),
        (["kill", "-HUP", "1"], 0, ""),
        (["kill", "-USR1", "7"], 1, "No such process"),
        (["kill", "-NOPE", "1"], 1, "unknown signal NOPE"),
    ],
)
async def test_kill(tmp_path: Path, command: list[str], code: int, words: str) -> None:
    async with Lab(tmp_path, trainer()) as lab:
        await lab.until(30.0)
        ran = await Trainer(lab.trainings).run(lab.container(), tuple(command), b"")
        assert (ran.exit_code, words in ran.stderr.decode()) == (code, True)
        await lab.cluster.run(1.0)
        assert bool(await lab.measure("checkpoint_in_progress")) is (command[2] == "USR1")


@pytest.mark.parametrize("command", [["kill", "-USR1", "1"]])
class TestKubectl:
    pytestmark = kubectl_marks

    def test_kubectl_exec_does_the_same(self, fleet: Serving, tmp_path: Path, command: list[str]) -> None:
        before = newest(fleet, "moe-8x7b-pretrain")
        Kubectl(fleet.kubeconfig, tmp_path)(
            "exec", "-n", "training", "moe-8x7b-pretrain-0", "-c", "main", "--", *command
        )
        assert wait(lambda: newest(fleet, "moe-8x7b-pretrain") > before)
