"""GPU accounting: kubernetes.md §b8, gpu.md §4 and its case T12."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import capacity, kube
from fleet.domain.picture import Resource
from tests.domain import cluster
from tests.domain.cluster import GPU, container, sidecar

MIG = "nvidia.com/mig-1g.10gb"


def pod_spec(containers: list[Any], init: list[Any] = (), **more: Any) -> kube.PodSpec:
    found = cluster.decoded(cluster.pod(spec={"containers": containers, "initContainers": list(init), **more}))
    assert isinstance(found, kube.Pod)
    return found.spec


def node(*args: Any, **more: Any) -> kube.Node:
    found = cluster.decoded(cluster.node(*args, **more))
    assert isinstance(found, kube.Node)
    return found


def resource_of(found: kube.Node, requested: Mapping[str, int] | None = None) -> Resource:
    (only,) = capacity.resources(found, requested or {})
    return only


@pytest.mark.parametrize(
    ("containers", "init", "slots"),
    [
        pytest.param([container(2)], [], 2, id="one container"),
        pytest.param([container(2), container(1, "b")], [], 3, id="containers add up"),
        pytest.param(
            [container(2)], [container(4, "init")], 4, id="a larger init container counts for the pod's whole life"
        ),
        pytest.param([container(2)], [container(1, "init")], 2, id="a smaller init container does not count"),
        pytest.param([container(1)], [container(3, "a"), container(3, "b")], 3, id="init containers run one by one"),
        pytest.param([container(1)], [sidecar(1)], 2, id="a sidecar stays"),
        pytest.param(
            [container(1)],
            [sidecar(1), container(4, "init")],
            5,
            id="a sidecar before an init container runs beside it",
        ),
        pytest.param([container(1)], [container(4, "init"), sidecar(1)], 4, id="a sidecar after it does not"),
        pytest.param(
            [container(1)],
            [sidecar(1, "s1"), container(2, "init"), sidecar(3, "s2")],
            5,
            id="sum of all sidecars beats the peak",
        ),
        pytest.param([container(0)], [], 0, id="none"),
        pytest.param([container(0)], [container(8, "init")], 8, id="only an init container"),
    ],
)
def test_effective_requests(containers: list[Any], init: list[Any], slots: int) -> None:
    assert capacity.effective_requests(pod_spec(containers, init)) == ({GPU: slots} if slots else {})


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {GPU: "2"}},
        {"requests": {GPU: "2"}},
        {"requests": {GPU: "2"}, "limits": {GPU: "2"}},
        {"requests": {"cpu": "1"}, "limits": {GPU: "2", "cpu": "2"}},
    ],
)
def test_limits_alone_suffice(resources: dict[str, Any]) -> None:
    assert capacity.effective_requests(pod_spec([{"name": "main", "resources": resources}])) == {GPU: 2}


def test_overhead_holds_no_gpu() -> None:
    assert capacity.effective_requests(pod_spec([container(2)], overhead={"cpu": "250m", GPU: "1"})) == {GPU: 2}


def test_resources_are_counted_each_by_its_name() -> None:
    containers = [container({GPU: "1", MIG: "2", "cpu": "4"}), container({MIG: "1"}, "b")]
    init = [container({"nvidia.com/gpu.shared": "1"}, "init")]
    assert capacity.effective_requests(pod_spec(containers, init)) == {GPU: 1, MIG: 3, "nvidia.com/gpu.shared": 1}


@pytest.mark.parametrize(
    ("name", "is_gpu", "shared", "partition"),
    [
        (GPU, True, False, False),
        ("nvidia.com/gpu.shared", True, True, False),
        (MIG, True, False, True),
        ("nvidia.com/mig-1g.10gb.me", True, False, True),
        ("nvidia.com/mig-1g.10gb.shared", True, True, True),
        ("amd.com/gpu", True, False, False),
        ("amd.com/cpx_nps4", True, False, True),
        ("gpu.intel.com/i915", True, False, False),
        ("gpu.intel.com/xe", True, False, False),
        ("habana.ai/gaudi", True, False, False),
        ("gpu.intel.com/i915_monitoring", False, False, False),
        ("google.com/tpu", False, False, False),
        ("nvidia.com/gpumem", False, False, False),
        ("cpu", False, False, False),
        ("hugepages-1Gi", False, False, False),
    ],
)
def test_which_resources_are_gpus(name: str, is_gpu: bool, shared: bool, partition: bool) -> None:
    found = capacity.gpu_name(name)
    assert (found is not None) is is_gpu
    assert found is None or (found.shared, found.partition) == (shared, partition)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (cluster.pod(), True),
        (cluster.pod(phase="Pending"), True),
        (cluster.pod(deletionTimestamp=cluster.EPOCH), True),
        (cluster.pod(phase="Succeeded"), False),
        (cluster.pod(phase="Failed"), False),
        (cluster.pod(node=""), False),
    ],
    ids=["running", "pulling its image", "terminating", "succeeded", "failed", "not bound"],
)
def test_which_pods_hold_their_gpus(found: dict[str, Any], holds: bool) -> None:
    pod = cluster.decoded(found)
    assert isinstance(pod, kube.Pod)
    assert capacity.counted(pod) is holds


@pytest.mark.parametrize(
    ("gpus", "allocatable", "requested", "free", "overcommit"),
    [
        (8, 8, 0, 8, 0),
        (8, 8, 5, 3, 0),
        (8, 8, 8, 0, 0),
        (8, 7, 5, 2, 0),  # a withdrawn device is not free
        (8, 6, 8, 0, 2),  # running pods stay when devices are withdrawn: never below zero
        (8, 0, 0, 0, 0),
    ],
)
def test_free_is_what_is_allocatable_and_not_requested(
    gpus: int, allocatable: int, requested: int, free: int, overcommit: int
) -> None:
    found = resource_of(node(gpus=gpus, allocatable=allocatable), {GPU: requested})
    assert (found.capacity, found.allocatable, found.free, found.overcommit) == (gpus, allocatable, free, overcommit)


def test_pods_on_a_node_that_lost_its_resource_are_overcommitted() -> None:
    assert resource_of(node(gpus={}), {GPU: 2}) == Resource(
        GPU, capacity=0, allocatable=0, allocated=2, free=0, overcommit=2
    )


SHARED = cluster.LABELS | {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "10"}
SINGLE_MIG = cluster.LABELS | {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    "nvidia.com/gpu.count": "56",
}


@pytest.mark.parametrize(
    ("gpus", "labels", "slots"),
    [
        pytest.param({GPU: "80"}, SHARED, [(GPU, 80, True, False)], id="T12 a: time slicing"),
        pytest.param(
            {GPU: "0", "nvidia.com/gpu.shared": "80"},
            cluster.LABELS | {"nvidia.com/gpu.replicas": "10"},
            [("nvidia.com/gpu.shared", 80, True, False)],
            id="T12 b: renamed to gpu.shared",
        ),
        pytest.param({GPU: "56"}, SINGLE_MIG, [(GPU, 56, False, True)], id="T12 c: MIG with the single strategy"),
        pytest.param(
            {MIG: "14", GPU: "6", "nvidia.com/mig-3g.40gb": "2"},
            cluster.LABELS,
            [(GPU, 6, False, False), (MIG, 14, False, True), ("nvidia.com/mig-3g.40gb", 2, False, True)],
            id="MIG with the mixed strategy",
        ),
        pytest.param(
            {MIG: "28"},
            cluster.LABELS | {f"{MIG}.replicas": "2"},
            [(MIG, 28, True, True)],
            id="shares of MIG instances",
        ),
        pytest.param(
            {GPU: "4"},
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-max-shared-clients-per-gpu": "2"},
            [(GPU, 4, True, False)],
            id="time slicing on GKE",
        ),
        pytest.param({}, cluster.LABELS, [], id="nothing offered"),
    ],
)
def test_slots_are_named_for_what_they_are(
    gpus: Mapping[str, str], labels: Mapping[str, str], slots: list[tuple[str, int, bool, bool]]
) -> None:
    found = capacity.resources(node(gpus=gpus, labels=labels), {})
    assert [(r.name, r.allocatable, r.shared, r.mig) for r in found] == slots


@pytest.mark.parametrize(
    ("gpus", "labels", "kinds"),
    [
        ({GPU: "8"}, cluster.LABELS, ["H100"]),
        ({GPU: "80"}, SHARED, ["H100 shared"]),
        ({GPU: "56"}, SINGLE_MIG, ["H100 1g.10gb"]),
        ({GPU: "4", MIG: "14"}, cluster.LABELS, ["H100", "H100 1g.10gb"]),
        ({"amd.com/gpu": "8"}, {}, ["amd.com/gpu"]),
    ],
)
def test_only_alike_slots_share_a_kind(gpus: Mapping[str, str], labels: Mapping[str, str], kinds: list[str]) -> None:
    found = node(gpus=gpus, labels=labels)
    product = labels.get("nvidia.com/gpu.product", "")
    assert [capacity.kind_of_slot(product, r) for r in capacity.resources(found, {})] == kinds


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


UNSCHEDULABLE = taint("node.kubernetes.io/unschedulable")


@pytest.mark.parametrize(
    ("more", "usable"),
    [
        pytest.param({}, True, id="healthy"),
        pytest.param({"ready": "False"}, False, id="not ready"),
        pytest.param({"ready": "Unknown"}, False, id="unreachable"),
        pytest.param({"cordoned": True, "taints": (UNSCHEDULABLE,)}, False, id="cordoned"),
        pytest.param({"cordoned": True}, False, id="cordoned, the taint is still to come"),
        pytest.param({"taints": (UNSCHEDULABLE,)}, True, id="uncordoned, the taint is still to go"),
        pytest.param({"taints": (taint("maintenance"),)}, False, id="a taint of somebody's"),
        pytest.param({"taints": (taint("maintenance", "NoExecute"),)}, False, id="one that evicts"),
        pytest.param({"taints": (taint("maintenance", "PreferNoSchedule"),)}, True, id="one that only prefers"),
        pytest.param(
            {"taints": (taint("node.kubernetes.io/unreachable", "NoExecute"),)}, False, id="it lingers after recovery"
        ),
        pytest.param({"taints": (taint(GPU, value="present"),)}, True, id="GPU pods only"),
        pytest.param({"taints": (taint("amd.com/gpu"), taint("habana.ai/gaudi"))}, True, id="another vendor's"),
        pytest.param({"taints": (taint("sku", value="gpu"),)}, True, id="AKS"),
        pytest.param({"taints": (taint("sku", value="arm"),)}, False, id="another sku"),
        pytest.param({"taints": (taint("dedicated", value="team-a"),)}, True, id="reserved for its tenants"),
        pytest.param({"taints": (taint(GPU), taint("maintenance"))}, False, id="one of two closes it"),
    ],
)
def test_a_usable_node_takes_new_gpu_pods(more: dict[str, Any], usable: bool) -> None:
    """api-server.md 18: field and taint of a cordon disagree for some 10-30 ms; 33: the NoExecute taint lingers."""
    assert capacity.usable(node(**more)) is usable


def test_a_node_without_a_ready_condition_is_not_usable() -> None:
    found = cluster.node()
    found["status"]["conditions"] = []
    assert not capacity.usable(cluster.decoded(found))


def entry(manager: str, time: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}


CORDON = {"f:spec": {"f:unschedulable": {}}}


@pytest.mark.parametrize(
    ("cordoned", "entries", "owner"),
    [
        (True, [entry("kubectl-cordon", "2026-12-01T19:00:00Z", CORDON)], ("kubectl-cordon", cluster.EPOCH_AT)),
        (
            True,
            [
                entry("kubelet", "2026-12-01T20:00:00Z", {"f:metadata": {"f:labels": {".": {}}}}),
                entry("old", "2026-12-01T18:00:00Z", CORDON),
                entry("gpu-operator", "2026-12-01T19:00:00Z", CORDON),
                entry("kube-controller-manager", "2026-12-01T21:00:00Z", {"f:spec": {"f:taints": {}}}),
            ],
            ("gpu-operator", cluster.EPOCH_AT),
        ),
        (True, [], ("", None)),
        (False, [entry("kubectl", "2026-12-01T19:00:00Z", CORDON)], ("", None)),
    ],
    ids=["one", "the last of several", "nobody recorded", "not cordoned"],
)
def test_who_cordoned_and_when(cordoned: bool, entries: list[Any], owner: tuple[str, float | None]) -> None:
    assert capacity.cordon(node(cordoned=cordoned, managedFields=entries)) == owner


@pytest.mark.parametrize(
    ("pieces", "free", "largest", "slots", "fragmentation"),
    [
        ([], 0, 0, [0, 0, 0, 0], [None, None, None, None]),
        ([(0, 5)], 0, 0, [0, 0, 0, 0], [None, None, None, None]),
        ([(8, 1)], 8, 8, [8, 4, 2, 1], [0, 0, 0, 0]),
        ([(1, 8)], 8, 1, [8, 0, 0, 0], [0, 1, 1, 1]),
        # floor per node, never floor of the sum: 3 + 3 + 2 = 8, and yet no room for 4
        ([(3, 2), (2, 1)], 8, 3, [8, 3, 0, 0], [0, 0.25, 1, 1]),
        ([(7, 1), (5, 1)], 12, 7, [12, 5, 2, 0], [0, 0.167, 0.333, 1]),
    ],
)
def test_holes(
    pieces: list[tuple[int, int]], free: int, largest: int, slots: list[int], fragmentation: list[float | None]
) -> None:
    found = capacity.holes(pieces)
    assert (found.free, found.largest) == (free, largest)
    assert dict(found.slots) == dict(zip(capacity.SIZES, slots, strict=True))
    assert dict(found.fragmentation) == dict(zip(capacity.SIZES, fragmentation, strict=True))


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(1, 20)), max_size=8))
def test_holes_agree_with_counting_node_by_node(pieces: list[tuple[int, int]]) -> None:
    nodes = [free for free, count in pieces for _ in range(count)]
    found = capacity.holes(pieces)
    assert found.free == sum(nodes)
    assert found.largest == max(nodes, default=0)
    assert dict(found.slots) == {k: sum(free // k for free in nodes) for k in capacity.SIZES}
    assert all(part is None or 0 <= part <= 1 for _, part in found.fragmentation)
