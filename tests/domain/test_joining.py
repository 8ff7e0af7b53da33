"""Slots and GPUs together: cells, what is available and free, what needs a person; the cases T1 and T12 of the worked cases."""

import pytest
from msgspec.structs import replace

from fleet.domain import joining
from fleet.domain.kube import Kind
from fleet.domain.picture import FindingRow, GpuRow, InstanceRow, NodeRow, Resource
from fleet.domain.verdicts import NodeStanding
from tests.domain.cluster import changed, inventory, listed, node, pod

NVIDIA = "nvidia.com/gpu"
STANDING = NodeStanding(measured=True, count=8, known=8, read_at=10.0)
LEVELS = {"lost": "bad", "reboot-required": "bad", "reset-required": "bad", "degraded": "warn", "unknown": "off"}


def gpu(index: int, state: str = "ok", *, held: bool | None = False, **changes) -> GpuRow:
    row = GpuRow(
        node="n",
        index=index,
        uuid=f"GPU-{index}",
        state=state,
        level=LEVELS.get(state, ""),
        reason="" if state == "ok" else "xid-79",
        action="none" if state == "ok" else "reboot-node",
        utilization_pct=50,
        pods=None if held is None else ("ml/p",) if held else (),
        findings=()
        if state == "ok"
        else (FindingRow("xid-79", "kernel-log", state, "reboot-node", 5.0, 5.0, "fallen"),),
        since_at=5.0,
    )
    return replace(row, **changes)


def eight(*changed_rows: GpuRow, held: int = 4, known: bool = True) -> dict[str, GpuRow]:
    """Eight GPUs of which the first ones are held; those that are given take the place of theirs."""
    rows = {i: gpu(i, held=(i < held) if known else None) for i in range(8)}
    rows |= {row.index: row for row in changed_rows}
    return {row.uuid: row for row in rows.values()}


def row(capacity=8, allocatable=8, allocated=4, *, name=NVIDIA, usable=True, **changes) -> NodeRow:
    free = max(0, allocatable - allocated)
    resource = Resource(name, capacity, allocatable, allocated, free, max(0, allocated - allocatable), **changes)
    return NodeRow("n", ready="True", usable=usable, resources=(resource,), product_name="NVIDIA-H100")


def joined(found: NodeRow, rows, standing: NodeStanding = STANDING) -> NodeRow:
    return joining.joined(found, standing, rows)[0]


def numbers(found: NodeRow) -> tuple[int, int, int, int]:
    """(available, free, failed, unknown)"""
    r = found.resources[0]
    return r.allocatable - r.failed - r.unknown, r.free, r.failed, r.unknown


def test_cells_show_use_idleness_and_what_nobody_measures():
    rows = eight(
        gpu(0, held=True, utilization_pct=100),
        gpu(1, held=True, utilization_pct=0, idle_since_at=1.0),
        gpu(2, held=True, utilization_pct="n/a"),
        gpu(3, held=True, utilization_pct=0),
    )
    assert joined(row(), rows).cells == "5ib0ffff"


def test_where_nobody_says_which_gpus_are_held_they_are_in_slot_order():
    assert joined(row(), eight(known=False)).cells[4:] == "ffff"
    rows = eight(gpu(0, "lost", held=None), known=False)
    assert joined(row(allocated=2), rows).cells == "x" + joined(row(), eight()).cells[0] * 2 + "fffff"


def test_a_pod_that_the_kubelet_has_not_told_of_yet_takes_the_next_slot():
    cells = joined(row(allocated=5), eight(held=4)).cells
    assert cells[5:] == "fff"
    assert "f" not in cells[:5]


