"""What a rollout's page shows beyond the row: pods, the line of time, and the ways out that the mock of the page tells of."""

from typing import Any

import pytest

from fleet.domain.picture import Snapshot
from fleet.domain.rollout_detail import Detail, Point, Side, What, detail
from fleet.domain.rollouts import Bounds
from fleet.domain.strategy import Kind, advise, ground
from fleet.domain.ways_out import Remedy, Way
from tests.domain.cluster import EPOCH, EPOCH_AT, GPU, budget, controller, node, occurrence, owned_by, pod, snapshot
from tests.domain.test_holdups import (
    KEY,
    ONE_MISSING,
    SETS,
    SURGE_ONE,
    container,
    deployment,
    member,
    waiting_for_gpus,
    waits,
)

LATER = "2026-12-01T19:05:00Z"


def told(shown: Snapshot) -> Detail:
    found = detail(shown, KEY)
    assert found is not None
    return found


def ways(*objects: dict[str, Any], main: dict[str, Any] | None = None) -> list[Way]:
    (one,) = told(snapshot(*SETS, main or deployment(**SURGE_ONE), *objects)).holdups
    return list(one.ways)


def trainer(name: str, on: str, gpus: int, **more: Any) -> dict[str, Any]:
    return pod(name, on, gpus, labels={"app": "train"}, ownerReferences=owned_by("StatefulSet", "train"), **more)


TRAIN = controller("StatefulSet", "train", 2)
OLD = (member("old-1", 1, "n1", 1), member("old-2", 1, "n1", 1), member("old-3", 1, "n2", 1))


def test_a_cordoned_node_an_old_pod_or_another_pod_would_make_a_hole() -> None:
    """Two GPUs instead of one: n1 has no free GPU and two old pods, n2 one free and one old, n3 one free and a trainer of one."""
    nodes = (
        node("n1", 2),
        node("n2", 2),
        node("n3", 2),
        node("n4", 8, cordoned=True),
        node("n5", 8, cordoned=True, taints=({"key": "broken", "effect": "NoSchedule"},)),
        node("n6", 8, ready="Unknown"),
    )
    rule = budget("train", {"matchLabels": {"app": "train"}})
    found = ways(
        *nodes, *OLD, TRAIN, trainer("train-0", "n3", 1), rule, waiting_for_gpus("new-1"), waiting_for_gpus("new-2")
    )
    assert [(way.remedy, way.subject, way.pods, way.moved) for way in found] == [
        (Remedy.UNCORDON, "n4", 2, ()),
        (Remedy.LET_GO, "n2", 1, ("lab/old-3",)),
        (Remedy.LET_GO, "n1", 1, ("lab/old-1", "lab/old-2")),
        (Remedy.MOVE, "n3", 1, ("lab/train-0",)),
        (Remedy.ALLOW_MISSING, "", 1, ()),
        (Remedy.UNDO, "1", 0, ()),
    ]
    assert next(way for way in found if way.remedy is Remedy.MOVE).budgets == ("train",)
    assert dict(found[-1].facts) == {"serving": 3}
    assert dict(found[-2].facts) == {"lowest": 1}


def test_nothing_is_moved_that_finds_no_place_or_comes_back_to_the_same_node() -> None:
    full = (node("n1", 2), *OLD[:2])
    daemon = pod("d", "n3", 1, ownerReferences=owned_by("DaemonSet", "d"))
    for other in (daemon, pod("bare", "n3", 1), trainer("train-0", "n3", 2)):
        found = ways(*full, node("n3", 2), TRAIN, other, waiting_for_gpus())
        assert not [way for way in found if way.remedy is Remedy.MOVE]


