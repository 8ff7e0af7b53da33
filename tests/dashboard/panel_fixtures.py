"""What the panels say about hand-made pictures, in both languages: files that Python and the browser's modules reproduce alike.

    manage.py shell -c "from tests.dashboard import panel_fixtures; panel_fixtures.write()"

writes the files again; read the difference before you commit it.
"""

import json
import zoneinfo
from pathlib import Path
from typing import Any

import msgspec
from django.utils import timezone, translation

from dashboard.panels import attention, charts, fleet, gpu, gpus, node, records, rollouts, waiting, words, workloads
from dashboard.panels.checkpoint_patterns import OF_CHECKPOINTS
from dashboard.panels.tables import Row
from dashboard.panels.zoom import Filter
from fleet.domain import changes
from fleet.domain.attention import Concern
from fleet.domain.gpus import NA
from fleet.domain.kube import Kind
from fleet.domain.picture import (
    CELL_STATES,
    EMPTY,
    AttentionRow,
    Condition,
    EventRow,
    FleetRow,
    GpuRow,
    LabelsRow,
    NodeRow,
    PodRow,
    ProductRow,
    Resource,
    Snapshot,
    WorkloadRow,
)
from tests.browser import demo, demo_gpus

FOLDER = Path(__file__).resolve().parent.parent / "data" / "panels"
LANGUAGES = ("en", "fr")
ZONE = "Europe/Paris"
TROUBLE = (("pods", "the server answers 500", demo.NOW - 42), ("events", "Forbidden", demo.NOW - 43))
OUTAGES = {
    "every stream": tuple((kind.value, "cut off", demo.NOW - i) for i, kind in enumerate(Kind)),
    "all but one": tuple((kind.value, "cut off", demo.NOW) for kind in list(Kind)[1:]),
    "server": (("pods", "silent", demo.NOW - 9), ("server", "silent", demo.NOW - 7)),
}

