"""The verdict of one fault: NVIDIA's buckets, what others say, and what a site says instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import xid
from fleet.domain.gpus import DeviceState, Fault, FaultKind, GpuAction
from fleet.domain.xid_catalogue import AUTHORITIES, ENTRIES, OPINIONS, Bucket, Family, opinions

PCI = "0000:01:00.0"


def fault(code: int | None = None, kind: FaultKind = FaultKind.XID, **more: object) -> Fault:
    return Fault(kind=kind, at=0.0, code=code, **{"pci": PCI, **more})


def verdict(line: str) -> xid.Classed:
    (found,) = xid.line_faults([(0, 0.0, line)])
    return xid.classify(found)


def severest(*classed: xid.Classed) -> GpuAction:
    order = list(GpuAction)
    return max((each.action for each in classed), key=order.index)


# Reference, section 3.1: NVIDIA's immediate and investigate columns, and the class.
TABLE = """
13 RESTART_APP WORKFLOW_XID_13 app
31 RESTART_APP WORKFLOW_XID_31 app
32 RESTART_APP CHECK_APP/CUDA app
38 IGNORE CONTACT_SUPPORT monitor
43 IGNORE CONTACT_SUPPORT monitor
44 IGNORE CONTACT_SUPPORT monitor
46 RESET_GPU CONTACT_SUPPORT reset
48 WORKFLOW_XID_48 WORKFLOW_XID_48 reset
54 CHECK_MECHANICALS CONTACT_SUPPORT hardware
61 CONTACT_SUPPORT - hardware
62 RESET_GPU CONTACT_SUPPORT reset
63 IGNORE IGNORE remap
64 RESET_GPU CONTACT_SUPPORT reset
68 RESTART_APP CONTACT_SUPPORT app
69 RESTART_APP CHECK_APP/CUDA app
74 WORKFLOW_NVLINK_ERR CONTACT_SUPPORT decode
78 UPDATE_SWFW UPDATE_SWFW software
79 RESTART_BM CONTACT_SUPPORT lost
92 IGNORE CONTACT_SUPPORT monitor
93 IGNORE CONTACT_SUPPORT monitor
94 RESTART_APP IGNORE_(sympathetic) app
95 RESET_GPU IGNORE_(sympathetic) reset
109 RESET_GPU CONTACT_SUPPORT reset
110 RESET_GPU INVESTIGATE_SW reset
119 RESET_GPU INVESTIGATE_SW reset
120 RESET_GPU INVESTIGATE_SW reset
121 IGNORE CONTACT_SUPPORT monitor
136 RESET_GPU INVESTIGATE_LINK_SI reset
137 IGNORE XID_137_FLOW app
140 RESET_GPU CONTACT_SUPPORT reset
141 IGNORE CONTACT_SUPPORT monitor
142 CONTACT_SUPPORT - hardware
143 RESET_GPU CONTACT_SUPPORT reset
144 WORKFLOW_NVLINK5_ERR WORKFLOW_NVLINK5_ERR decode
150 WORKFLOW_NVLINK5_ERR WORKFLOW_NVLINK5_ERR decode
151 RESTART_VM CONTACT_SUPPORT reboot
155 RESET_GPU INVESTIGATE_SW_USER reset
156 RESET_GPU IGNORE reset
157 IGNORE CONTACT_SUPPORT monitor
158 RESET_GPU CONTACT_SUPPORT reset
160 IGNORE INVESTIGATE_SW monitor
161 IGNORE INVESTIGATE_SW monitor
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_the_catalogue_has_nvidias_buckets(row):
    code, immediate, investigate, family = row.split()
    entry = ENTRIES[int(code)]
    assert entry.immediate == immediate
    assert entry.investigate == investigate.replace("-", "").replace("_(", " (")
    assert entry.family == family


