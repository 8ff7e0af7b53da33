"""GPUs in words: three values that are never mixed up, words for all that the domain can say, and commands in a safe order."""

import msgspec
import pytest
from django.utils import translation

from dashboard.panels import gpu, gpus, help_gpus, search, verdict, words
from dashboard.panels.words import MESSAGES
from fleet.domain import health, windows, xid_catalogue
from fleet.domain.gpus import NA, DeviceState, GpuAction
from fleet.domain.picture import EMPTY, GpuRow, InstanceRow, NodeRow
from tests.browser import demo, demo_gpus

NODE = NodeRow("n", measured=True)
MEASURED = (
    "utilization_pct",
    "memory_used_mib",
    "temperature_c",
    "power_w",
    "sm_clock_mhz",
    "ecc_corrected",
    "ecc_uncorrected",
)


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


def told(value: words.Value) -> str:
    return words.plain(value, demo.NOW)


def test_all_that_the_domain_can_say_has_words():
    needed = {f"device.{state}" for state in DeviceState} | {f"verdict.{state}" for state in DeviceState}
    needed |= {f"help.device.{state}" for state in DeviceState} | {f"action.{action}" for action in GpuAction}
    needed |= {f"rule.{token}" for token in (*health.RULES, "off-bus", "api-mismatch")}
    needed |= {f"clock.{reason}" for reason in windows.REASONS.values()}
    needed |= {f"source.{source}" for source in ("nvml", "kernel-log", "dcgm", "kubernetes")}
    assert sorted(needed - set(MESSAGES)) == []


@pytest.mark.parametrize(("rule", "said"), [
    ("xid-79", "Xid 79"), ("xid", "Xid without a number"), ("sxid-12028", "SXid 12028"), ("sxid-None", "SXid without a number"),
    ("remap-pending", "Row remap pending"),
])  # fmt: skip
def test_rules_by_name_and_by_number(rule, said):
    assert told(gpus.rule(rule)) == said


@pytest.mark.parametrize(("value", "said"), [(None, "unknown"), (NA, "N/A"), (0, "0")])
def test_a_number_not_applicable_and_unknown_are_three_words(value, said):
    row = GpuRow("n", 0, state="ok", **dict.fromkeys(MEASURED, value), remap=(value,) * 4, power_limit_w=None)
    (shown,) = gpus.table([row], NODE).rows
    cells = {column: told(words_) for column, words_ in shown.cells.items()}
    for column in ("now", "memory", "temperature", "power", "ecc"):
        assert cells[column].startswith(said), column
        assert ("0" in cells[column]) == (value == 0), column
    measured = {fact.id: told(fact.words) for fact in gpu.measures(row)}
    assert (measured["remaps"] == said) == (value != 0)
    assert cells["clocks"] == ("none" if value == 0 else said)


@pytest.mark.parametrize(("facts", "cell", "said"), [
    ({"state": "ok", "pods": ("a/b",), "utilization_pct": 97}, ("busy", "5"), "Busy"),
    ({"state": "ok", "pods": ("a/b",), "utilization_pct": NA}, ("busy", ""), "Busy"),
    ({"state": "ok", "pods": ("a/b",), "utilization_pct": 0, "idle_since_at": 1.0}, ("idle", ""), "Allocated, idle"),
    ({"state": "ok", "pods": ()}, ("free", ""), "Free"),
    ({"state": "ok", "pods": None, "users": 1, "utilization_pct": 41}, ("busy", "2"), "Busy"),
    ({"state": "app-fault", "pods": ("a/b",), "utilization_pct": 5}, ("busy", "0"), "Application fault"),
    ({"state": "degraded"}, ("degraded", ""), "Degraded"),
    ({"state": "reset-required", "soft": True}, ("degraded", ""), "Reset required"),
    ({"state": "reset-required"}, ("failed", ""), "Reset required"),
    ({"state": "lost"}, ("failed", ""), "Lost"),
    ({"state": "unknown"}, ("unknown", ""), "Unknown"),
])  # fmt: skip
def test_cells_and_words_of_a_state(facts, cell, said):
    row = GpuRow("n", 0, **facts)
    assert gpus.cell(row, NODE) == cell
    assert told(gpus.state(row, NODE)) == said


