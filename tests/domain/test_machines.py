"""What node labels say about a machine."""

from collections.abc import Mapping

import pytest

from fleet.domain import machines
from tests.domain.cluster import LABELS

PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-H100-NVL", "H100"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-GH200-480GB", "GH200"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("A100-SXM4-40GB", "A100"),
        ("NVIDIA-A10G", "A10G"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-L40S", "L40S"),
        ("Tesla-T4", "T4"),
        ("Tesla-V100-SXM2-32GB", "V100"),
        ("NVIDIA-GeForce-RTX-4090", "RTX 4090"),
        ("NVIDIA-GeForce-RTX-4070-Ti-SUPER", "RTX 4070 Ti SUPER"),
        ("NVIDIA-RTX-A6000", "RTX A6000"),
        ("NVIDIA-RTX-6000-Ada-Generation", "RTX 6000 Ada"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX PRO 6000"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "H100"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "H100"),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED", "A100"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("Intel-Data-Center-GPU-Max-1550", "Max 1550"),
        ("nvidia-h100-80gb", "H100"),
        ("nvidia-tesla-t4", "T4"),
        ("Something-New", "Something-New"),
        ("Something-New-SHARED", "Something-New"),
        ("", ""),
    ],
)
def test_products_have_short_names(name: str, short: str) -> None:
    assert machines.short_product(name) == short


@pytest.mark.parametrize(
    ("labels", "physical"),
    [
        pytest.param(LABELS, 8, id="whole"),
        pytest.param(
            LABELS | {PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "10"}, 8, id="T12 a"
        ),
        pytest.param(LABELS | {"nvidia.com/gpu.replicas": "10"}, 8, id="T12 b"),
        # only NVML knows the parents of MIG instances: unknown until a source reads it
        pytest.param(
            LABELS | {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "56"}, None, id="T12 c"
        ),
        pytest.param({"cloud.google.com/gke-accelerator-count": "4"}, 4, id="GKE"),
        pytest.param({}, None, id="no label"),
        pytest.param({"nvidia.com/gpu.count": "0"}, None, id="unknown is never 0"),
        pytest.param({"nvidia.com/gpu.count": "eight"}, None, id="no number"),
    ],
)
def test_physical_gpus_are_apart_from_slots(labels: Mapping[str, str], physical: int | None) -> None:
    assert machines.machine(labels).physical == physical


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        ({"vigie.dev/pool": "ours", "eks.amazonaws.com/nodegroup": "theirs"}, "ours"),
        ({"cloud.google.com/gke-nodepool": "a"}, "a"),
        ({"eks.amazonaws.com/nodegroup": "b"}, "b"),
        ({"karpenter.sh/nodepool": "c"}, "c"),
        ({"agentpool": "d"}, "d"),
        ({"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/worker": ""}, "gpu"),
        ({"node-role.kubernetes.io/gpu": "", "agentpool": "d"}, "d"),
        ({}, ""),
    ],
)
def test_pools_are_found_by_the_usual_labels(labels: Mapping[str, str], pool: str) -> None:
    assert machines.machine(labels).pool == pool


def test_a_machine_in_full() -> None:
    labels = LABELS | {
        "nvidia.com/cuda.driver.major": "550",
        "nvidia.com/cuda.driver.minor": "90",
        "nvidia.com/cuda.driver.rev": "07",
        "nvidia.com/cuda.runtime-version.full": "12.4",
        "node.kubernetes.io/instance-type": "gpu-8x-hopper",
        "nvidia.com/gpu.machine": "DGXH100",
    }
    assert machines.machine(labels) == machines.Machine(
        pool="",
        zone="eu-west-1a",
        product="H100",
        product_name="NVIDIA-H100-80GB-HBM3",
        memory_mib=81559,
        physical=8,
        driver="550.90.07",
        cuda="12.4",
        type="gpu-8x-hopper",
    )


def test_a_machine_without_labels_is_unknown_not_zero() -> None:
    found = machines.machine({})
    assert (found.product, found.memory_mib, found.physical, found.driver) == ("", None, None, "")
