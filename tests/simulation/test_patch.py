"""Merge, strategic merge and JSON patches as pure functions."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.simulation import patch
from fleet.simulation.refusals import ApiError

A, B, C = ({"name": n, "image": f"{n}:1"} for n in "abc")


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": "b"}, ["c"], ["c"]),
        ({"containers": [A, B]}, {"containers": [{"name": "a"}]}, {"containers": [{"name": "a"}]}),
    ],
)
def test_merge_patch(target: Any, change: Any, expected: Any) -> None:
    assert patch.merge(target, change) == expected


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        pytest.param({"x": 1}, {"x": None, "y": 2}, {"y": 2}, id="null removes"),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "b", "image": "b:2"}]},
            {"containers": [A, {"name": "b", "image": "b:2"}]},
            id="items merge by name",
        ),
        pytest.param({"containers": [A]}, {"containers": [C]}, {"containers": [A, C]}, id="a new item comes last"),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [B]},
            id="an item is deleted",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"$patch": "replace"}, C]},
            {"containers": [C]},
            id="the list is replaced",
        ),
        pytest.param(
            {"m": {"a": 1, "b": 2}}, {"m": {"$patch": "replace", "c": 3}}, {"m": {"c": 3}}, id="a map is replaced"
        ),
        pytest.param({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}, id="a map is emptied"),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="only some keys are retained",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="a value goes",
        ),
        pytest.param(
            {"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}, id="sets are united"
        ),
        pytest.param(
            {"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}, id="taints replaced"
        ),
        pytest.param(
            {"containers": [A, B]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": []},
            {"containers": [B, A]},
            id="the order is set",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80, "name": "x"}]},
            {"ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 81}]},
            {"ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 81}]},
            id="container ports by number",
        ),
        pytest.param(
            {"ports": [{"port": 80, "name": "x"}]},
            {"ports": [{"port": 80, "name": "y"}]},
            {"ports": [{"port": 80, "name": "y"}]},
            id="service ports by number",
        ),
    ],
)
def test_strategic_merge(target: Any, change: Any, expected: Any) -> None:
    assert patch.strategic(target, change) == expected


@pytest.mark.parametrize("change", [{"m": {"$patch": "explode"}}, {"containers": [{"image": "nameless"}]}])
def test_strategic_merge_refuses(change: Any) -> None:
    with pytest.raises(ApiError) as refused:
        patch.strategic({"m": {}, "containers": [A]}, change)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("target", "operation", "expected"),
    [
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "add", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": 1}, {"op": "remove", "path": "/a"}, {}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": 1}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": 1, "b": 1}),
        ({"a/b": {"c~d": 1}}, {"op": "remove", "path": "/a~1b/c~0d"}, {"a/b": {}}),
    ],
)
def test_json_patch(target: Any, operation: Any, expected: Any) -> None:
    assert patch.json_patch(target, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/nope", "value": 2},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/b/7", "value": 1},
        {"op": "add", "path": "/b/01", "value": 1},
        {"op": "copy", "from": "/nope", "path": "/x"},
        {"op": "dance", "path": "/a"},
        {"path": "/a"},
        {"op": "remove", "path": "a"},
    ],
)
def test_json_patch_that_fails_says_nothing_specific(operation: Any) -> None:
    """api-server.md 16: one generic sentence, whatever went wrong."""
    target = {"a": 1, "b": [1]}
    with pytest.raises(ApiError) as refused:
        patch.json_patch(target, [operation])
    assert refused.value.body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }
    assert target == {"a": 1, "b": [1]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(documents, documents)
def test_a_merge_patch_is_idempotent_and_leaves_its_input(target: Any, change: Any) -> None:
    before = repr(target)
    once = patch.merge(target, change)
    assert patch.merge(once, change) == once
    assert repr(target) == before
