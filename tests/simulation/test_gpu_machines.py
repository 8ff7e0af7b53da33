"""What the GPUs of the rehearsal's machines measure, who holds them, and what a trouble makes of them."""

from collections.abc import Callable
from typing import Any

import pytest

from fleet.domain.gpus import NA, Answer, DriverStatus, FaultKind, Gpu
from fleet.domain.xid import line_faults
from fleet.simulation.clock import ManualClock
from fleet.simulation.gpu_boards import MIB
from fleet.simulation.kubelet import boot_id
from fleet.simulation.machines import Machines
from fleet.simulation.placement import effective_request
from fleet.simulation.rehearsal import Rehearsal
from fleet.simulation.store import Store
from tests.simulation.cluster import GPU

Object = dict[str, Any]

TRAINING, SERVING, EMPTY, SMALL = "node-01", "node-13", "node-16", "node-20"


class Fleet:
    """The default fleet at rest, on a manual clock; notes are written on its nodes."""

    def __init__(self, seed: int = 1, nodes: int = 24) -> None:
        self.clock = ManualClock()
        self.rehearsal = Rehearsal(seed, self.clock, nodes, pace=0)
        self.store: Store = self.rehearsal.store
        self.machines: Machines = self.rehearsal.machines

    def note(self, node: str, **notes: str | None) -> None:
        """Underscores in names stand for slashes and hyphens: sim_gpu_3."""

        def change(draft: Object) -> None:
            known = {**draft["metadata"]["annotations"], **{_name(k): v for k, v in notes.items()}}
            draft["metadata"]["annotations"] = {k: v for k, v in known.items() if v is not None}

        self.store.mutate("nodes", None, node, change, manager="test")

    def reboot(self, node: str, boot: str) -> None:
        def change(draft: Object) -> None:
            draft["status"]["nodeInfo"]["bootID"] = boot

        self.store.mutate("nodes", None, node, change, manager="test", subresource="status")

    def gpu(self, node: str, index: int) -> Gpu:
        return self.machines.gpus(node)[index]

    def log(self, node: str) -> list[str]:
        machine = self.machines.get(node)
        assert machine is not None
        return [line.text for line in machine.log]


def _name(told: str) -> str:
    return told.replace("_", "/", 1).replace("_", "-")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def number(value: Any) -> float:
    assert isinstance(value, int | float), value
    return float(value)


def test_every_gpu_of_every_node_has_a_name_of_its_own(fleet: Fleet) -> None:
    gpus = [g for node in fleet.machines for g in fleet.machines.gpus(node)]
    assert len(gpus) == 192
    for names in ({g.uuid for g in gpus}, {g.serial for g in gpus}):
        assert len(names) == 192
    assert {g.answer for g in gpus} == {Answer.OK}
    one = [g.pci for g in fleet.machines.gpus(TRAINING)]
    assert one[0] == "0000:1b:00.0"
    assert len(set(one)) == 8


def test_the_same_seed_gives_the_same_numbers_at_the_same_time() -> None:
    assert Fleet().machines.gpus(TRAINING) == Fleet().machines.gpus(TRAINING)
    assert Fleet().gpu(TRAINING, 0).uuid != Fleet(seed=2).gpu(TRAINING, 0).uuid


async def test_training_keeps_its_gpus_busy_and_warm(fleet: Fleet) -> None:
    for _ in range(30):
        await fleet.clock.advance(5.0)
        for gpu in fleet.machines.gpus(TRAINING):
            assert 85 <= number(gpu.utilization_pct) <= 99
            assert 500 < number(gpu.power_w) < 700
            assert 50 < number(gpu.temperature_c) < 75
            assert number(gpu.clock_reasons) in {0, 4}
            assert number(gpu.memory_used_bytes) > 0.8 * number(gpu.memory_total_bytes)


async def test_an_empty_node_is_idle_and_cool(fleet: Fleet) -> None:
    for _ in range(10):
        await fleet.clock.advance(5.0)
        for gpu in fleet.machines.gpus(EMPTY):
            assert (gpu.utilization_pct, gpu.clock_reasons, gpu.processes, gpu.assigned) == (0, 1, (), ())
            assert number(gpu.temperature_c) < 40
            assert number(gpu.memory_used_bytes) < 16 * MIB


def test_servers_follow_their_load(fleet: Fleet) -> None:
    busy = [number(g.utilization_pct) for g in fleet.machines.gpus(SERVING)]
    assert all(10 < b < 80 for b in busy)
    assert len(set(busy)) > 2


def test_energy_only_grows(fleet: Fleet) -> None:
    before = number(fleet.gpu(TRAINING, 0).energy_j)
    assert before > 1e9, "it has been up for days"
    again = number(fleet.gpu(TRAINING, 0).energy_j)
    assert again == before


