"""What NVML says, through the real nvidia-ml-py and a fake library: a number, not applicable, or unknown; who does not answer."""

import pytest

from fleet.adapters.gpus_rounds import COMMAND, RETRY_S, Reader
from fleet.domain.gpus import NA, Answer, DriverStatus, Gpu, Instance, Process
from tests.fleet.agent.conftest import NEVER
from tests.nvml.driver import BEFORE_R510, BEFORE_R525, LINKS, h100

# Which fields a call of the fake stands for.
FIELDS = {
    "utilization": ("utilization_pct", "memory_busy_pct"),
    "encoder": ("encoder_pct",),
    "decoder": ("decoder_pct",),
    "memory": ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes"),
    "temperature": ("temperature_c",),
    "margin": ("temperature_margin_c",),
    "thresholds": ("slowdown_c",),
    "power": ("power_w",),
    "power_limit": ("power_limit_w",),
    "energy": ("energy_j",),
    "clocks": ("sm_clock_mhz", "memory_clock_mhz"),
    "clocks_max": ("sm_clock_max_mhz",),
    "reasons": ("clock_reasons",),
    "ecc_mode": ("ecc_enabled", "ecc_pending"),
    "ecc": ("ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever", "ecc_uncorrected_ever"),
    "sram_exceeded": ("sram_threshold_exceeded",),
    "retired_pages": ("retired_pages",),
    "retirement_pending": ("retirement_pending",),
    "remapped": ("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failure"),
    "fields": ("memory_temperature_c", "recovery_action", "nvlinks", "nvlinks_active", "nvlink_errors"),
    "nvlinks": ("nvlinks_active",),
    "pcie": ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replays"),
    "persistence": ("persistence",),
    "mig": ("mig", "mig_pending"),
    "fabric": ("fabric_state", "fabric_status", "fabric_clique", "fabric_health"),
}
MEASURES = {name for names in FIELDS.values() for name in names}


def measured(gpu: Gpu) -> dict:
    return {name: getattr(gpu, name) for name in MEASURES}


def test_a_healthy_gpu(read):
    found = read()
    assert found.driver.status is DriverStatus.OK
    assert (found.driver.driver, found.driver.cuda, found.driver.nvml) == ("550.144.03", "12.4", "12.550.144.03")
    assert found.driver.count == len(found.gpus) == 8
    gpu = found.gpus[3]
    assert (gpu.index, gpu.pci, gpu.minor, gpu.serial) == (3, "0000:33:00.0", 3, "1654423000003")
    assert (gpu.uuid, gpu.name) == ("GPU-00000003-6d3c-22ed-0ec8-d3b864870b8b", "NVIDIA H100 80GB HBM3")
    assert (gpu.answer, gpu.error, gpu.processes, gpu.assigned, gpu.instances) == (Answer.OK, "", (), None, ())
    assert measured(gpu) == {
        "utilization_pct": 0,
        "memory_busy_pct": 0,
        "encoder_pct": 0,
        "decoder_pct": 0,
        "memory_total_bytes": 85_520_809_984,
        "memory_reserved_bytes": 595_000_000,
        "memory_used_bytes": 5_000_000,
        "temperature_c": 34,
        "temperature_margin_c": 53,
        "slowdown_c": 87,
        "memory_temperature_c": 42,
        "power_w": 71.25,
        "power_limit_w": 700.0,
        "energy_j": 4_335_301.032,
        "sm_clock_mhz": 345,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 2619,
        "clock_reasons": 1,
        "ecc_enabled": 1,
        "ecc_pending": 1,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "ecc_corrected_ever": 3,
        "ecc_uncorrected_ever": 0,
        "sram_threshold_exceeded": 0,
        "retired_pages": NA,
        "retirement_pending": NA,
        "remap_corrected": 0,
        "remap_uncorrected": 0,
        "remap_pending": 0,
        "remap_failure": 0,
        "nvlinks": LINKS,
        "nvlinks_active": LINKS,
        "nvlink_errors": 0,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_replays": 0,
        "persistence": 1,
        "mig": 0,
        "mig_pending": 0,
        "fabric_state": 3,
        "fabric_status": 0,
        "fabric_clique": 0,
        "fabric_health": 1,
        "recovery_action": 0,
    }


NOTHING = [(3, NA), (13, NA), (21, NA), (25, NA), (26, NA), (4, None), (10, None), (77, None), (999, None)]


