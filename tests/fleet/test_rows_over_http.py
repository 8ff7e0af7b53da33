"""Every row of the reference about draining (kubernetes.md b1 to b4) and of the cases T1, T3 and T4, against the rehearsal over
HTTP: the requests that Vigie makes, what the server answers, and what is made of it. The ids of tests name their rows.

b1, T1   test_who_would_go; the order of filters and 403 on DaemonSets are among its rows
b2, T4   test_whether_budgets_are_asked (2xx, 429 of budgets), test_nobody_without_the_right_evicts (403),
         test_an_answer_that_budgets_do_not_give (404, 409, 429 of throttling, 500, 504),
         test_in_a_namespace_that_is_being_deleted (403), test_one_round_of_asking (one that fails stops no other, blocked ones
         hold no slot, a namesake is another pod); the wait until they are gone: test_act_rehearsal
b3       test_whether_budgets_are_asked (1, 3, 4, 5, 6), test_an_answer_that_budgets_do_not_give (2, 7),
         test_an_eviction_is_charged_and_marked (7, 8), test_an_unready_pod_that_changes_meanwhile (3)
b4, T3   test_the_arithmetic_of_budgets: ours, the disruption controller's, and the eviction's answer agree;
         test_an_evicted_pod_is_charged_for_two_minutes
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fleet import act
from fleet.act import Actor, running
from fleet.act.collect import collect
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain import draining
from fleet.domain.budgets import Standing
from fleet.domain.draining import Answer, Blocker, Meaning, Options, Stay, classify
from fleet.domain.plans import LaneState
from fleet.ports import PortError
from fleet.simulation import refusals
from fleet.simulation.auth import User
from fleet.simulation.budgets import Budgets
from fleet.simulation.clock import RealClock, stamp
from fleet.simulation.machinery import PROCESSES
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.resources import RESOURCES
from fleet.simulation.server_faults import Fault, Weather
from fleet.simulation.store import Store
from fleet.simulation.trainings import Trainings
from tests.fleet.clusters import wait_for
from tests.fleet.test_act import Lab

Object = dict[str, Any]

NODE = "node-02"
ADA = Actor("ada", "approver")
SPEED = 50.0
EVERY = tuple(kind for kinds in PROCESSES.values() for kind in kinds)
PLURALS = {resource.kind: plural for plural, resource in RESOURCES.items()}


class World:
    """A rehearsal of which only the named controllers run: every other object stays as a test puts it there."""

    def __init__(self, cluster: Serving, changes: KubernetesChanges) -> None:
        self.cluster, self.changes = cluster, changes
        self.store: Store = cluster.rehearsal.store

    def put(self, *objects: Object) -> None:
        def work() -> None:
            for obj in objects:
                self.store.restore(PLURALS[obj["kind"]], obj)

        self.cluster.call(work)

    def namespace(self, name: str, **metadata: Any) -> str:
        self.put(made("Namespace", name, "", **metadata))
        return name

    def get(self, kind: str, namespace: str, name: str) -> Object:
        return self.cluster.call(lambda: self.store.get(PLURALS[kind], namespace, name))

    def delete(self, namespace: str, name: str) -> None:
        self.cluster.call(lambda: self.store.delete("pods", namespace, name, grace_s=0))

    def evict(self, pod: Object, *, uid: str = "", dry_run: bool = False) -> Answer:
        meta = pod["metadata"]
        return classify(self.changes.evict(meta["namespace"], meta["name"], uid or meta["uid"], dry_run=dry_run))

    @contextlib.contextmanager
    def weather(self, *faults: Fault) -> Iterator[None]:
        self.cluster.call(lambda: self.cluster.stage.faults.set(faults))
        try:
            yield
        finally:
            self.cluster.call(lambda: self.cluster.stage.faults.set(()))

    @contextlib.contextmanager
    def changed(self, kind: type[Store]) -> Iterator[None]:
        """While it lasts, the store behaves as this kind of it."""
        before = type(self.store)
        self.store.__class__ = kind
        try:
            yield
        finally:
            self.store.__class__ = before


@contextlib.contextmanager
def world(*controllers: type) -> Iterator[World]:
    without = tuple(kind for kind in EVERY if kind not in {*controllers, Trainings})
    with serving(Rehearsal(nodes=4, pace=0, workloads=(), without=without, clock=RealClock(SPEED))) as cluster:
        connection = KubernetesCluster("rehearsal", str(cluster.kubeconfig))
        yield World(cluster, KubernetesChanges(connection.server))
        connection.close()


@pytest.fixture(scope="module")
def still() -> Iterator[World]:
    """Nothing moves: budgets have the status that a test gives them."""
    with world() as found:
        yield found


@pytest.fixture(scope="module")
def counting() -> Iterator[World]:
    """The disruption controller counts."""
    with world(Budgets) as found:
        yield found


def made(kind: str, name: str, namespace: str, **more: Any) -> Object:
    metadata = {"name": name, "uid": f"{namespace}-{kind}-{name}", "creationTimestamp": stamp(time.time())}
    obj: Object = {
        "kind": kind,
        "apiVersion": RESOURCES[PLURALS[kind]].api_version,
        "metadata": {**metadata, "generation": 1, **more.pop("metadata", {})},
        "spec": {},
        "status": {},
        **more,
    }
    if namespace:
        obj["metadata"]["namespace"] = namespace
    return obj


def owner(kind: str, name: str, namespace: str, *, controller: bool = True) -> list[Object]:
    version = {"Job": "batch/v1", "Rollout": "argoproj.io/v1alpha1"}.get(kind, "apps/v1")
    uid = f"{namespace}-{kind}-{name}"
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller}]


def pod(name: str, namespace: str, **more: Any) -> Object:
    """A Running, Ready pod on the node, labelled app=web. `of`: its controller's kind and name."""
    ready, phase = more.pop("ready", True), more.pop("phase", "Running")
    of, volumes = more.pop("of", ("ReplicaSet", "web")), more.pop("volumes", [])
    metadata: Object = {"labels": {"app": "web"}, **more.pop("metadata", {})}
    if of:
        metadata["ownerReferences"] = owner(*of, namespace)
    conditions = [
        {"type": "Ready", "status": str(ready and phase == "Running"), "lastTransitionTime": stamp(time.time())}
    ]
    node = more.pop("node", NODE)
    where = {} if phase == "Pending" else {"nodeName": node}
    spec = {
        "containers": [{"name": "main", "image": "sim.io/server:v1"}],
        "terminationGracePeriodSeconds": 30,
        "volumes": volumes,
        **where,
    }
    return made("Pod", name, namespace, metadata=metadata, spec=spec, status={"phase": phase, "conditions": conditions})


