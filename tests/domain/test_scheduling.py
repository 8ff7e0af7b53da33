"""Where the pods of a drain would go: one filter of the scheduler after the other, and the walk over nodes that fill up."""

from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import objects
from fleet.domain.scheduling import Place, Placement, Unfit, requests
from fleet.domain.specs import Claim, FullPod, Storage
from tests.domain import cluster

GPU = cluster.GPU
APP = {"matchLabels": {"app": "web"}}


def node(name: str = "n1", gpus: int = 8, **more: Any) -> objects.Node:
    labels = {"zone": "a", "kubernetes.io/hostname": name, "cores": "64", **more.pop("labels", {})}
    found = msgspec.convert(cluster.node(name, gpus, labels=labels, **more), objects.Node)
    allocatable = {**found.status.allocatable, "pods": "5", "memory": "64Gi"}
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, allocatable=allocatable))


def pod(name: str = "new", gpus: int = 1, *, bound: str = "", **more: Any) -> FullPod:
    labels = more.pop("labels", {"app": "web"})
    return msgspec.convert(cluster.pod(name, bound, gpus, uid=name, labels=labels, **more), FullPod)


def said(one: FullPod, *places: Place, **more: Any) -> str | Counter[Unfit]:
    return Placement(places, **more).place(one)


def terms(*expressions: tuple[str, str, list[str]], fields: bool = False) -> dict[str, Any]:
    made = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    term = {"matchFields" if fields else "matchExpressions": made}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def near(kind: str, key: str = "zone", selector: Any = APP) -> dict[str, Any]:
    wanted = [{"topologyKey": key, "labelSelector": selector}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}}


NOT_US = ({"key": "team", "value": "x", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    ("spec", "place", "unfit"),
    [
        pytest.param({}, node(), None, id="room"),
        pytest.param({}, node(ready="Unknown"), Unfit.NOT_READY, id="silent"),
        pytest.param({}, node(cordoned=True), Unfit.CORDONED, id="cordoned"),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]},
            node(cordoned=True, taints=NOT_US),
            None,
            id="tolerates everything",
        ),
        pytest.param({}, node(taints=NOT_US), Unfit.TAINTED, id="tainted"),
        pytest.param({"tolerations": [{"key": "team", "value": "x"}]}, node(taints=NOT_US), None, id="tolerated"),
        pytest.param(
            {"tolerations": [{"key": "team", "value": "y"}]}, node(taints=NOT_US), Unfit.TAINTED, id="other value"
        ),
        pytest.param({"nodeSelector": {"zone": "b"}}, node(), Unfit.NODE_AFFINITY, id="selector"),
        pytest.param(
            {"affinity": {"nodeAffinity": terms(("zone", "In", ["a", "c"]))}}, node(), None, id="affinity holds"
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": terms(("zone", "NotIn", ["a"]))}}, node(), Unfit.NODE_AFFINITY, id="affinity"
        ),
        pytest.param({"affinity": {"nodeAffinity": terms(("cores", "Gt", ["32"]))}}, node(), None, id="more than"),
        pytest.param(
            {"affinity": {"nodeAffinity": terms(("cores", "Lt", ["32"]))}}, node(), Unfit.NODE_AFFINITY, id="less than"
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": terms(("metadata.name", "In", ["n2"]), fields=True)}},
            node(),
            Unfit.NODE_AFFINITY,
            id="bound to another node by name",
        ),
        pytest.param({"affinity": {"nodeAffinity": terms()}}, node(), Unfit.NODE_AFFINITY, id="an empty term is none"),
        pytest.param({}, node(gpus=0), Unfit.NO_GPUS, id="no GPUs"),
        pytest.param(
            {"containers": [cluster.container({"memory": "65Gi"})]}, node(), Unfit.NO_ROOM, id="too little memory"
        ),
    ],
)
def test_one_node(spec: dict[str, Any], place: objects.Node, unfit: Unfit | None) -> None:
    found = said(pod(spec=spec), Place(place, ()))
    assert found == (Counter([unfit]) if unfit else "n1")


def test_room_is_what_unfinished_pods_leave_terminating_ones_included() -> None:
    held = [
        pod("a", 4, bound="n1"),
        pod("b", 2, bound="n1", deletionTimestamp=cluster.EPOCH),
        pod("done", 2, bound="n1", phase="Succeeded"),
    ]
    assert said(pod(gpus=2), Place(node(), held)) == "n1"
    assert said(pod(gpus=3), Place(node(), held)) == Counter([Unfit.NO_GPUS])


