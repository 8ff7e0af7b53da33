"""The words of the store of scans: what is known of every workload's checkpoints, and how deep checks get on.

Owns the store's contract. Must not know where anything is kept, nor judge a checkpoint. All of it comes back with the next scan.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from fleet.domain.checkpoints import Checkpoint
from fleet.domain.freshness import Freshness
from fleet.domain.save_picture import CheckpointRow

SCAN_SILENT_S = 180.0  # then nobody scans, and no standing holds
CHECKS_KEPT_S = 86_400


class Scan(Struct, frozen=True):
    """One round over a cluster's workloads, with how long it took. `name`: another one each time."""

    name: str
    at: float
    took_s: float = 0.0
    rows: Mapping[str, CheckpointRow] = {}


class DeepCheck(Struct, frozen=True):
    """A check of all bytes of one checkpoint. `state`: running, done, failed. `path`: in the store."""

    workload: str
    path: str
    state: str
    started_at: float
    said_at: float
    asked_by: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    result: Checkpoint | None = None
    error: str = ""

    @property
    def key(self) -> str:
        return f"{self.workload} {self.path}"


class SaveStore(Protocol):
    """One store of what is known of checkpoints. Every method may raise `PictureError`."""

    def publish(self, cluster: str, scan: Scan, found: Mapping[str, Freshness]) -> None:
        """A scan that has ended, with all that is known of each of its workloads; others are forgotten."""

    def scan(self, cluster: str) -> Scan | None:
        """The last one; None when there never was one."""

    def newer(self, cluster: str, name: str) -> Scan | None:
        """The last scan unless it is the one of that name. Asked many times a second."""

    def found(self, cluster: str, workload: str) -> Freshness | None: ...

    def all_found(self, cluster: str) -> dict[str, Freshness]: ...

    def tell(self, cluster: str, check: DeepCheck) -> None:
        """How a deep check gets on."""

    def checks(self, cluster: str) -> dict[str, DeepCheck]:
        """Deep checks of the last day by their key."""
