"""The worked cases of GPU verdicts: T1, T4 to T10 and T12 to T14, each with its variants."""

import pytest

from fleet.domain.gpu_rows import cell, usable_slots
from fleet.domain.gpus import NA, Answer, DriverStatus, Fault, FaultKind, Instance, Process
from fleet.domain.health import NOT_OWNED, NodeContext
from fleet.domain.measures import counts_reserved, mean, memory_share, most
from fleet.domain.verdicts import usable
from fleet.domain.windows import reasons
from tests.domain.gpu_readings import CONTEXT, NODE, Told, dcgm_fault, eight, gpu, pci, uuid, xid_line

DAY_S = 86400.0


# T1: a line that names a MIG instance, and a remap that waits for a reset


def mig(**values):
    instances = tuple(
        Instance(uuid=f"MIG-{gi}", profile="1g.10gb", gi=gi, ci=0, memory_total_bytes=10**10) for gi in range(3, 10)
    )
    hidden = dict.fromkeys(("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failure"), NA)
    return {"mig": 1, "instances": instances, "utilization_pct": NA, **hidden, **values}


def test_t1_a_contained_error_is_of_one_instance_and_the_remap_of_the_gpu():
    told = Told()
    told.reads(eight(gpu1=mig()))
    told.reads(
        eight(gpu1=mig()),
        lines=[
            xid_line(1, "94, pid=2503421, name=python3, Ch 00000008", where=" GPU-I:05"),
            xid_line(
                1, "63, pid=2503421, name=python3, Row Remapper: New row (0x1) marked for remapping", where=" GPU-I:05"
            ),
        ],
    )
    row = told.row(1)
    assert {i.uuid: i.state for i in row.instances} == {
        f"MIG-{gi}": "app-fault" if gi == 5 else "ok" for gi in range(3, 10)
    }
    fault = next(f for f in row.findings if f.rule == "xid-94")
    assert (fault.instance, fault.state, fault.action, fault.source) == (
        "MIG-5",
        "app-fault",
        "restart-app",
        "kernel-log",
    )
    assert (row.state, row.action, row.soft, row.reason) == ("reset-required", "reset-gpu", True, "xid-63")
    assert next(f for f in row.findings if f.rule == "xid-63").source == "kernel-log"
    assert row.remap == (NA, NA, NA, NA)
    assert usable(row.state, row.soft), "no drain"
    assert cell(row, allocated=True) == "d"
    assert told.states() == ["ok", "reset-required", *["ok"] * 6]


def test_t1_the_pending_remap_outlives_the_event_and_ends_with_the_reset():
    told = Told()
    told.reads(eight(gpu1=mig()), lines=[xid_line(1, "63, pid=1, name=python3, Row Remapper", where=" GPU-I:05")])
    told.reads(eight(gpu1=mig(energy_j=1_000_100)), after_s=DAY_S)
    assert told.rules(1) == ["xid-63"]
    told.reads(eight(gpu1=mig(energy_j=5)))
    assert told.rules(1) == []
    assert told.of(1)[-1].closes == "reset"


# T4: the driver is away


UPGRADE = {"upgrade_state": "pod-restart-required"}


def of_context(**values):
    return NodeContext(node=NODE, gpu_labelled=True, physical=8, capacity=8, allocatable=8, **values)


def without_driver(told, status=DriverStatus.MISMATCH, **values):
    return told.reads((), status=status, error="Driver/library version mismatch", count=None, driver="", **values)


def test_t4_a_driver_upgrade_is_planned_and_keeps_the_inventory():
    told = Told()
    told.reads()
    told.context = of_context(**UPGRADE)
    assessed = without_driver(told)
    assert told.states() == ["unknown"] * 8
    assert {row.reason for row in assessed.rows.values()} == {"driver-upgrade"}
    assert {row.read_at for row in assessed.rows.values()} == {told.now - 5}, "of the last good reading"
    assert told.row(3).temperature_c == 55
    assert (assessed.standing.planned, assessed.standing.known) == ("driver-upgrade", 8)
    assert told.concerns() == []
    assert all(t.planned and t.to_state == "unknown" for t in assessed.transitions)
    assert len(assessed.transitions) == 8


