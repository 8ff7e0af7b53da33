"""Every scenario on the default fleet: what it brings about, and that stopping it leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fleet.simulation.api import Application
from fleet.simulation.auth import Auth
from fleet.simulation.catalogue import WORKLOADS, Kind
from fleet.simulation.clock import ManualClock
from fleet.simulation.reboots import REQUESTED
from fleet.simulation.refusals import ApiError
from fleet.simulation.rehearsal import Rehearsal
from fleet.simulation.scenarios.programme import SCENARIOS
from fleet.simulation.scenarios.scene import Scene, StoryError, inverse
from fleet.simulation.scenarios.stage import Scenario, Stage, StageError, State
from fleet.simulation.server_faults import Fault, ServerFaults, Weather
from fleet.simulation.store import Store
from tests.simulation.cluster import GPU, condition, events_of
from tests.simulation.test_seed import free_gpus

Object = dict[str, Any]

HOST = "127.0.0.1:6443"
NAMES = tuple(s.name for s in SCENARIOS)


class Theatre:
    """A rehearsal on a manual clock with its stage, without ports."""

    def __init__(self, nodes: int = 24, scenarios: tuple[Scenario, ...] = SCENARIOS) -> None:
        self.clock = ManualClock()
        lasting = tuple(w for w in WORKLOADS if w.kind is not Kind.JOB)  # batch pods end by themselves
        self.rehearsal = Rehearsal(nodes=nodes, clock=self.clock, pace=0, workloads=lasting)
        self.store = self.rehearsal.store
        machines, trainings = self.rehearsal.machines, self.rehearsal.trainings
        app = Application(self.store, Auth(self.store), {HOST}, machines=machines, trainings=trainings)
        self.faults = ServerFaults(app, self.clock)
        self.stage = Stage(app, self.faults, self.clock, scenarios)

    async def __aenter__(self) -> "Theatre":
        await self.rehearsal.start()
        await self.clock.advance(1.0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stage.close()
        await self.rehearsal.stop()

    async def play(self, name: str) -> None:
        """Start it and let it unfold."""
        await self.stage.start(name)
        await self.clock.advance(self.stage.scenarios[name].unfolds_s)
        self.rehearsal.check()

    async def stop(self, name: str) -> None:
        """Undo it and let the controllers follow."""
        stopping = asyncio.create_task(self.stage.stop(name))
        await self.clock.advance(30.0)
        await stopping

    def state(self, name: str) -> State:
        return self.stage.performance(name).state

    def lines(self, name: str) -> list[str]:
        return [text for _, text in self.stage.performance(name).lines]


def shape(store: Store) -> Object:
    """What a scenario may not leave changed: objects of people, nodes' specs and notes, how many GPUs are free."""
    kept = ("deployments", "services", "poddisruptionbudgets", "resourcequotas", "statefulsets")
    found: Object = {plural: [o["metadata"]["name"] for o in store.list(plural)] for plural in kept}
    for node in store.list("nodes"):
        notes = node["metadata"].get("annotations") or {}
        own = {k: v for k, v in notes.items() if k.startswith("sim/")}
        ready = condition(node, "Ready").get("status")
        found[node["metadata"]["name"]] = (node["spec"].get("unschedulable", False), own, ready)
    return {**found, "free": sum(free_gpus(store).values())}


def pods(store: Store, app: str, namespace: str = "serving") -> list[Object]:
    return store.list("pods", namespace, {"app": app})


def waiting_reason(pod: Object) -> str:
    statuses = pod["status"].get("containerStatuses") or [{"state": {}}]
    reason: str = statuses[0]["state"].get("waiting", {}).get("reason", "")
    return reason


