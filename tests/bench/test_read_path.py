"""What the read path costs, each as a ratio of two ways in the same run, so that the machine's speed divides out.

Prints; asserts only what the design rests on, with a wide margin.
"""

import gc
import json
import statistics
import time

import msgspec
import pytest

from fleet.domain import changes, kube
from fleet.domain.inventory import Inventory
from fleet.domain.picture import NodeRow, Resource, Snapshot

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PODS = 2_000
NODES = 1_000


def seconds(work, times=3, clock=time.perf_counter):
    """Median of a few runs, without the garbage collector's turns; `time.process_time` leaves out whatever else the cores do."""
    taken = []
    for _ in range(times):
        gc.collect()
        gc.disable()
        begin = clock()
        work()
        taken.append(clock() - begin)
        gc.enable()
    return statistics.median(taken)


def say(what, value, note=""):
    print(f"\n  {what:<58} {value:>10}  {note}", end="")


def pod(number):
    """A pod of usual size: about 4 kB of JSON, as in the recordings."""
    name, node = f"llm-chat-7c9c7d86fd-{number:05d}", f"node-{number % NODES:04d}"
    env = [{"name": f"OPTION_{i}", "value": "x" * 40} for i in range(20)]
    container = {
        "name": "server",
        "image": "registry/llm:42",
        "env": env,
        "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "8"}, "limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/v{i}"} for i in range(4)],
    }
    stamp = "2026-12-01T20:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "inference",
            "uid": f"{number:036d}",
            "resourceVersion": str(number),
            "creationTimestamp": stamp,
            "labels": {"app": "llm-chat", "team": "search"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "llm-chat-7c9c7d86fd",
                    "uid": "r",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [container],
            "volumes": [{"name": f"v{i}", "configMap": {"name": "c"}} for i in range(4)],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": t, "status": "True", "lastTransitionTime": stamp}
                for t in ("PodScheduled", "Ready", "Initialized")
            ],
            "containerStatuses": [
                {
                    "name": "server",
                    "ready": True,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "d",
                    "state": {"running": {"startedAt": stamp}},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def page_bytes():
    listing = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9"},
        "items": [pod(i) for i in range(PODS)],
    }
    return json.dumps(listing).encode()


def test_a_delta_in_columns_against_objects():
    """A tenth of 8,000 GPUs changes its cells."""
    rows = {
        f"node-{i:04d}": NodeRow(
            f"node-{i:04d}", cells="bbbbffff", resources=(Resource("nvidia.com/gpu", 8, 8, 4, 4, 0),)
        )
        for i in range(NODES)
    }
    old = Snapshot(fleet={}, products={}, nodes=rows, pods={}, workloads={}, attention={})
    changed = {name: msgspec.structs.replace(row, cells="bbbbbfff") for name, row in list(rows.items())[: NODES // 10]}
    delta = changes.diff(old, msgspec.structs.replace(old, nodes=rows | changed))
    assert delta is not None
    columns, objects = len(changes.encode(delta)), len(msgspec.json.encode(changed))
    say("delta of 100 changed nodes: objects ÷ columns, bytes", f"{objects / columns:.0f}×", f"{columns:,} bytes")
    assert objects / columns > 5


def test_a_snapshot_of_few_changes_against_a_full_one(page_bytes):
    page = kube.page(kube.Kind.POD, page_bytes)

    def full():
        inventory = Inventory()
        inventory.apply(kube.Listed(kube.Kind.POD, tuple(page.objects), "9"))
        return inventory, inventory.snapshot()

    whole = seconds(full)
    inventory, before = full()
    line = json.dumps(
        {
            "type": "MODIFIED",
            "object": pod(7)
            | {"metadata": pod(7)["metadata"] | {"resourceVersion": "99999"}, "status": {"phase": "Failed"}},
        }
    ).encode()
    event = kube.watch_line(kube.Kind.POD, line)
    begin = time.perf_counter()
    inventory.apply(event)
    after = inventory.snapshot()
    delta = changes.diff(before, after)
    one = time.perf_counter() - begin
    assert delta is not None
    say(f"picture of {PODS} pods: from scratch ÷ after one change", f"{whole / one:.0f}×", f"{one * 1e3:.2f} ms")
    assert whole / one > 5