def test_nothing_is_free_on_a_closed_node():
    row = GpuRow("n", 0, state="ok", pods=())
    for unschedulable, said in ((True, "Cordoned or tainted"), (False, "Tainted")):
        closed = NodeRow("n", usable=False, unschedulable=unschedulable)
        assert gpus.cell(row, closed) == ("cordoned", "")
        assert told(gpus.state(row, closed)) == said


@pytest.mark.parametrize("action", list(GpuAction))
def test_no_command_touches_a_gpu_before_its_node_is_empty(action):
    row = GpuRow("node-1", 3, "GPU-a", state="lost", action=action, reason="xid-79", pods=("ml/train-0",))
    commands = [step.command for step in verdict.steps(row)]
    dangerous = [i for i, command in enumerate(commands) if "--gpu-reset" in command or "reboot" in command]
    drains = [i for i, command in enumerate(commands) if command.startswith("kubectl drain node-1 ")]
    assert all(drains and drains[0] < i for i in dangerous)
    assert not any("--force" in command or "--delete-emptydir-data" in command for command in commands)
    assert all(told(step.words) for step in verdict.steps(row))
    assert told(verdict.verdict(row).action)


def test_a_reset_names_its_gpu_by_identity():
    row = GpuRow("node-1", 3, "GPU-a", state="reset-required", action=GpuAction.RESET_GPU)
    assert "nvidia-smi --gpu-reset -i GPU-a" in [step.command for step in verdict.steps(row)]


def test_the_sentence_says_the_cause_first():
    row = demo_gpus.gpus(demo.node(demo_gpus.TROUBLED), demo.NOW)[demo_gpus.uuid("node-12", 6)]
    assert told(verdict.sentence(row)) == "Xid 79. The driver cannot reach it any more."
    (finding,) = verdict.findings(row).rows
    assert told(finding.cells["evidence"]) == "Xid (PCI:0000:1d:00): 79, GPU has fallen off the bus."


def test_help_has_every_rule_and_every_error_with_its_source():
    assert [entry.labels for entry in help_gpus.rules()] == [(token,) for token in health.RULES]
    assert all(told(entry.meaning) for entry in help_gpus.rules())
    errors = {told(entry.name): told(entry.meaning) for entry in help_gpus.errors()}
    assert len(errors) == len(xid_catalogue.ENTRIES)
    assert "NVIDIA: RESTART_BM" in errors["Xid 79"]
    assert "GKE: critical" in errors["Xid 119"]


@pytest.mark.parametrize("text", [
    "GPU-abc", "gpu-ABC-1", "16500", "0000:8d:00.0", "00000000:8D:00.0", "8d:00", "MIG-77",
])  # fmt: skip
def test_a_gpu_is_found_by_whatever_names_it(text):
    row = GpuRow("n", 0, "GPU-abc-1", "0000:8d:00.0", "H100", "16500", state="ok", instances=(InstanceRow("MIG-77"),))
    other = msgspec.structs.replace(row, uuid="GPU-x", pci="0000:8e:00.0", serial="2", instances=())
    snapshot = demo.replaced(EMPTY, gpus={"GPU-abc-1": row, "GPU-x": other})
    (hits,) = search.search(snapshot, text)
    assert (hits.kind, [hit.target for hit in hits.hits]) == ("gpus", ["GPU-abc-1"])


@pytest.mark.parametrize("state", ["lost", "unknown"])
def test_what_a_gpu_measured_before_it_fell_silent_is_not_now(state):
    row = GpuRow("n", 0, state=state, read_at=demo.NOW - 90, remap=(1, 1, 0, 0), clock_reasons=("idle",),
                 **dict.fromkeys(MEASURED, 94))  # fmt: skip
    (shown,) = gpus.table([row], NODE).rows
    for column in ("now", "memory", "temperature", "power", "ecc", "clocks"):
        assert told(shown.cells[column]) == "unknown", column
    assert told(shown.small["ecc"]) == "remaps unknown"
    assert told({fact.id: fact.words for fact in gpu.measures(row)}["utilization"]) == "94\u00a0%"
    assert told(gpus.read_at([row])) == "read 1 min ago"
