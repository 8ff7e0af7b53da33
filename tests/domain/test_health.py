"""How findings open, are seen again, close, and what the ledger and the node hear of it."""

import re
from itertools import pairwise

import msgspec
import pytest

from fleet.domain import gpu_attention, health, standing, xid
from fleet.domain.gpus import NA, Answer, DriverStatus, Fault, FaultKind, Gpu, Holder, Reading
from fleet.domain.health import GONE_AFTER_S, MOST_GPUS, NOT_OWNED, RULES, SILENT_AFTER_S, NodeContext, assess, silent
from fleet.domain.intake import PASSING_FOR_S
from fleet.domain.picture import NodeRow
from fleet.domain.verdicts import usable
from tests.domain.gpu_readings import CONTEXT, NODE, START_AT, Told, dcgm_fault, eight, gpu, pci, uuid, xid_line

LOST_LINE = "79, GPU has fallen off the bus."
APP_LINE = "31, pid=1, name=python3, MMU Fault"


# First sight


def test_a_healthy_gpu_is_owned_from_the_first_reading_on():
    told = Told()
    assessed = told.reads()
    assert [(t.from_state, t.to_state, t.reason, t.closes) for t in assessed.transitions] == [
        (NOT_OWNED, "ok", "", "")
    ] * 8
    assert told.states() == ["ok"] * 8
    assert (assessed.standing.measured, assessed.standing.known, assessed.standing.count) == (True, 8, 8)
    assert told.reads().transitions == (), "most readings are no news"


def test_a_fault_from_before_the_first_reading_keeps_its_own_age():
    told = Told()
    long_ago = START_AT - 3 * 3600
    fault = Fault(kind=FaultKind.XID, at=long_ago, pci=pci(2), code=79, sequence=4, text="Xid 79")
    told.reads(faults=[fault])
    finding = told.row(2).findings[0]
    assert (finding.since_at, finding.seen_at, finding.evidence) == (long_ago, long_ago, "Xid 79")
    assert told.row(2).since_at == told.now, "known to be in this state since then"
    assert told.of(2)[0].evidence["since_at"] == long_ago


def test_evidence_does_not_get_younger_with_other_evidence():
    told = Told()
    told.reads(lines=[xid_line(2, LOST_LINE)])
    at = told.now
    told.reads(eight(gpu2={"temperature_margin_c": -1}), after_s=300.0)
    ages = {f.rule: (f.since_at, f.seen_at) for f in told.row(2).findings}
    assert ages == {"xid-79": (at, at), "temperature-margin": (told.now, told.now)}


def test_an_event_from_long_ago_is_none():
    told = Told()
    old = Fault(kind=FaultKind.XID, at=START_AT - PASSING_FOR_S - 60, pci=pci(2), code=31, sequence=4)
    told.reads(faults=[old])
    assert (told.row(2).state, told.rules(2)) == ("ok", [])


# Older, and the same again


def test_the_same_reading_again_changes_nothing():
    told = Told()
    told.reads()
    reading = Reading(
        node=NODE, boot_id="boot-1", agent="agent-1", sequence=2, sent_at=told.now + 5, gpus=eight(), count=8
    )
    once = assess(told.health, reading, CONTEXT, told.now + 5)
    twice = assess(once.health, reading, CONTEXT, told.now + 6)
    assert twice.health is once.health
    assert (twice.transitions, twice.rows, twice.standing) == ((), once.rows, once.standing)


def test_an_older_reading_changes_nothing():
    told = Told()
    told.reads(sequence=5)
    before = told.health
    told.reads(eight(gpu1={"answer": Answer.LOST}), sequence=4)
    assert told.health == before


def test_a_late_reading_of_the_agent_before_changes_nothing():
    told = Told()
    told.reads(sequence=900)
    told.reads(agent="agent-2", sequence=1)
    before = told.health
    told.reads(eight(gpu1={"answer": Answer.LOST}), agent="agent-1", sequence=901)
    assert told.health == before
    told.reads(eight(gpu1={"answer": Answer.LOST}), agent="agent-2", sequence=2)
    assert told.row(1).state == "lost"