@pytest.mark.parametrize(
    ("node", "not_applicable"),
    [
        (TRAINING, {"slowdown_c"}),
        (SERVING, {"temperature_margin_c", "fabric_state"}),
        (SMALL, {"memory_temperature_c", "nvlinks", "mig", "slowdown_c"}),
    ],
)
def test_what_a_product_lacks_is_not_applicable_and_nothing_is_unknown(
    fleet: Fleet, node: str, not_applicable: set[str]
) -> None:
    gpu = fleet.gpu(node, 0)
    assert {name for name in not_applicable if getattr(gpu, name) == NA} == not_applicable
    assert [f for f in Gpu.__struct_fields__ if getattr(gpu, f) is None] == []


class TestHolders:
    def test_pods_hold_as_many_as_they_asked_for_and_nobody_shares(self, fleet: Fleet) -> None:
        for node in fleet.machines:
            held = fleet.machines.held(node)
            pods = [p for p in fleet.store.list("pods") if p["spec"].get("nodeName") == node]
            wanted = sum(effective_request(p["spec"]).get(GPU, 0) for p in pods)
            assert len(held) == wanted
            for (slot, _), (pod, container) in held.items():
                (holder,) = fleet.gpu(node, slot).assigned or ()
                assert (holder.namespace, holder.pod) == (pod["metadata"]["namespace"], pod["metadata"]["name"])
                assert holder.container == container
                uids = [p.holder.pod_uid for p in fleet.gpu(node, slot).processes or () if p.holder]
                assert uids == [pod["metadata"]["uid"]]

    async def test_they_keep_theirs_until_they_are_gone(self, fleet: Fleet) -> None:
        def of(pod: str) -> list[int]:
            return sorted(s for (s, _), (p, _) in fleet.machines.held(SERVING).items() if p["metadata"]["name"] == pod)

        first, second = sorted({p["metadata"]["name"] for p, _ in fleet.machines.held(SERVING).values()})[:2]
        before, kept = of(first), of(second)
        assert len(before) == 2
        fleet.store.delete("pods", "inference", first, grace_s=0)
        assert (of(first), of(second)) == ([], kept)
        assert all(not fleet.gpu(SERVING, slot).processes for slot in before)

    async def test_a_new_pod_gets_the_free_ones(self) -> None:
        fleet = Fleet()
        await fleet.rehearsal.start()
        try:
            gone = next(p for p, _ in fleet.machines.held(SERVING).values())
            theirs = {s for (s, _), (p, _) in fleet.machines.held(SERVING).items() if p is gone}
            fleet.store.delete("pods", "inference", gone["metadata"]["name"], grace_s=0)
            await fleet.clock.advance(120.0)
            held = {s: p for (s, _), (p, _) in fleet.machines.held(SERVING).items() if s in theirs}
            assert set(held) == theirs
            assert all(p["metadata"]["uid"] != gone["metadata"]["uid"] for p in held.values())
        finally:
            await fleet.rehearsal.stop()