def test_t4_after_the_upgrade_all_is_as_before():
    told = Told()
    told.reads()
    told.context = of_context(**UPGRADE)
    without_driver(told)
    told.context = CONTEXT
    assessed = told.reads(driver="575.57.08")
    assert told.states() == ["ok"] * 8
    assert {(t.from_state, t.to_state, t.planned) for t in assessed.transitions} == {("unknown", "ok", False)}


def test_t4_the_same_without_a_label_is_an_alarm():
    told = Told()
    told.reads()
    assessed = without_driver(told)
    assert told.states() == ["unknown"] * 8
    assert told.concerns() == ["driver-mismatch"]
    assert (assessed.standing.planned, assessed.standing.driver_status, assessed.standing.known) == ("", "mismatch", 8)
    assert not any(t.planned for t in assessed.transitions)


def test_t4_no_driver_on_a_node_without_labels_is_no_gpu_node():
    told = Told(NodeContext(node=NODE))
    assessed = without_driver(told, DriverStatus.NO_DRIVER)
    assert not assessed.standing.gpu_node
    assert not assessed.standing.measured
    assert (told.concerns(), assessed.rows, assessed.transitions) == ([], {}, ())


@pytest.mark.parametrize(
    ("status", "concern"),
    [
        (DriverStatus.NO_DRIVER, "driver-missing"),
        (DriverStatus.NO_LIBRARY, "library-missing"),
        (DriverStatus.NO_PERMISSION, "no-permission"),
        (DriverStatus.ERROR, "driver-error"),
    ],
)
def test_t4_other_ways_to_have_no_driver_are_named(status, concern):
    told = Told()
    assessed = without_driver(told, status)
    assert told.concerns() == [concern]
    assert assessed.standing.gpu_node
    assert assessed.rows == {}, "nothing is known of any GPU, and nothing is invented"


def test_t4_no_permission_for_any_handle():
    told = Told()
    told.reads()
    forbidden = tuple(gpu(i, uuid="", pci="", answer=Answer.NO_PERMISSION, temperature_c=None) for i in range(8))
    told.reads(forbidden, count=8)
    assert told.concerns() == ["no-permission"]
    assert told.states() == ["unknown"] * 8
    assert told.row(2).reason == "no-permission"


@pytest.mark.parametrize(
    ("state", "seconds", "concern"),
    [
        ("validation-required", 599, None),
        ("validation-required", 601, "upgrade-stuck"),
        ("upgrade-failed", 0, "upgrade-failed"),
        ("wait-for-jobs-required", 86_400, None),
        ("wait-for-jobs-required", 3 * 86_400 + 1, "upgrade-stuck"),
        ("drain-required", 3 * 86_400 + 1, "upgrade-stuck"),
    ],
)
def test_t4_an_upgrade_that_failed_or_hangs_is_no_longer_planned(state, seconds, concern):
    told = Told()
    told.reads()
    told.context = of_context(upgrade_state=state, upgrade_since_at=told.now + 5 - seconds)
    without_driver(told)
    assert told.last.standing.planned == ("" if concern else "driver-upgrade")
    assert (concern in told.concerns()) == bool(concern)
    assert ("driver-mismatch" in told.concerns()) == bool(concern)


# T5: a gauge that sticks to the last Xid


def exported(**by_index):
    """What an exporter tells: fewer fields, and the same UUIDs."""
    hidden = dict.fromkeys(("processes", "assigned"), None) | {"recovery_action": NA, "energy_j": NA}
    return eight(**{f"gpu{i}": hidden | by_index.get(f"gpu{i}", {}) for i in range(8)})


def test_t5_an_app_fault_is_one_event_and_nothing_stands():
    told = Told()
    told.reads(exported(), source="dcgm")
    told.reads(exported(), source="dcgm", faults=[dcgm_fault(31, 2, told.now)])
    events = [t for t in told.of(2) if t.reason == "xid-31" and not t.closes]
    for _ in range(6 * 60):
        told.reads(exported(), source="dcgm", after_s=60.0)
    assert events == [t for t in told.of(2) if t.reason == "xid-31" and not t.closes]
    assert len(events) == 1
    assert (events[0].action, events[0].evidence["code"]) == ("restart-app", 31)
    assert (told.row(2).state, told.rules(2)) == ("ok", [])


