"""Which pods a PodDisruptionBudget selects."""

from typing import Any

import pytest

from fleet.domain import budgets, kube
from tests.domain import cluster


def selector(labels: dict[str, str] | None = None, *requirements: tuple[str, str, list[str]]) -> dict[str, Any]:
    expressions = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return {"matchLabels": labels or {}, "matchExpressions": expressions}


@pytest.mark.parametrize(
    ("wanted", "selects"),
    [
        pytest.param(None, False, id="no selector selects nothing"),
        pytest.param({}, True, id="an empty one everything"),
        pytest.param(selector({"app": "web"}), True, id="equal"),
        pytest.param(selector({"app": "web", "track": "blue"}), True, id="all equal"),
        pytest.param(selector({"app": "web", "track": "green"}), False, id="one differs"),
        pytest.param(selector({"app": "web", "tier": "x"}), False, id="one is missing"),
        pytest.param(selector(None, ("app", "In", ["api", "web"])), True, id="in"),
        pytest.param(selector(None, ("app", "In", ["api"])), False, id="not in the values"),
        pytest.param(selector(None, ("tier", "In", ["api"])), False, id="in needs the label"),
        pytest.param(selector(None, ("app", "NotIn", ["api"])), True, id="not in"),
        pytest.param(selector(None, ("app", "NotIn", ["web"])), False, id="not in, but it is"),
        pytest.param(selector(None, ("tier", "NotIn", ["web"])), True, id="not in holds without the label"),
        pytest.param(selector(None, ("app", "Exists", [])), True, id="exists"),
        pytest.param(selector(None, ("tier", "Exists", [])), False, id="exists, but does not"),
        pytest.param(selector(None, ("tier", "DoesNotExist", [])), True, id="does not exist"),
        pytest.param(selector(None, ("app", "DoesNotExist", [])), False, id="does not exist, but does"),
        pytest.param(selector({"app": "web"}, ("track", "NotIn", ["blue"])), False, id="both parts must hold"),
    ],
)
def test_selectors_of_policy_v1(wanted: dict[str, Any] | None, selects: bool) -> None:
    found = cluster.decoded(cluster.budget("b", wanted))
    assert isinstance(found, kube.Budget)
    assert budgets.selects(found.spec.selector, {"app": "web", "track": "blue"}) is selects
    assert budgets.selecting([found], {"app": "web", "track": "blue"}) == (("b",) if selects else ())


def test_an_unknown_operator_is_not_guessed() -> None:
    found = cluster.decoded(cluster.budget("b", selector(None, ("app", "Like", ["w*"]))))
    assert isinstance(found, kube.Budget)
    with pytest.raises(ValueError, match="Like"):
        budgets.selects(found.spec.selector, {"app": "web"})
