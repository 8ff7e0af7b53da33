"""The rehearsal's dcgm-exporter pods: their page says what the machine measures, with an exporter's quirks."""

from typing import Any

import pytest

from fleet.adapters.gpus_dcgm import Origin, reading
from fleet.domain.gpus import NA, Gpu, Reading
from fleet.simulation.exporters import METRICS, DcgmExporter
from fleet.simulation.programs import Call, Container
from tests.simulation.test_gpu_machines import SMALL, TRAINING, Fleet

Object = dict[str, Any]

PORT = 9400
ORIGIN = Origin(TRAINING, "boot", "exporter")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def container(fleet: Fleet, node: str, started_s_ago: float = 3600.0) -> Container:
    now = fleet.clock.now()
    pod: Object = {"metadata": {"name": "dcgm-exporter-x", "uid": "1"}, "spec": {"nodeName": node}, "status": {}}
    return Container(pod, {"name": "dcgm-exporter", "ports": [{"containerPort": PORT}]}, now - started_s_ago, now)


async def page(fleet: Fleet, node: str, started_s_ago: float = 3600.0) -> str:
    exporter = DcgmExporter(fleet.machines)
    answer = await exporter.http(container(fleet, node, started_s_ago), PORT, Call("GET", "/metrics"))
    assert answer is not None
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    return answer.body.decode()


async def read(fleet: Fleet, node: str, started_s_ago: float = 3600.0) -> Reading:
    return reading(await page(fleet, node, started_s_ago), ORIGIN, None, fleet.clock.now())[0]


def measured(gpu: Gpu) -> dict[str, object]:
    names = [field for *_, field in METRICS] + [
        "uuid",
        "index",
        "pci",
        "name",
        "memory_used_bytes",
        "memory_total_bytes",
    ]
    return {name: getattr(gpu, name) for name in names}


@pytest.mark.parametrize("node", [TRAINING, SMALL])
async def test_it_shows_what_the_machine_measures(fleet: Fleet, node: str) -> None:
    shown = await read(fleet, node)
    for gpu, true in zip(shown.gpus, fleet.machines.gpus(node), strict=True):
        assert measured(gpu) == measured(true)
    machine = fleet.machines.get(node)
    assert machine is not None
    assert (shown.driver, shown.faults) == (machine.driver, ())


async def test_a_pod_is_named_with_its_gpus(fleet: Fleet) -> None:
    shown, true = (await read(fleet, TRAINING)).gpus, fleet.machines.gpus(TRAINING)
    assert [gpu.assigned for gpu in shown] == [gpu.assigned or None for gpu in true]
    assert any(gpu.assigned for gpu in shown)


async def test_what_a_board_has_not_is_a_number_that_means_so(fleet: Fleet) -> None:
    assert "9223372036854775794" in await page(fleet, SMALL)
    assert (await read(fleet, SMALL)).gpus[0].memory_temperature_c == NA


async def test_a_lost_gpu_has_no_series_and_its_xid_is_not_shown(fleet: Fleet) -> None:
    fleet.note(TRAINING, sim_gpu_3="off-bus")
    shown = await read(fleet, TRAINING)
    assert [gpu.index for gpu in shown.gpus] == [0, 1, 2, 4, 5, 6, 7]
    assert shown.faults == ()


async def test_the_last_xid_sticks_until_the_exporter_is_started_again(fleet: Fleet) -> None:
    fleet.note(TRAINING, sim_gpu_3="ecc-storm")
    found = (await read(fleet, TRAINING)).faults
    assert [(fault.code, fault.uuid) for fault in found] == [(92, fleet.gpu(TRAINING, 3).uuid)]
    assert 'xid="92"' in await page(fleet, TRAINING)
    await fleet.clock.advance(3600)
    fleet.note(TRAINING, sim_gpu_3=None)
    later = await page(fleet, TRAINING, started_s_ago=7200)
    assert 'xid="92"} 0' in later
    assert [f.code for f in reading(later, ORIGIN, None, 0.0)[0].faults] == [92]
    assert (await read(fleet, TRAINING, started_s_ago=10)).faults == ()


async def test_instances_repeat_what_is_of_their_gpu(fleet: Fleet) -> None:
    fleet.note(TRAINING, sim_mig="1g.10gb")
    shown, true = (await read(fleet, TRAINING)).gpus[0], fleet.gpu(TRAINING, 0)
    assert (shown.temperature_c, shown.power_w, shown.utilization_pct) == (true.temperature_c, true.power_w, NA)
    assert [i.gi for i in shown.instances] == [i.gi for i in true.instances]
    assert [i.memory_total_bytes for i in shown.instances] == [i.memory_total_bytes for i in true.instances]


async def test_without_a_driver_there_is_nothing_to_show(fleet: Fleet) -> None:
    fleet.note(TRAINING, sim_driver="absent")
    assert await page(fleet, TRAINING) == ""
    assert await page(fleet, "node-that-is-not-there") == ""
