"""A picture by hand: the fleet of the mocks, 24 nodes in four groups with one of each trouble. Needs no cluster."""

import time
from collections import Counter
from collections.abc import Iterable

import msgspec

from fleet.domain.picture import (
    CELL_STATES,
    AttentionRow,
    Condition,
    EventRow,
    FleetRow,
    LabelsRow,
    NodeRow,
    PodRow,
    ProductRow,
    Resource,
    Snapshot,
    WorkloadRow,
)
from tests.browser import demo_gpus, demo_rollouts, demo_saves

NOW = 1_764_622_800.0  # 1 December 2025, 21:00:00 UTC
CLUSTER = "par-prod-1"
PRODUCTS = {
    "H100": ("NVIDIA-H100-80GB-HBM3", 81_559),
    "A100": ("NVIDIA-A100-SXM4-80GB", 81_920),
    "L4": ("NVIDIA-L4", 23_034),
}
GROUPS = (
    ("train", "par1-a", "H100"),
    ("train", "par1-b", "H100"),
    ("infer", "par1-a", "A100"),
    ("infer", "par1-b", "L4"),
)
BUSY = (8, 8, 8, 8, 4, 7, 5, 8, 6, 8, 2, 8, 8, 8, 7, 0, 8, 7, 6, 8, 4, 8, 6, 5)
WORKLOADS = (
    ("llama-sft-70b",), ("llama-sft-70b",), ("llama-sft-70b",), ("llama-sft-70b",), ("vision-pretrain-3b",), ("protein-fold-ft",),
    ("diffusion-xl-ft", "speech-enc-1b"), ("moe-8x7b-pretrain",), ("graph-rank",), ("moe-8x7b-pretrain",), ("rl-policy",),
    ("moe-8x7b-pretrain",), ("llm-chat",), ("llm-chat", "notebooks"), ("llm-chat",), (), ("llm-chat",), ("asr-batch",),
    ("embed-api",), ("embed-api",), ("embed-api",), ("embed-api",), ("embed-api",), ("ocr-api",),
)  # fmt: skip
CORDONED, SILENT, WITHDRAWN = 16, 22, 11


def nodes(now: float = NOW) -> dict[str, NodeRow]:
    return {row.name: row for row in (node(i, now) for i in range(1, 25))}


def node(i: int, now: float = NOW) -> NodeRow:
    pool, zone, product = GROUPS[(i - 1) // 6]
    allocatable, allocated = 7 if i == WITHDRAWN else 8, BUSY[i - 1]
    free = allocatable - allocated
    letters = {CORDONED: "c" * 8, SILENT: "u" * 8, **demo_gpus.CELLS}.get(
        i, "b" * allocated + ("c" if i == 7 else "f") * free + "x" * (8 - allocatable)
    )
    level, reasons = {
        CORDONED: ("off", ("cordoned",)),
        SILENT: ("off", ("node-unreachable",)),
        WITHDRAWN: ("bad", ("gpus-withdrawn",)),
        7: ("drain", ("cordoned",)),
    }.get(i, ("", ()))
    closed = i in (CORDONED, 7)
    return NodeRow(
        name=f"node-{i:02}",
        pool=pool,
        zone=zone,
        product=product,
        product_name=PRODUCTS[product][0],
        memory_mib=PRODUCTS[product][1],
        cells=letters,
        level="off" if closed else level,
        reasons=reasons,
        usable=not closed and i != SILENT,
        ready="Unknown" if i == SILENT else "True",
        unschedulable=closed,
        cordoned_at=now - (6 * 86_400 if i == CORDONED else 540) if closed else None,
        cordoned_by="kubectl" if closed else "",
        taints=("node.kubernetes.io/unschedulable:NoSchedule",) if closed else (),
        physical=8,
        measured=i in demo_gpus.CELLS,
        resources=(Resource("nvidia.com/gpu", 8, allocatable, allocated, free, 0),),
        gpu_workloads=WORKLOADS[i - 1],
        pods=len(WORKLOADS[i - 1]) + 2,
        conditions=(
            Condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                now - 9e6,
            ),
            Condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now - 9e6),
            Condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now - 250)
            if i == SILENT
            else Condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now - 9e6),
        ),
        created_at=now - 7_171_200,
        kubelet="v1.31.6",
        kernel="6.8.0-57-generic",
        os_image="Ubuntu 24.04.2 LTS",
        runtime="containerd://1.7.27",
        driver="570.124.06",
        cuda="12.8",
        machine="p5.48xlarge",
        address=f"10.20.0.{i}",
    )