def test_t5b_a_gpu_that_fell_off_the_bus_stays_lost_when_the_gauge_is_gone():
    told = Told()
    told.reads(exported(), source="dcgm", faults=[dcgm_fault(79, 5, told.now)])
    told.reads(exported(), source="dcgm", agent="exporter-2", after_s=600.0)
    assert (told.row(5).state, told.row(5).action) == ("lost", "reboot-node")
    told.reboots()
    told.reads(exported(), source="dcgm")
    assert told.row(5).state == "ok"
    assert told.of(5)[-1].closes == "reboot"


def test_t5c_no_fault_no_event():
    told = Told()
    told.reads(exported(), source="dcgm")
    assert {t.reason for t in told.transitions} == {""}


def test_t5d_the_log_knows_the_cause_and_the_gauge_a_symptom():
    told = Told()
    told.reads(lines=[xid_line(4, "62, pid=1, name=python3, 1234 5678")])
    told.reads(exported(), source="dcgm", agent="exporter", sequence=1, faults=[dcgm_fault(45, 4, told.now)])
    assert (told.row(4).state, told.row(4).action, told.row(4).reason) == ("reset-required", "reset-gpu", "xid-62")
    assert not told.row(4).soft
    assert set(told.rules(4)) == {"xid-62", "xid-45"}


# T6: what is no number is left out


def test_t6_what_is_not_applicable_is_in_no_mean_and_no_maximum():
    temperatures = [40, 41, NA, 43, 44, 45, 46, 47]
    assert mean(temperatures) == pytest.approx(306 / 7)
    assert round(mean(temperatures), 2) == 43.71
    assert most(temperatures) == 47


@pytest.mark.parametrize("nothing", [[], [NA, None], [float("nan"), float("inf")], ["[N/A]"]])
def test_t6_nothing_known_is_no_mean(nothing):
    assert mean(nothing) is None
    assert most(nothing) is None


def test_t6_zero_watts_and_zero_degrees_are_numbers():
    told = Told()
    told.reads(eight(gpu0={"power_w": 0, "temperature_c": 0}))
    assert (told.row(0).state, told.row(0).power_w, told.row(0).temperature_c) == ("ok", 0, 0)
    assert mean([0, 10]) == 5


def test_t6_a_missing_measurement_raises_no_alarm():
    told = Told()
    told.reads(eight(gpu0={"memory_temperature_c": NA, "power_w": None, "temperature_margin_c": NA}))
    assert told.states() == ["ok"] * 8
    assert (told.row(0).memory_temperature_c, told.row(0).power_w) == (NA, None)


# T7: what the driver reserves for itself

TOTAL = 85_520_809_984
V2 = {"memory_total_bytes": TOTAL, "memory_reserved_bytes": 595_000_000, "memory_used_bytes": 5_000_000}
V1 = {"memory_total_bytes": TOTAL, "memory_reserved_bytes": NA, "memory_used_bytes": 600_000_000}


def test_t7_reserved_memory_is_not_in_use():
    assert round(100 * memory_share(gpu(**V2)), 5) == 0.00589
    assert round(100 * memory_share(gpu(**V1)), 2) == 0.70
    assert not counts_reserved(gpu(**V2))
    assert counts_reserved(gpu(**V1))


def test_t7_an_exporters_mib_add_up():
    values = {"memory_total_bytes": 81_559 << 20, "memory_used_bytes": 5 << 20, "memory_reserved_bytes": 567 << 20}
    told = Told()
    told.reads(eight(gpu0=values))
    row = told.row(0)
    assert (row.memory_used_mib, row.memory_reserved_mib, row.memory_total_mib) == (5, 567, 81_559)


def unheld(**values):
    return {"assigned": (), "processes": None, "utilization_pct": 0, **values}


