"""Readings of GPU nodes from their exporters, for clusters without the agent: ask each of them, and put what it says where posted
readings go.

Owns the round: who is asked, how many at once, and what becomes of a failure, which is named once and counted. Must not know what
an exporter is or how it is reached, and judges nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait

import structlog

from fleet.domain.verdicts import NodeContext
from fleet.live import BEGINNING, Cursor, GpuStore, Offered, PictureError, Received
from fleet.ports import Exporter, Exporters, PortError, Stopping

log = structlog.get_logger(__name__)

AT_ONCE = 16  # no more than the connections that an API client keeps
FIND_EVERY_S = 60.0
ROUND_S = 13.0  # then whoever was not asked has to wait for the next round
# An exporter that failed so often in a row is asked in every so many-th round only: a few dozen that hang would hold up the rest.
LATER = ((6, 4), (3, 2))
DONE, LATE = "done", "late"


class Scrape:
    """The exporters of one cluster. One round at a time."""

    def __init__(self, name: str, exporters: Exporters, store: GpuStore, now: Callable[[], float] = time.time) -> None:
        self.name = name
        self.free = threading.Lock()  # whoever wants a round takes it
        self.outcomes: Counter[str] = Counter()  # by reason, "done" among them; grows as long as the process lives
        self._exporters, self._store, self._now = exporters, store, now
        self._found: tuple[Exporter, ...] = ()
        self._find_at = 0.0
        self._cursor: Cursor = BEGINNING
        self._contexts: dict[str, NodeContext] = {}
        self._failed: dict[str, tuple[int, str]] = {}  # node → failures in a row, the last reason
        self._rounds = 0

    def round(self, stopping: Stopping) -> None:
        """Ask everybody who is due. Ends within ROUND_S and a deadline of the port; raises nothing that an edge raises."""
        self._rounds += 1
        until = self._now() + ROUND_S
        if not self._know():
            return
        pool = ThreadPoolExecutor(AT_ONCE, "scrape")
        try:
            asked = {pool.submit(self._ask, exporter, until, stopping): exporter for exporter in self._due()}
            wait(asked)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        for future, exporter in asked.items():
            self._settle(exporter.node, future.result())

    def _know(self) -> bool:
        """Learn which nodes there are (a reading needs its node's boot id) and which exporters; whether that is known."""
        try:
            self._cursor, news = self._store.described(self.name, self._cursor)
            for node, context in news.items():
                if context is None:
                    self._contexts.pop(node, None)
                else:
                    self._contexts[node] = context
            if self._now() >= self._find_at:
                self._found = self._exporters.find()
                self._find_at = self._now() + FIND_EVERY_S
                here = {"", *(exporter.node for exporter in self._found)}
                self._failed = {node: failed for node, failed in self._failed.items() if node in here}
                self._settle("", DONE)
        except (PortError, PictureError) as error:
            self._settle("", _reason(error))
        return bool(self._found)

    def _due(self) -> Iterable[Exporter]:
        """Those that answered last time first: whoever does not answer is waited for last."""
        known = [exporter for exporter in self._found if exporter.node in self._contexts]
        due = [exporter for exporter in known if self._rounds % self._every(exporter.node) == 0]
        return sorted(due, key=lambda exporter: self._failed.get(exporter.node, (0, ""))[0])

    def _every(self, node: str) -> int:
        failures, _ = self._failed.get(node, (0, ""))
        return next((every for least, every in LATER if failures >= least), 1)

    def _ask(self, exporter: Exporter, until: float, stopping: Stopping) -> str:
        if stopping.is_set() or self._now() >= until:
            return LATE
        try:
            reading = self._exporters.read(exporter, self._contexts[exporter.node].boot_id)
            offered = self._store.offer(self.name, Received(self._now(), reading))
        except (PortError, PictureError) as error:
            return _reason(error)
        return DONE if offered is Offered.ACCEPTED else str(offered)

    def _settle(self, node: str, outcome: str) -> None:
        """Count it, and say it when it is another one than last time. `node` "": finding exporters."""
        self.outcomes[outcome] += 1
        if outcome == LATE:
            return
        failures, before = self._failed.get(node, (0, DONE))
        if outcome != before:
            tell = log.info if outcome == DONE else log.warning
            tell("scrape", cluster=self.name, node=node or "(finding the exporters)", outcome=outcome)
        if outcome == DONE:
            self._failed.pop(node, None)
            return
        self._failed[node] = failures + 1, outcome
        if outcome == "NotFound":
            self._find_at = 0.0  # the pod is another one now


def _reason(error: PortError | PictureError) -> str:
    return (error.reason or str(error)) if isinstance(error, PortError) else "store"
