"""The picture in this process's memory: the embedded default.

Owns the state of one process; snapshots are immutable, so readers share them. Must not outlive the process or reach another one.
"""

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.domain.changes import Delta, Version, encode
from fleet.domain.picture import Snapshot
from fleet.live.notices import delta_notice, pulse_notice
from fleet.live.published import Lease, Published, Pulse

NOTHING_YET = Version(0, 0)


@dataclass
class _Kept:
    """What is kept of one cluster."""

    epoch: int = 0
    holder: str = ""
    token: str = ""
    held_until: float = 0.0  # of the monotonic clock
    version: Version = NOTHING_YET
    snapshot: Snapshot | None = None
    pulse: Pulse | None = None


class MemoryPicture:
    """`fleet.live.Picture` for writers and readers that are threads of one process."""

    def __init__(
        self, notify: Callable[[Mapping[str, Any]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._notify, self._clock = notify, clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = defaultdict(_Kept)

    def acquire(self, cluster: str, holder: str, ttl_s: float) -> Lease | None:
        with self._lock:
            kept = self._kept[cluster]
            if kept.token and self._clock() < kept.held_until:
                return None
            if kept.holder != holder:
                kept.epoch, kept.holder = max(kept.epoch + 1, int(time.time())), holder
            kept.token, kept.held_until = uuid.uuid4().hex, self._clock() + ttl_s
            return Lease(cluster, holder, kept.token, kept.epoch, ttl_s)

    def renew(self, lease: Lease) -> bool:
        with self._lock:
            kept = self._kept[lease.cluster]
            if kept.token != lease.token:
                return False
            kept.held_until = self._clock() + lease.ttl_s
            return True

    def release(self, lease: Lease) -> None:
        with self._lock:
            kept = self._kept[lease.cluster]
            if kept.token == lease.token:
                kept.token = ""

    def publish(self, cluster: str, version: Version, delta: Delta | None, snapshot: Snapshot) -> bool:
        with self._lock:
            kept = self._kept[cluster]
            if version.epoch < kept.epoch or version <= kept.version:
                return False
            follows = kept.version == Version(version.epoch, version.n - 1)
            kept.version, kept.snapshot, pulse = version, snapshot, kept.pulse
        encoded = encode(delta) if delta is not None and follows else b""
        self._notify(delta_notice(cluster, version, pulse, encoded))
        return True

    def pulse(self, cluster: str, version: Version, pulse: Pulse) -> bool:
        with self._lock:
            kept = self._kept[cluster]
            if version.epoch < kept.epoch:
                return False
            kept.pulse = pulse
        self._notify(pulse_notice(cluster, version, pulse))
        return True

    def read(self, cluster: str) -> Published | None:
        with self._lock:
            kept = self._kept.get(cluster)
            if kept is None or kept.snapshot is None or kept.pulse is None:
                return None
            return Published(kept.snapshot, kept.version, kept.pulse)

    def version(self, cluster: str) -> Version | None:
        with self._lock:
            kept = self._kept.get(cluster)
            return kept.version if kept is not None and kept.snapshot is not None else None

    def last_pulse(self, cluster: str) -> Pulse | None:
        with self._lock:
            kept = self._kept.get(cluster)
            return kept.pulse if kept else None

    def clusters(self) -> list[str]:
        with self._lock:
            return sorted(name for name, kept in self._kept.items() if kept.snapshot is not None)
