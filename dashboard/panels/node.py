"""The Node page: state, resources, pods, conditions and facts of one machine.

Owns which facts of the picture are shown where and in which order. Must not hold wording (node_patterns.py) or rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.panels import save_ages
from dashboard.panels.fleet import GLYPHS, cell_word, glyph, main_reason, place, reason
from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain.attention import LEVELS, Concern
from fleet.domain.picture import CELL_STATES, Condition, LabelsRow, NodeRow, PodRow, Resource
from fleet.domain.save_picture import CheckpointRow

# Conditions that are healthy when True; every other one is a complaint.
GOOD_WHEN_TRUE = ("Ready",)
GIB = 1_024
CLOSING = ("node-unreachable", "node-not-ready", "node-tainted", "cordoned")  # reasons why nothing new is placed there
ALLOCATED = ("busy", "idle")  # states of a slot that some pod holds


@dataclass(frozen=True, slots=True)
class Tag:
    id: str
    level: str
    glyph: str
    words: Text


@dataclass(frozen=True, slots=True)
class Fact:
    id: str
    words: Value

    @property
    def title(self) -> str:
        return f"fact.{self.id}"


RESOURCES = (
    Column("resource"),
    Column("capacity", "num"),
    Column("allocatable", "num"),
    Column("allocated", "num"),
    Column("free", "num"),
    Column("note", "all"),
)
SLOTS = (Column("slot", small=True), Column("slot-state", "state"), Column("held-by", "all", small=True))
PODS = (
    Column("pod", small=True),
    Column("gpus", "num", small=True),
    Column("status", "state"),
    Column("ready", "num"),
    save_ages.COLUMN,
    Column("restarts", "num"),
    Column("grace", "num"),
    Column("budget"),
    Column("empty-dir"),
    Column("age", "num"),
)
CONDITIONS = (Column("type"), Column("status"), Column("reason", "all", small=True), Column("since", "num"))


Saves = Mapping[str, CheckpointRow]  # by the key of the workload that trains


def tables(node: NodeRow, pod_rows: Sequence[tuple[str, PodRow]], saves: Saves) -> dict[str, Table]:
    return {
        "resources": Table("resources", RESOURCES, resources(node), "tri"),
        "slots": Table("slots", SLOTS, slots(node, pod_rows), "pair"),
        "pods": Table("pods", PODS, pods(pod_rows, saves), "tri"),
        "conditions": Table("conditions", CONDITIONS, conditions(node)),
    }


def tags(node: NodeRow) -> list[Tag]:
    """The state in a word, the most urgent reason first, then what Vigie does not know."""
    found = [Tag("state", *_state(node))]
    for token in node.reasons:
        if token != main_reason(node):
            level = "off" if token in CLOSING else LEVELS[Concern(token)].replace("note", "run")
            found.append(Tag(token, level, GLYPHS.get(level, "s-info"), reason(node, token)))
    if node.cells and not node.measured:
        found.append(Tag("measured", "off", "s-unknown", say("node.not-measured")))
    return found


def _state(node: NodeRow) -> tuple[str, str, Text]:
    if node.level:
        return node.level, glyph(node), reason(node)
    return ("ok", "s-ok", say("node.ready")) if node.measured else ("run", "s-info", say("node.ready"))


def hardware(node: NodeRow) -> Text:
    """What is in the machine: "8 × NVIDIA-H100-80GB-HBM3"; slots that are no whole GPUs are named by the table."""
    if node.physical is None:
        return node.product_name or (say("node.gpus-unknown") if node.cells else say("card.none"))
    return say("node.hardware", count=node.physical, product=node.product_name or node.product or say("node.gpu"))


def resources(node: NodeRow) -> list[Row]:
    return [_resource(r, node.usable) for r in sorted(node.resources, key=lambda r: r.name)]


def _resource(r: Resource, usable: bool) -> Row:
    """What nobody holds on a closed or silent node is not free: nothing can be placed there."""
    closed = 0 if usable else r.free
    note = (
        say("node.closed", n=closed) if closed else "",
        say("node.over", n=r.overcommit) if r.overcommit else "",
        say("node.withdrawn", n=r.capacity - r.allocatable) if r.capacity > r.allocatable else "",
        say("count.failed", n=r.failed) if r.failed else "",
        say("count.unknown", n=r.unknown) if r.unknown else "",
        say("node.shared") if r.shared else "",
        say("node.mig") if r.mig else "",
    )
    cells: dict[str, Value] = {
        "resource": r.name,
        "capacity": r.capacity,
        "allocatable": r.allocatable,
        "allocated": r.allocated,
        "free": "–" if closed else r.free,
        "note": note,
    }
    return Row(r.name, "warn" if r.overcommit or r.capacity > r.allocatable else "", cells, {})


def slots(node: NodeRow, pod_rows: Iterable[tuple[str, PodRow]]) -> list[Row]:
    """Runs of slots alike, in slot order: the allocated ones by pod, the largest first. Which GPU a pod holds is not known."""
    known = sorted(pod_rows, key=lambda item: pod_order(*item))
    found: list[Row] = []
    at = 0
    for name, count in _slot_counts(node):
        held = (pod for pod in known for asked, n in pod[1].resources if asked == name for _ in range(n))
        for first, last, letter, pod in _runs(node.cells[at : at + count], held):
            word = cell_word(node, CELL_STATES[letter])
            found.append(_slot(at + first, at + last, word, name if len(node.resources) > 1 else "", pod))
        at += count
    return found


def _slot_counts(node: NodeRow) -> list[tuple[str, int]]:
    """Each resource with its slots, in the order of the cells; cells that no resource offers are nobody's."""
    found = [(r.name, max(r.capacity, r.allocatable)) for r in node.resources]
    return found or ([("", len(node.cells))] if node.cells else [])


