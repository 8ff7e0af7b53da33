"""Pages of dcgm-exporter: public samples as they are, names old and new, blanks, Xids, MIG, shares; cases T5, T6, T7, T12."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.adapters.gpus_dcgm import CUDA, Origin, Seen, reading
from fleet.adapters.gpus_dcgm_fields import METRICS, Metric, full, measure
from fleet.domain.gpus import NA, DriverStatus, Gpu, Holder, Reading
from fleet.domain.health import assess, silent
from fleet.domain.measures import mean, memory_share, most
from tests.domain.gpu_readings import CONTEXT, NODE, START_AT, Told, eight, pci, uuid, xid_line

PAGES = Path(__file__).resolve().parents[1] / "data" / "dcgm"
ORIGIN = Origin(NODE, "boot-1", "exporter-1")
FLIT = 30


def read(page: str, seen: Seen | None = None, at: float = START_AT, origin: Origin = ORIGIN) -> Reading:
    return reading(page, origin, seen, at)[0]


def sample(name: str, value: object, index: int = 0, **labels: object) -> str:
    """One line about a GPU of `gpu_readings`."""
    all_of_it = {"gpu": index, "UUID": uuid(index), "pci_bus_id": f"0000{pci(index).upper()}", **labels}
    inner = ",".join(f'{label}="{text}"' for label, text in all_of_it.items())
    return f"{name}{{{inner}}} {value}\n"


def one(page: str) -> Gpu:
    (gpu,) = read(page).gpus
    return gpu


class Exporter:
    """Pages of one exporter, each 15 s after the one before, and what they come to."""

    def __init__(self) -> None:
        self.told = Told()
        self.seen: Seen | None = None
        self.origin = ORIGIN
        self.last = read("")

    def shows(self, page: str, after_s: float = 15.0) -> Reading:
        self.told.now += after_s
        self.last, self.seen = reading(page, self.origin, self.seen, self.told.now)
        self.told.takes(self.last)
        return self.last

    def xids(self) -> list[tuple[int | None, int]]:
        return [(fault.code, fault.repeated) for fault in self.last.faults]


# Public samples


def test_readme() -> None:
    gpu = one((PAGES / "readme.txt").read_text())
    assert (gpu.uuid, gpu.index) == ("GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", 0)
    assert (gpu.sm_clock_mhz, gpu.memory_clock_mhz, gpu.memory_temperature_c) == (139, 405, NA)
    assert gpu.assigned is None


def test_issue_490() -> None:
    found = read((PAGES / "issue-490.txt").read_text())
    assert (found.source, found.status, found.driver, found.node) == ("dcgm", DriverStatus.OK, "550.144.03", NODE)
    assert [(g.index, g.pci, g.name, g.utilization_pct, g.assigned) for g in found.gpus] == [
        (0, "0000:8d:00.0", "NVIDIA H100 80GB HBM3", 0, (Holder("default", "dcgmproftester2", "dcgmproftester2"),)),
        (1, "0000:91:00.0", "NVIDIA H100 80GB HBM3", 0, None),
    ]


def test_pull_326_is_no_event() -> None:
    found = read((PAGES / "pull-326.txt").read_text())
    assert found.faults == ()
    assert found.gpus[0].memory_total_bytes == NA, "free alone makes no total"


def test_issue_713() -> None:
    found = read((PAGES / "issue-713.txt").read_text())
    (gpu,) = found.gpus
    assert (gpu.mig, gpu.sm_clock_mhz, gpu.utilization_pct, gpu.assigned) == (1, 1410, NA, None)
    assert [(i.gi, i.profile, i.assigned) for i in gpu.instances] == [(0, "7g.79gb", ())]


def test_dcgm_313() -> None:
    """A storm of corrected errors is numbers like any others; 54 billion of them do not fit into 32 bits."""
    values = {
        "ECC_SBE_AGG_TOTAL": 54731746511,
        "ECC_SBE_VOL_TOTAL": 9600000000,
        "ECC_DBE_VOL_TOTAL": 0,
        "ECC_DBE_AGG_TOTAL": 0,
        "CORRECTABLE_REMAPPED_ROWS": 8,
        "UNCORRECTABLE_REMAPPED_ROWS": 0,
        "ROW_REMAP_FAILURE": 0,
    }
    gpu = one("".join(sample(full(name), value) for name, value in values.items()))
    assert (gpu.ecc_corrected_ever, gpu.ecc_corrected, gpu.ecc_uncorrected) == (54731746511, 9600000000, 0)
    assert (gpu.remap_corrected, gpu.remap_uncorrected, gpu.remap_failure, gpu.remap_pending) == (8, 0, 0, NA)


def test_gpu_monitoring_tools_138() -> None:
    values = {"SM_CLOCK": 1530, "MEM_CLOCK": 877, "MEMORY_TEMP": 54, "GPU_TEMP": 55, "POWER_USAGE": "302.206000"}
    values |= {"TOTAL_ENERGY_CONSUMPTION": 4335301032, "PCIE_REPLAY_COUNTER": 0, "GPU_UTIL": 44}
    name = "GPU-6bf47ca9-ad3e-15db-beed-1079a7d74116"
    gpu = one("".join(sample(full(metric), value, UUID=name) for metric, value in values.items()))
    assert (gpu.uuid, gpu.sm_clock_mhz, gpu.memory_clock_mhz) == (name, 1530, 877)
    assert (gpu.temperature_c, gpu.memory_temperature_c, gpu.power_w) == (55, 54, 302.206)
    assert (gpu.energy_j, gpu.pcie_replays, gpu.utilization_pct) == (4335301.032, 0, 44)


def test_gpu_monitoring_tools_317() -> None:
    page = sample(full("XID_ERRORS"), 0, GPU_I_PROFILE="1g.6gb", GPU_I_ID="3")
    page += sample(full("FB_FREE"), 6012, GPU_I_PROFILE="1g.6gb", GPU_I_ID="3")
    found = read(page)
    assert found.faults == ()
    assert [(i.gi, i.profile, i.memory_used_bytes) for i in found.gpus[0].instances] == [(3, "1g.6gb", NA)]


def test_pull_239() -> None:
    page = sample("DCGM_EXP_XID_ERRORS_COUNT", 1, window_size_in_ms="300000", xid="42")
    assert [(f.code, f.uuid, f.pci, f.source, f.at) for f in read(page).faults] == [
        (42, uuid(0), pci(0), "dcgm", START_AT)
    ]


def test_dcgm_235() -> None:
    page = sample(
        full("XID_ERRORS"), 45, err_code="45", err_msg="Preemptive cleanup, due to errors", job="dcgm-exporter"
    )
    (fault,) = read(page).faults
    assert (fault.code, fault.text) == (45, "Preemptive cleanup, due to errors")


def test_issue_581_another_pci_domain() -> None:
    assert one(sample(full("GPU_TEMP"), 40, pci_bus_id="00000008:01:00.0")).pci == "0008:01:00.0"


def test_issue_587_three_pods_show_the_same() -> None:
    page = "".join(sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.714, namespace="team", pod=f"pod-{i}") for i in range(3))
    gpu = one(page)
    assert gpu.utilization_pct == pytest.approx(71.4)
    assert [holder.pod for holder in gpu.assigned or ()] == ["pod-0", "pod-1", "pod-2"]


def test_issues_272_and_188_the_names_of_before() -> None:
    labels = 'gpu="0",uuid="GPU-7e",container_name="main",pod_name="train-0",pod_namespace="ml"'
    page = f"dcgm_gpu_temp{{{labels}}} 54\ndcgm_xid_errors{{{labels}}} 31\ndcgm_fb_used{{{labels}}} 10\n"
    found = read(page)
    assert [(g.uuid, g.temperature_c, g.memory_used_bytes) for g in found.gpus] == [("GPU-7e", 54, 10 * 2**20)]
    assert found.gpus[0].assigned == (Holder("ml", "train-0", "main"),)
    assert [fault.code for fault in found.faults] == [31]


def test_issue_340_the_pod_that_prometheus_renamed() -> None:
    own = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter"}
    held = {"exported_namespace": "ml", "exported_pod": "train-0", "exported_container": "main"}
    assert one(sample(full("GPU_TEMP"), 40, **own, **held)).assigned == (Holder("ml", "train-0", "main"),)
    free = {"exported_namespace": "", "exported_pod": "", "exported_container": ""}
    assert one(sample(full("GPU_TEMP"), 40, **own, **free)).assigned is None


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_a_page_is_of_one_machine(label: str) -> None:
    alone = sample(full("GPU_TEMP"), 40, **{label: "a"}) + sample(full("GPU_TEMP"), 40, 1, **{label: "a"})
    assert len(read(alone).gpus) == 2
    found = read(alone + sample(full("GPU_TEMP"), 40, 2, **{label: "b"}))
    assert (found.status, found.gpus) == (DriverStatus.ERROR, ())
    assert "2 machines" in found.error


# Names and units


@pytest.mark.parametrize(
    ("names", "field", "shown", "value"),
    [
        ("GPU_TEMP GPU_TEMP_CELSIUS gpu_temp", "temperature_c", "54", 54),
        ("GPU_TEMP_LIMIT GPU_TEMP_MARGIN_CELSIUS", "temperature_margin_c", "-3", -3),
        ("SLOWDOWN_TEMP GPU_TEMP_SLOWDOWN_CELSIUS", "slowdown_c", "87", 87),
        ("POWER_USAGE BOARD_POWER_WATTS power_usage", "power_w", "71.500000", 71.5),
        ("TOTAL_ENERGY_CONSUMPTION", "energy_j", "1500", 1.5),
        ("CLOCK_THROTTLE_REASONS CLOCKS_EVENT_REASONS", "clock_reasons", "72", 72),
        ("CORRECTABLE_REMAPPED_ROWS ROW_REMAP_CORRECTABLE_TOTAL", "remap_corrected", "8", 8),
        ("UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_UNCORRECTABLE_TOTAL", "remap_uncorrected", "2", 2),
        ("ROW_REMAP_FAILURE ROW_REMAP_FAILED", "remap_failure", "1", 1),
        ("ROW_REMAP_PENDING", "remap_pending", "1", 1),
        ("ECC_SBE_VOL_TOTAL ecc_sbe_volatile_total", "ecc_corrected", "5.4731746511e+10", 54731746511),
        ("RETIRED_SBE PAGE_RETIRED_SBE_TOTAL", "retired_pages", "60", 60),
        ("FB_USED fb_used", "memory_used_bytes", "4", 4 * 2**20),
        ("PCIE_REPLAY_COUNTER PCIE_REPLAY_TOTAL", "pcie_replays", "7", 7),
        ("FABRIC_MANAGER_STATUS", "fabric_state", "3", 3),
        ("FABRIC_HEALTH_SUMMARY", "fabric_health", "2", 2),
        ("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_FLIT_ERROR_TOTAL", "nvlink_errors", str(FLIT), FLIT),
        ("MIG_MODE", "mig", "0", 0),
        ("ECC_CURRENT ECC_MODE", "ecc_enabled", "1", 1),
    ],
)
def test_a_measurement_under_each_of_its_names(names: str, field: str, shown: str, value: object) -> None:
    for name in names.split():
        assert getattr(one(sample(full(name), shown)), field) == value, name


def test_every_field_that_is_read_is_one_of_a_gpu() -> None:
    parts = {"graphics_pct", "memory_free_bytes"}
    sums = {m.key for m in METRICS.values() if m.key.startswith(("retired_", "nvlink_"))}
    assert {metric.key for metric in METRICS.values()} - parts - sums <= set(Gpu.__struct_fields__)


def test_what_is_summed() -> None:
    page = sample(full("RETIRED_SBE"), 3) + sample(full("RETIRED_DBE"), 4)
    page += sample(full("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"), 1) + sample(full("NVLINK_REPLAY_ERROR_COUNT_TOTAL"), 2)
    assert (one(page).retired_pages, one(page).nvlink_errors) == (7, 3)


def test_versions_of_driver_and_cuda() -> None:
    labels = {"DCGM_FI_DRIVER_VERSION": "570.148.08", CUDA: "12080"}
    found = read(sample(full("GPU_TEMP"), 40, **labels))
    assert (found.driver, found.cuda) == ("570.148.08", "12.8")


@pytest.mark.parametrize("label", ["nvswitch", "cpu", "nvlink"])
def test_series_of_other_devices_are_no_gpus(label: str) -> None:
    assert read(sample(full("GPU_TEMP"), 40, **{label: "0"})).gpus == ()


def test_a_gpu_without_a_name_is_known_by_its_address_or_place() -> None:
    page = 'DCGM_FI_DEV_GPU_TEMP{gpu="3",pci_bus_id="00000000:1A:00.0"} 40\nDCGM_FI_DEV_GPU_TEMP{device="nvidia5"} 41\n'
    assert [(g.uuid, g.index, g.pci) for g in read(page).gpus] == [("", 3, "0000:1a:00.0"), ("", 5, "")]


# T6: blanks


BLANKS = [
    "9223372036854775792",
    "9223372036854775794",
    "9223372036854775808",
    "9.223372036854776e+18",
    "18446744073709551615",
    "2147483632",
    "2147483634",
    "2147483635",
    "140737488355328",
    "140737488355331.000000",
    "NaN",
    "+Inf",
    "-Inf",
    "[N/A]",
    "[Not Supported]",
    "<<<NULL>>>",
    "N/A",
    "1_000",
    "٣",
]


@pytest.mark.parametrize("blank", BLANKS)
def test_t6_a_blank_is_not_applicable_whatever_it_looks_like(blank: str) -> None:
    for name in ("MEMORY_TEMP", "POWER_USAGE", "GPU_UTIL", "ECC_SBE_VOL_TOTAL"):
        gpu = one(sample(full(name), blank) + sample(full("SM_CLOCK"), 139))
        assert getattr(gpu, METRICS[full(name)].key) == NA
        assert gpu.sm_clock_mhz == 139


def test_t6_a_missing_line_too() -> None:
    gpu = one(sample(full("SM_CLOCK"), 139))
    assert (gpu.memory_temperature_c, gpu.power_w, gpu.utilization_pct) == (NA, NA, NA)


def test_t6_numbers_beside_the_blanks_are_numbers() -> None:
    counter = Metric("ecc_corrected")
    for text in ("2147483631", "2147483636", "140737488355327", "140737488355332", "0"):
        assert measure(text, counter) == int(text)


def test_t6_seven_temperatures_of_eight() -> None:
    shown = [40, 41, "9223372036854775794", 43, 44, 45, 46, 47]
    found = read("".join(sample(full("GPU_TEMP"), value, index) for index, value in enumerate(shown)))
    temperatures = [gpu.temperature_c for gpu in found.gpus]
    assert mean(temperatures) == pytest.approx(306 / 7)
    assert most(temperatures) == 47


def test_t6_zero_is_a_number() -> None:
    gpu = one(sample(full("POWER_USAGE"), 0) + sample(full("GPU_TEMP"), 0))
    assert (gpu.power_w, gpu.temperature_c) == (0, 0)


@pytest.mark.parametrize(
    ("name", "value"), [("GPU_UTIL", 4211), ("GPU_UTIL", -1), ("GPU_TEMP", 5000), ("CLOCK_THROTTLE_REASONS", 0.5)]
)
def test_a_senseless_value_is_unknown(name: str, value: object) -> None:
    assert getattr(one(sample(full(name), value)), METRICS[full(name)].key) is None


# T7: memory


def test_t7_reserved_memory_is_the_rest() -> None:
    gpu = one(sample(full("FB_USED"), 5) + sample(full("FB_FREE"), 80986) + sample(full("FB_RESERVED"), 568))
    assert gpu.memory_total_bytes == pytest.approx(85_520_809_984, abs=2 * 2**20)
    assert memory_share(gpu) == pytest.approx(5 / 80991)


def test_t7_without_it_nothing_is_added_up() -> None:
    gpu = one(sample(full("FB_USED"), 5) + sample(full("FB_FREE"), 80986))
    assert (gpu.memory_total_bytes, gpu.memory_reserved_bytes) == (NA, NA)
    assert one(sample(full("FB_TOTAL"), 10) + sample(full("FB_USED"), 5)).memory_total_bytes == 10 * 2**20


# T5: the gauge that sticks


def gauge(code: int, text: str = "", index: int = 0, **labels: object) -> str:
    healthy = {"GPU_TEMP": 40, "POWER_USAGE": 300, "GPU_UTIL": 50}
    lines = [sample(full(name), value, index, **labels) for name, value in healthy.items()]
    said = {"err_code": code, "err_msg": text or "none", **labels}
    return "".join(lines) + sample(full("XID_ERRORS"), code, index, **said)


def counted(code: int, count: int) -> str:
    return sample("DCGM_EXP_XID_ERRORS_COUNT", count, window_size_in_ms="300000", xid=code)


def test_t5_one_event_at_first_sight_and_nothing_standing() -> None:
    exporter = Exporter()
    events = []
    for round_ in range(6 * 240):
        exporter.shows(gauge(31, "Graphics Engine Exception") + counted(31, int(round_ < 20)))
        events += exporter.xids()
    assert events == [(31, 1)]
    assert exporter.told.rules() == []
    assert [t.closes for t in exporter.told.transitions if t.reason == "xid-31"][-1] == "expired"


def test_t5_the_same_without_the_counter() -> None:
    exporter = Exporter()
    assert [len(exporter.shows(gauge(31)).faults) for _ in range(5)] == [1, 0, 0, 0, 0]
    assert len(exporter.shows(gauge(43)).faults) == 1
    assert len(exporter.shows(gauge(31)).faults) == 0, "the gauge cannot say that it came again"


def test_t5_the_counter_can() -> None:
    exporter = Exporter()
    shown = [1, 1, 2, 1, 0, 1, 3]
    found = [exporter.shows(gauge(31) + counted(31, count)) and exporter.xids() for count in shown]
    assert found == [[(31, 1)], [], [(31, 1)], [], [], [(31, 1)], [(31, 2)]]


def test_t5_an_old_xid_that_nobody_has_told_us_of_is_told_once() -> None:
    exporter = Exporter()
    assert [len(exporter.shows(gauge(79) + counted(79, 0)).faults) for _ in range(3)] == [1, 0, 0]
    assert exporter.told.row().state == "lost"


def test_t5b_a_restarted_exporter_forgets_and_we_do_not() -> None:
    exporter = Exporter()
    exporter.shows(gauge(79))
    assert exporter.told.row().state == "lost"
    exporter.origin = Origin(NODE, "boot-1", "exporter-2")
    exporter.shows(gauge(0))
    exporter.shows(gauge(0), after_s=3600)
    assert (exporter.told.row().state, exporter.told.rules()) == ("lost", ["xid-79"])
    exporter.told.boot_id = "boot-2"
    exporter.origin = Origin(NODE, "boot-2", "exporter-3")
    exporter.shows(gauge(0))
    assert exporter.told.row().state == "ok"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("process_start_time_seconds 1000\n", "process_start_time_seconds 2000\n"),
        (sample(full("TOTAL_ENERGY_CONSUMPTION"), 5000), sample(full("TOTAL_ENERGY_CONSUMPTION"), 20)),
    ],
)
def test_a_restart_shows_in_the_start_time_and_in_falling_counters(before: str, after: str) -> None:
    exporter = Exporter()
    assert [len(exporter.shows(gauge(31) + before).faults) for _ in range(2)] == [1, 0]
    assert [len(exporter.shows(gauge(31) + after).faults) for _ in range(2)] == [1, 0]


def test_a_page_without_gpus_is_no_restart() -> None:
    exporter = Exporter()
    exporter.shows("process_start_time_seconds 1000\n" + gauge(31))
    for page in ("", "process_start_time_seconds 1000\n", "<html>"):
        assert exporter.shows(page).status is DriverStatus.ERROR
    assert exporter.shows("process_start_time_seconds 1000\n" + gauge(31)).faults == ()


def test_t5c_code_0_with_a_message_is_no_event() -> None:
    assert Exporter().shows(gauge(0, "Unknown Error")).faults == ()


def test_t5d_the_kernel_log_knows_better() -> None:
    exporter = Exporter()
    exporter.told.reads(eight(), lines=[xid_line(0, "62, pid=1, name=python3, 0004")])
    exporter.shows(gauge(45, "Preemptive cleanup, due to errors"))
    row = exporter.told.row()
    assert (row.state, row.action, row.reason) == ("reset-required", "reset-gpu", "xid-62")
    assert {f.rule: f.source for f in row.findings} == {"xid-62": "kernel-log", "xid-45": "dcgm"}


def test_an_agent_s_reading_beats_a_page_of_the_same_time() -> None:
    exporter = Exporter()
    exporter.told.reads(eight(gpu0={"temperature_c": 77}))
    exporter.shows(gauge(0), after_s=1)
    assert exporter.told.row().temperature_c == 77
    exporter.shows(gauge(0), after_s=61)
    assert exporter.told.row().temperature_c == 40, "the agent is silent"


# T12: MIG and shares


def mig(code: int = 0, only: int | None = None) -> str:
    parts = [{"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": gi} for gi in (3, 4, 5)]
    lines = []
    for part in parts:
        lines.append(sample(full("GPU_TEMP"), 50, **part) + sample(full("FB_USED"), 100 + part["GPU_I_ID"], **part))
        lines.append(sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9, **part))
        shown = code if only in {None, part["GPU_I_ID"]} else 0
        lines.append(sample(full("XID_ERRORS"), shown, **part, err_code=shown, err_msg="x"))
    return "".join(lines)


def test_t12_instances_have_their_own_memory_and_the_gpu_its_temperature() -> None:
    gpu = one(mig())
    assert (gpu.temperature_c, gpu.mig, gpu.utilization_pct, gpu.memory_used_bytes) == (50, 1, NA, NA)
    assert [(i.gi, i.memory_used_bytes) for i in gpu.instances] == [(gi, (100 + gi) * 2**20) for gi in (3, 4, 5)]


def test_t12_an_xid_that_one_instance_shows_is_of_that_instance() -> None:
    exporter = Exporter()
    exporter.shows(mig(94, only=5))
    assert [(fault.code, fault.gi) for fault in exporter.last.faults] == [(94, 5)]
    assert [i.state for i in exporter.told.row().instances] == ["ok", "ok", "app-fault"]
    assert exporter.shows(mig(94, only=5)).faults == ()


def test_t12_one_that_all_show_is_of_the_gpu_once() -> None:
    assert [(fault.code, fault.gi) for fault in read(mig(79)).faults] == [(79, None)]


def test_t12e_a_rounded_profile_is_joined_by_its_instance() -> None:
    page = sample(full("FB_USED"), 10, GPU_I_PROFILE="7g.79gb", GPU_I_ID=0, namespace="ml", pod="train-0")
    (instance,) = one(page).instances
    assert (instance.gi, instance.profile, instance.assigned) == (0, "7g.79gb", (Holder("ml", "train-0"),))
    assert instance.uuid == f"{uuid(0)}/gi0"
    exporter = Exporter()
    exporter.shows(
        page
        + sample(full("GPU_TEMP"), 50)
        + counted(94, 0)
        + sample("DCGM_EXP_XID_ERRORS_COUNT", 1, GPU_I_PROFILE="7g.80gb", GPU_I_ID=0, xid=94)
    )
    assert [(f.rule, f.instance) for f in exporter.told.row().findings] == [("xid-94", instance.uuid)]


def test_t12f_pods_that_share_a_gpu_show_its_whole_load_each() -> None:
    page = "".join(sample(full("GPU_UTIL"), 71, namespace="team", pod=f"pod-{i}", vgpu=i) for i in range(3))
    gpu = one(page)
    assert gpu.utilization_pct == 71
    assert len(gpu.assigned or ()) == 3


def test_a_number_beats_a_blank_whichever_comes_first() -> None:
    blank, number = sample(full("GPU_UTIL"), "9223372036854775794", pod="a", namespace="n"), sample(full("GPU_UTIL"), 7)
    assert one(blank + number).utilization_pct == one(number + blank).utilization_pct == 7


# What is not there


def test_a_gpu_that_vanishes_from_the_page_is_unknown_and_then_lost() -> None:
    exporter = Exporter()
    both, one_left = gauge(0) + gauge(0, index=1), gauge(0)
    exporter.shows(both)
    assert exporter.told.states() == ["ok", "ok"]
    exporter.shows(one_left)
    assert exporter.told.states() == ["ok", "unknown"]
    for _ in range(5):
        exporter.shows(one_left)
    assert exporter.told.states() == ["ok", "lost"]


def test_an_exporter_that_answers_nothing_leaves_every_gpu_unknown() -> None:
    exporter = Exporter()
    exporter.shows(gauge(0))
    exporter.shows("")
    assert exporter.told.states() == ["unknown"]
    assert exporter.last.error == "the exporter's page has no series of a GPU"


def test_a_gpu_of_which_only_xids_are_shown_is_not_called_well() -> None:
    exporter = Exporter()
    exporter.shows(sample(full("XID_ERRORS"), 0))
    assert exporter.told.states() == ["unknown"]


def test_that_ecc_is_not_listed_does_not_switch_the_remapper_off() -> None:
    exporter = Exporter()
    exporter.shows(gauge(0) + sample(full("ROW_REMAP_FAILURE"), 1))
    assert (exporter.told.row().state, exporter.told.rules()) == ("hardware-service", ["remap-failure"])


def test_sequences_grow_even_when_our_clock_is_set_back_or_we_begin_anew() -> None:
    first, seen = reading(gauge(0), ORIGIN, None, START_AT)
    second, _ = reading(gauge(0), ORIGIN, seen, START_AT - 3600)
    again, _ = reading(gauge(0), ORIGIN, None, START_AT + 1)
    assert first.sequence < second.sequence < again.sequence


# Anything at all


NAMES = st.sampled_from(
    [*METRICS, "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "process_start_time_seconds", "x"]
)
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from([uuid(0), "0", "31", "MIG-1", "00000000:8D:00.0", "a/b", "nvidia3"])
)
LABELS = st.dictionaries(
    st.one_of(
        st.sampled_from(["gpu", "UUID", "GPU_I_ID", "pod", "namespace", "xid", "pci_bus_id", "device"]),
        st.text(max_size=5),
    ),
    TEXTS,
    max_size=6,
)
VALUES = st.one_of(
    st.integers().map(str),
    st.integers(2**55, 2**63).map(str),
    st.floats().map(str),
    st.sampled_from(BLANKS),
    st.text(max_size=8),
)


@st.composite
def pages(draw: Any) -> str:
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        inner = ",".join(f'{label}="{text}"' for label, text in draw(LABELS).items())
        lines.append(f"{draw(NAMES)}{{{inner}}} {draw(VALUES)}")
    return "\n".join(lines)


@given(st.lists(st.one_of(pages(), st.text(max_size=200)), max_size=3))
def test_no_page_raises_or_makes_a_gpu_well_out_of_nothing(shown: list[str]) -> None:
    health, seen, now = None, None, START_AT
    for page in shown:
        now += 15
        found, seen = reading(page, ORIGIN, seen, now)
        found = msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Reading)
        assessed = assess(health, found, CONTEXT, now)
        health = assessed.health
        for key, row in assessed.rows.items():
            gpu = assessed.health.gpus[key].gpu
            measures = (gpu.temperature_c, gpu.power_w, gpu.memory_used_bytes, gpu.utilization_pct, gpu.sm_clock_mhz)
            assert row.state != "ok" or any(isinstance(measure, int | float) for measure in measures)
    if health is not None:
        assert all(row.state != "ok" for row in silent(health, CONTEXT, now + 61).rows.values())
