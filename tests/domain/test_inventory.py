"""How the inventory takes events in: relists, late deletions, joins that arrive in any order."""

from typing import Any

import pytest

from fleet.domain.inventory import Inventory
from fleet.domain.kube import Bookmark, Kind, Listed, Lost
from fleet.domain.picture import EMPTY, Snapshot
from tests.domain import cluster
from tests.domain.cluster import budget, changed, controller, deleted, inventory, listed, node, owned_by, pod, snapshot

WEB = controller("Deployment", "web", labels={"app": "web"})
WEB_1 = controller("ReplicaSet", "web-1", ownerReferences=owned_by("Deployment", "web"))
WEB_POD = pod("web-1-a", labels={"app": "web"}, ownerReferences=owned_by("ReplicaSet", "web-1"))


def test_complete_once_every_kind_was_listed() -> None:
    made = Inventory()
    for kind in Kind:
        assert not made.complete
        made.apply(Listed(kind, (), "1"))
    assert made.complete


@pytest.mark.parametrize("event", [Bookmark(Kind.POD, "9"), Lost(Kind.POD, "timeout", 1.0), listed(Kind.SERVICE)])
def test_what_says_nothing_about_rows_changes_nothing(event: Any) -> None:
    made = inventory(node(), pod())
    before = made.snapshot()
    made.apply(event)
    assert made.snapshot() is before


def test_the_same_version_again_changes_nothing() -> None:
    made = inventory(node(resourceVersion="5"), pod(resourceVersion="6"))
    before = made.snapshot()
    made.apply(listed(Kind.NODE, node(resourceVersion="5")))
    made.apply(changed(pod(resourceVersion="6")))
    assert made.snapshot() is before


def test_rows_that_did_not_change_stay_the_same_objects() -> None:
    made = inventory(node("a"), node("b"), pod("p1", "a"), pod("p2", "b"))
    before = made.snapshot()
    made.apply(changed(pod("p1", "a", gpus=2)))
    after = made.snapshot()
    assert after.nodes["b"] is before.nodes["b"]
    assert after.pods["lab/p2"] is before.pods["lab/p2"]
    assert after.workloads is before.workloads
    assert after.nodes["a"].resources[0].allocated == 2


def test_a_relist_removes_what_was_deleted_in_the_gap() -> None:
    made = inventory(node(), pod("p1", gpus=3), pod("p2", gpus=2))
    made.snapshot()
    made.apply(listed(Kind.POD, pod("p2", gpus=2)))
    found = made.snapshot()
    assert set(found.pods) == {"lab/p2"}
    assert found.nodes["n1"].resources[0].allocated == 2


def test_a_relist_shows_who_was_made_anew_under_the_same_name() -> None:
    made = inventory(node("a"), node("b"), pod("p", "a", uid="first", resourceVersion="1"))
    made.snapshot()
    made.apply(listed(Kind.POD, pod("p", "b", uid="second", resourceVersion="9")))
    found = made.snapshot()
    assert (found.pods["lab/p"].uid, found.pods["lab/p"].node) == ("second", "b")
    assert (found.nodes["a"].pods, found.nodes["b"].pods) == (0, 1)


@pytest.mark.parametrize(("uid", "gone"), [("first", False), ("second", True), ("", True)])
def test_a_late_deletion_does_not_remove_the_successor(uid: str, gone: bool) -> None:
    made = inventory(node(), pod("p", uid="second"))
    made.apply(deleted(pod("p", uid=uid)))
    assert ("lab/p" not in made.snapshot().pods) is gone


def test_deleting_what_is_not_there_is_harmless() -> None:
    made = inventory(node())
    made.apply(deleted(pod()))
    made.apply(deleted(budget("b", {})))
    assert set(made.snapshot().nodes) == {"n1"}


def test_a_cluster_that_lost_everything_looks_like_one_that_never_had_anything() -> None:
    everything = [node(), WEB, WEB_1, WEB_POD, budget("b", {})]
    made = inventory(*everything)
    made.snapshot()
    for one in everything:
        made.apply(deleted(one))
    assert made.snapshot() == Inventory().snapshot() != EMPTY


