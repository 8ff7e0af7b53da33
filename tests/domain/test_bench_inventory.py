"""How much a fleet of 1,000 nodes and 30,000 pods costs: decoding, the first picture, and a tenth of a second of changes.

Asserted are ratios within one run, so that a busy machine does not matter; `make bench` prints the times.
"""

import json
from itertools import pairwise
from time import process_time

import pytest

from fleet.domain import changes, kube
from fleet.domain.inventory import Inventory
from fleet.domain.kube import Kind, Listed
from tests.domain.cluster import changed, controller, listed, node, owned_by, pod

NODES, PODS, SERVERS = 1_000, 30_000, 1_000
ROUNDS, CHANGES = 50, 10


def web_pod(i: int, version: int = 1, restarts: int = 0) -> dict[str, object]:
    name = f"web-{i % SERVERS}-x"
    made = pod(
        f"{name}-{i}",
        f"node-{i % NODES:04}",
        gpus=1 if i < 7 * NODES else 0,
        ownerReferences=owned_by("ReplicaSet", name),
        resourceVersion=str(version),
        labels={"app": name},
    )
    made["status"]["containerStatuses"][0]["restartCount"] = restarts
    return made


def lists() -> list[Listed]:
    servers = [controller("Deployment", f"web-{i}", 30) for i in range(SERVERS)]
    sets = [
        controller("ReplicaSet", f"web-{i}-x", 30, ownerReferences=owned_by("Deployment", f"web-{i}"))
        for i in range(SERVERS)
    ]
    return [
        listed(Kind.NODE, *(node(f"node-{i:04}") for i in range(NODES))),
        listed(Kind.POD, *(web_pod(i) for i in range(PODS))),
        listed(Kind.DEPLOYMENT, *servers),
        listed(Kind.REPLICA_SET, *sets),
    ]


@pytest.mark.bench
def test_decoding_pods_is_cheaper_than_plain_json() -> None:
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [web_pod(i) for i in range(500)]}).encode()
    start = process_time()
    plain = [json.loads(body) for _ in range(PODS // 500)]
    between = process_time()
    pages = [kube.page(Kind.POD, body) for _ in range(PODS // 500)]
    end = process_time()
    megabytes = len(body) * len(pages) / 1e6
    print(f"\n{PODS} pods, {megabytes:.0f} MB: decoded {end - between:.2f} s, as plain JSON {between - start:.2f} s")
    assert len(plain) == len(pages)
    assert end - between < between - start


@pytest.mark.bench
def test_changes_cost_what_they_touch() -> None:
    made = Inventory()
    for one in lists():
        made.apply(one)
    start = process_time()
    shown = made.snapshot()
    first_s = process_time() - start
    spent = {"apply": 0.0, "snapshot": 0.0, "diff": 0.0}
    for turn in range(ROUNDS):
        pods = [web_pod(i * 97 % PODS, 2 + turn, turn + 1) for i in range(turn * CHANGES, (turn + 1) * CHANGES)]
        events = [changed(found) for found in pods]
        times = [process_time()]
        for event in events:
            made.apply(event)
        times.append(process_time())
        new = made.snapshot()
        times.append(process_time())
        delta = changes.diff(shown, new)
        times.append(process_time())
        for name, (begin, end) in zip(spent, pairwise(times), strict=True):
            spent[name] += (end - begin) / ROUNDS
        assert delta is not None
        assert sum(len(group.ids) for group in delta.tables["pods"].groups) == CHANGES
        shown = new
    each = ", ".join(f"{name} {seconds * 1000:.2f} ms" for name, seconds in spent.items())
    print(f"\n{NODES} nodes, {PODS} pods: first picture {first_s:.2f} s; {CHANGES} changes: {each}")
    assert spent["snapshot"] + spent["diff"] < first_s / 50