@pytest.mark.parametrize(("code", "value"), NOTHING)
def test_every_call_says_not_applicable_or_unknown_and_never_a_number(readers, driver, code, value):
    """A GPU for every call; all its other fields keep their numbers."""
    driver.answers["devices"] = [h100(index) for index in range(len(FIELDS))]
    driver.write()
    healthy = readers().read(NEVER).gpus
    for gpu, call in zip(driver.gpus, FIELDS, strict=True):
        gpu[call] = {"error": code}
    driver.write()
    for before, gpu, (call, names) in zip(healthy, readers().read(NEVER).gpus, FIELDS.items(), strict=True):
        assert measured(gpu) == measured(before) | dict.fromkeys(names, value), call
        assert gpu.answer is Answer.OK
        assert bool(gpu.error) == (value is None), call


def test_a_driver_before_r510_counts_what_is_reserved_as_used(read):
    gpu = read(BEFORE_R510).gpus[0]
    assert (gpu.memory_total_bytes, gpu.memory_reserved_bytes, gpu.memory_used_bytes) == (
        85_520_809_984,
        NA,
        600_000_000,
    )


def test_where_only_the_newer_memory_call_works_it_is_enough(driver, read):
    """GB10: the first version is not supported (cosmos#180)."""
    driver.change(0, memory_v1={"error": 3})
    driver.change(1, memory_v1={"error": 3}, memory_v2={"error": 3})
    first, second, *_ = read().gpus
    assert first.memory_used_bytes == 5_000_000
    assert (second.memory_total_bytes, second.memory_reserved_bytes, second.memory_used_bytes) == (NA, NA, NA)


def test_a_driver_before_r525_is_asked_as_it_was_then(driver, read):
    driver.change(0, processes=[{"pid": 41, "used": 1024}], graphics=[{"pid": 42, "used": 2048}], reasons=4)
    gpu = read({*BEFORE_R510, *BEFORE_R525}).gpus[0]
    assert gpu.processes == (Process(41, 1024), Process(42, 2048))
    assert (gpu.clock_reasons, gpu.temperature_c, gpu.temperature_margin_c) == (4, 31, NA)
    assert (gpu.fabric_state, gpu.fabric_health, gpu.sram_threshold_exceeded) == (3, NA, NA)
    assert (gpu.answer, gpu.error) == (Answer.OK, "")


def test_processes_are_unknown_where_no_call_for_them_is_left(read):
    """Without its symbol nvidia-ml-py raises something that is no NVMLError."""
    symbols = [f"nvmlDeviceGet{kind}RunningProcesses_{v}" for kind in ("Compute", "Graphics") for v in ("v2", "v3")]
    gpu = read(symbols).gpus[0]
    assert (gpu.processes, gpu.answer, gpu.temperature_c) == (None, Answer.OK, 31)


def test_the_fabric_of_a_driver_that_knows_the_second_version(driver, read):
    driver.answers["fabric_version"] = 2
    driver.write()
    gpu = read().gpus[0]
    assert (gpu.fabric_state, gpu.fabric_clique, gpu.fabric_health) == (3, 0, NA)


def test_processes_once_each_and_their_memory_where_it_is_told(driver, read):
    driver.change(
        0,
        processes=[{"pid": 7, "used": 0}, {"pid": 8}],
        graphics=[{"pid": 7, "used": 0}, {"pid": 9, "used": 5}],
        mps=[{"pid": 10, "used": 6}],
    )
    assert read().gpus[0].processes == (Process(7, 0), Process(8, NA), Process(9, 5), Process(10, 6))


def test_a_name_that_is_no_text(driver, read):
    driver.change(0, name="NVIDIA \xff")
    gpu = read().gpus[0]
    assert (gpu.name, gpu.temperature_c, gpu.answer) == ("", 31, Answer.OK)
    assert gpu.error.startswith("name: ")


def test_a_consumer_board_has_no_serial_number(driver, read):
    del driver.gpus[0]["serial"]
    driver.write()
    gpu = read().gpus[0]
    assert (gpu.serial, gpu.error) == ("", "")


def test_pages_of_volta_are_counted_for_both_causes(driver, read):
    driver.change(0, retired_pages={"corrected": 3, "uncorrected": 2}, retirement_pending=1)
    gpu = read().gpus[0]
    assert (gpu.retired_pages, gpu.retirement_pending) == (5, 1)


# Fields and links


def with_fields(driver, gpu=0, **fields):
    driver.change(gpu, fields=driver.gpus[gpu]["fields"] | fields)


