"""How ready the workloads of a cluster are for a restart, for pages and programs.

Reads the objects, joins what was measured and what is free, judges, and remembers it for some seconds.

Owns the join, and how long it is remembered. Must not hold a rule (`domain.readiness` does), and changes nothing.
"""

import time
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from fleet.domain import readiness
from fleet.domain.manifests import Manifest, template
from fleet.domain.picture import Snapshot
from fleet.domain.readiness import Load, Report
from fleet.domain.readiness_loads import SeenPod, loads, most_s
from fleet.domain.readiness_room import Rooms, free_nodes
from fleet.glances import Glances
from fleet.ports import Manifests, PortError

log = structlog.get_logger(__name__)

KEPT_S = 15.0


class Unanswered(Exception):  # noqa: N818 -- it says how the cluster is
    """The API server does not answer, or not to us."""


class Judged(Struct, frozen=True):
    """`at`: seconds since 1970; `unread`: kinds that Vigie may not list, so that rules about them say nothing."""

    at: float
    report: Report
    unread: tuple[str, ...]


class Restarts:
    """Of every cluster of this process."""

    def __init__(self, manifests: Callable[[str], Manifests], now: Callable[[], float] = time.time) -> None:
        self._manifests, self._now = manifests, now
        self._known: Glances[Judged] = Glances(KEPT_S, now)

    def judged(self, cluster: str, snapshot: Snapshot) -> Judged:
        """At most `KEPT_S` old. Whoever asks while it is being read waits for that. Raises Unanswered."""
        return self._known.look(cluster, lambda: self._read(cluster, snapshot))

    def _read(self, cluster: str, snapshot: Snapshot) -> Judged:
        try:
            found = self._manifests(cluster).read_manifests()
        except PortError as error:
            log.warning("what workloads declare could not be read", cluster=cluster, reason=str(error))
            raise Unanswered(str(error)) from None
        measured = _measured(found.manifests, found.pods, snapshot)
        rooms = Rooms(free_nodes(snapshot.nodes.values(), snapshot.labels))
        return Judged(self._now(), readiness.live(found.manifests, measured, rooms), found.unread)


def _measured(manifests: Sequence[Manifest], pods: Sequence[SeenPod], snapshot: Snapshot) -> dict[str, Load]:
    workloads = {key: row.workload for key, row in snapshot.pods.items() if row.workload}
    templates = ((one.key, template(one.object)[1]) for one in manifests)
    return loads(pods, workloads, {key: most_s(shape) for key, shape in templates if shape is not None})