def pods(rows: dict[str, NodeRow], now: float = NOW) -> dict[str, PodRow]:
    found: dict[str, PodRow] = {}
    for row in rows.values():
        gpus = sum(r.allocated for r in row.resources)
        for k, workload in enumerate(row.gpu_workloads):
            share = gpus - gpus // 2 if len(row.gpu_workloads) > 1 and k == 0 else gpus // 2 if k else gpus
            name = f"{workload}-{row.name.removeprefix('node-')}"
            found[f"ml/{name}"] = PodRow(
                uid=f"uid-{name}", namespace="ml", name=name, node=row.name, status="Running", level="", ready=1, containers=1,
                restarts=k, gpus=share, resources=(("nvidia.com/gpu", share),), workload=f"Deployment/ml/{workload}",
                owner_kind="Deployment", owner_name=workload, team="Search", budgets=(workload,) if k == 0 else (), grace_s=30,
                empty_dir=bool(k), created_at=now - 86_400 * (k + 1), bound_at=now - 86_400, stage="ready",
            )  # fmt: skip
        for agent in ("dcgm-exporter", "kube-proxy"):
            name = f"{agent}-{row.name.removeprefix('node-')}"
            found[f"kube-system/{name}"] = PodRow(
                uid=f"uid-{name}", namespace="kube-system", name=name, node=row.name, status="Running", ready=1, containers=1,
                owner_kind="DaemonSet", owner_name=agent, grace_s=30, daemon=True, created_at=now - 7_000_000, stage="ready",
            )  # fmt: skip
    for k in range(4):
        found[f"ml/rl-policy-{k}"] = PodRow(
            uid=f"uid-wait-{k}", namespace="ml", name=f"rl-policy-{k}", status="Pending", level="warn", gpus=8, containers=1,
            resources=(("nvidia.com/gpu", 8),), product=PRODUCTS["H100"][0] if k else "", workload="StatefulSet/ml/rl-policy",
            owner_kind="StatefulSet", owner_name="rl-policy", team="Games", waiting_reason="Unschedulable",
            waiting_message="0/24 nodes are available: 24 Insufficient nvidia.com/gpu.", created_at=now - 1_080 + k,
            stage="placing",
        )  # fmt: skip
    return found


def workload(name: str, rows: dict[str, NodeRow], now: float) -> WorkloadRow:
    """A Deployment with one pod on each node that runs it; ocr-api lacks one."""
    here = [row for row in rows.values() if name in row.gpu_workloads]
    lacks = name == "ocr-api"
    return WorkloadRow(
        "Deployment", "ml", name, team="Search", desired=len(here) + lacks, current=len(here), updated=len(here), ready=len(here),
        available=len(here), gpus_per_pod=8 // len(here[0].gpu_workloads), gpus=sum(row.resources[0].allocated for row in here),
        short_since_at=now - 400 if lacks else None, budgets=(name,), created_at=now - 86_400 * len(name),
    )  # fmt: skip


def others(now: float) -> dict[str, WorkloadRow]:
    """What is no Deployment, or holds no GPUs."""
    found = (
        WorkloadRow("StatefulSet", "ml", "rl-policy", team="Games", desired=4, updated=4, available=0, gpus_per_pod=8,
                    created_at=now - 1_080),
        WorkloadRow("Job", "batch", "asr-nightly", desired=0, gpus_per_pod=2, paused=True, created_at=now - 9_000),
        WorkloadRow("RayCluster", "ml", "tuning", gpus_per_pod=1, ready=2, created_at=None),
        WorkloadRow("DaemonSet", "kube-system", "dcgm-exporter", desired=24, updated=24, ready=24, available=24,
                    created_at=now - 7e6),
    )  # fmt: skip
    return {f"{row.kind}/{row.namespace}/{row.name}": row for row in found}