def going(at: float) -> Object:
    return {"deletionTimestamp": stamp(at), "deletionGracePeriodSeconds": 30}


def budget(name: str, namespace: str, status: Object | None = None, **spec: Any) -> Object:
    chosen = {"selector": {"matchLabels": {"app": "web"}}, **(spec or {"minAvailable": 1})}
    return made("PodDisruptionBudget", name, namespace, spec=chosen, status=status or {})


# --- b1 and T1: who would go ------------------------------------------------------------------------------------------------
SCRATCH = [{"name": "scratch", "emptyDir": {}}]
SELECTED = "t1"


def ten(now: float) -> list[Object]:
    """The pods of the case, by number."""
    loose = owner("ReplicaSet", "web", SELECTED, controller=False)
    return [
        made("DaemonSet", "agent", SELECTED),
        pod("p1", SELECTED, of=("DaemonSet", "agent")),
        pod("p2", SELECTED, of=None, metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}}),
        pod("p3", SELECTED, of=("Job", "j"), phase="Succeeded", volumes=SCRATCH),
        pod("p4", SELECTED, of=None),
        pod("p5", SELECTED, volumes=SCRATCH),
        pod("p6", SELECTED, of=("DaemonSet", "agent"), phase="Failed"),
        pod("p7", SELECTED, of=("DaemonSet", "deleted")),
        pod("p8", SELECTED, metadata=going(now - 30)),
        pod("p9", SELECTED, of=None, metadata={"ownerReferences": loose}),
        pod("p10", SELECTED, of=("StatefulSet", "s")),
        pod("in-memory", SELECTED, volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}]),
        pod("on-host", SELECTED, volumes=[{"name": "h", "hostPath": {"path": "/var"}}]),
    ]


