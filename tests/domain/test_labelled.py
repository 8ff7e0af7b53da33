"""Pods by namespace and label: whatever a selector selects is near it."""

import pytest

from fleet.domain.budgets import selects
from fleet.domain.labelled import Labelled
from fleet.domain.objects import LabelSelector, Requirement

PODS = [
    (namespace, {"app": app, **({"tier": "web"} if odd else {})})
    for namespace in ("a", "b")
    for app in ("x", "y")
    for odd in (0, 1)
] + [("a", {})]


@pytest.mark.parametrize(
    "selector",
    [
        None,
        LabelSelector(),
        LabelSelector({"app": "x"}),
        LabelSelector({"app": "x", "tier": "web"}),
        LabelSelector({"app": "nobody"}),
        LabelSelector({}, (Requirement("app", "In", ("x",)),)),
        LabelSelector({"tier": "web"}, (Requirement("app", "NotIn", ("x",)),)),
    ],
)
@pytest.mark.parametrize("namespaces", [None, (), ("a",), ("a", "b"), ("c",)])
def test_nothing_that_is_selected_is_far(selector, namespaces):
    labelled: Labelled[int] = Labelled()
    for n, (namespace, labels) in enumerate(PODS):
        labelled.add(namespace, labels, n)
    wanted = {
        n for n, (space, labels) in enumerate(PODS) if space in (namespaces or "ab") and selects(selector, labels)
    }
    near = list(labelled.near(selector, namespaces))
    assert len(near) == len(set(near))
    assert wanted <= set(near) if namespaces not in {(), ("c",)} else near == []
