"""The seeded fleet: what is there at the start, that it is at rest, and that a seed always gives the same."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from fleet.simulation.clock import ManualClock, parse_stamp
from fleet.simulation.heartbeats import Heartbeats
from fleet.simulation.placement import FINISHED, amounts, effective_request
from fleet.simulation.rehearsal import Rehearsal
from fleet.simulation.seed import Seed
from fleet.simulation.store import Store
from tests.simulation.cluster import GPU, condition

Object = dict[str, Any]


@pytest.fixture(scope="module")
def store() -> Store:
    return planted()


def planted(seed: int = 1, nodes: int = 24, pods: int | None = None) -> Store:
    made = Store(ManualClock(), seed=seed)
    Seed(made, seed).plant(nodes, pods)
    return made


def free_gpus(store: Store) -> dict[str, int]:
    """Per node what is allocatable less what bound, unfinished pods hold."""
    free = {n["metadata"]["name"]: amounts(n["status"]["allocatable"])[GPU] for n in store.list("nodes")}
    for pod in store.list("pods"):
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in FINISHED:
            free[pod["spec"]["nodeName"]] -= effective_request(pod["spec"]).get(GPU, 0)
    return free


def test_it_is_the_fleet_of_the_drawings(store: Store) -> None:
    nodes = store.list("nodes")
    assert [n["metadata"]["name"] for n in nodes] == [f"node-{i:02d}" for i in range(1, 25)]
    assert sum(int(n["status"]["capacity"][GPU]) for n in nodes) == 192
    labels = [n["metadata"]["labels"] for n in nodes]
    groups = Counter(
        (found["vigie.dev/pool"], found["topology.kubernetes.io/zone"], found["nvidia.com/gpu.product"])
        for found in labels
    )
    assert groups == {
        ("train", "par1-a", "NVIDIA-H100-80GB-HBM3"): 6,
        ("train", "par1-b", "NVIDIA-H100-80GB-HBM3"): 6,
        ("infer", "par1-a", "NVIDIA-A100-SXM4-80GB"): 6,
        ("infer", "par1-b", "NVIDIA-L4"): 6,
    }
    free = free_gpus(store)
    assert min(free.values()) == 0
    assert free["node-16"] == 8
    assert free["node-11"] == 7
    assert sum(free.values()) - free["node-16"] == 28


def test_everything_that_has_a_node_runs_and_is_ready(store: Store) -> None:
    for pod in store.list("pods"):
        if pod["spec"].get("nodeName"):
            assert pod["status"]["phase"] == "Running"
            assert condition(pod, "Ready")["status"] == "True"
    addresses = [
        p["status"]["podIP"]
        for p in store.list("pods")
        if p["spec"].get("nodeName") and not p["spec"].get("hostNetwork")
    ]
    assert len(addresses) == len(set(addresses))


def test_a_few_pods_wait_and_have_been_told_why(store: Store) -> None:
    waiting = {p["metadata"]["name"]: p for p in store.list("pods") if not p["spec"].get("nodeName")}
    assert {"rl-policy-0", "vlm-sft-13b-0"} < set(waiting)
    assert len(waiting) == 3
    for pod in waiting.values():
        told = condition(pod, "PodScheduled")
        assert told["reason"] == "Unschedulable"
        assert told["message"].startswith("0/24 nodes are available: ")
        assert f"Insufficient {GPU}" in told["message"]
    asked_s = store.clock.now() - parse_stamp(waiting["rl-policy-0"]["metadata"]["creationTimestamp"])
    assert 17 * 60 < asked_s < 19 * 60


def test_one_node_has_been_cordoned_for_six_days(store: Store) -> None:
    cordoned = [n for n in store.list("nodes") if n["spec"].get("unschedulable")]
    assert [n["metadata"]["name"] for n in cordoned] == ["node-16"]
    (taint,) = cordoned[0]["spec"]["taints"]
    assert taint["key"] == "node.kubernetes.io/unschedulable"
    setter = next(
        m for m in cordoned[0]["metadata"]["managedFields"] if "f:unschedulable" in m["fieldsV1"].get("f:spec", {})
    )
    assert setter["manager"] == "kubectl-cordon"
    for moment in (taint["timeAdded"], setter["time"]):
        assert 6.0 <= (store.clock.now() - parse_stamp(moment)) / 86400 < 6.5


def test_controllers_say_that_all_is_well(store: Store) -> None:
    for deployment in store.list("deployments"):
        status = deployment["status"]
        assert status["replicas"] == status["updatedReplicas"] == status["availableReplicas"]
        assert condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    for daemons in store.list("daemonsets"):
        assert daemons["status"]["numberAvailable"] == 24
    assert {b["metadata"]["name"] for b in store.list("poddisruptionbudgets")} == {
        "embed-api",
        "llm-chat",
        "ocr-api",
        "prompt-gateway",
        "prompt-gateway-at-night",
        "rerank-api",
    }
    for budget in store.list("poddisruptionbudgets"):
        assert budget["status"]["disruptionsAllowed"] > 0


def test_ages_are_spread_and_none_is_in_the_future(store: Store) -> None:
    now = store.clock.now()
    for plural in ("nodes", "pods", "deployments", "replicasets", "statefulsets", "jobs"):
        ages = [now - parse_stamp(o["metadata"]["creationTimestamp"]) for o in store.list(plural)]
        assert min(ages) >= 0
        assert plural == "jobs" or max(ages) - min(ages) > 86400
    assert {e["reason"] for e in store.list("events")} == {"FailedScheduling"}, "older ones have expired"


def test_the_same_seed_gives_the_same_fleet_and_another_seed_another() -> None:
    def names(store: Store) -> list[tuple[str, str]]:
        return [(p["metadata"]["name"], p["metadata"]["uid"]) for p in store.list("pods")]

    assert names(planted(7)) == names(planted(7))
    assert names(planted(7)) != names(planted(8))


def test_machines_have_booted_anew_with_every_rehearsal() -> None:
    """Whoever remembers a fault of the last one would show it for ever: only a reboot ends it."""

    def machines(began_at: float) -> list[tuple[str, str]]:
        made = Store(ManualClock(began_at), seed=7)
        Seed(made, 7).plant(3)
        told = [n["status"]["nodeInfo"] for n in made.list("nodes")]
        return [(info["machineID"], info["bootID"]) for info in told]

    first, second = machines(1_000_000.0), machines(1_000_060.0)
    assert [machine for machine, _ in first] == [machine for machine, _ in second]
    assert not {boot for _, boot in first} & {boot for _, boot in second}


@pytest.mark.parametrize("nodes", [1, 5, 16, 24, 50])
def test_any_number_of_nodes_makes_a_sound_fleet(nodes: int) -> None:
    store = planted(nodes=nodes)
    assert len(store.list("nodes")) == nodes
    assert min(free_gpus(store).values()) >= 0


def test_it_can_be_filled_up_to_a_number_of_pods() -> None:
    store = planted(nodes=30, pods=1000)
    assert len(store.list("pods")) == 1000
    assert max(Counter(p["spec"].get("nodeName") for p in store.list("pods")).values()) <= 110


def test_nothing_has_to_start_first() -> None:
    """No controller finds anything to do: in half a minute, before silent kubelets are missed, nothing is written."""

    async def rest() -> set[str]:
        rehearsal = Rehearsal(clock=ManualClock(), pace=0, without=(Heartbeats,))
        before = rehearsal.store.resource_version
        watched = {p: rehearsal.store.subscribe(p) for p in ("pods", "nodes", "deployments", "events", "replicasets")}
        await rehearsal.start()
        clock = rehearsal.clock
        assert isinstance(clock, ManualClock)
        await clock.advance(30.0)
        rehearsal.check()
        await rehearsal.stop()
        changed = {f"{plural}/{c.object['metadata']['name']}" for plural, s in watched.items() for c in s.take()}
        return changed if rehearsal.store.resource_version != before else set()

    changed = asyncio.run(rest())
    assert not {c for c in changed if not c.startswith(("pods/asr-batch", "pods/eval-suite", "events/"))}