@pytest.mark.parametrize(
    ("code", "state", "action", "standing"),
    [
        (13, DeviceState.APP_FAULT, GpuAction.RESTART_APP, False),
        (94, DeviceState.APP_FAULT, GpuAction.RESTART_APP, False),
        (137, DeviceState.APP_FAULT, GpuAction.MONITOR, False),
        (43, DeviceState.OK, GpuAction.MONITOR, False),
        (157, DeviceState.OK, GpuAction.MONITOR, False),
        (45, DeviceState.OK, GpuAction.MONITOR, False),
        (78, DeviceState.OK, GpuAction.MONITOR, False),
        (159, DeviceState.OK, GpuAction.MONITOR, False),
        (48, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, True),
        (62, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, True),
        (95, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, True),
        (156, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, True),
        (74, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU, True),
        (151, DeviceState.REBOOT_REQUIRED, GpuAction.REBOOT_NODE, True),
        (79, DeviceState.LOST, GpuAction.REBOOT_NODE, True),
        (54, DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, True),
        (61, DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, True),
        (142, DeviceState.HARDWARE_SERVICE, GpuAction.CONTACT_SUPPORT, True),
    ],
)
def test_a_bucket_gives_state_and_action(code, state, action, standing):
    classed = xid.classify(fault(code))
    assert (classed.rule, classed.state, classed.action, classed.standing) == (f"xid-{code}", state, action, standing)
    assert classed.known
    assert classed.subject == ENTRIES[code].subject
    assert not classed.soft


def test_every_row_of_the_catalogue_can_be_classed():
    for code, entry in ENTRIES.items():
        classed = xid.classify(fault(code))
        assert classed.state is not DeviceState.UNKNOWN
        assert classed.standing <= (classed.state not in (DeviceState.OK, DeviceState.APP_FAULT) or classed.soft)
        assert (entry.immediate is Bucket.RESTART_APP) == (entry.family is Family.APP and code != 137)


def test_a_recorded_remap_waits_for_a_reset_and_the_gpu_stays_in_service():
    classed = xid.classify(fault(63))
    assert (classed.state, classed.action, classed.soft, classed.standing) == (
        DeviceState.OK,
        GpuAction.MONITOR,
        True,
        True,
    )


@pytest.mark.parametrize("code", [0, 12, 162, 172, 173, 176, 999, None])
def test_a_code_that_nobody_listed_is_shown_and_not_fatal(code):
    classed = xid.classify(fault(code))
    assert (classed.subject, classed.known, classed.standing) == ("unclassified", False, False)
    assert (classed.state, classed.action) == (DeviceState.OK, GpuAction.MONITOR)


def test_a_contained_error_reaches_only_its_mig_instance():
    """Case T1, as far as the log goes."""
    lines = (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=2503421, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:0000:01:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping",
    )
    contained, remap = xid.line_faults((i, 0.0, line) for i, line in enumerate(lines))
    assert (contained.gi, xid.classify(contained).scope, xid.classify(contained).state) == (
        5,
        xid.Scope.INSTANCE,
        "app-fault",
    )
    assert xid.classify(contained).action is GpuAction.RESTART_APP
    assert (xid.classify(remap).scope, xid.classify(remap).soft) == (xid.Scope.GPU, True)


@pytest.mark.parametrize("code", [48, 79, 95, 63])
def test_what_needs_a_reset_reaches_all_instances(code):
    assert xid.classify(fault(code, gi=5)).scope is xid.Scope.GPU


def test_a_fault_of_no_known_gpu_is_the_nodes():
    assert xid.classify(fault(79, pci="")).scope is xid.Scope.NODE
    assert xid.classify(fault(79, pci="", uuid="GPU-1")).scope is xid.Scope.GPU


