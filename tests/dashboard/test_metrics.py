"""What Prometheus reads: numbers of every cluster, our own lags, bounded labels, and who may ask."""

import time

import msgspec
import pytest
from django.db import transaction
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from dashboard import tokens
from dashboard.metrics import MOST, OTHER, bounded
from fleet import live
from fleet.act import audit
from fleet.domain.picture import AttentionRow, FleetRow, NodeRow, ProductRow, Resource
from fleet.domain.save_picture import CheckpointRow
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db]


def scrape(client: Client | None = None, **headers: str) -> dict[tuple, float]:
    """Samples by (name, values of the labels in the order of their names)."""
    response = (client or Client()).get("/metrics", headers=headers)
    assert response.status_code == 200, response.content
    families = text_string_to_metric_families(response.content.decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def gpu_node(name: str, pool: str, free: int, *, usable: bool = True) -> NodeRow:
    resource = Resource("nvidia.com/gpu", 8, 8, 8 - free, free, 0)
    return NodeRow(name=name, pool=pool, usable=usable, resources=(resource,))


def test_the_end_of_the_audit_is_told_outside_of_it():
    before = scrape()["vigie_audit_entries",]
    with transaction.atomic():
        entry = audit.append(audit.Entry(1.0, "olga", "web", "proposed", "par"))
    found = scrape()
    assert found["vigie_audit_entries",] == before + 1 == entry.number
    assert found["vigie_audit_head_info", entry.hash] == 1


def test_the_fleets_numbers(writer):
    cluster = writer.cluster
    fleet = FleetRow(
        nodes=3, gpu_nodes=2, nodes_ready=3, gpus=24, available=16, cordoned=8, allocated=9, free=7, waiting_pods=2
    )
    rows = {
        n.name: n
        for n in (gpu_node("a", "train", 3), gpu_node("b", "train", 4), gpu_node("c", "serve", 8, usable=False))
    }
    product = ProductRow("H100", nodes=3, gpus=24, available=16, allocated=9, free=7, largest_hole=4)
    concern = AttentionRow("cordoned", "warn", 8, "c", "c")
    writer.publish(
        msgspec.structs.replace(
            nodes(0), fleet={"fleet": fleet}, nodes=rows, products={"H100": product}, attention={"cordoned:c": concern}
        )
    )
    found = scrape()
    assert found["vigie_gpus", cluster, "available"] == 16
    assert found["vigie_gpus", cluster, "cordoned"] == 8
    assert found["vigie_gpus_allocated", cluster] == 9
    assert found["vigie_pods_waiting", cluster] == 2
    assert found["vigie_nodes", cluster, "ready"] == 3
    assert found["vigie_product_gpus", cluster, "H100", "free"] == 7
    assert found["vigie_gpus_largest_hole", cluster, "H100"] == 4
    assert found["vigie_pool_gpus", cluster, "train", "free"] == 7
    assert found["vigie_pool_gpus", cluster, "serve", "all"] == 8
    assert found["vigie_pool_gpus", cluster, "serve", "free"] == 0
    assert found["vigie_attention", cluster, "cordoned", "warn"] == 1


def test_how_old_the_checkpoints_of_who_trains_are(writer):
    """Of a job that is through nobody expects another one."""
    now, cluster = time.time(), writer.cluster
    rows = (
        CheckpointRow("Job/ml/llm", "ml", standing="stale", newest_at=now - 4_000, target_s=1800.0),
        CheckpointRow("Job/ml/new", "ml", standing="starting"),
        CheckpointRow("Job/ml/done", "ml", standing="resting", newest_at=now - 90_000),
    )
    writer.publish(msgspec.structs.replace(nodes(0), checkpoints={row.workload: row for row in rows}))
    found = scrape()
    ages = {key[1:]: value for key, value in found.items() if key[0] == "vigie_checkpoint_age_seconds"}
    assert list(ages) == [(cluster, "ml", "Job/llm")]
    assert 4_000 <= ages[cluster, "ml", "Job/llm"] < 4_060
    assert found["vigie_checkpoint_interval_seconds", cluster, "ml", "Job/llm"] == 1800
    assert found["vigie_training_workloads", cluster, "stale"] == 1


def test_our_own_lags(writer):
    work = live.Work(events=90, restarts=3, publishes=5, publish_s=0.25, waiting=7)
    pulse = live.Pulse(0.0, (("pods", "silent", 3.0),), 0.0, work)
    assert writer.picture.pulse(writer.cluster, writer.version, pulse)
    found, cluster = scrape(), writer.cluster
    assert found["vigie_watch_events_total", cluster] == 90
    assert found["vigie_watch_restarts_total", cluster] == 3
    assert found["vigie_watch_waiting_events", cluster] == 7
    assert (found["vigie_publish_seconds_count", cluster], found["vigie_publish_seconds_sum", cluster]) == (5, 0.25)
    assert found["vigie_picture_trouble", cluster, "silent", "pods"] == 1
    assert found["vigie_picture_up", cluster] == 0, "its writer said nothing for too long"
    assert ("vigie_picture_age_seconds", cluster) not in found, "unknown is not a number"
    assert "vigie_notices_failed_total" in {name for name, *_ in found}
    assert ("vigie_socket_queue",) in found


def test_every_cluster_and_one_without_a_picture(writer, clusters):
    found = scrape()
    assert found["vigie_picture_up", clusters[0]] == 1
    assert 0 <= found["vigie_picture_age_seconds", clusters[0]] < 5
    assert found["vigie_picture_up", clusters[1]] == 0
    assert ("vigie_gpus_free", clusters[1]) not in found


def test_hostile_words_are_labels_like_any_other(writer):
    name = 'a"} 1\nvigie_fake{x="\\'
    writer.publish(nodes(1, node_01=gpu_node("node-01", name, 8)))
    writer.pulse(trouble=(("pods", "a sentence: with 'quotes' and <b>marks</b>", 1.0),))
    found = scrape()
    assert found["vigie_pool_gpus", writer.cluster, name, "free"] == 8
    assert found["vigie_picture_trouble", writer.cluster, OTHER, "pods"] == 1
    assert not [key for key in found if key[0] == "vigie_fake"]


def test_many_pools_are_bounded_and_nothing_of_them_is_left_out():
    sums = {f"pool-{i}": {"all": i, "free": 1} for i in range(MOST + 10)}
    found = bounded(sums)
    assert len(found) == MOST + 1
    assert found[OTHER] == {"all": sum(range(10)), "free": 10}
    assert bounded({"a": {"all": 1}}) == {"a": {"all": 1}}


def refused(client: Client, **headers: str) -> bool:
    return client.get("/metrics", headers=headers).status_code == 401


def test_whoever_asks_from_elsewhere_or_through_a_proxy_needs_a_token(writer, settings, people):
    assert refused(Client(REMOTE_ADDR="192.0.2.7"))
    assert refused(Client(), **{"x-forwarded-for": "127.0.0.1"})
    assert refused(Client(REMOTE_ADDR="nonsense"))
    assert refused(Client(), authorization="Bearer wrong")
    text, _ = tokens.issue(people["viewer"], "prometheus", 90)
    assert scrape(Client(REMOTE_ADDR="192.0.2.7"), authorization=f"Bearer {text}")
    settings.VIGIE_METRICS_FROM = ("192.0.2.0/24",)
    assert scrape(Client(REMOTE_ADDR="192.0.2.7"))
    assert refused(Client())


def test_a_token_gets_its_own_clusters(writer, clusters, people):
    Writer(clusters[1]).publish(nodes(1))
    text, _ = tokens.issue(people["viewer"], "prometheus", 90, cluster=clusters[1])
    found = scrape(Client(REMOTE_ADDR="192.0.2.7"), authorization=f"Bearer {text}")
    assert {key[1] for key in found if key[0] == "vigie_picture_up"} == {clusters[1]}