CHOOSY = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("message", "remedies"),
    [
        pytest.param(CHOOSY, [Remedy.CHANGE_PLACING, Remedy.UNDO], id="its selector may refuse the cordoned node too"),
        pytest.param(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.",
            [Remedy.UNCORDON, Remedy.CHANGE_PLACING, Remedy.UNDO],
            id="no GPU lacks, so no pod that goes helps",
        ),
        pytest.param(
            CHOOSY.replace("2 node(s)", f"1 Insufficient {GPU}, 1 node(s)"),
            [Remedy.LET_GO, Remedy.ALLOW_MISSING, Remedy.UNDO],
            id="old pods stand where it may run",
        ),
    ],
)
def test_no_place_is_promised_that_the_pod_itself_may_refuse(message: str, remedies: list[Remedy]) -> None:
    nodes = (node("n1", 2), node("n3", 2), node("n4", 8, cordoned=True))
    train = trainer("train-0", "n3", 1)
    found = ways(*nodes, *OLD[:2], TRAIN, train, node("n5", 1), waiting_for_gpus("new-1", message))
    assert [way.remedy for way in found] == remedies


def test_a_paused_rollout_is_resumed_before_anything_is_undone() -> None:
    paused = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused", "lastUpdateTime": EPOCH}
    found = ways(node("n1"), *OLD, main=deployment(paused, paused=True))
    assert [way.remedy for way in found] == [Remedy.RESUME]


def test_waiting_helps_as_long_as_something_moves() -> None:
    found = ways(node("n1", 2), node("n2", 1), *OLD, waiting_for_gpus(), main=deployment(**ONE_MISSING))
    assert (found[0].remedy, found[0].pods) == (Remedy.WAIT, 1)
    assert dict(found[0].facts)["may_go"] == 1


def test_each_reason_has_its_answer_and_the_version_before() -> None:
    found = ways(node("n1"), *OLD, member("new-1", status=container(waits("ErrImagePull"))))
    assert [(way.remedy, way.subject) for way in found] == [(Remedy.FIX_IMAGE, "lab/new-1"), (Remedy.UNDO, "1")]
    first = ways(node("n1"), member("new-1", status=container(waits("ErrImagePull"))))
    assert [way.remedy for way in first] == [Remedy.FIX_IMAGE], "there is nothing to go back to"


def test_pods_and_the_line_of_time() -> None:
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": LATER}]
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": EPOCH}
    stopping = member("old-2", 1, "n2", deletionTimestamp="2026-12-01T19:05:30Z")
    new = member("new-1", status={"conditions": [placed, *ready]})
    found = told(
        snapshot(
            node("n1"), node("n2"), *SETS, deployment(), member("old-1", 1), stopping, new, waiting_for_gpus("new-2")
        )
    )
    assert [(line.key, line.side) for line in found.pods] == [
        ("lab/old-1", Side.OLD),
        ("lab/old-2", Side.OLD),
        ("lab/new-1", Side.NEW),
        ("lab/new-2", Side.NEW),
    ]
    assert [line.cause for line in found.pods] == ["", "", "", "no-hole"]
    assert [(m.at, m.what) for m in found.moments if m.pod == "lab/new-1"] == [
        (EPOCH_AT, What.MADE),
        (EPOCH_AT, What.PLACED),
        (EPOCH_AT + 300, What.READY),
    ]
    assert found.points == (Point(EPOCH_AT, 0, 2, 2), Point(EPOCH_AT + 300, 1, 1, 1)), (
        "its grace of 30 s began at 19:05:00"
    )
    assert (found.largest, found.slots) == (6, 5)


def test_a_pod_that_stops_is_not_drawn_as_if_it_had_never_been_ready() -> None:
    unready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": LATER}]}
    going = member("new-1", on="n1", status=unready, deletionTimestamp="2026-12-01T19:05:30Z")
    found = told(snapshot(node("n1"), *SETS, deployment(), going))
    assert {(point.new_ready, point.new_other) for point in found.points} == {(0, 0)}


def test_what_has_no_rollouts_has_no_detail() -> None:
    assert detail(snapshot(node("n1"), controller("Job", "t")), "Job/lab/t") is None
    assert detail(snapshot(), KEY) is None


