"""How one node reads: its cells, its level and the reasons for it."""

from typing import Any

import pytest

from fleet.domain.picture import Condition, NodeRow, Resource
from tests.domain import cluster
from tests.domain.cluster import EPOCH, EPOCH_AT, GPU, node, owned_by, pod, snapshot

MAINTENANCE = ({"key": "maintenance", "value": "disk", "effect": "NoSchedule"},)


def row(found: dict[str, Any], *objects: dict[str, Any]) -> NodeRow:
    return snapshot(found, *objects).nodes["n1"]


@pytest.mark.parametrize(
    ("found", "held", "cells", "level", "reasons"),
    [
        pytest.param(node(), 0, "ffffffff", "", (), id="free"),
        pytest.param(node(), 3, "bbbfffff", "", (), id="busy first"),
        pytest.param(node(), 8, "bbbbbbbb", "", (), id="full"),
        pytest.param(node(cordoned=True), 3, "bbbccccc", "off", ("cordoned",), id="cordoned"),
        pytest.param(node(taints=MAINTENANCE), 3, "bbbccccc", "off", ("node-tainted",), id="tainted"),
        pytest.param(
            node(cordoned=True, taints=MAINTENANCE), 3, "bbbccccc", "off", ("cordoned",), id="cordoned and tainted"
        ),
        pytest.param(node(ready="Unknown"), 3, "uuuuuuuu", "off", ("node-unreachable",), id="silent"),
        pytest.param(node(ready="False"), 3, "uuuuuuuu", "off", ("node-not-ready",), id="not ready"),
        pytest.param(
            node(ready="False", cordoned=True), 0, "uuuuuuuu", "off", ("node-not-ready", "cordoned"), id="both"
        ),
        pytest.param(node(allocatable=7), 3, "bbbffffx", "bad", ("gpus-withdrawn",), id="one withdrawn"),
        pytest.param(
            node(allocatable=7, cordoned=True), 3, "bbbccccx", "bad", ("gpus-withdrawn", "cordoned"), id="and cordoned"
        ),
        pytest.param(
            node(allocatable=6), 8, "bbbbbbxx", "bad", ("gpus-withdrawn", "over-committed"), id="over-committed"
        ),
        pytest.param(node(allocatable=0), 0, "xxxxxxxx", "bad", ("gpus-withdrawn",), id="all withdrawn"),
        pytest.param(node(gpus=0), 0, "uuuuuuuu", "bad", ("gpus-missing",), id="no slots where GPUs should be"),
        pytest.param(
            node(gpus=0, ready="Unknown"), 0, "uuuuuuuu", "off", ("node-unreachable",), id="silent without slots"
        ),
        pytest.param(node(gpus={}, labels={}), 0, "", "", (), id="no GPU node"),
        pytest.param(
            node(gpus={}, labels={}, taints=MAINTENANCE), 0, "", "", (), id="a control plane's taint closes no GPU"
        ),
        pytest.param(
            node(gpus={GPU: "4", "nvidia.com/mig-1g.10gb": "3"}),
            2,
            "bbfffff",
            "",
            (),
            id="MIG after whole GPUs",
        ),
        pytest.param(node(gpus={GPU: "0", "nvidia.com/gpu.shared": "4"}), 0, "ffff", "", (), id="T12 b: not 0 GPUs"),
    ],
)
def test_cells_level_and_reasons(
    found: dict[str, Any], held: int, cells: str, level: str, reasons: tuple[str, ...]
) -> None:
    """design/README.md: with no source of health cells show allocation only; withdrawn devices are failed."""
    pods = [pod(f"p{i}") for i in range(held)]
    shown = row(found, *pods)
    assert (shown.cells, shown.level, shown.reasons) == (cells, level, reasons)
    assert not shown.measured


