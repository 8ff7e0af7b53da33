"""A disk of one machine: its pod runs there or nowhere, and the scheduler says so."""

from typing import Any

from fleet.simulation.clock import ManualClock
from fleet.simulation.local_disks import AWAY, claims_of, out_of_reach
from fleet.simulation.rehearsal import Rehearsal
from tests.simulation.cluster import condition

Object = dict[str, Any]

POD: Object = {
    "metadata": {"namespace": "web"},
    "spec": {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, {"name": "x", "emptyDir": {}}]
    },
}


def disk(*nodes: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}]}
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if nodes else {}}


def machine(name: str) -> Object:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def test_a_bound_claim_keeps_its_pod_to_the_nodes_of_its_volume() -> None:
    there = {"persistentvolumeclaims/web/mine": {"spec": {"volumeName": "v"}}, "persistentvolumes/v": disk("a")}
    find = lambda plural, key: there.get(f"{plural}/{key}")  # noqa: E731
    assert claims_of(POD) == ["web/mine"]
    assert out_of_reach(claims_of(POD), machine("a"), find) is None
    assert out_of_reach(claims_of(POD), machine("b"), find) == AWAY
    there["persistentvolumes/v"] = disk()
    assert out_of_reach(claims_of(POD), machine("b"), find) is None, "a disk that every node can mount"
    assert out_of_reach([], machine("b"), find) is None


async def test_the_pod_of_a_cordoned_machine_s_disk_waits_for_that_machine() -> None:
    clock = ManualClock()
    rehearsal = Rehearsal(clock=clock, pace=0)
    store = rehearsal.store
    (claim,) = store.list("persistentvolumeclaims", "web")
    volume = store.get("persistentvolumes", None, claim["spec"]["volumeName"])
    assert (volume["status"]["phase"], claim["status"]["phase"]) == ("Bound", "Bound")
    await rehearsal.start()
    store.mutate("nodes", None, "node-12", lambda node: node["spec"].update(unschedulable=True), manager="test")
    store.delete("pods", "web", "feature-store-0")
    await clock.advance(60.0)
    told = condition(store.get("pods", "web", "feature-store-0"), "PodScheduled")
    assert "22 node(s) didn't match PersistentVolume's node affinity" in told["message"]
    assert "2 node(s) were unschedulable" in told["message"]
    store.mutate("nodes", None, "node-12", lambda node: node["spec"].pop("unschedulable") and None, manager="test")
    await clock.advance(60.0)
    assert store.get("pods", "web", "feature-store-0")["spec"]["nodeName"] == "node-12"
    rehearsal.check()
    await rehearsal.stop()
