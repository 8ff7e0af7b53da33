"""What a map and a table show of a GPU."""

import pytest

from fleet.domain import gpu_rows
from fleet.domain.gpus import NA, Holder, Instance, Process
from fleet.domain.picture import GpuRow
from tests.domain.gpu_readings import Told, eight


def row(state="ok", **values):
    return GpuRow(node="n", index=0, state=state, **values)


@pytest.mark.parametrize(
    ("shown", "free", "held"),
    [
        (row(), "f", "b"),
        (row(utilization_pct=0), "f", "0"),
        (row(utilization_pct=71), "f", "4"),
        (row(utilization_pct=NA), "f", "b"),
        (row("app-fault", utilization_pct=100), "f", "5"),
        (row(utilization_pct=1, idle_since_at=5.0), "f", "i"),
        (row("degraded", utilization_pct=100), "d", "d"),
        (row("reset-required", soft=True), "d", "d"),
        (row("reset-required"), "x", "x"),
        (row("reboot-required"), "x", "x"),
        (row("hardware-service"), "x", "x"),
        (row("lost"), "x", "x"),
        (row("unknown", idle_since_at=5.0), "u", "u"),
    ],
)
def test_cells(shown, free, held):
    assert gpu_rows.cell(shown, allocated=False) == free
    assert gpu_rows.cell(shown, allocated=True) == held


@pytest.mark.parametrize(
    ("pct", "fifths"),
    [
        (0, "0"),
        (9, "0"),
        (10, "1"),
        (29.9, "1"),
        (50, "3"),
        (90, "5"),
        (100, "5"),
        (250, "5"),
        (-3, "0"),
        (None, "b"),
        (NA, "b"),
    ],
)
def test_fifths(pct, fifths):
    assert gpu_rows.fifths(pct) == fifths


@pytest.mark.parametrize(
    ("state", "soft", "level"),
    [
        ("ok", False, ""),
        ("app-fault", False, ""),
        ("degraded", False, "warn"),
        ("reset-required", True, "warn"),
        ("reset-required", False, "bad"),
        ("lost", False, "bad"),
        ("unknown", False, "off"),
    ],
)
def test_levels(state, soft, level):
    assert gpu_rows.level(state, soft) == level


def test_figures_are_rounded_as_screens_show_them():
    told = Told()
    told.reads(eight(gpu0={"power_w": 699.6, "temperature_c": 55.4, "utilization_pct": 0.4, "power_limit_w": 1e300}))
    shown = told.row(0)
    assert (shown.power_w, shown.temperature_c, shown.utilization_pct, shown.power_limit_w) == (700, 55, 0, None)
    assert (shown.memory_used_mib, shown.memory_total_mib) == (57_220, 81_559)
    assert (shown.nvlinks, shown.pcie) == ((18, 18), (5, 16))


def test_who_holds_it_and_who_uses_it():
    told = Told()
    holders = (Holder("a", "p", "one"), Holder("a", "p", "two"), Holder("b", "q"))
    users = (Process(pid=1, holder=Holder("a", "p")), Process(pid=2), Process(pid=3, holder=Holder(pod_uid="u")))
    told.reads(eight(gpu0={"assigned": holders, "processes": users}, gpu1={"assigned": None, "processes": None}))
    assert (told.row(0).pods, told.row(0).users, told.row(0).strangers) == (("a/p", "b/q"), 3, 1)
    assert (told.row(1).pods, told.row(1).users, told.row(1).strangers) == (None, None, 0)


def test_instances():
    told = Told()
    held = Instance(
        uuid="MIG-1", profile="3g.40gb", memory_total_bytes=40 << 30, memory_used_bytes=NA, assigned=(Holder("a", "p"),)
    )
    users = (
        Process(pid=1, holder=Holder("b", "q"), instance="MIG-1"),
        Process(pid=2, holder=Holder("c", "r"), instance="MIG-2"),
    )
    told.reads(eight(gpu0={"instances": (held,), "processes": users, "assigned": ()}))
    (instance,) = told.row(0).instances
    assert (instance.memory_total_mib, instance.memory_used_mib, instance.pods) == (40_960, NA, ("a/p", "b/q"))
    assert told.last.standing.unheld_use == 0
    told.reads(eight(gpu0={"instances": (held,), "temperature_margin_c": -1, "recovery_action": 2}))
    assert told.row(0).instances[0].state == "reboot-required", "an instance is no better than its GPU"


@pytest.mark.parametrize(
    ("capacity", "allocatable", "failed", "replicas", "slots"),
    [(8, 8, 0, 1, 8), (8, 7, 1, 1, 7), (8, 8, 1, 1, 7), (80, 79, 1, 10, 70), (80, 60, 1, 10, 60), (8, 8, 20, 1, 0)],
)
def test_slots_that_failed_gpus_leave(capacity, allocatable, failed, replicas, slots):
    assert gpu_rows.usable_slots(capacity, allocatable, failed, replicas) == slots