@pytest.mark.parametrize(
    ("code", "state", "action"),
    [
        (0, DeviceState.OK, GpuAction.NONE),
        (1, DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        (2, DeviceState.REBOOT_REQUIRED, GpuAction.REBOOT_NODE),
        (3, DeviceState.DEGRADED, GpuAction.DRAIN_PEERS),
        (4, DeviceState.RESET_REQUIRED, GpuAction.DRAIN_AND_RESET),
        (5, DeviceState.OK, GpuAction.RECOVER_IMEX),
        (6, DeviceState.RESET_REQUIRED, GpuAction.RESET_BUS),
        (7, DeviceState.REBOOT_REQUIRED, GpuAction.REBOOT_NODE),
        (8, DeviceState.UNKNOWN, GpuAction.CONTACT_SUPPORT),
        (9, DeviceState.UNKNOWN, GpuAction.CONTACT_SUPPORT),
        (-1, DeviceState.UNKNOWN, GpuAction.CONTACT_SUPPORT),
    ],
)
def test_a_recovery_action(code, state, action):
    assert xid.recovery(code) == (state, action)
    classed = xid.classify(fault(154, recovery=(0, code)))
    assert (classed.state, classed.action, classed.standing) == (state, action, code != 0)


def test_the_more_severe_of_two_authorities():
    """Case T9: the driver publishes a reset after a GPU fell off the bus, the catalogue wants a reboot."""
    fell = verdict("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.")
    changed = verdict(
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    )
    assert severest(fell, changed) is GpuAction.REBOOT_NODE
    assert fell.state is DeviceState.LOST
    assert changed.clears == ()


def test_a_recovery_action_that_is_gone_clears_its_own_evidence_only():
    cleared = verdict(
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    )
    assert cleared.clears == ("xid-154", xid.RECOVERY_FIELD)
    assert not cleared.standing


def test_a_domains_recovery_is_not_this_gpus():
    assert xid.classify(fault(154, recovery=(0, 5))).scope is xid.Scope.DOMAIN


def test_a_recovery_action_without_its_text_decides_and_clears_nothing():
    classed = xid.classify(fault(154, source="dcgm"))
    assert (classed.action, classed.standing, classed.clears) == (GpuAction.MONITOR, False, ())


@pytest.mark.parametrize(
    ("line", "state", "action"),
    [
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x026001c6 0x0)", DeviceState.OK, GpuAction.MONITOR),
        ("145, RLW_REMAP Nonfatal XC1 i0 Link 00 (0x4 0x1)", DeviceState.APP_FAULT, GpuAction.RESTART_APP),
        ("145, RLW_REMAP Fatal XC1 i0 Link 00 (0x4 0x40)", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        ("146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 01 (0xa 0x4)", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        ("150, MSE Fatal XC0 i0 Link -1 (0x0 0x0)", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        # Registers in no row: the line's own word counts.
        ("147, TREX Fatal XC0 i0 Link 01 (0xe 0x40)", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
        ("147, TREX Nonfatal XC0 i0 Link 01 (0xe 0x40)", DeviceState.OK, GpuAction.MONITOR),
        ("149, a shape that is not known", DeviceState.OK, GpuAction.MONITOR),
        (
            "74, NVLink: fatal error detected on link 6(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            DeviceState.OK,
            GpuAction.MONITOR,
        ),
        ("74, a shape that is not known", DeviceState.RESET_REQUIRED, GpuAction.RESET_GPU),
    ],
)
def test_registers_decide_about_links(line, state, action):
    classed = verdict(f"NVRM: Xid (PCI:0000:01:00): {line}")
    assert (classed.state, classed.action) == (state, action)
    assert classed.standing == (state is DeviceState.RESET_REQUIRED)


def test_a_decoded_error_names_its_unit():
    classed = verdict("NVRM: Xid (PCI:0000:01:00): 146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 01 (0xa 0x4)")
    assert classed.subject == "NVLink 5 error in TLW: TLW_RX_PIPE0"
    assert (classed.immediate, classed.investigate) == ("RESET_GPU", "CONTACT_SUPPORT")


@pytest.mark.parametrize(
    ("severity", "state", "action"),
    [
        ("Fatal", DeviceState.RESET_REQUIRED, GpuAction.DRAIN_AND_RESET),
        ("Non-fatal", DeviceState.OK, GpuAction.MONITOR),
        ("Whatever", DeviceState.OK, GpuAction.MONITOR),
    ],
)
def test_an_error_of_a_switch(severity, state, action):
    classed = verdict(f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, {severity}, Link 30 LTSSM Fault Up")
    assert (classed.rule, classed.state, classed.action) == ("sxid-20034", state, action)
    assert (classed.scope, classed.standing) == (xid.Scope.NODE, severity == "Fatal")


def test_gone_without_an_xid_is_as_lost_as_with_one():
    gone = verdict("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.")
    assert (gone.rule, gone.state, gone.action, gone.standing) == ("off-bus", "lost", "reboot-node", True)


def test_a_mismatch_is_a_programs_and_says_nothing_against_a_gpu():
    classed = verdict("NVRM: API mismatch: the client has the version 550.54.14, but")
    assert (classed.rule, classed.state, classed.standing, classed.scope) == ("api-mismatch", "ok", False, "node")


def test_a_site_may_say_otherwise():
    site = xid.catalogue(
        {
            "94": {"state": "reset-required", "action": "reset-gpu"},
            "109": {"state": "ok", "action": "monitor"},
            "200": {"state": "hardware-service", "action": "contact-support"},
            "149": {"state": "app-fault", "action": "restart-app"},
        }
    )
    strict = xid.classify(fault(94, gi=5), site)
    assert (strict.state, strict.action, strict.standing) == ("reset-required", "reset-gpu", True)
    assert (strict.source, strict.immediate, strict.scope) == (xid.SITE_SOURCE, "RESTART_APP", "gpu")
    mild = xid.classify(fault(109), site)
    assert (mild.state, mild.action, mild.standing) == ("ok", "monitor", False)
    own = xid.classify(fault(200), site)
    assert (own.state, own.subject, own.known) == ("hardware-service", "unclassified", True)
    assert xid.classify(fault(149, gi=1, words=(0x004505C6, 0)), site).scope is xid.Scope.INSTANCE
    assert xid.classify(fault(95), site) == xid.classify(fault(95))


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ({"xid-94": {"state": "ok", "action": "none"}}, ["'xid-94'", "number"]),
        ({"0": {"state": "ok", "action": "none"}}, ["'0'", "number"]),
        ({"154": {"state": "ok", "action": "none"}}, ['"154"', "any other Xid"]),
        ({"94": "reset-gpu"}, ['"94"', "table", "state, action"]),
        ({"94": {"state": "ok"}}, ['"94"', "action is missing", "reset-gpu"]),
        ({"94": {"action": "none"}}, ['"94"', "state is missing", "reset-required"]),
        ({"94": {"state": "broken", "action": "none"}}, ['"94"', "'broken'", "reset-required"]),
        ({"94": {"state": "unknown", "action": "none"}}, ['"94"', "'unknown'", "reset-required"]),
        ({"94": {"state": "ok", "action": "reboot"}}, ['"94"', "'reboot'", "reboot-node"]),
        ({"94": {"state": ["ok"], "action": "none"}}, ['"94"', "state", "reset-required"]),
        ({"94": {"state": "ok", "action": "none", "sate": "ok"}}, ['"94"', "'sate'", "state, action"]),
    ],
)
def test_a_wrong_override_says_where_and_what_is_allowed(overrides, names):
    with pytest.raises(ValueError, match="allowed") as raised:
        xid.catalogue(overrides)
    assert all(name in str(raised.value) for name in names)


def test_sources_disagree():
    assert opinions(109) == {
        "NVIDIA": "reset GPU",
        "gpud": "no action",
        "NVIDIA device plugin": "skipped",
        "EKS": "fatal",
        "GCM": "not critical",
    }
    assert opinions(79) == {}
    assert all(len(row) == len(AUTHORITIES) and code in ENTRIES for code, row in OPINIONS.items())


@given(
    st.builds(
        Fault,
        kind=st.sampled_from(FaultKind),
        at=st.floats(allow_nan=False),
        pci=st.sampled_from(["", PCI]),
        code=st.none() | st.integers(0, 200) | st.integers(),
        gi=st.none() | st.integers(0, 14),
        fatal=st.none() | st.booleans(),
        words=st.lists(st.integers(0, 2**32 - 1), max_size=8).map(tuple),
        recovery=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    )
)
def test_any_fault_has_a_verdict_and_only_a_clear_clears(given_fault):
    classed = xid.classify(given_fault)
    assert classed.rule
    assert classed.subject
    assert bool(classed.clears) == (
        given_fault.kind is FaultKind.XID and given_fault.code == 154 and (given_fault.recovery or (0, 1))[1] == 0
    )
    assert classed.action is not GpuAction.NONE or classed.clears
