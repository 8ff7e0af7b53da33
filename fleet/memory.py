"""What the readings worker remembers of one cluster's nodes, and what of it somebody has still to be told.

Owns that memory; `domain.health` judges. Must not know where it is kept, or read a clock.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from fleet.domain import health, xid
from fleet.domain.health import SILENT_AFTER_S
from fleet.domain.restoring import restored
from fleet.domain.verdicts import Assessed, NodeContext, NodeHealth, NodeStanding, Transition
from fleet.live import Point, Received, Told

POINT_S = 10.0
FORGOTTEN_AFTER_S = 7 * 86_400.0  # a node that nobody has described and that has been silent for so long
NOTHING: tuple[None, None, None, None] = (None, None, None, None)


class Marks(Struct):
    """When something of a node was passed on last."""

    saved_at: float = 0.0
    point_at: float = 0.0
    standing: object = None  # what a change of which is told at once


class NodeMemory:
    """Of all nodes of one cluster. `urgent`: something is untold that should not wait."""

    def __init__(self) -> None:
        self.healths: dict[str, NodeHealth] = {}
        self.contexts: dict[str, NodeContext] = {}
        self.urgent = False
        self._marks: dict[str, Marks] = {}
        self._unsaved: dict[str, bool] = {}  # node: whether it must be saved at once
        self._untold: dict[str, Told] = {}
        self._points: dict[str, Point] = {}

    def merge(self, stored: Mapping[str, NodeHealth]) -> None:
        """Of two memories of a node the younger one counts."""
        for node, found in stored.items():
            own = self.healths.get(node)
            if own is None or own.read_at < found.read_at:
                self.healths[node] = found

    def tell_all(self) -> None:
        """Everybody may have forgotten everything."""
        for node, found in self.healths.items():
            assessed = health.as_before(found, self._context(node))
            self._untold[node] = Told(assessed.standing, assessed.rows)
        self.urgent = bool(self.healths)

    def describe(self, contexts: Mapping[str, NodeContext | None]) -> list[str]:
        """What Kubernetes says of nodes; the names of those that are gone, which are forgotten."""
        gone = [node for node, context in contexts.items() if context is None]
        self.contexts |= {node: context for node, context in contexts.items() if context is not None}
        self._forget(gone)
        return gone

    def knows(self, node: str) -> bool:
        return node in self.healths

    def restore(self, node: str, opened: Sequence[Transition]) -> None:
        """What the ledger knows of a node of which we know nothing."""
        if (found := restored(node, opened)) is not None:
            self.healths[node] = found

    def assess(self, received: Received, catalogue: xid.Catalogue) -> Assessed:
        """Take one reading in."""
        node = received.reading.node
        assessed = health.assess(self.healths.get(node), received.reading, self._context(node), received.at, catalogue)
        self._keep(node, assessed)
        self._draw(node, assessed)
        return assessed

    def sweep(self, now: float) -> Iterator[Assessed]:
        """Nodes that have become silent, or that are silent and something is planned on them now."""
        for node, found in list(self.healths.items()):
            if now - found.read_at < SILENT_AFTER_S or not found.read_at:
                continue
            if node not in self.contexts and now - found.read_at > FORGOTTEN_AFTER_S:
                self._forget([node])
                continue
            # It became silent a minute after its last reading, whenever we noticed.
            at = found.read_at + SILENT_AFTER_S if found.silent_since_at is None else now
            assessed = health.silent(found, self._context(node), at)
            if assessed.health is not found:
                self._keep(node, assessed)
                yield assessed

    def unsaved(self, now: float, every_s: float) -> dict[str, NodeHealth]:
        """What has to be saved: transitions at once, measurements now and then."""
        due = [
            node
            for node, at_once in self._unsaved.items()
            if at_once or now - self._marks.setdefault(node, Marks()).saved_at >= every_s
        ]
        for node in due:
            del self._unsaved[node]
            self._marks.setdefault(node, Marks()).saved_at = now
        return {node: self.healths[node] for node in due if node in self.healths}

    def untold(self) -> dict[str, Told]:
        """What has changed since the last time; it is told with this."""
        found, self._untold, self.urgent = self._untold, {}, False
        return found

    def points(self) -> dict[str, Point]:
        """Points of the last hour's lines that are not kept yet."""
        found, self._points = self._points, {}
        return found

    def products(self) -> dict[str, str]:
        return {node: context.product for node, context in self.contexts.items()}

    def _context(self, node: str) -> NodeContext:
        return self.contexts.get(node) or NodeContext(node=node)

    def _keep(self, node: str, assessed: Assessed) -> None:
        self.healths[node] = assessed.health
        self._untold[node] = Told(assessed.standing, assessed.rows)
        marks = self._marks.setdefault(node, Marks())
        standing = _striking(assessed.standing)
        at_once = bool(assessed.transitions) or standing != marks.standing
        marks.standing = standing
        self._unsaved[node] = at_once or self._unsaved.get(node, False)
        self.urgent = self.urgent or at_once

    def _draw(self, node: str, assessed: Assessed) -> None:
        """A GPU that this reading does not measure leaves a gap."""
        marks, read_at = self._marks[node], assessed.health.read_at
        if read_at - marks.point_at < POINT_S - 1:
            return
        marks.point_at = read_at
        self._points[node] = Point(
            round(read_at),
            {
                key: (row.utilization_pct, row.temperature_c, row.power_w, row.memory_used_mib)
                if row.read_at == read_at
                else NOTHING
                for key, row in assessed.rows.items()
            },
        )

    def _forget(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            for table in (self.healths, self.contexts, self._marks, self._unsaved, self._untold, self._points):
                table.pop(node, None)


def _striking(standing: NodeStanding) -> object:
    return (
        standing.measured,
        standing.silent_since_at is None,
        standing.planned,
        standing.driver_status,
        standing.count,
        frozenset(finding.rule for finding in standing.findings),
    )
