"""The words of the picture store: what is published, by whom, and what every store must offer.

Owns the store's contract. Must not know where a picture is kept or who is told about it.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from fleet.domain.changes import Delta, Version
from fleet.domain.picture import Snapshot
from fleet.domain.truth import FORBIDDEN, SERVER, Trouble


class PictureError(Exception):
    """The store cannot be reached. Whether the last call took effect is unknown."""


WRITER_SILENT_S = 4.0  # two pulses missed; with the hub's tick of 1 s every page knows within 5 s


class Loss(StrEnum):
    """Why a picture is known not to be kept true: it is not merely getting old."""

    NONE = ""
    SERVER = "server"  # the API server does not answer probes
    WRITER = "writer"  # nobody writes the picture: its worker has ended or lost its lease, or the store is away
    NO_PICTURE = "no-picture"  # there was none yet


class Work(Struct, frozen=True):
    """What the writer has done since its process began to watch this cluster, and what it has before it. Counters only grow."""

    events: int = 0  # heard from the API server
    restarts: int = 0  # of streams
    publishes: int = 0
    publish_s: float = 0.0  # spent on them, in all
    waiting: int = 0  # events in the queue now


class Pulse(Struct, frozen=True):
    """How true the picture is.

    `at`: seconds since 1970, when the writer last knew that what it shows is what the cluster says (every stream open and
    the server answered a probe). `trouble`: what is broken, as (kind or "server", reason, for how many seconds by now).
    `said_at`: when the writer said this, by its clock. `work`: what it is doing.
    """

    at: float
    trouble: Trouble = ()
    said_at: float = 0.0
    work: Work = Work()

    def loss(self, now: float) -> Loss:
        """Whether the picture is known not to be kept true at `now`, if this is the last pulse."""
        if now - self.said_at > WRITER_SILENT_S:
            return Loss.WRITER
        return Loss.SERVER if any(what == SERVER for what, _, _ in self.trouble) else Loss.NONE

    @property
    def hidden(self) -> list[str]:
        """Kinds that we may not read: nothing of them is in the picture."""
        return [what for what, reason, _ in self.trouble if reason == FORBIDDEN and what != SERVER]


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

    def version(self, cluster: str) -> Version | None:
        """Of the picture that is there; None before the first snapshot."""

    def last_pulse(self, cluster: str) -> Pulse | None:
        """The last pulse, also before the first snapshot: why there is none yet. None when nobody has ever watched."""

    def clusters(self) -> list[str]:
        """Names of the clusters that have a picture, sorted."""
