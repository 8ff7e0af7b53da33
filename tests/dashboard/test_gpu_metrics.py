"""What Prometheus reads of single GPUs and of readings: numbers only, and quickly."""

import msgspec
import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from dashboard import gpu_metrics
from dashboard.door import door
from fleet import live
from fleet.domain.picture import EMPTY, FindingRow, GpuRow, NodeRow
from fleet.live import Received, Worker
from tests.dashboard.pictures import nodes
from tests.fleet import readings


def samples(body: bytes) -> dict[tuple, float]:
    families = text_string_to_metric_families(body.decode())
    return {(s.name, s.labels["gpu"]): s.value for family in families for s in family.samples if "gpu" in s.labels}


def snapshot(*rows: GpuRow):
    found = {row.uuid or f"{row.node}/{row.pci}": row for row in rows}
    return msgspec.structs.replace(EMPTY, nodes={"n": NodeRow("n", product="H100")}, gpus=found)


ONE = GpuRow(
    "n",
    3,
    "GPU-a",
    utilization_pct=97,
    memory_used_mib=0,
    temperature_c="n/a",
    power_w=None,
    remap=(1, 0, "n/a", None),
    state="lost",
    reason="xid-79",
    action="reboot-node",
    read_at=5.5,
    findings=(FindingRow("xid-79", "kernel-log", "lost", "reboot-node", 1, 1),),
)


def test_only_numbers_are_samples():
    found = samples(gpu_metrics.gpus({"paris": snapshot(ONE)}))
    assert found["vigie_gpu_utilization_percent", "GPU-a"] == 97
    assert found["vigie_gpu_memory_used_mib", "GPU-a"] == 0, "0 is a number"
    assert found["vigie_gpu_remap_corrected", "GPU-a"] == 1
    assert found["vigie_gpu_read_timestamp_seconds", "GPU-a"] == 5.5
    assert found["vigie_gpu_findings", "GPU-a"] == 1
    for name in ("temperature_celsius", "power_watts", "remap_pending", "remap_failure"):
        assert (f"vigie_gpu_{name}", "GPU-a") not in found


def test_its_labels_say_which_and_its_state_why():
    text = gpu_metrics.gpus({"paris": snapshot(ONE)}).decode()
    (line,) = [line for line in text.splitlines() if line.startswith("vigie_gpu_state{")]
    labels = 'cluster="paris",node="n",gpu="GPU-a",index="3",product="H100",state="lost",action="reboot-node",reason="xid-79"'
    assert line == f"vigie_gpu_state{{{labels}}} 1"


def test_a_gpu_without_a_uuid_is_named_by_its_address_and_hostile_text_breaks_nothing():
    odd = GpuRow('n"\\\n', 0, pci="0000:01:00.0", utilization_pct=1)
    found = samples(gpu_metrics.gpus({'a"b\n': snapshot(odd)}))
    assert found["vigie_gpu_utilization_percent", "0000:01:00.0"] == 1


def test_nothing_is_said_of_nothing():
    assert gpu_metrics.gpus({}) == b""
    assert gpu_metrics.readings([]) == b""


@pytest.mark.db
@pytest.mark.broker
@pytest.mark.django_db
def test_readings_on_their_way(writer):
    cluster = writer.cluster
    writer.publish(msgspec.structs.replace(nodes(1), gpus={"GPU-a": ONE}))
    for sequence in (1, 2):
        live.gpus().offer(cluster, Received(1.0, readings.reading(sequence=sequence)))
    live.gpus().say(cluster, Worker(9.0, readings=7, unreadable=1, lag_s=0.25, spent_s=0.5, owed=3))
    door.refused[cluster, "replayed"] += 4
    response = Client().get("/metrics")
    families = text_string_to_metric_families(response.content.decode())
    found = {
        (s.name, *(v for k, v in s.labels.items() if k != "cluster")): s.value
        for family in families
        for s in family.samples
        if s.labels.get("cluster") == cluster
    }
    assert found[("vigie_readings_waiting",)] == 2
    assert found[("vigie_readings_lag_seconds",)] == 0.25
    assert found[("vigie_readings_assessed_total",)] == 7
    assert found[("vigie_readings_unreadable_total",)] == 1
    assert found[("vigie_ledger_owed",)] == 3
    assert found["vigie_readings_refused_total", "replayed"] == 4
    assert ("vigie_gpu_utilization_percent", "n", "GPU-a", "3", "") in found
