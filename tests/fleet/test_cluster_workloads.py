"""What rollouts and switches ask of a cluster, against the rehearsal over HTTP."""

import time

import pytest

from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain import revisions, switching
from fleet.domain.facts import Right
from fleet.domain.pods import is_ready
from fleet.domain.revisions import Workload
from fleet.domain.smoke import RequestError
from fleet.ports import PortError
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.scenarios.stage import State
from tests.fleet.clusters import wait_for

CHAT = ("Deployment", "inference", "llm-chat")


@pytest.fixture(scope="module")
def running():
    with serving(Rehearsal(nodes=24, clock=RealClock(20.0), pace=0)) as found:
        found.run(found.stage.start("blue-green"))
        wait_for(lambda: found.stage.performance("blue-green").state is State.STANDING, 60)
        yield found


@pytest.fixture(scope="module")
def changes(running):
    cluster = KubernetesCluster("rehearsal", str(running.kubeconfig))
    yield KubernetesChanges(cluster.server)
    cluster.close()


def stale(change) -> int | None:
    with pytest.raises(PortError) as refused:
        change()
    return refused.value.status


def read(changes, kind: str, namespace: str, name: str) -> Workload:
    found = changes.read_workload(kind, namespace, name)
    assert found is not None
    return found


def colours(changes) -> set[str]:
    pods = {
        pod.metadata.uid: pod.metadata.labels["colour"]
        for pod in changes.read_pods()
        if "colour" in pod.metadata.labels
    }
    return {pods[uid] for uid in switching.served(changes.read_slices("serving", "search")).ready}


def test_a_workload_is_read_whole_with_its_revisions(changes):
    workload = read(changes, *CHAT)
    found = revisions.history(workload, changes.read_holders(workload))
    assert [one.current for one in found] == [True, False]
    assert workload.images[next(iter(workload.images))] in found[0].images
    assert changes.read_workload("Deployment", "inference", "nobody") is None
    for kind, namespace, name in (key.split("/") for key in sets(changes)):
        one = read(changes, kind, namespace, name)
        assert [found.current for found in revisions.history(one, changes.read_holders(one))] == [True]


def sets(changes) -> list[str]:
    found = [type(c).__name__ + "/" + c.key for c in changes.read_controllers()]
    return [next(key for key in found if key.startswith(kind)) for kind in ("StatefulSet", "DaemonSet")]


def test_a_workload_is_changed_only_as_it_was_read(changes):
    old = read(changes, *CHAT)
    patch = revisions.restart(old, time.time())
    assert changes.change_workload(old, patch, dry_run=True)
    assert read(changes, *CHAT).generation == old.generation
    done = write(changes, CHAT, lambda found: revisions.restart(found, time.time()))
    assert (done.generation, revisions.RESTARTED in done.template["metadata"]["annotations"]) == (
        old.generation + 1,
        True,
    )
    for change in (revisions.pause(old), revisions.scale(old, 1), revisions.set_image(old, {"server": "x:1"})):
        assert stale(lambda change=change: changes.change_workload(old, change)) == 409


def test_an_undo_brings_the_exact_template_back(changes):
    now = read(changes, *CHAT)
    back = revisions.history(now, changes.read_holders(now))[-1]
    done = write(changes, CHAT, lambda found: revisions.undo(found, back))
    assert revisions.same(done.template, back.template)
    wait_for(lambda: int(read(changes, *CHAT).revision) > int(now.revision))
    later = read(changes, *CHAT)
    numbers = [one.number for one in revisions.history(later, changes.read_holders(later))]
    assert back.number not in numbers  # the old ReplicaSet is used again, under the next number


def write(changes, where, wanted) -> Workload:
    """As the engine does: its status changes a workload as well, and then it is read again."""
    for _ in range(20):
        found = read(changes, *where)
        try:
            changes.change_workload(found, wanted(found))
        except PortError as error:
            if error.status != 409:
                raise
        else:
            return read(changes, *where)
    pytest.fail("it changed with every try")


def test_pause_scale_and_resume(changes):
    where = ("Deployment", "serving", "search-green")
    assert write(changes, where, revisions.pause).paused
    assert write(changes, where, lambda found: revisions.scale(found, 3)).replicas == 3
    assert write(changes, where, lambda found: revisions.scale(found, 2)).replicas == 2
    assert not write(changes, where, revisions.resume).paused


def test_a_selector_is_switched_only_on_the_version_that_was_shown(changes):
    shown = changes.read_service("serving", "search")
    assert shown is not None
    green = {**shown.spec.selector, "colour": "green"}
    assert changes.select(shown, green, {}, dry_run=True).spec.selector == green
    assert colours(changes) == {"blue"}
    written = switching.note(shown.spec.selector, green, 1.0, "M-1")
    done = changes.select(shown, green, written)
    assert (done.spec.selector, switching.way_back(done).was) == (green, shown.spec.selector)
    assert stale(lambda: changes.select(shown, green, {})) == 409
    wait_for(lambda: colours(changes) == {"green"})
    changes.select(done, switching.way_back(done).was, {switching.WAY_BACK: None})
    after = changes.read_service("serving", "search")
    assert (after.spec.selector, switching.WAY_BACK in after.metadata.annotations) == (shown.spec.selector, False)
    assert changes.read_service("serving", "nobody") is None
    wait_for(lambda: colours(changes) == {"blue"})


def test_a_pod_answers_with_its_status_body_and_latency(changes):
    pod = next(p for p in changes.read_pods() if p.metadata.labels.get("colour") == "green" and is_ready(p))
    name = pod.metadata.name
    answer = changes.ask_pod("serving", name, 8000, "/version", 2.0)
    assert (answer.status, answer.body, answer.trouble) == (200, b'{"version": "2.9"}', "")
    assert answer.latency_s > 0
    assert changes.ask_pod("serving", name, 8000, "/nothing", 2.0).status == 404
    for where in ((name, 9999), ("nobody", 8000)):
        silent = changes.ask_pod("serving", *where, "/version", 2.0)
        assert (silent.status, bool(silent.trouble)) == (None, True)
    for path in ("/../../services", "/a%2e%2e/..", "/a\r\nX: y"):
        with pytest.raises(RequestError):
            changes.ask_pod("serving", name, 8000, path, 2.0)


def test_what_is_created_is_there_once(changes):
    body = {
        "metadata": {"name": "search-own"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "search-own"}}},
    }
    assert changes.create("PodDisruptionBudget", "serving", body, dry_run=True)
    assert changes.create("PodDisruptionBudget", "serving", body)["metadata"]["uid"]
    assert stale(lambda: changes.create("PodDisruptionBudget", "serving", body)) == 409


def test_the_exact_rights(changes):
    rights = (
        Right("patch", "deployments.apps/scale", "serving"),
        Right("patch", "services", "serving"),
        Right("get", "pods/proxy", "serving"),
    )
    assert [(one.resource, one.allowed) for one in changes.may(rights)] == [(one.resource, True) for one in rights]