def test_pods_without_gpus_look_for_no_hole() -> None:
    main = controller("Deployment", "web", 1, 0)
    found = detail(
        snapshot(node("n1"), main, pod("w", gpus=0, ownerReferences=owned_by("ReplicaSet", "x"))), "Deployment/lab/web"
    )
    assert found is not None
    assert (found.largest, found.slots) == (None, None)
    assert GPU not in str(found.row)


def test_the_ground_of_the_advice_is_the_picture() -> None:
    shown = snapshot(
        node("n1", 4), node("n2", 4, cordoned=True), *SETS, deployment(), member("old-1", 2), member("old-2", 2, "n2")
    )
    found = ground(shown, KEY)
    assert found is not None
    assert (found.replicas, found.gpus, found.old_gpus, found.stop_s) == (2, 2, 2, 30)
    assert (found.free, found.old, found.present) == ({"n1": 2}, {"n1": 1, "n2": 1}, Bounds(1, 0, 3, 2))
    assert [(one.kind, one.finishes) for one in advise(found).strategies] == [
        (Kind.BLUE_GREEN, False),
        (Kind.SURGE_ONE, False),
        (Kind.REPLACE_ONE, True),
        (Kind.PRESENT, False),
    ], "the pod on the cordoned node may be the one that goes, and frees nothing that a new one could take"
    assert ground(snapshot(node("n1"), *SETS, deployment()), KEY) is None, "no pod tells which GPUs it asks for"
    assert ground(shown, "Job/lab/t") is None


def test_a_stateful_set_is_never_advised_one_more_and_a_daemon_set_nothing() -> None:
    main = controller("StatefulSet", "db", 1, status={"replicas": 1, "updatedReplicas": 1})
    pods = [pod(kind, "n1", 1, ownerReferences=owned_by(kind, "db")) for kind in ("StatefulSet", "DaemonSet")]
    shown = snapshot(node("n1", 4), main, controller("DaemonSet", "db"), *pods)
    found = ground(shown, "StatefulSet/lab/db")
    assert found is not None
    kinds = [one.kind for one in advise(found).strategies]
    assert kinds == [Kind.BLUE_GREEN, Kind.REPLACE_ONE, Kind.PRESENT]
    assert "DaemonSet/lab/db" in shown.rollouts
    assert ground(shown, "DaemonSet/lab/db") is None


def scaling(number: int, words: str, at: str, **more: Any) -> dict[str, Any]:
    main = deployment()
    return occurrence(main, f"e{number}", at=at, reason="ScalingReplicaSet", message=words, **more)


def test_old_pods_that_are_gone_are_counted_from_what_events_tell() -> None:
    """Three old pods: one went at 19:02 and is gone, one was asked to stop at 19:04 and still does; up to there all served."""
    stops = {"deletionTimestamp": "2026-12-01T19:04:30Z"}
    old = (member("old-1", 1, "n1"), member("old-2", 1, "n2", **stops))
    new = member("new-1", creationTimestamp="2026-12-01T19:01:00Z")
    events = (
        scaling(1, "Scaled up replica set llm-2 from 0 to 1", "2026-12-01T19:01:00Z"),
        scaling(2, "Scaled down replica set llm-1 from 3 to 2", "2026-12-01T19:02:00Z"),
        scaling(3, "Scaled down replica set llm-1 to 1 from 2", "2026-12-01T19:04:00Z"),
        scaling(4, "Scaled down replica set llm-1 from 9 to 8", "2026-12-01T19:04:00Z", count=2),
        scaling(5, "something new", "2026-12-01T19:04:30Z"),
    )
    found = told(snapshot(node("n1"), node("n2"), *SETS, deployment(), *old, new, *events))
    assert [row.message for row in found.happened][:2] == ["something new", "Scaled down replica set llm-1 from 9 to 8"]
    totals = {point.at - EPOCH_AT: (point.old_ready, point.old_gone) for point in found.points}
    assert {at: totals[at] for at in (60, 120, 240)} == {60: (2, 1), 120: (2, 0), 240: (1, 0)}
