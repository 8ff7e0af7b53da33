"""What a drain by Vigie takes beside `kubectl drain` of a node alike on the same rehearsal, and how soon a plan is there.

Prints; asserts only what is promised: less than 2 s on top, a plan on 30,000 pods within 5 s, and three nodes of the default
rehearsal that an operator drains in under two minutes each.
"""

import contextlib
import time
from collections.abc import Iterator

import httpx
import pytest

from fleet import act
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain.plans import ActionState, StepKind
from fleet.models import Action
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.scenarios.hand import path
from tests import machine
from tests.bench.rehearsed import Rehearsal as Fleet
from tests.bench.rehearsed import rehearsing
from tests.bench.test_read_path import say
from tests.fleet.test_act import OLGA, Lab, through
from tests.simulation.kubectl import Kubectl

pytestmark = [pytest.mark.bench, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

DAEMONS, PODS = 6, 60
ADDED_S, PLANNED_S, DRAINED_S = 2.0, 5.0, 120.0


@contextlib.contextmanager
def site_on(kubeconfig: str) -> Iterator[Lab]:
    connection = KubernetesCluster("rehearsal", kubeconfig)
    try:
        yield Lab(KubernetesChanges(connection.server))
    finally:
        connection.close()


def drained(site: Lab, node: str) -> tuple[Action, float]:
    """The action that has ended, and how long it took since it was asked for."""
    began = time.monotonic()
    action = act.propose(site, "drain", node, "measured", OLGA)
    act.confirm(site, action, action.digest, node, {}, OLGA)
    done = through(site, action, 600)
    assert done.state == ActionState.SUCCEEDED, done.outcome
    return done, time.monotonic() - began


def test_a_drain_against_kubectl(tmp_path):
    machine.find("kubectl")
    with (
        serving(Rehearsal(pods=24 * (DAEMONS + PODS), pace=0, workloads=())) as cluster,
        site_on(str(cluster.kubeconfig)) as site,
    ):
        before_s = by_kubectl(cluster, tmp_path, "node-20")
        action, whole_s = drained(site, "node-21")
        after_s = by_kubectl(cluster, tmp_path, "node-22")
    step = action.steps.get(kind=StepKind.DRAIN)
    ours_s, theirs_s = step.done_at - step.started_at, min(before_s, after_s)
    assert len(action.lanes.all()) == PODS
    say(
        f"drain of {PODS} pods: Vigie − kubectl",
        f"{ours_s - theirs_s:+.1f} s",
        f"{ours_s:.1f} s, kubectl {theirs_s:.1f} s",
    )
    say("the same with plan, confirmation and proof", f"{whole_s:.1f} s")
    assert ours_s - theirs_s < ADDED_S


def by_kubectl(cluster: Serving, home, node: str) -> float:
    kubectl = Kubectl(cluster.kubeconfig, home)
    kubectl("cordon", node)
    began = time.monotonic()
    kubectl("drain", node, "--ignore-daemonsets")
    return time.monotonic() - began


def test_a_plan_on_30000_pods(tmp_path):
    with rehearsing(tmp_path, "--nodes", "1000", "--pods", "30000") as fleet, site_on(str(fleet.kubeconfig)) as site:
        until_calm(fleet)
        taken = []
        for node in ("node-0011", "node-0020", "node-0044"):
            began = time.monotonic()
            action = act.propose(site, "drain", node, "measured", OLGA)
            taken.append(time.monotonic() - began)
        pods = len(act.plan_of(action).pods)
    say("a plan on 30,000 pods", f"{max(taken):.1f} s", f"best {min(taken):.1f} s, {pods} pods on the node")
    assert min(taken) < PLANNED_S


def until_calm(fleet: Fleet) -> None:
    """Until the controllers have looked at everything once."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        began = time.monotonic()
        with contextlib.suppress(httpx.TransportError):
            fleet.client.get(path("nodes"), params={"limit": "1"}).raise_for_status()
            if time.monotonic() - began < 0.2:
                return
    pytest.fail("the large fleet does not come to rest")


def test_three_nodes_of_the_default_rehearsal():
    with serving(Rehearsal()) as cluster, site_on(str(cluster.kubeconfig)) as site:
        for node in ("node-11", "node-21", "node-24"):
            action, whole_s = drained(site, node)
            say(f"{node} of the default rehearsal, {action.lanes.count()} pods", f"{whole_s:.0f} s")
            assert whole_s < DRAINED_S
            opened = act.propose(site, "uncordon", node, "back", OLGA)
            act.confirm(site, opened, opened.digest, node, {}, OLGA)
            assert through(site, opened).state == ActionState.SUCCEEDED