@pytest.fixture(scope="module")
def selected(still: World) -> tuple[World, float]:
    still.namespace(SELECTED)
    now = float(int(time.time()))
    still.put(*ten(now))
    return still, now


ALL = Options(empty_dir=True, unmanaged=True)
GOES = {"p3", "p6", "p8", "p10", "on-host"}


@pytest.mark.parametrize(
    ("options", "readable", "evicted", "blocked"),
    [
        pytest.param(Options(), True, GOES, {"p4", "p5", "p7", "p9", "in-memory"}, id="T1 nothing accepted"),
        pytest.param(ALL, True, GOES | {"p4", "p5", "p7", "p9", "in-memory"}, set(), id="T1 force and emptyDir"),
        pytest.param(
            Options(True, True, 20),
            True,
            (GOES | {"p4", "p5", "p7", "p9", "in-memory"}) - {"p8"},
            set(),
            id="T1 wait 20",
        ),
        pytest.param(
            Options(True, True, 30), True, GOES | {"p4", "p5", "p7", "p9", "in-memory"}, set(), id="T1 wait 30"
        ),
        pytest.param(ALL, False, GOES | {"p4", "p5", "p9", "in-memory"}, {"p1", "p7"}, id="T1, b1 2 DaemonSets: 403"),
        pytest.param(
            Options(unmanaged=True), True, GOES | {"p4", "p7", "p9"}, {"p5", "in-memory"}, id="b1 4 local data"
        ),
        pytest.param(
            Options(empty_dir=True), True, GOES | {"p5", "in-memory"}, {"p4", "p7", "p9"}, id="b1 5 no controller"
        ),
    ],
)
def test_who_would_go(selected, options, readable, evicted, blocked):
    there, now = selected
    daemon_sets = there.changes.read_daemon_sets()
    if not readable:
        with there.weather(Fault(Weather.FORBIDDEN, plural="daemonsets")), pytest.raises(PortError) as refused:
            there.changes.read_daemon_sets()
        assert refused.value.status == 403
        daemon_sets = None  # as `collect` reads it
    mine = [found for found in there.changes.read_pods(NODE) if found.metadata.namespace == SELECTED]
    found = draining.select(mine, daemon_sets, options, now)
    names = {one.metadata.uid: one.metadata.name for one in mine}
    assert {one.metadata.name for one in found.evict} == evicted
    assert {names[uid] for uid in found.blockers} == blocked
    assert {names[uid]: why for uid, why in found.stay.items() if why is not Stay.TERMINATING} == (
        {"p1": Stay.DAEMON, "p2": Stay.MIRROR} if readable else {"p2": Stay.MIRROR}
    )
    assert found.complete is not bool(blocked)
    if not readable:
        assert set(found.blockers.values()) == {Blocker.DAEMON_UNREADABLE}


# --- b2, b3 and T4: what the server says, and what that means ---------------------------------------------------------------
def status(allowed: int, healthy: int, desired: int, expected: int = 4, **more: Any) -> Object:
    """Of a budget that its controller has seen."""
    counts = {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected}
    return {"observedGeneration": 1, "disruptionsAllowed": allowed, **counts, **more}


