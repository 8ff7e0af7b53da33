"""What a restart of each workload would lose, for a column of two lists, within a moment.

Owns how long a list waits for it, and how old it may be: judging a large cluster takes seconds, and a list is no place to wait.
Must not hold words, markup or rules.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late

import structlog

from fleet import wiring
from fleet.domain.picture import Snapshot
from fleet.domain.readiness import Finding

log = structlog.get_logger(__name__)

WAITS_S = 0.5
KEPT_S = 60.0

Found = Mapping[str, Sequence[Finding]]
_pool = ThreadPoolExecutor(2, thread_name_prefix="badges")
_lock = threading.Lock()
_asked: dict[str, tuple[float, Future[Found]]] = {}
_last: dict[str, Found] = {}


def found(cluster: str, snapshot: Snapshot) -> Found | None:
    """By workload, from the last minute where it can be, else what was found before; None: nothing yet."""
    with _lock:
        at, answer = _asked.get(cluster, (0.0, None))
        if answer is None or (answer.done() and time.monotonic() - at > KEPT_S):
            answer = _pool.submit(_judge, cluster, snapshot)
            _asked[cluster] = time.monotonic(), answer
    try:
        _last[cluster] = answer.result(WAITS_S)
    except Late:
        pass
    except Exception as error:  # noqa: BLE001 -- whatever it is, the list has the rest
        log.warning("restarts could not be judged", cluster=cluster, reason=type(error).__name__)
    return _last.get(cluster)


def _judge(cluster: str, snapshot: Snapshot) -> Found:
    return wiring.restarts().judged(cluster, snapshot).report.by_workload()
