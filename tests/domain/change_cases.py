"""The deltas that Python and JavaScript must understand alike: cases here, files in tests/data/changes.

`python -m tests.domain.change_cases` writes the files anew after a row got another field.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fleet.domain import changes
from fleet.domain.picture import EMPTY, AttentionRow, EventRow, LabelsRow, NodeRow, PodRow, Snapshot, WorkloadRow
from tests.domain import cluster
from tests.domain.cluster import EPOCH_AT, node, owned_by, pod

FILES = Path(__file__).parent.parent / "data" / "changes"
MIG = "nvidia.com/mig-1g.10gb"


def snap(**tables: Any) -> Snapshot:
    return replace(EMPTY, **tables)


def nodes(*rows: NodeRow) -> dict[str, NodeRow]:
    return {row.name: row for row in rows}


def pods(*rows: PodRow) -> dict[str, PodRow]:
    return {f"{row.namespace}/{row.name}": row for row in rows}


def concern(*facts: tuple[str, Any], since_at: float | None = None) -> dict[str, AttentionRow]:
    return {"cordoned:nœud-é": AttentionRow("cordoned", "warn", 8, "nœud-é", "nœud-é", since_at, facts)}


CASES: dict[str, tuple[str, Snapshot, Snapshot]] = {
    "cordon": (
        "One node is cordoned: few fields of one row, and the totals with it.",
        cluster.snapshot(node("node-01"), pod("p", "node-01")),
        cluster.snapshot(node("node-01", cordoned=True), pod("p", "node-01")),
    ),
    "columns": (
        "Rows that change in the same fields share a group; values that are null before or after.",
        snap(
            nodes=nodes(
                NodeRow("node-01", cells="ffff"),
                NodeRow("node-02", cells="ffff", physical=4),
                NodeRow("node-03", cells="ffff", physical=4),
                NodeRow("node-04", cells="ffff", physical=4),
            )
        ),
        snap(
            nodes=nodes(
                NodeRow("node-01", cells="bfff", physical=4),
                NodeRow("node-02", cells="bbff", physical=None),
                NodeRow("node-03", cells="bbbf", physical=4),
                NodeRow("node-04", cells="ffff", physical=4),
            )
        ),
    ),
    "rows-come-and-go": (
        "A row that is new carries every field; one that is gone is named; a third is untouched.",
        snap(pods=pods(PodRow("u1", "lab", "a", node="node-01"), PodRow("u2", "lab", "b"))),
        snap(pods=pods(PodRow("u2", "lab", "b"), PodRow("u3", "lab", "c", gpus=2, resources=((cluster.GPU, 2),)))),
    ),
    "same-name": (
        "A pod made anew under the same name: the row changes, it does not go.",
        snap(pods=pods(PodRow("first", "lab", "a", node="node-01", restarts=3))),
        snap(pods=pods(PodRow("second", "lab", "a", node="node-02"))),
    ),
    "words": (
        "Text of any alphabet in keys and values, and numbers that are not whole.",
        snap(nodes=nodes(NodeRow("nœud-é", pool="entraînement")), attention=concern(("by", None))),
        snap(
            nodes=nodes(NodeRow("nœud-é", pool='推論 \u2028 "q" \\ </script> 🛰')),
            attention=concern(("by", "Zoë"), ("free", 8), ("part", 0.125), since_at=EPOCH_AT + 0.25),
        ),
    ),
    "events": (
        "An event happens again, another pushes out the oldest, and a label gets another value.",
        snap(
            labels={"node-01": LabelsRow((("pool", "train"), ("rack", "r1")), (("owner", "Zoë"),))},
            events={
                "lab/a.1": EventRow(
                    "node-01", "Pod", "lab", "a", "Normal", "Started", "Started container", 1, EPOCH_AT
                ),
                "lab/a.2": EventRow("node-01", "Pod", "lab", "a", "Warning", "BackOff", "Back-off <b>", 3, EPOCH_AT),
            },
        ),
        snap(
            labels={"node-01": LabelsRow((("pool", "infer"), ("rack", "r1")))},
            events={
                "lab/a.2": EventRow(
                    "node-01", "Pod", "lab", "a", "Warning", "BackOff", "Back-off <b>", 4, EPOCH_AT + 9
                ),
                "default/n.1": EventRow("node-01", "Node", "", "node-01", "Warning", "NodeNotReady", "", 1, None),
            },
        ),
    ),
    "table-empties": (
        "Everything goes.",
        snap(nodes=nodes(NodeRow("node-01")), workloads={"Job/lab/t": WorkloadRow("Job", "lab", "t", desired=1)}),
        EMPTY,
    ),
    "table-fills": (
        "Everything is new.",
        EMPTY,
        cluster.snapshot(
            node("node-01", gpus={cluster.GPU: "2", MIG: "3"}, allocatable={cluster.GPU: "2", MIG: "2"}),
            pod("p", "node-01", ownerReferences=owned_by("Job", "t")),
            pod("w", "", gpus=4),
        ),
    ),
}


def files() -> Iterator[tuple[Path, str]]:
    """Every file with its content."""
    for name, (about, old, new) in CASES.items():
        delta = changes.diff(old, new)
        body = {"about": about, "old": old, "delta": delta, "new": new}
        text = json.dumps(json.loads(msgspec.json.encode(body)), ensure_ascii=False, indent=1)
        yield FILES / f"{name}.json", f"{text}\n"


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for path, text in files():
        path.write_text(text)
