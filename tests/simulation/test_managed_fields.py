"""Sets of fields and server-side apply as pure functions."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.simulation import apply, managed_fields
from fleet.simulation.refusals import ApiError

AT, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def config(**data: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": data}


def managed(obj: dict[str, Any], entries: list[Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        ({"spec": {"replicas": 1}}, {"f:spec": {"f:replicas": {}}}),
        ({"metadata": {"labels": {"a": "b"}}}, {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}),
        (
            {"spec": {"containers": [{"name": "a", "image": "x"}]}},
            {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}}}},
        ),
        ({"spec": {"taints": [{"key": "a"}]}}, {"f:spec": {"f:taints": {}}}),
        ({"metadata": {"finalizers": ["x"]}}, {"f:metadata": {"f:finalizers": {'v:"x"': {}}}}),
        (
            {"ports": [{"containerPort": 80}]},
            {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}},
        ),
    ],
)
def test_field_sets(value: Any, tree: Any) -> None:
    assert managed_fields.field_set("", value) == tree


def test_an_update_takes_what_it_changes_and_drops_what_it_removes() -> None:
    first = config(a="1", b="1", kept="1")
    entries = managed_fields.updated(None, first, "one", AT)
    second = config(a="2", c="1", kept="1")
    entries = managed_fields.updated(managed(first, entries), second, "two", LATER)
    assert [(e["manager"], e["time"]) for e in entries] == [("one", AT), ("two", LATER)]
    assert entries[0]["fieldsV1"]["f:data"] == {".": {}, "f:kept": {}}
    assert entries[1]["fieldsV1"]["f:data"] == {"f:a": {}, "f:c": {}}


class TestApply:
    def live(self) -> dict[str, Any]:
        obj = config(a="1")
        return managed(obj, apply.created(obj, "one", AT))

    def test_more_fields_by_another(self) -> None:
        new, entries = apply.applied(self.live(), config(b="2"), "two", LATER)
        assert new["data"] == {"a": "1", "b": "2"}
        assert [e["manager"] for e in entries] == ["one", "two"]

    def test_the_same_value_is_shared_and_stays_until_both_let_go(self) -> None:
        new, entries = apply.applied(self.live(), config(a="1"), "two", LATER)
        without = {k: v for k, v in config().items() if k != "data"}
        new, entries = apply.applied(managed(new, entries), without, "one", LATER)
        assert new["data"] == {"a": "1"}
        new, entries = apply.applied(managed(new, entries), without, "two", LATER)
        assert "data" not in new
        assert entries == []

    def test_another_value_is_a_conflict_that_force_settles(self) -> None:
        with pytest.raises(ApiError) as refused:
            apply.applied(self.live(), config(a="2"), "two", LATER)
        assert refused.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
        new, entries = apply.applied(self.live(), config(a="2"), "two", LATER, force=True)
        assert new["data"] == {"a": "2"}
        assert [e["manager"] for e in entries] == ["two"]

    def test_conflicts_with_updates_name_the_version(self) -> None:
        obj = config(a="1", b="1")
        live = managed(obj, managed_fields.updated(None, obj, "kubectl", AT))
        with pytest.raises(ApiError) as refused:
            apply.applied(live, config(a="2", b="2"), "two", LATER)
        assert refused.value.message == (
            'Apply failed with 2 conflicts: conflict with "kubectl" using v1:\n- .data.a\n- .data.b'
        )

    def test_applying_again_changes_nothing(self) -> None:
        live = self.live()
        new, entries = apply.applied(live, config(a="1"), "one", LATER)
        assert new == live
        assert entries == live["metadata"]["managedFields"]

    def test_items_of_keyed_lists(self) -> None:
        obj = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "image": "1"}]},
        }
        live = managed(obj, managed_fields.updated(None, obj, "one", AT))
        wanted = {**obj, "spec": {"containers": [{"name": "b", "image": "2"}]}}
        new, entries = apply.applied(live, wanted, "two", LATER)
        assert [c["name"] for c in new["spec"]["containers"]] == ["a", "b"]
        nothing = {k: v for k, v in obj.items() if k != "spec"}
        new, _ = apply.applied(managed(new, entries), nothing, "two", LATER)
        assert [c["name"] for c in new["spec"]["containers"]] == ["a"]


objects = st.dictionaries(
    st.sampled_from(["spec", "data", "labels"]),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2), max_size=3),
    max_size=3,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(objects, objects)
def test_what_changed_and_what_is_gone_never_overlap(old: Any, new: Any) -> None:
    changed, gone = managed_fields.changed_and_gone("", old, new)
    if old == new:
        assert (changed, gone) == ({}, {})
    assert not apply._paths(managed_fields.intersect(changed, gone))