@pytest.mark.parametrize(
    ("values", "used"),
    [
        (unheld(**V2), 0),
        (unheld(**V1), 0),
        (unheld(**V1 | {"memory_used_bytes": 2 << 30}), 1),
        (unheld(**V2 | {"memory_used_bytes": 900 << 20}), 1),
        (unheld(**V1 | {"memory_used_bytes": 900 << 20}), 0),
        (unheld(**V2 | {"processes": ()}), 0),
        (unheld(**V2 | {"processes": (Process(pid=4, used_bytes=NA),)}), 1),
        ({"processes": (Process(pid=4, used_bytes=1),)}, 0),
        (unheld(assigned=None, processes=(Process(pid=4),)), 0),
        (unheld(memory_used_bytes=NA, memory_total_bytes=NA, memory_reserved_bytes=NA), 0),
    ],
)
def test_t7_memory_in_use_without_a_pod(values, used):
    told = Told()
    for _ in range(13):
        told.reads(eight(gpu0=values))
        assert told.last.standing.unheld_use <= used
    assert told.last.standing.unheld_use == used


def test_t7_a_chip_that_shares_its_memory_has_none_of_its_own():
    told = Told()
    hidden = dict.fromkeys(("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes"), NA)
    told.reads(eight(gpu0={"name": "NVIDIA GB10", **hidden}))
    row = told.row(0)
    assert (row.memory_used_mib, row.memory_total_mib, row.state) == (NA, NA, "ok")
    assert memory_share(gpu(**hidden)) is None


# T8: remapped rows


def remap(corrected, uncorrected, pending, failure):
    return {
        "remap_corrected": corrected,
        "remap_uncorrected": uncorrected,
        "remap_pending": pending,
        "remap_failure": failure,
    }


@pytest.mark.parametrize(
    ("rows", "state", "soft", "action", "reason"),
    [
        ((1, 4, 1, 0), "reset-required", True, "reset-gpu", "remap-pending"),
        ((0, 2, 0, 1), "hardware-service", False, "contact-support", "remap-failure"),
        ((0, 8, 0, 0), "ok", False, "none", "remapped-rows"),
        ((0, 0, 1, 1), "hardware-service", False, "contact-support", "remap-failure"),
        ((0, 0, 0, 0), "ok", False, "none", ""),
    ],
)
def test_t8_remap_tuples(rows, state, soft, action, reason):
    told = Told()
    told.reads(eight(gpu0=remap(*rows)))
    row = told.row(0)
    assert (row.state, row.soft, row.action, row.reason) == (state, soft, action, reason)
    assert row.remap == rows
    assert cell(row, allocated=True) == {"ok": "4", "reset-required": "d", "hardware-service": "x"}[state]


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090", "GeForce GTX 1080 Ti", "NVIDIA TITAN RTX", "RTX 3090"])
def test_t8_a_board_without_a_remapper_answers_with_zeros(name):
    told = Told()
    told.reads(eight(gpu0={"name": name, "ecc_enabled": NA, **remap(0, 0, 0, 0)}))
    assert told.row(0).remap == (NA, NA, NA, NA)
    told.reads(eight(gpu0={"name": name, "ecc_enabled": 0, **remap(0, 0, 0, 0)}))
    assert told.row(0).remap == (NA, NA, NA, NA)


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA RTX A6000", "NVIDIA L40S", "NVIDIA A10"])
def test_t8_boards_that_have_one_keep_their_numbers(name):
    told = Told()
    told.reads(eight(gpu0={"name": name, **remap(0, 3, 0, 0)}))
    assert told.row(0).remap == (0, 3, 0, 0)


def test_t8_with_mig_nothing_is_passed_and_nothing_is_forgotten():
    told = Told()
    told.reads(eight(gpu0=remap(1, 4, 1, 0)))
    told.reads(eight(gpu0=mig()))
    assert told.row(0).remap == (NA, NA, NA, NA)
    assert told.rules(0)[0] == "remap-pending", "not observable is not over"