# Every fact that a concern brings, some of them unknown.
FACTS: dict[Concern, tuple[tuple[str, str | int | float | None], ...]] = {
    Concern.NODE_UNREACHABLE: (("pods", 1), ("gpus", 1), ("reason", None), ("message", None)),
    Concern.NODE_NOT_READY: (("pods", 0), ("gpus", 0), ("reason", "KubeletNotReady"), ("message", "PLEG is not healthy.")),
    Concern.GPUS_MISSING: (("pods", 2), ("gpus", 0), ("physical", 8)),
    Concern.GPUS_WITHDRAWN: (("pods", 2), ("gpus", 4), ("withdrawn", 2), ("capacity", 8), ("resource", "nvidia.com/gpu")),
    Concern.OVER_COMMITTED: (("pods", 9), ("gpus", 9), ("overcommit", 1), ("allocatable", 8), ("resource", "amd.com/gpu")),
    **dict.fromkeys(
        (Concern.GPU_LOST, Concern.GPU_REBOOT_REQUIRED, Concern.GPU_HARDWARE_SERVICE, Concern.GPU_RESET_REQUIRED,
         Concern.GPU_UNLISTED),
        (("pods", 1), ("gpus", 8), ("count", 1), ("indices", "3"), ("rule", "xid-79"), ("action", "reboot-node"),
         ("state", "lost"), ("evidence", "GPU has fallen off the bus <b>")),
    ),
    **dict.fromkeys(
        (Concern.GPU_DEGRADED, Concern.GPU_UNKNOWN),
        (("pods", 0), ("gpus", 0), ("count", 2), ("indices", "0, 7"), ("rule", "remap-pending"), ("action", "reset-gpu"),
         ("state", "reset-required"), ("evidence", "remap_pending = 1")),
    ),
    **dict.fromkeys(
        (Concern.GPU_UNHELD_USE, Concern.GPU_IDLE_HELD), (("pods", 2), ("gpus", 4), ("count", 2), ("indices", "4, 5"))
    ),
    **dict.fromkeys(
        (Concern.DRIVER_HUNG, Concern.DRIVER_MISMATCH, Concern.DRIVER_MISSING, Concern.READINGS_SILENT, Concern.GPU_WORK_STUCK,
         Concern.CLOCK_SKEW, Concern.KERNEL_LOG_LOST, Concern.KERNEL_LOG_UNREAD),
        (("pods", 2), ("gpus", 4), ("rule", "driver-hung"), ("action", "monitor"), ("evidence", "3 rounds.")),
    ),
    Concern.RACK_EVENT: (
        ("pods", 9), ("gpus", 16), ("count", 7), ("names", "n1, n2"), ("more", 5), ("strained", 12),
        ("rule", "temperature-margin"),
    ),
    Concern.GPU_COUNT_MISMATCH: (
        ("pods", 2), ("gpus", 4), ("rule", "gpu-count-mismatch"), ("action", "monitor"), ("evidence", None),
    ),
    Concern.WORKLOAD_SHORT: (("desired", 1_200), ("available", 1_000), ("ready", 1_001), ("gpus", 1)),
    Concern.WORKLOAD_STARTING: (("desired", 3), ("available", 2), ("ready", 2), ("gpus", 8)),
    Concern.ROLLOUT_HELD: (
        ("causes", "no-hole,crash"), ("late", 1), ("old", 2), ("desired", 10), ("available", 8), ("deadline", demo.NOW + 310),
        ("count", 3), ("remedy", "uncordon"), ("place", "node-16"), ("gpus", 2), ("product", "A100"), ("hole", 1),
    ),
    Concern.PODS_HELD_UP: (
        ("causes", "crash"), ("late", 0), ("old", 0), ("desired", 1), ("available", 0), ("deadline", None), ("count", 1),
        ("remedy", "read-log"), ("place", "x-0"), ("container", "<b>"), ("restarts", 4), ("code", 137), ("reason", "OOMKilled"),
    ),
    Concern.PODS_WAITING: (
        ("pods", 1), ("gpus", 2), ("resource", "nvidia.com/gpu"), ("product", None), ("hole", 4), ("reason", "Unschedulable"),
        ("message", "node(s) had untolerated taint <b>"), ("pod", "ml/x-0"),
    ),
    Concern.NODE_TAINTED: (("pods", 1), ("gpus", 2), ("taint", "maintenance=yes:NoExecute")),
    Concern.CORDONED: (("pods", 1), ("gpus", 0), ("by", None), ("free", 1)),
    Concern.CLAIMS: (("pods", 1),),
    Concern.CHECKPOINT_NONE: (("place", "pvc://ml/ckpt/<b>"), ("abandoned", 2)),
    Concern.CHECKPOINT_CRITICAL: (("at", demo.NOW - 9_000), ("step", 48_000), ("target", "30m")),
    Concern.CHECKPOINT_STALE: (("at", demo.NOW - 2_400), ("step", None), ("target", "30m")),
    Concern.CHECKPOINT_CORRUPT: (
        ("state", "corrupt"), ("step", 1_100), ("file", "step-1100/__1_0.distcp"), ("older", demo.NOW - 3_600),
        ("older-step", 1_000),
    ),
    Concern.CHECKPOINT_UNREADABLE: (("place", "s3://runs/ml"), ("trouble", "denied")),
    Concern.CHECKPOINT_SKEW: (("skew", "7m"), ("step", 900)),
    Concern.CHECKPOINT_NOT_GRANTED: (("place", "s3://runs/ml"), ("trouble", "not-granted")),
}  # fmt: skip


OF_NODES = [c for c in Concern if c not in
            {Concern.WORKLOAD_SHORT, Concern.WORKLOAD_STARTING, Concern.PODS_WAITING, Concern.CLAIMS, Concern.ROLLOUT_HELD,
             Concern.PODS_HELD_UP, Concern.RACK_EVENT, *OF_CHECKPOINTS}]  # fmt: skip


