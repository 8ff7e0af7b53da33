"""The copy of a side: what it takes over and what it does not."""

from typing import Any

import pytest

from fleet.domain import green_sides
from fleet.domain.revisions import ChangeError, Workload
from tests.domain.drains import budget

LABELS = {"app": "llm", "color": "blue"}
AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"color": "blue"}}}
        ]
    }
}


def blue(**more: Any) -> Workload:
    template = {
        "metadata": {"labels": LABELS, "annotations": {"kubectl.kubernetes.io/restartedAt": "x", "sim": "1"}},
        "spec": {"containers": [{"name": "server", "image": "llm:1"}], "affinity": AFFINITY},
    }
    metadata = {
        "name": "llm-blue",
        "namespace": "chat",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {**LABELS, "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "argocd.argoproj.io/tracking-id": "x",
            "team": "chat",
            "deployment.kubernetes.io/revision": "4",
        },
    }
    spec = {"replicas": 4, "paused": True, "selector": {"matchLabels": LABELS}, "template": template, **more}
    return Workload("Deployment", {"metadata": metadata, "spec": spec, "status": {"replicas": 4}})


def green(**more: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "labels": ("color",),
        "version": "green",
        "images": {"server": "llm:2"},
        "name": "llm-green",
    }
    return green_sides.green(blue(), **{**wanted, **more})


def test_a_copy_has_its_own_version_everywhere_and_nobody_elses_marks() -> None:
    made = green(action="M-0001")
    assert made["metadata"] == {
        "name": "llm-green",
        "labels": {"app": "llm", "color": "green"},
        "annotations": {"team": "chat", "vigie.dev/copy-of": "llm-blue", "vigie.dev/created-by": "M-0001"},
    }
    spec = made["spec"]
    assert (spec["replicas"], "paused" in spec, "status" in made) == (4, False, False)
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": "llm", "color": "green"}
    assert spec["template"]["metadata"]["annotations"] == {"sim": "1"}
    assert spec["template"]["spec"]["containers"] == [{"name": "server", "image": "llm:2"}]
    term = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["labelSelector"] == {"matchLabels": {"color": "green"}}
    assert not green_sides.overlaps(blue(), made)
    assert green_sides.overlaps(blue(selector={"matchLabels": {"app": "llm"}}), made)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"labels": ()}, "untold"),
        ({"version": "blue"}, "same-version"),
        ({"version": "a b"}, "version"),
        ({"version": ""}, "version"),
        ({"name": "LLM"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"images": {"server": "llm:1"}}, "same-image"),
    ],
)
def test_what_cannot_be_a_copy(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ChangeError) as refused:
        green(**given)
    assert refused.value.why == why


def test_its_own_budget_is_as_blues_unless_one_is_over_it_already() -> None:
    made = green()
    over = budget("llm-blue", "llm", minAvailable="50%")
    assert green_sides.shared_budgets([over], made) == ("llm-blue",)
    own = green_sides.budget(made, [over])
    assert own["spec"] == {"selector": {"matchLabels": {"app": "llm", "color": "green"}}, "minAvailable": "50%"}
    assert green_sides.budget(made, [])["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("name", "was", "version", "made"),
    [
        ("llm-blue", "blue", "green", "llm-green"),
        ("llm-v1-2", "v1.2", "v1.3", "llm-v1-3"),
        ("llm", "blue", "Green_2", "llm-green-2"),
        ("x" * 63, "blue", "green", "x" * 57 + "-green"),
    ],
)
def test_what_it_is_called(name: str, was: str, version: str, made: str) -> None:
    assert green_sides.default_name(name, was, version) == made