def test_a_node_takes_so_many_pods_and_each_port_once() -> None:
    small = [pod(f"s{n}", 0, bound="n1") for n in range(5)]
    assert said(pod(gpus=0), Place(node(), small)) == Counter([Unfit.TOO_MANY_PODS])
    port = {"containers": [{**cluster.container(), "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    assert said(pod(spec=port), Place(node(), [pod("a", 0, bound="n1", spec=port)])) == Counter([Unfit.HOST_PORT])


def test_pods_that_want_apart_or_together() -> None:
    one, other = Place(node("n1"), [pod("a", bound="n1")]), Place(node("n2", labels={"zone": "b"}), ())
    assert said(pod(spec=near("podAntiAffinity")), one, other) == "n2"
    assert said(pod(spec=near("podAntiAffinity")), one) == Counter([Unfit.POD_AFFINITY])
    assert said(pod(spec=near("podAffinity")), one, other) == "n1"


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere() -> None:
    assert said(pod(spec=near("podAffinity")), Place(node(), ())) == "n1"
    stranger = near("podAffinity", selector={"matchLabels": {"app": "nobody"}})
    assert said(pod(spec=stranger), Place(node(), ())) == Counter([Unfit.POD_AFFINITY])


def test_who_is_there_already_may_not_want_the_new_one() -> None:
    guard = pod("guard", 0, bound="n1", spec=near("podAntiAffinity"), labels={"app": "db"})
    assert said(pod(), Place(node(), [guard])) == Counter([Unfit.POD_AFFINITY])
    assert said(pod(labels={"app": "other"}), Place(node(), [guard])) == "n1"


def test_hard_topology_spread() -> None:
    spread = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": APP}]}
    full = Place(node("n1"), [pod("a", bound="n1")])
    empty = Place(node("n2", gpus=0, labels={"zone": "b"}), ())
    assert said(pod(spec=spread), full, empty) == Counter([Unfit.SPREAD, Unfit.NO_GPUS])
    assert said(pod(spec=spread), full, Place(node("n2", labels={"zone": "b"}), ())) == "n2"


def test_a_volume_that_only_one_node_can_reach() -> None:
    meta = {"name": "data", "namespace": "lab"}
    claim = msgspec.convert({"metadata": meta, "spec": {"volumeName": "pv"}}, Claim)
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    }
    disk = msgspec.convert({"metadata": {"name": "pv"}, "spec": {"nodeAffinity": affinity}}, Storage)
    mounts = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    known = {"claims": {"lab/data": claim}, "storage": {"pv": disk}}
    assert said(pod(spec=mounts), Place(node(), ()), **known) == Counter([Unfit.VOLUME])
    assert said(pod(spec=mounts), Place(node("n2", labels={"zone": "b"}), ()), **known) == "n2"


def test_the_tightest_fit_and_no_degraded_gpus_first() -> None:
    roomy, tight = Place(node("n1"), ()), Place(node("n2"), [pod("a", 6, bound="n2")])
    assert said(pod(gpus=2), roomy, tight) == "n2"
    tired = Place(node("n2"), [pod("a", 6, bound="n2")], degraded=True)
    assert said(pod(gpus=2), Place(node("n1"), ()), tired) == "n1"


def test_nodes_fill_up_as_pods_are_placed() -> None:
    placed, unplaced = Placement([Place(node(gpus=4), ())]).place_all([pod("a", 2), pod("b", 2), pod("c", 1)])
    assert placed == {"a": "n1", "b": "n1"}
    assert unplaced == {"c": Counter([Unfit.NO_GPUS])}


def test_an_init_container_counts_for_the_whole_life_and_overhead_on_top() -> None:
    spec = {"initContainers": [cluster.sidecar(1), cluster.container(4, "init")], "overhead": {"memory": "1Gi"}}
    assert requests(pod(gpus=2, spec=spec).spec) == {GPU: Fraction(5), "memory": Fraction(2**30)}


@given(st.lists(st.integers(0, 8), max_size=12), st.lists(st.integers(1, 8), max_size=12))
def test_no_node_is_ever_overfilled(sizes: list[int], wanted: list[int]) -> None:
    places = [Place(node(f"n{n}", gpus), ()) for n, gpus in enumerate(sizes)]
    pods = [pod(f"p{n}", gpus) for n, gpus in enumerate(wanted)]
    placed, unplaced = Placement(places).place_all(pods)
    assert placed.keys() | unplaced.keys() == {one.metadata.uid for one in pods}
    assert all(place.free.get(GPU, Fraction(0)) >= 0 for place in places)
    for one in pods:
        if one.metadata.uid in unplaced:
            assert all(
                place.free.get(GPU, Fraction(0)) < requests(one.spec)[GPU] or len(place.pods) >= 5 for place in places
            )
