"""The wire contract: apply(old, diff(old, new)) == new, for whole pictures and for what one screen shows."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.domain import changes
from fleet.domain.changes import Delta, Group, Screen, TableDelta, Version, View
from fleet.domain.picture import (
    EMPTY,
    TABLES,
    AttentionRow,
    EventRow,
    FleetRow,
    LabelsRow,
    NodeRow,
    PodRow,
    Snapshot,
    WorkloadRow,
)
from fleet.domain.save_picture import CheckpointRow
from tests.domain import change_cases
from tests.domain.cluster import EPOCH_AT
from tests.domain.picture_strategies import transitions

FLEET = View(Screen.FLEET)
NODE = View(Screen.NODE, "node-01")
ROLLOUT = View(Screen.ROLLOUT, workload="Job/lab/t")


def as_snapshot(tables: dict[str, dict[str, Any]]) -> Snapshot:
    return replace(EMPTY, **tables)


def seen_through(delta: Delta | None, view: View, old: Snapshot, new: Snapshot) -> dict[str, dict[str, Any]]:
    """What a browser holds that had `rows(old, view)` and got the filtered delta, if any, as JSON."""
    before = changes.rows(old, view)
    part = changes.filtered(delta, view, old, new) if delta else None
    if part is None:
        return before
    after = changes.apply(as_snapshot(before), changes.decode(changes.encode(part)))
    return {name: getattr(after, name) for name in before}


def test_versions_are_ordered_by_epoch_first() -> None:
    assert Version(1, 99) < Version(2, 0) < Version(2, 1)


@given(transitions())
def test_a_delta_leads_to_the_new_picture(pair: tuple[Snapshot, Snapshot]) -> None:
    old, new = pair
    delta = changes.diff(old, new)
    assert (delta is None) == (old == new)
    if delta is not None:
        assert changes.apply(old, delta) == new
        assert changes.apply(old, changes.decode(changes.encode(delta))) == new
        backwards = Snapshot(**{name: dict(reversed(getattr(new, name).items())) for name in TABLES})
        assert changes.diff(old, backwards) == delta, "the order of a table does not matter"


@given(transitions(), transitions())
def test_a_run_of_deltas_leads_where_each_after_the_other_does(
    one: tuple[Snapshot, Snapshot], two: tuple[Snapshot, Snapshot]
) -> None:
    steps = [*one, *two]
    deltas = [found for a, b in pairwise(steps) if (found := changes.diff(a, b)) is not None]
    before = {name: dict(getattr(steps[0], name)) for name in TABLES}
    assert changes.apply(steps[0], *deltas) == steps[-1]
    assert {name: getattr(steps[0], name) for name in TABLES} == before, "nobody else's tables are touched"


@given(transitions())
def test_nothing_is_sent_that_did_not_change(pair: tuple[Snapshot, Snapshot]) -> None:
    old, new = pair
    delta = changes.diff(old, new)
    for name, table in (delta.tables if delta else {}).items():
        before, after = getattr(old, name), getattr(new, name)
        assert set(table.gone) == before.keys() - after.keys()
        for group in table.groups:
            for i, key in enumerate(group.ids):
                values = {field: column[i] for field, column in group.set.items()}
                known = {f: getattr(before[key], f) for f in group.set} if key in before else {}
                assert values == {field: getattr(after[key], field) for field in group.set}
                assert key not in before or all(values[field] != known[field] for field in values)
                assert key in before or values.keys() == set(after[key].__struct_fields__)


VIEWS = [View(screen) for screen in Screen if screen is not Screen.NODE]


@given(
    transitions(), st.sampled_from([*VIEWS, NODE, View(Screen.NODE, "nœud"), View(Screen.NODE, "elsewhere"), ROLLOUT])
)
def test_a_screen_sees_what_a_reload_would_show(pair: tuple[Snapshot, Snapshot], view: View) -> None:
    old, new = pair
    assert seen_through(changes.diff(old, new), view, old, new) == changes.rows(new, view)


def test_unchanged_tables_are_not_even_looked_at() -> None:
    class Unread(dict[str, NodeRow]):
        def items(self) -> Any:
            raise AssertionError("an unchanged table was read")

        __iter__ = values = items

    old = replace(EMPTY, nodes=Unread(a=NodeRow("a")))
    assert changes.diff(old, replace(old, fleet={"fleet": FleetRow()})) is not None


@pytest.mark.parametrize("path", sorted(change_cases.FILES.glob("*.json")), ids=lambda path: path.stem)
def test_the_files_that_javascript_replays_hold_for_python(path: Any) -> None:
    body = json.loads(path.read_text())
    old, new = (msgspec.convert(body[name], Snapshot) for name in ("old", "new"))
    delta = msgspec.convert(body["delta"], Delta)
    assert changes.apply(old, delta) == new
    assert json.loads(changes.encode(changes.diff(old, new) or Delta({}))) == body["delta"]


def test_the_files_are_those_of_the_cases() -> None:
    written = {path: path.read_text() for path in change_cases.FILES.glob("*.json")}
    assert written == dict(change_cases.files()), "write them anew: python -m tests.domain.change_cases"


def test_the_shape_on_the_wire() -> None:
    old = replace(EMPTY, nodes={"a": NodeRow("a", cells="f"), "b": NodeRow("b", cells="f"), "c": NodeRow("c")})
    new = replace(EMPTY, nodes={"a": NodeRow("a", cells="b"), "b": NodeRow("b", cells="x")})
    delta = changes.diff(old, new)
    assert delta == Delta({"nodes": TableDelta((Group(("a", "b"), {"cells": ["b", "x"]}),), ("c",))})
    assert json.loads(changes.encode(delta)) == {
        "tables": {"nodes": {"groups": [{"ids": ["a", "b"], "set": {"cells": ["b", "x"]}}], "gone": ["c"]}}
    }


@pytest.mark.parametrize(
    ("table", "group"),
    [
        pytest.param("nodes", Group(("a",), {"cells": ["f"]}), id="a change of a row that is not there"),
        pytest.param("nodes", Group(("b",), {"cells": []}), id="a column too short"),
        pytest.param("nodes", Group(("b",), {"cells": ["f", "f"]}), id="a column too long"),
        pytest.param("nodes", Group(("b",), {"cells": [7]}), id="a value of another type"),
        pytest.param("moons", Group(("b",), {"cells": ["f"]}), id="a table that is not ours"),
    ],
)
def test_a_delta_that_does_not_fit_is_refused(table: str, group: Group) -> None:
    with pytest.raises(ValueError, match=r".+"):
        changes.apply(replace(EMPTY, nodes={"b": NodeRow("b")}), Delta({table: TableDelta((group,))}))


@pytest.mark.parametrize("data", [b"", b"{}", b'{"tables": {"nodes": {"groups": 3}}}', b"nonsense"])
def test_what_is_no_delta_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        changes.decode(data)


def lab(*pods: PodRow, **tables: Any) -> Snapshot:
    return replace(EMPTY, pods={f"{p.namespace}/{p.name}": p for p in pods}, **tables)


JOB = {"Job/lab/t": WorkloadRow("Job", "lab", "t"), "Job/lab/other": WorkloadRow("Job", "lab", "other")}
WAITING = PodRow("u", "lab", "p", workload="Job/lab/t")
BOUND = replace(WAITING, node="node-01", status="Running")
ELSEWHERE = replace(WAITING, node="node-02")


def part(old: Snapshot, new: Snapshot, view: View) -> Delta | None:
    delta = changes.diff(old, new)
    assert delta is not None
    return changes.filtered(delta, view, old, new)


def test_a_pod_that_gets_bound_enters_its_nodes_view_whole_with_its_workload() -> None:
    found = part(lab(WAITING, workloads=JOB), lab(BOUND, workloads=JOB), NODE)
    assert found is not None
    assert set(found.tables) == {"pods", "workloads"}
    assert set(found.tables["pods"].groups[0].set) == set(PodRow.__struct_fields__)
    assert found.tables["workloads"].groups[0].ids == ("Job/lab/t",)


def test_a_pod_made_anew_elsewhere_leaves_the_view_with_its_workload() -> None:
    found = part(lab(BOUND, workloads=JOB), lab(ELSEWHERE, workloads=JOB), NODE)
    assert found == Delta({"pods": TableDelta((), ("lab/p",)), "workloads": TableDelta((), ("Job/lab/t",))})


def test_what_happens_elsewhere_is_not_sent() -> None:
    old = lab(BOUND, ELSEWHERE, workloads=JOB, nodes={"node-02": NodeRow("node-02")})
    new = lab(
        replace(BOUND),
        replace(ELSEWHERE, restarts=1),
        workloads={"Job/lab/t": JOB["Job/lab/t"], "Job/lab/other": WorkloadRow("Job", "lab", "other", ready=1)},
        nodes={"node-02": NodeRow("node-02", pods=1)},
        attention={"cordoned:node-02": AttentionRow("cordoned", "warn", 8, "node-02", "node-02")},
    )
    old = replace(old, pods=old.pods | {"lab/q": replace(ELSEWHERE, name="q")})
    new = replace(new, pods=old.pods | {"lab/q": replace(ELSEWHERE, name="q", restarts=1)})
    assert part(old, new, NODE) is None


def test_a_nodes_view_gets_the_totals_its_row_its_attention_and_its_workloads() -> None:
    old = lab(BOUND, workloads=JOB, fleet={"fleet": FleetRow()}, nodes={"node-01": NodeRow("node-01")})
    concern = AttentionRow("cordoned", "warn", 8, "node-01", "node-01")
    new = lab(
        BOUND,
        workloads=JOB | {"Job/lab/t": WorkloadRow("Job", "lab", "t", ready=1)},
        fleet={"fleet": FleetRow(cordoned=8)},
        nodes={"node-01": NodeRow("node-01", cells="c")},
        attention={"cordoned:node-01": concern},
    )
    found = part(old, new, NODE)
    assert found is not None
    assert set(found.tables) == {"fleet", "nodes", "workloads", "attention"}


def test_the_fleets_view_has_no_pods_and_no_workloads() -> None:
    old = lab(BOUND, workloads=JOB)
    assert part(old, lab(replace(BOUND, restarts=1), workloads={}), FLEET) is None
    assert set(changes.rows(old, FLEET)) == {"fleet", "products", "nodes", "attention"}
    assert set(changes.rows(old, NODE)) == {
        "fleet",
        "nodes",
        "pods",
        "workloads",
        "attention",
        "labels",
        "events",
        "gpus",
        "checkpoints",
    }


def test_what_is_known_of_checkpoints_reaches_the_nodes_of_the_pods_that_train() -> None:
    alone = replace(BOUND, uid="u-2", name="alone", workload="")
    saves = {key: CheckpointRow(key, "lab") for key in ("Job/lab/t", "Job/lab/other", "Pod/lab/alone")}
    old = lab(BOUND, alone, checkpoints=saves)
    assert set(changes.rows(old, NODE)["checkpoints"]) == {"Job/lab/t", "Pod/lab/alone"}
    new = lab(BOUND, alone, checkpoints={key: replace(row, newest_at=EPOCH_AT) for key, row in saves.items()})
    found = part(old, new, NODE)
    assert found is not None
    assert {key for group in found.tables["checkpoints"].groups for key in group.ids} == {"Job/lab/t", "Pod/lab/alone"}
    gone = part(new, lab(BOUND, checkpoints=new.checkpoints), NODE)
    assert gone is not None
    assert gone.tables["checkpoints"].gone == ("Pod/lab/alone",)


def test_labels_and_events_reach_the_view_of_their_node_alone() -> None:
    event = EventRow("node-01", "Pod", "lab", "p", reason="Started")
    old = lab(labels={"node-01": LabelsRow()}, events={"lab/e": event, "lab/f": replace(event, node="node-02")})
    new = lab(
        labels={"node-01": LabelsRow((("a", "b"),)), "node-02": LabelsRow((("a", "b"),))},
        events={"lab/e": replace(event, count=2), "lab/f": replace(event, node="node-02", count=2)},
    )
    found = part(old, new, NODE)
    assert found is not None
    assert {name: [group.ids for group in table.groups] for name, table in found.tables.items()} == {
        "labels": [("node-01",)],
        "events": [("lab/e",)],
    }
    for screen in (Screen.FLEET, Screen.WALL, Screen.WORKLOADS, Screen.WAITING, Screen.CLUSTERS):
        assert part(old, new, View(screen)) is None


def test_a_pod_that_gets_a_node_leaves_the_waiting_pods() -> None:
    waiting = replace(WAITING, gpus=8)
    old = lab(waiting, replace(WAITING, name="none", gpus=0))
    assert set(changes.rows(old, View(Screen.WAITING))["pods"]) == {"lab/p"}
    found = part(old, lab(replace(waiting, node="node-01")), View(Screen.WAITING))
    assert found == Delta({"pods": TableDelta((), ("lab/p",))})


CORDONED = NodeRow("node-01", unschedulable=True, cordoned_by="kubectl-anna")
CONCERN = AttentionRow("cordoned", "warn", 8, "node-01", "node-01", facts=(("pods", 1), ("by", "kubectl-anna")))
WALL = View(Screen.WALL)


def test_the_wall_names_nobody() -> None:
    old, new = lab(nodes={}), lab(nodes={"node-01": CORDONED}, attention={"cordoned:node-01": CONCERN})
    found = part(old, new, WALL)
    assert found is not None
    shown = changes.encode(found) + changes.encode(changes.rows(new, WALL))
    assert b"cordoned" in shown
    assert b"anna" not in shown
    assert b"anna" in changes.encode(changes.rows(new, FLEET))


def test_on_the_wall_another_name_is_no_change() -> None:
    old = lab(nodes={"node-01": CORDONED})
    assert part(old, lab(nodes={"node-01": replace(CORDONED, cordoned_by="kubectl-bert")}), WALL) is None
