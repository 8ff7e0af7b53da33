"""What an action needs of one cluster, handed in by `wiring`.

Owns the shape of that bundle. Must not choose anything.
"""

from collections.abc import Callable
from typing import Protocol

from fleet.domain.picture import Snapshot
from fleet.domain.policies import Policy
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