def test_a_node_counts_what_is_bound_and_not_finished() -> None:
    pods = [
        pod("running", gpus=2),
        pod("terminating", gpus=1, deletionTimestamp=EPOCH),
        pod("pulling", gpus=1, phase="Pending"),
        pod("over", gpus=2, phase="Succeeded"),
        pod("elsewhere", "n2", gpus=2),
        pod("waiting", "", gpus=2),
        pod("plain", gpus=0),
    ]
    shown = row(node(), *pods)
    assert shown.resources == (Resource(GPU, capacity=8, allocatable=8, allocated=4, free=4, overcommit=0),)
    assert shown.pods == 4


def test_pods_that_finish_give_their_gpus_back_though_their_row_stays_alike() -> None:
    """A container that has ended reads Completed before and after the phase follows."""
    ended = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}
    inventory = cluster.inventory(node(), pod(gpus=8, status=ended, resourceVersion="1"))
    before = inventory.snapshot()
    assert before.nodes["n1"].cells == "bbbbbbbb"
    inventory.apply(cluster.changed(pod(gpus=8, phase="Succeeded", status=ended, resourceVersion="2")))
    after = inventory.snapshot()
    assert after.pods["lab/p1"].status == before.pods["lab/p1"].status == "Completed"
    assert after.nodes["n1"].cells == "ffffffff"


def test_workloads_are_named_largest_first() -> None:
    shown = row(
        node(),
        pod("a", gpus=1, ownerReferences=owned_by("Job", "small")),
        pod("b", gpus=2, ownerReferences=owned_by("Job", "train")),
        pod("c", gpus=2, ownerReferences=owned_by("Job", "train")),
        pod("bare", gpus=1),
        pod("daemon", gpus=0, ownerReferences=owned_by("DaemonSet", "exporter")),
    )
    assert shown.gpu_workloads == ("train", "bare", "small")


def test_a_node_in_full() -> None:
    fields = {"f:spec": {"f:unschedulable": {}}}
    managed = [{"manager": "kubectl-cordon", "time": EPOCH, "fieldsV1": fields}]
    taints = (
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": GPU, "effect": "NoSchedule"},
        *MAINTENANCE,
    )
    shown = row(node(cordoned=True, taints=taints, managedFields=managed))
    assert shown == NodeRow(
        name="n1",
        zone="eu-west-1a",
        product="H100",
        product_name="NVIDIA-H100-80GB-HBM3",
        memory_mib=81559,
        cells="cccccccc",
        level="off",
        reasons=("cordoned",),
        usable=False,
        ready="True",
        unschedulable=True,
        cordoned_at=EPOCH_AT,
        cordoned_by="kubectl-cordon",
        taints=(
            "nvidia.com/gpu:NoSchedule",
            "maintenance=disk:NoSchedule",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ),
        closed_by="maintenance=disk:NoSchedule",
        physical=8,
        resources=(Resource(GPU, capacity=8, allocatable=8, allocated=0, free=8, overcommit=0),),
        conditions=(
            Condition("MemoryPressure", "False", since_at=EPOCH_AT),
            Condition("Ready", "True", "KubeletReady", since_at=EPOCH_AT),
        ),
        created_at=EPOCH_AT,
        boot_id="boot-n1",
        kubelet="v1.36.2",
        address="10.1.0.1",
    )


def test_a_heartbeat_changes_nothing() -> None:
    beating = cluster.node(resourceVersion="1")
    inventory = cluster.inventory(beating)
    before = inventory.snapshot()
    later = cluster.node(resourceVersion="2")
    later["status"]["conditions"][1]["lastHeartbeatTime"] = "2026-12-01T19:00:10Z"
    inventory.apply(cluster.changed(later))
    assert inventory.snapshot() is before


def test_labels_and_annotations_for_people() -> None:
    annotations = {
        "example.org/reason": "fan 3 is being replaced",
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "example.org/state": "x" * 257,
    }
    found = snapshot(node("n1", labels={"b": "2", "a": "1"}, annotations=annotations)).labels["n1"]
    assert found.labels == (("a", "1"), ("b", "2"))
    assert found.annotations == (("example.org/reason", "fan 3 is being replaced"),)