def why_not(reason: str, message: str) -> Object:
    told = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}
    return {"conditions": [{**told, "lastTransitionTime": stamp(0)}]}


NONE = status(0, 3, 3)
LACKS = "The disruption budget b needs 3 healthy pods and has 3 currently"
NOT_NOW = "The disruption budget b does not allow evicting pods currently"
MANY = {f"other-{n}": stamp(time.time()) for n in range(2001)}


@pytest.mark.parametrize(
    ("of_pod", "of_budget", "meaning", "retry_in_s", "message"),
    [
        pytest.param({}, None, Meaning.ACCEPTED, None, "", id="T4 200, b2 2xx: accepted, not gone"),
        pytest.param({}, status(1, 4, 3), Meaning.ACCEPTED, None, "", id="b3 7 allowed"),
        pytest.param({"phase": "Succeeded"}, NONE, Meaning.ACCEPTED, None, "", id="b3 1 Succeeded"),
        pytest.param({"phase": "Failed"}, NONE, Meaning.ACCEPTED, None, "", id="b3 1 Failed"),
        pytest.param({"phase": "Pending"}, NONE, Meaning.ACCEPTED, None, "", id="b3 1, T3 l Pending"),
        pytest.param({"metadata": going(time.time() + 30)}, NONE, Meaning.ACCEPTED, None, "", id="b3 1 terminating"),
        pytest.param(
            {"ready": False},
            (NONE, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
            Meaning.ACCEPTED,
            None,
            "",
            id="b3 3 not Ready, AlwaysAllow",
        ),
        pytest.param({"ready": False}, NONE, Meaning.ACCEPTED, None, "", id="b3 3 not Ready, enough others healthy"),
        pytest.param(
            {"ready": False}, status(0, 2, 3), Meaning.BUDGET, 5.0, "needs 3 healthy pods and has 2", id="b3 3 too few"
        ),
        pytest.param(
            {"ready": False}, status(0, 0, 0, 1), Meaning.BUDGET, 5.0, "needs 0 healthy pods", id="b3 3, T3 j desired 0"
        ),
        pytest.param(
            {},
            {**status(1, 4, 3), "observedGeneration": 0},
            Meaning.BUDGET_UNOBSERVED,
            10.0,
            "still being processed",
            id="T4, b3 4 not observed yet",
        ),
        pytest.param({}, status(-1, 4, 3), Meaning.FORBIDDEN, None, "allowed is negative", id="b3 5 negative"),
        pytest.param(
            {}, status(1, 4, 3, disruptedPods=MANY), Meaning.FORBIDDEN, None, "too big", id="b3 5 too many disrupted"
        ),
        pytest.param({}, NONE, Meaning.BUDGET, 5.0, LACKS, id="T4, b2 429, b3 6 needs X has Y"),
        pytest.param(
            {},
            {**status(0, 4, 3), **why_not("SyncFailed", "no scale")},
            Meaning.BUDGET,
            5.0,
            f"{NOT_NOW} because it failed sync: no scale",
            id="b3 6 sync failed",
        ),
        pytest.param(
            {},
            {**status(0, 4, 3), **why_not("InsufficientPods", "wait")},
            Meaning.BUDGET,
            5.0,
            f"{NOT_NOW} (InsufficientPods): wait",
            id="b3 6 text of the condition",
        ),
        pytest.param({}, status(0, 4, 3), Meaning.BUDGET, 5.0, NOT_NOW, id="b3 6 generic"),
    ],
)
def test_whether_budgets_are_asked(still, request, of_pod, of_budget, meaning, retry_in_s, message):
    """The same in earnest as in a dry run, after which nothing has changed."""
    here = still.namespace(f"b3-{abs(hash(request.node.callspec.id))}")
    one = pod("p", here, **of_pod)
    stated, spec = of_budget if isinstance(of_budget, tuple) else (of_budget, {})
    still.put(one, *([] if stated is None else [budget("b", here, stated, **{"minAvailable": 1, **spec})]))
    tried = still.evict(one, dry_run=True)
    assert (tried.meaning, tried.retry_in_s) == (meaning, retry_in_s)
    assert message in tried.message
    if stated is not None:
        assert still.get("PodDisruptionBudget", here, "b")["status"] == stated
    assert still.evict(one) == tried
    if meaning in {Meaning.BUDGET, Meaning.BUDGET_UNOBSERVED}:
        assert tried.budget == "b"


class Contested(Store):
    """Somebody else always writes the budget first."""

    def update(self, plural: str, obj: Object, *, manager: str, subresource: str = "", dry_run: bool = False) -> Object:
        if plural == "poddisruptionbudgets":
            raise refusals.conflict(RESOURCES[plural], obj["metadata"]["name"])
        return super().update(plural, obj, manager=manager, subresource=subresource, dry_run=dry_run)


class Changing(Store):
    """Pods change between two looks."""

    def delete(self, plural: str, namespace: str | None, name: str, **options: Any) -> Any:
        if plural == "pods" and options.get("resource_version"):
            raise refusals.conflict(RESOURCES[plural], name)
        return super().delete(plural, namespace, name, **options)


def test_an_answer_that_budgets_do_not_give(still):
    """T4 and b2: 404, 409, 429 of throttling, 403, 500 and 504, each in earnest."""
    here = still.namespace("t4")
    one = pod("p", here)
    still.put(one, budget("b", here, status(3, 4, 1)))
    assert still.evict(pod("nobody", here)).meaning is Meaning.GONE
    assert still.evict(one, uid="of-another", dry_run=True).meaning is Meaning.GONE
    with still.weather(Fault(Weather.BUSY, plural="pods", method="POST", seconds=1)):
        busy = still.evict(one)
    assert (busy.meaning, busy.retry_in_s, busy.budget) == (Meaning.THROTTLED, 1.0, "")
    assert still.get("PodDisruptionBudget", here, "b")["status"] == status(3, 4, 1)
    with still.weather(Fault(Weather.FAILING, plural="pods", method="POST")):
        assert (still.evict(one).meaning, still.evict(one).retry_in_s) == (Meaning.TRY_AGAIN, 5.0)
    with still.changed(Contested):
        late = still.evict(one)
    assert (late.meaning, late.retry_in_s, late.budget) == (Meaning.TRY_AGAIN, 10.0, "")
    still.put(budget("second", here, status(3, 4, 1)))
    for dry_run in (True, False):
        two = still.evict(one, dry_run=dry_run)
        assert (two.meaning, two.retry_in_s) == (Meaning.TWO_BUDGETS, None)
    assert "more than one PodDisruptionBudget" in two.message


def test_nobody_without_the_right_evicts(still, tmp_path):
    """T4: 403 plain; the message names verb and resource."""
    here = still.namespace("t4-rights")
    one = pod("p", here)
    still.put(one)
    config = tmp_path / "config"
    token = still.cluster.call(lambda: still.cluster.server.auth.issue(User("eve")))
    config.write_text(re.sub(r"token: .*", f"token: {token}", still.cluster.kubeconfig.read_text()))
    connection = KubernetesCluster("rehearsal", str(config))
    found = classify(KubernetesChanges(connection.server).evict(here, "p", one["metadata"]["uid"], dry_run=False))
    connection.close()
    assert (found.meaning, found.retry_in_s) == (Meaning.FORBIDDEN, None)
    assert 'cannot create resource "pods/eviction"' in found.message
    assert here in found.message


@pytest.mark.parametrize(
    ("more", "meaning", "retry_in_s"),
    [
        pytest.param({"metadata": going(time.time() + 30)}, Meaning.ACCEPTED, None, id="b2, T4 going with it"),
        pytest.param({}, Meaning.NAMESPACE, 5.0, id="b2, T4 not going yet"),
    ],
)
def test_in_a_namespace_that_is_being_deleted(still, request, more, meaning, retry_in_s):
    here = f"ending-{len(more)}"
    one = pod("p", here, **more)
    still.put(one)
    still.namespace(here, metadata={"deletionTimestamp": stamp(time.time())})
    found = still.evict(one)
    assert (found.meaning, found.retry_in_s) == (meaning, retry_in_s)
    assert "being terminated" in found.message


def test_an_unready_pod_that_changes_meanwhile(still):
    """b3 3: the conflict of the guarded deletion is a budget that is still being processed."""
    here = still.namespace("b3-conflict")
    one = pod("p", here, ready=False)
    still.put(one, budget("b", here, NONE))
    with still.changed(Changing):
        found = still.evict(one)
    assert (found.meaning, found.retry_in_s) == (Meaning.BUDGET_UNOBSERVED, 10.0)


def test_an_eviction_is_charged_and_marked(still):
    """b3 7 and 8."""
    here = still.namespace("b3-charge")
    one, two = pod("one", here), pod("two", here)
    still.put(one, two, budget("b", here, status(1, 4, 3)))
    for dry in (one, two):  # b2: a dry run reserves nothing
        assert still.evict(dry, dry_run=True).meaning is Meaning.ACCEPTED
    assert still.get("Pod", here, "one") == {**one, "metadata": still.get("Pod", here, "one")["metadata"]}
    assert still.evict(one).meaning is Meaning.ACCEPTED
    charged = still.get("PodDisruptionBudget", here, "b")["status"]
    assert (charged["disruptionsAllowed"], set(charged["disruptedPods"])) == (0, {"one"})
    gone = still.get("Pod", here, "one")
    target = next(c for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
    assert still.evict(two).meaning is Meaning.BUDGET
    still.delete(here, "one")
    still.put({**one, "metadata": {**one["metadata"], "uid": "the-next-one"}})
    assert (
        still.changes.read_pod(here, "one").metadata.uid == "the-next-one"
    )  # b2: it has gone, though its name has not


# --- b4 and T3: the arithmetic ----------------------------------------------------------------------------------------------
FAR = "node-04"


def deployed(here: str, replicas: int, *, unready: int = 0, terminating: int = 0, name: str = "web") -> list[Object]:
    """A Deployment whose last pods are not Ready or are going."""
    above = owner("Deployment", name, here)
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}
    objects = [made("Deployment", name, here, spec=spec)]
    objects += [made("ReplicaSet", name, here, spec=spec, metadata={"ownerReferences": above})]
    for number in range(replicas):
        metadata = going(time.time() + 3600) if number >= replicas - terminating else {}
        ready = number < replicas - unready
        objects.append(pod(f"{name}-{number}", here, node=FAR, ready=ready, metadata=metadata, of=("ReplicaSet", name)))
    return objects


def owned(here: str, kind: str, *numbers: int) -> list[Object]:
    of = (kind, "x") if kind else None
    return [pod(f"x-{number}", here, node=FAR, of=of) for number in numbers]


# Row: what is there, the budget, then expected, desired, allowed and how it stands.
ROWS: Mapping[str, tuple[Any, Object, tuple[int, int, int], Standing]] = {
    "T3 a": (lambda n: deployed(n, 6, unready=1), {"minAvailable": "50%"}, (6, 3, 2), Standing.OK),
    "T3 b": (lambda n: deployed(n, 7), {"minAvailable": "50%"}, (7, 4, 3), Standing.OK),
    "T3 c, b4 up": (lambda n: deployed(n, 10), {"maxUnavailable": "25%"}, (10, 7, 3), Standing.OK),
    "T3 d, b4 iii": (lambda n: deployed(n, 1), {"minAvailable": "50%"}, (1, 1, 0), Standing.NEVER),
    "T3 e, b4 iv": (lambda n: deployed(n, 1), {"maxUnavailable": "1%"}, (1, 0, 1), Standing.OK),
    "T3 f": (lambda n: deployed(n, 3), {"minAvailable": 3}, (3, 3, 0), Standing.NEVER),
    "T3 g": (lambda n: deployed(n, 4, terminating=1), {"maxUnavailable": 1}, (4, 3, 0), Standing.WAIT),
    "T3 h": (lambda n: owned(n, "", 0, 1), {"minAvailable": 1}, (2, 1, 1), Standing.OK),
    "T3 i, b4 i": (lambda n: owned(n, "", 0, 1), {"maxUnavailable": 1}, (0, 0, 0), Standing.NEVER),
    "T3 j, b4 ii": (lambda n: deployed(n, 1, unready=1), {"maxUnavailable": 1}, (1, 0, 0), Standing.UNREADY),
    "T3 j Ready": (lambda n: deployed(n, 1), {"maxUnavailable": 1}, (1, 0, 1), Standing.OK),
    "T3 j AlwaysAllow": (
        lambda n: deployed(n, 1, unready=1),
        {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        (1, 0, 0),
        Standing.UNREADY,
    ),
    "T3 k": (lambda n: deployed(n, 3, unready=1), {"minAvailable": 2}, (3, 2, 0), Standing.WAIT),
    "b4 34 % of 3": (lambda n: deployed(n, 3), {"maxUnavailable": "34%"}, (3, 1, 2), Standing.OK),
    "b4 the sum of scales": (
        lambda n: [*deployed(n, 3), *deployed(n, 2, name="two")],
        {"maxUnavailable": "50%"},
        (5, 2, 3),
        Standing.OK,
    ),
    "b4 bare pods are left out": (
        lambda n: [*deployed(n, 2), *owned(n, "", 0)],
        {"maxUnavailable": 1},
        (2, 1, 2),
        Standing.OK,
    ),
    "b4 a Job has no scale": (lambda n: owned(n, "Job", 0, 1), {"maxUnavailable": 1}, (0, 0, 0), Standing.NEVER),
    "a Rollout may have one": (lambda n: owned(n, "Rollout", 0, 1), {"maxUnavailable": 1}, (0, 0, 0), Standing.UNKNOWN),
}
UNREADY_GOES = {"T3 k": True, "T3 j, b4 ii": False, "T3 j AlwaysAllow": True}


def place(row: str) -> str:
    return f"b4-{list(ROWS).index(row):02}"


@pytest.fixture(scope="module")
def counted(counting: World) -> World:
    for row, (there, spec, _, _) in ROWS.items():
        here = counting.namespace(place(row))
        counting.put(*there(here), budget("b", here, **spec))
    wait_for(lambda: all(found.status.conditions for found in counting.changes.read_budgets()), 20)
    return counting


@pytest.mark.django_db
@pytest.mark.parametrize("row", ROWS)
def test_the_arithmetic_of_budgets(counted, row):
    """What a plan would reckon, what the controller has written, and what the server answers are the same."""
    there, _, numbers, standing = ROWS[row]
    facts = collect(Lab(counted.changes), "drain", FAR, ADA, time.time)
    ours = facts.allowances[f"{place(row)}/b"]
    assert (ours.expected, ours.desired, ours.allowed) == numbers
    assert ours.standing is standing
    stated = counted.get("PodDisruptionBudget", place(row), "b")["status"]
    server = (stated["expectedPods"], stated["desiredHealthy"], stated["disruptionsAllowed"])
    assert (server, stated["currentHealthy"]) == (numbers, ours.healthy if ours.expected else stated["currentHealthy"])
    for one in (
        obj for obj in there(place(row)) if obj["kind"] == "Pod" and "deletionTimestamp" not in obj["metadata"]
    ):
        is_ready = one["status"]["conditions"][0]["status"] == "True"
        goes = numbers[2] > 0 if is_ready else UNREADY_GOES.get(row, True)
        # What its controller cannot count it never observes.
        refusal = Meaning.BUDGET if "observedGeneration" in stated else Meaning.BUDGET_UNOBSERVED
        assert counted.evict(one, dry_run=True).meaning is (Meaning.ACCEPTED if goes else refusal)


def test_an_evicted_pod_is_charged_for_two_minutes(counting):
    """b4: it is not healthy for so long though it is still there, and its mark is taken back afterwards."""
    here = counting.namespace("b4-charged")
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    objects = deployed(here, 3)
    at = counting.cluster.call(counting.cluster.rehearsal.clock.now)
    objects[-1]["status"]["conditions"].append({**told, "lastTransitionTime": stamp(at)})
    counting.put(*objects, budget("b", here, {"disruptedPods": {"web-2": stamp(at)}}, minAvailable=2))

    def stated() -> Object:
        return counting.get("PodDisruptionBudget", here, "b")["status"]

    wait_for(lambda: stated().get("disruptionsAllowed") == 0 and stated()["currentHealthy"] == 2, 20)
    wait_for(lambda: stated()["disruptionsAllowed"] == 1 and "disruptedPods" not in stated(), 20)
    wait_for(lambda: counting.get("Pod", here, "web-2")["status"]["conditions"][-1]["status"] == "False", 20)


# --- b2 and T4: the loop over pods ------------------------------------------------------------------------------------------
NEAR = "node-03"


class OneRound:
    """A `stopping` that ends a pass at its first wait."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        return True


@pytest.mark.django_db(transaction=True)
def test_one_round_of_asking(counting):
    """Ten pods that a budget holds, one with two budgets, one that is gone, one whose name another has, and a free one: each is
    asked in the first round, and what one is told is no business of the others."""
    here = [counting.namespace(f"round-{name}") for name in ("held", "two", "gone", "moved", "free")]
    held, *others = (deployed(name, 11 if "held" in name else 2) for name in here)
    for objects in (held, *others):
        for obj in objects[2:-1]:
            obj["spec"]["nodeName"] = NEAR
        objects[-1]["spec"]["nodeName"] = "node-01"
    held[-1]["status"]["conditions"][0]["status"] = "False"
    counting.put(*held, *(obj for objects in others for obj in objects))
    counting.put(budget("b", here[0], minAvailable=10), budget("b", here[1], minAvailable=1))
    wait_for(lambda: all(found.status.conditions for found in counting.changes.read_budgets()), 20)
    site = Lab(counting.changes)
    action = act.propose(site, "drain", NEAR, "new disk", ADA)
    act.confirm(site, action, action.digest, NEAR, {c.key: "tested" for c in act.plan_of(action).blocks}, ADA)
    counting.put(budget("second", here[1], minAvailable=1))
    counting.delete(here[2], "web-0")
    counting.delete(here[3], "web-0")
    counting.put(pod("web-0", here[3], node="node-01", metadata={"uid": "the-next-one"}))
    running.run(site, action.pk, OneRound())
    lanes = {lane.namespace: lane for lane in action.lanes.all()}
    assert {space: (lane.state, lane.reason) for space, lane in lanes.items() if space != here[0]} == {
        here[1]: (LaneState.FAILED, Meaning.TWO_BUDGETS),
        here[2]: (LaneState.GONE, ""),
        here[3]: (LaneState.GONE, ""),
        here[4]: (LaneState.ACCEPTED, ""),
    }
    blocked = action.lanes.filter(namespace=here[0])
    assert {(lane.state, lane.reason, lane.facts["budget"], lane.facts["has"]) for lane in blocked} == {
        (LaneState.HELD, Meaning.BUDGET, "b", 10)
    }
    assert blocked.count() == 10
    assert "deletionTimestamp" not in counting.get("Pod", here[3], "web-0")["metadata"]
