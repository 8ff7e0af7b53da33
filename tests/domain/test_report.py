"""A reading in words: every number that is none has a sign of its own."""

import pytest

from fleet.domain.gpus import NA, Answer, DriverStatus, Fault, FaultKind, Gpu, Holder, Instance, Process, Reading
from fleet.domain.report import report


def reading(*gpus, **fields):
    return Reading(node="gpu-07", boot_id="b", agent="a", sequence=1, sent_at=0.0, gpus=gpus, **fields)


def lines(*gpus, **fields):
    return report(reading(*gpus, **fields)).splitlines()


def cells(*gpus):
    return [cell.strip() for cell in lines(*gpus)[2].split("  ") if cell.strip()]


def test_numbers_what_is_not_applicable_and_what_is_unknown():
    gpu = Gpu(
        index=0,
        uuid="GPU-0",
        pci="0000:1b:00.0",
        name="RTX 4090",
        utilization_pct=NA,
        memory_total_bytes=2**30,
        power_w=7.6,
    )
    assert cells(gpu) == [
        *("0", "GPU-0", "0000:1b:00.0", "RTX 4090", "n/a", "?/1024 MiB", "?", "8/? W", "?/?", "?+?", "?/?", "ok"),
    ]


def test_a_gpu_that_says_nothing():
    gpu = Gpu(index=3, answer=Answer.HUNG, error="a call to the driver did not return")
    assert cells(gpu)[:4] == ["3", "?", "?", "?"]
    assert cells(gpu)[-1] == "hung: a call to the driver did not return"


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"remap_pending": 1}, "pending"), ({"remap_pending": 1, "remap_failure": 1}, "pending+FAILED")],
)
def test_rows_that_wait_for_a_reset(fields, word):
    assert word in cells(Gpu(index=0, **fields))


def test_who_holds_and_who_uses():
    gpu = Gpu(
        index=0,
        uuid="GPU-0",
        assigned=(Holder("llm", "chat-0", "server"),),
        processes=(Process(7, 2**20, Holder(pod_uid="u-1")), Process(8, NA)),
        instances=(
            Instance("MIG-a", "1g.10gb", assigned=(Holder("dev", "n"),)),
            Instance("MIG-b", memory_used_bytes=0),
        ),
    )
    assert lines(gpu)[3:-1] == [
        "GPU 0: held by llm/chat-0 (server)",
        "GPU 0: instance 1g.10gb MIG-a ?/? MiB, held by dev/n",
        "GPU 0: instance ? MIG-b 0/? MiB, held by nobody",
        "GPU 0: process 7 uses 1 MiB, in pod u-1",
        "GPU 0: process 8 uses n/a MiB, in no pod that is known",
    ]


def test_a_node_without_a_kubelet_says_so_once():
    said = lines(Gpu(index=0, uuid="GPU-0"), Gpu(index=1, uuid="GPU-1"))
    assert [line for line in said if "kubelet" in line] == ["The kubelet does not say who holds the GPUs."]


def test_faults_and_what_was_missed():
    fault = Fault(kind=FaultKind.XID, at=0.0, code=79, pci="0000:1b:00.0", text="gone", repeated=3)
    said = lines(faults=(fault, Fault(kind=FaultKind.MISMATCH, at=1.0, text="API mismatch")), lost_lines=4)
    assert said[1:] == [
        "The driver knows no GPU.",
        "4 lines of the kernel log were overwritten before they were read.",
        "1970-01-01 00:00:00 UTC  xid 79  0000:1b:00.0  gone (3 times)",
        "1970-01-01 00:00:01 UTC  api-mismatch  ?  API mismatch",
    ]


def test_a_log_that_cannot_be_read_is_not_a_log_without_faults():
    assert lines(log_error="/dev/kmsg: Permission denied")[-1].startswith(
        "The kernel log cannot be read (/dev/kmsg: Permission"
    )
    assert lines()[-1] == "The kernel log holds no fault of a GPU."


@pytest.mark.parametrize("status", [status for status in DriverStatus if status is not DriverStatus.OK])
def test_every_reason_for_no_gpu_has_a_sentence(status):
    assert lines(status=status, error="words (9)")[1].startswith("No GPU can be read: NVIDIA")
    assert lines(status=status, error="words (9)")[1].endswith("(words (9))")
