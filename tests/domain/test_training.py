"""What a pod declares about its checkpoints, what its command line shows, and what is behind a path in it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet.domain.grants import Grant, granted
from fleet.domain.save_sites import Durability, Volumes
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import Hook, Record, Signal, Source, Training, training, trains
from tests.domain import cluster


def claim(name: str, modes: tuple[str, ...] = ("ReadWriteMany",), volume: str = "") -> Claim:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ml"},
            "spec": {"accessModes": modes, "volumeName": volume or f"pv-{name}"},
        },
        Claim,
    )


def storage(name: str, **spec: Any) -> Storage:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Storage)


ONE_NODE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
        ]
    }
}
# What drivers of local disks write in its place.
ONE_NODE_OF_A_DRIVER = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.topolvm.io/node", "operator": "In", "values": ["node-1"]}]}
        ]
    }
}
VOLUMES = Volumes(
    {
        f"ml/{each.metadata.name}": each
        for each in (
            claim("nfs"),
            claim("block", ("ReadWriteOnce",)),
            claim("disk"),
            claim("pinned"),
            claim("lvm"),
            claim("new", (), "x"),
        )
    },
    {
        each.metadata.name: each
        for each in (
            storage("pv-nfs"),
            storage("pv-block"),
            storage("pv-disk", local={"path": "/mnt/nvme"}),
            storage("pv-pinned", nodeAffinity=ONE_NODE),
            storage("pv-lvm", nodeAffinity=ONE_NODE_OF_A_DRIVER),
        )
    },
)
MOUNTED = {
    "nfs": {"persistentVolumeClaim": {"claimName": "nfs"}},
    "block": {"persistentVolumeClaim": {"claimName": "block"}},
    "disk": {"persistentVolumeClaim": {"claimName": "disk"}},
    "pinned": {"persistentVolumeClaim": {"claimName": "pinned"}},
    "lvm": {"persistentVolumeClaim": {"claimName": "lvm"}},
    "new": {"persistentVolumeClaim": {"claimName": "new"}},
    "foreign": {"persistentVolumeClaim": {"claimName": "unseen"}},
    "scratch": {"emptyDir": {}},
    "host": {"hostPath": {"path": "/data/"}},
    "throwaway": {"ephemeral": {"volumeClaimTemplate": {}}},
    "config": {"configMap": {"name": "x"}},
}


def pod(
    annotations: dict[str, str] | None = None,
    args: list[str] | None = None,
    env: dict[str, str] | None = None,
    mounts: tuple[dict[str, str], ...] = (),
    **more: Any,
) -> FullPod:
    """A trainer that mounts every volume at "/" and its name, and `mounts` besides."""
    every = [{"name": name, "mountPath": f"/{name}"} for name in MOUNTED]
    container = cluster.container(
        8,
        "trainer",
        args=args or [],
        env=[{"name": name, "value": value} for name, value in (env or {}).items()],
        volumeMounts=[*every, *mounts],
    )
    spec = {"containers": [container], "volumes": [{"name": n, **source} for n, source in MOUNTED.items()], **more}
    made = cluster.pod("llm-0", "node-1", 8, namespace="ml", annotations=annotations or {}, spec=spec)
    return msgspec.convert(made, FullPod)


def declared(uri: str, **more: Any) -> Training:
    return training(pod({"vigie.dev/checkpoint-uri": uri}, **more), "Job/ml/llm", {}, VOLUMES)


@pytest.mark.parametrize(
    ("said", "uri", "durability"),
    [
        ("/nfs/run-1", "pvc://ml/nfs/run-1", Durability.DURABLE),
        ("/nfs", "pvc://ml/nfs", Durability.DURABLE),
        ("/nfs//run-1/", "pvc://ml/nfs/run-1", Durability.DURABLE),
        ("file:///nfs/run-1", "pvc://ml/nfs/run-1", Durability.DURABLE),
        ("/block/run", "pvc://ml/block/run", Durability.DURABLE),
        ("/disk/run", "pvc://ml/disk/run", Durability.NODE),
        ("/pinned/run", "pvc://ml/pinned/run", Durability.NODE),
        ("/lvm/run", "pvc://ml/lvm/run", Durability.NODE),
        ("/new/run", "pvc://ml/new/run", Durability.UNKNOWN),
        ("/foreign/run", "pvc://ml/unseen/run", Durability.UNKNOWN),
        ("/scratch/run", "pod://scratch/run", Durability.POD),
        ("/throwaway/run", "pod://throwaway/run", Durability.POD),
        ("/opt/run", "pod:///opt/run", Durability.POD),
        ("/nfsx/run", "pod:///nfsx/run", Durability.POD),
        ("/host/run", "host:///data/run", Durability.NODE),
        ("/config/run", "", Durability.UNKNOWN),
        ("pvc://ml/nfs/run", "pvc://ml/nfs/run", Durability.DURABLE),
        ("s3://runs/ml/llm/", "s3://runs/ml/llm", Durability.OBJECT),
        ("gs://runs/llm", "gs://runs/llm", Durability.OBJECT),
        ("/nfs/../host", "", Durability.UNKNOWN),
        ("s3://runs/../other", "", Durability.UNKNOWN),
        ("pvc://ml/nfs/../x", "", Durability.UNKNOWN),
        ("s3://", "", Durability.UNKNOWN),
        ("run-1", "", Durability.UNKNOWN),
        ("ftp://host/run", "", Durability.UNKNOWN),
        ("/nfs/" + "x" * 200_000, "", Durability.UNKNOWN),
    ],
)
def test_where_an_annotation_leads(said: str, uri: str, durability: Durability) -> None:
    found = declared(said)
    assert (found.uri, found.durability) == (uri, durability)
    assert found.unread == (() if uri else ("vigie.dev/checkpoint-uri",))


def test_without_a_look_at_volumes_nobody_knows_what_is_behind_a_claim() -> None:
    found = training(pod({"vigie.dev/checkpoint-uri": "/nfs/x"}), "Job/ml/llm", {}, Volumes())
    assert (found.uri, found.durability, found.durable) == ("pvc://ml/nfs/x", Durability.UNKNOWN, None)


def test_the_innermost_mount_counts_with_its_part_of_the_volume() -> None:
    inner = ({"name": "block", "mountPath": "/nfs/deep", "subPath": "team/a"},)
    assert declared("/nfs/deep/run", mounts=inner).uri == "pvc://ml/block/team/a/run"
    told = ({"name": "block", "mountPath": "/runs", "subPathExpr": "$(TEAM)"},)
    assert declared("/runs/x", mounts=told, env={"TEAM": "b"}).uri == "pvc://ml/block/b/x"
    assert declared("/runs/x", mounts=told).uri == "", "nobody knows which part it is"
    leading = ({"name": "block", "mountPath": "/runs", "subPath": "../x"},)
    assert declared("/runs/x", mounts=leading).uri == ""


@pytest.mark.parametrize(
    ("args", "place"),
    [
        (["--output_dir", "/nfs/a"], "/nfs/a"),
        (["--output-dir=/nfs/a"], "/nfs/a"),
        (["--save", "/nfs/m", "--load", "/nfs/old"], "/nfs/m"),
        (["--load", "/nfs/old", "--save-dir", "/nfs/m"], "/nfs/m"),
        (["--save-interval", "500", "--checkpoint-path", "s3://runs/x"], "s3://runs/x"),
        (["checkpoint.folder=/nfs/titan"], "/nfs/titan"),
        (["trainer.default_root_dir=/nfs/l"], "/nfs/l"),
        (["-c", "cd /app && exec torchrun train.py --ckpt_dir '/nfs/my run' --lr 1"], "/nfs/my run"),
        (["-c", "python train.py --output_dir $OUT/run"], "/nfs/env/run"),
        (["--output_dir", "$(OUT)/k8s"], "/nfs/env/k8s"),
        (["--output_dir", "$(SECRET)/k8s"], ""),
        (["--resume_from_checkpoint", "/nfs/old", "--init-checkpoint", "/nfs/older"], ""),
        (["--checkpoint", "best"], ""),
        (["checkpoint", "/nfs/positional"], ""),
        (["-c", "python 'open quote --save /nfs/q"], "/nfs/q"),
        ([], ""),
    ],
)
def test_what_a_command_line_says(args: list[str], place: str) -> None:
    found = training(pod(args=args, env={"OUT": "/nfs/env"}), "Job/ml/llm", {}, VOLUMES)
    assert (found.place, found.source) == (place, Source.ARGUMENT if place else Source.NONE)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("CKPT_DIR", "/nfs/e"),
        ("CHECKPOINT_PATH", "/nfs/e"),
        ("OUTPUT_DIR", "/nfs/e"),
        ("MY_CHECKPOINTS", "/nfs/e"),
        ("RESUME_CHECKPOINT", ""),
        ("LOAD_CKPT", ""),
        ("HOME", ""),
    ],
)
def test_what_the_environment_says(name: str, place: str) -> None:
    assert training(pod(env={name: "/nfs/e"}), "Job/ml/llm", {}, VOLUMES).place == place


def test_who_counts_first() -> None:
    records = {"Job/ml/llm": Record("/nfs/r", "hf-trainer", 1800.0)}
    every = {"args": ["--save", "/nfs/a"], "env": {"CKPT_DIR": "/nfs/e"}}
    said = {"vigie.dev/checkpoint-uri": "/nfs/u", "vigie.dev/checkpoint-interval": "20m"}
    of = lambda made: training(made, "Job/ml/llm", records, VOLUMES)  # noqa: E731
    assert (of(pod(said, **every)).place, of(pod(said, **every)).interval_s) == ("/nfs/u", 1200.0)
    found = of(pod(**every))
    assert (found.place, found.source, found.interval_s) == ("/nfs/a", Source.ARGUMENT, 1800.0)
    assert of(pod(env=every["env"])).source is Source.ENVIRONMENT
    found = of(pod())
    assert (found.place, found.source, found.format) == ("/nfs/r", Source.RECORD, "hf-trainer")


def test_reports_stand_in_where_no_place_is_known_and_policy_trusts_them() -> None:
    assert training(pod(), "Job/ml/llm", {}, VOLUMES, reported=True).durability is Durability.REPORTED
    assert training(pod(), "Job/ml/llm", {}, VOLUMES).durability is Durability.UNKNOWN
    said = pod({"vigie.dev/checkpoint-uri": "/scratch/x"})
    assert training(said, "Job/ml/llm", {}, VOLUMES, reported=True).durability is Durability.POD


@pytest.mark.parametrize("said", ["soon", "0s", "400d", "30", ""])
def test_an_interval_that_makes_no_sense_counts_as_not_there(said: str) -> None:
    found = training(pod({"vigie.dev/checkpoint-interval": said}), "Job/ml/llm", {}, VOLUMES)
    assert (found.interval_s, found.unread) == (None, ("vigie.dev/checkpoint-interval",))


@pytest.mark.parametrize(
    ("said", "hook"),
    [
        ("http:8080/save", Hook(port=8080, path="/save")),
        ("http:1/", Hook(port=1, path="/")),
        ("signal:USR1:trainer", Hook(signal=Signal.USR1, container="trainer")),
        ("signal:KILL:trainer", None),
        ("signal:USR1:sidecar", None),
        ("signal:USR1:trainer; rm -rf /", None),
        ("http:8080", None),
        ("http:0/save", None),
        ("http:70000/save", None),
        ("http:8080//other/save", None),
        ("http:8080/../../nodes", None),
        ("http:8080/a/%2e%2e/b", None),
        ("http:8080/save?x=1", None),
        ("http:8080/save#x", None),
        ("http://host:8080/save", None),
        ("http:8080/sa ve", None),
        ("http:8080/" + "x" * 200_000, None),
    ],
)
def test_a_hook_leads_nowhere_but_to_its_pod(said: str, hook: Hook | None) -> None:
    found = training(pod({"vigie.dev/checkpoint-hook": said}), "Job/ml/llm", {}, VOLUMES)
    assert found.hook == hook
    assert found.unread == (() if hook else ("vigie.dev/checkpoint-hook",))


def test_what_trains() -> None:
    assert trains(pod(), "Job", serves=lambda: False)
    assert not trains(pod(), "Deployment", serves=lambda: True)
    assert trains(pod({"vigie.dev/role": "Training"}), "Deployment", serves=lambda: True)
    assert not trains(pod({"vigie.dev/role": "serving"}), "PyTorchJob", serves=lambda: False)
    assert trains(pod(), "PyTorchJob", serves=lambda: True)
    assert trains(pod({"vigie.dev/checkpoint-uri": "x"}), "Deployment", serves=lambda: True)


RUNS = Grant("ml", bucket="s3://runs/ml")
DEEP = Grant("ml", bucket="s3://runs/ml/deep", endpoint="http://minio:9000")
CKPT = Grant("ml", claim="ckpt", path="/mnt/ckpt")
THEIRS = Grant("rl", claim="ckpt", path="/mnt/theirs")
GRANTS = (RUNS, DEEP, CKPT, THEIRS)


@pytest.mark.parametrize(
    ("namespace", "uri", "expected"),
    [
        ("ml", "s3://runs/ml/llm", (RUNS, "llm")),
        ("ml", "s3://runs/ml", (RUNS, "")),
        ("ml", "s3://runs/ml/deep/x", (DEEP, "x")),
        ("ml", "s3://runs/mlx/llm", None),
        ("ml", "s3://runs", None),
        ("ml", "s3://runs/ml/../rl", None),
        ("rl", "s3://runs/ml/llm", None),
        ("ml", "pvc://ml/ckpt/llm", (CKPT, "llm")),
        ("ml", "pvc://ml/ckpt2/llm", None),
        ("ml", "pvc://rl/ckpt/llm", None),
        ("rl", "pvc://rl/ckpt", (THEIRS, "")),
        ("rl", "pvc://ml/ckpt/llm", None),
        ("ml", "/mnt/ckpt", None),
        ("ml", "", None),
    ],
)
def test_a_grant_covers_its_own_namespace_and_what_is_below_it(namespace: str, uri: str, expected: Any) -> None:
    found = granted(GRANTS, namespace, uri)
    assert (None if found is None else (found.grant, found.path)) == expected


def test_ranks_of_one_run_are_told_by_their_kind_or_a_label() -> None:
    label = {"training.kubeflow.org/job-name": "llm"}
    for workload, labels, bound in (
        ("Job/ml/llm", {}, False),
        ("PyTorchJob/ml/llm", {}, True),
        ("Job/ml/llm", label, True),
    ):
        made = msgspec.convert(cluster.pod("llm-0", "node-1", 8, namespace="ml", labels=labels), FullPod)
        found = training(made, workload, {}, VOLUMES)
        assert (found.bound, replace(found, pods=2).apart) == (bound, not bound)


# --- Which container
def beside(
    trainer: dict[str, Any], other: dict[str, Any], gpus: int = 8, annotations: dict[str, str] | None = None
) -> Training:
    """A trainer, and another container of the same pod, the first by the order of names that people do not choose."""
    main = {**cluster.container(gpus, "trainer"), **trainer}
    spec = {
        "containers": [{**cluster.container(0, "agent"), **other}, main],
        "volumes": [{"name": name, **source} for name, source in MOUNTED.items()],
    }
    made = cluster.pod("llm-0", "node-1", gpus, namespace="ml", annotations=annotations or {}, spec=spec)
    return training(msgspec.convert(made, FullPod), "Job/ml/llm", {}, VOLUMES)


AT = {"vigie.dev/checkpoint-uri": "/ckpt/llm"}
NFS = {"volumeMounts": [{"name": "nfs", "mountPath": "/ckpt"}]}
DEEPER = {"volumeMounts": [{"name": "nfs", "mountPath": "/ckpt/llm"}]}
SCRATCH = {"volumeMounts": [{"name": "scratch", "mountPath": "/ckpt"}]}


@pytest.mark.parametrize("other", [NFS, DEEPER])
def test_another_container_s_mount_at_the_same_path_is_not_the_trainer_s(other: dict[str, Any]) -> None:
    """Its claim would outlive the pod; what the trainer writes dies with it."""
    assert beside({}, other, annotations=AT).uri == "pod:///ckpt/llm"
    assert beside(SCRATCH, other, annotations=AT).durability is Durability.POD


def test_another_container_s_command_line_says_nothing_of_the_trainer() -> None:
    found = beside({}, {**NFS, "args": ["--output_dir", "/ckpt/logs"]})
    assert (found.uri, found.source) == ("", Source.NONE)


def test_without_gpus_the_pod_says_which_container_trains() -> None:
    assert beside(NFS, SCRATCH, gpus=0, annotations=AT).uri == "", "nothing tells them apart"
    named = {**AT, "kubectl.kubernetes.io/default-container": "trainer"}
    assert beside(NFS, SCRATCH, gpus=0, annotations=named).uri == "pvc://ml/nfs/llm"
    assert beside(NFS, NFS, gpus=0, annotations=AT).uri == "pvc://ml/nfs/llm", "both lead there"