def stuck_rollout(store: Store) -> None:
    rollout = store.get("deployments", "serving", "voice-api")
    assert condition(rollout, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    assert rollout["status"]["availableReplicas"] == 2
    (waiting,) = [p for p in pods(store, "voice-api") if not p["spec"].get("nodeName")]
    assert f"Insufficient {GPU}" in condition(waiting, "PodScheduled")["message"]


def crash_loop(store: Store) -> None:
    assert store.get("deployments", "serving", "captions-api")["status"]["availableReplicas"] == 3
    (crashing,) = [p for p in pods(store, "captions-api") if p["spec"]["containers"][0]["image"].endswith(":1.1")]
    assert crashing["status"]["containerStatuses"][0]["restartCount"] > 0
    assert any(reason == "BackOff" for reason, _ in events_of(store, crashing["metadata"]["name"]))


def image_pull(store: Store) -> None:
    assert sum(waiting_reason(p) in {"ErrImagePull", "ImagePullBackOff"} for p in pods(store, "summary-api")) == 1
    assert store.get("deployments", "serving", "summary-api")["status"]["availableReplicas"] == 2


def quota(store: Store) -> None:
    deployment = store.get("deployments", "sandbox", "dictation-api")
    assert condition(deployment, "ReplicaFailure")["reason"] == "FailedCreate"
    assert len(pods(store, "dictation-api", "sandbox")) == 2


def blue_green(store: Store) -> None:
    assert store.get("services", "serving", "search")["spec"]["selector"]["colour"] == "blue"
    (found,) = store.list("endpointslices", "serving", {"kubernetes.io/service-name": "search"})
    assert all(e["targetRef"]["name"].startswith("search-blue-") for e in found["endpoints"])
    for colour in ("blue", "green"):
        assert store.get("deployments", "serving", f"search-{colour}")["status"]["availableReplicas"] == 2


def full_fleet(store: Store) -> None:
    cordoned = {n["metadata"]["name"] for n in store.list("nodes") if n["spec"].get("unschedulable")}
    assert {name: free for name, free in free_gpus(store).items() if free and name not in cordoned} == {}


def budget_deadlock(store: Store) -> None:
    (pod,) = pods(store, "tts-api")
    assert "deletionTimestamp" not in pod["metadata"]
    assert store.get("nodes", None, pod["spec"]["nodeName"])["spec"]["unschedulable"] is True
    assert store.get("poddisruptionbudgets", "serving", "tts-api")["status"]["disruptionsAllowed"] == 0


def two_budgets(store: Store) -> None:
    assert all("deletionTimestamp" not in p["metadata"] for p in pods(store, "translate-api"))
    budgets = [b for b in store.list("poddisruptionbudgets", "serving") if b["status"]["currentHealthy"] == 3]
    assert [b["status"]["disruptionsAllowed"] > 0 for b in budgets] == [True, True]


def silent_node(store: Store) -> None:
    assert all(condition(n, "Ready")["status"] == "True" for n in store.list("nodes"))
    assert all("deletionTimestamp" not in p["metadata"] for p in store.list("pods", "training"))


def lost_node(store: Store) -> None:
    (lost,) = [n["metadata"]["name"] for n in store.list("nodes") if condition(n, "Ready")["status"] == "Unknown"]
    leaving = [p for p in store.list("pods") if "deletionTimestamp" in p["metadata"]]
    assert leaving
    assert {p["spec"]["nodeName"] for p in leaving} == {lost}


def gpu_loss(store: Store) -> None:
    withdrawn(store)
    assert min(free_gpus(store).values()) >= 0


def overcommit(store: Store) -> None:
    assert min(free_gpus(store).values()) == -2


def foreign_uncordon(store: Store) -> None:
    writers = {m["manager"] for n in store.list("nodes") for m in n["metadata"]["managedFields"]}
    assert "kubectl-cordon" in writers
    assert [n["metadata"]["name"] for n in store.list("nodes") if n["spec"].get("unschedulable")] == ["node-16"]


def withdrawn(store: Store) -> Object:
    """The only node that offers fewer GPUs than it has."""
    (node,) = [n for n in store.list("nodes") if n["status"]["allocatable"][GPU] != n["status"]["capacity"][GPU]]
    assert (node["status"]["allocatable"][GPU], condition(node, "Ready")["status"]) == ("7", "True")
    return node


def suffering(store: Store) -> dict[str, str]:
    """What is wrong with which GPUs, besides the one that has been worn for days."""
    found = {}
    for node in store.list("nodes"):
        for key, said in node["metadata"]["annotations"].items():
            if key.startswith("sim/gpu") and said != "remap-pending":
                found[f"{node['metadata']['name']} {key}"] = said
    return found


def xid_79(store: Store) -> None:
    name = withdrawn(store)["metadata"]["name"]
    assert list(suffering(store).values()) == ["off-bus"]
    assert free_gpus(store)[name] == -1, "its pod holds it still"


def ecc_storm(store: Store) -> None:
    withdrawn(store)
    assert list(suffering(store).values()) == ["ecc-storm uncorrectable"]


def hot_rack(store: Store) -> None:
    nodes = {key.partition(" ")[0] for key in suffering(store)}
    racks = {store.get("nodes", None, n)["metadata"]["labels"]["topology.kubernetes.io/rack"] for n in nodes}
    assert (len(nodes), len(racks)) == (4, 1)
    assert sorted(suffering(store).values()) == ["hot", "hot", "hot", "power-brake"]
    assert all(n["status"]["allocatable"][GPU] == "8" for n in store.list("nodes"))


def hung_driver(store: Store) -> None:
    assert list(suffering(store).values()) == ["hung"]
    assert all(n["status"]["allocatable"][GPU] == "8" for n in store.list("nodes"))


def driver_upgrade(store: Store) -> None:
    (node,) = [
        n for n in store.list("nodes") if "gpu-operator" in {m["manager"] for m in n["metadata"]["managedFields"]}
    ]
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu-driver-upgrade-state"] == "upgrade-done"
    assert labels["nvidia.com/cuda.driver-version.full"] == "570.124.06"
    assert labels["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert not node["spec"].get("unschedulable")
    assert node["status"]["allocatable"][GPU] == "8"
    for server in store.list("deployments", "inference"):
        assert server["status"]["availableReplicas"] == server["spec"]["replicas"]


def board_swap(store: Store) -> None:
    node = store.get("nodes", None, "node-16")
    assert node["metadata"]["annotations"]["sim/board-0"] == "1"
    assert suffering(store) == {}, "the reboot has mended what was wrong"
    assert any(reason == "Rebooted" for reason, _ in events_of(store, "node-16"))


def mig(store: Store) -> None:
    node = store.get("nodes", None, "node-16")
    labels = node["metadata"]["labels"]
    assert (node["status"]["capacity"][GPU], node["status"]["allocatable"][GPU]) == ("56", "56")
    assert (labels["nvidia.com/mig.config.state"], labels["nvidia.com/gpu.count"]) == ("success", "56")
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"


def reboot(store: Store) -> None:
    assert any(reason == "Rebooted" for reason, _ in events_of(store, "node-16"))
    assert condition(store.get("nodes", None, "node-16"), "Ready")["status"] == "True"


def control_plane(store: Store) -> None:
    assert "node-role.kubernetes.io/control-plane" in store.get("nodes", None, "node-16")["metadata"]["labels"]


def no_reboot(store: Store) -> None:
    node = store.get("nodes", None, "node-16")
    assert REQUESTED in node["metadata"]["annotations"]
    assert condition(node, "Ready")["status"] == "True"
    assert not any(reason == "Rebooted" for reason, _ in events_of(store, "node-16"))


def stale_checkpoint(store: Store) -> None:
    assert store.get("pods", "training", "llama-sft-70b-0")["metadata"]["annotations"]["sim/no-saves"] == "true"


def killed_in_save(store: Store) -> None:
    ages = {
        p["metadata"]["name"]: p["metadata"]["creationTimestamp"] for p in pods(store, "moe-8x7b-pretrain", "training")
    }
    assert max(ages, key=lambda name: ages[name]) == "moe-8x7b-pretrain-0"
    assert len(set(ages.values())) == 3


def slow_store(store: Store) -> None:
    claim = store.get("persistentvolumeclaims", "training", "checkpoints")
    assert claim["metadata"]["annotations"] == {"sim/slow": "25"}


def api_storm(store: Store) -> None:
    assert store.shelf("pods").floor > 0, "old versions are forgotten"


BROUGHT_ABOUT: dict[str, Callable[[Store], None]] = {
    "stuck-rollout": stuck_rollout,
    "crash-loop": crash_loop,
    "image-pull": image_pull,
    "quota": quota,
    "blue-green": blue_green,
    "full-fleet": full_fleet,
    "budget-deadlock": budget_deadlock,
    "two-budgets": two_budgets,
    "silent-node": silent_node,
    "lost-node": lost_node,
    "gpu-loss": gpu_loss,
    "overcommit": overcommit,
    "foreign-uncordon": foreign_uncordon,
    "xid-79": xid_79,
    "ecc-storm": ecc_storm,
    "hot-rack": hot_rack,
    "hung-driver": hung_driver,
    "driver-upgrade": driver_upgrade,
    "board-swap": board_swap,
    "mig": mig,
    "reboot": reboot,
    "control-plane": control_plane,
    "no-reboot": no_reboot,
    "stale-checkpoint": stale_checkpoint,
    "killed-in-save": killed_in_save,
    "slow-store": slow_store,
    "api-storm": api_storm,
}


def test_every_scenario_is_tried_here() -> None:
    assert set(BROUGHT_ABOUT) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_a_scenario_brings_about_what_it_tells_and_leaves_nothing_behind(name: str) -> None:
    async with Theatre() as theatre:
        before = shape(theatre.store)
        await theatre.play(name)
        passes = theatre.stage.scenarios[name].passes
        assert theatre.state(name) is (State.OFF if passes else State.STANDING), theatre.lines(name)
        BROUGHT_ABOUT[name](theatre.store)
        assert theatre.lines(name)
        if not passes:
            await theatre.stop(name)
            assert theatre.state(name) is State.OFF
        await theatre.clock.advance(60.0)
        assert theatre.faults.faults == ()
        assert shape(theatre.store) == before, theatre.lines(name)


async def test_all_scenarios_at_once_and_all_undone() -> None:
    async with Theatre() as theatre:
        before = shape(theatre.store)
        for name in NAMES:
            if name not in {"api-storm", "lost-node", "full-fleet"}:
                await theatre.play(name)
                assert theatre.state(name) is State.STANDING, theatre.lines(name)
        for name in reversed(NAMES):
            if theatre.state(name) is not State.OFF:
                await theatre.stop(name)
        await theatre.clock.advance(60.0)
        assert shape(theatre.store) == before


async def test_a_scenario_can_be_stopped_in_the_middle() -> None:
    async with Theatre() as theatre:
        before = shape(theatre.store)
        await theatre.stage.start("stuck-rollout")
        await theatre.clock.advance(20.0)
        assert theatre.state("stuck-rollout") is State.UNFOLDING
        await theatre.stop("stuck-rollout")
        await theatre.clock.advance(60.0)
        assert shape(theatre.store) == before


async def test_what_others_have_deleted_needs_no_undoing() -> None:
    async with Theatre() as theatre:
        await theatre.play("blue-green")
        theatre.store.delete("services", "serving", "search")
        await theatre.stop("blue-green")
        assert theatre.lines("blue-green")[-1] == "Over: everything is as it was."


async def test_a_fleet_that_does_not_allow_a_story_is_told_so() -> None:
    async with Theatre(nodes=1) as theatre:
        await theatre.play("full-fleet")
        await theatre.play("gpu-loss")
        assert theatre.state("gpu-loss") is State.FAILED
        assert theatre.lines("gpu-loss")[-1].startswith("Could not go on: ")
        await theatre.stop("gpu-loss")
        assert theatre.state("gpu-loss") is State.OFF


async def test_the_stage_refuses_what_makes_no_sense() -> None:
    async with Theatre() as theatre:
        with pytest.raises(StageError, match="no scenario") as caught:
            await theatre.stage.start("nope")
        assert caught.value.missing
        with pytest.raises(StageError, match="off"):
            await theatre.stage.stop("quota")
        await theatre.stage.start("quota")
        with pytest.raises(StageError, match="already"):
            await theatre.stage.start("quota")
        with pytest.raises(StageError, match="moved by hand"):
            theatre.stage.change_speed(2.0)
        with pytest.raises(StageError, match="between"):
            theatre.stage.change_speed(0.0)


def staged(play: Callable[[Scene], Awaitable[None]]) -> tuple[Scenario, ...]:
    return (Scenario("own", "Own", "A story.", "Nowhere.", 5.0, play),)


@pytest.mark.parametrize("error", [StoryError("no room"), ValueError("broken")])
async def test_a_story_that_fails_says_why_and_can_be_undone(error: Exception) -> None:
    async def play(scene: Scene) -> None:
        hand = scene.hand("tester")
        await scene.create(hand, "configmaps", {"metadata": {"name": "trace", "namespace": "serving"}})
        raise error

    async with Theatre(nodes=1, scenarios=staged(play)) as theatre:
        await theatre.play("own")
        assert theatre.state("own") is State.FAILED
        assert str(error) in theatre.lines("own")[-1]
        await theatre.stop("own")
        assert "trace" not in [c["metadata"]["name"] for c in theatre.store.list("configmaps", "serving")]


async def test_people_of_a_story_act_under_their_own_names_and_their_tokens_end() -> None:
    hands = []

    async def play(scene: Scene) -> None:
        hand = scene.hand("marta", "kubectl-label")
        hands.append(hand)
        await scene.patch(hand, "nodes", "", "node-01", {"metadata": {"labels": {"seen": "yes"}}})

    async with Theatre(nodes=1, scenarios=staged(play)) as theatre:
        await theatre.play("own")
        (node,) = theatre.store.list("nodes")
        assert node["metadata"]["labels"]["seen"] == "yes"
        assert "kubectl-label" in {m["manager"] for m in node["metadata"]["managedFields"]}
        await theatre.stop("own")
        assert "seen" not in theatre.store.list("nodes")[0]["metadata"]["labels"]
    with pytest.raises(ApiError, match="Unauthorized"):
        await hands[0].get("nodes", "", "node-01")


async def test_a_patch_is_taken_back_field_by_field() -> None:
    before = {"spec": {"a": 1, "deep": {"b": [1, 2]}}, "metadata": {}}
    change = {"spec": {"a": 2, "new": True, "deep": {"b": [3]}}, "metadata": {"annotations": {"x": "y"}}}
    back = {"spec": {"a": 1, "new": None, "deep": {"b": [1, 2]}}, "metadata": {"annotations": None}}
    assert inverse(change, before) == back


async def test_closing_ends_stories_that_go_on_for_ever() -> None:
    async with Theatre() as theatre:
        await theatre.play("foreign-uncordon")
        theatre.faults.set((Fault(Weather.SLOW),))
        await theatre.stage.close()
        task = theatre.stage.performance("foreign-uncordon").task
        assert task is not None
        assert task.done()