def test_a_new_agent_reads_the_kernel_log_again_and_nothing_opens_twice():
    told = Told()
    told.reads(lines=[xid_line(2, LOST_LINE)])
    fault = Fault(kind=FaultKind.XID, at=told.now, pci=pci(2), code=79, sequence=0)
    told.reads(eight(gpu2={"energy_j": 3}))
    assert told.row(2).state == "ok", "a reset has ended it"
    told.reads(eight(gpu2={"energy_j": 4}), faults=[fault], agent="agent-2", sequence=1)
    assert told.row(2).state == "ok"


# Faults


def test_an_app_fault_is_shown_for_a_while_and_the_gpu_stays_usable():
    told = Told()
    told.reads()
    told.reads(lines=[xid_line(2, APP_LINE)])
    row = told.row(2)
    assert (row.state, row.action, row.level) == ("app-fault", "restart-app", "")
    assert usable(row.state, row.soft)
    told.reads(lines=[xid_line(2, APP_LINE)])
    assert [t.reason for t in told.of(2)] == ["", "xid-31"], "the same again is no second event"
    told.reads(after_s=PASSING_FOR_S)
    assert [(t.from_state, t.to_state, t.closes) for t in told.of(2)][-1] == ("app-fault", "ok", "expired")


def test_an_unclassified_code_is_shown_and_not_fatal():
    told = Told()
    told.reads(lines=[xid_line(2, "987, pid=1, name=x, never heard of")])
    assert (told.row(2).state, told.rules(2)) == ("ok", ["xid-987"])


def test_each_finding_that_opens_is_in_the_ledger():
    told = Told()
    told.reads()
    told.reads(lines=[xid_line(2, "95, pid=1, name=x, Uncontained"), xid_line(2, LOST_LINE)])
    assert [(t.from_state, t.to_state, t.reason) for t in told.of(2)[1:]] == [
        ("ok", "lost", "xid-79"),
        ("lost", "lost", "xid-95"),
    ]


def test_a_reboot_closes_each_of_them():
    told = Told()
    told.reads(lines=[xid_line(2, "95, pid=1, name=x, Uncontained"), xid_line(2, LOST_LINE)])
    told.reboots()
    told.reads()
    assert {(t.from_state, t.to_state, t.reason, t.closes) for t in told.of(2)[-2:]} == {
        ("lost", "ok", "xid-79", "reboot"),
        ("ok", "ok", "xid-95", "reboot"),
    }


def test_the_ledger_has_what_a_finding_is_made_of():
    told = Told()
    told.reads(lines=[xid_line(2, "95, pid=1, name=x, Uncontained"), xid_line(2, LOST_LINE)])
    row = told.of(2)[-1]
    assert (row.reason, row.to_state, row.evidence["state"]) == ("xid-95", "lost", "reset-required")
    assert (row.evidence["source"], row.evidence["index"], row.evidence["pci"]) == ("kernel-log", 2, pci(2))
    assert (row.evidence["text"], row.evidence["since_at"]) == (told.row(2).findings[1].evidence, told.now)


@pytest.mark.parametrize("restarted", ["energy_j", "ecc_corrected", "ecc_uncorrected"])
def test_counters_that_start_anew_tell_of_a_reset(restarted):
    told = Told()
    told.reads(eight(gpu2={restarted: 5000}), lines=[xid_line(2, "95, pid=1, name=x, Uncontained")])
    assert told.row(2).state == "reset-required"
    told.reads(eight(gpu2={restarted: 5000}))
    assert told.row(2).state == "reset-required"
    told.reads(eight(gpu2={restarted: 0}))
    assert told.row(2).state == "ok"
    assert told.of(2)[-1].closes == "reset" or told.of(2)[-2].closes == "reset"


