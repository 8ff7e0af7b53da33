"""What the ledger is owed by the readings worker of one cluster: transitions, and the minutes that have ended.

Owns the debts and when they are paid. The ledger may be slow or away, so it is written on a thread of its own, and nobody waits:
verdicts are on screen all the same. Must not judge.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import structlog
from django.db import DataError, Error, close_old_connections, connection

from fleet import history
from fleet.domain.spans import MINUTE_S, Gathering, Sample
from fleet.domain.verdicts import Assessed, Transition
from fleet.live.gpus import MOST_OWED

log = structlog.get_logger(__name__)

AT_ONCE = 500
AGAIN_S = 2.0  # between two tries on a ledger that could not be written
UNREADABLE_S = 30.0  # … or read
MOST_MINUTES = 20_000

Minute = tuple[str, int, Mapping[str, Sample]]
Job = Callable[[], None]


class Books:
    """`aside` runs a job where it delays nobody."""

    def __init__(self, cluster: str, aside: Callable[[Job], object] | None = None) -> None:
        self.cluster = cluster
        self.owed: deque[Transition] = deque(maxlen=MOST_OWED)
        self._news: list[Transition] = []
        self._minutes: deque[Minute] = deque(maxlen=MOST_MINUTES)
        self._gathering: dict[str, Gathering] = {}
        self._aside = aside or _thread
        self._writing = threading.Lock()
        self._done: deque[int] = deque()  # how many transitions each job has written
        self._write_at = self._read_at = 0.0  # not before, of the monotonic clock

    def forget(self) -> None:
        """Somebody else has taken over, debts and all."""
        self.owed.clear()
        self._news.clear()
        self._gathering.clear()

    def owe(self, transitions: Sequence[Transition]) -> None:
        """Debts that another process left."""
        known = list(self.owed)
        self.owed.extendleft(reversed([found for found in transitions if found not in known]))

    def note(self, assessed: Assessed, at: float) -> None:
        """What one reading has led to."""
        self.owed.extend(assessed.transitions)
        self._news += assessed.transitions
        node, minute = assessed.health.node, int(at // MINUTE_S)
        gathering = self._gathering.get(node)
        if gathering is None or gathering.span != minute:
            if gathering is not None:
                self._end(node, gathering)
            gathering = self._gathering[node] = Gathering(minute)
        read_at = assessed.health.read_at
        gathering.add({key: row for key, row in assessed.rows.items() if row.read_at == read_at})

    def news(self) -> list[Transition]:
        """Transitions that are not among the kept debts yet."""
        found, self._news = self._news, []
        return found

    def end_minutes(self, now: float) -> None:
        """Minutes of nodes of which no reading came since."""
        for node, gathering in list(self._gathering.items()):
            if gathering.span < int(now // MINUTE_S):
                self._end(node, gathering)
                del self._gathering[node]

    def open_findings(self, node: str, now: float) -> list[Transition]:
        """What the ledger knows to be open; nothing while it cannot be read, which is said in the log."""
        if time.monotonic() < self._read_at:
            return []
        try:
            return history.open_findings(self.cluster, node, now)
        except Error as error:
            log.warning("open findings cannot be restored now", cluster=self.cluster, node=node, reason=str(error))
            self._read_at = time.monotonic() + UNREADABLE_S
            return []
        finally:
            _let_go()

    def write(self, products: Mapping[str, str]) -> int:
        """Begin to pay, if there is anything to pay and nobody is at it; how many transitions have been paid since last time."""
        paid = 0
        while self._done:
            paid += self._done.popleft()
        for _ in range(min(paid, len(self.owed))):
            self.owed.popleft()
        if (
            (self.owed or self._minutes)
            and time.monotonic() >= self._write_at
            and self._writing.acquire(blocking=False)
        ):
            transitions = list(islice(self.owed, AT_ONCE))
            minutes = list(islice(self._minutes, AT_ONCE))
            self._aside(lambda: self._pay(transitions, minutes, products))
        return paid

    def _pay(self, transitions: list[Transition], minutes: list[Minute], products: Mapping[str, str]) -> None:
        try:
            if transitions:
                self._record(transitions, products)
                self._done.append(len(transitions))
            if minutes:
                history.record_minutes(self.cluster, minutes)
                for _ in range(min(len(minutes), len(self._minutes))):
                    self._minutes.popleft()
        except Error as error:
            log.warning(
                "the ledger cannot be written now", cluster=self.cluster, reason=str(error), owed=len(self.owed)
            )
            self._write_at = time.monotonic() + AGAIN_S
        finally:
            _let_go()
            self._writing.release()

    def _record(self, transitions: list[Transition], products: Mapping[str, str]) -> None:
        """A row that the database can never take must not keep the others from it."""
        try:
            history.record(self.cluster, transitions, products)
        except DataError:
            for transition in transitions:
                try:
                    history.record(self.cluster, [transition], products)
                except DataError:
                    log.exception("a transition cannot be recorded", cluster=self.cluster, gpu=transition.gpu)

    def _end(self, node: str, gathering: Gathering) -> None:
        if samples := gathering.samples():
            self._minutes.append((node, gathering.span, samples))


def _let_go() -> None:
    """Between two uses a server may have closed the connection, which only the next use would notice."""
    if not connection.in_atomic_block:
        close_old_connections()


def _thread(job: Job) -> None:
    threading.Thread(target=job, name="ledger", daemon=True).start()
