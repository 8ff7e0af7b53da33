"""The store of scans in this process's memory: the embedded default.

Owns the state of one process. Must not outlive it.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fleet.domain.freshness import Freshness
from fleet.live.saves import CHECKS_KEPT_S, DeepCheck, Scan


@dataclass
class _Kept:
    """What is kept of one cluster."""

    scan: Scan | None = None
    found: dict[str, Freshness] = field(default_factory=dict)
    checks: dict[str, DeepCheck] = field(default_factory=dict)


class MemorySaves:
    """`fleet.live.SaveStore` for threads of one process."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = defaultdict(_Kept)

    def publish(self, cluster: str, scan: Scan, found: Mapping[str, Freshness]) -> None:
        with self._lock:
            kept = self._kept[cluster]
            kept.scan, kept.found = scan, dict(found)

    def scan(self, cluster: str) -> Scan | None:
        with self._lock:
            return self._kept[cluster].scan

    def newer(self, cluster: str, name: str) -> Scan | None:
        found = self.scan(cluster)
        return None if found is None or found.name == name else found

    def found(self, cluster: str, workload: str) -> Freshness | None:
        with self._lock:
            return self._kept[cluster].found.get(workload)

    def all_found(self, cluster: str) -> dict[str, Freshness]:
        with self._lock:
            return dict(self._kept[cluster].found)

    def tell(self, cluster: str, check: DeepCheck) -> None:
        with self._lock:
            self._kept[cluster].checks[check.key] = check

    def checks(self, cluster: str) -> dict[str, DeepCheck]:
        oldest = self._now() - CHECKS_KEPT_S
        with self._lock:
            kept = self._kept[cluster]
            kept.checks = {key: check for key, check in kept.checks.items() if check.said_at >= oldest}
            return dict(kept.checks)
