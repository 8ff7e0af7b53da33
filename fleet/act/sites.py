"""What an action needs of one cluster, handed in by `wiring`.

Owns the shape of that bundle. Must not choose anything.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from fleet.domain.freshness import Freshness
from fleet.domain.picture import Snapshot
from fleet.domain.policies import Policy
from fleet.domain.training import Record, Training
from fleet.ports import Changer


class Site(Protocol):
    """One cluster: how it is read and changed, what its picture shows, and what its policy says."""

    @property
    def name(self) -> str: ...

    @property
    def changer(self) -> Changer: ...

    @property
    def actions(self) -> bool:
        """Whether Vigie may change it."""

    @property
    def policy(self) -> Policy: ...

    @property
    def snapshot(self) -> Callable[[], Snapshot | None]:
        """The picture as it is now; None: there is none."""

    @property
    def records(self) -> Callable[[], Mapping[str, Record]]:
        """What operators have noted about where workloads save, by workload."""

    def look(self, training: Training, now: float) -> Freshness:
        """What a workload's checkpoints are like, read afresh from its store, within 2 s. Raises nothing."""