Holder = tuple[str, PodRow] | None


def _runs(letters: str, held: Iterator[tuple[str, PodRow]]) -> Iterator[tuple[int, int, str, Holder]]:
    """First and last slot of each run, its letter, and the pod that holds it."""
    run: tuple[int, int, str, Holder] | None = None
    for i, letter in enumerate(letters):
        holder = next(held, None) if CELL_STATES[letter] in ALLOCATED else None
        if run and (run[2], run[3]) == (letter, holder):
            run = (run[0], i, letter, holder)
            continue
        if run:
            yield run
        run = (i, i, letter, holder)
    if run:
        yield run


def _slot(first: int, last: int, state: str, resource: str, holder: Holder) -> Row:
    small: dict[str, Text] = {"slot": resource}
    if holder:
        pod = holder[1]
        small["held-by"] = (pod.namespace, pod.owner_kind, say("node.team", team=pod.team) if pod.team else "")
    cells: dict[str, Value] = {
        "slot": f"{first}" if first == last else f"{first}–{last}",
        "slot-state": say(f"state.{state}"),
        "held-by": holder[1].name if holder else "–",
    }
    return Row(str(first), "bad" if state == "failed" else "", cells, small, nil=() if holder else ("held-by",))


def pods(rows: Iterable[tuple[str, PodRow]], saves: Saves) -> list[Row]:
    """Pods that hold GPUs first, those of the node itself (DaemonSets, mirror pods) last."""
    return [_pod(key, row, saves) for key, row in sorted(rows, key=lambda item: pod_order(*item))]


def pod_order(key: str, row: PodRow) -> tuple[bool, int, Any]:
    return (row.daemon or row.mirror, -row.gpus, natural(key))


