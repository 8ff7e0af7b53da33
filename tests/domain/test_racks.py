"""Case T10: power brake or heat on several nodes of one rack at once is one event, about the rack."""

import pytest
from msgspec.structs import replace

from fleet.domain import racks
from fleet.domain.changes import Screen, View, diff, filtered, rows
from fleet.domain.kube import Kind
from fleet.domain.picture import FindingRow, GpuRow
from fleet.domain.verdicts import NodeStanding
from tests.domain.cluster import LABELS, changed, inventory, listed, node, pod

STANDING = NodeStanding(measured=True, count=1, known=1, read_at=10.0)


def finding(rule: str, since_at: float = 5.0, state: str = "degraded") -> FindingRow:
    return FindingRow(rule, "nvml", state, "monitor", since_at, since_at)


def gpu(name: str, *rules: str, index: int = 0, since_at: float = 5.0, **changes) -> GpuRow:
    row = GpuRow(
        node=name,
        index=index,
        uuid=f"GPU-{name}-{index}",
        state="degraded" if rules else "ok",
        reason=rules[0] if rules else "",
        action="monitor",
        level="warn" if rules else "",
        findings=tuple(finding(rule, since_at) for rule in rules),
    )
    return replace(row, **changes)


def in_rack(name: str, rack: str = "B03", **more):
    return node(name, labels=LABELS | {racks.RACK: rack}, **more)


def measured(store, *found: GpuRow):
    by_node: dict[str, dict[str, GpuRow]] = {}
    for row in found:
        by_node.setdefault(row.node, {})[row.uuid] = row
    for name, of_node in by_node.items():
        store.measure(name, STANDING, of_node)
    return store.snapshot()


def test_two_nodes_of_a_rack_are_one_event():
    store = inventory(in_rack("n1"), in_rack("n2"), in_rack("far", "B04"), pod("p", node="n1", gpus=4))
    found = measured(
        store,
        gpu("n1", "throttle-hw-thermal"),
        gpu("n2", "throttle-power-brake", since_at=9.0),
        gpu("far", "temperature-margin"),
    ).attention
    assert set(found) == {"rack-event:rack/eu-west-1a/B03", "gpu-degraded:far"}
    entry = found["rack-event:rack/eu-west-1a/B03"]
    assert (entry.level, entry.since_at, entry.node, entry.nodes) == ("warn", 5.0, "", ("n1", "n2"))
    assert dict(entry.facts) == {
        "pods": 1, "gpus": 4, "count": 2, "names": "n1, n2", "more": 0, "strained": 2, "rule": "throttle-power-brake",
    }  # fmt: skip


def test_one_node_is_no_event():
    store = inventory(in_rack("n1"), in_rack("n2"))
    assert set(measured(store, gpu("n1", "throttle-hw-thermal"), gpu("n2")).attention) == {"gpu-degraded:n1"}


def test_the_event_ends_with_the_trouble_of_all_but_one():
    store = inventory(in_rack("n1"), in_rack("n2"))
    measured(store, gpu("n1", "temperature-margin"), gpu("n2", "temperature-margin"))
    assert set(measured(store, gpu("n2")).attention) == {"gpu-degraded:n1"}
    measured(store, gpu("n2", "temperature-margin"))
    store.apply(listed(Kind.NODE, in_rack("n1")))
    assert set(store.snapshot().attention) == {"gpu-degraded:n1"}, "a node that is gone is no second one"


def test_where_no_label_names_the_rack_the_zone_counts():
    store = inventory(node("n1"), node("n2"))
    found = measured(store, gpu("n1", "temperature-margin"), gpu("n2", "temperature-margin")).attention
    assert set(found) == {"rack-event:zone/eu-west-1a"}


def test_where_nobody_says_where_nodes_stand_each_is_alone():
    labels = {name: text for name, text in LABELS.items() if "zone" not in name}
    store = inventory(node("n1", labels=labels), node("n2", labels=labels))
    found = measured(store, gpu("n1", "temperature-margin"), gpu("n2", "temperature-margin")).attention
    assert set(found) == {"gpu-degraded:n1", "gpu-degraded:n2"}


def test_racks_of_one_name_in_two_zones_are_two():
    other = LABELS | {racks.RACK: "B03", "topology.kubernetes.io/zone": "eu-west-1b"}
    store = inventory(in_rack("n1"), node("n2", labels=other))
    found = measured(store, gpu("n1", "temperature-margin"), gpu("n2", "temperature-margin")).attention
    assert set(found) == {"gpu-degraded:n1", "gpu-degraded:n2"}


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ("another trouble on the same GPU decides", gpu("n1", "ecc-storm", "temperature-margin")),
        ("another GPU of the node has one", gpu("n1", "remap-pending", index=1, state="reset-required", soft=True)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_rack_does_not_explain_is_still_told(given, row):
    store = inventory(in_rack("n1"), in_rack("n2"))
    own = [gpu("n1", "temperature-margin")] if row.index else []
    found = measured(store, *own, row, gpu("n2", "temperature-margin")).attention
    assert set(found) == {"rack-event:rack/eu-west-1a/B03", "gpu-degraded:n1"}, given


def test_a_lost_gpu_of_a_hot_rack_is_told_as_lost():
    store = inventory(in_rack("n1"), in_rack("n2"))
    lost = gpu("n1", "xid-79", index=1, state="lost", level="bad")
    found = measured(store, gpu("n1", "temperature-margin"), lost, gpu("n2", "temperature-margin")).attention
    assert set(found) == {"rack-event:rack/eu-west-1a/B03", "gpu-lost:n1"}


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_what_nobody_sees_any_more_is_no_event(ready):
    store = inventory(in_rack("n1"), in_rack("n2"), in_rack("n3"))
    rows = [gpu(name, "temperature-margin") for name in ("n1", "n2")]
    measured(store, *rows, gpu("n3", "temperature-margin", state="unknown"))
    store.apply(changed(in_rack("n2", ready=ready)))
    assert not [key for key in store.snapshot().attention if key.startswith("rack-event")]


def test_the_node_page_knows_the_event():
    store = inventory(in_rack("n1"), in_rack("n2"), in_rack("n3"))
    before = measured(store, gpu("n1", "temperature-margin"), gpu("n2"), gpu("n3"))
    after = measured(store, gpu("n2", "temperature-margin"))
    for name, told in (("n1", True), ("n2", True), ("n3", False)):
        assert bool(rows(after, View(Screen.NODE, name))["attention"]) is told
    delta = diff(before, after)
    assert delta is not None
    part = filtered(delta, View(Screen.NODE, "n1"), before, after)
    assert part is not None
    assert part.tables["attention"].gone == ("gpu-degraded:n1",)
    assert part.tables["attention"].groups[0].ids == ("rack-event:rack/eu-west-1a/B03",)


def test_a_sentence_names_a_few_of_many():
    names = [f"n{i:02}" for i in range(9)]
    store = inventory(*(in_rack(name) for name in names))
    entry = measured(store, *(gpu(name, "temperature-margin") for name in names)).attention[
        "rack-event:rack/eu-west-1a/B03"
    ]
    facts = dict(entry.facts)
    assert (facts["names"], facts["more"]) == ("n00, n01, n02, n03, n04, n05", 3)
    assert entry.nodes == tuple(names)