def attention(now: float = NOW) -> dict[str, AttentionRow]:
    held = (("pods", 3), ("gpus", 8))
    waiting = (
        ("pods", 4), ("gpus", 8), ("resource", "nvidia.com/gpu"), ("product", "H100"), ("hole", 5), ("reason", "Unschedulable"),
        ("message", "0/24 nodes are available: 24 Insufficient nvidia.com/gpu."), ("pod", "ml/rl-policy-0"),
    )  # fmt: skip
    withdrawn = (("withdrawn", 1), ("capacity", 8), ("resource", "nvidia.com/gpu"))
    rows = (
        AttentionRow(
            "node-unreachable",
            "bad",
            0,
            "node-22",
            "node-22",
            now - 250,
            (*held, ("reason", "NodeStatusUnknown"), ("message", "Kubelet stopped posting node status.")),
        ),
        AttentionRow("gpus-withdrawn", "bad", 3, "node-11", "node-11", None, (*held, *withdrawn)),
        AttentionRow(
            "workload-short",
            "warn",
            5,
            "Deployment/ml/ocr-api",
            "",
            now - 400,
            (("desired", 6), ("available", 5), ("ready", 5), ("gpus", 1)),
        ),
        AttentionRow("pods-waiting", "warn", 6, "StatefulSet/ml/rl-policy", "", now - 1_080, waiting),
        AttentionRow(
            "cordoned",
            "warn",
            8,
            "node-16",
            "node-16",
            now - 6 * 86_400,
            (("pods", 2), ("gpus", 0), ("by", "l.moreau"), ("free", 8)),
        ),
        AttentionRow(
            "cordoned",
            "warn",
            8,
            "node-07",
            "node-07",
            now - 540,
            (("pods", 4), ("gpus", 5), ("by", "kubectl-cordon"), ("free", 3)),
        ),
        AttentionRow("claims", "note", 9, "pods", "", None, (("pods", 3),)),
    )
    return {f"{row.kind}:{row.subject}": row for row in rows}