@pytest.mark.parametrize(("code", "value"), [(2, NA), (3, NA), (13, NA), (999, None), (15, None)])
def test_a_field_has_a_return_code_of_its_own(driver, read, code, value):
    """The old number stays in the union (T9): it must not be taken."""
    with_fields(driver, **{"230": {"error": code}})
    gpu = read().gpus[0]
    assert (gpu.recovery_action, gpu.memory_temperature_c, gpu.answer) == (value, 42, Answer.OK)


def test_links_that_are_down_or_without_a_bridge(driver, read):
    driver.change(0, nvlinks=[1] * 16 + [0, 0])
    driver.change(1, nvlinks=[1] * 4)
    driver.change(2, nvlinks={"error": 3})
    with_fields(driver, 3, **{"91": 0})
    gpus = read().gpus
    assert [(gpu.nvlinks, gpu.nvlinks_active) for gpu in gpus[:4]] == [(18, 16), (18, 4), (18, NA), (0, 0)]


def test_a_library_that_does_not_know_links(read):
    gpu = read(["nvmlDeviceGetNvLinkState"]).gpus[0]
    assert (gpu.nvlinks, gpu.nvlinks_active, gpu.answer) == (18, NA, Answer.OK)


def test_errors_of_links_up_to_nvlink_4_and_of_nvlink_5(driver, read):
    with_fields(driver, 0, **{"38": 1, "45": 2, "52": 3, "59": 4})
    new = {"82": 42, "91": 2, "230": 0, "206": 1, "208:1": 10, "211:1": 100}
    driver.change(1, fields=new)
    driver.change(2, fields=new | {"214:1": {"error": 999}})
    assert [gpu.nvlink_errors for gpu in read().gpus[:3]] == [10, 111, None]


# MIG


def with_instances(driver, gpu=0):
    instances = [
        {
            "uuid": f"MIG-{place}",
            "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "gi": 7 + place,
            "ci": 0,
            "memory": {"total": 10_468_982_784, "reserved": 0, "used": 1000 * place},
        }
        for place in range(7)
    ]
    driver.change(gpu, mig=[1, 1], mig_most=7, instances=instances, utilization={"error": 3}, remapped={"error": 3})


def test_instances_of_a_gpu(driver, read):
    with_instances(driver)
    driver.gpus[0]["instances"][2] = {}  # a place that holds none
    driver.gpus[0]["instances"][3]["name"] = "NVIDIA H100 80GB HBM3"
    driver.gpus[0]["instances"][3]["attributes"] = {"slices": 1, "mib": 9984}
    driver.gpus[0]["instances"][4]["memory"] = {"error": 4}
    driver.change(0, processes=[{"pid": 5, "used": 9, "gi": 8, "ci": 0}, {"pid": 6, "used": 9}])
    gpu, other, *_ = read().gpus
    assert (gpu.mig, gpu.utilization_pct, gpu.remap_pending, other.instances) == (1, NA, NA, ())
    assert [instance.uuid for instance in gpu.instances] == [f"MIG-{place}" for place in (0, 1, 3, 4, 5, 6)]
    assert gpu.instances[1] == Instance("MIG-1", "1g.10gb", 8, 0, 10_468_982_784, 1000)
    assert gpu.instances[2].profile == "1g.10gb"
    assert (gpu.instances[3].memory_total_bytes, gpu.instances[3].memory_used_bytes) == (None, None)
    assert gpu.processes == (Process(5, 9, instance="MIG-1"), Process(6, 9))


# Who does not answer


def test_a_lost_gpu_fails_at_its_handle_and_the_others_go_on(driver, readers):
    reader = readers()
    before = reader.read(NEVER).gpus[2]
    driver.change(2, handle={"error": 15})
    found = reader.read(NEVER)
    lost = found.gpus[2]
    assert (lost.answer, lost.error) == (Answer.LOST, "GPU is lost (15)")
    assert (lost.uuid, lost.pci, lost.name, lost.serial) == (before.uuid, before.pci, before.name, before.serial)
    assert set(measured(lost).values()) == {None}
    assert [gpu.answer for gpu in found.gpus if gpu.index != 2] == [Answer.OK] * 7
    assert found.driver.count == 8


