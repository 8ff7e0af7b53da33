"""Sizes of pods, filters of nodes, and the words of a refusal."""

from typing import Any

import pytest

from fleet.simulation.placement import (
    Refusal,
    Room,
    affinity_matches,
    blocked,
    effective_request,
    quantity,
    tolerates,
    unavailable_message,
)
from tests.simulation.cluster import GPU

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("text", "cpu", "value"),
    [
        ("8", False, 8), ("250m", True, 250), ("2", True, 2000), ("0.1", True, 100), ("4Gi", False, 4 * 2**30),
        ("1500Ki", False, 1500 * 1024), ("1k", False, 1000), ("2M", False, 2_000_000), ("100m", False, 1),
        ("0", False, 0), ("1e3", False, 1000), ("1E", False, 10**18),
    ],
)  # fmt: skip
def test_quantities(text: str, cpu: bool, value: int) -> None:
    assert quantity(text, cpu=cpu) == value


@pytest.mark.parametrize("text", ["", "Gi", "4GiB", "x"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


def container(gpus: int, **more: Any) -> Object:
    return {"resources": {"limits": {GPU: str(gpus)}}, **more}


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [container(2)]}, 2),
        ({"containers": [container(1), container(2)]}, 3),
        ({"containers": [container(2)], "initContainers": [container(4)]}, 4),
        ({"containers": [container(2)], "initContainers": [container(1, restartPolicy="Always")]}, 3),
        # a plain init container runs beside the sidecars that were started before it, not those after it
        ({"containers": [container(1)], "initContainers": [container(2, restartPolicy="Always"), container(3)]}, 5),
        ({"containers": [container(1)], "initContainers": [container(3), container(2, restartPolicy="Always")]}, 3),
        ({"containers": [container(1)], "overhead": {GPU: "1"}}, 2),
    ],
)  # fmt: skip
def test_effective_request(spec: Object, gpus: int) -> None:
    assert effective_request(spec)[GPU] == gpus


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "value": "1"}, True),
        ({"key": "a", "value": "2"}, False),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: Object, holds: bool) -> None:
    assert tolerates([toleration], {"key": "a", "value": "1", "effect": "NoSchedule"}) is holds


def node(name: str = "n", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["x", "y"], True), ("In", ["z"], False), ("NotIn", ["x"], False), ("NotIn", ["z"], True), ("Exists", [], True),
        ("DoesNotExist", [], False), ("Gt", ["3"], True), ("Lt", ["3"], False), ("Gt", ["7"], False),
    ],
)  # fmt: skip
def test_required_node_affinity(operator: str, values: list[str], holds: bool) -> None:
    value = "5" if operator in {"Gt", "Lt"} else "x"
    term = {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert affinity_matches({"affinity": {"nodeAffinity": required}}, node(labels={"k": value})) is holds


def test_the_first_filter_that_fails_gives_the_reason() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert blocked({}, node(unschedulable=True, taints=[cordon])) == Refusal(
        ("node(s) were unschedulable",), hopeless=True
    )
    assert blocked({}, node(taints=[{"key": "a", "effect": "NoExecute"}])) == Refusal(
        ("node(s) had untolerated taint(s)",), hopeless=True
    )
    assert blocked({}, node(taints=[{"key": "a", "effect": "PreferNoSchedule"}])) is None
    tolerant = {"tolerations": [{**cordon, "operator": "Exists"}]}
    assert blocked(tolerant, node(unschedulable=True, taints=[cordon])) is None
    assert blocked({"nodeSelector": {"a": "b"}}, node()) == Refusal(
        ("node(s) didn't match Pod's node affinity/selector",), hopeless=True
    )


def test_the_message_is_that_of_a_real_scheduler() -> None:
    full = Refusal((f"Insufficient {GPU}",), hopeless=False)
    small = Refusal((f"Insufficient {GPU}",), hopeless=True)
    cordoned = Refusal(("node(s) were unschedulable",), hopeless=True)
    other = Refusal(("node(s) didn't match Pod's node affinity/selector",), hopeless=True)
    assert unavailable_message(8, [full] * 8) == (
        f"0/8 nodes are available: 8 Insufficient {GPU}. no new claims to deallocate, "
        "preemption: 0/8 nodes are available: 8 No preemption victims found for incoming pod."
    )
    assert unavailable_message(8, [small] * 8) == (
        f"0/8 nodes are available: 8 Insufficient {GPU}. no new claims to deallocate, "
        "preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    )
    assert unavailable_message(8, [cordoned, *[other] * 7]) == (
        "0/8 nodes are available: 1 node(s) were unschedulable, 7 node(s) didn't match Pod's node affinity/selector. "
        "no new claims to deallocate, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    )
    assert unavailable_message(0, []) == "no nodes available to schedule pods"


def test_room_tells_every_shortage_and_whether_removal_would_help() -> None:
    room = Room(allocatable={"cpu": 1000, GPU: 8, "pods": 1})
    assert room.refuses({GPU: 8}) is None
    room.take({GPU: 6, "cpu": 900})
    assert room.refuses({GPU: 4, "cpu": 200}) == Refusal(
        ("Too many pods", f"Insufficient {GPU}", "Insufficient cpu"), hopeless=False
    )
    assert room.refuses({GPU: 9}) == Refusal(("Too many pods", f"Insufficient {GPU}"), hopeless=True)
    room.give_back({GPU: 6, "cpu": 900})
    assert room.free(GPU) == 8
