"""What runs on the rehearsal's fleet: its pools of nodes and the workloads of its teams, with the nodes that they are on.

Data only. One block of 24 nodes is described; larger fleets repeat it. Places are numbers of nodes in the block, from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

BLOCK_NODES = 24
POOLS: tuple[tuple[str, str, str, int], ...] = (  # pool, zone, product, nodes of a block
    ("train", "par1-a", "H100", 6),
    ("train", "par1-b", "H100", 6),
    ("infer", "par1-a", "A100", 6),
    ("infer", "par1-b", "L4", 6),
)
CORDONED = 16  # since six days
WORN = (10, 6)  # node and slot of the GPU that needs a reset at the next convenience
NAMESPACES = (
    "batch", "gpu-operator", "inference", "monitoring", "notebooks", "sandbox", "serving", "training", "vigie", "web",
)  # fmt: skip


class Told(StrEnum):
    """All say it on the command line or in the environment, or they would not know themselves."""

    ANNOTATION = "annotation"
    ARGUMENT = "argument"
    ENVIRONMENT = "environment"


class Kind(StrEnum):
    DEPLOYMENT = "deployments"
    STATEFUL_SET = "statefulsets"
    JOB = "jobs"
    POD = "pods"  # that nobody brings back


@dataclass(frozen=True)
class Saving:
    """How a training saves. `layout`: of checkpoint_layouts.py. `to`: "claim/NAME", "emptyDir", "hostPath/DIR", or the address of
    an object store. `told`: where its pods say so to those who look for it. `hook`: how it may be asked to save at once.
    """

    layout: str
    to: str
    told: Told
    every_steps: int
    step_s: float
    hook: str = ""


@dataclass(frozen=True)
class Workload:
    """`on` says how many of its pods are on which node; what is missing to `replicas` waits for room.

    `budget`: a PodDisruptionBudget's field and value. `run_s`: how long a Job's pods run, about.
    """

    name: str
    kind: Kind
    namespace: str
    team: str
    image: str
    product: str
    gpus: int
    on: Mapping[int, int] = field(default_factory=dict)
    waiting: int = 0
    cores: int = 8
    memory_gib: int = 64
    age_h: float = 24.0 * 9
    pods_age_h: float = 20.0
    grace_s: int = 30
    previous_image: str = ""
    surge: int | str = "25%"
    unavailable: int | str = "25%"
    port: int = 8000
    budget: tuple[str, int | str] | None = None
    scratch: bool = False
    run_s: float | None = None
    completions: int | None = None
    autoscale: tuple[int, int] | None = None  # fewest and most replicas
    busy: float | None = None  # how busy it keeps its GPUs, where that is not as for its image
    annotations: Mapping[str, str] = field(default_factory=dict)  # of its pods
    disk_gib: int = 0  # a volume on a disk of its node
    night_budget: bool = False  # somebody has put another budget over its pods
    saving: Saving | None = None

    @property
    def replicas(self) -> int:
        return sum(self.on.values()) + self.waiting


def _training(
    name: str,
    team: str,
    gpus: int,
    on: Mapping[int, int],
    age_h: float,
    saving: Saving | None = None,
    waiting: int = 0,
) -> Workload:
    image = "par-prod/trainer:2026.8.2"
    return Workload(
        name, Kind.STATEFUL_SET, "training", team, image, "H100", gpus, on, waiting, 12 * gpus, 96 * gpus, age_h, age_h,
        grace_s=60, port=29500, saving=saving,
    )  # fmt: skip


def _server(
    name: str, team: str, image: str, tags: tuple[str, str], product: str, gpus: int, on: Mapping[int, int]
) -> Workload:
    old, new = (f"par-prod/{image}:{tag}" for tag in tags)
    return Workload(name, Kind.DEPLOYMENT, "inference", team, new, product, gpus, on, previous_image=old, grace_s=45)


def _notebook(person: str, team: str, product: str, gpus: int, on: Mapping[int, int]) -> Workload:
    image = "par-prod/notebook:cuda12.8"
    return Workload(
        f"notebook-{person}", Kind.STATEFUL_SET, "notebooks", team, image, product, gpus, on, cores=6, memory_gib=48,
        age_h=24.0 * 20, pods_age_h=5.5, port=8888,
    )  # fmt: skip


def _small(name: str, kind: Kind, namespace: str, team: str, image: str, on: Mapping[int, int]) -> Workload:
    """Without GPUs, of the kind that stands in the way of a drain."""
    return Workload(
        name, kind, namespace, team, f"par-prod/{image}", "H100", 0, on, cores=1, memory_gib=4, age_h=24.0 * 41,
        pods_age_h=24.0 * 6,
    )  # fmt: skip


# Claims of the namespace training that several nodes mount: one for all teams, and one that its team keeps to itself.
SHARED, PRIVATE = "checkpoints", "imaging-checkpoints"

# Where a server tells how many requests it works on; ocr-api's team has not said.
COUNTED = {"vigie.dev/in-flight": "8000/metrics#vllm:num_requests_running"}

WORKLOADS: tuple[Workload, ...] = (
    _training(
        "llama-sft-70b", "Language", 8, {1: 1, 2: 1, 3: 1, 4: 1}, 61.0,
        Saving("hf-trainer", f"claim/{SHARED}", Told.ANNOTATION, 100, 3.0, "http:29500/checkpoint"),
    ),
    _training(
        "moe-8x7b-pretrain", "Foundation", 8, {8: 1, 10: 1, 12: 1}, 24.0 * 11,
        Saving("megatron-lm", f"claim/{SHARED}", Told.ANNOTATION, 100, 6.0, "signal:USR1:main"),
    ),
    # Its checkpoints die with its pod.
    replace(
        _training("vision-pretrain-3b", "Vision", 4, {5: 1}, 38.0, Saving("torch", "emptyDir", Told.ARGUMENT, 200, 3.0)),
        scratch=True,
    ),
    _training(
        "protein-fold-ft", "Bio", 4, {6: 1}, 16.5, Saving("torchtitan", f"claim/{SHARED}", Told.ENVIRONMENT, 150, 2.0)
    ),
    _training("graph-rank", "Search", 4, {9: 1}, 9.2),  # saves nothing
    _training(
        "diffusion-xl-ft", "Imaging", 4, {7: 1}, 27.0,
        Saving("orbax", f"claim/{PRIVATE}", Told.ANNOTATION, 150, 4.0),
    ),
    replace(
        _training(
            "speech-enc-1b", "Speech", 1, {7: 1}, 52.0,
            Saving("lightning", "hostPath/mnt/nvme0/checkpoints", Told.ARGUMENT, 400, 1.5),
        ),
        scratch=True, annotations={"vigie.dev/scratch": "scratch"},
    ),
    Workload(
        "rl-policy", Kind.STATEFUL_SET, "training", "Robotics", "par-prod/rl-trainer:1.4.0", "H100", 8,
        waiting=1, cores=96, memory_gib=768, age_h=0.3, pods_age_h=0.3, grace_s=60, port=29500,
        saving=Saving("torch", "s3://par-training/rl-policy", Told.ANNOTATION, 300, 2.0, "http:29500/checkpoint"),
    ),
    _training("vlm-sft-13b", "Vision", 8, {}, 0.12, Saving("torchtitan", f"claim/{SHARED}", Told.ARGUMENT, 100, 5.0), waiting=1),
    replace(
        _server("llm-chat", "Assistant", "llm-server", ("v40", "v41"), "A100", 2, {13: 4, 14: 3, 15: 3, 17: 4}),
        surge=0, unavailable=1, cores=12, memory_gib=180, budget=("maxUnavailable", 2), age_h=24.0 * 120, autoscale=(12, 15),
        annotations=COUNTED,
    ),
    replace(
        _server("rerank-api", "Search", "rerank-server", ("2.6.1", "2.7.0"), "H100", 1, {7: 2, 11: 1}),
        surge=1, unavailable=0, budget=("minAvailable", 2), age_h=24.0 * 75, autoscale=(3, 5), annotations=COUNTED,
    ),
    replace(
        _server(
            "embed-api", "Search", "embedding-server", ("5.1.0", "5.2.3"), "L4", 1, {19: 3, 20: 8, 21: 4, 22: 4, 23: 6}
        ),
        memory_gib=32, budget=("maxUnavailable", "20%"), age_h=24.0 * 210, surge=0, autoscale=(20, 30),
        annotations=COUNTED,
    ),
    replace(
        _server("ocr-api", "Documents", "ocr-server", ("1.17.0", "1.18.2"), "L4", 1, {19: 3, 22: 4, 24: 5}),
        memory_gib=24, budget=("minAvailable", "75%"), age_h=24.0 * 33, autoscale=(9, 15),
    ),
    _notebook("amina", "Language", "A100", 1, {14: 1}),
    _notebook("jonas", "Assistant", "A100", 1, {14: 1}),
    _notebook("lucia", "Speech", "A100", 1, {15: 1}),
    replace(_notebook("petr", "Search", "H100", 2, {9: 1}), busy=0.0),  # has gone home
    _notebook("noor", "Vision", "L4", 1, {}),
    _notebook("tomas", "Bio", "L4", 1, {}),
    _notebook("yuki", "Imaging", "L4", 1, {}),
    Workload(
        "asr-batch", Kind.JOB, "batch", "Speech", "par-prod/asr-batch:3.2", "A100", 1, {18: 7},
        age_h=0.5, pods_age_h=0.1, run_s=540.0, completions=60,
    ),
    Workload(
        "eval-suite", Kind.JOB, "batch", "Language", "par-prod/trainer:eval-7", "H100", 1, {6: 3},
        age_h=0.4, pods_age_h=0.1, run_s=420.0, completions=24,
    ),
    Workload(
        "caption-batch", Kind.JOB, "batch", "Imaging", "par-prod/asr-batch:captions-2", "A100", 4, waiting=1,
        cores=24, age_h=0.2, pods_age_h=0.2, run_s=900.0, completions=1,
    ),
    Workload(
        "label-studio", Kind.STATEFUL_SET, "web", "Data", "par-prod/label-studio:1.21", "H100", 0, {7: 1},
        cores=2, memory_gib=8, age_h=24.0 * 60, pods_age_h=24.0 * 13, scratch=True, port=8080,
    ),
    # What makes maintenance hard, one of each.
    replace(
        _small("dataset-import", Kind.JOB, "batch", "Data", "dataset-import:0.9", {1: 1}), run_s=72 * 3600.0,
        annotations={"karpenter.sh/do-not-disrupt": "true"},
    ),
    replace(
        _small("model-catalog", Kind.DEPLOYMENT, "web", "Portal", "model-catalog:4.2", {2: 1}),
        previous_image="par-prod/model-catalog:4.1",
    ),
    replace(_small("nccl-debug", Kind.POD, "sandbox", "Platform", "nccl-tests:2.14", {3: 1}), pods_age_h=7.5),
    replace(
        _small("prompt-gateway", Kind.DEPLOYMENT, "web", "Portal", "prompt-gateway:1.8", {4: 1, 8: 1}),
        previous_image="par-prod/prompt-gateway:1.7", budget=("minAvailable", 1), night_budget=True,
    ),
    replace(
        _small("feature-store", Kind.STATEFUL_SET, "web", "Search", "feature-store:7.4", {12: 1}), memory_gib=32,
        disk_gib=800, port=6379,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Daemon:
    """A DaemonSet on every node."""

    name: str
    namespace: str
    image: str
    port: int = 0
    host_network: bool = False
    account: str = ""  # its service account; "" the default one


AGENT = Daemon("vigie-agent", "vigie", "par-prod/vigie:0.1.0", account="vigie-agent")
AGENT_AUDIENCE = "vigie"  # whom its token is for

DAEMONS: tuple[Daemon, ...] = (
    Daemon("nvidia-device-plugin", "gpu-operator", "par-prod/k8s-device-plugin:v0.17.4"),
    Daemon("dcgm-exporter", "gpu-operator", "par-prod/dcgm-exporter:4.2.3-4.3.0", 9400),
    Daemon("node-exporter", "monitoring", "par-prod/node-exporter:v1.9.1", 9100, host_network=True),
    Daemon("fabric-agent", "kube-system", "par-prod/fabric-agent:2.4", host_network=True),
    Daemon("log-shipper", "monitoring", "par-prod/log-shipper:0.46"),
    AGENT,
)  # fmt: skip