def test_another_driver_version_is_a_reset_of_all():
    told = Told()
    told.reads(lines=[xid_line(i, "95, pid=1, name=x, Uncontained") for i in range(8)])
    told.reads(driver="575.57.08")
    assert told.states() == ["ok"] * 8


def test_the_driver_no_longer_asks_for_a_reset_that_it_asked_for():
    told = Told()
    told.reads(eight(gpu2={"recovery_action": 1}), lines=[xid_line(2, "95, pid=1, name=x, Uncontained")])
    told.reads()
    assert told.rules(2) == []


def test_a_reset_repairs_no_hardware():
    told = Told()
    told.reads(lines=[xid_line(2, "142, pid=1, name=x, NVENC3 error")])
    told.reads(eight(gpu2={"energy_j": 1}))
    assert told.row(2).state == "hardware-service"


def test_a_site_may_say_what_a_code_means():
    told = Told()
    told.reads()
    fault = Fault(kind=FaultKind.XID, at=told.now, pci=pci(2), code=31, sequence=0)
    ours = xid.catalogue({"31": {"state": "hardware-service", "action": "contact-support"}})
    reading = Reading(
        node=NODE, boot_id="boot-1", agent="agent-1", sequence=2, sent_at=told.now, gpus=eight(), faults=(fault,)
    )
    assert assess(told.health, reading, CONTEXT, told.now, ours).rows[uuid(2)].state == "hardware-service"


def test_a_fault_of_a_gpu_that_nobody_knows_is_the_nodes():
    told = Told()
    told.reads(eight()[:7], lines=[xid_line(7, LOST_LINE)])
    assert told.concerns() == ["xid-79"]
    finding = told.last.standing.findings[0]
    assert (finding.state, finding.instance) == ("lost", pci(7))
    concern, since_at, facts = needs(told)["gpu-unlisted"]
    assert (concern, since_at) == ("gpu-unlisted", finding.since_at)
    assert dict(facts)["indices"] == pci(7)
    assert (dict(facts)["rule"], dict(facts)["action"], dict(facts)["count"]) == ("xid-79", "reboot-node", 1)
    told.reboots()
    told.reads()
    assert told.concerns() == []
    assert needs(told) == {}


def needs(told: Told):
    """What needs a person about the node, by concern."""
    row = NodeRow(NODE, ready="True")
    found = gpu_attention.concerns(row, told.last.standing, list(told.last.rows.values()))
    return {concern: (concern, since_at, facts) for concern, since_at, facts in found}


def test_a_passing_fault_of_a_gpu_that_nobody_knows_needs_no_person():
    told = Told()
    told.reads(eight()[:7], lines=[xid_line(7, APP_LINE)])
    assert told.concerns() == ["xid-31"]
    assert "gpu-unlisted" not in needs(told)


def test_a_fatal_fault_that_names_no_gpu_at_all_is_told_as_well():
    told = Told()
    told.reads(faults=[Fault(kind=FaultKind.XID, at=START_AT, code=79)])
    assert dict(needs(told)["gpu-unlisted"][2])["indices"] == "?"


def test_a_fault_that_names_no_gpu_is_about_the_only_one():
    told = Told()
    told.reads([gpu(0)], faults=[Fault(kind=FaultKind.XID, at=START_AT, code=79)])
    assert told.row(0).state == "lost"


@pytest.mark.parametrize(("where", "instance"), [(" GPU-I:09", "gi9"), (" GPU-I:09 GPU-CI:01", "gi9/ci1")])
def test_an_instance_that_the_driver_does_not_list_goes_by_its_numbers(where, instance):
    told = Told()
    told.reads(lines=[xid_line(2, APP_LINE, where=where)])
    assert (told.row(2).state, told.row(2).findings[0].instance) == ("ok", instance)