def odd() -> Snapshot:
    """Everything that the demo fleet lacks: unknowns, shares, MIG, over-commit, no GPUs, every concern, old and large numbers."""
    shared = Resource("nvidia.com/gpu.shared", 32, 32, 33, 0, 1, shared=True)
    mig = Resource("nvidia.com/mig-1g.10gb", 7, 7, 3, 4, 0, mig=True)
    rows = [
        NodeRow("n2", "a", "", product="L4", cells="b" * 32, level="bad", reasons=("over-committed",), resources=(shared,)),
        NodeRow("n10", "a", "", product="L4", cells="012345fid", resources=(mig,), measured=True, physical=1, memory_mib=23_034,
                gpu_workloads=("x", "y")),
        NodeRow("n1", product="H100", product_name="NVIDIA H100", cells="mmxu", level="drain", reasons=("cordoned",),
                unschedulable=True, usable=False, taints=("a=b:NoSchedule", "c:NoExecute"), created_at=demo.NOW - 4e7),
        NodeRow("t1", "a", "", product="H100", cells="bccx", level="bad", reasons=("gpus-withdrawn", "node-tainted"),
                ready="True", usable=False, taints=("x:NoSchedule",), closed_by="x:NoSchedule",
                resources=(Resource("nvidia.com/gpu", 4, 3, 1, 2, 0),)),
        NodeRow("cpu-1", "", "z1", pods=3, ready="True"),
        NodeRow("all-1", "all", "z1", cells="x", level="bad", measured=True, reasons=tuple(c.value for c in OF_NODES)),
        NodeRow("plan-1", "all", "z1", cells="u", level="drain", measured=True, planned="driver-upgrade",
                reasons=("gpu-degraded",)),
        NodeRow("note-1", "all", "z1", cells="i", measured=True, reasons=("gpu-idle-held", "kernel-log-lost")),
        NodeRow("off-1", "all", "z1", cells="u", level="off", measured=True, reasons=("readings-silent",)),
        *(NodeRow(f"r-{reason}", "reasons", "z<1>", cells="uu", level="off", usable=False, unschedulable=True,
                  reasons=(reason, "cordoned"), resources=(Resource("nvidia.com/gpu", 3, 2, 2, 0, 0),),
                  conditions=(Condition("Ready", "False", "", "", demo.NOW - 7_300), Condition("PIDPressure", "True", "Busy"),
                              Condition("DiskPressure", "Unknown")))
          for reason in (concern.value for concern in OF_NODES[:12])),
    ]  # fmt: skip
    one = (("nvidia.com/mig-1g.10gb", 1),)
    pods = {
        "ml/b-10": PodRow("u1", "ml", "b-10", "n10", "Terminating", "drain", 0, 2, 3, gpus=1,
                          resources=one, claims=1, grace_s=None),
        "ml/b-9": PodRow("u2", "ml", "b-9", "n10", "CrashLoopBackOff", "bad", 1, 2, 3_000, gpus=1,
                         resources=one, claims=2, budgets=("p", "q"),
                         grace_s=90, empty_dir=True, created_at=demo.NOW - 59),
        "kube-system/m": PodRow("u3", "kube-system", "m", "n10", "Running", gpus=2, mirror=True, owner_kind="Node", team="T"),
    }  # fmt: skip
    gpu, mig_ = (("nvidia.com/gpu", 2),), (("nvidia.com/mig-1g.10gb", 2),)
    waits = {f"ml/w-{i}": PodRow(f"w{i}", "ml", f"w-{i}", gpus=2, resources=wants, product=product, waiting_reason=reason,
                                 waiting_message="<b>", created_at=since)
             for i, (wants, product, reason, since) in enumerate((
                 (gpu, "", "", None), (gpu, "NVIDIA H100", "Unschedulable", demo.NOW - 9),
                 (mig_, "", "SchedulerError", demo.NOW - 9),
                 (gpu, "none such", "", demo.NOW)))}  # fmt: skip
    rows += [NodeRow(f"w{i}", "w", cells="bf", usable=i != 9, ready="True", unschedulable=i == 9,
                     resources=(Resource("nvidia.com/gpu", 4, 4, i % 5, 4 - i % 5, 0),)) for i in range(3, 10)]  # fmt: skip
    owners = [WorkloadRow("Deployment", "a", "<x>", desired=3, ready=1, available=1, gpus_per_pod=1, gpus=1, paused=True),
              WorkloadRow("Job", "a", "x2", desired=3, ready=1, gpus=1_000), WorkloadRow("Job", "b", "x10", desired=0),
              WorkloadRow("Thing", "b", "x1", gpus=1, budgets=("p", "q"), team="T", created_at=demo.NOW - 5)]  # fmt: skip
    entries = [AttentionRow(c.value, "warn" if i % 2 else "bad", 5 - i % 3, f"K/ns/s-{i}", "n1" if i % 2 else "",
                            None if i == 4 else demo.NOW - 10**i, FACTS[c]) for i, c in enumerate(Concern)]  # fmt: skip
    entries.append(AttentionRow(Concern.RACK_EVENT, "warn", 7, "zone/a", "", demo.NOW - 5, (
        ("pods", 0), ("gpus", 0), ("count", 2), ("names", "n1, n10"), ("more", 0), ("strained", 1),
        ("rule", "throttle-power-brake")), ("n1", "n10")))  # fmt: skip
    entries.append(AttentionRow(Concern.PODS_WAITING, "warn", 6, "ns/evil-pod", since_at=demo.NOW, facts=(
        ("pods", 1), ("gpus", 8), ("product", "H100"), ("hole", 3))))  # fmt: skip
    entries.append(AttentionRow(Concern.PODS_WAITING, "warn", 6, "Job/ns/two", since_at=demo.NOW, facts=(
        ("pods", 2), ("gpus", 8), ("product", None), ("hole", 3))))  # fmt: skip
    counted = (("desired", 2), ("available", 2), ("deadline", None))
    entries += [
        AttentionRow(Concern.ROLLOUT_HELD, "bad", 6, "Deployment/ns/said", since_at=demo.NOW, facts=(
            ("causes", "quota"), ("late", 0), *counted, ("count", 0), ("remedy", None), ("place", None),
            ("said", "exceeded <b>."))),
        AttentionRow(Concern.ROLLOUT_HELD, "bad", 6, "Deployment/ns/late", facts=(("causes", ""), ("late", 1), *counted)),
    ]  # fmt: skip
    total = FleetRow(
        nodes=1_234, nodes_ready=1_234, gpus=9_000, available=8_990, tainted=10, withdrawn=0, free=1, overcommit=1,
        largest_hole=1, largest_hole_node="n10", slots=((1, 1), (8, 0)), fragmentation=((1, 0.0), (2, 1.0), (8, 0.995)),
        waiting_pods=1, waiting_gpus=1, claims=1, cells=(("busy", 1_000), ("idle", 1)),
    )  # fmt: skip
    products = {"L4 shared": ProductRow("L4 shared", free=1), "H100": ProductRow("H100")}
    return Snapshot(
        fleet={"fleet": total},
        products=products,
        nodes={row.name: row for row in rows},
        pods=pods | waits,
        workloads={f"{w.kind}/{w.namespace}/{w.name}": w for w in owners},
        attention={f"{row.kind}:{row.subject}": row for row in entries},
        labels={"n10": LabelsRow((("example.org/long", "x" * 63), ("node-role.kubernetes.io/gpu", "")))},
        events={
            "default/n10.1": EventRow(
                "n10", "Node", "", "n10", "Warning", "NodeNotReady", "<b>", 7, demo.NOW - 61, "kubelet"
            ),
            "default/n10.2": EventRow("n10", "Node", "", "n10", "Normal", "Starting"),
            "ml/b-9.1": EventRow("n10", "Pod", "ml", "b-9", "Normal", "Scheduled", "Assigned", last_at=demo.NOW - 61),
        },
    )


