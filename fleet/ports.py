"""What an edge must offer: one Protocol per port, and the one error that they raise.

Owns the vocabulary between the stories (`observe`, `act`) and the adapters. Must not know any technology.
"""

from collections.abc import Iterator
from typing import Protocol

from fleet.domain.kube import Event, Kind


class PortError(Exception):
    """An edge could not do what was asked.

    `retryable` tells whether the same call may succeed later; `status` is the HTTP status where there is one; `reason` is the
    edge's own token (Kubernetes' `reason`, or a transport word such as "silent"); `retry_after_s` is how long the other side
    asked us to wait, 0 when it did not. The message never contains credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        status: int | None = None,
        reason: str = "",
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Stopping(Protocol):
    """The part of `threading.Event` that a waiting edge honours."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Cluster(Protocol):
    """One Kubernetes cluster, read."""

    name: str

    def version(self) -> str:
        """`gitVersion` of the server, asked with a deadline of 2 s. Raises PortError."""

    def follow(self, kind: Kind, since: str | None, stopping: Stopping) -> Iterator[Event]:
        """List (when `since` is None) and watch one kind until `stopping`; never raises for trouble on the way.

        Yields `Listed`, then `Changed`, `Deleted`, `Bookmark`, each with the resourceVersion to resume from, and `Lost` with the
        cause and the pause whenever the stream broke. A version too old, or a server that came back as another, gives `Listed`
        again. Blocks between events; `close()` wakes it.
        """

    def close(self) -> None:
        """End every open stream at once, also one that is silent, from any thread and as often as needed.

        Streams whose `stopping` is not set go on with a new connection; one that is just connecting may miss the call.
        """
