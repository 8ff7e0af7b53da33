"""Which Events show with which node, and that only the newest are kept."""

from typing import Any

import pytest

from fleet.domain import changes, occurrences
from fleet.domain.changes import Screen, View
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Kind
from fleet.domain.occurrences import MOST, MOST_HOMELESS
from fleet.domain.picture import EventRow
from tests.domain.cluster import (
    EPOCH_AT,
    changed,
    controller,
    deleted,
    inventory,
    listed,
    node,
    occurrence,
    pod,
    snapshot,
)

Made = dict[str, Any]


def shown(made: Inventory) -> dict[str, str]:
    """Node by event."""
    return {key: row.node for key, row in made.snapshot().events.items()}


def test_an_event_says_what_happened_to_whom() -> None:
    found = snapshot(node(), pod(), occurrence(pod(), host="n1", reason="BackOff", type="Warning", count=3)).events
    assert found == {
        "lab/e1": EventRow(
            "n1", "Pod", "lab", "p1", "Warning", "BackOff", "BackOff it", count=3, last_at=EPOCH_AT, source="kubelet"
        )
    }


def test_an_event_about_the_node_belongs_to_it() -> None:
    assert shown(inventory(node(), occurrence(node()))) == {"default/e1": "n1"}


def test_events_about_others_show_nowhere() -> None:
    assert shown(inventory(node(), occurrence({"kind": "ReplicaSet", "metadata": {"name": "web"}}))) == {}


def test_the_newest_of_a_workload_are_kept_for_its_own_page() -> None:
    web = controller("Deployment", "web")
    told = [
        occurrence(web, f"e{i:02}", at=f"2026-12-01T19:00:{i:02}Z", reason="ScalingReplicaSet") for i in range(MOST + 2)
    ]
    made = inventory(node(), web, *told, occurrence(node(), "other"))
    assert set(made.snapshot().events) == {f"lab/e{i:02}" for i in range(2, MOST + 2)} | {"default/other"}
    view = View(Screen.ROLLOUT, workload="Deployment/lab/web")
    old = made.snapshot()
    assert set(changes.rows(old, view)["events"]) == {f"lab/e{i:02}" for i in range(2, MOST + 2)}
    made.apply(deleted(told[5]))
    new = made.snapshot()
    delta = changes.diff(old, new)
    assert delta is not None
    assert changes.filtered(delta, view, old, new) == changes.filtered(delta, View(Screen.EVERYTHING), old, new)
    assert "lab/e05" not in new.events


@pytest.mark.parametrize("pod_first", [True, False])
def test_an_event_without_a_host_goes_where_its_pod_is(pod_first: bool) -> None:
    made = inventory(*([pod(node=""), occurrence(pod())] if pod_first else [occurrence(pod()), pod(node="")]))
    assert shown(made) == {}
    made.apply(changed(pod(node="n1")))
    assert shown(made) == {"lab/e1": "n1"}
    made.apply(deleted(pod()))
    assert shown(made) == {}


def test_a_kubelets_event_outlives_its_pod() -> None:
    made = inventory(pod(), occurrence(pod(), host="n1", reason="Killing"))
    made.apply(deleted(pod()))
    assert shown(made) == {"lab/e1": "n1"}


def test_an_event_of_a_predecessor_is_not_its_successors() -> None:
    made = inventory(pod(uid="first"), occurrence(pod(uid="first")))
    made.apply(changed(pod(node="n2", uid="second")))
    assert shown(made) == {}


def test_an_event_that_happens_again_is_the_same_row() -> None:
    made = inventory(occurrence(node()))
    made.snapshot()
    made.apply(changed(occurrence(node(), count=2, lastTimestamp="2026-12-01T19:01:00Z")))
    (row,) = made.snapshot().events.values()
    assert (row.count, row.last_at) == (2, EPOCH_AT + 60)


def test_a_series_counts() -> None:
    series = {"count": 7, "lastObservedTime": "2026-12-01T19:02:00.123456Z"}
    made = inventory(occurrence(node(), count=None, firstTimestamp=None, lastTimestamp=None, series=series))
    (row,) = made.snapshot().events.values()
    assert (row.count, row.last_at) == (7, EPOCH_AT + 120)


def test_the_newest_of_a_node_are_kept() -> None:
    made = inventory(
        *(occurrence(node(), f"e{i:02}", at=f"2026-12-01T19:00:{i:02}Z") for i in range(MOST + 5)),
        occurrence(node("n2"), "other"),
    )
    newest = {f"default/e{i:02}": "n1" for i in range(5, MOST + 5)}
    assert shown(made) == newest | {"default/other": "n2"}


def test_what_was_forgotten_comes_back_when_it_happens_again() -> None:
    made = inventory(*(occurrence(node(), f"e{i:02}", at=f"2026-12-01T19:00:{i:02}Z") for i in range(MOST + 1)))
    assert "default/e00" not in shown(made)
    made.apply(changed(occurrence(node(), "e00", at="2026-12-01T19:05:00Z")))
    assert shown(made).keys() == {f"default/e{i:02}" for i in range(MOST + 1)} - {"default/e01"}


def test_events_about_pods_without_a_node_are_bounded() -> None:
    made = inventory(*(occurrence(pod(f"p{i}"), f"e{i}") for i in range(MOST_HOMELESS)))
    assert shown(made) == {}
    made.apply(changed(occurrence(pod("late"), "late")))
    assert shown(made) == {}
    for name in ("p0", "p1", "late"):
        made.apply(changed(pod(name)))
    assert shown(made) == {"lab/e1": "n1", "lab/late": "n1"}


def test_events_that_expire_or_are_not_listed_any_more_go() -> None:
    made = inventory(occurrence(node()), occurrence(node(), "e2"), occurrence(node(), "e3"))
    made.apply(deleted(occurrence(node())))
    assert shown(made).keys() == {"default/e2", "default/e3"}
    made.apply(listed(Kind.EVENT, occurrence(node(), "e3")))
    assert shown(made).keys() == {"default/e3"}


def test_a_message_of_any_length_is_cut() -> None:
    (row,) = snapshot(occurrence(node(), message="x" * 100_000)).events.values()
    assert len(row.message) == occurrences.LONGEST
