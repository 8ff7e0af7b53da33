"""The Node page: state, resources, pods, conditions and facts of one machine.

Owns which facts of the picture are shown where and in which order. Must not hold wording (patterns.py) or rules about machines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.panels.fleet import glyph, place, reason
from dashboard.panels.order import natural
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain.picture import Condition, NodeRow, PodRow, Resource

# Conditions that are healthy when True; every other one is a complaint.
GOOD_WHEN_TRUE = ("Ready",)
GIB = 1_024


@dataclass(frozen=True, slots=True)
class Tag:
    id: str
    level: str
    glyph: str
    words: Text


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: a stable key, a level and the words of each column, with a second line where there is one."""

    key: str
    level: str
    cells: Mapping[str, Value]
    small: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's id names its heading, `column.<id>`. `classes`: how its cells look and fold on narrow screens."""

    id: str
    classes: str = ""
    small: bool = False

    @property
    def title(self) -> str:
        return f"column.{self.id}"

    @property
    def number(self) -> bool:
        return "num" in self.classes


@dataclass(frozen=True, slots=True)
class Table:
    """`kind`: how the table folds, a class of the visual language."""

    id: str
    columns: tuple[Column, ...]
    rows: list[Row]
    kind: str = ""

    @property
    def title(self) -> str:
        return f"table.{self.id}"

    @property
    def blank(self) -> Row:
        """What script makes new rows from."""
        return Row("", "", {column.id: "" for column in self.columns}, {})


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
PODS = (
    Column("pod"),
    Column("gpus", "num", small=True),
    Column("status", "state"),
    Column("ready", "num"),
    Column("restarts", "num"),
    Column("grace", "num"),
    Column("budget"),
    Column("empty-dir"),
    Column("age", "num"),
)
CONDITIONS = (Column("type"), Column("status"), Column("reason", "all", small=True), Column("since", "num"))


def tables(node: NodeRow, pod_rows: Iterable[tuple[str, PodRow]]) -> dict[str, Table]:
    return {
        "resources": Table("resources", RESOURCES, resources(node), "tri"),
        "pods": Table("pods", PODS, pods(pod_rows), "tri"),
        "conditions": Table("conditions", CONDITIONS, conditions(node)),
    }


def tags(node: NodeRow) -> list[Tag]:
    """The state in a word, then what Vigie does not know."""
    found = [Tag("state", *_state(node))]
    if node.level and node.unschedulable and node.reasons[:1] != ("cordoned",):
        found.append(Tag("cordon", "off", "s-off", say("card.cordoned-short")))
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
    return [_resource(r) for r in sorted(node.resources, key=lambda r: r.name)]


def _resource(r: Resource) -> Row:
    note = (
        say("node.over", n=r.overcommit) if r.overcommit else "",
        say("node.withdrawn", n=r.capacity - r.allocatable) if r.capacity > r.allocatable else "",
        say("node.shared") if r.shared else "",
        say("node.mig") if r.mig else "",
    )
    cells: dict[str, Value] = {
        "resource": r.name,
        "capacity": r.capacity,
        "allocatable": r.allocatable,
        "allocated": r.allocated,
        "free": r.free,
        "note": note,
    }
    return Row(r.name, "warn" if r.overcommit or r.capacity > r.allocatable else "", cells, {})


def pods(rows: Iterable[tuple[str, PodRow]]) -> list[Row]:
    """Pods that hold GPUs first, those of the node itself (DaemonSets, mirror pods) last."""
    return [_pod(key, row) for key, row in sorted(rows, key=lambda item: pod_order(*item))]


def pod_order(key: str, row: PodRow) -> tuple[bool, int, Any]:
    return (row.daemon or row.mirror, -row.gpus, natural(key))


def _pod(key: str, row: PodRow) -> Row:
    cells: dict[str, Value] = {
        "pod": row.name,
        "gpus": row.gpus or "–",
        "status": row.status,
        "ready": say("node.ready-of", ready=row.ready, total=row.containers),
        "restarts": row.restarts,
        "grace": None if row.grace_s is None else say("age.s", n=row.grace_s),
        "budget": ", ".join(row.budgets) or say("none"),
        "empty-dir": say("yes") if row.empty_dir else say("no"),
        "age": None if row.created_at is None else Age(row.created_at),
    }
    team = say("node.team", team=row.team) if row.team else ""
    return Row(key, row.level, cells, {"pod": (row.namespace, row.owner_kind, team), "gpus": _claims(row)})


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
