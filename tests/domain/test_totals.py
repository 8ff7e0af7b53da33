"""Totals of the fleet and of each product."""

from typing import Any

import pytest

from fleet.domain.picture import FleetRow, ProductRow
from tests.domain.cluster import EPOCH_AT, GPU, LABELS, node, pod, snapshot

A100 = LABELS | {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
SHARED = LABELS | {
    "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
    "nvidia.com/gpu.replicas": "10",
    "nvidia.com/gpu.count": "1",
}
MIG = LABELS | {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "56"}
TAINT = ({"key": "maintenance", "effect": "NoSchedule"},)


def fleet(*objects: dict[str, Any]) -> FleetRow:
    return snapshot(*objects).fleet["fleet"]


def test_an_empty_cluster_has_totals_too() -> None:
    found = fleet()
    assert (found.nodes, found.gpus, found.physical, found.largest_hole) == (0, 0, 0, 0)
    assert found.slots == ((1, 0), (2, 0), (4, 0), (8, 0))


def test_every_slot_is_counted_once() -> None:
    """gpus = available + cordoned + tainted + silent + withdrawn."""
    found = fleet(
        node("open", allocatable=7),
        node("cordoned", cordoned=True, allocatable=6),
        node("tainted", taints=TAINT),
        node("silent", ready="Unknown", allocatable=5),
        node("cpu", gpus={}, labels={}),
    )
    parts = (found.available, found.cordoned, found.tainted, found.silent, found.withdrawn)
    assert parts == (7, 6, 8, 8, 3)
    assert (found.gpus, found.nodes, found.gpu_nodes, found.nodes_ready, found.physical) == (32, 5, 4, 4, 32)


def test_free_counts_on_usable_nodes_only() -> None:
    found = fleet(
        node("a"),
        node("b"),
        node("closed", cordoned=True),
        node("silent", ready="False"),
        pod("p1", "a", gpus=6),
        pod("p2", "b", gpus=3),
        pod("p3", "closed", gpus=4),
    )
    assert (found.allocated, found.free) == (13, 7)
    assert (found.largest_hole, found.largest_hole_node, found.largest_hole_product) == (5, "b", "H100")
    assert dict(found.slots) == {1: 7, 2: 3, 4: 1, 8: 0}
    assert dict(found.fragmentation) == {1: 0, 2: 0.143, 4: 0.429, 8: 1}


def test_of_equal_holes_the_first_node_is_named() -> None:
    found = fleet(node("b"), node("a"), node("c", allocatable=7))
    assert (found.largest_hole, found.largest_hole_node) == (8, "a")


def test_overcommitment_does_not_eat_what_is_free_elsewhere() -> None:
    found = fleet(node("a", allocatable=2), node("b"), pod("p1", "a", gpus=4))
    assert (found.free, found.overcommit) == (8, 2)


def test_a_percentage_never_crosses_products() -> None:
    found = snapshot(node("h"), node("a", labels=A100), pod("p", "a", gpus=7))
    assert found.fleet["fleet"].fragmentation == ()
    assert dict(found.fleet["fleet"].slots)[2] == 4
    assert dict(found.products["H100"].fragmentation)[2] == 0
    assert dict(found.products["A100"].fragmentation)[2] == 1


def test_products_in_full() -> None:
    found = snapshot(node("h1"), node("h2", cordoned=True), node("h3", allocatable=6), pod("p", "h1", gpus=5))
    assert found.products == {
        "H100": ProductRow(
            product="H100",
            nodes=3,
            gpus=22,
            available=14,
            allocated=5,
            free=9,
            largest_hole=6,
            largest_hole_node="h3",
            slots=((1, 9), (2, 4), (4, 1), (8, 0)),
            fragmentation=((1, 0.0), (2, 0.111), (4, 0.556), (8, 1.0)),
        )
    }


def test_nothing_free_makes_fragmentation_not_applicable() -> None:
    found = snapshot(node(gpus=2), pod(gpus=2))
    assert dict(found.products["H100"].fragmentation) == {1: None, 2: None, 4: None, 8: None}


def test_shares_and_instances_are_products_of_their_own() -> None:
    found = snapshot(node("l", gpus=10, labels=SHARED), node("m", gpus=56, labels=MIG), node("h", gpus=4))
    assert {key: row.gpus for key, row in found.products.items()} == {"H100": 4, "H100 1g.10gb": 56, "L4 shared": 10}
    fleet_row = found.fleet["fleet"]
    assert fleet_row.gpus == 70
    assert (fleet_row.largest_hole, fleet_row.largest_hole_node) == (4, "h")


def test_physical_gpus_are_unknown_when_one_node_is() -> None:
    assert fleet(node("a"), node("l", gpus=10, labels=SHARED)).physical == 9
    assert fleet(node("a"), node("m", gpus=56, labels=MIG)).physical is None
    assert fleet(node("a"), node("x", gpus=4, labels={})).physical is None


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        ({}, True),
        ({"gpus": 0}, False),
        ({"deletionTimestamp": "2026-12-01T19:00:00Z"}, False),
        ({"status": {"phase": "Failed"}}, False),
        ({"node": "n1"}, False),
    ],
)
def test_which_pods_wait_for_gpus(more: dict[str, Any], waits: bool) -> None:
    assert fleet(node(), pod(**({"node": ""} | more))).waiting_pods == int(waits)


def test_the_oldest_that_waits_is_named() -> None:
    found = fleet(
        pod("young", "", gpus=2, creationTimestamp="2026-12-01T19:30:00Z"),
        pod("old", "", gpus=4),
        pod("old-too", "", gpus=1),
        pod("ageless", "", gpus=1, creationTimestamp=None),
    )
    assert (found.waiting_pods, found.waiting_oldest, found.waiting_gpus, found.waiting_since_at) == (
        4,
        "lab/old",
        4,
        EPOCH_AT,
    )


def test_the_legend_counts_every_state() -> None:
    found = dict(
        fleet(node("a", allocatable=7), node("b", ready="Unknown"), node("c", cordoned=True), pod("p", "a")).cells
    )
    expected = {"busy": 1, "free": 6, "idle": 0, "degraded": 0, "failed": 1, "draining": 0, "cordoned": 8, "unknown": 8}
    assert found == expected


def test_a_gpu_that_another_vendor_offers_is_named_by_its_resource() -> None:
    found = snapshot(node("amd", gpus={"amd.com/gpu": "8"}, labels={}), node("n", gpus={GPU: "2"}, labels={}))
    assert set(found.products) == {"amd.com/gpu", "nvidia.com/gpu"}