def test_a_source_cannot_fill_the_memory():
    told = Told()
    told.reads()
    many = [Fault(kind=FaultKind.XID, at=told.now, pci=pci(2), code=1000 + n, sequence=n) for n in range(500)]
    told.reads(faults=[*many, Fault(kind=FaultKind.XID, at=told.now, pci=pci(2), code=79, sequence=501)])
    assert len(told.row(2).findings) == 64
    assert told.row(2).reason == "xid-79"


# Answers, and what is missing


@pytest.mark.parametrize(
    ("answer", "state", "action", "reason"),
    [
        (Answer.LOST, "lost", "reboot-node", "gpu-lost"),
        (Answer.RESET_REQUIRED, "reset-required", "reset-gpu", "reset-required"),
        (Answer.POWER, "hardware-service", "contact-support", "power-cable"),
        (Answer.NO_PERMISSION, "unknown", "none", "no-permission"),
        (Answer.ERROR, "unknown", "monitor", "no-answer"),
        (Answer.HUNG, "unknown", "monitor", "call-hung"),
    ],
)
def test_what_a_driver_answers_for_one_gpu(answer, state, action, reason):
    told = Told()
    told.reads()
    good_at = told.now
    told.reads(eight(gpu2={"uuid": "", "answer": answer, "error": "its words", "temperature_c": None}))
    row = told.row(2)
    assert (row.state, row.action, row.reason) == (state, action, reason)
    assert (row.read_at, row.temperature_c, row.findings[0].evidence) == (good_at, 55, "its words")
    assert [s for i, s in enumerate(told.states()) if i != 2] == ["ok"] * 7
    told.reads()
    assert told.row(2).state == "ok"


def test_unknown_hides_no_known_fault_and_is_never_healthy():
    told = Told()
    told.reads(eight(gpu2={"answer": Answer.LOST}, gpu3={"temperature_margin_c": -1}))
    assert told.states()[2:4] == ["lost", "degraded"]
    told.reads((), status=DriverStatus.HUNG)
    assert told.states()[2:4] == ["lost", "unknown"], "degraded can be used, and whether it still can nobody knows"
    assert "temperature-margin" in told.rules(3), "with its own age"
    told.reads()
    assert told.states() == ["ok"] * 8


def test_a_gpu_that_is_no_longer_listed_is_lost():
    told = Told()
    told.reads()
    told.reads(eight()[:7])
    assert told.states() == ["ok"] * 7 + ["lost"]
    assert told.row(7).reason == "gpu-missing"
    for _ in range(13):
        told.reads(eight()[:7])
    assert told.concerns() == ["gpu-count-mismatch"]
    told.reads()
    assert told.row(7).state == "ok"


def test_an_exporter_may_miss_a_scrape():
    told = Told()
    told.reads(source="dcgm")
    told.reads(eight()[:7], source="dcgm", after_s=30.0)
    assert told.row(7).state == "unknown"
    told.reads(eight()[:7], source="dcgm", after_s=30.0)
    assert told.row(7).state == "lost"


def test_a_driver_that_lists_none_says_nothing_of_the_gpus():
    told = Told()
    told.reads()
    told.reads(())
    assert told.states() == ["unknown"] * 8
    assert told.last.standing.known == 8


def test_one_that_was_lost_stays_lost_when_the_driver_lists_none():
    told = Told()
    told.reads()
    told.reads(eight()[:7])
    seen_at = told.now
    told.reads(())
    assert told.states() == ["unknown"] * 7 + ["lost"]
    assert told.row(7).findings[0].seen_at == seen_at


def test_a_gpu_that_is_missing_for_a_week_is_no_longer_ours():
    told = Told()
    told.reads()
    told.reads(eight()[:7])
    told.reads(eight()[:7], after_s=GONE_AFTER_S + 60)
    assert uuid(7) not in told.last.rows
    assert [(t.to_state, t.closes) for t in told.of(7)][-1] == (NOT_OWNED, "removed")


def test_what_is_remembered_is_bounded():
    told = Told()
    for n in range(5):
        told.reads(tuple(gpu(board, pci="") for board in range(40 * n, 40 * n + 40)))
    assert len(told.last.rows) == 40 + MOST_GPUS
    assert sum(t.closes == "removed" for t in told.transitions) == 160 - MOST_GPUS


