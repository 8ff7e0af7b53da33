"""Watches of a real API server (Kubernetes 1.36.2): what the inventory makes of them, wherever a stream breaks.

The recordings hold what `kube` reads; of managedFields only the entries that own the cordon.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import kube
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Kind, Listed
from fleet.domain.picture import NodeRow, Snapshot
from tests.domain.cluster import KIND_OF, changed

WATCHES = Path(__file__).parent.parent / "data" / "watches"
NAMES = sorted(path.stem for path in WATCHES.glob("*.jsonl"))


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WATCHES / f"{name}.jsonl").read_text().splitlines()]


RECORDED = {name: recorded(name) for name in NAMES}
EVENTS = {
    name: [kube.watch_line(KIND_OF[line["object"]["kind"]], json.dumps(line).encode()) for line in lines]
    for name, lines in RECORDED.items()
}


def feed(events: Iterable[Any], made: Inventory) -> Inventory:
    for event in events:
        made.apply(event)
    return made


def lists(name: str) -> list[Listed]:
    """What a list of every kind answers once the recording is over."""
    current: dict[Kind, dict[str, Any]] = {kind: {} for kind in Kind}
    for line in RECORDED[name]:
        found = line["object"]
        meta = found["metadata"]
        if line["type"] == "DELETED":
            current[KIND_OF[found["kind"]]].pop((meta.get("namespace"), meta["name"]), None)
        else:
            current[KIND_OF[found["kind"]]][meta.get("namespace"), meta["name"]] = found
    return [
        Listed(kind, tuple(changed(one).object for one in found.values()), "end") for kind, found in current.items()
    ]


LISTS = {name: lists(name) for name in NAMES}
WHOLE = {name: feed(EVENTS[name], Inventory()).snapshot() for name in NAMES}


def test_there_are_recordings() -> None:
    assert len(NAMES) >= 5
    assert all(WHOLE[name].pods or WHOLE[name].nodes for name in NAMES)


@given(name=st.sampled_from(NAMES), data=st.data())
def test_any_prefix_and_a_relist_equal_the_whole(name: str, data: st.DataObject) -> None:
    """The stream broke somewhere, everything in between was missed, and lists of all kinds came in any order."""
    cut = data.draw(st.integers(0, len(EVENTS[name])), label="cut")
    made = feed(EVENTS[name][:cut], Inventory())
    if data.draw(st.booleans(), label="looked before the relist"):
        made.snapshot()
    feed(data.draw(st.permutations(LISTS[name]), label="lists"), made)
    assert made.snapshot() == WHOLE[name]
    assert made.complete


@given(name=st.sampled_from(NAMES), data=st.data())
def test_streams_of_kinds_may_break_at_different_places(name: str, data: st.DataObject) -> None:
    made = Inventory()
    for kind in Kind:
        own = [event for event in EVENTS[name] if event.kind is kind]
        feed(own[: data.draw(st.integers(0, len(own)), label=kind.value)], made)
        made.snapshot()
    assert feed(LISTS[name], made).snapshot() == WHOLE[name]


@pytest.mark.parametrize("name", NAMES)
def test_looking_after_every_event_changes_nothing(name: str) -> None:
    made = Inventory()
    for event in EVENTS[name]:
        made.apply(event)
        made.snapshot()
    assert made.snapshot() == WHOLE[name]


def steps(name: str) -> list[Snapshot]:
    """Every different picture on the way."""
    made = Inventory()
    found: list[Snapshot] = []
    for event in EVENTS[name]:
        made.apply(event)
        shown = made.snapshot()
        if not found or shown is not found[-1]:
            found.append(shown)
    return found


def rows(name: str, node: str) -> list[NodeRow]:
    found: list[NodeRow] = []
    for step in steps(name):
        row = step.nodes.get(node)
        if row is not None and (not found or row is not found[-1]):
            found.append(row)
    return found


def test_a_recorded_cordon_flips_between_two_pictures() -> None:
    found = rows("cordon", "gpu-node-07")
    assert {(row.unschedulable, row.usable, row.cells, row.level) for row in found} == {
        (True, False, "cccccccc", "off"),
        (False, True, "ffffffff", ""),
    }
    assert all((row.cordoned_at is not None and row.cordoned_by != "") is row.unschedulable for row in found)
    cordon = ("node.kubernetes.io/unschedulable:NoSchedule",)
    assert all(row.taints == (cordon if row.unschedulable else ()) for row in found)


def test_a_recorded_node_falls_silent_comes_back_and_loses_gpus() -> None:
    """api-server.md 33 and 34."""
    found = rows("node_notready", "gpu-node-06")
    reasons = [row.reasons for row in found]
    assert ("node-unreachable",) in reasons
    assert ("node-not-ready",) in reasons
    assert any("gpus-withdrawn" in reason for reason in reasons)
    assert all(row.cells == "u" * 8 for row in found if row.ready != "True")
    lingering = [row for row in found if row.reasons == ("node-tainted",)]
    assert lingering, "the NoExecute taint outlives the silence"
    assert all(not row.usable and row.ready == "True" for row in lingering)
    withdrawn = [row for row in found if "gpus-withdrawn" in row.reasons]
    assert all("x" in row.cells and row.level == "bad" for row in withdrawn)
    assert not any(row.unschedulable for row in found)


def test_pods_on_a_silent_node_stay_running_and_are_not_ready() -> None:
    """api-server.md 33: phase Running, Ready False, then Terminating without end; they hold their GPUs all the while."""
    on_silent = [
        pod
        for step in steps("node_notready")
        if (row := step.nodes.get("gpu-node-06")) is not None and row.ready == "Unknown"
        for pod in step.pods.values()
        if pod.node == "gpu-node-06" and pod.gpus
    ]
    assert {pod.status for pod in on_silent} >= {"Running", "Terminating"}
    assert {"warn", "drain"} <= {pod.level for pod in on_silent}


def test_a_recorded_rollout_restart_keeps_one_workload() -> None:
    found = steps("deployment_restart")
    keys = {key for step in found for key in step.workloads if key.startswith("Deployment/")}
    assert keys == {"Deployment/rollout/chat"}
    last = found[-1].workloads["Deployment/rollout/chat"]
    assert (last.desired, last.updated, last.ready, last.available) == (4, 4, 4, 4)
    assert {pod.workload for pod in found[-1].pods.values()} == {"Deployment/rollout/chat"}
    held = {
        step.workloads["Deployment/rollout/chat"].gpus for step in found if "Deployment/rollout/chat" in step.workloads
    }
    assert max(held) == 5, "with maxSurge 0 a terminating pod still holds its GPU beside the new one"


def test_a_recorded_pod_that_cannot_be_placed_waits_with_the_schedulers_words() -> None:
    waiting = [
        row for step in steps("deployment_stuck") for row in step.attention.values() if row.kind == "pods-waiting"
    ]
    assert waiting
    assert {row.subject for row in waiting} == {"Deployment/stuck/chat"}
    assert any("Insufficient nvidia.com/gpu" in str(dict(row.facts)["message"]) for row in waiting)


def test_a_recorded_eviction_is_terminating_until_it_is_gone() -> None:
    words = {pod.status for step in steps("eviction_flow") for pod in step.pods.values()}
    assert "Terminating" in words
    ending = [pod for step in steps("eviction_flow") for pod in step.pods.values() if pod.status == "Terminating"]
    assert all(pod.terminating_at is not None and pod.level == "drain" for pod in ending)
    assert all(pod.status != "Terminating" for pod in steps("eviction_flow")[-1].pods.values())


def test_recorded_jobs_end() -> None:
    last = WHOLE["job_eviction"]
    assert {row.kind for row in last.workloads.values()} == {"Job"}
    assert all(row.owner_kind == "Job" for row in last.pods.values())
    assert {"Completed", "Error"} & {row.status for row in last.pods.values()}