def test_a_gpu_lost_while_it_is_asked_keeps_what_it_said_before(driver, read):
    driver.change(2, power={"error": 15})
    gpu = read().gpus[2]
    assert (gpu.answer, gpu.error) == (Answer.LOST, "power_w: GPU is lost (15)")
    assert (gpu.temperature_c, gpu.power_w, gpu.sm_clock_mhz, gpu.processes) == (33, None, None, None)
    assert gpu.uuid.startswith("GPU-00000002")


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (4, Answer.NO_PERMISSION),
        (8, Answer.POWER),
        (15, Answer.LOST),
        (16, Answer.RESET_REQUIRED),
        (999, Answer.ERROR),
        (77, Answer.ERROR),
    ],
)
def test_what_a_handle_may_say(driver, read, code, answer):
    for gpu in driver.gpus:
        gpu["handle"] = {"error": code}
    driver.write()
    found = read()
    assert found.driver.count == 8
    assert {gpu.answer for gpu in found.gpus} == {answer}
    assert {f"({code})" in gpu.error for gpu in found.gpus} == {True}


def test_a_gpu_that_wants_a_reset_is_asked_all_the_same(driver, read):
    driver.change(1, power={"error": 16})
    gpu = read().gpus[1]
    assert (gpu.answer, gpu.power_w, gpu.remap_pending) == (Answer.RESET_REQUIRED, None, 0)


def test_a_gpu_that_answers_nothing_but_errors(driver, read):
    """What a container sees after systemd reloaded: the GPU itself is fine (gpu-operator#485)."""
    keys = set(driver.gpus[0]) | {"retired_pages", "retirement_pending"}
    driver.change(0, **{key: {"error": 999} for key in keys})
    gpu = read().gpus[0]
    assert (gpu.answer, gpu.error) == (Answer.ERROR, "uuid: Unknown Error (999)")
    assert set(measured(gpu).values()) == {None}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (4, DriverStatus.NO_PERMISSION),
        (9, DriverStatus.NO_DRIVER),
        (18, DriverStatus.MISMATCH),
        (999, DriverStatus.ERROR),
        (77, DriverStatus.ERROR),
    ],
)
@pytest.mark.parametrize("call", ["init", "count"])
def test_what_the_driver_may_say(driver, read, call, code, status):
    driver.answers[call] = {"error": code}
    driver.write()
    found = read()
    assert (found.driver.status, found.driver.count, found.gpus) == (status, None, ())
    assert f"({code})" in found.driver.error


def test_no_library(driver):
    reader = Reader((*COMMAND, str(driver.file)), driver.environment())
    found = reader.read(NEVER)
    assert (found.driver.status, found.gpus) == (DriverStatus.NO_LIBRARY, ())
    reader.close()


def test_no_gpu(driver, read):
    driver.answers["devices"] = []
    driver.write()
    found = read()
    assert (found.driver.status, found.driver.count, found.gpus) == (DriverStatus.OK, 0, ())


# What is remembered


def test_what_lasts_is_asked_once(driver, readers):
    reader = readers()
    first, *_, last = [reader.read(NEVER) for _ in range(3)]
    assert first == last
    calls = [call for _, call in driver.calls()]
    assert calls.count("devices.0.power") == 3
    assert [calls.count(f"devices.0.{call}") for call in ("name", "serial", "thresholds", "clocks_max")] == [1] * 4
    assert calls.count("init") == 1


def test_another_board_at_the_same_place_is_asked_anew(driver, readers):
    reader = readers()
    before = reader.read(NEVER).gpus[4]
    driver.change(4, uuid="GPU-new", name="NVIDIA H200", thresholds={"1": 90})
    after = reader.read(NEVER).gpus[4]
    assert before.pci == after.pci
    assert (after.uuid, after.name, after.slowdown_c) == ("GPU-new", "NVIDIA H200", 90)


def test_what_could_not_be_asked_once_is_asked_again(driver, readers):
    driver.change(0, thresholds={"error": 999})
    reader = readers()
    assert reader.read(NEVER).gpus[0].slowdown_c is None
    driver.change(0, thresholds={"1": 87})
    assert reader.read(NEVER).gpus[0].slowdown_c == 87


def test_a_driver_that_refused_is_left_alone_for_a_while_and_then_loaded_anew(driver, readers):
    """After an upgrade the old library is still in memory: only a new process can talk to the new driver."""
    now = [0.0]
    reader = readers(clock=lambda: now[0])
    assert reader.read(NEVER).driver.status is DriverStatus.OK
    driver.answers["count"] = {"error": 18}
    driver.write()
    assert reader.read(NEVER).driver.status is DriverStatus.MISMATCH
    del driver.answers["count"]
    driver.write()
    assert reader.read(NEVER).driver.status is DriverStatus.MISMATCH
    now[0] += RETRY_S
    assert len(reader.read(NEVER).gpus) == 8
    assert len({pid for pid, call in driver.calls() if call == "init"}) == 2