def test_a_board_that_moved_to_another_slot_is_the_same():
    told = Told()
    told.reads()
    told.reboots()
    told.reads((*eight()[:7], gpu(7, pci="0000:99:00.0")))
    assert told.states() == ["ok"] * 8
    assert told.row(7).pci == "0000:99:00.0"


def test_a_gpu_without_a_uuid_has_a_provisional_name():
    told = Told()
    lost = Gpu(index=2, pci=pci(2), answer=Answer.LOST)
    told.reads((*eight()[:2], lost, *eight()[3:]))
    key = f"{NODE}/{pci(2)}"
    assert (told.last.rows[key].uuid, told.last.rows[key].state) == ("", "lost")
    told.reads()
    assert key not in told.last.rows
    assert told.row(2).state == "ok"
    assert [(t.to_state, t.closes) for t in told.transitions if t.gpu == key][-1] == (NOT_OWNED, "named")


def test_without_any_name_the_place_in_the_list_counts_within_one_boot():
    told = Told()
    told.reads()
    nameless = Gpu(index=2, answer=Answer.LOST)
    told.reads((*eight()[:2], nameless, *eight()[3:]))
    assert told.row(2).state == "lost"
    told.reboots()
    told.reads((*eight()[:2], *eight()[3:], msgspec.structs.replace(nameless, index=7)))
    assert (told.row(2).reason, len(told.last.rows)) == ("gpu-lost", 8), "only it is not accounted for"


def test_two_without_any_name_are_not_guessed():
    told = Told()
    told.reads()
    told.reboots()
    told.reads((*eight()[:6], *(Gpu(index=index, answer=Answer.LOST) for index in (6, 7))))
    assert {told.row(6).reason, told.row(7).reason} == {"gpu-missing"}
    assert {told.last.rows[f"{NODE}/{index}"].reason for index in (6, 7)} == {"gpu-lost"}


def test_a_named_gpu_inherits_what_was_reported_of_it():
    told = Told()
    lost = Gpu(index=2, pci=pci(2), answer=Answer.LOST)
    told.reads((*eight()[:2], lost, *eight()[3:]), lines=[xid_line(2, LOST_LINE)])
    told.reads()
    assert (told.row(2).state, told.row(2).reason) == ("lost", "xid-79")


def test_two_boards_with_one_uuid_are_two():
    told = Told()
    told.reads((gpu(0), gpu(1, uuid=uuid(0))), count=2)
    assert set(told.last.rows) == {uuid(0), f"{NODE}/{pci(1)}"}


def test_without_one_number_nothing_is_healthy():
    told = Told()
    bare = Gpu(uuid=uuid(0), index=0, pci=pci(0), name="NVIDIA H100 80GB HBM3", temperature_c=NA)
    told.reads([bare])
    assert (told.row(0).state, told.row(0).reason) == ("unknown", "not-measured")


# Silence and planned work


def test_a_node_that_falls_silent_is_unknown_after_a_minute():
    told = Told()
    told.reads()
    read_at = told.now
    assert told.waits(SILENT_AFTER_S - 1).transitions == ()
    assert told.states() == ["ok"] * 8
    assessed = told.waits(1)
    assert told.states() == ["unknown"] * 8
    assert len(assessed.transitions) == 8
    assert (assessed.standing.silent_since_at, assessed.standing.measured) == (read_at, True)
    assert told.concerns() == ["readings-silent"]
    assert told.row(0).read_at == read_at
    again = told.waits(30)
    assert (again.transitions, again.health == assessed.health) == ((), True), "said once"
    told.reads()
    assert (told.states(), told.concerns(), told.last.standing.silent_since_at) == (["ok"] * 8, [], None)


