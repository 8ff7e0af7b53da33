"""The words of the picture store: what is published, by whom, and what every store must offer.

Owns the store's contract. Must not know where a picture is kept or who is told about it.
"""

from typing import Protocol

from msgspec import Struct

from fleet.domain.changes import Delta, Version
from fleet.domain.picture import Snapshot


class PictureError(Exception):
    """The store cannot be reached. Whether the last call took effect is unknown."""


class Pulse(Struct, frozen=True):
    """How true the picture is.

    `at`: seconds since 1970, when the writer last knew that what it shows is what the cluster says (every stream open and
    the server answered a probe). `trouble`: what is broken, as (kind or "server", reason, for how many seconds by now).
    """

    at: float
    trouble: tuple[tuple[str, str, float], ...] = ()


class Published(Struct, frozen=True):
    """One cluster's picture as it is now."""

    snapshot: Snapshot
    version: Version
    pulse: Pulse


class Lease(Struct, frozen=True):
    """The right to write one cluster's picture until `ttl_s` after the last renewal. `token` is unique to this acquisition."""

    cluster: str
    holder: str
    token: str
    epoch: int
    ttl_s: float


class Picture(Protocol):
    """One store of pictures. Every method may raise `PictureError`."""

    def acquire(self, cluster: str, holder: str, ttl_s: float) -> Lease | None:
        """The lease when it is free. A holder other than the last one gets a higher epoch: the seconds since 1970 at least, so
        that epochs grow even when the store forgets everything."""

    def renew(self, lease: Lease) -> bool:
        """False when somebody else has, or has had, the lease. One that the store forgot, or that nobody took when it ran
        out, is ours again."""

    def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens when it is no longer ours."""

    def publish(self, cluster: str, version: Version, delta: Delta | None, snapshot: Snapshot) -> bool:
        """Make `snapshot` the picture at `version`, then tell everybody. `delta` leads there from n - 1; None: it is all new.

        False, and nothing changed, when the store knows a newer epoch or has this version already.
        """

    def pulse(self, cluster: str, version: Version, pulse: Pulse) -> bool:
        """Say how true the picture is. False when a newer epoch exists."""

    def read(self, cluster: str) -> Published | None:
        """None before the first snapshot."""

    def last_pulse(self, cluster: str) -> Pulse | None:
        """The last pulse, also before the first snapshot: why there is none yet. None when nobody has ever watched."""

    def clusters(self) -> list[str]:
        """Names of the clusters that have a picture, sorted."""
