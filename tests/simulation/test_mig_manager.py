"""GPUs cut into instances and made whole again, as a node's label asks."""

from typing import Any

from fleet.domain.gpus import NA
from fleet.simulation.gpu_holders import Device
from fleet.simulation.mig_manager import CONFIG, STATE
from tests.simulation.cluster import GPU
from tests.simulation.test_gpu_machines import EMPTY, SMALL, TRAINING, Fleet

Object = dict[str, Any]


def ask(fleet: Fleet, node: str, layout: str) -> None:
    def change(draft: Object) -> None:
        draft["metadata"]["labels"][CONFIG] = layout

    fleet.store.mutate("nodes", None, node, change, manager="kubectl-label")


def label(fleet: Fleet, node: str, key: str) -> str:
    found: str = fleet.store.get("nodes", None, node)["metadata"]["labels"].get(key, "")
    return found


def slots(fleet: Fleet, node: str) -> tuple[str, str]:
    status = fleet.store.get("nodes", None, node)["status"]
    return status["capacity"][GPU], status["allocatable"][GPU]


class Running:
    """The default fleet with its machinery."""

    def __init__(self) -> None:
        self.fleet = Fleet()

    async def __aenter__(self) -> Fleet:
        await self.fleet.rehearsal.start()
        await self.fleet.clock.advance(1.0)
        return self.fleet

    async def __aexit__(self, *exc: object) -> None:
        self.fleet.rehearsal.check()
        await self.fleet.rehearsal.stop()


async def test_an_empty_machine_is_cut_and_made_whole_again() -> None:
    async with Running() as fleet:
        whole = fleet.machines.gpus(EMPTY)
        ask(fleet, EMPTY, "all-1g.10gb")
        await fleet.clock.advance(5.0)
        assert (label(fleet, EMPTY, STATE), slots(fleet, EMPTY)) == ("pending", ("8", "0"))
        assert label(fleet, EMPTY, "nvidia.com/gpu.deploy.device-plugin") == "paused-for-mig-change"
        assert {g.advertised for g in fleet.machines.gpus(EMPTY)} == {False}
        await fleet.clock.advance(20.0)
        assert (label(fleet, EMPTY, STATE), slots(fleet, EMPTY)) == ("success", ("56", "56"))
        assert label(fleet, EMPTY, "nvidia.com/gpu.memory") == "9728"
        cut = fleet.machines.gpus(EMPTY)
        assert [g.uuid for g in cut] == [g.uuid for g in whole]
        assert {(g.mig, g.utilization_pct, g.remap_pending, g.ecc_uncorrected) for g in cut} == {(1, NA, NA, NA)}
        assert len({i.uuid for g in cut for i in g.instances}) == 56
        assert [i.gi for i in cut[0].instances] == list(range(7, 14))
        ask(fleet, EMPTY, "all-disabled")
        await fleet.clock.advance(30.0)
        assert (label(fleet, EMPTY, STATE), slots(fleet, EMPTY)) == ("success", ("8", "8"))
        assert label(fleet, EMPTY, "nvidia.com/gpu.product") == "NVIDIA-A100-SXM4-80GB"
        assert fleet.machines.gpus(EMPTY)[0].instances == ()


async def test_a_pod_holds_one_instance() -> None:
    async with Running() as fleet:
        ask(fleet, EMPTY, "all-1g.10gb")
        await fleet.clock.advance(30.0)
        amounts = {"nvidia.com/gpu": "2"}
        container = {
            "name": "main",
            "image": "par-prod/notebook:1",
            "resources": {"limits": amounts, "requests": amounts},
        }
        pod = {"metadata": {"name": "small", "namespace": "web"}, "spec": {"containers": [container]}}
        fleet.store.create("pods", pod, manager="test")
        fleet.store.bind("web", "small", EMPTY)
        await fleet.clock.advance(20.0)
        held: list[Device] = sorted(fleet.machines.held(EMPTY))
        assert held == [(0, 0), (0, 1)]
        gpu = fleet.machines.gpus(EMPTY)[0]
        assert gpu.assigned == (), "nobody holds the whole of it"
        assert [bool(i.assigned) for i in gpu.instances] == [True, True, *[False] * 5]
        assert {p.instance for p in gpu.processes or ()} == {i.uuid for i in gpu.instances[:2]}


async def test_a_machine_in_use_is_left_as_it_is() -> None:
    async with Running() as fleet:
        ask(fleet, TRAINING, "all-1g.10gb")
        await fleet.clock.advance(30.0)
        assert (label(fleet, TRAINING, STATE), slots(fleet, TRAINING)) == ("failed", ("8", "8"))
        assert label(fleet, TRAINING, "nvidia.com/gpu.deploy.device-plugin") == "true"
        assert fleet.machines.gpus(TRAINING)[0].mig == 0


async def test_what_cannot_be_cut_or_is_not_known_fails() -> None:
    async with Running() as fleet:
        ask(fleet, EMPTY, "all-balanced")
        ask(fleet, SMALL, "all-1g.10gb")
        await fleet.clock.advance(30.0)
        assert {label(fleet, node, STATE) for node in (EMPTY, SMALL)} == {"failed"}
