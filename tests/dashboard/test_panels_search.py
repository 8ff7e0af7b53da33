"""The search's rules: every word, any case, the best match first, never more than a page."""

import pytest
from django.utils import translation

from dashboard.panels import search, words
from fleet.domain.picture import EMPTY, NodeRow, PodRow, Snapshot, WorkloadRow
from fleet.domain.save_picture import CheckpointRow
from tests.browser import demo


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


def found(snapshot: Snapshot, text: str) -> dict[str, list[str]]:
    return {hits.kind: [hit.name for hit in hits.hits] for hits in search.search(snapshot, text)}


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_nothing_typed_finds_nothing(text):
    assert search.search(demo.snapshot(), text) == []


def test_exact_names_come_first_then_beginnings_then_the_order_of_counting():
    names = ("my-node-1", "node-10", "node-1", "NODE-1b", "node-2")
    snapshot = demo.replaced(EMPTY, nodes={name: NodeRow(name) for name in names})
    assert found(snapshot, "Node-1") == {"nodes": ["node-1", "NODE-1b", "node-10", "my-node-1"]}


def test_every_word_must_be_in_the_name_with_its_namespace():
    pods = {
        f"{space}/{name}": PodRow("u", space, name)
        for space, name in (("ml", "train-0"), ("ops", "train-0"), ("ml", "serve-0"))
    }
    snapshot = demo.replaced(EMPTY, pods=pods)
    assert [hits.total for hits in search.search(snapshot, "train ml")] == [1]
    assert found(snapshot, "ml") == {"pods": ["serve-0", "train-0"], "namespaces": ["ml"]}


def test_a_workload_is_found_by_name_not_by_its_kind():
    row = WorkloadRow("Deployment", "ml", "chat", gpus=2)
    snapshot = demo.replaced(EMPTY, workloads={"Deployment/ml/chat": row})
    assert found(snapshot, "deployment") == {}
    (hits,) = search.search(snapshot, "ml/chat")
    assert hits.hits[0].target == "Deployment/ml/chat"
    assert words.plain(hits.hits[0].note, 0) == "ml · Deployment · 2 GPUs"


def test_no_more_than_a_page_of_each_kind():
    snapshot = demo.replaced(EMPTY, nodes={f"n{i}": NodeRow(f"n{i}") for i in range(search.MOST + 7)})
    (hits,) = search.search(snapshot, "n")
    assert (len(hits.hits), hits.total) == (search.MOST, search.MOST + 7)
    assert words.plain(hits.more, 0) == "7 more: type more of the name."


@pytest.mark.parametrize(("text", "asks"), [("GPU-5fd4", True), (" gpu-", True), ("my-gpu-node", False), ("", False)])
def test_the_identity_of_a_gpu_is_recognised(text, asks):
    assert search.asks_for_a_gpu(text) is asks


def test_what_trains_is_found_by_where_and_how_it_saves_and_how_that_stands():
    snapshot = demo.replaced(EMPTY, checkpoints=demo.snapshot().checkpoints)
    assert found(snapshot, "pvc://ml/ckpt") == {"checkpoints": ["diffusion-xl-ft", "speech-enc-1b"]}
    assert found(snapshot, "/scratch") == {"checkpoints": ["vision-pretrain-3b"]}
    assert found(snapshot, "torch-dcp") == {"checkpoints": ["diffusion-xl-ft"]}
    assert found(snapshot, "stale") == {"checkpoints": ["speech-enc-1b", "vision-pretrain-3b"]}
    assert found(snapshot, "stopped saving") == {"checkpoints": ["vision-pretrain-3b"]}
    (hits,) = search.search(snapshot, "not-granted")
    assert [(hit.target, words.plain(hit.note, 0)) for hit in hits.hits] == [
        ("Deployment/ml/graph-rank", "ml · not granted · s3://search/rank")
    ]
    said = CheckpointRow("Job/ml/said", "ml", standing="reported", reported_at=1_000.0)
    (hits,) = search.search(demo.replaced(EMPTY, checkpoints={said.workload: said}), "said")
    assert words.plain(hits.hits[0].note, 1_120) == "ml · reported · 2 min old"
    with translation.override("fr"):
        assert found(snapshot, "en retard") == {"checkpoints": ["speech-enc-1b"]}