@pytest.mark.parametrize(
    "found",
    [pod("p", "", phase="Pending"), pod("p"), pod("p", phase="Succeeded"), pod("p", phase="Failed")],
    ids=["waiting", "running", "succeeded while bound", "failed while bound"],
)
def test_which_pods_have_a_row(found: dict[str, Any]) -> None:
    assert set(snapshot(found).pods) == {"lab/p"}


def test_a_pod_that_ended_without_a_node_has_no_row() -> None:
    assert snapshot(pod("p", "", status={"phase": "Failed"})).pods == {}


def test_a_pod_that_gets_its_node_moves_there() -> None:
    made = inventory(node(), pod("p", "", gpus=2))
    before = made.snapshot()
    assert (before.fleet["fleet"].waiting_pods, before.nodes["n1"].pods) == (1, 0)
    made.apply(changed(pod("p", "n1", gpus=2)))
    after = made.snapshot()
    assert (after.fleet["fleet"].waiting_pods, after.nodes["n1"].pods) == (0, 1)
    assert after.attention == {}


def test_the_pods_of_a_node_may_come_before_it() -> None:
    assert snapshot(pod(gpus=3), node()) == snapshot(node(), pod(gpus=3))


@pytest.mark.parametrize("first", range(3))
def test_owners_may_come_in_any_order(first: int) -> None:
    objects = [WEB, WEB_1, WEB_POD]
    objects = objects[first:] + objects[:first]
    made = Inventory()
    for one in objects:
        made.apply(changed(one))
        made.snapshot()
    found = made.snapshot()
    assert set(found.workloads) == {"Deployment/lab/web"}
    assert found.pods["lab/web-1-a"].workload == "Deployment/lab/web"


def test_a_budget_marks_the_pods_that_it_selects_and_unmarks_them() -> None:
    made = inventory(WEB, WEB_1, WEB_POD, pod("other"))

    def marks() -> tuple[tuple[str, ...], ...]:
        found = made.snapshot()
        return (
            found.pods["lab/web-1-a"].budgets,
            found.pods["lab/other"].budgets,
            found.workloads["Deployment/lab/web"].budgets,
        )

    assert marks() == ((), (), ())
    made.apply(changed(budget("b", {"matchLabels": {"app": "web"}})))
    made.apply(changed(budget("elsewhere", {}, namespace="prod")))
    assert marks() == (("b",), (), ("b",))
    made.apply(changed(budget("b", {})))
    assert marks() == (("b",), ("b",), ("b",))
    made.apply(deleted(budget("b", {})))
    assert marks() == ((), (), ())


def test_a_team_of_the_workload_reaches_its_pods() -> None:
    made = inventory(WEB, WEB_1, WEB_POD)
    assert made.snapshot().pods["lab/web-1-a"].team == ""
    made.apply(changed(WEB | {"metadata": WEB["metadata"] | {"labels": {"team": "search"}}}))
    assert made.snapshot().pods["lab/web-1-a"].team == "search"


def test_a_cordon_is_one_change_though_it_comes_in_two_events() -> None:
    """api-server.md 18: the field first, the taint 10-30 ms later, and the reverse on uncordon."""
    taint = ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},)
    made = inventory(node())
    steps: list[Snapshot] = [made.snapshot()]
    for more in ({"cordoned": True}, {"cordoned": True, "taints": taint}, {"taints": taint}, {}):
        made.apply(changed(node(**more)))
        steps.append(made.snapshot())
    assert [step.nodes["n1"].cells for step in steps] == ["ffffffff", "cccccccc", "cccccccc", "ffffffff", "ffffffff"]
    assert steps[1] is steps[2]
    assert steps[3] is steps[4]
    assert steps[4] == steps[0]


def test_objects_that_no_row_needs_are_not_kept() -> None:
    service = {"kind": "Service", "metadata": cluster.meta("web", "lab"), "spec": {"selector": {"app": "web"}}}
    made = inventory(service)
    made.apply(deleted(service))
    assert made.snapshot() == Inventory().snapshot()
