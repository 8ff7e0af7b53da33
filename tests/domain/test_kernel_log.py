"""Every shape of the driver's kernel-log lines, and text that only looks like one."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.gpus import Fault, FaultKind
from fleet.domain.kernel_log import MOST_DISTINCT, MOST_LINE, MOST_TEXT, KernelLog, line_faults
from fleet.domain.xid import classify

CONTAINED = "NVRM: Xid (PCI:0000:0f:00): 94, pid=2503421, name=python3, Ch 00000008"
FELL = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
REMAP_FAILED = (
    "NVRM: Xid (PCI:0000:0f:00): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: (0x00000002eebc4100) - All "
    "reserved rows for bank are remapped"
)
NO_ANSWER = (
    "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from "
    "GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4)."
)
LINK5 = (
    "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
    "(0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"
)
LINK = (
    "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link "
    "14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"
)
CHANGED = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
CLEARED = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28002, Non-fatal, Link 46 MC TS crumbstore MCTO (First)"
UUID = "GPU-c43f0536-e751-7211-d7a7-78c95249ee7d"
IDENTITY = f"NVRM: GPU at PCI:0000:0f:00: {UUID}"
SILENT = (
    "NVRM: The NVIDIA GPU 0000:18:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
MISMATCH = (
    "NVRM: API mismatch: the client has the version 550.54.14, but",
    "NVRM: this kernel module has the version 535.161.08.  Please",
    "NVRM: make sure that this kernel module and all NVIDIA driver",
    "NVRM: components have the same version.",
)
REAL = (CONTAINED, FELL, REMAP_FAILED, NO_ANSWER, LINK5, LINK, CHANGED, CLEARED, SWITCH, IDENTITY, *SILENT, *MISMATCH)


def read(*texts: str) -> list[Fault]:
    return line_faults((sequence, 1000.0 + sequence, text) for sequence, text in enumerate(texts))


def only(*texts: str) -> Fault:
    (fault,) = read(*texts)
    return fault


def test_a_line_with_a_process():
    assert only(CONTAINED) == Fault(
        kind=FaultKind.XID, at=1000.0, sequence=0, pci="0000:0f:00.0", code=94, pid=2503421, text=CONTAINED
    )


@pytest.mark.parametrize(
    ("process", "pid"),
    [
        ("", None),
        ("pid=7, name=python3, ", 7),
        ("pid='<unknown>', name=<unknown>, ", None),
        ("pid=<unknown>, name=<unknown>, ", None),
        ("pid=<n/a>, name=<unknown>, ", None),
        ("pid=99999999999, name=a, ", None),  # more digits than a process's number has
    ],
)
def test_every_form_of_the_process(process, pid):
    fault = only(f"NVRM: Xid (PCI:0000:01:00): 79, {process}GPU has fallen off the bus.")
    assert (fault.code, fault.pci, fault.pid) == (79, "0000:01:00.0", pid)


@pytest.mark.parametrize(
    "name",
    [
        "ray::WorkerDict",
        "a:b",
        "a, 154",
        'it\'s "it"',
        "x): 79, y",
        "(PCI:0:0:0): 7",
        "Link 3 (0x1)",
        "naïve",
        "",
        "a=b",
    ],
)
def test_a_process_may_be_called_anything(name):
    fault = only(LINK5.replace("ray::WorkerDict", name))
    assert (fault.code, fault.pid, fault.unit, fault.link, fault.fatal) == (145, 876767, "RLW_RXPIPE", 13, False)
    assert fault.words == (0x0409A0C2, 8, 1, 0, 0x00100000, 4)


@pytest.mark.parametrize(
    ("where", "pci", "gi", "ci"),
    [
        ("PCI:0000:01:00", "0000:01:00.0", None, None),
        ("PCI:0000:01:00 GPU-I:05", "0000:01:00.0", 5, None),
        ("PCI:0000:01:00 GPU-I:10 GPU-CI:00", "0000:01:00.0", 10, 0),  # the driver counts in tens
        ("0000:03:00", "0000:03:00.0", None, None),
        ("0006:00", "0000:06:00.0", None, None),
        ("PCI:00000008:01:00.0", "0008:01:00.0", None, None),
        ("PCI:0018:01:00", "0018:01:00.0", None, None),
        ("PCI:somewhere", "", None, None),
    ],
)
def test_every_form_of_the_address(where, pci, gi, ci):
    fault = only(f"NVRM: Xid ({where}): 94, pid=1, name=a, Ch 00000008")
    assert (fault.code, fault.pci, fault.gi, fault.ci) == (94, pci, gi, ci)


@pytest.mark.parametrize(
    "prefix",
    [
        "<3>[12345.678] ",
        "<3>",
        "[ 12.3] ",
        "[   12.345678][ T1234] ",
        "[Mon Apr  6 07:25:24 2026] ",
        "4,1234,5678901,-;",
        "3,1234,5678901,-,caller=T77;",
        "Oct 13 18:38:31 gpu-07 kernel: ",
        "Oct 13 18:38:31 gpu-07 kernel: [ 9047.310161] ",
        "2026-05-01T10:00:00.123456+00:00 gpu-07 kernel: ",
        "kern  :err   : [ 12.3] ",
        "               ",
    ],
)
@pytest.mark.parametrize("line", [CONTAINED, FELL, LINK5, SWITCH])
def test_what_stands_before_a_message_does_not_hide_it(prefix, line):
    assert only(prefix + line) == only(line)


@pytest.mark.parametrize(
    "text",
    [
        f"python[4242]: saw {FELL}",
        f"audit: comm={FELL}",
        "x" * 200 + " kernel: " + FELL,
        "Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:01:00): seventy-nine",
        "NVRM: Xid (PCI:0000:01:00): 79999999, GPU has fallen off the bus.",
        "NVRM: Xid 79",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.14",
        "NVRM: GPU0 rpcRmApiFree_GSP: GPU lost, returning NV_OK",
        "NVRM: GPU 0000:18:00.0: GPU serial number is 0323618040756.",
        "",
    ],
)
def test_a_quotation_or_another_message_is_no_fault(text):
    assert read(text) == []


@pytest.mark.parametrize(
    ("code", "text", "state"),
    [
        (94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", "app-fault"),
        (95, "Uncontained: L2 Cache (0x3). RST: Yes, D-RST: No", "reset-required"),
    ],
)
def test_what_a_contained_error_says_of_resets_is_kept_and_decides_nothing(code, text, state):
    fault = only(f"NVRM: Xid (PCI:0000:0f:00): {code}, pid=7, name=python3, {text}")
    assert (fault.code, fault.pid, fault.recovery) == (code, 7, None)
    assert text in fault.text
    assert classify(fault).state == state


def test_an_answer_that_did_not_come():
    fault = only(NO_ANSWER)
    assert (fault.code, fault.pci, fault.pid, fault.words) == (119, "0000:9b:00.0", 2024380, ())


@pytest.mark.parametrize(
    ("line", "link", "fatal", "unit"),
    [
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)", 8, True, "NETIR_LINK_EVT"),
        (
            "149, NETIR_LINK_EVT/NETIR_LINK_DOWN Fatal XC1 i2 Link -1 (0x1)",
            None,
            True,
            "NETIR_LINK_EVT/NETIR_LINK_DOWN",
        ),
        ("150, pid=1, name=a, MSE Degraded Fatal XC0 i0 Link -1 (0x0 0x0)", None, True, "MSE Degraded"),
        ("144, pid=1, name=a, b, SAW_MVB Non-fatal XC0 i0 Link 00 (0x1 0x1)", 0, False, "SAW_MVB"),
    ],
)
def test_links_of_the_fifth_generation(line, link, fatal, unit):
    fault = only(f"NVRM: Xid (PCI:0018:01:00): {line}")
    assert (fault.link, fault.fatal, fault.unit) == (link, fatal, unit)


def test_links_before_the_fifth_generation():
    fault = only(LINK)
    assert (fault.link, fault.fatal, fault.words) == (14, True, (0, 0, 0x10000, 0, 0, 0, 0))
    assert only("NVRM: Xid (PCI:0000:65:00): 74, NVLink: fatal error detected on link 2").link == 2


def test_a_recovery_action_says_from_what_to_what():
    assert only(CHANGED).recovery == (0, 1)
    assert only(CLEARED).recovery == (1, 0)
    assert only(CHANGED.replace("0x1", "0x9")).recovery == (0, 9)
    assert only("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed").recovery is None


def test_the_order_of_recovery_actions_is_kept():
    """The last one counts, so a repeat of an earlier one is a change of its own."""
    faults = read(CHANGED, CHANGED, CLEARED, CHANGED)
    assert [(fault.recovery, fault.repeated) for fault in faults] == [((0, 1), 2), ((1, 0), 1), ((0, 1), 1)]


def test_a_symptom_names_its_cause():
    line = "NVRM: Xid (PCI:0000:0f:00): 45, pid=1, name=caused by, Ch 00000008 caused by previous Xid 94"
    assert only(line).caused_by == 94
    assert only(line.replace(" caused by previous Xid 94", "")).caused_by is None


def test_a_switch_and_the_raw_data_after_it():
    faults = read(
        SWITCH,
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28002, Severity 0 Engine instance 46 Sub-engine instance 00",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28002, Data {0x00140004, 0x00100000, 0x00140004, 0x00000000}",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Data {0x10000000, 0x00000000}",
    )
    assert [(f.kind, f.code, f.fatal, f.link, f.pci) for f in faults] == [
        (FaultKind.SXID, 28002, False, 46, "0000:c1:00.0"),
        (FaultKind.SXID, 20034, True, 30, "0000:c1:00.0"),
    ]
    assert only("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 10003, Host_priv_timeout").fatal is None


@pytest.mark.parametrize(
    "lines",
    [
        SILENT,
        ("\\x0a".join(SILENT),),  # one record of /dev/kmsg
        ("[ 1843.308145] " + "\n               ".join(SILENT),),
        (SILENT[0], FELL.replace("79, GPU has fallen off the bus.", "45, Ch 1"), *SILENT[1:]),
        (
            "NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:1e07)",
            "NVRM: installed in this system has " + SILENT[2][6:],
        ),
        (
            "NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:1e07) installed in this",
            "NVRM: system has " + SILENT[2][6:],
        ),
        ("NVRM: The NVIDIA GPU 0000:18:00.0 has fallen off", "NVRM: the bus and is not responding to commands."),
        ("NVRM: The NVIDIA GPU 0000:18:00.0 installed in this system has " + SILENT[2][6:],),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",),
        ("NVRM: GPU at PCI:0000:18:00: GPU has fallen off the bus.",),
    ],
)
def test_gone_without_an_xid(lines):
    (fault,) = [fault for fault in read(*lines) if fault.kind is FaultKind.OFF_BUS]
    assert (fault.code, fault.pci) == (None, "0000:18:00.0")
    assert "fallen off the bus" in fault.text


def test_gone_but_nobody_says_which():
    assert only(SILENT[2]).pci == ""
    noise = ["NVRM: something else"] * 3
    assert only(SILENT[0], *noise, SILENT[2]).pci == ""  # too far from the line that named a GPU


def test_a_gpu_that_is_named_for_another_reason_is_not_gone():
    assert (
        read("NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:1b06)", "NVRM: installed in this system is not supported")
        == []
    )


@pytest.mark.parametrize("lines", [MISMATCH, ("\\x0a".join(MISMATCH),)])
def test_a_mismatch_tells_both_versions(lines):
    fault = only(*lines)
    assert fault.kind is FaultKind.MISMATCH
    assert "550.54.14" in fault.text
    assert "535.161.08" in fault.text
    assert "make sure" not in fault.text


def test_the_same_mismatch_is_counted():
    fault = only(*MISMATCH, *MISMATCH)
    assert (fault.repeated, "535.161.08" in fault.text) == (2, True)
    other = [line.replace("550.54.14", "560.28.03") for line in MISMATCH]
    assert [fault.repeated for fault in read(*MISMATCH, *other, *MISMATCH)] == [2, 1]


def test_an_identity_gives_its_uuid_to_later_faults_of_that_gpu():
    before, other, after = read(CONTAINED, IDENTITY, FELL, CONTAINED.replace("94", "95"))
    assert [before.uuid, other.uuid, after.uuid] == ["", "", UUID]


def test_what_was_said_before_is_remembered_from_stretch_to_stretch():
    log = KernelLog()
    assert log.faults([(1, 0.0, IDENTITY), (2, 0.0, SILENT[0]), (3, 0.0, SILENT[1])]) == []
    gone, contained = log.faults([(4, 0.0, SILENT[2]), (5, 0.0, CONTAINED)])
    assert (gone.pci, gone.sequence) == ("0000:18:00.0", 4)
    assert contained.uuid == UUID


def test_the_same_again_is_counted_not_listed():
    first, other = read(CONTAINED, CONTAINED, FELL, CONTAINED)
    assert (first.sequence, first.repeated, other.code, other.repeated) == (0, 3, 79, 1)
    assert [fault.repeated for fault in read(CONTAINED, CONTAINED.replace("0f", "10"))] == [1, 1]


def test_a_storm_keeps_some_texts_and_the_count():
    line = (
        "NVRM: Xid (PCI:0000:0f:00): 31, pid=7, name=python3, MMU Fault: faulted @ 0x7fc1_{:08x}. ACCESS_TYPE_VIRT_READ"
    )
    faults = read(*(line.format(number) for number in range(1000)))
    assert len(faults) == MOST_DISTINCT
    assert sum(fault.repeated for fault in faults) == 1000


def test_text_is_made_printable_and_short():
    line = CONTAINED.replace("python3", "\x1b[31mred\x07\u202e\ud800\t") + "x" * 1000
    text = only(line).text
    assert text.isprintable()
    assert len(text) == MOST_TEXT
    assert msgspec.json.encode(only(line))


FILLERS = [
    "x",
    " ",
    "(",
    ")",
    "0",
    "[",
    ": ",
    ", ",
    "0x0 ",
    "<3>",
    "\n",
    "\\x0a",
    "NVRM: ",
    "Fatal ",
    "Fatal XC0 i0 Link 0 (",
    "GPU-I:05 ",
    "from 0x0 (",
    "Data {",
]


@pytest.mark.parametrize("filler", [*FILLERS, f"{SILENT[0]}\n"])
@pytest.mark.parametrize(
    "start", ["", "NVRM: Xid (", LINK5[:-1], LINK[:-1], CHANGED[:-1], SWITCH, SILENT[0], IDENTITY[:-3]]
)
def test_a_megabyte_is_read_no_further_than_a_line_goes(start, filler):
    text = start + filler * (2**20 // len(filler))
    assert read(text) == read(text[:MOST_LINE])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real line with some of its stretches replaced, doubled or lost."""
    line = draw(st.sampled_from(REAL))
    for _ in range(draw(st.integers(1, 4))):
        begin, end = sorted(draw(st.tuples(*itertools.repeat(st.integers(0, len(line)), 2))))
        line = (
            line[:begin]
            + draw(st.sampled_from(["", line[begin:end] * 2, "\n", "0x", "-1", "Fatal", "é"]) | st.text())
            + line[end:]
        )
    return line


@given(st.lists(mutated() | st.text() | st.sampled_from(REAL), max_size=8))
def test_no_text_raises_and_every_fault_can_be_sent(texts):
    faults = read(*texts)
    assert msgspec.json.decode(msgspec.json.encode(faults), type=list[Fault]) == faults
    assert all(fault.text.isprintable() and 0 < len(fault.text) <= MOST_TEXT for fault in faults)
    assert all(fault.code is not None or fault.kind in (FaultKind.OFF_BUS, FaultKind.MISMATCH) for fault in faults)