class TestTroubles:
    def test_one_that_fell_off_the_bus(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu_3="off-bus")
        gpus = fleet.machines.gpus(TRAINING)
        assert [g.answer for g in gpus] == [Answer.LOST if i == 3 else Answer.OK for i in range(8)]
        assert (gpus[3].utilization_pct, gpus[3].temperature_c) == (None, None)
        assert [g.advertised for g in gpus] == [i != 3 for i in range(8)]
        faults = line_faults((i, 1.0, text) for i, text in enumerate(fleet.log(TRAINING)))
        assert next((f.kind, f.code, f.pci) for f in faults) == (FaultKind.XID, 79, gpus[3].pci)
        assert faults[-1].recovery == (0, 2)

    def test_a_driver_that_does_not_answer_for_one(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu_3="hung")
        assert [g.answer for g in fleet.machines.gpus(TRAINING)].count(Answer.HUNG) == 1
        assert fleet.log(TRAINING) == []

    async def test_a_storm_of_corrected_errors(self, fleet: Fleet) -> None:
        before = number(fleet.gpu(TRAINING, 3).ecc_corrected)
        fleet.note(TRAINING, sim_gpu_3="ecc-storm")
        fleet.machines.catch_up()
        await fleet.clock.advance(10.0)
        rate = (number(fleet.gpu(TRAINING, 3).ecc_corrected) - before) / 10.0
        assert 4_647 < rate < 17_657
        (line,) = fleet.log(TRAINING)
        assert "): 92, " in line

    def test_an_uncorrectable_error_wants_a_reset(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu_3="uncorrectable")
        gpu = fleet.gpu(TRAINING, 3)
        assert (gpu.ecc_uncorrected, gpu.remap_uncorrected, gpu.remap_pending, gpu.remap_failure) == (1, 1, 1, 0)
        assert gpu.recovery_action == 1
        pid = (gpu.processes or ())[0].pid
        faults = line_faults((i, 1.0, text) for i, text in enumerate(fleet.log(TRAINING)))
        assert [f.code for f in faults] == [48, 63, 154]
        assert faults[0].pid == pid

    async def test_heat_slows_it_down_while_it_works(self, fleet: Fleet) -> None:
        for node in (TRAINING, EMPTY):
            fleet.note(node, sim_gpu="hot")
            fleet.machines.gpus(node)
        await fleet.clock.advance(240.0)
        for gpu in fleet.machines.gpus(TRAINING):
            assert gpu.clock_reasons == 0x48
            assert number(gpu.temperature_margin_c) <= 1
            assert number(gpu.sm_clock_mhz) < 0.6 * number(gpu.sm_clock_max_mhz)
        assert all(g.clock_reasons == 1 for g in fleet.machines.gpus(EMPTY))

    def test_the_power_supply_slows_all_of_a_machine(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu="power-brake")
        assert {g.clock_reasons for g in fleet.machines.gpus(TRAINING)} == {0x88}

    def test_a_driver_of_two_versions(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_driver="mismatch")
        machine = fleet.machines.get(TRAINING)
        assert machine is not None
        assert (machine.status, fleet.machines.gpus(TRAINING)) == (DriverStatus.MISMATCH, ())

    def test_another_board_in_the_same_slot(self, fleet: Fleet) -> None:
        before = fleet.machines.gpus(TRAINING)
        fleet.note(TRAINING, sim_board_3="1")
        after = fleet.machines.gpus(TRAINING)
        assert [a.uuid == b.uuid for a, b in zip(after, before, strict=True)] == [i != 3 for i in range(8)]
        assert [a.pci for a in after] == [b.pci for b in before]
        assert after[3].serial != before[3].serial
        assert number(after[3].energy_j) < number(after[2].energy_j)

    def test_a_boot_begins_counters_and_log_anew(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu_3="ecc-storm")
        assert fleet.log(TRAINING)
        fleet.note(TRAINING, sim_gpu_3=None)
        fleet.reboot(TRAINING, "another")
        assert fleet.log(TRAINING) == []
        assert fleet.gpu(TRAINING, 3).energy_j == 0
        machine = fleet.machines.get(TRAINING)
        assert machine is not None
        assert machine.boot_id == "another" == boot_id(fleet.store.get("nodes", None, TRAINING))

    def test_what_was_logged_is_over_with_a_reset_of_the_gpu(self, fleet: Fleet) -> None:
        fleet.note(TRAINING, sim_gpu_3="uncorrectable", sim_gpu_4="hung")
        before = fleet.machines.gpus(TRAINING)
        fleet.note(TRAINING, sim_gpu_3=None, sim_gpu_4=None)
        after = fleet.machines.gpus(TRAINING)
        assert (after[3].energy_j, after[3].ecc_uncorrected, after[3].recovery_action) == (0, 0, 0)
        assert number(after[4].energy_j) > 1e8, "that one was only asked in vain"
        assert after[2] == before[2]

    @pytest.mark.parametrize("said", ["", "nonsense", "OFF-BUS", "off_bus"])
    def test_other_words_mean_nothing(self, fleet: Fleet, said: str) -> None:
        before = fleet.machines.gpus(TRAINING)
        fleet.note(TRAINING, sim_gpu_3=said)
        assert fleet.machines.gpus(TRAINING) == before


def test_new_lines_of_a_kernel_log_are_told_of(fleet: Fleet) -> None:
    told: list[str] = []
    listen: Callable[[str], None] = told.append
    fleet.machines.on_log = listen
    fleet.note(TRAINING, sim_gpu_3="hot")
    fleet.machines.catch_up()
    assert told == []
    fleet.note(TRAINING, sim_gpu_3="hot ecc-storm")
    fleet.machines.catch_up()
    assert told == [TRAINING]


def holders(fleet: Fleet) -> Object:
    """Node and device → uid."""
    return {
        (node, device): pod["metadata"]["uid"]
        for node in fleet.machines
        for device, (pod, _) in fleet.machines.held(node).items()
    }


def test_a_long_silence_loses_nothing_but_time() -> None:
    """More changes than the store remembers: who holds what stays, and what has gone is noticed."""
    fleet = Fleet()
    held = holders(fleet)
    gone = next(p for p, _ in fleet.machines.held(SERVING).values())
    fleet.store.delete("pods", "inference", gone["metadata"]["name"], grace_s=0)
    fleet.store.expire()
    assert holders(fleet) == {k: uid for k, uid in held.items() if uid != gone["metadata"]["uid"]}