def test_silence_hides_no_known_fault():
    told = Told()
    told.reads(lines=[xid_line(2, LOST_LINE)])
    seen_at = told.now
    told.waits(3600)
    assert (told.row(2).state, told.row(2).reason) == ("lost", "xid-79")
    assert told.row(2).findings[0].seen_at == seen_at


def test_silence_in_planned_work_is_planned():
    told = Told()
    told.reads()
    told.context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state="node-maintenance-required")
    assessed = told.waits(120)
    assert {(t.to_state, t.planned, t.reason) for t in assessed.transitions} == {("unknown", True, "driver-upgrade")}
    assert told.concerns() == []
    told.context = CONTEXT
    assessed = told.waits(120)
    assert {(t.to_state, t.planned, t.reason) for t in assessed.transitions} == {("unknown", False, "readings-silent")}
    assert told.concerns() == ["readings-silent"]


@pytest.mark.parametrize(
    ("context", "planned"),
    [
        ({"upgrade_state": "upgrade-required"}, ""),
        ({"upgrade_state": "upgrade-done"}, ""),
        ({"upgrade_state": "cordon-required"}, "driver-upgrade"),
        ({"upgrade_state": "uncordon-required"}, "driver-upgrade"),
        ({"upgrade_state": "no such state"}, ""),
        ({"mig_state": "pending"}, "mig-change"),
        ({"mig_state": "rebooting"}, "mig-change"),
        ({"mig_state": "success"}, ""),
        ({"mig_state": "failed"}, ""),
        ({"deploy_paused": "paused-for-driver-upgrade"}, "driver-upgrade"),
        ({"deploy_paused": "paused-for-mig-change"}, "mig-change"),
        ({"deploy_paused": "true"}, ""),
        ({"upgrade_state": "upgrade-failed", "deploy_paused": "paused-for-driver-upgrade"}, ""),
    ],
)
def test_planned_work(context, planned):
    told = Told()
    told.reads()
    told.context = NodeContext(node=NODE, gpu_labelled=True, **context)
    told.reads(eight(gpu2={"answer": Answer.LOST}))
    assert told.last.standing.planned == planned
    assert told.row(2).state == ("unknown" if planned else "lost")
    assert told.of(2)[-1].planned == bool(planned)
    assert ("mig-change-failed" in told.concerns()) == (context.get("mig_state") == "failed")


def test_a_mig_change_that_hangs_is_planned_no_longer():
    told = Told()
    told.reads()
    told.context = NodeContext(node=NODE, gpu_labelled=True, mig_state="pending")
    told.reads(())
    began_at = told.now
    told.reads((), after_s=1800.0)
    assert (told.last.standing.planned, told.last.standing.planned_since_at) == ("mig-change", began_at)
    told.reads(())
    assert told.last.standing.planned == ""
    assert told.concerns() == ["mig-change-stuck"]


def test_what_breaks_during_planned_work_is_broken_all_the_same():
    told = Told()
    told.reads()
    told.context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state="drain-required")
    told.reads(lines=[xid_line(2, LOST_LINE)])
    assert (told.row(2).state, told.of(2)[-1].planned) == ("lost", False)


# Two sources


def test_an_exporter_beside_an_agent_only_adds_what_was_reported():
    told = Told()
    told.reads()
    worse = eight(gpu1={"temperature_margin_c": -5})
    told.reads(worse, source="dcgm", agent="exporter", sequence=1, faults=[dcgm_fault(79, 2, told.now)])
    assert told.states() == ["ok", "ok", "lost", *["ok"] * 5]
    assert told.last.standing.source == "nvml"


def test_an_exporter_counts_when_the_agent_is_silent():
    told = Told()
    told.reads()
    worse = eight(gpu1={"temperature_margin_c": -5})
    told.reads(worse, source="dcgm", agent="exporter", sequence=1, after_s=61.0)
    assert told.row(1).state == "degraded"
    assert told.last.standing.source == "dcgm"
    told.reads(sequence=500)
    assert (told.row(1).state, told.last.standing.source) == ("ok", "nvml")


# Clocks