def empty() -> Snapshot:
    """A cluster without anything."""
    return Snapshot({"fleet": FleetRow()}, {"H100": ProductRow("H100", fragmentation=((8, None),))}, {}, {}, {}, {})


FILTERS = {
    "state and product": Filter(state="busy", product="L4"),
    "pool": Filter(pool="train"),
    "trouble": Filter(only="trouble"),
}

CHOICES = {
    "": workloads.Choice(),
    "all by name": workloads.Choice(of="all", sort="name"),
    "ml/ by GPUs": workloads.Choice(q="ML/", kind="Deployment", namespace="ml", team="Search", sort="gpus"),
    "newest": workloads.Choice(of="all", sort="age"),
}

ROLLOUTS = {
    "": rollouts.Choice(),
    "moving in ml/": rollouts.Choice(q="ML/", of="moving"),
    "held Deployments": rollouts.Choice(kind="Deployment", namespace="ml", of="held"),
}


def measured() -> Snapshot:
    """One node with every GPU of the demo fleet, and those that are odder."""
    node = demo.node(demo_gpus.TROUBLED)
    cut = demo_gpus.gpus(demo.node(demo_gpus.CUT), demo.NOW).values()
    rows = [*demo_gpus.gpus(node, demo.NOW).values(), *(msgspec.structs.replace(row, node=node.name) for row in cut)]
    rows += [
        GpuRow(node.name, 16),
        GpuRow(node.name, 17, pci="0000:9d:00.0", state="hardware-service", reason="remap-failure", remap=(3, 1, 0, 1)),
        GpuRow(node.name, 18, "GPU-x", state="ok", pods=None, users=2, utilization_pct=49.6, power_w=61.5, power_limit_w=NA,
               memory_used_mib=1.5, memory_total_mib=None, sm_clock_mhz=NA, ecc_corrected=None, ecc_uncorrected=3,
               nvlinks=(NA, NA), pcie=(4, None), clock_reasons=("thermal-hw", "bit-11")),
        GpuRow(node.name, 19, "GPU-y", state="app-fault", reason="xid-31", since_at=demo.NOW - 90, pods=(), strangers=3),
        GpuRow(node.name, 20, "GPU-z", state="ok", pods=(), memory_used_mib=NA, power_w=NA, read_at=demo.NOW - 5),
        GpuRow(node.name, 21, "GPU-s", state="lost", reason="sxid-None", soft=True, pods=("a/b", "a/c"), remap=(1, 0, 0, 0)),
    ]  # fmt: skip
    return msgspec.structs.replace(EMPTY, fleet={"fleet": FleetRow()}, nodes={node.name: node},
                                   gpus={gpus.key(row): row for row in rows})  # fmt: skip


