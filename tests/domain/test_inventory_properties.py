"""Whatever happens in whatever order: the kept picture is the one that a fresh inventory makes of the same objects."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.domain import changes
from fleet.domain.changes import Screen, View
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Kind, Listed
from fleet.domain.picture import EMPTY, Snapshot
from fleet.domain.stages import Stage
from tests.domain.cluster import EPOCH, KIND_OF, budget, changed, controller, deleted, node, occurrence, owned_by, pod

Made = dict[str, Any]

NODES = st.builds(
    node,
    st.sampled_from(["n1", "n2"]),
    gpus=st.sampled_from([0, 2, 8]),
    allocatable=st.sampled_from([None, 1]),
    cordoned=st.booleans(),
    ready=st.sampled_from(["True", "True", "Unknown"]),
)
OWNERS = st.sampled_from(
    [
        [],
        owned_by("ReplicaSet", "web-1"),
        owned_by("ReplicaSet", "web-1", uid="uid-older"),
        owned_by("StatefulSet", "db"),
        owned_by("PyTorchJob", "llama"),
    ]
)
CRASHED = {"terminated": {"exitCode": 1, "message": "out of memory"}}
STATUSES = st.sampled_from(
    [
        {},
        {"conditions": []},
        {
            "conditions": [],
            "containerStatuses": [{"name": "main", "restartCount": 2, "state": {"running": {}}, "lastState": CRASHED}],
        },
        {"conditions": [], "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
    ]
)
PODS = st.builds(
    pod,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["", "n1", "n2", "n3"]),
    gpus=st.integers(0, 4),
    phase=st.sampled_from(["Running", "Running", "Pending", "Succeeded"]),
    ownerReferences=OWNERS,
    status=STATUSES,
    labels=st.sampled_from([{}, {"app": "web", "pod-template-hash": "1"}, {"team": "nlp", "pod-template-hash": "2"}]),
    deletionTimestamp=st.sampled_from([None, None, EPOCH]),
)
REPLICA_SETS = st.builds(
    controller,
    st.just("ReplicaSet"),
    st.just("web-1"),
    st.integers(0, 2),
    ownerReferences=st.sampled_from([[], owned_by("Deployment", "web"), owned_by("Rollout", "web")]),
    annotations=st.sampled_from([{}, {"deployment.kubernetes.io/revision": "2"}]),
)
DEPLOYMENTS = st.builds(
    controller,
    st.just("Deployment"),
    st.just("web"),
    st.integers(0, 3),
    gpus=st.integers(0, 1),
    status=st.sampled_from([{}, {"replicas": 1, "availableReplicas": 1}]),
    annotations=st.sampled_from([{}, {"deployment.kubernetes.io/revision": "2"}]),
)
STATEFUL_SETS = st.builds(
    controller,
    st.just("StatefulSet"),
    st.just("db"),
    spec=st.sampled_from([{}, {"updateStrategy": {"type": "OnDelete"}}]),
    ownerReferences=st.sampled_from([[], owned_by("Deployment", "web")]),
)
BUDGETS = st.builds(
    budget,
    st.sampled_from(["b1", "b2"]),
    st.sampled_from([None, {}, {"matchLabels": {"app": "web"}}]),
    st.sampled_from(["lab", "x"]),
    status=st.sampled_from([{}, {"disruptionsAllowed": 1}]),
)
OCCURRENCES = st.builds(
    occurrence,
    st.one_of(PODS, NODES, DEPLOYMENTS),
    st.sampled_from(["e1", "e2", "e3"]),
    host=st.sampled_from(["", "", "n1"]),
    count=st.integers(1, 2),
    type=st.sampled_from(["Normal", "Warning"]),
    reason=st.sampled_from(["Unhealthy", "FailedMount"]),
)
OBJECTS = st.one_of(PODS, PODS, NODES, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, BUDGETS, OCCURRENCES)


def key(found: Mapping[str, Any]) -> tuple[str, str, str]:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


class Story:
    """An inventory that lives through events, and what the cluster holds meanwhile."""

    def __init__(self) -> None:
        self.cluster: dict[tuple[str, str, str], Made] = {}
        self.inventory = Inventory()
        self.version = 0
        self.shown = EMPTY

    def change(self, found: Made) -> None:
        self.inventory.apply(changed(self.versioned(found)))

    def versioned(self, found: Made) -> Made:
        self.version += 1
        found = found | {"metadata": found["metadata"] | {"resourceVersion": str(self.version)}}
        self.cluster[key(found)] = found
        return found

    def delete(self, found: Made) -> None:
        if self.cluster.pop(key(found), None):
            self.inventory.apply(deleted(found))

    def relist(self, found: Made) -> None:
        """A gap: something happened that was never told, then the kind is listed."""
        self.cluster.pop(key(found), None)
        self.inventory.apply(self.listed(KIND_OF[found["kind"]]))

    def listed(self, kind: Kind) -> Listed:
        objects = tuple(changed(found).object for found in self.cluster.values() if KIND_OF[found["kind"]] is kind)
        return Listed(kind, objects, str(self.version))

    def look(self) -> None:
        """Every look is sent to the browsers as a delta."""
        new = self.inventory.snapshot()
        check_delta(self.shown, new)
        self.shown = new


def check_delta(old: Snapshot, new: Snapshot) -> None:
    delta = changes.diff(old, new)
    assert (delta is None) == (old == new)
    if delta is None:
        return
    assert changes.apply(old, delta) == new
    for view in (View(Screen.FLEET), View(Screen.NODE, "n1"), View(Screen.ROLLOUT, workload="Deployment/lab/web")):
        part = changes.filtered(delta, view, old, new)
        before = EMPTY_VIEW | changes.rows(old, view)
        after = changes.apply(Snapshot(**before), part) if part else Snapshot(**before)
        assert after == Snapshot(**(EMPTY_VIEW | changes.rows(new, view)))


EMPTY_VIEW: dict[str, Any] = {name: {} for name in EMPTY.__struct_fields__}
STEPS: Mapping[str, Callable[[Story, Made], None]] = {
    "change": Story.change,
    "change again": Story.change,
    "delete": Story.delete,
    "gap": Story.relist,
    "look": lambda story, _: story.look(),
}


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), OBJECTS), max_size=25), st.randoms(use_true_random=False))
def test_the_kept_picture_is_the_one_of_a_fresh_start(steps: list[tuple[str, Made]], random: Any) -> None:
    story = Story()
    for name, found in steps:
        STEPS[name](story, found)
    story.look()
    fresh = Inventory()
    lists = [story.listed(kind) for kind in Kind]
    random.shuffle(lists)
    for one in lists:
        fresh.apply(one)
    assert story.shown == fresh.snapshot()
    again = [changed(found) for found in story.cluster.values()]
    random.shuffle(again)
    for event in again:
        story.inventory.apply(event)
    assert story.inventory.snapshot() is story.shown


@given(st.lists(OBJECTS, max_size=20))
def test_numbers_hold_together(objects: list[Made]) -> None:
    """Invariants of any fleet: sums over nodes, products and cells say the same."""
    made = Inventory()
    for found in objects:
        made.apply(changed(found))
    shown = made.snapshot()
    fleet = shown.fleet["fleet"]
    assert fleet.gpus == fleet.available + fleet.cordoned + fleet.tainted + fleet.silent + fleet.withdrawn
    assert fleet.free == sum(row.free for row in shown.products.values())
    assert fleet.allocated == sum(r.allocated for row in shown.nodes.values() for r in row.resources)
    assert dict(fleet.slots)[1] == fleet.free
    assert fleet.largest_hole <= fleet.free
    assert sum(dict(fleet.cells).values()) == sum(len(row.cells) for row in shown.nodes.values())
    for row in shown.nodes.values():
        assert all(r.free == max(0, r.allocatable - r.allocated) for r in row.resources)
        assert sum(r.allocated for r in row.resources) == sum(
            p.gpus for p in shown.pods.values() if p.node == row.name and p.stage != Stage.ENDED
        )
        assert row.usable or "f" not in row.cells
    assert {row.workload for row in shown.pods.values()} - {""} <= shown.workloads.keys()
    assert all(
        row.kind in {r for n in shown.nodes.values() for r in n.reasons} or not row.node
        for row in shown.attention.values()
    )