def test_a_clock_that_is_wrong_is_named_and_its_times_are_shifted():
    told = Told()
    for _ in range(20):
        told.reads(sent_at=told.now + 5 - 90)
    assert told.concerns() == ["clock-skew"]
    assert told.last.standing.clock_offset_s == 90
    assert told.row(0).read_at == told.now
    told.reads(
        sent_at=told.now + 5 - 90, faults=[Fault(kind=FaultKind.XID, at=told.now - 90, pci=pci(2), code=79, sequence=0)]
    )
    assert told.row(2).findings[0].since_at == told.now - 5


def test_a_reading_that_waited_is_as_old_as_it_is():
    told = Told()
    for _ in range(5):
        told.reads()
    told.reads(sent_at=told.now + 2, after_s=40.0)
    assert told.row(0).read_at == told.now - 38
    assert told.last.standing.clock_offset_s == 0


def test_a_clock_that_is_set_back_makes_nothing_old():
    told = Told()
    for _ in range(5):
        told.reads()
    told.reads(sent_at=told.now - 1000)
    assert told.row(0).read_at == told.now


# What holds of every story


def test_transitions_of_a_gpu_are_a_chain():
    told = Told()
    told.reads()
    told.reads(lines=[xid_line(2, APP_LINE), xid_line(2, LOST_LINE)])
    told.waits(100)
    told.reads((), status=DriverStatus.NO_DRIVER)
    told.reboots()
    told.reads((), status=DriverStatus.NO_DRIVER)
    told.reads()
    for earlier, later in pairwise(told.of(2)):
        assert later.from_state == earlier.to_state
        assert later.at >= earlier.at
    assert told.of(2)[-1].to_state == "ok"


def test_every_rule_names_its_source():
    assert all(RULES.values())
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", token) for token in RULES)


def test_what_is_handed_out_can_be_stored_and_sent():
    told = Told()
    assessed = told.reads(lines=[xid_line(2, LOST_LINE)])
    for part in (assessed.health, assessed.rows, assessed.standing, assessed.transitions):
        msgspec.msgpack.encode(part)
        msgspec.json.encode(part)


def test_joined_use_of_gpus():
    idle = {"utilization_pct": 0}
    told = Told()
    for _ in range(125):
        told.reads(eight(gpu0=idle, gpu1=idle | {"assigned": ()}, gpu2={"utilization_pct": NA}))
    assert told.last.standing.idle_held == 1
    assert told.row(0).idle_since_at == START_AT + 5
    assert (told.row(1).idle_since_at, told.row(2).idle_since_at) == (None, None)
    told.reads(eight(gpu0=idle | {"assigned": (Holder("train", "llm-1"),)}))
    assert told.last.standing.idle_held == 0, "a new holder has its own ten minutes"


def test_a_gap_proves_no_idleness():
    told = Told()
    told.reads(eight(gpu0={"utilization_pct": 0}))
    told.reads(eight(gpu0={"utilization_pct": 0}), after_s=3600.0)
    assert told.row(0).idle_since_at is None


def test_lost_lines_of_the_kernel_log_are_named_until_the_reboot():
    told = Told()
    told.reads(lost_lines=3)
    told.reads(lost_faults=2)
    assert told.concerns() == ["kernel-log-lost"]
    assert told.last.standing.findings[0].facts == (("lines", 5),)
    told.reboots()
    told.reads(log_error="Operation not permitted")
    assert told.concerns() == ["kernel-log-unread"]
    assert dict(needs(told)["kernel-log-unread"][2])["evidence"] == "Operation not permitted"


def test_every_rule_about_a_node_needs_a_person():
    assert set(standing.NODE_RULES) == set(gpu_attention.RULES)


def test_silence_of_a_node_that_never_spoke_is_nothing():
    never = health.NodeHealth(node=NODE)
    assessed = silent(never, CONTEXT, START_AT)
    assert (assessed.transitions, assessed.rows, assessed.standing.measured) == ((), {}, False)