CASES = {
    "demo": (demo.snapshot, "node-07"),
    "odd": (odd, "n10"),
    "measured": (measured, "node-12"),
    "empty": (empty, ""),
}
LINES: list[tuple[tuple[int | None, ...], int]] = [
    ((1, 2, 100, 101), 100), ((None, 5, None, 6, 7), 7), ((None,), 1), ((0, 0, 1), 3), ((50, None), 700),
]  # fmt: skip


def case(name: str) -> dict[str, Any]:
    """The file of one case: rows, and what is said of them per language."""
    build, name_of_node = CASES[name]
    snapshot = build()
    said = {language: in_language(language, snapshot, name_of_node) for language in LANGUAGES}
    tables = msgspec.to_builtins(snapshot)
    return {
        "now": demo.NOW,
        "zone": ZONE,
        "node": name_of_node,
        "trouble": TROUBLE,
        "outages": OUTAGES,
        "tables": tables,
        "said": said,
    }


def in_language(language: str, snapshot: Snapshot, name_of_node: str) -> dict[str, Any]:
    with translation.override(language), timezone.override(zoneinfo.ZoneInfo(ZONE)):
        found = fleet_said(snapshot) | lists_said(snapshot)
        if name_of_node:
            found |= node_said(snapshot, name_of_node)
        return found


def told(value: words.Value) -> str:
    return words.plain(value, demo.NOW)


def fleet_said(snapshot: Snapshot) -> dict[str, Any]:
    row = snapshot.fleet["fleet"]
    return {
        "numbers": [
            [n.id, n.level, told(n.value), told(n.unit), told(n.note), n.node] for n in fleet.key_numbers(snapshot)
        ],
        "legend": [[e.state, e.count, e.shown] for e in fleet.legend(row)],
        "size": told(fleet.map_size(row)),
        "claims": told(fleet.claims(row)),
        "measured": fleet.measured(snapshot.nodes.values()),
        "groups": [
            [g.id, told(g.title), told(g.sentence), [n.name for n in g.nodes], [mark_said(m) for m in g.marks]]
            for g in fleet.groups(snapshot.nodes.values())
        ],
        "cards": {name: card_said(fleet.card(n)) for name, n in snapshot.nodes.items()},
        "trouble": {name: trouble_said(n) for name, n in snapshot.nodes.items() if n.level},
        "filtered": {
            name: sorted(key for key, row in snapshot.nodes.items() if choice.hides(row))
            for name, choice in FILTERS.items()
        },
        "attention": [
            [
                e.key,
                e.level,
                e.glyph,
                told(e.title),
                told(e.evidence),
                e.since_at,
                e.node,
                told(e.action),
                e.page,
                e.rollout,
                e.training,
            ]
            for e in attention.entries(snapshot.attention, TROUBLE)
        ],
        "outages": {
            name: [[e.key, told(e.title), told(e.evidence), e.since_at] for e in attention.entries({}, trouble)]
            for name, trouble in OUTAGES.items()
        },
    }


