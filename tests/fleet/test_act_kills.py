"""kill -9 of each process in every kind of step: the maintenance goes on where it was, and nothing unplanned is evicted.

A round is one maintenance. Bad weather at the API server, and readings that do not come, hold it in one step after the other;
the killer looks at the step's row in the ledger, never at a clock.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.domain.plans import ActionState, StepKind
from fleet.simulation.catalogue import SHARED, WORKLOADS, Kind, Saving, Told, Workload
from fleet.simulation.clock import RealClock
from fleet.simulation.reboots import BOOT_SECONDS
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.server_faults import Fault, Weather
from tests.household import Household, household, until

pytestmark = [pytest.mark.timeout(400)]

SPEED = 20.0


@dataclass
class Round:
    """One maintenance of one node and whoever holds it up."""

    vigie: Household
    cluster: Serving
    node: str
    action: int = 0
    met: int = 0

    def weather(self, *faults: Fault) -> None:
        """From now on this; whatever was held is let go."""
        stage = self.cluster.stage

        def change() -> None:
            stage.faults.set(faults)
            self.met = stage.faults.met

        self.cluster.call(change)

    def held(self, kind: StepKind, *, by_weather: bool) -> None:
        """Wait until the step has begun, by its row, and waits for what it does not get."""

        def holds() -> bool:
            state = self.vigie.step(self.action, kind)
            return state in {"started", "waiting"} and (not by_weather or self.cluster.stage.faults.met > self.met)

        until(
            holds, why=lambda: (kind, self.vigie.rows("SELECT kind, state, evidence FROM vigie_action_step"), self.logs)
        )

    @property
    def logs(self) -> str:
        return self.vigie.log("worker")

    def steps(self) -> Iterator[StepKind]:
        """Goes on from one kind of step into the next whenever it is asked for another."""
        patch = Fault(Weather.HANG, plural="nodes", method="PATCH")
        self.weather(patch)
        yield self._in(StepKind.CORDON)
        # The workload hears that it shall save, and nobody hears its answer.
        self.weather(Fault(Weather.MUTE, plural="pods", method="POST"))
        yield self._in(StepKind.SAVE)
        # The first pod's trial passes; its eviction is carried out, and never answered.
        self.weather(Fault(Weather.MUTE, plural="pods", method="POST", after=1))
        yield self._in(StepKind.DRAIN)
        self.weather(patch)
        yield self._in(StepKind.RELEASE, by_weather=False)
        self.vigie.measure(self.node)
        yield self._in(StepKind.REBOOT)
        self.weather()
        yield self._in(StepKind.VERIFY, by_weather=False)
        self.weather(Fault(Weather.MUTE, plural="nodes", method="PATCH"))
        self.vigie.measure(self.node)
        yield self._in(StepKind.UNCORDON)
        self.weather(Fault(Weather.HANG, plural="deployments", method="GET"))
        yield self._in(StepKind.PROVE)
        self.weather()

    def _in(self, kind: StepKind, *, by_weather: bool = True) -> StepKind:
        self.held(kind, by_weather=by_weather)
        return kind

    def ended(self) -> str:
        until(lambda: self.vigie.outcome(self.action)[0] not in {"confirmed", "running"}, why=lambda: self.logs)
        return self.vigie.outcome(self.action)[0]


def trainer(name: str, node: int, product: str) -> Workload:
    """One GPU, and a checkpoint whenever somebody asks for one."""
    saving = Saving("torch", f"claim/{SHARED}", Told.ANNOTATION, 100_000, 3.0, "http:29500/checkpoint")
    image = "par-prod/trainer:2026.8.2"
    return Workload(
        name, Kind.STATEFUL_SET, "training", "Tests", image, product, 1, {node: 1}, cores=4, memory_gib=16, port=29500,
        saving=saving,
    )  # fmt: skip


TRAINERS = (trainer("kill-11", 11, "H100"), trainer("kill-21", 21, "L4"), trainer("kill-19", 19, "L4"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    rehearsal = Rehearsal(clock=RealClock(SPEED), pace=0, workloads=(*WORKLOADS, *TRAINERS))
    for node in rehearsal.store.list("nodes"):
        quick = lambda draft: draft["metadata"]["annotations"].update({BOOT_SECONDS: "20"})  # noqa: E731
        rehearsal.store.mutate("nodes", None, node["metadata"]["name"], quick, manager="test")
    with serving(rehearsal, tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def vigie(cluster: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Household]:
    home: Path = tmp_path_factory.mktemp("home")
    policies, claims = home / "policies.toml", cluster.kubeconfig.parent / "claims"
    grant = f'namespace = "training"\nclaim = "{SHARED}"\npath = "{claims / "training" / SHARED}"\n'
    policies.write_text(f"[[store]]\n{grant}")
    with household(home, cluster.kubeconfig, policies) as found:
        yield found


@pytest.fixture
def evicted(cluster: Serving) -> Callable[[], set[str]]:
    """UIDs of the servers' and trainers' pods that have gone since."""
    changes = cluster.call(lambda: cluster.rehearsal.store.subscribe("pods"))

    def gone() -> set[str]:
        found = cluster.call(changes.take)
        return {
            c.object["metadata"]["uid"]
            for c in found
            if c.type == "DELETED" and c.object["metadata"]["namespace"] in {"inference", "training"}
        }

    return gone


# Whose end each round is about, on which node: node-11 has one server, the others several.
ROUNDS = [("worker", "node-11"), ("redis", "node-21"), ("beat web", "node-19")]


@pytest.mark.parametrize(("victims", "node"), ROUNDS)
def test_a_kill_in_every_kind_of_step(
    vigie: Household, cluster: Serving, evicted: Callable[[], set[str]], victims: str, node: str
) -> None:
    killed, played = victims.split(), Round(vigie, cluster, node)
    before = boot_id(cluster, node)
    vigie.measure(node)
    played.action = vigie.begin("maintain", node, save="first")
    planned = {uid for (uid,) in vigie.rows("SELECT uid FROM vigie_action_lane WHERE action_id = ?", played.action)}
    vigie.start("worker")
    try:
        kinds = []
        for kind in played.steps():
            vigie.kill(*killed)
            vigie.start(*killed)
            kinds.append(kind)
        steps = vigie.rows("SELECT kind FROM vigie_action_step WHERE action_id = ? ORDER BY position", played.action)
        assert kinds == [StepKind(kind) for (kind,) in steps], "a kill in every kind of step that a maintenance has"
        assert played.ended() == ActionState.SUCCEEDED, (vigie.outcome(played.action), played.logs)
    finally:
        played.weather()
        vigie.kill("worker")
    assert evicted() == planned, "no replacement was evicted"
    assert boot_id(cluster, node) != before
    assert not cluster.call(lambda: cluster.rehearsal.store.get("nodes", None, node))["spec"].get("unschedulable")
    shown = vigie.call("GET", f"actions/{played.action}")
    assert shown["state"] == "succeeded"
    assert {step["state"] for step in shown["steps"]} <= {"done", "skipped"}
    told = vigie.rows("SELECT what, facts FROM vigie_audit_entry WHERE action = ?", played.action)
    once = [what for what, _ in told if what != "asked-to-save"]
    assert {what for what in set(once) if once.count(what) > 1} == set(), "each step began once and ended once"
    # A trainer that an earlier round moved here is asked as well.
    asked = [json.loads(facts)["workload"] for what, facts in told if what == "asked-to-save"]
    assert len(asked) == len({*asked}) > 0, "each workload was asked once"
    assert "all intact" in vigie.run("audit", "verify")


def boot_id(cluster: Serving, node: str) -> str:
    found = cluster.call(lambda: cluster.rehearsal.store.get("nodes", None, node))
    return str(found["status"]["nodeInfo"].get("bootID", ""))