def volta(pages, pending=0):
    hidden = remap(NA, NA, NA, NA)
    return {"name": "Tesla V100-SXM2-32GB", "retired_pages": pages, "retirement_pending": pending, **hidden}


@pytest.mark.parametrize(
    ("pages", "pending", "state", "reason"),
    [
        (12, 0, "ok", ""),
        (12, 1, "reset-required", "retirement-pending"),
        (64, 0, "hardware-service", "retired-pages"),
    ],
)
def test_t8_older_boards_retire_pages(pages, pending, state, reason):
    told = Told()
    told.reads(eight(gpu0=volta(pages, pending)))
    assert (told.row(0).state, told.row(0).reason) == (state, reason)


def test_t8_a_reset_ends_what_waited_for_it():
    told = Told()
    told.reads(eight(gpu0=remap(1, 4, 1, 0)), lines=[xid_line(0, "63, pid=1, name=x, Row Remapper")])
    told.reads(eight(gpu0=remap(1, 4, 0, 0)))
    assert told.row(0).state == "ok"
    assert {(t.reason, t.closes) for t in told.of(0) if t.closes} == {("remap-pending", "reset"), ("xid-63", "reset")}


# T9: authorities that contradict each other


def changed(index, old, new, words):
    return xid_line(index, f"154, pid=1, name=x, GPU recovery action changed from {old} to {new} ({words})")