def trouble_said(row: NodeRow) -> list[Any]:
    """What a node's page says of a node that is not normal."""
    tags = [[t.id, t.level, t.glyph, told(t.words)] for t in node.tags(row)]
    slots = [told(r.cells["slot-state"]) for r in node.slots(row, ())]
    return [tags, [row_said(r) for r in node.resources(row)], slots, told(fleet.counts(row))]


def mark_said(mark: fleet.Mark) -> list[str]:
    return [mark.id, mark.level, mark.glyph, told(mark.words)]


def card_said(card: fleet.Card) -> list[Any]:
    cells = [[CELL_STATES[letter], letter if letter.isdigit() else ""] for letter in card.cells]
    return [card.product, card.level, card.glyph, told(card.words), told(card.free), told(card.label), cells]


def lists_said(snapshot: Snapshot) -> dict[str, Any]:
    waits = {key: pod for key, pod in snapshot.pods.items() if changes.waits(pod)}
    return {
        "workloads": {
            name: [
                told(workloads.counts(snapshot.workloads, choice)),
                *map(row_said, workloads.rows(snapshot.workloads, snapshot.checkpoints, choice)),
            ]
            for name, choice in CHOICES.items()
        },
        "rollouts": {
            name: [
                told(rollouts.counts(snapshot.rollouts, choice)),
                *map(row_said, rollouts.rows(snapshot.rollouts, choice)),
            ]
            for name, choice in ROLLOUTS.items()
        },
        "moving": rollouts.moving(snapshot.rollouts),
        "waiting": [told(waiting.counts(waits)), *map(row_said, waiting.rows(waits, snapshot.nodes))],
    }


def node_said(snapshot: Snapshot, name: str) -> dict[str, Any]:
    row = snapshot.nodes[name]
    pods = [(key, pod) for key, pod in snapshot.pods.items() if pod.node == name]
    own = {key: entry for key, entry in snapshot.attention.items() if changes.here(entry, name)}
    labels = snapshot.labels.get(name, LabelsRow())
    happened = {key: event for key, event in snapshot.events.items() if event.node == name}
    return {
        "tags": [[t.id, t.level, t.glyph, told(t.words)] for t in node.tags(row)],
        "summary": told(attention.summary(own)),
        "hardware": told(node.hardware(row)),
        "counts": told(fleet.counts(row)),
        "pod_counts": [told(text) for text in node.pod_counts(pod for _, pod in pods)],
        "cordon": told(node.cordon(row, labels)),
        "tables": {
            key: [row_said(r) for r in table.rows]
            for key, table in node.tables(row, pods, snapshot.checkpoints).items()
        },
        "records": {key: [row_said(r) for r in table.rows] for key, table in records.tables(labels, happened).items()},
        "label_count": told(records.label_count(labels)),
        "gpus": gpus_said(snapshot, row),
        "facts": {fact.id: told(fact.words) for fact in node.facts(row)},
    }


def gpus_said(snapshot: Snapshot, node_row: NodeRow) -> dict[str, Any]:
    rows = [row for row in snapshot.gpus.values() if row.node == node_row.name]
    return {
        "rows": [[*row_said(r), r.gpu] for r in gpus.table(rows, node_row).rows],
        "measures": {row.index: {fact.id: told(fact.words) for fact in gpu.measures(row)} for row in rows},
        "read": told(gpus.read_at(rows)),
        "placed": gpus.placed(rows, node_row),
        "lines": [[charts.line(values, top), charts.area(values, top)] for values, top in LINES],
    }


def row_said(row: Row) -> list[Any]:
    small = {column: told(text) for column, text in row.small.items()}
    return [
        row.key,
        row.level,
        {column: told(value) for column, value in row.cells.items()},
        small,
        dict(row.links),
        dict(row.marks),
        row.nil,
    ]


def files() -> dict[str, Any]:
    """Every file of the folder by name."""
    found: dict[str, Any] = {f"{name}.json": case(name) for name in CASES}
    for language in LANGUAGES:
        with translation.override(language):
            found[f"words-{language}.json"] = words.catalogue()
    return found


def encoded(content: Any) -> str:
    return json.dumps(json.loads(msgspec.json.encode(content)), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def write() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, content in files().items():
        (FOLDER / file).write_text(encoded(content))