@pytest.mark.parametrize(
    ("given", "rows", "expected"),
    [
        ("all well", {}, (8, 4, 0, 0)),
        ("a free one is lost", {"changes": [gpu(7, "lost")]}, (7, 3, 1, 0)),
        ("a held one is lost", {"changes": [gpu(0, "lost", held=True)]}, (7, 4, 1, 0)),
        ("one is unknown", {"changes": [gpu(7, "unknown")]}, (7, 3, 0, 1)),
        ("a soft reset", {"changes": [gpu(7, "reset-required", soft=True, level="warn")]}, (8, 4, 0, 0)),
        ("degraded", {"changes": [gpu(7, "degraded")]}, (8, 4, 0, 0)),
        ("a program failed", {"changes": [gpu(0, "app-fault", held=True)]}, (8, 4, 0, 0)),
        ("everything", {"changes": [gpu(i, "unknown", held=i < 4) for i in range(8)]}, (0, 0, 0, 8)),
        ("who holds is not known", {"changes": [gpu(7, "lost", held=None)], "known": False}, (7, 3, 1, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failed_and_unknown_gpus_are_neither_available_nor_free(given, rows, expected):
    changes = rows.get("changes", [])
    assert numbers(joined(row(), eight(*changes, known=rows.get("known", True)))) == expected


@pytest.mark.parametrize(
    ("given", "found", "rows", "expected"),
    [
        ("the plugin withdrew the lost one", row(allocatable=7), [gpu(7, "lost")], (7, 3, 0, 0)),
        ("the plugin withdrew a lost one that is held", row(allocatable=7), [gpu(0, "lost", held=True)], (7, 3, 0, 0)),
        ("two are lost, one withdrawn", row(allocatable=7), [gpu(6, "lost"), gpu(7, "lost")], (6, 2, 1, 0)),
        ("the plugin knows more than we", row(allocatable=6), [gpu(7, "lost")], (6, 2, 0, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_same_gpu_is_never_taken_away_twice(given, found, rows, expected):
    assert numbers(joined(found, eight(*rows))) == expected


def test_a_gpu_that_the_driver_lost_before_the_plugin_began():
    """Seven slots, eight GPUs: the lost one is shown, and takes nothing from the seven."""
    found = joined(row(capacity=7, allocatable=7), eight(gpu(7, "lost")))
    assert numbers(found) == (7, 3, 0, 0)
    assert (len(found.cells), found.cells[-1], found.physical) == (8, "x", 8)


def test_withdrawn_slots_are_failed_cells_even_when_every_verdict_is_good():
    assert joined(row(allocatable=7), eight()).cells[-1] == "x"


def test_free_slots_of_a_closed_node_are_closed():
    assert joined(row(usable=False), eight()).cells.endswith("cccc")


def test_a_node_that_is_not_ready_tells_nothing_about_its_slots():
    found = replace(row(), ready="Unknown", cells="u" * 8, level="off", reasons=("node-unreachable",))
    told, attention = joining.joined(found, replace(STANDING, silent_since_at=1.0), eight())
    assert (told.cells, told.level) == ("u" * 8, "off")
    assert attention == [], "its silence is its kubelet's"


# T12


def test_shares_of_a_failed_gpu_are_all_bad():
    """(d) Xid 48 on one time-sliced GPU while the plugin withdraws one slot of it: 70 of 80 are usable."""
    found = joined(row(80, 79, 30, shared=True), eight(gpu(3, "reset-required")))
    assert numbers(found)[0] == 70
    assert found.cells.count("x") == 10
    assert len(found.cells) == 80


def test_physical_gpus_are_the_drivers_where_slots_are_instances():
    """(c) seven instances of each of eight GPUs"""
    found = joined(row(56, 56, 0, mig=True), eight())
    assert (found.physical, numbers(found)[0]) == (8, 56)


def test_instances_are_joined_by_their_slices():
    """(e) one source says 7g.79gb where Kubernetes says 7g.80gb; a bad instance costs its own slot alone."""
    name = "nvidia.com/mig-1g.10gb"
    parts = tuple(InstanceRow(f"MIG-{i}", "1g.9gb", "reset-required" if i == 5 else "ok") for i in range(7))
    rows = {"GPU-0": gpu(0, instances=parts)}
    found = joined(row(7, 7, 2, name=name, mig=True), rows, replace(STANDING, count=1))
    assert numbers(found) == (6, 4, 1, 0)


def test_gpus_of_another_vendor_are_left_alone():
    found = row(name="amd.com/gpu")
    assert joined(found, eight(gpu(7, "lost"))).resources == found.resources


# What needs a person


def concerns(found: NodeRow, rows, standing=STANDING):
    told, attention = joining.joined(found, standing, rows)
    return told, {entry.kind: entry for entry in attention}


def test_one_entry_per_node_and_concern():
    told, entries = concerns(row(), eight(gpu(3, "lost", held=True), gpu(5, "lost"), gpu(6, "degraded")))
    assert list(entries) == ["gpu-lost", "gpu-degraded"]
    facts = dict(entries["gpu-lost"].facts)
    assert (facts["count"], facts["indices"], facts["rule"], facts["action"]) == (2, "3, 5", "xid-79", "reboot-node")
    assert (facts["evidence"], entries["gpu-lost"].since_at, entries["gpu-lost"].level) == ("fallen", 5.0, "bad")
    assert told.reasons == ("gpu-lost", "gpu-degraded")
    assert told.level == "bad"


def test_what_a_verdict_explains_is_not_told_twice():
    found = replace(row(allocatable=7), level="bad", reasons=("gpus-withdrawn",))
    told, _ = concerns(found, eight(gpu(7, "lost")))
    assert told.reasons == ("gpu-lost",)
    told, _ = concerns(found, eight())
    assert told.reasons == ("gpus-withdrawn",), "no verdict explains it"
    found = replace(row(allocatable=7, allocated=8), level="bad", reasons=("gpus-withdrawn", "over-committed"))
    told, _ = concerns(found, eight(gpu(3, "lost", held=True), held=8))
    assert told.reasons == ("gpu-lost",), "a pod goes on holding what was withdrawn"


def test_planned_work_is_no_incident():
    found = replace(row(allocatable=0), level="bad", reasons=("gpus-withdrawn",))
    standing = replace(STANDING, planned="driver-upgrade")
    told, entries = concerns(found, eight(*(gpu(i, "unknown") for i in range(8))), standing)
    assert (told.level, told.reasons, entries, told.planned) == ("drain", (), {}, "driver-upgrade")


def test_a_silent_node_says_so_once():
    silent = FindingRow("readings-silent", "nvml", "unknown", "monitor", 70.0, 70.0, "no reading")
    standing = replace(STANDING, silent_since_at=10.0, findings=(silent,))
    told, entries = concerns(row(), eight(*(gpu(i, "unknown") for i in range(8))), standing)
    assert list(entries) == ["readings-silent"]
    assert entries["readings-silent"].since_at == 10.0
    assert (told.level, told.cells) == ("off", "u" * 8)


def test_a_gpu_that_cannot_be_read_is_named_where_nothing_else_explains_it():
    told, entries = concerns(row(), eight(gpu(2, "unknown")))
    assert list(entries) == ["gpu-unknown"]
    assert told.level == "off"


def test_use_that_no_pod_accounts_for_and_pods_that_use_nothing():
    rows = eight(gpu(7, strangers=2), gpu(0, held=True, idle_since_at=3.0))
    told, entries = concerns(row(), rows, replace(STANDING, unheld_use=1, idle_held=1))
    assert dict(entries["gpu-unheld-use"].facts)["indices"] == "7"
    assert (entries["gpu-idle-held"].level, entries["gpu-idle-held"].since_at) == ("note", 3.0)
    assert (told.unheld_use, told.idle_held) == (1, 1)


# In the inventory


def measured(store, rows, standing=STANDING):
    store.measure("n", standing, {key: replace(found, node="n") for key, found in rows.items()})
    return store.snapshot()


def test_the_totals_know_the_verdicts():
    store = inventory(node("n"), pod("p", node="n", gpus=4))
    before = store.snapshot()
    assert before.nodes["n"].measured is False
    found = measured(store, eight(gpu(7, "lost"), gpu(6, "unknown")))
    fleet = found.fleet["fleet"]
    assert (fleet.available, fleet.free, fleet.failed, fleet.unknown) == (6, 2, 1, 1)
    total = (
        fleet.available + fleet.cordoned + fleet.tainted + fleet.silent + fleet.withdrawn + fleet.failed + fleet.unknown
    )
    assert total == fleet.gpus
    assert set(found.gpus) == {f"GPU-{i}" for i in range(8)}
    assert "gpu-lost:n" in found.attention
    assert found.products["H100"].free == 2


def test_when_nobody_assesses_readings_no_verdict_holds():
    store = inventory(node("n"))
    measured(store, eight(gpu(7, "lost"), held=0))
    store.trust_verdicts(trusted=False)
    found = store.snapshot()
    assert {row.state for row in found.gpus.values()} == {"unknown", "lost"}, "what was worse stays"
    assert found.fleet["fleet"].free == 0
    assert "readings-silent:n" in found.attention
    store.trust_verdicts(trusted=True)
    assert store.snapshot().fleet["fleet"].free == 7


def test_a_node_that_goes_takes_its_gpus_along_and_one_that_stays_is_not_touched():
    store = inventory(node("n"), node("m"))
    found = measured(store, eight())
    assert store.snapshot() is found
    same = measured(store, eight())
    assert same.gpus is found.gpus, "equal rows are the same rows"
    store.apply(listed(Kind.NODE, node("m")))
    assert store.snapshot().gpus == {}
    store.apply(changed(node("n")))
    assert len(store.snapshot().gpus) == 8, "what was told is still true when it comes back"


def test_what_kubernetes_says_of_a_node_is_told_to_whoever_assesses():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu-driver-upgrade-state": "drain-required",
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade",
    }
    store = inventory(node("n", labels=labels, gpus=80))
    store.snapshot()
    context = store.gpus.contexts["n"]
    assert (context.physical, context.capacity, context.replicas) == (8, 80, 10)
    assert (context.upgrade_state, context.mig_state) == ("drain-required", "success")
    assert context.deploy_paused == "paused-for-driver-upgrade"
    assert context.gpu_labelled
    assert store.gpus.undescribed == {"n": context}


def test_gpus_of_another_vendor_want_no_driver_of_nvidia():
    store = inventory(node("n", labels={"amd.com/gpu.product-name": "MI300X"}, gpus=0))
    store.snapshot()
    assert not store.gpus.contexts["n"].gpu_labelled
