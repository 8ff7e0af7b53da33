"""The Waiting page: each pod that wants GPUs and has no node, why, and where it would fit.

Owns what is said of a waiting pod. "Would fit" counts the slots of one node only: taints, affinity and the rest of what a
scheduler looks at are not in the picture, and the page says so. Must not hold wording (patterns.py).
"""

from collections.abc import Iterable, Mapping, Sequence

from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain.picture import NodeRow, PodRow, Resource

COLUMNS = (
    Column("pod", small=True),
    Column("needs", small=True),
    Column("since", "num"),
    Column("hole", "num"),
    Column("fits", "all", small=True),
    Column("scheduler", "all", small=True),
)
NAMED = 3  # nodes that are named as examples


def table(pods: Mapping[str, PodRow], nodes: Mapping[str, NodeRow]) -> Table:
    return Table("waiting", COLUMNS, rows(pods, nodes), "tri")


def rows(pods: Mapping[str, PodRow], nodes: Mapping[str, NodeRow]) -> list[Row]:
    """The longest wait first; pods of unknown age last."""
    machines = sorted(nodes.values(), key=lambda row: natural(row.name))
    places: dict[tuple[str, str, int], tuple[int, Text, Text]] = {}
    found = []
    for key, pod in sorted(pods.items(), key=lambda item: (item[1].created_at or float("inf"), natural(item[0]))):
        want = wanted(pod)
        if want not in places:
            places[want] = _place(machines, *want)
        found.append(_row(key, pod, _short(machines, pod.product), *places[want]))
    return found


def wanted(pod: PodRow) -> tuple[str, str, int]:
    """Resource, product and slots that one node must have."""
    resource, slots = pod.resources[0] if pod.resources else ("", pod.gpus)
    return resource, pod.product, slots


def _row(key: str, pod: PodRow, product: str, hole: int, fits: Text, more: Text) -> Row:
    resource, _, slots = wanted(pod)
    cells: dict[str, Value] = {
        "pod": pod.name,
        "needs": say("gpus.of", n=slots, product=product) if product else say("gpus", n=slots),
        "since": None if pod.created_at is None else Age(pod.created_at),
        "hole": hole,
        "fits": fits,
        "scheduler": pod.waiting_reason or say("waiting.no-word"),
    }
    team = say("node.team", team=pod.team) if pod.team else ""
    small: dict[str, Text] = {
        "pod": (pod.namespace, pod.owner_kind, team),
        "needs": resource,
        "fits": more,
        "scheduler": pod.waiting_message,
    }
    return Row(key, "warn", cells, small)


def _short(nodes: Sequence[NodeRow], product: str) -> str:
    """The short name of a product as labelled; as it is when no node has it."""
    return next((node.product for node in nodes if product and node.product_name == product), product)


def _place(nodes: Sequence[NodeRow], resource: str, product: str, slots: int) -> tuple[int, Text, Text]:
    """The largest hole now; where the pod would fit; and how else it could."""
    able = [
        (node, held)
        for node in nodes
        if node.ready == "True" and (not product or node.product_name == product)
        for held in node.resources
        if held.name == resource and held.allocatable >= slots
    ]
    open_ = [(node, held) for node, held in able if node.usable]
    hole = _largest(nodes, resource, product)
    now = [node.name for node, held in open_ if held.free >= slots]
    closed = [node.name for node, held in able if node.unschedulable and held.free >= slots]
    emptied = sorted((held.allocated, natural(node.name), node.name) for node, held in open_ if held.free < slots)
    lowest = [say("waiting.to-move", node=name, gpus=say("gpus", n=n)) for n, _, name in emptied[:NAMED]]
    ways = (
        say("waiting.uncordoned", nodes=_some(closed)) if closed else "",
        say("waiting.emptied", nodes=_listed(lowest, len(emptied))) if lowest else "",
    )
    if not able:
        return hole, say("waiting.nowhere"), ""
    return hole, say("waiting.now", nodes=_some(now)) if now else say("waiting.not-now"), ways


def _largest(nodes: Iterable[NodeRow], resource: str, product: str) -> int:
    found: Iterable[tuple[NodeRow, Resource]] = ((node, held) for node in nodes for held in node.resources)
    free = (
        held.free
        for node, held in found
        if node.usable and held.name == resource and (not product or node.product_name == product)
    )
    return max(free, default=0)


def _some(names: Sequence[str]) -> Text:
    return _listed(names, len(names))


def _listed(names: Sequence[Text], total: int) -> Text:
    """A few by name, the others counted."""
    few: Text = names[0]
    for name in names[1:NAMED]:
        few = say("list.and-next", list=few, next=name)
    return say("list.more", list=few, n=total - NAMED) if total > NAMED else few


def counts(pods: Mapping[str, PodRow]) -> Text:
    return (say("pods", n=len(pods)), say("gpus", n=sum(pod.gpus for pod in pods.values()))) if pods else ""