def _pod(key: str, row: PodRow, saves: Saves) -> Row:
    trains = row.workload or f"Pod/{key}"
    saved, age, standing = save_ages.cell(saves.get(trains))
    cells: dict[str, Value] = {
        "pod": row.name,
        "gpus": row.gpus or "–",
        "status": row.status,
        "ready": say("node.ready-of", ready=row.ready, total=row.containers),
        "checkpoint": age,
        "restarts": row.restarts,
        "grace": None if row.grace_s is None else say("age.s", n=row.grace_s),
        "budget": ", ".join(row.budgets) or say("none"),
        "empty-dir": say("yes") if row.empty_dir else say("no"),
        "age": None if row.created_at is None else Age(row.created_at),
    }
    team = say("node.team", team=row.team) if row.team else ""
    something = {
        "gpus": row.gpus or row.claims,
        "checkpoint": trains in saves,
        "restarts": row.restarts,
        "budget": row.budgets,
        "empty-dir": row.empty_dir,
    }
    nil = tuple(column for column, told in something.items() if not told)
    small = {"pod": (row.namespace, row.owner_kind, team), "gpus": _claims(row), "checkpoint": standing}
    links = {"checkpoint": trains} if trains in saves else {}
    return Row(key, row.level, cells, small, links, {"checkpoint": saved}, nil)


def _claims(row: PodRow) -> Text:
    return say("node.claims", n=row.claims) if row.claims else ""


def pod_counts(rows: Iterable[PodRow]) -> tuple[Text, Text]:
    """How many pods of people run here, and how many belong to the node."""
    own = [row.daemon or row.mirror for row in rows]
    return say("pods", n=own.count(False)), say("node.own-pods", n=own.count(True)) if any(own) else ""


def conditions(node: NodeRow) -> list[Row]:
    return [_condition(c) for c in sorted(node.conditions, key=lambda c: (c.type != "Ready", c.type))]


def _condition(c: Condition) -> Row:
    healthy = c.status == ("True" if c.type in GOOD_WHEN_TRUE else "False")
    level = "" if healthy else "warn" if c.status == "Unknown" or c.type not in GOOD_WHEN_TRUE else "bad"
    cells: dict[str, Value] = {
        "type": c.type,
        "status": c.status,
        "reason": c.reason or "–",
        "since": None if c.since_at is None else Age(c.since_at),
    }
    return Row(c.type, level, cells, {"reason": c.message})


CORDONED, CORDON_REASON = "vigie.dev/cordoned-by", "vigie.dev/cordon-reason"
OURS = ("", "vigie")  # field managers: who else had hands on the cordon made it theirs, whatever our note says


def cordon(node: NodeRow, labels: LabelsRow) -> Text:
    """Who has closed the node, why and when, as far as the cluster tells; "" for one that is open."""
    if not node.unschedulable:
        return ""
    notes = dict(labels.annotations)
    at: Text | Clock = say("node.cordon.unknown-time") if node.cordoned_at is None else Clock(node.cordoned_at)
    if notes.get(CORDONED) and node.cordoned_by in OURS:
        return say("node.cordon.ours", action=notes[CORDONED], at=at, reason=notes.get(CORDON_REASON) or None)
    return say("node.cordon.foreign", by=node.cordoned_by or None, at=at)


def facts(node: NodeRow) -> list[Fact]:
    memory = None if node.memory_mib is None else say("node.gib", n=int(node.memory_mib / GIB + 0.5))
    return [
        Fact("place", place(node.pool, node.zone)),
        Fact("memory", memory if node.cells else say("not-applicable")),
        Fact("machine", node.machine or None),
        Fact("address", node.address or None),
        Fact("driver", (node.driver or None) if node.cells else say("not-applicable")),
        Fact("cuda", (node.cuda or None) if node.cells else say("not-applicable")),
        Fact("kubelet", node.kubelet or None),
        Fact("runtime", node.runtime or None),
        Fact("kernel", node.kernel or None),
        Fact("os", node.os_image or None),
        Fact("created", None if node.created_at is None else Clock(node.created_at)),
        Fact("taints", ", ".join(node.taints) or say("none")),
    ]