def product(name: str, rows: Iterable[NodeRow]) -> ProductRow:
    mine = [row for row in rows if row.product == name]
    free = {row.name: row.resources[0].free for row in mine if row.usable}
    hole = max(free, key=lambda name: (free[name], name))
    return ProductRow(
        product=name,
        nodes=len(mine),
        gpus=8 * len(mine),
        available=8 * len(free),
        free=sum(free.values()),
        largest_hole=free[hole],
        largest_hole_node=hole,
        fragmentation=tuple(
            (k, 1 - k * sum(n // k for n in free.values()) / sum(free.values()))
            for k in (1, 2, 4, 8)
            if sum(free.values())
        ),
    )


def fleet(rows: dict[str, NodeRow], now: float = NOW) -> FleetRow:
    usable = [row for row in rows.values() if row.usable]
    free = {row.name: row.resources[0].free for row in usable}
    hole = max(free, key=lambda name: (free[name], name))
    slots = tuple((k, sum(n // k for n in free.values())) for k in (1, 2, 4, 8))
    total = sum(free.values())
    cells = Counter(CELL_STATES[letter] for row in rows.values() for letter in row.cells)
    return FleetRow(
        nodes=len(rows), gpu_nodes=len(rows), nodes_ready=len(rows) - 1, physical=192, gpus=8 * len(rows),
        available=sum(row.resources[0].allocatable for row in usable), cordoned=16, silent=8, withdrawn=1, tainted=0,
        allocated=sum(row.resources[0].allocated for row in rows.values()), free=total,
        largest_hole=free[hole], largest_hole_node=hole, largest_hole_product=rows[hole].product, slots=slots,
        waiting_pods=4, waiting_since_at=now - 1_080,
        waiting_gpus=8, waiting_oldest="ml/rl-policy-0", claims=3, cells=tuple(sorted(cells.items())),
        trainings=4, behind=2, unsaved=1, unseen=1,
    )  # fmt: skip


def snapshot(now: float = NOW) -> Snapshot:
    rows = nodes(now)
    names = sorted({name for names in WORKLOADS for name in names})
    return Snapshot(
        fleet={"fleet": fleet(rows, now)},
        products={name: product(name, rows.values()) for name in PRODUCTS},
        nodes=rows,
        pods=pods(rows, now),
        workloads={f"Deployment/ml/{name}": workload(name, rows, now) for name in names} | others(now),
        attention=attention(now),
        gpus={key: gpu for row in rows.values() for key, gpu in demo_gpus.gpus(row, now).items()},
        labels={row.name: labels(row) for row in rows.values()},
        events=events(now),
        rollouts=demo_rollouts.rollouts(now),
        checkpoints=demo_saves.saves(now),
    )


def labels(row: NodeRow) -> LabelsRow:
    """As many as GPU nodes have, and two annotations on the node that is being emptied."""
    found = {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": row.name,
        "node-role.kubernetes.io/gpu": "",
        "node.example.org/pool": row.pool,
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": str(row.memory_mib),
        "nvidia.com/gpu.product": row.product_name,
        "topology.kubernetes.io/zone": row.zone,
        **{f"feature.node.kubernetes.io/cpu-cpuid.AVX512VP2INTERSECT-{i:02}": "true" for i in range(12)},
    }
    told = (("example.org/reason", "GPU 5 waits for a row remap"),) if row.name == "node-07" else ()
    return LabelsRow(tuple(sorted(found.items())), told)


def events(now: float) -> dict[str, EventRow]:
    """What happened on node-07."""
    failed = "Readiness probe failed: HTTP probe failed with statuscode: 503"
    rows = (
        EventRow("node-07", "Node", "", "node-07", "Normal", "NodeNotSchedulable",
                 "Node node-07 status is now: NodeNotSchedulable", 1, now - 540, "kubelet"),
        EventRow("node-07", "Pod", "ml", "diffusion-xl-ft-07", "Warning", "Unhealthy", failed, 7, now - 61, "kubelet"),
        EventRow("node-07", "Pod", "ml", "speech-enc-1b-07", "Normal", "Started", "Started it", 1, now - 7_200, "kubelet"),
    )  # fmt: skip
    return {f"{row.namespace or 'default'}/{row.name}.{i}": row for i, row in enumerate(rows)}


def now() -> Snapshot:
    """The fleet as of now, at whole seconds as Kubernetes writes them."""
    return snapshot(float(int(time.time())))


def replaced(found: Snapshot, **tables: object) -> Snapshot:
    """The snapshot with some of its tables replaced."""
    return msgspec.structs.replace(found, **tables)


def with_node(found: Snapshot, row: NodeRow) -> Snapshot:
    return replaced(found, nodes={**found.nodes, row.name: row})


def without_node(found: Snapshot, name: str) -> Snapshot:
    return replaced(found, nodes={key: row for key, row in found.nodes.items() if key != name})


def large(count: int = 1_000, now: float = NOW) -> Snapshot:
    """`count` nodes of eight GPUs with names as a cloud gives them, in six groups; a few of each trouble."""
    rows = {row.name: row for row in (_one_of_many(i, now) for i in range(count))}
    attention_rows = [_trouble_of(row, now) for row in rows.values() if row.level]
    return Snapshot(
        fleet={"fleet": fleet(rows, now)},
        products={name: product(name, rows.values()) for name in sorted({row.product for row in rows.values()})},
        nodes=rows,
        pods={},
        workloads={},
        attention={f"{row.kind}:{row.subject}": row for row in attention_rows},
    )


def _one_of_many(i: int, now: float) -> NodeRow:
    row = node(10, now) if i % 5 else node(17, now)
    busy = i * 7_919 % 9
    row = msgspec.structs.replace(
        row, cells="b" * busy + "f" * (8 - busy), resources=(Resource("nvidia.com/gpu", 8, 8, busy, 8 - busy, 0),)
    )
    row = {37: node(SILENT, now), 55: node(CORDONED, now), 71: node(WITHDRAWN, now)}.get(i % 97, row)
    group = i * 6 // 1_000 if i < 1_000 else i % 6
    name = f"ip-10-{16 + group}-{i * 7919 % 251}-{i * 104_729 % 253}.eu-north-1{'abc'[group % 3]}.compute.internal"
    return msgspec.structs.replace(
        row, name=name if i < 1_000 else f"n{i}-{name}", pool=("train", "infer")[group // 3], zone=f"eun1-{'abc'[group % 3]}",
        product=("H100", "A100")[group // 3], gpu_workloads=(f"moe-{i * 31 % 61}x7b-pretrain",) if row.gpu_workloads else (),
    )  # fmt: skip


def _trouble_of(row: NodeRow, now: float) -> AttentionRow:
    kind = row.reasons[0]
    facts = {
        "node-unreachable": (("reason", "NodeStatusUnknown"), ("message", "Kubelet stopped posting node status.")),
        "gpus-withdrawn": (("withdrawn", 1), ("capacity", 8), ("resource", "nvidia.com/gpu")),
        "cordoned": (("by", "kubectl-cordon"), ("free", 8)),
    }[kind]
    rank = {"node-unreachable": 0, "gpus-withdrawn": 3, "cordoned": 8}[kind]
    return AttentionRow(
        kind, "bad" if rank < 8 else "warn", rank, row.name, row.name, now - 300, (("pods", 2), ("gpus", 8), *facts)
    )