def test_t9_the_more_severe_action_wins():
    told = Told()
    told.reads(
        eight(gpu6={"recovery_action": 1}),
        lines=[
            xid_line(6, "79, GPU has fallen off the bus."),
            xid_line(6, "154, pid=1, name=x, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        ],
    )
    assert (told.row(6).state, told.row(6).action, told.row(6).reason) == ("lost", "reboot-node", "xid-79")
    assert set(told.rules(6)) == {"xid-79", "xid-154", "recovery-action"}


@pytest.mark.parametrize(
    ("code", "state", "action"),
    [
        (0, "ok", "none"),
        (1, "reset-required", "reset-gpu"),
        (2, "reboot-required", "reboot-node"),
        (3, "degraded", "drain-peers"),
        (4, "reset-required", "drain-and-reset"),
        (5, "ok", "recover-imex"),
        (6, "reset-required", "reset-bus"),
        (7, "reboot-required", "reboot-node"),
        (9, "unknown", "contact-support"),
        (NA, "ok", "none"),
    ],
)
def test_t9_what_the_driver_asks_for(code, state, action):
    told = Told()
    told.reads(eight(gpu0={"recovery_action": code}))
    assert (told.row(0).state, told.row(0).action) == (state, action)


def test_t9_to_none_ends_what_154_and_the_field_said_and_not_79():
    told = Told()
    told.reads(
        eight(gpu6={"recovery_action": 1}),
        lines=[
            xid_line(6, "79, GPU has fallen off the bus."),
            xid_line(6, "154, pid=1, name=x, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        ],
    )
    told.reads(lines=[changed(6, "0x1 (GPU Reset Required)", "0x0", "None")])
    assert told.rules(6) == ["xid-79"]
    assert (told.row(6).state, told.row(6).action) == ("lost", "reboot-node")


def test_t9_a_field_that_is_not_readable_ends_nothing():
    told = Told()
    told.reads(eight(gpu0={"recovery_action": 4}))
    told.reads(eight(gpu0={"recovery_action": NA}))
    told.reads(eight(gpu0={"recovery_action": None}))
    assert told.rules(0) == ["recovery-action"]
    told.reads()
    assert told.rules(0) == []


# T10: masks of clock events


def minutes(masks, told=None):
    """One reading a minute; the last one ends the last minute."""
    told = told or Told()
    for mask in [*masks, 0]:
        told.reads(eight(gpu0={"clock_reasons": mask}), after_s=60.0)
    return told


@pytest.mark.parametrize(
    ("mask", "rules", "tokens"),
    [
        (0x4, set(), ("power-cap",)),
        (0x1, set(), ("idle",)),
        (0x0, set(), ()),
        (0x48, {"throttle-hw-thermal"}, ("hw-slowdown", "thermal-hw")),
        (0x80, {"throttle-power-brake"}, ("power-brake",)),
        (0x88, {"throttle-power-brake"}, ("hw-slowdown", "power-brake")),
        (0xC4, {"throttle-hw-thermal", "throttle-power-brake"}, ("power-cap", "thermal-hw", "power-brake")),
        (0x8, {"throttle-hw"}, ("hw-slowdown",)),
        (0x20, {"throttle-sw-thermal"}, ("thermal-sw",)),
        (0x400, set(), ("reliability",)),
        (0x800, set(), ("bit-11",)),
        (0x110, set(), ("sync-boost", "display")),
    ],
)
def test_t10_masks(mask, rules, tokens):
    told = minutes([mask] * 10)
    assert set(told.rules(0)) == rules
    assert told.row(0).state == ("degraded" if rules else "ok")
    assert reasons(mask) == tokens


@pytest.mark.parametrize(
    ("samples", "degraded"),
    [
        ([0x40] * 5 + [0] * 5, False),
        ([0x40] * 6 + [0] * 4, True),
        ([0x40] * 3 + [NA] * 5 + [0] * 2, True),
        ([0x40] * 2 + [NA] * 5 + [0] * 3, False),
        ([0x40] * 4 + [NA] * 6, False),
        ([0x40] * 4 + [None] * 5 + [0], True),
    ],
)
def test_t10_six_of_ten_samples_of_which_five_are_valid(samples, degraded):
    assert minutes(samples).row(0).state == ("degraded" if degraded else "ok")


def test_t10_it_ends_when_three_of_ten_are_left():
    told = minutes([0x40] * 10)
    minutes([0] * 5, told)
    assert told.row(0).state == "degraded"
    minutes([0] * 2, told)
    assert told.row(0).state == "ok"


# T12: slots that share a GPU


def counted(physical, capacity, replicas, gpus=None):
    told = Told(NodeContext(node=NODE, gpu_labelled=True, physical=physical, capacity=capacity, replicas=replicas))
    for _ in range(20):
        told.reads(gpus)
    return told


def test_t12a_shares_are_not_gpus():
    told = counted(8, 80, 10)
    assert (told.last.standing.count, len(told.last.rows), told.concerns()) == (8, 8, [])


def test_t12b_a_resource_of_another_name_gives_the_slots():
    assert counted(8, 8 * 4, 4).concerns() == []
    assert counted(8, 0, 1).concerns() == ["gpu-count-mismatch"], "a node that offers nothing is one"


def test_t12c_instances_are_not_gpus():
    told = counted(None, None, 1, eight(**{f"gpu{i}": mig() for i in range(8)}))
    assert (len(told.last.rows), told.concerns()) == (8, [])
    assert sum(len(row.instances) for row in told.last.rows.values()) == 56


def test_t12d_a_failed_gpu_takes_all_its_slots():
    told = counted(8, 80, 10)
    told.reads(lines=[xid_line(3, "48, pid=1, name=x, DBE (double bit error) on GPU")])
    failed = sum(not usable(row.state, row.soft) for row in told.last.rows.values())
    assert usable_slots(80, 79, failed, 10) == 70
    assert usable_slots(8, 7, 1) == 7, "withdrawn and failed: the same GPU once"
    assert usable_slots(8, 8, 9) == 0


def test_t12e_an_instance_is_found_by_its_number_and_not_by_its_profile():
    whole = (Instance(uuid="MIG-A", profile="7g.79gb", gi=0, ci=0),)
    told = Told()
    told.reads(eight(gpu0=mig(instances=whole)), lines=[xid_line(0, "31, pid=1, name=x, MMU Fault", where=" GPU-I:00")])
    assert told.row(0).instances[0].state == "app-fault"


def test_t12f_the_share_of_three_pods_is_not_added_up():
    three = tuple(Process(pid=pid, used_bytes=1) for pid in (1, 2, 3))
    told = Told()
    told.reads(eight(gpu0={"utilization_pct": 71, "processes": three}))
    assert (told.row(0).utilization_pct, told.row(0).users) == (71, 3)


# T13: a call that never returns


def hung(**values):
    return eight(gpu3={"answer": Answer.HUNG, "temperature_c": None, "power_w": None, **values})


def test_t13_one_gpu_is_unknown_and_the_others_are_current():
    told = Told()
    told.reads()
    good_at = told.now
    told.reads(hung())
    assert told.states() == ["ok", "ok", "ok", "unknown", "ok", "ok", "ok", "ok"]
    assert (told.row(3).read_at, told.row(3).temperature_c) == (good_at, 55)
    assert told.row(4).read_at == told.now
    assert cell(told.row(3), allocated=True) == "u"
    assert told.concerns() == []


def test_t13_after_three_rounds_it_is_an_alarm_until_the_driver_answers():
    told = Told()
    told.reads()
    for concerns in ([], [], ["driver-hung"], ["driver-hung"]):
        told.reads(hung())
        assert told.concerns() == concerns
    told.reads()
    assert told.concerns() == []
    assert told.states() == ["ok"] * 8


def test_t13_the_driver_as_a_whole():
    told = Told()
    told.reads()
    for concerns in ([], [], ["driver-hung"]):
        without_driver(told, DriverStatus.HUNG)
        assert told.concerns() == concerns
    assert told.states() == ["unknown"] * 8


# T14: another board in the same place


def swapped():
    return (*eight()[:5], gpu(5, uuid="GPU-new"), *eight()[6:])


@pytest.mark.parametrize("rebooted", [True, False])
def test_t14_a_new_board_inherits_nothing(rebooted):
    told = Told()
    told.reads(eight(gpu5=remap(0, 2, 0, 1)), lines=[xid_line(5, "79, GPU has fallen off the bus.")])
    assert told.row(5).state == "lost"
    if rebooted:
        told.reboots()
    assessed = told.reads(swapped())
    assert uuid(5) not in assessed.rows
    assert (assessed.rows["GPU-new"].state, assessed.rows["GPU-new"].findings) == ("ok", ())
    assert {(t.reason, t.closes, t.to_state) for t in assessed.transitions if t.gpu == uuid(5)} == {
        ("xid-79", "replaced", NOT_OWNED),
        ("remap-failure", "replaced", NOT_OWNED),
    }
    assert [(t.from_state, t.to_state) for t in assessed.transitions if t.gpu == "GPU-new"] == [(NOT_OWNED, "ok")]
    assert assessed.standing.known == 8


def test_t14_a_reboot_ends_what_was_reported_and_not_what_is_measured():
    told = Told()
    told.reads(eight(gpu5=remap(0, 2, 0, 1)), lines=[xid_line(5, "79, GPU has fallen off the bus.")])
    told.reboots()
    told.reads(eight(gpu5=remap(0, 2, 0, 1)))
    assert (told.row(5).state, "remap-failure" in told.rules(5), "xid-79" in told.rules(5)) == (
        "hardware-service",
        True,
        False,
    )
    assert [t.closes for t in told.of(5) if t.reason == "xid-79"][-1] == "reboot"


def test_t14_another_order_is_no_news():
    told = Told()
    told.reads(lines=[xid_line(5, "79, GPU has fallen off the bus.")])
    shuffled = tuple(gpu(i, index=7 - i) for i in reversed(range(8)))
    assessed = told.reads(shuffled)
    assert assessed.transitions == ()
    assert told.row(5).index == 2
    assert told.row(5).state == "lost"


def test_off_the_bus_without_an_xid_is_lost():
    told = Told()
    told.reads(lines=[f"NVRM: GPU {pci(2)}: GPU has fallen off the bus."])
    assert (told.row(2).state, told.row(2).reason) == ("lost", "off-bus")


def test_a_switch_error_that_is_fatal_concerns_all_gpus():
    told = Told()
    told.reads()
    fault = Fault(kind=FaultKind.SXID, at=told.now, pci="0000:c1:00.0", code=20034, fatal=True, sequence=9)
    told.reads(faults=[fault])
    assert told.states() == ["reset-required"] * 8
